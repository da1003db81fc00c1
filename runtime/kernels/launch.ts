/** From a planned launch to work on a stream: modules are loaded once per device, operands are kept alive until it is done. */
import type { Artifact } from '../artifacts/artifact.ts'
import { resolveOperand, type Operand } from '../arguments/operands.ts'
import type { LaunchRecipe } from '../../codegen/cuda/generated.ts'
import type { Device } from '../devices/device.ts'
import type { ExecutionOptions } from '../devices/execution.ts'
import { launchBindings, callTensors, type Call } from '../discovery/calls/call.ts'
import { mergeResults } from '../modules/result.ts'
import { ktlError } from '../errors/fail.ts'
import { findingsError } from '../addon/findings.ts'
import type { DeviceModule } from '../modules/module.ts'
import type { LaunchResult } from '../modules/result.ts'
import type { LaunchOptions } from '../devices/device.ts'
import { addressOffsets, planLaunches, workspaceBytes } from './plan_launch.ts'
import type { PlannedLaunch } from '../modules/grid.ts'
import { checkTileOrder, type TileOrder } from '../arguments/performance.ts'
import type { Stream } from '../streams/stream.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { formatShape } from '../tensors/layout.ts'
import { internalOf, type FastLaunch } from '../devices/internal.ts'
import { checkStream } from '../streams/event.ts'
import { optionsOf } from '../errors/given.ts'

export interface LaunchRequest {
  readonly device: Device
  readonly artifact: Artifact
  /** In stream order; at least one. */
  readonly plans: readonly PlannedLaunch[]
  readonly uses: readonly Tensor[]
}

export interface StreamOptions extends ExecutionOptions {
  readonly stream: Stream
  readonly signal?: AbortSignal
  readonly onProgress?: (done: number, total: number) => void
  readonly trace?: boolean
}

interface Loaded {
  /** null: still loading. */
  module: DeviceModule | null
  readonly ready: Promise<DeviceModule>
}

const loaded = new WeakMap<Device, WeakMap<Artifact, Loaded>>()

/** The artifact's module on a device; loading starts at the first call. */
export function loadKernel(device: Device, artifact: Artifact): Loaded {
  let artifacts = loaded.get(device)
  if (!artifacts) loaded.set(device, (artifacts = new WeakMap()))
  const known = artifacts.get(artifact)
  if (known) return known
  const entry = startLoading(device, artifact)
  // Whoever launches sees the failure; one that nobody waits for must not end the process.
  entry.ready.catch(() => artifacts.delete(artifact))
  artifacts.set(artifact, entry)
  return entry
}

/** Machine code where the device takes it and the artifact has it, else PTX. */
function startLoading(device: Device, artifact: Artifact): Loaded {
  const options = { name: `${artifact.kernelName} (PTX)`, sources: artifact.sources }
  const cubin = device.moduleFormat === 'cubin' ? artifact.section('cubin', device.arch) : null
  const image = cubin ?? artifact.section('ptx', device.arch)!
  const module = internalOf(device).loadModuleNow?.(image, options)
  if (module) {
    return { module, ready: Promise.resolve(module) }
  }
  const ready = device.loadModule(image, options).then((module) => (entry.module = module))
  const entry: Loaded = { module: null, ready }
  return entry
}

/** Kernels of a recipe: of the call itself, and of what is launched after it. */
export const entriesOf = ({ entry, next }: LaunchRecipe): string[] => [entry, ...(next ? entriesOf(next) : [])]

/** Runs on the stream; resolves with findings and statistics. */
export function runLaunch(request: LaunchRequest, options: StreamOptions): Promise<LaunchResult> {
  const { module } = loadKernel(request.device, request.artifact)
  if (module) return runAll(module, request, options)
  return options.stream.enqueue(firstLaunch(request, options), signalOf(options))
}

async function runAll(module: DeviceModule, request: LaunchRequest, options: StreamOptions): Promise<LaunchResult> {
  const { plans } = request
  return mergeResults(
    await Promise.all(plans.map((plan) => module.function(plan.entry).launch(launchOptions(request, plan, options)))),
  )
}

/** Enqueues and returns; findings and errors surface at the stream. */
export function enqueueLaunch(request: LaunchRequest, options: StreamOptions): void {
  const { module } = loadKernel(request.device, request.artifact)
  if (module) {
    for (const plan of request.plans) module.function(plan.entry).enqueue(launchOptions(request, plan, options))
    return
  }
  const work = firstLaunch(request, options)
  const checked = async (): Promise<void> => {
    const error = findingsError((await work()).findings, request.artifact.sources)
    if (error) throw error
  }
  checkStream(request.device, options.stream).enqueueDetached(checked, signalOf(options))
}

/**
 * A launch whose module is still loading: it takes its place in the stream now, and runs on a stream of its own when
 * its turn comes.
 */
