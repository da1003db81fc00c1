/** PyTorch in a child process (peer.py, or a script that answers as it does): one JSON line each way. */
import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface, type Interface } from 'node:readline'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { packageRoot } from '../../files/package_root.ts'
import type { Rival } from './problem.ts'

export interface PeerOptions {
  /** From the root of the package; default: `runtime/bench/suite/peer.py`. */
  readonly script?: string
  /** Default: `python3`. */
  readonly python?: string
  /** No GPU and no PyTorch: for tests. */
  readonly fake?: boolean
  /** Offers `torch.compile` as a rival: half a minute for each problem. */
  readonly compile?: boolean
  /** Ordinal of the CUDA device. Default: 0. */
  readonly device?: number
}

export interface PeerIdentity {
  readonly device: string
  readonly torch: string
  readonly cuda: string
}

export interface PeerCheck {
  /** ‖out − expected‖ / ‖expected‖; null: not a number. */
  readonly error: number | null
  readonly most: number
  readonly rows: number
}

/** Lines of what it said on stderr that its end is explained by: the last of a traceback says what went wrong. */
const KEPT_LINES = 20

/** Beside the bundles that `build.mjs` makes for machines without a checkout, else in the package. */
function fileOf(script: string): string {
  const beside = path.join(path.dirname(fileURLToPath(import.meta.url)), path.basename(script))
  const places = [beside, path.join(packageRoot(), script)]
  const file = places.find((place) => existsSync(place))
  if (file !== undefined) return file
  throw new Error(`${path.basename(script)} is missing: neither ${places.join(' nor ')} exists`)
}

export class Peer {
  readonly #script: string
  readonly #child: ChildProcess
  readonly #lines: Interface
  readonly #waiting: { resolve: (line: string) => void; reject: (error: Error) => void }[] = []
  #ended: Error | null = null

  /** Throws when the script is not there; what Python itself says comes with the first answer. */
  constructor({
    script = 'runtime/bench/suite/peer.py',
    python = 'python3',
    fake = false,
    compile = false,
    device = 0,
  }: PeerOptions = {}) {
    this.#script = fileOf(script)
    const args = [this.#script, `--device=${device}`, ...(fake ? ['--fake'] : []), ...(compile ? ['--compile'] : [])]
    this.#child = spawn(python, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    this.#lines = createInterface({ input: this.#child.stdout! })
    this.#lines.on('line', (line) => this.#waiting.shift()?.resolve(line))
    const said: string[] = []
    createInterface({ input: this.#child.stderr! }).on('line', (line) => {
      if (line.trim() !== '') said.push(line.trim())
      if (said.length > KEPT_LINES) said.shift()
    })
    const end = (reason: string): void => {
      this.#ended ??= new Error(`${[python, ...args].join(' ')} ${reason}`)
      for (const { reject } of this.#waiting.splice(0)) reject(this.#ended)
    }
    this.#child.on('error', (error) => end(`does not start: ${error.message}`))
    this.#child.on('close', (status, signal) => {
      const how = signal ? `was ended by ${signal}` : `ended with status ${status}`
      end(`${how}${said.length > 0 ? `: ${said.at(-1)}\n${said.join('\n')}` : ''}`)
    })
    // Its end says more than the pipe that breaks.
    this.#child.stdin!.on('error', () => {})
  }

  /** Its process is gone. */
  get ended(): boolean {
    return this.#ended !== null
  }

  hello(): Promise<PeerIdentity> {
    return this.#ask({ op: 'hello' })
  }

  /** Makes the operands; resolves with what it can do with them. */
  async open(problem: object, seed: number): Promise<readonly Rival[]> {
    return (await this.#ask<{ variants: readonly Rival[] }>({ op: 'open', p: problem, seed })).variants
  }

  /** Milliseconds of each launch. */
  async round(variant: Rival, launches: number, warm: number): Promise<readonly number[]> {
    return (await this.#ask<{ ms: readonly number[] }>({ op: 'round', variant, launches, warm })).ms
  }

  check(file: string, out: string, rows: readonly (readonly [number, number])[]): Promise<PeerCheck> {
    return this.#ask({ op: 'check', file, out, rows })
  }

  close(): Promise<object> {
    return this.#ask({ op: 'close' })
  }

  quit(): void {
    if (!this.#ended) this.#child.stdin!.end(`${JSON.stringify({ op: 'quit' })}\n`)
  }

  async #ask<T>(request: object): Promise<T> {
    if (this.#ended) throw this.#ended
    const line = await new Promise<string>((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      this.#child.stdin!.write(`${JSON.stringify(request)}\n`)
    })
    const answer = JSON.parse(line) as { ok: boolean; error?: string } & T
    if (!answer.ok) throw new Error(`${path.basename(this.#script)}: ${answer.error}`)
    return answer
  }
}
