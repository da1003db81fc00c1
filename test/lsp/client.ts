/** A client of the language server, in the process of the test or beside it. */
import { PassThrough } from 'node:stream'
import {
  createConnection,
  createProtocolConnection,
  DidChangeTextDocumentNotification,
  DidOpenTextDocumentNotification,
  InitializeRequest,
  InlayHintRefreshRequest,
  PublishDiagnosticsNotification,
  StreamMessageReader,
  StreamMessageWriter,
  type Position,
  type ProtocolConnection,
  type PublishDiagnosticsParams,
} from 'vscode-languageserver/node'
import { checkSource } from '../../runtime/programs/check_source.ts'
import { kernelFacts } from '../../runtime/lsp/facts.ts'
import type { FactsMaker } from '../../runtime/lsp/known_facts.ts'
import { serve } from '../../runtime/lsp/server.ts'

export const URI = 'file:///kernels/a.ktl'

/** `│` marks the cursor. */
export function cursorIn(marked: string): { text: string; position: Position } {
  const before = marked.slice(0, marked.indexOf('│')).split('\n')
  return { text: marked.replace('│', ''), position: { line: before.length - 1, character: before.at(-1)!.length } }
}

export class Client {
  readonly connection: ProtocolConnection
  refreshes = 0
  readonly #published: PublishDiagnosticsParams[] = []
  readonly #waiting: ((params: PublishDiagnosticsParams) => void)[] = []
  #version = 0

  constructor(input: NodeJS.ReadableStream, output: NodeJS.WritableStream) {
    this.connection = createProtocolConnection(new StreamMessageReader(input), new StreamMessageWriter(output))
    this.connection.onNotification(PublishDiagnosticsNotification.type, (params) => {
      const next = this.#waiting.shift()
      if (next) next(params)
      else this.#published.push(params)
    })
    this.connection.onRequest(InlayHintRefreshRequest.type, () => void this.refreshes++)
    this.connection.listen()
  }

  initialize() {
    const capabilities = { workspace: { inlayHint: { refreshSupport: true } } }
    return this.connection.sendRequest(InitializeRequest.type, { processId: null, rootUri: null, capabilities })
  }

  /** The next diagnostics that the server publishes. */
  published(): Promise<PublishDiagnosticsParams> {
    const known = this.#published.shift()
    return known ? Promise.resolve(known) : new Promise((resolve) => this.#waiting.push(resolve))
  }

  async open(text: string, uri = URI): Promise<PublishDiagnosticsParams> {
    const textDocument = { uri, languageId: 'ktl', version: ++this.#version, text }
    await this.connection.sendNotification(DidOpenTextDocumentNotification.type, { textDocument })
    return this.published()
  }

  /** Replaces `range`; null: everything. */
  async change(text: string, range: { start: Position; end: Position } | null = null, uri = URI) {
    await this.connection.sendNotification(DidChangeTextDocumentNotification.type, {
      textDocument: { uri, version: ++this.#version },
      contentChanges: [range ? { range, text } : { text }],
    })
    return this.published()
  }

  /** Asks about a place in `URI`. */
  at<R>(method: string, position: Position, more: object = {}): Promise<R> {
    return this.connection.sendRequest(method, { textDocument: { uri: URI }, position, ...more })
  }

  /** Opens the text and asks about its `│`. */
  async ask<R>(method: string, marked: string, more: object = {}): Promise<R> {
    const { text, position } = cursorIn(marked)
    await this.open(text)
    return this.at(method, position, more)
  }
}

/** In this thread, whenever there is time. */
const maker: FactsMaker = {
  make: async (source, kernel) => {
    const family = checkSource(source).program.kernels.find(({ name }) => name === kernel)
    return family ? kernelFacts(family) : null
  },
  close: () => {},
}

/** A server in this process. `raw`: what the client writes to. */
export async function startServer(): Promise<Client & { readonly raw: PassThrough }> {
  const [toServer, toClient] = [new PassThrough(), new PassThrough()]
  const connection = createConnection(new StreamMessageReader(toServer), new StreamMessageWriter(toClient))
  serve(connection, maker)
  const client = new Client(toClient, toServer)
  await client.initialize()
  return Object.assign(client, { raw: toServer })
}