function firstLaunch(request: LaunchRequest, options: StreamOptions): () => Promise<LaunchResult> {
  const { device, artifact, uses } = request
  const { stream } = options
  checkStream(device, stream)
  uses.forEach((tensor) => tensor.recordUse(stream))
  const { ready } = loadKernel(device, artifact)
  return async () => runAll(await ready, request, { ...options, stream: device.createStream() })
}

const signalOf = ({ signal }: StreamOptions): { signal?: AbortSignal } => (signal ? { signal } : {})

/** What launches of modules know; the other options are the kernel's. */
function launchOptions(
  { uses }: LaunchRequest,
  { entry: _, ...plan }: PlannedLaunch,
  options: StreamOptions,
): LaunchOptions {
  const { stream, checks, order, seed, threads, tensorCores, instructionBudget, warpInstructionBudget } = options
  const { signal, onProgress, trace } = options
  const budgets = { instructionBudget, warpInstructionBudget }
  const given = { checks, order, seed, threads, tensorCores, ...budgets, signal, onProgress, trace }
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    ...plan,
    uses,
    stream,
  }
}

/** Rows of tiles walked before columns advance: neighbours share A and B in L2. */
const MAX_TILE_GROUP = 8

/** KTL4015 for an order that is none. */
export function tileGroup({ recipe }: Artifact, { extents, performance }: Call, wanted?: TileOrder): number {
  const order = checkTileOrder(wanted ?? performance?.tileOrder ?? MAX_TILE_GROUP)
  if (recipe.grid.kind !== 'persistent') return 1
  const [rows] = recipe.grid.tiles
  const all = rows ? Math.max(1, Math.ceil((extents[rows.axis] ?? 1) / rows.extent)) : 1
  return order === 'm' ? all : order === 'n' ? 1 : Math.min(order, all)
} // prettier-ignore

/** Scratch memory of the launches of a stream, which never overlap. */
const scratch = new WeakMap<Stream, Tensor>()

/** `bytes` of it, at least; later launches of the stream use the same. */
export function scratchOf(stream: Stream, bytes: number): Tensor {
  const known = scratch.get(stream)
  if (known && known.byteLength >= bytes) return known
  // Work under way keeps the old one alive; memory goes back when nobody refers to it.
  const tensor = stream.device.empty('u8', [bytes])
  scratch.set(stream, tensor)
  return tensor
}

export interface RequestOptions {
  readonly stream: Stream
  /** At least `workspaceBytes`; default: from a pool of the stream. */
  readonly workspace?: Tensor | undefined
  readonly tileOrder?: TileOrder | undefined
}

/** null: nothing to compute. */
export function launchRequest(device: Device, artifact: Artifact, call: Call, { stream, workspace, tileOrder }: RequestOptions): LaunchRequest | null {
  const bindings = { ...launchBindings(call), tileGroup: tileGroup(artifact, call, tileOrder) }
  const bytes = workspaceBytes(artifact.recipe, bindings)
  const memory = bytes === 0 ? null : (workspace ?? scratchOf(stream, bytes))
  const smCount = Math.min(device.smCount, call.performance?.maxSms ?? Infinity)
  const plans = planLaunches(artifact.recipe, { ...bindings, ...(memory && { workspace: memory.pointer }) }, { smCount })
  const uses = [...callTensors(call).map(({ tensor }) => tensor), ...(memory ? [memory] : [])]
  return plans.length > 0 ? { device, artifact, plans, uses } : null
} // prettier-ignore

/** A call on one stream: each has a workspace of its own. */
interface Ready {
  readonly stream: Stream
  request: LaunchRequest
  /** Where the device takes launches ready made. */
  readonly fast: FastLaunch | null
  /** The stream is known to use the tensors of the request. */
  announced: boolean
}

/**
 * A call worked out beforehand. Shapes and scalars stay; tensors may be exchanged.
 *
 * @example
 * const A = device.tensor('f16', [64, 32], 1)
 * const B = device.tensor('f16', [32, 48], 1)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 48]) })
 * const kernel = getKernels(args, { providers: [KtlProvider] })[0] as KtlKernel
 * const prepared = kernel.prepare(args, await kernel.compile(args))
 * const other = device.empty('f32', [64, 48])
 * prepared.launch()
 * prepared.rebind({ out: other }).launch()
 * console.log(prepared instanceof PreparedLaunch, (await other.toArray())[0]) // true 32
 */
export class PreparedLaunch {
  readonly #device: Device
  readonly #artifact: Artifact
  readonly #renames: ReadonlyMap<string, string>
  #call: Call
  /** null: nothing to compute. */
  readonly #streams = new Map<Stream, Ready | null>()
  /** The stream of the last launch. */
  #last: Ready | null

