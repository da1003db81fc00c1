/** What ktl asks of a device beside what users may: no part of the public `Device`. */
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import type { PlannedLaunch } from '../modules/grid.ts'
import type { LoadModuleOptions } from '../modules/options.ts'
import type { HostStream } from '../streams/stream.ts'
import type { Device, DeviceModule, Stream } from './device.ts'

/** Launches of one call with nothing left to work out: see `prepareLaunch`. */
export interface FastLaunch {
  launch(stream: Stream): void
  /** No launch waits for the host to hand it over with the parameters as they are. */
  readonly patchable: boolean
  /** Overwrites an address in the parameter block of the i-th launch. */
  patch(i: number, offset: number, address: bigint): void
  /** Nanoseconds of the CPU for each of `count` launches, from native code alone. */
  time?(stream: Stream, count: number): number
}

export interface InternalDevice extends Device {
  readonly defaultStream: HostStream
  /** The copies themselves, at once and in no order with streams: for tensors and streams to build on. */
  copyToDevice(pointer: bigint, bytes: Uint8Array): void
  copyFromDevice(pointer: bigint, bytes: number): Promise<Uint8Array>
  /** Copies behind what all of `streams` have enqueued, in order with the last of them: for tensors to build on. */
  readBehind(streams: readonly HostStream[], pointer: bigint, bytes: number): Promise<Uint8Array>
  writeBehind(streams: readonly HostStream[], pointer: bigint, bytes: Uint8Array): Promise<void>
  /** Loads at once, where that is quick: kernels then never wait for their module. */
  loadModuleNow?(image: Uint8Array, options?: LoadModuleOptions): DeviceModule
  /** Where launches can be handed to the device ready made. */
  prepareLaunch?(module: DeviceModule, plans: readonly PlannedLaunch[]): FastLaunch
}

/** Devices that ktl made. */
const made = new WeakSet<Device>()

export const registerDevice = (device: InternalDevice): void => void made.add(device)

const isMade = (device: Device): device is InternalDevice => made.has(device)

/** KTL4015 for what looks like a device, and is none of ktl's. */
export function internalOf(device: Device): InternalDevice {
  if (isMade(device)) return device
  throw ktlError('KTL4015', { what: 'device', expected: 'a device from openDevice', got: describe(device) })
}
