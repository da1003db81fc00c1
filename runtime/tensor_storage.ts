import type { Device } from './device.ts'
import type { Stream } from './stream.ts'

/** Frees device memory whose storage was dropped without `free`: a net for leaks, not a way to manage memory. */
const leaks = new FinalizationRegistry<{ device: Device; pointer: bigint }>(({ device, pointer }) => {
  if (!device.closed) device.free(pointer)
})

/** One allocation, shared by a tensor and its views, and the streams that have used it. */
export class Storage {
  readonly device: Device
  readonly pointer: bigint
  readonly bytes: number
  /** The stream of the latest use comes last. */
  readonly #streams: Set<Stream>
  readonly #owned: boolean
  #freed = false

  private constructor(device: Device, pointer: bigint, bytes: number, owned: boolean) {
    this.device = device
    this.pointer = pointer
    this.bytes = bytes
    this.#owned = owned
    this.#streams = new Set([device.defaultStream])
  }

  static allocate(device: Device, bytes: number): Storage {
    const pointer = device.malloc(bytes)
    const storage = new Storage(device, pointer, bytes, true)
    leaks.register(storage, { device, pointer }, storage)
    return storage
  }

  static borrow(device: Device, pointer: bigint, bytes: number): Storage {
    device.assertOpen()
    return new Storage(device, pointer, bytes, false)
  }

  get freed(): boolean {
    return this.#freed
  }

  use(stream: Stream): void {
    this.#streams.delete(stream)
    this.#streams.add(stream)
  }

  /** Enqueues a copy behind the work of every stream that uses the storage, in order with the latest of them. */
  copy<T>(work: () => Promise<T>): Promise<T> {
    const streams = [...this.#streams]
    const last = streams.pop()!
    const others = streams.map((stream) => stream.settled)
    return last.enqueueCopy(async () => {
      await Promise.all(others)
      return work()
    })
  }

  free(): void {
    if (this.#freed) return
    this.#freed = true
    leaks.unregister(this)
    if (this.#owned && !this.device.closed) this.device.free(this.pointer)
  }
}
