import { ktlError } from '../errors/fail.ts'
import { Artifact } from '../artifacts/artifact.ts'
import type { RuntimeArguments } from '../arguments/base.ts'
import type { TileOrder } from '../arguments/performance.ts'
import type { ExecutionOptions } from '../devices/execution.ts'
import { describeArguments } from '../discovery/calls/call.ts'
import type { Estimate } from '../discovery/ranking/rank.ts'
import type { KernelMetadata } from '../metadata/kernel.ts'
import type { EpilogueArguments } from '../arguments/epilogue.ts'
import { findingsError } from '../addon/findings.ts'
import { scratchOf } from './launch.ts'
import type { LaunchResult } from '../modules/result.ts'
import { OK, raise, refuse, type Status } from '../errors/status.ts'
import type { Stream } from '../streams/stream.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { describe } from '../errors/describe.ts'

/** How a call runs. */
export interface KernelLaunchOptions<Compiled> extends ExecutionOptions {
  /** Default: that of the arguments' `performance`, else its own. */
  readonly tileOrder?: TileOrder
  /** Of this kernel; compiled (or taken from the cache) when left out. */
  readonly artifact?: Compiled
  /** Default: the device's default stream. */
  readonly stream?: Stream
  /** At least `getWorkspaceSize(args)` bytes. */
  readonly workspace?: Tensor
  /** Skips `supports`: for arguments that are known to fit. */
  readonly assumeSupportedArgs?: boolean
  readonly signal?: AbortSignal
  readonly onProgress?: (done: number, total: number) => void
  /** Asks a virtual device for a Chrome trace in the result. */
  readonly trace?: boolean
}

/** Findings are those of a virtual device; statistics are modelled there. */
export type RunResult = Pick<LaunchResult, 'findings' | 'stats' | 'trace'>

/** What `generateKernels` is asked with. */
export interface GenerateOptions {
  /** Kernels it refuses must not be returned. */
  readonly metadataFilter: (metadata: KernelMetadata) => boolean
  /** The epilogue asked for; null: none. */
  readonly epilogueArguments: EpilogueArguments | null
  /** Compute capability: 100. */
  readonly cc: number
  /** What kernels are looked for; null: all there are. Kernels that do not support them are dropped afterwards anyway. */
  readonly args: RuntimeArguments | null
}

/** A class that a provider takes: its instances are found by `getKernels`. */
export interface KernelClass {
  new (...args: never[]): Kernel
  readonly name: string
  generateKernels(options: GenerateOptions): Iterable<Kernel>
}

/**
 * One compilable kernel: metadata, and what runs it. Subclass it to bring a kernel of your own: implement
 * `supportsArguments`, `compile`, `launch`, `getWorkspaceSize`, optionally `estimate`, and a static `generateKernels`,
 * and register the class with a provider (`CudaProvider.register(MyKernel)`): plain `getKernels` then finds its instances.
 *
 * @example
 * class Add extends Kernel<ElementwiseArguments, Artifact> {
 *   supportsArguments() {
 *     return Status.success()
 *   }
 *   compile(args: ElementwiseArguments) {
 *     const body = '{ const int i = threadIdx.x; d[i] = a[i] + b[i]; }'
 *     return compileKernel(this, `extern "C" __global__ void add(const float* a, const float* b, float* d) ${body}`, args)
 *   }
 *   launch({ A, B, out, device }: ElementwiseArguments, { artifact, stream }: KernelLaunchOptions<Artifact>) {
 *     return launchKernel(artifact, device, { entry: 'add', grid: 1, block: 4, params: [A, B, out], stream })
 *   }
 *   getWorkspaceSize() {
 *     return 0
 *   }
 *   static *generateKernels({ metadataFilter }: GenerateOptions) {
 *     const f32 = new TensorAttributes('f32', [1], 1)
 *     const operands = new ElementwiseOperandsMetadata(f32, f32, f32)
 *     const metadata = new KernelMetadata('my_add', Add, 80, operands, new BLASDesignMetadata([4, 1, 1], [1, 1, 1]))
 *     if (metadataFilter(metadata)) yield new Add(metadata)
 *   }
 * }
 * const unregister = CudaProvider.register(Add)
 * const A = device.tensor('f32', [4], [1, 2, 3, 4])
 * const args = new ElementwiseArguments(A, A, device.empty('f32', [4]))
 * const kernel = getKernels(args, { providers: [CudaProvider] })[0]!
 * await kernel.run(args)
 * console.log(kernel.metadata.kernelName, [...(await args.out.toArray())]) // my_add [ 2, 4, 6, 8 ]
 * unregister()
 */
