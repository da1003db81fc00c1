import { nativeError } from '../addon/findings.ts'
import { HostStream, notInGraphs } from '../streams/stream.ts'
import type { EnqueueOptions } from './options.ts'
import type { Device, Stream } from './device.ts'
import type { NativeCudaDevice } from '../addon/cuda.ts'

/**
 * A stream of the driver. What is submitted goes to the driver at once; work of the host waits for what the driver has
 * before it, and what is submitted meanwhile waits for the host's work.
 */
export class CudaStream extends HostStream {
  readonly id: number
  readonly #native: NativeCudaDevice

  constructor(device: Device, native: NativeCudaDevice, id: number) {
    super(device)
    this.#native = native
    this.id = id
  }

  /** No work of the host is enqueued: the driver alone keeps order. */
  get direct(): boolean {
    return super.idle
  }

  override get idle(): boolean {
    if (!super.idle || this.capturing) return false
    try {
      return this.#native.idle(this.id)
    } catch {
      // Nothing runs any more on a device that was lost.
      return true
    }
  }

  override get settled(): Promise<void> {
    return this.completion().catch(() => {})
  }

  /** As `settled`, but rejects when the device finds a kernel to have failed. */
  async completion(): Promise<void> {
    if (this.capturing) await Promise.resolve()
    if (!this.direct) await super.settled
    try {
      await this.#native.settled(this.id)
    } catch (error) {
      throw nativeError(error, null)
    }
  }

  override enqueue<T>(work: () => Promise<T> | T, options: EnqueueOptions = {}): Promise<T> {
    return super.enqueue(() => this.#afterDevice(work), options)
  }

  override enqueueDetached(work: () => unknown, options: EnqueueOptions = {}): void {
    if (this.capturing) throw notInGraphs('work of the host')
    super.enqueueDetached(() => this.#afterDevice(work), options)
  }

  override submit(work: () => unknown, options: EnqueueOptions = {}): void {
    if (!this.direct) return super.enqueueDetached(work, options)
    options.signal?.throwIfAborted()
    work()
  }

  override async synchronize(): Promise<void> {
    await this.completion()
    await super.synchronize()
  }

  /** The driver records, not the host. KTL6034 while the host has work in the stream. */
  override record(fill: (stream: Stream) => void): ReturnType<HostStream['record']> {
    if (!this.direct) throw notInGraphs('copies and other work of the host that the stream has not done yet')
    return super.record(fill)
  }

  async #afterDevice<T>(work: () => Promise<T> | T): Promise<T> {
    try {
      await this.#native.settled(this.id)
    } catch (error) {
      throw nativeError(error, null)
    }
    return work()
  }
}
