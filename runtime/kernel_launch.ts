/** From a planned launch to work on a stream: modules are loaded once per device, operands are kept alive until it is done. */
import type { Artifact } from './artifact.ts'
import { resolveOperand, type Operand } from './arguments/operands.ts'
import type { Device } from './device.ts'
import type { ExecutionOptions } from './devices/execution.ts'
import { launchBindings, callTensors, type Call } from './discovery/call.ts'
import { mergeResults } from './launch_result.ts'
import { ktlError } from './fail.ts'
import { findingsError } from './findings.ts'
import type { DeviceModule, LaunchOptions, LaunchResult } from './module.ts'
import { planLaunches, workspaceBytes, type PlannedLaunch } from './launch.ts'
import type { TileOrder } from './kernel.ts'
import type { Stream } from './stream.ts'
import type { Tensor } from './tensor.ts'
import { formatShape } from './tensor_layout.ts'

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
  const image = device.moduleFormat === 'ptx' ? artifact.ptx(device.arch)! : artifact.section('cubin', device.arch)!
  const ready = device
    .loadModule(image, { name: `${artifact.kernelName} (PTX)`, sources: artifact.sources })
    .then((module) => (entry.module = module))
  const entry: Loaded = { module: null, ready }
  // Whoever launches sees the failure; one that nobody waits for must not end the process.
  ready.catch(() => artifacts.delete(artifact))
  artifacts.set(artifact, entry)
  return entry
}

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
  options.stream.enqueueDetached(checked, signalOf(options))
}

/**
 * A launch whose module is still loading: it takes its place in the stream now, and runs on a stream of its own when
 * its turn comes.
 */
function firstLaunch(request: LaunchRequest, options: StreamOptions): () => Promise<LaunchResult> {
  const { device, artifact, uses } = request
  const { stream } = options
  if (stream.device !== device)
    throw ktlError('KTL4009', { what: 'stream', expected: device.name, got: stream.device.name })
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
  const { stream, checks, order, seed, threads, tensorCores, instructionBudget, signal, onProgress, trace } = options
  const given = { checks, order, seed, threads, tensorCores, instructionBudget, signal, onProgress, trace }
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
export function tileGroup({ recipe }: Artifact, { extents }: Call, order: TileOrder = MAX_TILE_GROUP): number {
  const legal = order === 'm' || order === 'n' || (Number.isInteger(order) && order >= 1)
  if (!legal) throw ktlError('KTL4015', { what: 'tileOrder', expected: "'m', 'n' or a number of rows of tiles", got: String(order) })
  if (recipe.grid.kind !== 'persistent') return 1
  const [rows] = recipe.grid.tiles
  const all = rows ? Math.max(1, Math.ceil((extents[rows.axis] ?? 1) / rows.extent)) : 1
  return order === 'm' ? all : order === 'n' ? 1 : Math.min(order, all)
} // prettier-ignore

/** Scratch memory of the launches of a stream, which never overlap. */
const scratch = new WeakMap<Stream, Tensor>()

function scratchOf(stream: Stream, bytes: number): Tensor {
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
  const plans = planLaunches(artifact.recipe, { ...bindings, ...(memory && { workspace: memory.pointer }) }, device)
  const uses = [...callTensors(call).map(({ tensor }) => tensor), ...(memory ? [memory] : [])]
  return plans.length > 0 ? { device, artifact, plans, uses } : null
} // prettier-ignore

/** A call worked out beforehand. Shapes and scalars stay; tensors may be exchanged. */
export class PreparedLaunch {
  readonly #device: Device
  readonly #artifact: Artifact
  readonly #renames: ReadonlyMap<string, string>
  #call: Call
  /** Per stream: each has a workspace of its own. */
  #requests = new WeakMap<Stream, LaunchRequest | null>()

  /** Use `kernel.prepare`. */
  constructor(device: Device, artifact: Artifact, call: Call, renames: ReadonlyMap<string, string>) {
    this.#device = device
    this.#artifact = artifact
    this.#renames = renames
    this.#call = call
    this.#request(device.defaultStream)
    loadKernel(device, artifact)
  }

  /** Enqueues without any checks; failures surface at the stream's next synchronize or copy. */
  launch(stream: Stream = this.#device.defaultStream): void {
    const request = this.#request(stream)
    if (request) enqueueLaunch(request, { stream })
  }

  /** Other tensors of the same dtype, shape, strides and alignment. KTL4023 for unknown names, KTL4024 for other tensors. */
  rebind(tensors: Readonly<Record<string, Operand>>): this {
    const declared: Record<string, Tensor> = { ...this.#call.tensors }
    let fused = this.#call.fusion
    for (const [name, value] of Object.entries(tensors)) {
      const own = this.#renames.get(name) ?? name
      const before = declared[own] ?? fused?.tensors.find((t) => t.name === name)?.tensor
      if (!before) {
        const known = [...this.#renames.keys(), ...(fused?.tensors.map((t) => t.name) ?? [])]
        throw ktlError('KTL4023', { what: 'the prepared call', name, known, nearest: null })
      }
      const tensor = resolveOperand(name, value, this.#device, false)
      checkExchange(name, before, tensor)
      if (declared[own]) declared[own] = tensor
      else if (fused) fused = { ...fused, tensors: fused.tensors.map((t) => (t.name === name ? { ...t, tensor } : t)) }
    }
    this.#call = { ...this.#call, tensors: declared, fusion: fused }
    this.#requests = new WeakMap()
    this.#request(this.#device.defaultStream)
    return this
  }

  #request(stream: Stream): LaunchRequest | null {
    const known = this.#requests.get(stream)
    if (known !== undefined) return known
    const request = launchRequest(this.#device, this.#artifact, this.#call, { stream })
    this.#requests.set(stream, request)
    return request
  }
}

function checkExchange(name: string, before: Tensor, after: Tensor): void {
  const like = (tensor: Tensor): string =>
    `${tensor.dtype} ${formatShape(tensor.shape)} strides ${formatShape(tensor.strides)}`
  const aligned = before.pointer % 16n !== 0n || after.pointer % 16n === 0n
  if (like(before) === like(after) && aligned && before.device === after.device) return
  const got = aligned ? like(after) : `a pointer that is not aligned to 16 bytes`
  throw ktlError('KTL4024', { operand: name, expected: `a tensor like the one prepared (${like(before)})`, got })
}
