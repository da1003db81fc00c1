import type { Device, DeviceEvent, Stream } from '../devices/device.ts'
import { ktlError } from '../errors/fail.ts'
import { HostStream, notInGraphs } from './stream.ts'
import { describe } from '../errors/describe.ts'

/** An event where the host runs the stream: wall time of the simulation. */
export class HostEvent implements DeviceEvent {
  readonly #device: Device
  #reached: Promise<number> | null = null

  constructor(device: Device) {
    this.#device = device
  }

  record(stream: Stream = this.#device.defaultStream): void {
    const own = checkStream(this.#device, stream)
    if (own.capturing) throw notInGraphs('an event')
    const { promise, resolve } = deferred()
    this.#reached = promise
    own.submit(() => resolve(performance.now()))
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

/** The stream, which is the device's. KTL4009 for one of another device, KTL4015 for what is none. */
export function checkStream(device: Device, stream: Stream): HostStream {
  if (!(stream instanceof HostStream))
    throw ktlError('KTL4015', { what: 'stream', expected: 'a stream of the device', got: describe(stream) })
  if (stream.device === device) return stream
  throw ktlError('KTL4009', { what: 'stream', expected: device.name, got: stream.device.name })
}
