/** The compiler in a worker, as the page calls it. */
import type { Asked, Checked, Made, Question } from './stages.ts'

const TIMEOUT_MS = 60_000

/** One question at a time: who asks again ends what is still worked on. */
export class Compiler {
  #worker: Worker | null = null
  #stop: (() => void) | null = null

  check(text: string): Promise<Checked | null> {
    return this.#ask<Checked>({ kind: 'check', text })
  }

  make(question: Question): Promise<Made | null> {
    return this.#ask<Made>({ kind: 'make', question })
  }

  /** Whoever waits is told null. */
  stop(): void {
    this.#stop?.()
  }

  /** null: another question came, or `stop`. Rejects when time runs out, and for mistakes of the compiler. */
  #ask<A>(asked: Asked): Promise<A | null> {
    this.stop()
    const worker = (this.#worker ??= new Worker('worker.js', { type: 'module' }))
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
      worker.onerror = ({ message }) => end(() => reject(new Error(message || 'the compiler did not load')), { lives: false }) // prettier-ignore
      this.#stop = () => end(() => resolve(null), { lives: false })
      worker.postMessage(asked)
    })
  }
}
