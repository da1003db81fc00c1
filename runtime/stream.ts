import type { Device } from './device.ts'

export interface EnqueueOptions {
  /** Aborted before the work starts: it never does, and the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

const ignore = (): void => {}

/**
 * Work in order: each piece starts when the one before it has settled, and none blocks the event loop. A failure
 * rejects the promise of its piece, does not stop the pieces behind it, and is thrown once more by the next
 * `synchronize` (a launch whose promise nobody awaits cannot fail in silence).
 */
export class Stream {
  readonly device: Device
  #tail: Promise<void> = Promise.resolve()
  #pending = 0
  /** Of failed work, the first since the last report. `detached`: no caller holds a promise of it. */
  #failure: { readonly error: unknown; readonly detached: boolean } | null = null

  constructor(device: Device) {
    this.device = device
  }

  /** No work is enqueued or running. */
  get idle(): boolean {
    return this.#pending === 0
  }

  /** Settles when everything enqueued so far has; never rejects. */
  get settled(): Promise<void> {
    return this.#tail
  }

  /** Runs `work` behind everything enqueued before. */
  enqueue<T>(work: () => Promise<T> | T, options: EnqueueOptions = {}): Promise<T> {
    return this.#append(work, options, false)
  }

  /** As `enqueue`, for callers that keep no promise: a failure surfaces at `synchronize` or at the next copy. */
  enqueueDetached(work: () => Promise<unknown> | unknown, options: EnqueueOptions = {}): void {
    void this.#append(work, options, true)
  }

  /** A copy is a point where the host looks at results: it throws what detached work before it threw. */
  enqueueCopy<T>(work: () => Promise<T> | T, options: EnqueueOptions = {}): Promise<T> {
    return this.enqueue(() => {
      if (this.#failure?.detached) this.#throwFailure()
      return work()
    }, options)
  }

  #append<T>(work: () => Promise<T> | T, { signal }: EnqueueOptions, detached: boolean): Promise<T> {
    this.#pending++
    const result = this.#tail.then(() => {
      signal?.throwIfAborted()
      return work()
    })
    this.#tail = result.then(ignore, (error: unknown) => {
      this.#failure ??= { error, detached }
    })
    this.#tail = this.#tail.finally(() => this.#pending--)
    // Reported by `synchronize`: an unawaited promise must not end the process.
    result.catch(ignore)
    return result
  }

  #throwFailure(): void {
    const failure = this.#failure
    this.#failure = null
    if (failure) throw failure.error
  }

  /** Waits for everything enqueued so far, then throws the first failure since the last call. */
  async synchronize(): Promise<void> {
    await this.#tail
    this.#throwFailure()
  }
}
