/** PyTorch in a child process (peer.py, or a script that answers as it does): one JSON line each way. */
import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface, type Interface } from 'node:readline'
import path from 'node:path'
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

export class Peer {
  readonly #script: string
  readonly #child: ChildProcess
  readonly #lines: Interface
  readonly #waiting: { resolve: (line: string) => void; reject: (error: Error) => void }[] = []
  #ended: Error | null = null

  constructor({
    script = 'runtime/bench/suite/peer.py',
    python = 'python3',
    fake = false,
    compile = false,
    device = 0,
  }: PeerOptions = {}) {
    this.#script = script
    const args = [
      path.join(packageRoot(), script),
      `--device=${device}`,
      ...(fake ? ['--fake'] : []),
      ...(compile ? ['--compile'] : []),
    ]
    this.#child = spawn(python, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#lines = createInterface({ input: this.#child.stdout! })
    this.#lines.on('line', (line) => this.#waiting.shift()?.resolve(line))
    const end = (reason: string): void => {
      this.#ended ??= new Error(`${python} ${reason}`)
      for (const { reject } of this.#waiting.splice(0)) reject(this.#ended)
    }
    this.#child.on('error', (error) => end(error.message))
    this.#child.on('close', (status) => end(`ended with ${status}`))
    this.#child.stdin!.on('error', (error) => end(error.message))
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
