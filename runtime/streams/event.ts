import type { Device } from '../devices/device.ts'
import { ktlError } from '../errors/fail.ts'
import { notInGraphs, Stream } from './stream.ts'
import { describe } from '../errors/describe.ts'

/** A point in a stream, with the time at which the device reached it. */
export interface DeviceEvent {
  /** Marks the point behind everything enqueued so far. Default: the device's default stream. */
  record(stream?: Stream): void
  /** Settles when the stream has reached the point. */
  synchronize(): Promise<void>
  /** Milliseconds from `start`, a recorded event of the same device, to this one, once both were reached. */
  elapsedMs(start: DeviceEvent): Promise<number>
}

/** An event where the host runs the stream: wall time of the simulation. */
export class HostEvent implements DeviceEvent {
  readonly #device: Device
  #reached: Promise<number> | null = null

  constructor(device: Device) {
    this.#device = device
  }

  record(stream: Stream = this.#device.defaultStream): void {
    checkStream(this.#device, stream)
    if (stream.capturing) throw notInGraphs('an event')
    const { promise, resolve } = deferred()
    this.#reached = promise
    stream.submit(() => resolve(performance.now()))
  }

  async synchronize(): Promise<void> {
    await this.#time()
  }

  async elapsedMs(start: DeviceEvent): Promise<number> {
    if (!(start instanceof HostEvent)) throw notRecorded('start')
    return (await this.#time()) - (await start.#time())
  }

  #time(): Promise<number> {
    if (this.#reached === null) throw notRecorded('event')
    return this.#reached
  }
}

function deferred(): { promise: Promise<number>; resolve: (time: number) => void } {
  let resolve!: (time: number) => void
  const promise = new Promise<number>((done) => (resolve = done))
  return { promise, resolve }
}

/** KTL4015: an event that was never recorded, or one of another kind of device. */
export const notRecorded = (what: string): Error =>
  ktlError('KTL4015', { what, expected: 'a recorded event of this device', got: 'one that was never recorded there' })

/** KTL4009 for a stream of another device, KTL4015 for what is none. */
export function checkStream(device: Device, stream: Stream): void {
  if (!(stream instanceof Stream))
    throw ktlError('KTL4015', { what: 'stream', expected: 'a stream of the device', got: describe(stream) })
  if (stream.device === device) return
  throw ktlError('KTL4009', { what: 'stream', expected: device.name, got: stream.device.name })
}
