/**
 * The server behind `ktl playground`: the page, and calls of the `ktl` command on the text in it. For this machine and its user alone:
 * bound to 127.0.0.1, and answered are only requests that name it as their host, come from its own page, and have its token.
 */
import { spawn } from 'node:child_process'
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { ktlError } from '../errors/fail.ts'

export interface PlaygroundOptions {
  /** 0: one that is free. */
  readonly port: number
  /** With index.html and what it loads. */
  readonly pages: string
  /** The file that `node` runs as the `ktl` command. */
  readonly command: string
  /** Milliseconds that a call may take; default 60,000. */
  readonly timeoutMs?: number
}

export interface Playground {
  /** With the token. */
  readonly url: string
  close(): Promise<void>
}

/** What may be asked for, as arguments of the command; the text is its standard input. */
const CALLS: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(['tensor', 'plan', 'tile', 'cuda', 'ptx'].map((stage) => [stage, ['inspect', '-', `--stage=${stage}`]])),
  timeline: ['inspect', '-', '--stage=timeline', '--format=html'],
  run: ['run', '-', '--checks=full', '--device=auto', '--show'],
} // prettier-ignore

const MOST_BYTES = 1 << 20
const MOST_OUTPUT = 16 << 20
const TYPES: Readonly<Record<string, string>> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' }

class Refused extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** KTL4109: the port is taken, or not ours to take. */
export async function servePlayground(options: PlaygroundOptions): Promise<Playground> {
  const token = randomBytes(24).toString('hex')
  const server = createServer((request, response) => void answer(request, response, { ...options, token, server }))
  await new Promise<void>((resolve, reject) => {
    server.once('error', ({ code = '' }: NodeJS.ErrnoException) => reject(ktlError('KTL4109', { port: options.port, reason: code }))) // prettier-ignore
    server.listen(options.port, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/?token=${token}`,
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => void server.close(() => resolve()))
    },
  }
}

interface State extends PlaygroundOptions {
  readonly token: string
  readonly server: Server
}

async function answer(request: IncomingMessage, response: ServerResponse, state: State): Promise<void> {
  try {
    const url = new URL(request.url ?? '/', 'http://127.0.0.1')
    checkOrigin(request, state)
    if (url.pathname.startsWith('/api/')) {
      const result = await call(url.pathname.slice(5), request, response, state)
      return send(response, 200, 'application/json', JSON.stringify(result))
    }
    const name = url.pathname === '/' ? 'index.html' : url.pathname.slice(1)
    const type = TYPES[path.extname(name)]
    if (request.method !== 'GET' || type === undefined || !/^[\w.-]+$/.test(name)) throw new Refused(404, 'there is no such page') // prettier-ignore
    const page = await readFile(path.join(state.pages, name)).catch(() => null)
    if (page === null) throw new Refused(404, 'there is no such page')
    send(response, 200, `${type}; charset=utf-8`, page)
  } catch (error) {
    const status = error instanceof Refused ? error.status : 500
    const reason = error instanceof Error ? error.message : String(error)
    send(response, status, 'application/json', JSON.stringify({ error: reason }))
  }
}

/** Other sites may send requests here, also by a name of theirs that resolves to 127.0.0.1. */
function checkOrigin({ headers }: IncomingMessage, { server }: State): void {
  const { port } = server.address() as AddressInfo
  const hosts = [`127.0.0.1:${port}`, `localhost:${port}`]
  if (!hosts.includes(headers.host ?? '')) throw new Refused(403, `this server answers to ${hosts[0]} alone`)
  if (headers.origin !== undefined && !hosts.some((host) => headers.origin === `http://${host}`))
    throw new Refused(403, 'requests come from the playground itself, not from other pages')
}

function isToken(given: unknown, token: string): boolean {
  const [a, b] = [Buffer.from(typeof given === 'string' ? given : ''), Buffer.from(token)]
  return a.length === b.length && timingSafeEqual(a, b)
}

export interface Called {
  /** Exit status; null: it ran out of time. */
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

async function call(name: string, request: IncomingMessage, response: ServerResponse, state: State): Promise<Called> {
  if (!isToken(request.headers['x-ktl-token'], state.token))
    throw new Refused(403, 'the token is missing or that of another playground: open the address that `ktl playground` printed')
  if (request.method !== 'POST' || !Object.hasOwn(CALLS, name)) throw new Refused(404, `no call ${name}`)
  const { source, options } = questionOf(await bodyOf(request))
  return runCommand([...CALLS[name]!, ...options], source, response, state)
} // prettier-ignore

const tooLarge = (): Refused => new Refused(413, 'a program may have 1 MiB')

/** As text, options of the command of their own form each: none can be mistaken for another. */
function questionOf(body: string): { readonly source: string; readonly options: readonly string[] } {
  const wrong = new Refused(400, 'expected { source, kernel?, target?, dims? } of texts')
  let given: Record<string, unknown>
  try {
    given = JSON.parse(body) as Record<string, unknown>
  } catch {
    throw wrong
  }
  if (typeof given !== 'object' || given === null || typeof given.source !== 'string') throw wrong
  if (Buffer.byteLength(given.source) > MOST_BYTES) throw tooLarge()
  const options = ['kernel', 'target', 'dims', 'type', 'epilogue'].flatMap((name) => {
    const value = given[name]
    if (value === undefined || value === '') return []
    if (typeof value !== 'string') throw wrong
    return [`--${name}=${value}`]
  })
  return { source: given.source, options }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    // The rest is read, and dropped: who still writes would not hear the answer.
    if ((bytes += chunk.length) <= 2 * MOST_BYTES) chunks.push(chunk)
  }
  if (bytes > 2 * MOST_BYTES) throw tooLarge()
  return Buffer.concat(chunks).toString()
}

/** In a process of its own: what hangs or ends badly is not the server. */
function runCommand(args: readonly string[], source: string, response: ServerResponse, state: State): Promise<Called> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [state.command, ...args], { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined } }) // prettier-ignore
    const stop = (): void => void child.kill('SIGKILL')
    const timer = setTimeout(stop, state.timeoutMs ?? 60_000)
    // Whoever asked is gone: the page was closed, or asks something else.
    response.once('close', stop)
    const text = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (chunk: string) => {
        if (text[name].length + chunk.length <= MOST_OUTPUT) text[name] += chunk
        else stop()
      })
    child.once('error', reject)
    child.once('close', (status) => {
      clearTimeout(timer)
      response.off('close', stop)
      resolve({ status, ...text })
    })
    child.stdin.on('error', () => {})
    child.stdin.end(source)
  })
}

function send(response: ServerResponse, status: number, type: string, body: string | Uint8Array): void {
  if (response.destroyed) return
  response.writeHead(status, {
    'content-type': type,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    // The editor underlines mistakes with images in its style sheet.
    'content-security-policy': "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
  }) // prettier-ignore
  response.end(body)
}
