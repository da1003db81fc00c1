/** Modules that are loaded, and the checks of launches that all devices share. */
import type { KernelSources } from '../addon/findings.ts'
import type { NativeFunction } from '../addon/virtual.ts'
import type {
  Device,
  DeviceFunction as PublicFunction,
  DeviceModule as PublicModule,
  LaunchOptions,
} from '../devices/device.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { assertOpen, booleanOf, flagsOf, functionOf, listOf, optionsOf, signalOf, textOf } from '../errors/given.ts'
import { checkStream } from '../streams/event.ts'
import type { HostStream } from '../streams/stream.ts'
import { Tensor } from '../tensors/tensor.ts'
import { compileFor } from '../toolchain/cached.ts'
import { USER_FLAGS } from '../toolchain/compile.ts'
import { checkGrid, type LaunchShape } from './grid.ts'
import type { CompileCudaOptions, LoadModuleOptions } from './options.ts'
import { packLaunchParams } from './params.ts'
import { launchStats, type LaunchResult } from './result.ts'

/** A launch whose arguments fit, on its way into a stream. */
export interface CheckedLaunch {
  readonly shape: LaunchShape
  /** The parameter block. */
  readonly params: Uint8Array
  readonly stream: HostStream
  /** To be kept from being collected until the work is done. */
  readonly tensors: readonly Tensor[]
  readonly options: LaunchOptions
}

/** What a device makes of a module. */
export interface ModuleBackend {
  readonly functions: readonly DeviceFunctionInfo[]
  /** Most shared memory of a CTA. */
  readonly sharedBytes?: number
  global(name: string): { address: bigint; bytes: number } | null
  /** Checks what only the device knows, and enqueues. */
  launch(fn: ModuleFunction, launch: CheckedLaunch): Promise<LaunchResult>
  /** As `launch`; errors and findings surface at the stream. */
  enqueue(fn: ModuleFunction, launch: CheckedLaunch): void
}

export type DeviceFunctionInfo = Pick<
  NativeFunction,
  'name' | 'paramBytes' | 'staticSharedBytes' | 'registers' | 'maxThreads'
> & {
  readonly params: readonly { readonly offset: number; readonly bytes: number }[]
}

const missing = new WeakMap<DeviceModule, () => void>()

/** `forget` takes the module's image out of the compile cache: one without the kernel asked for may be of a broken compiler. */
export const onMissingKernel = (module: DeviceModule, forget: () => void): void => void missing.set(module, forget)

interface ModuleInfo extends LoadModuleOptions {
  /** The text that was loaded; '' for machine code. */
  readonly ptx: string
}

export class LoadedModule implements PublicModule {
  /** As users know it, in messages. */
  static readonly name: string = 'DeviceModule'
  readonly device: Device
  /** Names of the kernels. */
  readonly functions: readonly string[]
  /** The text that was loaded; '' for machine code. */
  readonly ptx: string
  readonly sources: KernelSources | undefined
  /** For the device that made the module. */
  readonly backend: ModuleBackend

  constructor(device: Device, backend: ModuleBackend, info: ModuleInfo) {
    this.device = device
    this.functions = backend.functions.map((fn) => fn.name)
    this.ptx = info.ptx
    this.sources = info.sources
    this.backend = backend
  }

  /** KTL4013, with the names there are, when the module has no such kernel. */
  function(name: string): ModuleFunction {
    const info = this.backend.functions.find((fn) => fn.name === name)
    if (!info) {
      missing.get(this)?.()
      throw ktlError('KTL4013', { name: typeof name === 'string' ? name : describe(name), known: this.functions })
    }
    return new ModuleFunction(this, info)
  }

  /** Address and size of a `__device__` or `__constant__` variable; null when there is none of that name. */
  global(name: string): { address: bigint; bytes: number } | null {
    return this.backend.global(textOf('name', name))
  }
}

export class ModuleFunction implements PublicFunction {
  /** As users know it, in messages. */
  static readonly name: string = 'DeviceFunction'
  readonly module: LoadedModule
  readonly name: string
  /** Offset and size of each parameter in the block. */
  readonly params: DeviceFunctionInfo['params']
  readonly paramBytes: number
  readonly staticSharedBytes: number
  readonly registers: number
  readonly maxThreads: number

