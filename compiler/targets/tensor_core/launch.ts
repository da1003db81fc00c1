/** How a tensor-core kernel is launched: its parameters in order, as data. */
import { freeAxis } from '../../classes/matmul.ts'
import { withoutAxes } from '../../check/axes.ts'
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../dtypes.ts'
import {
  scalarParams,
  type GridRule,
  type KernelLaunch,
  type ParamRule,
  type TensorMapRule,
  type WorkspaceRegion,
} from '../../ir/launch.ts'
import { copiedRows, copyAxes, copyRegion, REPACK_CTAS, REPACK_THREADS, repackedOf } from '../../ir/repack.ts'
import type { TensorOperand } from '../../ir/tensor.ts'
import { stepOf, type Domain } from '../../space/domain.ts'
import type { ClusterPlan } from './cluster.ts'
import { axesWithin, leavesOf, operandNamed } from '../../ir/walk.ts'
import { quantisedOutputs, tmaOutputs, type OutputPlan } from './epilogue.ts'
import type { AuxPlan } from './epilogue_operands.ts'
import type { OperandPlan } from './operands.ts'
import { atomsBy, type AtomPlan } from './scale_atoms.ts'
import { scalesOf } from './scales.ts'
import { TILE_BYTES, TILE_INNER, TILE_OUTER } from '../../stored/tiles.ts'
import { fetchMaps, inputMaps, mapName, type TensorCorePlan } from './plan.ts'
import { exchangeParams, exchangeRegions, waveBlocks } from './exchange.ts'

/** Of the kernel that combines the partial results of reductions: one warp for each element of an output. */
export const COMBINE_THREADS = 256
const COMBINE_CTAS = 1024

export interface LaunchDetails {
  readonly threads: number
  /** Rows of one TMA store. */
  readonly storedRows: number
  readonly dynamic: boolean
}

/** Blocks of tiles that one cluster computes; the last one of each packed group may not be full. */
export function gridTiles(
  domain: Domain,
  { shape: [m, n] }: ClusterPlan,
): Extract<GridRule, { kind: 'persistent' }>['tiles'] {
  const { rows, columns, batch, groups } = domain
  const isPacked = groups?.form === 'packed'
  const counted = (free: 'm' | 'n') => isPacked && groups.along === free && { groups: groups.group }
  return [
    { axis: rows.axis, extent: rows.extent * m, ...counted('m') },
    { axis: columns.axis, extent: stepOf(domain) * n, ...counted('n') },
    ...(batch !== null && !isPacked ? [{ axis: batch, extent: 1 }] : []),
  ]
}

export function launchOf(
  plan: TensorCorePlan,
  domain: Domain,
  { threads, storedRows, dynamic }: LaunchDetails,
): KernelLaunch {
  const { gemm } = plan
  // An operand that several loops load has one pointer.
  const loaded = [
    ...new Map(plan.loops.flatMap(({ a, b }) => [a, ...b]).map((plan) => [plan.operand.name, plan] as const)).values(),
  ]
  const summed = [...new Set(gemm.segments.flatMap(({ k, outer }) => [k, ...outer]))]
  const staged = tmaOutputs(plan.epilogue)
  const direct = plan.epilogue.outputs.filter((o) => o.store !== 'tma')
  const scattered = plan.epilogue.outputs.flatMap(({ operand, places }) => (places ? operand.axes : []))
  const tiled = [gemm.m, gemm.n, ...summed, ...(gemm.l !== null ? [gemm.l] : [])]
  const extent = (axis: string): ParamRule => ({ kind: 'extent', axis })
  const pointer = (operand: TensorOperand, isConst: boolean): ParamRule[] => [
    { kind: 'pointer', operand: operand.name, storage: DTYPES[operand.dtype].cudaStorage, isConst },
    ...operand.axes.map((axis): ParamRule => ({ kind: 'stride', operand: operand.name, axis })),
  ]
  const optionalBatch = gemm.l !== null && plan.program.axes.find((a) => a.name === gemm.l)!.optional
  // Each once, whoever reads it.
  const read = new Set([
    ...loaded.filter((o) => o.source !== 'tma').flatMap(({ operand }) => leavesOf(operand, plan.program)),
    ...[...scalesOf(plan.scales ?? null), ...atomsBy(plan.atoms ?? null, 'warps')].flatMap(({ operand }) =>
      leavesOf(operand, plan.program),
    ),
    ...plan.epilogue.aux
      .filter(({ fetch }) => fetch === null || plan.linesAhead)
      .flatMap(({ operand }) => leavesOf(operand, plan.program)),
    ...[gemm.groups, gemm.sums].flatMap((ragged) => (ragged ? [operandNamed(plan.program, ragged.by)] : [])),
  ])
  const scaled = atomsBy(plan.atoms ?? null, 'tma')
  const carries = [...loaded, ...scaled, ...fetchMaps(plan).map(({ aux }) => aux)]
    .filter(({ operand }) => optionalBatch && !operand.computed && operand.axes.includes(gemm.l!))
    .map(({ operand }): ParamRule => ({ kind: 'carries', operand: operand.name, axis: gemm.l! }))
  const params: ParamRule[] = [
    ...inputMaps(plan).map(({ map, operand, outer }) => inputMap(plan, operand, outer, map)),
    ...scaled.map((atoms) => atomMap(plan, atoms)),
    ...fetchMaps(plan).map(({ map, aux }) => fetchMap(plan, aux, map)),
    ...staged.map((output, i) => outputMap(plan, output, storedRows, mapName(i))),
    ...[...read].flatMap((operand) => pointer(operand, true)),
    ...direct.flatMap(({ operand }) => pointer(operand, false)),
    ...quantisedOutputs(plan.epilogue).flatMap(({ operand }) =>
      pointer(operandNamed(plan.program, operand.stored!.scale!), false),
    ),
    ...workspaceParams(plan),
    ...exchangeParams(domain),
    ...tiled.map(extent),
    ...withoutAxes([...new Set([...axesWithin(plan.program), ...scattered])], tiled).map(extent),
    ...carries,
    ...plan.program.scalars.filter((s) => !s.pointer).flatMap(scalarParams),
    { kind: 'tileGroup' },
  ]
  const wave = waveBlocks(plan)
  return {
    threads,
    cluster: [plan.cluster.size, 1, 1],
    ...(plan.cluster.fallback && {
      fallbackCluster: [plan.cluster.fallback[0] * plan.cluster.fallback[1], 1, 1] as const,
    }),
    sharedMemBytes: plan.smemBytes,
    grid: {
      kind: 'persistent',
      dynamic,
      ...(plan.perSm !== undefined && plan.perSm > 1 && { perSm: plan.perSm }),
      ...(plan.exchange && {
        parts: plan.exchange.parts,
        ...(wave !== null && { wave }),
        ...(plan.exchange.meets && { meets: true as const }),
        ...(plan.exchange.share && { share: plan.exchange.share }),
      }),
      tiles: gridTiles(domain, plan.cluster),
    },
    params,
    ...beside(plan, domain),
  }
}

