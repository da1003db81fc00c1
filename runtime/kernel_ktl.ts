import type { GeneratedKernel } from '../codegen/generated.ts'
import { KTL_VERSION } from '../codegen/version.ts'
import type { TargetArch } from '../compiler/instance.ts'
import { printTensorProgram } from '../compiler/print.ts'
import { Artifact, type Json } from './artifact.ts'
import type { RuntimeArguments } from './arguments/base.ts'
import type { Call } from './discovery/call.ts'
import type { PlannedInstance } from './discovery/planned.ts'
import type { Estimate } from './discovery/rank.ts'
import { ktlError } from './fail.ts'
import { findingsError } from './findings.ts'
import { Kernel, type KernelLaunchOptions, type RunResult } from './kernel.ts'
import { enqueueLaunch, launchRequest, PreparedLaunch, runLaunch } from './kernel_launch.ts'
import { workspaceBytes } from './launch.ts'
import { OK, raise, type Status } from './status.ts'
import { compileCached } from './toolchain/cached.ts'
import type { KernelResources } from './toolchain/resources.ts'

export type KernelRunOptions = KernelLaunchOptions<Artifact>

/** Artifacts of this process, by target and format. */
const artifacts = new WeakMap<PlannedInstance, Map<string, Artifact>>()

/** A kernel that ktl generated: an instance of a `.ktl` kernel. */
export class KtlKernel extends Kernel<RuntimeArguments, Artifact> {
  readonly #planned: PlannedInstance

  constructor(planned: PlannedInstance) {
    super(planned.metadata)
    this.#planned = planned
  }

  /** CUDA text, launch recipe and source map. */
  get generated(): GeneratedKernel {
    return this.#planned.generated
  }

  /** What is planned and printed: for `inspect` and tests. */
  get plan(): PlannedInstance['plan'] {
    return this.#planned.plan
  }

  supportsArguments(args: RuntimeArguments): Status {
    const call = this.#planned.call(args)
    return 'ok' in call ? call : OK
  }

  override estimate(args: RuntimeArguments): Estimate {
    return this.#planned.estimate(this.call(args).extents)
  }

  /** Partial results of reductions. Throws when the arguments are not supported. */
  getWorkspaceSize(args: RuntimeArguments): number {
    return workspaceBytes(this.generated.recipe, this.call(args))
  }