export abstract class Kernel<Arguments extends RuntimeArguments = RuntimeArguments, Compiled = unknown> {
  readonly metadata: KernelMetadata
  /** Why discovery placed it where it is. */
  rankReason: string | null = null

  constructor(metadata: KernelMetadata) {
    this.metadata = metadata
  }

  /** Whether `run` would work: what the metadata say, then `supportsArguments`. Never throws. */
  supports(args: RuntimeArguments): Status {
    const status = this.metadata.supports(args)
    return status.ok ? this.#asked(args as Arguments) : status
  }

  #asked(args: Arguments): Status {
    const failed = (reason: string): Status =>
      refuse('KTL4173', { name: this.metadata.kernelName, method: 'supportsArguments', reason })
    try {
      const status = this.supportsArguments(args)
      return typeof status?.ok === 'boolean' ? status : failed(`it gave ${describe(status)}, not a Status`)
    } catch (error) {
      return failed(reasonOf(error))
    }
  }

  /** What the metadata do not say: called after target, operands, design and epilogue were found to fit. */
  abstract supportsArguments(args: Arguments): Status
  abstract compile(args?: Arguments, options?: { readonly signal?: AbortSignal }): Promise<Compiled>
  /** Enqueues on the stream and returns at once; a promise, if one is returned, settles at completion. */
  abstract launch(args: Arguments, options: KernelLaunchOptions<Compiled>): Promise<RunResult | void> | void
  /** Bytes of scratch memory that a call needs. */
  abstract getWorkspaceSize(args: Arguments): number
  /** Lets discovery rank the kernel; those without come after those with one. */
  estimate?(args: Arguments): Estimate

  /**
   * Runs to completion; outputs in host memory are written then. Rejects with a KtlError when the arguments are not
   * supported, the kernel does not compile, the artifact is another kernel's, or the virtual device has findings.
   */
  async run(args: Arguments, options: KernelLaunchOptions<Compiled> = {}): Promise<RunResult | void> {
    if (!options.assumeSupportedArgs) raise(this.supports(args))
    const artifact = options.artifact ?? (await this.compile(args, options))
    const { kernelName } = this.metadata
    if (artifact instanceof Artifact && artifact.kernelName !== kernelName)
      throw ktlError('KTL4040', { expected: kernelName, got: artifact.kernelName })
    this.checkWorkspace(args, options.workspace)
    const stream = options.stream ?? args.device.defaultStream
    const bytes = options.workspace ? 0 : this.getWorkspaceSize(args)
    const workspace = bytes > 0 ? { workspace: scratchOf(stream, bytes) } : {}
    const launched = this.launch(args, { ...options, ...workspace, artifact, stream })
    if (launched === undefined) await stream.synchronize()
    const result = await launched
    const error = findingsError(result?.findings ?? [])
    if (error) throw error
    await args.writeBack()
    return result
  }

  /** KTL4041 unless a workspace that is passed suffices. */
  protected checkWorkspace(args: Arguments, workspace: Tensor | undefined): void {
    if (workspace === undefined) return
    const expected = this.getWorkspaceSize(args)
    if (workspace.byteLength < expected)
      throw ktlError('KTL4041', { expected: String(expected), got: String(workspace.byteLength) })
  }

  toString(): string {
    return this.metadata.kernelName
  }
}

export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/**
 * Arguments that a subclass cannot take: for its `supportsArguments`. KTL4030 for other kinds.
 *
 * @example
 * const x = device.tensor('f32', [4], [1, 2, 3, 4])
 * const args = new ElementwiseArguments(x, x, device.empty('f32', [4]))
 * console.log(expectArguments(args, ElementwiseArguments).ok, expectArguments(args, GemmArguments).ok)
 */
export function expectArguments(
  args: RuntimeArguments,
  expected: abstract new (...args: never[]) => RuntimeArguments,
): Status {
  if (typeof expected?.prototype !== 'object')
    throw ktlError('KTL4015', { what: 'expected', expected: 'a class of arguments', got: describe(expected) })
  return args instanceof expected ? OK : refuse('KTL4030', { expected: expected.name, got: describeArguments(args) })
}
