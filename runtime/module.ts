import type { Device } from './device.ts'
import { resolveExecution, type ExecutionOptions } from './devices/execution.ts'
import { ktlError } from './fail.ts'
import { annotate, entryAt, findingsError, nativeError, type Finding, type KernelSources } from './findings.ts'
import { checkGrid, type Dim3 } from './launch_grid.ts'
import { packLaunchParams, type LaunchParam } from './module_params.ts'
import type { NativeFunction, NativeModule, NativeStats } from './native.ts'
import type { Stream } from './stream.ts'
import { Tensor } from './tensor.ts'
import { compileCached } from './toolchain/cached.ts'
import { USER_FLAGS } from './toolchain/compile.ts'
import type { KernelResources } from './toolchain/resources.ts'

export interface LoadModuleOptions {
  /** How the text is called in messages. */
  readonly name?: string
  /** Gives findings their role and `.ktl` place. */
  readonly sources?: KernelSources
}

export interface CompileCudaOptions extends LoadModuleOptions {
  /** Default: the device's own. */
  readonly arch?: string
  /** Options of nvcc behind ktl's own (`-std=c++17 -lineinfo`). */
  readonly flags?: readonly string[]
  readonly signal?: AbortSignal
}

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
  /** Stops the launch, queued or running; the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal
  /** CTAs done and in all, now and then. */
  readonly onProgress?: (done: number, total: number) => void
  /** Asks for a Chrome trace in the result. */
  readonly trace?: boolean
}

export interface LaunchResult {
  readonly findings: readonly Finding[]
  readonly stats: NativeStats
  /** Chrome trace events, JSON text. */
  readonly trace?: string
}

interface ModuleInfo extends LoadModuleOptions {
  readonly ptx: string
  readonly resources?: readonly KernelResources[]
}

/** Code on a device. Get one from `device.loadModule` or `device.compileCuda`. */
export class DeviceModule {
  readonly device: Device
  /** Names of the kernels. */
  readonly functions: readonly string[]
  /** The text that was loaded. */
  readonly ptx: string
  readonly sources: KernelSources | undefined
  readonly #native: NativeModule
  readonly #execution: Required<ExecutionOptions>

  constructor(device: Device, native: NativeModule, execution: Required<ExecutionOptions>, info: ModuleInfo) {
    this.device = device
    this.functions = native.functions.map((fn) => fn.name)
    this.ptx = info.ptx
    this.sources = info.sources
    this.#native = native
    this.#execution = execution
  }

  /** KTL4013, with the names there are, when the module has no such kernel. */
  function(name: string): DeviceFunction {
    const native = this.#native.functions.find((fn) => fn.name === name)
    if (!native) throw ktlError('KTL4013', { name: String(name), known: this.functions })
    return new DeviceFunction(this, this.#native, native, this.#execution)
  }

  /** Address and size of a `__device__` or `__constant__` variable; null when there is none of that name. */
  global(name: string): { address: bigint; bytes: number } | null {
    return this.#native.global(name)
  }
}

/** A kernel of a module. */
export class DeviceFunction {
  readonly module: DeviceModule
  readonly name: string
  /** Offset and size of each parameter in the block. */
  readonly params: NativeFunction['params']
  readonly paramBytes: number
  readonly staticSharedBytes: number
  readonly maxThreads: number
  readonly #native: NativeModule
  readonly #execution: Required<ExecutionOptions>

  constructor(module: DeviceModule, native: NativeModule, fn: NativeFunction, execution: Required<ExecutionOptions>) {
    this.module = module
    this.name = fn.name
    this.params = fn.params
    this.paramBytes = fn.paramBytes
    this.staticSharedBytes = fn.staticSharedBytes
    this.maxThreads = fn.maxThreads
    this.#native = native
    this.#execution = execution
  }

