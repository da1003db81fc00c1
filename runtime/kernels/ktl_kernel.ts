import type { GeneratedKernel } from '../../codegen/cuda/generated.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import { storedArtifact } from '../artifacts/aot/registry.ts'
import type { Artifact } from '../artifacts/artifact.ts'
import { buildArtifact } from './build_artifact.ts'
import { artifactStatus } from './kernel_artifact.ts'
import { RuntimeArguments } from '../arguments/base.ts'
import type { Device } from '../devices/device.ts'
import { machineOn } from '../discovery/ranking/machine.ts'
import type { Call } from '../discovery/calls/call.ts'
import type { PlannedKernel } from './planned_kernel.ts'
import type { Estimate } from '../discovery/ranking/rank.ts'
import { ktlError } from '../errors/fail.ts'
import { findingsError } from '../addon/findings.ts'
import { Kernel, type KernelLaunchOptions, type RunResult } from './kernel.ts'
import { enqueueLaunch, launchRequest, runLaunch } from './launch.ts'
import { PreparedLaunch } from './prepared.ts'
import { workspaceBytes } from './plan_launch.ts'
import { launchStats } from '../modules/result.ts'
import { GemmArguments } from '../arguments/gemm.ts'
import { operandsStatus } from '../metadata/supports.ts'
import { OK, raise, refuse, Status } from '../errors/status.ts'
import { compileCached } from '../toolchain/cached.ts'
import type { KernelResources } from '../toolchain/resources.ts'
import { checkStream } from '../streams/event.ts'
import { optionsOf, signalOf } from '../errors/given.ts'
import { describe } from '../errors/describe.ts'

/** How a call of a kernel of ktl runs. */
export type KernelRunOptions = KernelLaunchOptions<Artifact>

/** How long a compilation may take. */
export interface CompileKernelOptions {
  readonly signal?: AbortSignal
  /** Milliseconds for each run of nvcc. Default: KTL_NVCC_TIMEOUT (seconds), else 5 minutes. */
  readonly timeoutMs?: number
}

/** Artifacts of this process, by target and format. `loads`: a device has taken it. */
const artifacts = new WeakMap<PlannedKernel, Map<string, { readonly artifact: Artifact; readonly loads: boolean }>>()

/**
 * A kernel that ktl generated: an instance of a `.ktl` kernel.
 *
 * @example
 * const A = device.tensor('f16', [64, 32], 1)
 * const B = device.tensor('f16', [32, 48], 1)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 48]) })
 * const kernel = getKernels(args)[0] as KtlKernel
 * console.log(kernel instanceof KtlKernel, kernel.generated.cuda.includes('__global__')) // true true
 * await kernel.run(args)
 * console.log((await args.out.toArray())[0]) // 32
 */
export class KtlKernel extends Kernel<RuntimeArguments, Artifact> {
  readonly #planned: PlannedKernel

  constructor(planned: PlannedKernel) {
    super(planned.metadata)
    this.#planned = planned
  }

  /** The instance it stands for. */
  get planned(): PlannedKernel {
    return this.#planned
  }

  /** CUDA text, launch recipe and source map. */
  get generated(): GeneratedKernel {
    return this.#planned.generated
  }

  /** What is planned and printed: for `inspect` and tests. */
  get plan(): PlannedKernel['plan'] {
    return this.#planned.plan
  }

  /** Operands of a call by its own names have been looked at by the kernel itself. */
  override supports(args: RuntimeArguments): Status {
    if (!(args instanceof RuntimeArguments)) return noArguments(args)
    const { operands, design } = this.metadata
    const status = Status.first(
      this.metadata.runsOn(args.device.arch),
      args instanceof GemmArguments && operands.kind === 'gemm' ? operandsStatus(operands, args) : OK,
      design.supports(args.performance),
    )
    return status.ok ? this.supportsArguments(args) : status
  }

  supportsArguments(args: RuntimeArguments): Status {
    const call = this.#planned.call(args)
    if ('ok' in call) return call
    const { remark } = this
    return remark === null ? OK : { ok: true, remark }
  }

  /** What to know about a kernel that works: a GEMM off the tensor cores, and why; null: nothing. */
  get remark(): string | null {
    const off = this.#planned.offTensorCores
    return off && `on the CUDA cores, not the tensor cores: ${off.reason} (${off.code})`
  }

