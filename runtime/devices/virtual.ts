import * as os from 'node:os'
import { loadAddon } from '../addon/load.ts'
import { ktlError } from '../errors/fail.ts'
import { LoadedModule } from '../modules/module.ts'
import type { DeviceModule } from './device.ts'
import type { LoadModuleOptions } from '../modules/options.ts'
import { nativeError } from '../addon/findings.ts'
import type { NativeVirtualDevice } from '../addon/virtual.ts'
import type { DeviceProperties } from '../addon/cuda.ts'
import { BaseDevice } from './base.ts'
import { integerOption, resolveExecution, type ExecutionOptions } from './execution.ts'
import { VirtualModule } from './virtual_module.ts'
import { assertOpen, optionsOf, textOf } from '../errors/given.ts'
import { describe } from '../errors/describe.ts'

export interface VirtualDeviceOptions extends ExecutionOptions {
  /** Cap on live allocations. Default: half of the machine's memory. */
  readonly memoryBytes?: number
  /** SMs that kernels see. Default: as many as the modelled chip has. */
  readonly smCount?: number
}

/** Those of B200 and H100 SXM. */
const MODELS = {
  'virtual-sm100': {
    arch: 'sm_100a',
    cc: 100,
    smCount: 148,
    l2Bytes: 126 << 20,
    clockKHz: 1_850_000,
    memoryClockKHz: 4_000_000,
    memoryBusBits: 8192,
  },
  'virtual-sm90': {
    arch: 'sm_90a',
    cc: 90,
    smCount: 132,
    l2Bytes: 50 << 20,
    clockKHz: 1_980_000,
    memoryClockKHz: 2_619_000,
    memoryBusBits: 5120,
  },
} as const

/** The one that runs code for one of `archs`; undefined: none does. */
export const virtualDeviceFor = (archs: readonly string[]): string | undefined =>
  Object.entries(MODELS).find(([, { arch }]) => archs.includes(arch))?.[0]

/** Executes PTX on the CPU. Its memory and everything in it live in this process. */
export class VirtualDevice extends BaseDevice {
  readonly name: keyof typeof MODELS
  readonly kind = 'virtual'
  readonly arch: 'sm_100a' | 'sm_90a'
  readonly cc: number
  readonly smCount: number
  readonly moduleFormat = 'ptx'
  /** Of the chip that is modelled; the memory is this machine's. */
  readonly properties: DeviceProperties
  readonly execution: Required<ExecutionOptions>
  #native: NativeVirtualDevice

  constructor(name: keyof typeof MODELS, options: VirtualDeviceOptions = {}) {
    super()
    const model = MODELS[name]
    this.name = name
    this.arch = model.arch
    this.cc = model.cc
    this.smCount = integerOption('smCount', options.smCount ?? model.smCount, 1, 1024)
    this.execution = resolveExecution(options)
    const half = Math.floor(os.totalmem() / 2)
    const memoryBytes = integerOption('memoryBytes', options.memoryBytes ?? half, 1, Number.MAX_SAFE_INTEGER)
    const { arch: _, ...chip } = model
    this.properties = {
      name,
      ...chip,
      smCount: this.smCount,
      memoryBytes,
      sharedBytesPerBlock: 227 * 1024,
      driverVersion: 0,
    }
    this.#native = new (loadAddon().VirtualDevice)({ target: this.arch, memoryBytes, smCount: this.smCount })
  }

  async loadModule(image: string | Uint8Array, options: LoadModuleOptions = {}): Promise<DeviceModule> {
    assertOpen(this)
    const ptx = typeof image === 'string' ? image : decoded(image)
    const name = textOf('name', optionsOf('options', options).name ?? '<ptx>')
    try {
      return new LoadedModule(this, new VirtualModule(this.#native.loadModule(ptx), this.execution), {
        ...options,
        ptx,
      })
    } catch (error) {
      throw nativeError(error, { name, text: ptx })
    }
  }

  memoryInfo(): { allocatedBytes: number; allocations: number; capacityBytes: number } {
    assertOpen(this)
    return this.#native.memoryInfo()
  }

  copyToDevice(pointer: bigint, bytes: Uint8Array): void {
    this.#guard(() => this.#native.write(pointer, bytes))
  }

  async copyFromDevice(pointer: bigint, bytes: number): Promise<Uint8Array> {
    return this.#guard(() => this.#native.read(pointer, bytes))
  }

  protected allocate(bytes: number, at: bigint, align: number): bigint {
    return this.#guard(() => this.#native.malloc(bytes, at, align))
  }

  protected release(pointer: bigint): void {
    this.#guard(() => this.#native.free(pointer))
  }

  protected async shutdown(): Promise<void> {}

  #guard<T>(call: () => T): T {
    try {
      return call()
    } catch (error) {
      throw nativeError(error, null)
    }
  }
}

function decoded(image: Uint8Array): string {
  if (!(image instanceof Uint8Array))
    throw ktlError('KTL6006', { what: 'loadModule', expected: 'PTX text', got: describe(image) })
  // \x7fELF: machine code.
  if (image[0] === 0x7f && image[1] === 0x45) {
    throw ktlError('KTL6006', { what: 'loadModule', expected: 'PTX text', got: 'a cubin' })
  }
  return new TextDecoder().decode(image)
}
