import type { Device } from '../devices/device.ts'
import { checkStream } from './event.ts'
import { ktlError } from '../errors/fail.ts'
import type { Recording, Stream } from './stream.ts'

/** Launches recorded by `device.capture`, enqueued again as one. The memory they use lives as long as the graph. */
export interface Graph extends Disposable {
  /** Enqueues all of it and returns at once; failures surface at the stream's next synchronize or copy. */
  launch(stream?: Stream): void
  /** KTL4006 for launches afterwards; freeing twice is harmless. */
  free(): void
}

/** What graphs of all devices have in common: the memory they keep, and their end. */
export abstract class BaseGraph implements Graph {
  readonly #device: Device
  #recording: Recording | null

  constructor(device: Device, recording: Recording) {
    this.#device = device
    this.#recording = recording
  }

  protected abstract start(stream: Stream, recording: Recording): void
  protected abstract release(): void

  launch(stream: Stream = this.#device.defaultStream): void {
    this.#device.assertOpen()
    checkStream(this.#device, stream)
    if (this.#recording === null) throw ktlError('KTL4006', { what: 'graph', state: 'has been freed' })
    for (const memory of this.#recording.memory) memory.use(stream)
    this.start(stream, this.#recording)
  }

  free(): void {
    if (this.#recording === null) return
    this.#recording = null
    this.release()
  }

  [Symbol.dispose](): void {
    this.free()
  }
}

/** Replays the recorded work in order. */
export class RecordedGraph extends BaseGraph {
  protected start(stream: Stream, { work }: Recording): void {
    for (const piece of work) stream.submit(piece)
  }

  protected release(): void {}
}
