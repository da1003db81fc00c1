import { ktlError } from './fail.ts'
import type { Device } from './device.ts'

export interface EnqueueOptions {
  /** Aborted before the work starts: it never does, and the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

type Work<T> = () => Promise<T> | T

/** What was enqueued while a stream recorded. */
export interface Recording {
  readonly work: Work<unknown>[]
  /** Memory that the work uses, to be kept alive with it. */
  readonly memory: Set<{ use(stream: Stream): void }>
}

const ignore = (): void => {}

/**
 * Work in order: each piece starts when the one before it has settled, and none blocks the event loop. A failure
 * rejects the promise of its piece, does not stop the pieces behind it, and is thrown once more by the next
 * `synchronize` (a launch whose promise nobody awaits cannot fail in silence).
 *
 * @example
 * const stream = device.createStream()
 * void stream.enqueue(() => console.log('first'))
 * await stream.enqueue(() => console.log('second'))
 * await stream.synchronize()
 * console.log(stream instanceof Stream, stream.idle) // true true
 */
export class Stream {
  readonly device: Device
  #tail: Promise<void> = Promise.resolve()
  #pending = 0
  /** Of failed work, the first since the last report. `detached`: no caller holds a promise of it. */
  #failure: { readonly error: unknown; readonly detached: boolean } | null = null
  #recording: Recording | null = null

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

  /** What is enqueued is recorded for a graph, and not run: see `device.capture`. */
  get capturing(): boolean {
    return this.#recording !== null
  }

  /** Runs `work` behind everything enqueued before. */
  enqueue<T>(work: Work<T>, options: EnqueueOptions = {}): Promise<T> {
    if (this.#recording) return Promise.reject(notInGraphs('a copy, or a launch whose result is waited for'))
    return this.#append(work, options, false)
  }

  /** As `enqueue`, for callers that keep no promise: a failure surfaces at `synchronize` or at the next copy. */
  enqueueDetached(work: Work<unknown>, options: EnqueueOptions = {}): void {
    if (this.#recording) this.#recording.work.push(work)
    else void this.#append(work, options, true)
  }

  /** As `enqueueDetached`, for work that only hands something to the device: where a device keeps order itself, at once. */
  submit(work: Work<unknown>, options: EnqueueOptions = {}): void {
    this.enqueueDetached(work, options)
  }

  /** A copy is a point where the host looks at results: it throws what detached work before it threw. */
  enqueueCopy<T>(work: Work<T>, options: EnqueueOptions = {}): Promise<T> {
    return this.enqueue(() => {
      this.throwDetached()
      return work()
    }, options)
  }

  /** Runs `fill` with this stream recording what is enqueued. KTL6034 for what a graph cannot hold. */
  record(fill: (stream: Stream) => void): Recording {
    if (this.#recording) throw notInGraphs('another capture of the same stream')
    const recording: Recording = { work: [], memory: new Set() }
    this.#recording = recording
    try {
      const result: unknown = fill(this)
      if (result instanceof Promise) {
        result.catch(ignore)
        throw notInGraphs('an async function: what it enqueues after its first `await`')
      }
    } finally {
      this.#recording = null
    }
    return recording
  }

  /** Announces memory that enqueued work uses: a recording keeps it alive. */
  keep(memory: { use(stream: Stream): void }): void {
    this.#recording?.memory.add(memory)
  }

  #append<T>(work: Work<T>, { signal }: EnqueueOptions, detached: boolean): Promise<T> {
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

  /** Throws the failure that no caller holds a promise of, if there is one. */
  throwDetached(): void {
    if (this.#failure?.detached) this.#throwFailure()
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

export function notInGraphs(what: string): Error {
  return ktlError('KTL6034', { what })
}