  /**
   * CUDA text through nvcc, for the device of `args` (default: the target the kernel was found for), out of the cache
   * where possible. KTL600x without nvcc.
   */
  async compile(args?: RuntimeArguments, options: { readonly signal?: AbortSignal } = {}): Promise<Artifact> {
    const arch = (args?.device.arch ?? this.#planned.instance.target) as TargetArch
    const kind = args?.device.moduleFormat ?? 'ptx'
    const made = artifacts.get(this.#planned) ?? new Map<string, Artifact>()
    artifacts.set(this.#planned, made)
    const known = made.get(`${arch} ${kind}`)
    if (known) return known
    const artifact = await this.#build(arch, kind, options.signal)
    made.set(`${arch} ${kind}`, artifact)
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

  async #build(arch: TargetArch, kind: 'ptx' | 'cubin', signal: AbortSignal | undefined): Promise<Artifact> {
    const { generated } = this
    const { family } = this.#planned.space
    const sources = { map: generated.sourceMap, ktl: family.source }
    const compiled = await compileCached(generated.cuda, { arch, kind, name: `${family.name}.cu`, sources, signal })
    const info = {
      ktl: KTL_VERSION,
      toolkit: compiled.nvccVersion,
      kernelName: this.metadata.kernelName,
      targets: this.metadata.targets,
      signature: this.#signature(),
      recipe: generated.recipe,
      sourceMap: generated.sourceMap,
      source: family.source,
      resources: compiled.resources,
    }
    return new Artifact(info, [
      { name: 'cuda', target: null, bytes: new TextEncoder().encode(generated.cuda) },
      { name: kind, target: arch, bytes: compiled.image },
    ])
  }

  /** Enqueues; failures and findings surface at the stream's next synchronize or copy. */
  launch(args: RuntimeArguments, options: KernelLaunchOptions<Artifact>): void {
    const { artifact } = options
    if (!options.assumeSupportedArgs) raise(this.supports(args))
    if (artifact === undefined)
      throw ktlError('KTL4022', { what: 'launch', missing: ['artifact'], known: ['artifact', 'stream'] })
    this.checkWorkspace(args, options.workspace)
    this.#checkArtifact(artifact, args.device.arch)
    const stream = options.stream ?? args.device.defaultStream
    const request = launchRequest(args.device, artifact, this.call(args), {
      stream,
      workspace: options.workspace,
      tileOrder: options.tileOrder,
    })
    if (request) enqueueLaunch(request, { ...options, stream })
  }

  override async run(args: RuntimeArguments, options: KernelLaunchOptions<Artifact> = {}): Promise<RunResult> {
    if (!options.assumeSupportedArgs) raise(this.supports(args))
    this.checkWorkspace(args, options.workspace)
    const artifact = options.artifact ?? (await this.compile(args, options))
    this.#checkArtifact(artifact, args.device.arch)
    const stream = options.stream ?? args.device.defaultStream
    const request = launchRequest(args.device, artifact, this.call(args), {
      stream,
      workspace: options.workspace,
      tileOrder: options.tileOrder,
    })
    if (request === null) return { findings: [], stats: NOTHING_DONE }
    const result = await runLaunch(request, { ...options, stream })
    const error = findingsError(result.findings, artifact.sources)
    if (error) throw error
    return result
  }

  /** Everything about a call worked out once: `prepared.launch(stream)` only enqueues. Throws when not supported. */
  prepare(args: RuntimeArguments, artifact: Artifact): PreparedLaunch {
    raise(this.supports(args))
    this.#checkArtifact(artifact, args.device.arch)
    return new PreparedLaunch(args.device, artifact, this.call(args), this.#renames(args))
  }

  /** The call that `args` make, in the names and axes of `plan.program`; throws when they are not supported. */
  call(args: RuntimeArguments): Call {
    const call = this.#planned.call(args)
    if ('ok' in call) {
      raise(call)
      throw new Error('a refused call was raised')
    }
    return call
  }

  /** Names of the operands in the arguments → in the kernel. */
  #renames(args: RuntimeArguments): ReadonlyMap<string, string> {
    const { operation } = this.#planned.space
    const own = Object.keys(args.tensors)
    const generic = operation !== null && own.join() === 'A,B,out' ? [operation.A, operation.B, operation.out] : own
    return new Map(own.map((name, i) => [name, generic[i]!]))
  }

  #checkArtifact(artifact: Artifact, arch: string): void {
    const { kernelName } = this.metadata
    if (artifact.kernelName !== kernelName)
      throw ktlError('KTL4040', { expected: kernelName, got: artifact.kernelName })
    if (artifact.section('ptx', arch) === null && artifact.section('cubin', arch) === null) {
      const built = artifact.sections.flatMap(({ target }) => target ?? [])
      throw ktlError('KTL4040', {
        expected: `${kernelName} for ${arch}`,
        got: `it for ${built.join(', ') || 'no target'}`,
      })
    }
  }

  #signature(): Json {
    const { operands, scalars } = this.#planned.program
    return {
      operands: operands.map(({ name, role, dtype, axes, order, divisibility }) => ({
        name,
        role,
        dtype,
        axes,
        order,
        divisibility,
      })),
      scalars: scalars.map(({ name, dtype }) => ({ name, dtype })),
      program: printTensorProgram(this.#planned.program),
    }
  }
}

const NOTHING_DONE: RunResult['stats'] = Object.freeze({
  warpInstructions: 0,
  ctas: 0,
  clusters: 0,
  milliseconds: 0,
  tensorMacs: 0,
  tmaBytesLoaded: 0,
  tmaBytesStored: 0,
  sharedBytesPerCta: 0,
  tmemColumns: 0,
  modelledCycles: 0,
  fidelity: { exact: {}, approximated: {} },
})
