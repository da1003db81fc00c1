import type { Device } from '../devices/device.ts'
import type { ExecutionOptions } from '../devices/execution.ts'
import { checkStream } from '../streams/event.ts'
import { ktlError } from '../errors/fail.ts'
import type { Finding, KernelSources } from '../addon/findings.ts'
import { checkGrid, type Dim3, type LaunchShape } from './grid.ts'
import { launchStats } from './result.ts'
import { packLaunchParams, type LaunchParam } from './params.ts'
import type { NativeFunction, NativeStats } from '../addon/virtual.ts'
import type { Stream } from '../streams/stream.ts'
import { Tensor } from '../tensors/tensor.ts'
import { compileFor } from '../toolchain/cached.ts'
import { USER_FLAGS } from '../toolchain/compile.ts'
import { flagsOf, listOf, optionsOf, signalOf, textOf } from '../errors/given.ts'
import { describe } from '../errors/describe.ts'

/** How a module is called in messages. */
export interface LoadModuleOptions {
  /** How the text is called in messages. */
  readonly name?: string
  /** Gives findings their role and `.ktl` place. */
  readonly sources?: KernelSources
}

/** How CUDA C++ is compiled for a device. */
export interface CompileCudaOptions extends LoadModuleOptions {
  /** Default: the device's own. */
  readonly arch?: string
  /** Options of nvcc behind ktl's own (`-std=c++17 -lineinfo`). */
  readonly flags?: readonly string[]
  readonly signal?: AbortSignal
  /** Milliseconds for each run of nvcc. Default: KTL_NVCC_TIMEOUT (seconds), else 5 minutes. */
  readonly timeoutMs?: number
}

/** Grid, block, parameters, and how a launch runs. */
export interface LaunchOptions extends ExecutionOptions {
  readonly grid: Dim3
  readonly block: Dim3
  /** CTAs of a cluster; of those that blocks fall back to when there is a preferred one. */
  readonly cluster?: Dim3
  /** A multiple of `cluster` that the device uses where it can; compute capability 10.0. A grid may then mix both. */
  readonly preferredCluster?: Dim3
  /** Dynamic shared memory, bytes. */
  readonly sharedMemBytes?: number
  /** One value for each parameter, or the whole parameter block. */
  readonly params: readonly LaunchParam[] | Uint8Array
  /** Tensors that the launch uses without naming them in `params`: copies and frees wait for it. */
  readonly uses?: readonly Tensor[]
  readonly stream?: Stream
  /** May start while the launch before it still runs; the kernel waits for it by itself (`griddepcontrol.wait`). GPUs only. */
  readonly programmatic?: boolean
  /** Asks a GPU for `milliseconds`, measured by events around the launch. */
  readonly timed?: boolean
  /** Stops the launch, queued or running; the promise rejects with the signal's reason. A GPU ends what it has begun. */
  readonly signal?: AbortSignal
  /** CTAs done and in all, now and then. */
  readonly onProgress?: (done: number, total: number) => void
  /** Asks for a Chrome trace in the result. */
  readonly trace?: boolean
}

/** What a virtual device says of a launch. */
export interface LaunchResult {
  /** Of virtual devices. */
  readonly findings: readonly Finding[]
  /** A GPU counts CTAs and clusters, and milliseconds where `timed`; the rest is 0 there. */
  readonly stats: NativeStats
  /** Chrome trace events, JSON text. */
  readonly trace?: string
}

/** A launch whose arguments fit, on its way into a stream. */
export interface CheckedLaunch {
  readonly shape: LaunchShape
  /** The parameter block. */
  readonly params: Uint8Array
  readonly stream: Stream
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
  launch(fn: DeviceFunction, launch: CheckedLaunch): Promise<LaunchResult>
  /** As `launch`; errors and findings surface at the stream. */
  enqueue(fn: DeviceFunction, launch: CheckedLaunch): void
}

export type DeviceFunctionInfo = Pick<NativeFunction, 'name' | 'paramBytes' | 'staticSharedBytes' | 'registers' | 'maxThreads'> & {
  readonly params: readonly { readonly offset: number; readonly bytes: number }[]
} // prettier-ignore

const missing = new WeakMap<DeviceModule, () => void>()

/** `forget` takes the module's image out of the compile cache: one without the kernel asked for may be of a broken compiler. */
export const onMissingKernel = (module: DeviceModule, forget: () => void): void => void missing.set(module, forget)

interface ModuleInfo extends LoadModuleOptions {
  /** The text that was loaded; '' for machine code. */
  readonly ptx: string
}

/**
 * Code on a device. Get one from `device.loadModule` or `device.compileCuda`.
 *
 * @example
 * const module = await device.compileCuda('extern "C" __global__ void fill(int* x) { x[threadIdx.x] = 7; }')
 * console.log(module instanceof DeviceModule, module.functions) // true [ 'fill' ]
 */
export class DeviceModule {
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
  function(name: string): DeviceFunction {
    const info = this.backend.functions.find((fn) => fn.name === name)
    if (!info) {
      missing.get(this)?.()
      throw ktlError('KTL4013', { name: typeof name === 'string' ? name : describe(name), known: this.functions })
    }
    return new DeviceFunction(this, info)
  }

  /** Address and size of a `__device__` or `__constant__` variable; null when there is none of that name. */
  global(name: string): { address: bigint; bytes: number } | null {
    return this.backend.global(textOf('name', name))
  }
}

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
export class DeviceFunction {
  readonly module: DeviceModule
  readonly name: string
  /** Offset and size of each parameter in the block. */
  readonly params: DeviceFunctionInfo['params']
  readonly paramBytes: number
  readonly staticSharedBytes: number
  readonly registers: number
  readonly maxThreads: number

  constructor(module: DeviceModule, info: DeviceFunctionInfo) {
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
    device.assertOpen()
    const { stream = device.defaultStream, uses = [], signal } = optionsOf('launch options', options ?? (null as never))
    signalOf(signal)
    for (const tensor of listOf('uses', uses, 'tensors'))
      if (!(tensor instanceof Tensor))
        throw ktlError('KTL4024', { operand: 'uses', expected: 'tensors', got: describe(tensor) })
    checkStream(device, stream)
    const shape = checkGrid(options, this, backend.sharedBytes)
    const params = packLaunchParams(device, this, options.params)
    const named = Array.isArray(options.params) ? options.params.filter((param) => param instanceof Tensor) : []
    const tensors: readonly Tensor[] = [...named, ...uses]
    for (const tensor of tensors) tensor.recordUse(stream)
    return { shape, params, stream, tensors, options }
  }
}

/** CUDA C++ to a module, through the compile cache. KTL600x as compileCuda, KTL50xx when the device refuses the PTX. */
export async function compileModule(
  device: Device,
  source: string,
  options: CompileCudaOptions,
): Promise<DeviceModule> {
  device.assertOpen()
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
