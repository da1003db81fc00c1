import { ktlError } from '../errors/fail.ts'
import type { Device, Stream as PublicStream } from '../devices/device.ts'
import type { EnqueueOptions } from '../devices/options.ts'
import { functionOf, optionsOf, signalOf } from '../errors/given.ts'

type Work<T> = () => Promise<T> | T

/** What was enqueued while a stream recorded. */
export interface Recording {
  readonly work: Work<unknown>[]
  /** Memory that the work uses, to be kept alive with it. */
  readonly memory: Set<{ use(stream: HostStream): void }>
}

const ignore = (): void => {}

/** A promise that knows whether anybody looks at how it ends. */
class Outcome<T> extends Promise<T> {
  handled = false

  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  override then<A = T, B = never>(
    fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.handled = true
    return super.then(fulfilled, rejected)
  }
}

interface Failure {
  readonly error: unknown
  /** null: detached work, of which no caller holds a promise. */
  readonly outcome: Outcome<unknown> | null
}

/** Failures that are kept until somebody asks. */
const MAX_FAILURES = 64

/** The queue of the host. A device that keeps order itself overrides what goes to it at once. */
export class HostStream implements PublicStream {
  /** As users know it, in messages. */
  static readonly name: string = 'Stream'
  readonly device: Device
  #tail: Promise<void> = Promise.resolve()
  #pending = 0
  /** Since the last report, as they came. */
  #failures: Failure[] = []
  #recording: Recording | null = null
  #failed = 0

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

  /** Pieces of work that have failed so far. */
  get failures(): number {
    return this.#failed
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
  record(fill: (stream: PublicStream) => void): Recording {
    if (this.#recording) throw notInGraphs('another capture of the same stream')
    functionOf('fill', fill)
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
  keep(memory: { use(stream: HostStream): void }): void {
    this.#recording?.memory.add(memory)
  }

  #append<T>(work: Work<T>, options: EnqueueOptions, detached: boolean): Promise<T> {
    const signal = signalOf(optionsOf('options', options).signal)
    functionOf('work', work)
    this.#pending++
    const result = this.#tail.then(() => {
      signal?.throwIfAborted()
      return work()
    })
    const outcome = new Outcome<T>((resolve, reject) => void result.then(resolve, reject))
    // Reported by `synchronize`: an unawaited promise must not end the process.
    Promise.prototype.then.call(outcome, ignore, ignore)
    this.#tail = result.then(ignore, (error: unknown) => {
      this.#failed++
      this.#failures = [...this.#failures.filter(isOpen), { error, outcome: detached ? null : outcome }].slice(
        0,
        MAX_FAILURES,
      )
    })
    this.#tail = this.#tail.finally(() => this.#pending--)
    return outcome
  }

  /** Throws the failure that no caller holds a promise of, if there is one. */
  throwDetached(): void {
    const failure = this.#failures.find(({ outcome }) => outcome === null)
    if (!failure) return
    this.#failures = this.#failures.filter(({ outcome }) => outcome !== null)
    throw failure.error
  }

  /** Waits for everything enqueued so far, then throws the first failure since the last call that nobody has looked at. */
  async synchronize(): Promise<void> {
    await this.#tail
    const failure = this.#failures.find(isOpen)
    this.#failures = []
    if (failure) throw failure.error
  }
}

/**
 * Work in order: each piece starts when the one before it has settled, and none blocks the event loop. A failure
 * rejects the promise of its piece and does not stop the pieces behind it; one that nobody looks at is thrown by the next
 * `synchronize` (a launch whose promise nobody awaits cannot fail in silence).
 *
 * @example
 * const stream = device.createStream()
 * void stream.enqueue(() => console.log('first'))
 * await stream.enqueue(() => console.log('second'))
 * await stream.synchronize()
 * console.log(stream instanceof Stream, stream.idle) // true true
 */
export const Stream: abstract new (...args: never[]) => PublicStream = HostStream
export type Stream = PublicStream

export function notInGraphs(what: string): Error {
  return ktlError('KTL6034', { what })
}

const isOpen = ({ outcome }: Failure): boolean => !outcome?.handled