/** Innermost (contiguous) axis first, then the tile's other one, the batch where the operand has it, and what loops walk one by one. */
function mapAxes({ gemm }: TensorCorePlan, { axes, order }: TensorOperand, outer: readonly string[]): string[] {
  const inner = order.at(-1)!
  const other = axes.find((axis) => axis !== inner && axis !== gemm.l && !outer.includes(axis))!
  return [inner, other, ...(gemm.l !== null && axes.includes(gemm.l) ? [gemm.l] : []), ...outer]
}

const boxOf = (extents: readonly number[], axes: readonly string[]): number[] => axes.map((_, i) => extents[i] ?? 1)

function inputMap(plan: TensorCorePlan, operand: OperandPlan, outer: readonly string[], name: string): TensorMapRule {
  const axes = mapAxes(plan, operand.operand, outer)
  const box = boxOf(operand.boxExtents, axes)
  return {
    kind: 'tensorMap',
    name,
    operand: operand.operand.name,
    dtype: operand.operand.dtype,
    axes,
    box: plan.gemm.sums ? [...box, 1] : box,
    ...(plan.gemm.sums && { clipped: { rows: plan.tile[2], cut: 'before' } }),
    swizzle: operand.descriptor.swizzle,
    ...(operand.padded && { padded: true }),
    ...(operand.operand.divisibility === 'repacked' && {
      copy: { region: operand.operand.name, axes: copyAxes(operand.operand) },
    }),
  }
}

/** Tiles of scales: those along m or n first, so that the ones of a step of k lie side by side in shared memory. */
function atomMap({ gemm }: TensorCorePlan, { operand, map, free, atoms, block }: AtomPlan): TensorMapRule {
  const axes = [
    freeAxis(gemm, free),
    gemm.segments[0].k,
    ...(gemm.l !== null && operand.axes.includes(gemm.l) ? [gemm.l] : []),
  ]
  return {
    kind: 'tensorMap',
    name: map,
    operand: operand.name,
    dtype: operand.dtype,
    axes,
    box: [TILE_BYTES / 4, atoms.rows, atoms.steps, 1].slice(0, 1 + axes.length),
    swizzle: 'none',
    tiles: [TILE_OUTER, block * TILE_INNER, 1].slice(0, axes.length),
    ...(gemm.groups?.along === free && { groups: gemm.groups.group }),
  }
}

/** The same of an operand of the epilogue. */
function fetchMap(plan: TensorCorePlan, { operand, fetch }: AuxPlan, name: string): TensorMapRule {
  const axes = mapAxes(plan, operand, [])
  const { subtileColumns, layout } = plan.epilogue
  const { columns, rows, swizzle } = plan.fetchedBox ?? {
    columns: subtileColumns,
    rows: layout.rowsPerWarp,
    swizzle: fetch!.swizzle,
  }
  const box = [...(fetch!.contiguous === 'n' ? [columns, rows] : [rows, columns]), 1].slice(0, axes.length)
  return { kind: 'tensorMap', name, operand: operand.name, dtype: operand.dtype, axes, box, swizzle }
}

