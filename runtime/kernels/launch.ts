/** From a planned launch to work on a stream: modules are loaded once per device, operands are kept alive until it is done. */
import type { LaunchRecipe } from '../../codegen/cuda/generated.ts'
import { launchesOf } from '../../compiler/ir/launch.ts'
import { findingsError } from '../addon/findings.ts'
import type { TileOrder } from '../arguments/performance.ts'
import type { Artifact } from '../artifacts/artifact.ts'
import type { Device, DeviceModule, LaunchOptions, Stream, Tensor } from '../devices/device.ts'
import type { ExecutionOptions } from '../devices/execution.ts'
import { internalOf } from '../devices/internal.ts'
import { callTensors, launchBindings, type Call } from '../discovery/calls/call.ts'
import type { PlannedLaunch } from '../modules/grid.ts'
import { mergeResults, type LaunchResult } from '../modules/result.ts'
import { checkStream } from '../streams/event.ts'
import { planLaunches, workspaceBytes, zeroedBytes } from './plan_launch.ts'
import { tileGroup } from './tile_group.ts'

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

/** Kernels of a recipe: of the call itself, and of what is launched before and after it. */
export const entriesOf = (recipe: LaunchRecipe): string[] => launchesOf(recipe).map(({ entry }) => entry)

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

/** Of one axis; larger scratch memory has rows. */
const MOST_EXTENT = 2 ** 31 - 1
const SCRATCH_ROW = 2 ** 20

/** Scratch memory of the launches of a stream, which never overlap. */
const scratch = new WeakMap<Stream, Tensor>()

/** `bytes` of it, at least; later launches of the stream use the same. */
export function scratchOf(stream: Stream, bytes: number): Tensor {
  const known = scratch.get(stream)
  if (known && known.byteLength >= bytes) return known
  // Work under way keeps the old one alive; memory goes back when nobody refers to it.
  const tensor = stream.device.empty(
    'u8',
    bytes > MOST_EXTENT ? [Math.ceil(bytes / SCRATCH_ROW), SCRATCH_ROW] : [bytes],
  )
  scratch.set(stream, tensor)
  return tensor
}

/** Zeros of a stream, whose launches leave them as zeros; `failures`: of the stream when they were made. */
const zeros = new WeakMap<Stream, { readonly tensor: Tensor; readonly failures: number }>()

/**
 * At least `bytes` of zeros. Work that failed may have left others: then there are new ones. A graph has its own, since it may run beside
 * the stream that recorded it.
 */
function zerosOf(stream: Stream, bytes: number): Tensor {
  const known = zeros.get(stream)
  const { failures } = checkStream(stream.device, stream)
  if (!stream.capturing && known && known.tensor.byteLength >= bytes && known.failures === failures) return known.tensor
  const tensor = stream.device.tensor('u8', [Math.max(bytes, LEAST_ZEROS)], 0)
  if (!stream.capturing) zeros.set(stream, { tensor, failures })
  return tensor
}

const LEAST_ZEROS = 64 * 1024

export interface RequestOptions {
  readonly stream: Stream
  /** At least `workspaceBytes`; default: from a pool of the stream. */
  readonly workspace?: Tensor | undefined
  readonly tileOrder?: TileOrder | undefined
}

/** null: nothing to compute. */
export function launchRequest(
  device: Device,
  artifact: Artifact,
  call: Call,
  { stream, workspace, tileOrder }: RequestOptions,
): LaunchRequest | null {
  const bindings = {
    ...launchBindings(call),
    tileGroup: tileGroup(artifact, call, device.l2Bytes, tileOrder),
  }
  const bytes = workspaceBytes(artifact.recipe, bindings)
  const memory = bytes === 0 ? null : (workspace ?? scratchOf(stream, bytes))
  const counted = zeroedBytes(artifact.recipe, bindings)
  const zeroed = counted === 0 ? null : zerosOf(stream, counted)
  const smCount = Math.min(device.smCount, call.performance?.maxSms ?? Infinity)
  const plans = planLaunches(
    artifact.recipe,
    { ...bindings, ...(memory && { workspace: memory.pointer }), ...(zeroed && { zeroed: zeroed.pointer }) },
    { smCount, sharedBytesPerSm: device.properties.sharedBytesPerSm, clusters: clustersOf(artifact.recipe, device) },
  )
  const uses = [
    ...callTensors(call).map(({ tensor }) => tensor),
    ...(memory ? [memory] : []),
    ...(zeroed ? [zeroed] : []),
  ]
  return plans.length > 0 ? { device, artifact, plans, uses } : null
}

/** Asked for only where there are clusters: drivers compile a kernel to say it. */
const clustersOf = ({ cluster }: LaunchRecipe, { properties }: Device): readonly number[] =>
  cluster.every((extent) => extent === 1) ? [] : properties.clusters