  /** Use `kernel.prepare`. */
  constructor(device: Device, artifact: Artifact, call: Call, renames: ReadonlyMap<string, string>) {
    this.#device = device
    this.#artifact = artifact
    this.#renames = renames
    this.#call = call
    loadKernel(device, artifact)
    this.#last = this.#on(device.defaultStream)
  }

  /** Enqueues without any checks; failures surface at the stream's next synchronize or copy. */
  launch(stream: Stream = this.#device.defaultStream): void {
    const last = this.#last
    const ready = last !== null && last.stream === stream ? last : this.#on(stream)
    if (ready === null) return
    if (ready.fast === null) return enqueueLaunch(ready.request, { stream })
    if (!ready.announced || stream.capturing) {
      for (const tensor of ready.request.uses) tensor.recordUse(stream)
      ready.announced = true
    }
    ready.fast.launch(stream)
  }

  /** Nanoseconds of the CPU that the driver alone takes for a launch on the default stream; null where that is not known. */
  driverTime(count: number): number | null {
    const ready = this.#on(this.#device.defaultStream)
    return ready?.fast?.time?.(ready.stream, count) ?? null
  }

  /**
   * Other tensors of the same dtype, shape, strides and alignment; arrays in host memory are copied in, never back.
   * KTL4023 for unknown names, KTL4024 for other tensors.
   */
  rebind(tensors: Readonly<Record<string, Operand>>): this {
    const declared: Record<string, Tensor> = { ...this.#call.tensors }
    let fused = this.#call.fusion
    const changed = new Map<string, bigint>()
    for (const [name, value] of Object.entries(optionsOf('tensors', tensors ?? (null as never)))) {
      const own = this.#renames.get(name) ?? name
      const before = declared[own] ?? fused?.tensors.find((t) => t.name === name)?.tensor
      if (!before) {
        const known = [...this.#renames.keys(), ...(fused?.tensors.map((t) => t.name) ?? [])]
        throw ktlError('KTL4023', { what: 'the prepared call', name, known, nearest: null })
      }
      const tensor = resolveOperand(name, value, this.#device, false)
      checkExchange(name, before, tensor)
      changed.set(declared[own] ? own : name, tensor.pointer)
      if (declared[own]) declared[own] = tensor
      else if (fused) fused = { ...fused, tensors: fused.tensors.map((t) => (t.name === name ? { ...t, tensor } : t)) }
    }
    this.#call = { ...this.#call, tensors: declared, fusion: fused }
    for (const [stream, ready] of this.#streams)
      if (!ready || !this.#patch(ready, changed)) this.#streams.delete(stream)
    this.#last = this.#on(this.#device.defaultStream)
    return this
  }

  /** Only addresses change: everything else of the launches stays as it is. */
  #patch(ready: Ready, changed: ReadonlyMap<string, bigint>): boolean {
    const { fast, request } = ready
    if (!fast?.patchable) return false
    for (let rule: LaunchRecipe | undefined = this.#artifact.recipe; rule; rule = rule.next) {
      const { entry } = rule
      const i = request.plans.findIndex((plan) => plan.entry === entry)
      if (i < 0) continue
      const offsets = addressOffsets(rule)
      for (const [name, pointer] of changed)
        for (const offset of offsets.get(name) ?? []) fast.patch(i, offset, pointer)
    }
    const tensors = callTensors(this.#call).map(({ tensor }) => tensor)
    ready.request = { ...request, uses: [...tensors, ...request.uses.slice(tensors.length)] }
    ready.announced = false
    return true
  }

  #on(stream: Stream): Ready | null {
    const known = this.#streams.get(stream)
    if (known !== undefined) return known
    const device = this.#device
    const request = launchRequest(device, this.#artifact, this.#call, { stream })
    const { module } = loadKernel(device, this.#artifact)
    const fast = (request && module && internalOf(device).prepareLaunch?.(module, request.plans)) ?? null
    const ready = request && { stream, request, fast, announced: false }
    this.#streams.set(stream, ready)
    return ready
  }
}

function checkExchange(name: string, before: Tensor, after: Tensor): void {
  const equal = (a: readonly number[], b: readonly number[]): boolean =>
    a.length === b.length && a.every((x, i) => x === b[i])
  const alike = before.dtype === after.dtype && equal(before.shape, after.shape) && equal(before.strides, after.strides)
  const aligned = before.pointer % 16n !== 0n || after.pointer % 16n === 0n
  if (alike && aligned && before.device === after.device) return
  const like = (tensor: Tensor): string =>
    `${tensor.dtype} ${formatShape(tensor.shape)} strides ${formatShape(tensor.strides)}`
  const got = aligned ? like(after) : `a pointer that is not aligned to 16 bytes`
  throw ktlError('KTL4024', { operand: name, expected: `a tensor like the one prepared (${like(before)})`, got })
}