/** `rows` by one sub-tile's columns. */
function outputMap(plan: TensorCorePlan, output: OutputPlan, rows: number, name: string): TensorMapRule {
  const axes = mapAxes(plan, output.operand, [])
  const { subtileColumns } = plan.epilogue
  const [inner, others] = output.contiguous === 'n' ? [subtileColumns, rows] : [rows, subtileColumns]
  if (plan.gemm.groups) {
    const box = [inner, others, ...axes.slice(1).map(() => 1)]
    const { operand, swizzle } = output
    const clipped = { rows: others, cut: 'behind' } as const
    return { kind: 'tensorMap', name, operand: operand.name, dtype: operand.dtype, axes, box, swizzle, clipped }
  }
  const box = [inner, others, 1]
  return {
    kind: 'tensorMap',
    name,
    operand: output.operand.name,
    dtype: output.operand.dtype,
    axes,
    box: box.slice(0, axes.length),
    swizzle: output.swizzle,
  }
}

/** Parameters through which the kernels reach the workspace of each reduction. */
function workspaceParams(plan: TensorCorePlan): ParamRule[] {
  return plan.epilogue.reductions.map(({ operand, node }) => ({
    kind: 'workspace',
    region: operand.name,
    storage: CUDA_COMPUTE_TYPE[node.type],
  }))
}

/** The workspace, with what parts of k exchange, and the launches that fill it before and combine it after. */
function beside(plan: TensorCorePlan, domain: Domain): Pick<KernelLaunch, 'workspace' | 'before' | 'next'> {
  const repacked = repackedOf(plan.program)
  const workspace = [
    ...partialRegions(plan),
    ...repacked.map(copyRegion),
    ...exchangeRegions(plan, gridTiles(domain, plan.cluster)),
  ]
  if (workspace.length === 0) return {}
  return {
    workspace,
    ...(repacked.length > 0 && { before: repackLaunch(plan, repacked, workspace) }),
    ...(plan.epilogue.reductions.length > 0 && { next: combineLaunch(plan, workspace) }),
  }
}

/** Copies rows to the workspace, both operands at once. */
function repackLaunch(
  { program, gemm }: TensorCorePlan,
  repacked: readonly TensorOperand[],
  workspace: readonly WorkspaceRegion[],
): KernelLaunch {
  const axes = [...new Set(repacked.flatMap((operand) => operand.axes))]
  const isOptional = gemm.l !== null && program.axes.find(({ name }) => name === gemm.l)!.optional
  return {
    threads: REPACK_THREADS,
    cluster: [1, 1, 1],
    sharedMemBytes: 0,
    grid: {
      kind: 'rows',
      copied: repacked.map(copiedRows),
      perCta: REPACK_THREADS,
      limit: REPACK_CTAS,
    },
    params: [
      ...repacked.flatMap(({ name, dtype, axes }): ParamRule[] => [
        { kind: 'workspace', region: name, storage: DTYPES[dtype].cudaStorage },
        { kind: 'pointer', operand: name, storage: DTYPES[dtype].cudaStorage, isConst: true },
        ...axes.map((axis): ParamRule => ({ kind: 'stride', operand: name, axis })),
        ...(isOptional && axes.includes(gemm.l!) ? [{ kind: 'carries', operand: name, axis: gemm.l! } as const] : []),
      ]),
      ...axes.map((axis): ParamRule => ({ kind: 'extent', axis })),
    ],
    workspace,
  }
}

/** Regions for the partial results of reductions. */
function partialRegions({ gemm, epilogue: { reductions, layout } }: TensorCorePlan): WorkspaceRegion[] {
  return reductions.map(({ operand, node, keepsM, keepsN }): WorkspaceRegion => ({
    name: operand.name,
    elementBytes: node.type === 'f64' ? 8 : 4,
    extents: [
      ...(gemm.l === null ? [] : [{ axis: gemm.l, per: 1 }]),
      { axis: gemm.m, per: keepsM ? 1 : layout.rowsPerWarp },
      { axis: gemm.n, per: keepsN ? 1 : layout.columns },
    ],
  }))
}

/** Combines the partial results of reductions. */
function combineLaunch(plan: TensorCorePlan, workspace: readonly WorkspaceRegion[]): KernelLaunch {
  const {
    gemm,
    epilogue: { reductions },
  } = plan
  const params: ParamRule[] = [
    ...workspaceParams(plan),
    ...reductions.flatMap(({ operand }): ParamRule[] => [
      { kind: 'pointer', operand: operand.name, storage: DTYPES[operand.dtype].cudaStorage, isConst: false },
      ...operand.axes.map((axis): ParamRule => ({ kind: 'stride', operand: operand.name, axis })),
    ]),
    ...[gemm.m, gemm.n, ...(gemm.l === null ? [] : [gemm.l])].map((axis): ParamRule => ({ kind: 'extent', axis })),
  ]
  const outputs = reductions.map(({ operand }) => operand.name)
  return {
    threads: COMBINE_THREADS,
    cluster: [1, 1, 1],
    sharedMemBytes: 0,
    grid: { kind: 'elements', outputs, perCta: COMBINE_THREADS / 32, limit: COMBINE_CTAS },
    params,
    workspace,
  }
}
