/** The compiler, and the virtual device, each in a worker of its own, as the page calls them. */
import type { Asked, Checked, DeviceQuestion, Made, Question, Ran } from './stages.ts'

const TIMEOUT_MS = 60_000

/** One question at a time: who asks again ends what is still worked on. */
abstract class InWorker<Q> {
  readonly #script: string
  #worker: Worker | null = null
  #stop: (() => void) | null = null

  constructor(script: string) {
    this.#script = script
  }

  /** Whoever waits is told null. */
  stop(): void {
    this.#stop?.()
  }

  /** null: another question came, or `stop`. Rejects when time runs out, and for mistakes of the compiler. */
  protected ask<A>(asked: Q): Promise<A | null> {
    this.stop()
    const worker = (this.#worker ??= new Worker(this.#script, { type: 'module' }))
    return new Promise<A | null>((resolve, reject) => {
      const end = (settle: () => void, { lives }: { lives: boolean }): void => {
        clearTimeout(timer)
        worker.onmessage = worker.onerror = this.#stop = null
        if (!lives) {
          worker.terminate()
          this.#worker = null
        }
        settle()
      }
      const timer = setTimeout(
        () => end(() => reject(new Error('ended: it took longer than a minute')), { lives: false }),
        TIMEOUT_MS,
      )
      worker.onmessage = ({ data }: MessageEvent<A>) => end(() => resolve(data), { lives: true })
      worker.onerror = ({ message }) => end(() => reject(new Error(message || `${this.#script} did not load`)), { lives: false }) // prettier-ignore
      this.#stop = () => end(() => resolve(null), { lives: false })
      worker.postMessage(asked)
    })
  }
}

export class Compiler extends InWorker<Asked> {
  constructor() {
    super('worker.js')
  }

  check(text: string): Promise<Checked | null> {
    return this.ask<Checked>({ kind: 'check', text })
  }

  make(question: Question): Promise<Made | null> {
    return this.ask<Made>({ kind: 'make', question })
  }
}

/** A kernel that does not end is ended with its worker. */
export class PageDevice extends InWorker<DeviceQuestion> {
  run(question: DeviceQuestion): Promise<Ran | null> {
    return this.ask<Ran>(question)
  }
}
