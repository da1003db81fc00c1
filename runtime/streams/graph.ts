import type { Device, Graph, Stream } from '../devices/device.ts'
import { checkStream } from './event.ts'
import { ktlError } from '../errors/fail.ts'
import { assertOpen } from '../errors/given.ts'
import type { HostStream, Recording } from './stream.ts'

/** What graphs of all devices have in common: the memory they keep, and their end. */
export abstract class BaseGraph implements Graph {
  readonly #device: Device
  #recording: Recording | null

  constructor(device: Device, recording: Recording) {
    this.#device = device
    this.#recording = recording
  }

  protected abstract start(stream: HostStream, recording: Recording): void
  protected abstract release(): void

  launch(stream: Stream = this.#device.defaultStream): void {
    assertOpen(this.#device)
    const own = checkStream(this.#device, stream)
    if (this.#recording === null) throw ktlError('KTL4006', { what: 'graph', state: 'has been freed' })
    for (const memory of this.#recording.memory) memory.use(own)
    this.start(own, this.#recording)
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
  protected start(stream: HostStream, { work }: Recording): void {
    for (const piece of work) stream.submit(piece)
  }

  protected release(): void {}
}
