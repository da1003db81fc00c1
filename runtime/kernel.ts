import { ktlError } from './fail.ts'
import type { RuntimeArguments } from './arguments/base.ts'
import { GemmArguments } from './arguments/gemm.ts'
import type { ExecutionOptions } from './devices/execution.ts'
import { describeArguments } from './discovery/call.ts'
import { operandsStatus } from './discovery/operand_status.ts'
import type { Estimate } from './discovery/rank.ts'
import { GemmOperandsMetadata } from './metadata/operands.ts'
import type { KernelMetadata } from './metadata/kernel.ts'
import type { EpilogueArguments } from './arguments/epilogue.ts'
import type { LaunchResult } from './module.ts'
import { OK, raise, refuse, type Status } from './status.ts'
import type { Stream } from './stream.ts'
import type { Tensor } from './tensor.ts'

/**
 * Which output tiles of a tensor-core kernel follow one another: down a column of tiles (`m`), along a row of them (`n`), or
 * in groups of so many rows of tiles, whose operands stay in L2. The results do not depend on it.
 */
export type TileOrder = 'm' | 'n' | number

export interface KernelLaunchOptions<Compiled> extends ExecutionOptions {
  /** Default: groups of 8 rows. */
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

export interface GenerateOptions {
  /** Kernels it refuses must not be returned. */
  readonly metadataFilter: (metadata: KernelMetadata) => boolean
  /** The epilogue asked for; null: none. */
  readonly epilogueArguments: EpilogueArguments | null
  /** Compute capability: 100. */
  readonly cc: number
}

/** A class that a provider takes: its instances are found by `getKernels`. */
export interface KernelClass {
  new (...args: never[]): Kernel
  readonly name: string
  generateKernels(options: GenerateOptions): Iterable<Kernel>
}

/**
 * One compilable kernel: metadata, and what runs it. Subclass it to bring a kernel of your own: implement
 * `supportsArguments`, `compile`, `launch`, `getWorkspaceSize` and a static `generateKernels`, and register the class
 * with a provider.
 */
export abstract class Kernel<Arguments extends RuntimeArguments = RuntimeArguments, Compiled = unknown> {
  readonly metadata: KernelMetadata
  /** Why discovery placed it where it is. */
  rankReason: string | null = null

  constructor(metadata: KernelMetadata) {
    this.metadata = metadata
  }

  /** Whether `run` would work. Never throws. */
  supports(args: RuntimeArguments): Status {
    const { operands, targets } = this.metadata
    const arch = args.device.arch
    if (!(targets as readonly string[]).includes(arch)) {
      return refuse('KTL4038', { expected: targets.join(', '), got: arch })
    }
    if (operands instanceof GemmOperandsMetadata && args instanceof GemmArguments) {
      const status = operandsStatus(operands, args)
      if (!status.ok) return status
    }
    return this.supportsArguments(args as Arguments)
  }

  /** What `supports` does not know: called after the target and, for GEMMs, the operands were found to fit. */
  abstract supportsArguments(args: Arguments): Status
  abstract compile(args?: Arguments, options?: { readonly signal?: AbortSignal }): Promise<Compiled>
  /** Enqueues on the stream and returns at once; a promise, if one is returned, settles at completion. */
  abstract launch(args: Arguments, options: KernelLaunchOptions<Compiled>): Promise<RunResult | void> | void
  /** Bytes of scratch memory that a call needs. */
  abstract getWorkspaceSize(args: Arguments): number
  /** Lets discovery rank the kernel; those without come after those with one. */
  estimate?(args: Arguments): Estimate

  /**
   * Runs to completion. Rejects with a KtlError when the arguments are not supported, the kernel does not compile, or
   * the virtual device has findings.
   */
  async run(args: Arguments, options: KernelLaunchOptions<Compiled> = {}): Promise<RunResult | void> {
    if (!options.assumeSupportedArgs) raise(this.supports(args))
    const artifact = options.artifact ?? (await this.compile(args, options))
    this.checkWorkspace(args, options.workspace)
    const stream = options.stream ?? args.device.defaultStream
    const launched = this.launch(args, { ...options, artifact, stream })
    if (launched !== undefined) return launched
    await stream.synchronize()
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

/** Arguments that a subclass cannot take: for its `supportsArguments`. */
export function expectArguments(
  args: RuntimeArguments,
  expected: abstract new (...args: never[]) => RuntimeArguments,
): Status {
  return args instanceof expected ? OK : refuse('KTL4030', { expected: expected.name, got: describeArguments(args) })
}
