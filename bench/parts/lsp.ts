/** What an edit costs: from the change that an editor sends to the diagnostics that come back, in one process. */
import { readFileSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import {
  createConnection,
  createProtocolConnection,
  InitializeRequest,
  PublishDiagnosticsNotification,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-languageserver/node'
import { serve } from '../../runtime/lsp/server.ts'
import { median } from '../../runtime/bench/statistics.ts'
import type { Measurement } from '../measure.ts'

const SEED = 1
const EDITS = 2000
const WARM_UP = 40
const LINES = 500
const FILES = ['gemm', 'scaled_gemm', 'attention', 'grouped_gemm', 'linear', 'rows', 'quantize']
const PIECES = ['x', ' ', '(', ')', '\n', '}', 'A', 'f16', '+ 1', '// a', 'relu(X)', 'sum[k](']

/** Kernels of the library, up to the line count. */
function textOfLines(): string {
  const texts = FILES.map((name) => readFileSync(new URL(`../../runtime/library/${name}.ktl`, import.meta.url), 'utf8'))
  return `${texts.join('\n').split('\n').slice(0, LINES).join('\n')}\n`
}

/** Numbers in [0, 1), the same for a seed (mulberry32). */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

export async function lspPart(): Promise<Measurement[]> {
  const [toServer, toClient] = [new PassThrough(), new PassThrough()]
  serve(createConnection(new StreamMessageReader(toServer), new StreamMessageWriter(toClient)), {
    make: async () => null,
    close: () => {},
  })
  const client = createProtocolConnection(new StreamMessageReader(toClient), new StreamMessageWriter(toServer))
  let arrived = (): void => {}
  client.onNotification(PublishDiagnosticsNotification.type, () => arrived())
  client.listen()
  await client.sendRequest(InitializeRequest.type, { processId: null, rootUri: null, capabilities: {} })

  const uri = 'file:///bench.ktl'
  const lines = textOfLines().split('\n')
  /** Milliseconds, and those of the processor: other work on the machine counts in the first alone. */
  const send = async (method: string, params: object): Promise<readonly [number, number]> => {
    const published = new Promise<void>((resolve) => (arrived = resolve))
    const used = process.cpuUsage()
    const start = performance.now()
    await client.sendNotification(method, params)
    await published
    const { user, system } = process.cpuUsage(used)
    return [performance.now() - start, (user + system) / 1000]
  }
  await send('textDocument/didOpen', { textDocument: { uri, languageId: 'ktl', version: 0, text: lines.join('\n') } })
  const next = random(SEED)
  const times: (readonly [number, number])[] = []
  for (let version = 1; times.length < EDITS + WARM_UP; version += 2) {
    const line = Math.floor(next() * lines.length)
    const character = Math.floor(next() * (lines[line]!.length + 1))
    const text = PIECES[Math.floor(next() * PIECES.length)]!
    const start = { line, character }
    const broken = text.split('\n')
    const end = { line: line + broken.length - 1, character: broken.length > 1 ? 0 : character + text.length }
    const change = (version: number, range: object, text: string) =>
      send('textDocument/didChange', { textDocument: { uri, version }, contentChanges: [{ range, text }] })
    // Written, and taken back: the text stays what it is.
    times.push(await change(version, { start, end: start }, text), await change(version + 1, { start, end }, ''))
  }
  client.end()
  const measured = times.slice(WARM_UP)
  const note = `${measured.length} edits at random places, seed ${SEED}, from the change to the diagnostics`
  const row = (what: string, value: number, note: string): Measurement => ({
    part: 'lsp',
    what: `an edit of ${lines.length - 1} lines, ${what}`,
    value,
    unit: 'ms',
    goal: 50,
    note,
  })
  const [wall, processor] = [measured.map(([ms]) => ms), measured.map(([, ms]) => ms)]
  return [
    row('median', median(wall), note),
    row('worst', Math.max(...wall), note),
    row('median, processor', median(processor), 'the same edits: time of the processor, all threads'),
    row('worst, processor', Math.max(...processor), 'the same edits: time of the processor, all threads'),
  ]
}
