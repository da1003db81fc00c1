/** Facts of kernels, kept by what they follow from: the text of the kernel, its schedules and the epilogues of the file. */
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import type { KernelDecl } from '../../grammar/ast.ts'
import type { Source } from '../../grammar/diagnostics.ts'
import { packageRoot } from '../files/package_root.ts'
import type { Analysis } from './analysis.ts'
import type { TargetFacts } from './facts.ts'
import type { FactsAnswer, FactsRequest } from './facts_worker.ts'

/** Works facts out, whenever it comes to it. */
export interface FactsMaker {
  make(source: Source, kernel: string): Promise<readonly TargetFacts[] | null>
  close(): void
}

/** Kernels whose facts are kept. */
const KEPT = 500

export class KnownFacts {
  readonly #maker: FactsMaker
  readonly #known = new Map<string, readonly TargetFacts[] | null>()
  readonly #pending = new Set<string>()
  readonly #changed: () => void

  /** `changed`: facts have come that were asked for before. */
  constructor(maker: FactsMaker, changed: () => void) {
    this.#maker = maker
    this.#changed = changed
  }

  /** At once: null where they are not known yet, or the kernel has errors. */
  of(analysis: Analysis, kernel: KernelDecl): readonly TargetFacts[] | null {
    const key = keyOf(analysis, kernel)
    const known = this.#known.get(key)
    if (known !== undefined || this.#pending.has(key) || !analysis.familyOf(kernel)) return known ?? null
    this.#pending.add(key)
    const keep = (facts: readonly TargetFacts[] | null): void => {
      this.#pending.delete(key)
      this.#known.set(key, facts)
      const [oldest] = this.#known.keys()
      if (this.#known.size > KEPT) this.#known.delete(oldest!)
      if (facts) this.#changed()
    }
    this.#maker.make(analysis.source, kernel.name.text).then(keep, () => keep(null))
    return null
  }

  close(): void {
    this.#maker.close()
  }
}

function keyOf(analysis: Analysis, kernel: KernelDecl): string {
  const others = analysis.program.items.filter(
    (item) =>
      item.kind === 'epilogue' ||
      (item.kind === 'schedule' && item.kernels.some(({ text }) => text === kernel.name.text)),
  )
  return [kernel, ...others].map(({ span }) => analysis.textOf(span)).join('\0')
}

/** In a thread, which starts with the first request and keeps no process alive. */
export class FactsThread implements FactsMaker {
  #worker: Worker | null = null
  #lastId = 0
  readonly #waiting = new Map<
    number,
    { resolve: (facts: FactsAnswer['facts']) => void; reject: (why: Error) => void }
  >()

  make(source: Source, kernel: string): Promise<readonly TargetFacts[] | null> {
    const request: FactsRequest = { id: ++this.#lastId, source, kernel }
    return new Promise((resolve, reject) => {
      this.#waiting.set(request.id, { resolve, reject })
      this.#thread().postMessage(request)
    })
  }

  close(): void {
    void this.#worker?.terminate()
  }

  #thread(): Worker {
    if (this.#worker) return this.#worker
    // What this process was started with, loaders and all, is nothing to the thread.
    const worker = new Worker(path.join(packageRoot(), 'dist/facts_worker.js'), { execArgv: [] })
    worker.unref()
    worker.on('message', ({ id, facts }: FactsAnswer) => {
      this.#waiting.get(id)?.resolve(facts)
      this.#waiting.delete(id)
    })
    // A kernel that ends the thread has no facts; the next request starts another.
    worker.on('error', (error) => this.#end(error as Error))
    worker.on('exit', () => this.#end(new Error('the thread has ended')))
    return (this.#worker = worker)
  }

  #end(why: Error): void {
    this.#worker = null
    for (const { reject } of this.#waiting.values()) reject(why)
    this.#waiting.clear()
  }
}
