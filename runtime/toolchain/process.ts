/** Running compilers: argument vectors, no shell, a limit on how many at once, and nothing left behind. */
import { spawn, type ChildProcess } from 'node:child_process'
import { setMaxListeners } from 'node:events'
import * as fs from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { ktlError } from '../errors/fail.ts'
import { removeAbandoned, TAG, temporaryTag } from '../files/temporary.ts'

export interface RunOptions {
  readonly cwd: string
  readonly env?: NodeJS.ProcessEnv
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
}

export interface RunResult {
  /** null: killed, or never started. */
  readonly status: number | null
  readonly timedOut: boolean
  /** Why the program did not start. */
  readonly startError: Error | null
  /** stdout and stderr as they came, the first MiB. */
  readonly output: string
}

const OUTPUT_LIMIT = 1 << 20
const children = new Set<ChildProcess>()
const folders = new Set<string>()
let hooked = false

/** An exit of this process takes its compilers and temporary folders along. */
function hookExit(): void {
  if (hooked) return
  hooked = true
  process.on('exit', () => {
    children.forEach(killGroup)
    folders.forEach((folder) => fs.rmSync(folder, { recursive: true, force: true }))
  })
}

/** nvcc runs cicc and ptxas as children of its own: the whole group must go. */
function killGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  } catch {
    // It has exited by itself.
  }
}

/** Never rejects but for the signal, whose reason it rejects with once the program is dead. */
export async function runProgram(file: string, args: readonly string[], options: RunOptions): Promise<RunResult> {
  const { cwd, env = process.env, timeoutMs, signal } = options
  signal?.throwIfAborted()
  hookExit()
  // One listener for each program that runs, of which there are as many as cores: no leak.
  if (signal) setMaxListeners(0, signal)
  return new Promise((resolve, reject) => {
    let output = ''
    let timedOut = false
    let startError: Error | null = null
    const child = spawn(file, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    children.add(child)
    const collect = (chunk: string): void => {
      if (output.length < OUTPUT_LIMIT) output += chunk
    }
    child.stdout.setEncoding('utf8').on('data', collect)
    child.stderr.setEncoding('utf8').on('data', collect)
    const timer = setTimeout(() => {
      timedOut = true
      killGroup(child)
    }, timeoutMs)
    const abort = (): void => killGroup(child)
    signal?.addEventListener('abort', abort, { once: true })
    child.on('error', (error) => (startError = error))
    child.on('close', (status) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      children.delete(child)
      if (signal?.aborted) reject(signal.reason)
      else resolve({ status, timedOut, startError, output: output.slice(0, OUTPUT_LIMIT) })
    })
  })
}

const TEMPORARY = new RegExp(`^ktl-${TAG}$`)
let swept: Promise<void> | undefined

/** A folder of mode 0700 that exists while `work` runs. KTL6008 where none can be made. */
export async function withTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  hookExit()
  // SIGKILL leaves no time for that: the next process does it, once.
  await (swept ??= removeAbandoned(os.tmpdir(), TEMPORARY))
  const folder = path.join(os.tmpdir(), `ktl-${temporaryTag()}`)
  try {
    await fs.promises.mkdir(folder, { mode: 0o700 })
  } catch (error) {
    throw ktlError('KTL6008', { file: folder, reason: (error as Error).message }, { cause: error })
  }
  folders.add(folder)
  try {
    return await work(folder)
  } finally {
    await fs.promises.rm(folder, { recursive: true, force: true })
    folders.delete(folder)
  }
}

/** At most `limit` pieces of work at once, the others in the order they came. */
export class Semaphore {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(limit: number) {
    this.#free = limit
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free++
    }
  }
}
