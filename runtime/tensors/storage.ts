import { assertOpen } from '../errors/given.ts'
import type { InternalDevice } from '../devices/internal.ts'
import type { HostStream } from '../streams/stream.ts'

/** Frees device memory whose storage was dropped without `free`: a net for leaks, not a way to manage memory. */
const leaks = new FinalizationRegistry<{ device: InternalDevice; pointer: bigint }>(({ device, pointer }) => {
  if (!device.closed) device.free(pointer)
})

/** Runs `work` in order on the last of the streams, when all of them have done what is enqueued now. */
export function behind<T>(streams: readonly HostStream[], work: () => Promise<T> | T): Promise<T> {
  const last = streams.at(-1)!
  const others = streams.slice(0, -1).map((stream) => stream.settled)
  return last.enqueueCopy(async () => {
    await Promise.all(others)
    return work()
  })
}

/** One allocation, shared by a tensor and its views, and the streams that have used it. */
export class Storage {
  readonly device: InternalDevice
  readonly pointer: bigint
  readonly bytes: number
  /** The stream of the latest use comes last. */
  readonly #streams: Set<HostStream>
  readonly #owned: boolean
  #freed = false

  private constructor(device: InternalDevice, pointer: bigint, bytes: number, owned: boolean) {
    this.device = device
    this.pointer = pointer
    this.bytes = bytes
    this.#owned = owned
    this.#streams = new Set([device.defaultStream])
  }

  static allocate(device: InternalDevice, bytes: number): Storage {
    const pointer = device.malloc(bytes)
    const storage = new Storage(device, pointer, bytes, true)
    leaks.register(storage, { device, pointer }, storage)
    return storage
  }

  static borrow(device: InternalDevice, pointer: bigint, bytes: number): Storage {
    assertOpen(device)
    return new Storage(device, pointer, bytes, false)
  }

  get freed(): boolean {
    return this.#freed
  }

  use(stream: HostStream): void {
    this.#streams.delete(stream)
    this.#streams.add(stream)
    stream.keep(this)
  }

  /** Runs `work` behind what every stream that uses the storage has enqueued, in order with the latest of them. */
  copy<T>(work: () => Promise<T>): Promise<T> {
    return behind([...this.#streams], work)
  }

  read(pointer: bigint, bytes: number): Promise<Uint8Array> {
    return this.device.readBehind([...this.#streams], pointer, bytes)
  }

  write(pointer: bigint, bytes: Uint8Array): Promise<void> {
    return this.device.writeBehind([...this.#streams], pointer, bytes)
  }

  free(): void {
    if (this.#freed) return
    this.#freed = true
    leaks.unregister(this)
    if (this.#owned && !this.device.closed) this.device.free(this.pointer)
  }
}
