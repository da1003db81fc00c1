import { KtlError } from '../../grammar/diagnostics.ts'
import { probeCuda } from '../addon/probe.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf } from '../errors/given.ts'
import { CudaDevice } from './cuda.ts'
import type { Device } from './device.ts'
import { VirtualDevice, type VirtualDeviceOptions } from './virtual.ts'

/** What `openDevice` opens. */
export type DeviceSpec = 'auto' | 'virtual-sm100' | 'virtual-sm90' | 'cuda' | `cuda:${number}`
/** Of virtual devices: checks, order of asynchronous work, memory, SMs, isolation. */
export type DeviceOptions = VirtualDeviceOptions

/**
 * Opens a device. `auto`: GPU 0 where ktl can drive it, else the virtual SM100. Throws KTL4015 for unknown names and
 * options, KTL6004 without the native addon, KTL6005, with the reason, for CUDA devices that cannot be opened, KTL6014 for an
 * isolated device whose process ends at once.
 *
 * @example
 * const virtual = await openDevice('virtual-sm100', { checks: 'full' })
 * console.log(virtual.arch, virtual.isVirtual) // sm_100a true
 * await virtual.close()
 */
export async function openDevice(spec: DeviceSpec = 'auto', options: DeviceOptions = {}): Promise<Device> {
  optionsOf('options', options)
  switch (spec) {
    case 'auto':
      // A GPU is nothing that can be isolated.
      return (options.isolate ? null : openGpu(options)) ?? openVirtual('virtual-sm100', options)
    case 'virtual-sm100':
    case 'virtual-sm90':
      return openVirtual(spec, options)
  }
  const cuda = typeof spec === 'string' ? /^cuda(?::(\d{1,4}))?$/.exec(spec) : null
  if (cuda && options.isolate) throw ktlError('KTL4015', { what: 'isolate', expected: 'a virtual device', got: spec })
  if (cuda) return new CudaDevice(Number(cuda[1] ?? 0), options, spec)
  throw ktlError('KTL4015', {
    what: 'device',
    expected: 'auto, virtual-sm100, virtual-sm90, cuda or cuda:N',
    got: describe(spec),
  })
}

async function openVirtual(name: VirtualDevice['name'], options: DeviceOptions): Promise<Device> {
  const device = new VirtualDevice(name, options)
  try {
    await device.ready
    return device
  } catch (error) {
    await device.close()
    throw error
  }
}

/** null: there is none, or the first is none that ktl can drive. */
function openGpu(options: DeviceOptions): Device | null {
  if (probeCuda().reason !== undefined) return null
  try {
    return new CudaDevice(0, options)
  } catch (error) {
    if (error instanceof KtlError && error.code === 'KTL6005') return null
    throw error
  }
}