  /**
   * Enqueues the kernel. On a virtual device the promise resolves with findings and statistics: what the kernel does
   * wrong is a finding, not a rejection. KTL4009 to KTL4011 and KTL5020 for arguments that do not fit.
   */
  launch(options: LaunchOptions): Promise<LaunchResult> {
    try {
      const { stream, work } = this.#prepare(options)
      return stream.enqueue(work, { signal: options.signal })
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Enqueues the kernel and returns at once; errors and findings surface at the stream's next synchronize or copy. */
  enqueue(options: LaunchOptions): void {
    const { stream, work } = this.#prepare(options)
    const checked = async (): Promise<void> => {
      const error = findingsError((await work()).findings, this.module.sources)
      if (error) throw error
    }
    stream.enqueueDetached(checked, { signal: options.signal })
  }

  /** Checks and converts everything now; the work itself runs when the stream comes to it. */
  #prepare(options: LaunchOptions): { stream: Stream; work: () => Promise<LaunchResult> } {
    const { device } = this.module
    device.assertOpen()
    const { stream = device.defaultStream, signal, onProgress, trace = false } = options
    if (stream.device !== device) {
      throw ktlError('KTL4009', { what: 'stream', expected: device.name, got: stream.device.name })
    }
    const shape = checkGrid(options, this)
    const execution = resolveExecution(options, this.#execution)
    const params = packLaunchParams(device, this, options.params)
    const named = Array.isArray(options.params) ? options.params.filter((param) => param instanceof Tensor) : []
    const tensors: readonly Tensor[] = [...named, ...(options.uses ?? [])]
    tensors.forEach((tensor) => tensor.recordUse(stream))

    const work = async (): Promise<LaunchResult> => {
      const cancel = new Int32Array(new SharedArrayBuffer(4))
      const abort = (): void => void Atomics.store(cancel, 0, 1)
      signal?.addEventListener('abort', abort, { once: true })
      try {
        const result = await this.#native.launch(this.name, {
          ...shape,
          ...execution,
          params,
          trace,
          cancel,
          ...(onProgress && { onProgress }),
        })
        signal?.throwIfAborted()
        const findings = result.findings.map((finding) => annotate(finding, this.module.sources))
        const events = result.trace === undefined ? null : nameRoles(result.trace, this.module.sources)
        return { findings, stats: result.stats, ...(events !== null && { trace: events }) }
      } catch (error) {
        throw nativeError(error, null)
      } finally {
        signal?.removeEventListener('abort', abort)
        // Until here the closure keeps the tensors from being collected, and so their memory from being freed.
        void tensors
      }
    }
    return { stream, work }
  }
}

/** `warp 3 (mma)`: each warp's row is named by the role whose lines it spent most of its ticks at. */
function nameRoles(trace: string, sources: KernelSources | undefined): string {
  return trace.replace(/"name":"(warp \d+)","lines":\{([^}]*)\}/g, (_, warp: string, lines: string) => {
    const ticks = new Map<string, number>()
    for (const [line, spent] of Object.entries<number>(JSON.parse(`{${lines}}`))) {
      const role = entryAt(sources?.map ?? [], Number(line))?.role
      if (role) ticks.set(role, (ticks.get(role) ?? 0) + spent)
    }
    const [most] = [...ticks].sort((a, b) => b[1] - a[1])
    return `"name":${JSON.stringify(most ? `${warp} (${most[0]})` : warp)}`
  })
}

/** CUDA C++ to a module, through the compile cache. KTL600x as compileCuda, KTL50xx when the device refuses the PTX. */
export async function compileModule(
  device: Device,
  source: string,
  options: CompileCudaOptions,
): Promise<DeviceModule> {
  device.assertOpen()
  if (typeof source !== 'string') {
    throw ktlError('KTL4015', { what: 'source', expected: 'CUDA C++ text', got: typeof source })
  }
  const { name = 'kernel.cu', sources, signal, arch = device.arch } = options
  const flags = [...USER_FLAGS, ...(options.flags ?? [])]
  const compiled = await compileCached(source, { arch, kind: device.moduleFormat, flags, name, sources, signal })
  return device.loadModule(compiled.image, { name: `${name} (PTX)`, ...(sources && { sources }) })
}
