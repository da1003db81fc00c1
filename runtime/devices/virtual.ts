import * as os from 'node:os'
import { loadAddon } from '../addon/load.ts'
import { ktlError } from '../errors/fail.ts'
import { LoadedModule } from '../modules/module.ts'
import type { DeviceModule } from './device.ts'
import type { LoadModuleOptions } from '../modules/options.ts'
import { nativeError } from '../addon/findings.ts'
import type { Limits } from '../addon/isolated_messages.ts'
import { IsolatedMachine } from '../addon/isolated.ts'
import type { VirtualMachine } from '../addon/virtual.ts'
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
  /**
   * Runs the device in a process of its own, with limits: for PTX of strangers. What goes wrong there is KTL6014 here, and ends that
   * device alone.
   */
  readonly isolate?: boolean | IsolationOptions
}

/** Limits of the process of an isolated device. */
export interface IsolationOptions {
  /** Memory of the process, the device's allocations included. Default: `memoryBytes` of the device; at least 128 MiB. */
  readonly memoryBytes?: number
  /** Of each call: loading a module, a launch, a copy. Default: 5 minutes. */
  readonly timeoutMs?: number
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
    clusters: [],
  },
  'virtual-sm90': {
    arch: 'sm_90a',
    cc: 90,
    smCount: 132,
    l2Bytes: 50 << 20,
    clockKHz: 1_980_000,
    memoryClockKHz: 2_619_000,
    memoryBusBits: 5120,
    clusters: [66, 30, 15],
  },
} as const

/** The one that runs code for one of `archs`; undefined: none does. */
export const virtualDeviceFor = (archs: readonly string[]): string | undefined =>
  Object.entries(MODELS).find(([, { arch }]) => archs.includes(arch))?.[0]

/** Executes PTX on the CPU. Its memory and everything in it live in this process, unless it is isolated. */
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
  /** It answers; rejects, with KTL6014, for an isolated device that could not be opened. */
  readonly ready: Promise<void>
  readonly #native: VirtualMachine

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
      sharedBytesPerSm: 228 * 1024,
      sharedBytesPerBlock: 227 * 1024,
      clusters: this.smCount === model.smCount ? model.clusters : [],
      driverVersion: 0,
    }
    const native = { target: this.arch, memoryBytes, smCount: this.smCount }
    const limits = limitsOf(options.isolate, memoryBytes)
    this.#native = limits ? new IsolatedMachine(name, native, limits) : new (loadAddon().VirtualDevice)(native)
    this.ready = this.#native.opened ?? Promise.resolve()
  }

  async loadModule(image: string | Uint8Array, options: LoadModuleOptions = {}): Promise<DeviceModule> {
    assertOpen(this)
    const ptx = typeof image === 'string' ? image : decoded(image)
    const name = textOf('name', optionsOf('options', options).name ?? '<ptx>')
    try {
      const native = await this.#native.loadModule(ptx)
      return new LoadedModule(this, new VirtualModule(native, this.execution), { ...options, ptx })
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
    try {
      return await this.#native.read(pointer, bytes)
    } catch (error) {
      throw nativeError(error, null)
    }
  }

  protected allocate(bytes: number, at: bigint, align: number): bigint {
    return this.#guard(() => this.#native.malloc(bytes, at, align))
  }

  protected release(pointer: bigint): void {
    this.#guard(() => this.#native.free(pointer))
  }

  protected async shutdown(): Promise<void> {
    await this.#native.close?.()
  }

  #guard<T>(call: () => T): T {
    try {
      return call()
    } catch (error) {
      throw nativeError(error, null)
    }
  }
}

const MINIMUM_MEMORY = 2 ** 27
const TIMEOUT_MS = 300_000

/** null: not isolated. KTL4015 for limits that are none. */
function limitsOf(isolate: VirtualDeviceOptions['isolate'], deviceBytes: number): Limits | null {
  if (isolate === undefined || isolate === false) return null
  const { memoryBytes, timeoutMs } = isolate === true ? {} : optionsOf('isolate', isolate)
  const bytes = memoryBytes ?? Math.max(deviceBytes, MINIMUM_MEMORY)
  return {
    memoryBytes: integerOption('isolate.memoryBytes', bytes, MINIMUM_MEMORY, Number.MAX_SAFE_INTEGER),
    timeoutMs: integerOption('isolate.timeoutMs', timeoutMs ?? TIMEOUT_MS, 1, 2 ** 31 - 1),
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