  /** Whether an artifact, wherever it comes from, is of this kernel and runs on the device; KTL4040 says why not. */
  supportsArtifact(artifact: Artifact, device: Pick<Device, 'arch' | 'moduleFormat'>): Status {
    return artifactStatus(this.#planned, artifact, { arch: device.arch, format: device.moduleFormat })
  }

  override estimate(args: RuntimeArguments): Estimate {
    const { expected } = this.call(args)
    return this.#planned.estimate(expected, machineOn(args.device, this.#planned.instance.target))
  }

  /** Partial results of reductions. Throws when the arguments are not supported. */
  getWorkspaceSize(args: RuntimeArguments): number {
    return workspaceBytes(this.generated.recipe, this.call(args))
  }

  /**
   * Out of a folder of `registerArtifacts`, else CUDA text through nvcc (out of the cache where possible), for the device of
   * `args`; default: the target the kernel was found for. KTL600x when nvcc does not do its part, KTL6062 for a damaged folder.
   */
  async compile(args?: RuntimeArguments, options: CompileKernelOptions = {}): Promise<Artifact> {
    if (args !== undefined && !(args instanceof RuntimeArguments)) raise(noArguments(args))
    optionsOf('options', options)
    const arch = (args?.device.arch ?? this.#planned.instance.target) as TargetArch
    const kind = args?.device.moduleFormat ?? 'ptx'
    const device = args?.device ?? null
    const made = artifacts.get(this.#planned) ?? new Map<string, { artifact: Artifact; loads: boolean }>()
    artifacts.set(this.#planned, made)
    const known = made.get(`${arch} ${kind}`)
    if (known && (known.loads || device === null)) return known.artifact
    const stored = await storedArtifact(this.metadata.kernelName, arch, kind)
    if (stored) {
      raise(artifactStatus(this.#planned, stored, { arch, format: kind }))
      return stored
    }
    const artifact = await buildArtifact(this.#planned, this.generated, { ...options, arch, kind, device })
    made.set(`${arch} ${kind}`, { artifact, loads: device !== null })
    return artifact
  }

  /** Registers, spills and stack as ptxas reports them for the target it was found for: makes a cubin, out of the cache where possible. */
  async resources(options: { readonly signal?: AbortSignal } = {}): Promise<KernelResources> {
    const { family } = this.#planned.space
    const { target: arch } = this.#planned.instance
    const compiled = await compileCached(this.generated.cuda, {
      arch,
      kind: 'cubin',
      name: `${family.name}.cu`,
      signal: options.signal,
    })
    return compiled.resources[0]!
  }

  /** Enqueues; failures and findings surface at the stream's next synchronize or copy. */
  launch(args: RuntimeArguments, options: KernelLaunchOptions<Artifact>): void {
    checkRun(args, options ?? (null as never))
    const { artifact } = options
    if (!options.assumeSupportedArgs) raise(this.supports(args))
    if (artifact === undefined)
      throw ktlError('KTL4022', { what: 'launch', missing: ['artifact'], known: ['artifact', 'stream'] })
    this.checkWorkspace(args, options.workspace)
    raise(this.supportsArtifact(artifact, args.device))
    const stream = options.stream ?? args.device.defaultStream
    const request = launchRequest(args.device, artifact, this.call(args), {
      stream,
      workspace: options.workspace,
      tileOrder: options.tileOrder,
    })
    if (request) enqueueLaunch(request, { ...options, stream })
  }

  override async run(args: RuntimeArguments, options: KernelLaunchOptions<Artifact> = {}): Promise<RunResult> {
    checkRun(args, options)
    if (!options.assumeSupportedArgs) raise(this.supports(args))
    this.checkWorkspace(args, options.workspace)
    const artifact = options.artifact ?? (await this.compile(args, options))
    raise(this.supportsArtifact(artifact, args.device))
    const stream = options.stream ?? args.device.defaultStream
    const request = launchRequest(args.device, artifact, this.call(args), {
      stream,
      workspace: options.workspace,
      tileOrder: options.tileOrder,
    })
    if (request === null) return { findings: [], stats: launchStats() }
    const result = await runLaunch(request, { ...options, stream })
    const error = findingsError(result.findings, artifact.sources)
    if (error) throw error
    await args.writeBack()
    return result
  }

  /** Everything about a call worked out once: `prepared.launch(stream)` only enqueues. Throws when not supported. */
  prepare(args: RuntimeArguments, artifact: Artifact): PreparedLaunch {
    raise(this.supports(args))
    raise(this.supportsArtifact(artifact, args.device))
    const call = this.call(args)
    return new PreparedLaunch(args.device, artifact, call, renamesOf(call))
  }

  /** The call that `args` make, in the names and axes of `plan.program`; throws when they are not supported. */
  call(args: RuntimeArguments): Call {
    if (!(args instanceof RuntimeArguments)) raise(noArguments(args))
    const call = this.#planned.call(args)
    if ('ok' in call) {
      raise(call)
      throw new Error('a refused call was raised')
    }
    return call
  }
}

/** Names of the operands in the arguments → in the kernel. */
const renamesOf = ({ tensors, shownAs }: Call): ReadonlyMap<string, string> =>
  new Map(Object.keys(tensors).map((name) => [shownAs[name] ?? name, name]))

const noArguments = (got: unknown): Status =>
  refuse('KTL4024', {
    operand: 'args',
    expected: 'GemmArguments, KernelArguments or ElementwiseArguments',
    got: describe(got),
  })

function checkRun(args: RuntimeArguments, options: KernelLaunchOptions<Artifact>): void {
  if (!(args instanceof RuntimeArguments)) raise(noArguments(args))
  const { stream, signal } = optionsOf('options', options)
  signalOf(signal)
  if (stream !== undefined) checkStream(args.device, stream)
}