  constructor(module: LoadedModule, info: DeviceFunctionInfo) {
    this.module = module
    this.name = info.name
    this.params = info.params
    this.paramBytes = info.paramBytes
    this.staticSharedBytes = info.staticSharedBytes
    this.registers = info.registers
    this.maxThreads = info.maxThreads
  }

  /**
   * Enqueues the kernel. The promise resolves at completion, with findings and statistics: on a virtual device, what the
   * kernel does wrong is a finding, not a rejection. Within `device.capture` it is recorded, and the result is empty.
   * KTL4009 to KTL4011 and KTL5020 for arguments that do not fit.
   */
  launch(options: LaunchOptions): Promise<LaunchResult> {
    try {
      const checked = this.#check(options)
      if (!checked.stream.capturing) return this.module.backend.launch(this, checked)
      this.module.backend.enqueue(this, checked)
      return Promise.resolve({ findings: [], stats: launchStats() })
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Enqueues the kernel and returns at once; errors and findings surface at the stream's next synchronize or copy. */
  enqueue(options: LaunchOptions): void {
    this.module.backend.enqueue(this, this.#check(options))
  }

  /** Checks and converts everything now; the work itself runs when the stream comes to it. */
  #check(options: LaunchOptions): CheckedLaunch {
    const { device, backend } = this.module
    assertOpen(device)
    const {
      stream: given = device.defaultStream,
      uses = [],
      signal,
      cooperative = false,
      onPrint,
    } = optionsOf('launch options', options ?? (null as never))
    signalOf(signal)
    booleanOf('cooperative', cooperative)
    if (onPrint !== undefined) functionOf('onPrint', onPrint)
    for (const tensor of listOf('uses', uses, 'tensors'))
      if (!(tensor instanceof Tensor))
        throw ktlError('KTL4024', { operand: 'uses', expected: 'tensors', got: describe(tensor) })
    const stream = checkStream(device, given)
    const shape = checkGrid(options, this, backend.sharedBytes)
    const params = packLaunchParams(device, this, options.params)
    const named = Array.isArray(options.params) ? options.params.filter((param) => param instanceof Tensor) : []
    const tensors: readonly Tensor[] = [...named, ...uses]
    for (const tensor of tensors) tensor.recordUse(stream)
    return { shape, params, stream, tensors, options }
  }
}

/**
 * Code on a device. Get one from `device.loadModule` or `device.compileCuda`.
 *
 * @example
 * const module = await device.compileCuda('extern "C" __global__ void fill(int* x) { x[threadIdx.x] = 7; }')
 * console.log(module instanceof DeviceModule, module.functions) // true [ 'fill' ]
 */
export const DeviceModule: abstract new (...args: never[]) => PublicModule = LoadedModule
export type DeviceModule = PublicModule

/**
 * A kernel of a module.
 *
 * @example
 * const module = await device.compileCuda('extern "C" __global__ void fill(int* x) { x[threadIdx.x] = 7; }')
 * const fill = module.function('fill')
 * const x = device.empty('i32', [4])
 * const { findings } = await fill.launch({ grid: 1, block: 4, params: [x] })
 * console.log(fill instanceof DeviceFunction, findings, [...(await x.toArray())]) // true [] [ 7, 7, 7, 7 ]
 */
export const DeviceFunction: abstract new (...args: never[]) => PublicFunction = ModuleFunction
export type DeviceFunction = PublicFunction

/** CUDA C++ to a module, through the compile cache. KTL600x as compileCuda, KTL50xx when the device refuses the PTX. */
export async function compileModule(
  device: Device,
  source: string,
  options: CompileCudaOptions,
): Promise<DeviceModule> {
  assertOpen(device)
  textOf('source', source, 'CUDA C++ text')
  const { name = 'kernel.cu', sources, signal, timeoutMs, arch = device.arch } = optionsOf('options', options)
  const flags = [...USER_FLAGS, ...flagsOf(options.flags)]
  const compiling = { arch, kind: device.moduleFormat, flags, name, sources, signal, timeoutMs }
  return compileFor(source, compiling, async ({ image }, forget) => {
    const module = await device.loadModule(image, { name: `${name} (PTX)`, ...(sources && { sources }) })
    onMissingKernel(module, forget)
    return module
  })
}
