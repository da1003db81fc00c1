/** Operations that fill the ring of stages: what comes by TMA, what warps copy, for each loop that goes through it. */
import { DTYPES } from '../../dtypes.ts'
import type { TileOp } from '../../ir/pipe.ts'
import type { DepthView, ScaleLoad } from '../../ir/pipe_loads.ts'
import type { TileSource } from '../../ir/pipe_mma.ts'
import { axisTexts, type Domain } from '../../space/domain.ts'
import { div, mod, name, type Ix } from '../../space/ix.ts'
import type { SharedTile } from '../../space/layout.ts'
import { SWIZZLE_SPAN, type OperandPlan } from './operands.ts'
import { GATHER_WARPS, stageOperands, type StageOperand, type TensorCorePlan } from './plan.ts'
import { broughtBy, scalesOf, type ScalePlans } from './scales.ts'

/** The variable that numbers the k tiles of a loop, and the constant that says how many it has along its stepped axis. */
export const tileIndex = (loop: number): string => (loop === 0 ? 'k' : `k_in_${loop}`)
export const stepCount = (loop: number): string => `k_steps${loop === 0 ? '' : loop}`

/** Where a loop is, from the number of its k tile: the axes around the stepped one by division. */
export function depthView(domain: Domain, loop: number): DepthView {
  const { axis, outer } = domain.loops[loop]!
  const tile = name(tileIndex(loop))
  if (outer.length === 0) return { axis, tile, outer: [] }
  const texts = axisTexts(domain)
  const steps = name(stepCount(loop))
  let rest: Ix = div(tile, steps)
  const around = [...outer].reverse().map((o, i) => {
    const extent = name(texts.get(o)!.extent)
    const at = i === outer.length - 1 ? rest : mod(rest, extent)
    rest = div(rest, extent)
    return { axis: o, at }
  })
  return { axis, tile: mod(tile, steps), outer: around.reverse() }
}

/** One operation for each operand of a stage that comes so: of each loop its own. */
export function forLoops(
  plan: TensorCorePlan,
  domain: Domain,
  sources: readonly OperandPlan['source'][],
  load: (operand: StageOperand, depth: DepthView) => TileOp,
): TileOp[] {
  const operands = stageOperands(plan).filter(({ operand }) => sources.includes(operand.source))
  if (operands.length === 0) return []
  const bodies = domain.loops.map((_, loop) =>
    operands.filter((o) => o.loop === loop).map((o) => load(o, depthView(domain, loop))),
  )
  return bodies.length === 1 ? bodies[0]! : [{ op: 'by_loop', bodies }]
}

/** How a stage holds an operand. */
export const sharedTile = (
  { major, rows, boxes, boxExtents, boxPitch, descriptor, shifted, dealt }: OperandPlan,
  depth: number,
): SharedTile => ({
  major,
  rows,
  depth,
  span: boxExtents[0],
  boxes,
  pitch: boxes > 1 ? boxPitch : 0,
  swizzle: shifted ? 'none' : descriptor.swizzle,
  ...(shifted && { shifted }),
  ...(dealt && { dealt }),
})

/** What MMAs know of a tile. */
export const sourceTile = (
  { major, span, pitch, swizzle, shifted, dealt }: SharedTile,
  settled: boolean,
): TileSource['tile'] => ({
  major,
  span,
  pitch,
  swizzle,
  ...(shifted && { shifted }),
  ...(settled && { settled }),
  ...(dealt && { dealt }),
})

export const tileSource = (plan: OperandPlan, buffer: string, depth: number): TileSource => ({
  buffer,
  operand: plan.operand.name,
  tile: sourceTile(sharedTile(plan, depth), plan.settled === true),
})

/** Loads by TMA, which count on `barrier`. */
export const tmaLoads = (plan: TensorCorePlan, domain: Domain, barrier: string): TileOp[] =>
  forLoops(plan, domain, ['tma'], ({ operand, free, buffer, map }, depth) => ({
    op: 'tma_load',
    operand: operand.operand.name,
    map,
    buffer,
    barrier,
    free,
    tile: sharedTile(operand, domain.depth),
    depth,
    slices: operand.slices > 1 ? { count: operand.slices, rows: operand.sliceRows, bytes: operand.sliceBytes } : null,
  }))

/** Rows that are looked up, by asynchronous copies. */
export const copiesOfRows = (plan: TensorCorePlan, domain: Domain): TileOp[] =>
  forLoops(plan, domain, ['copy'], ({ operand, free, buffer }, depth) => ({
    op: 'copy_tile',
    operand: operand.operand.name,
    buffer,
    ring: 'stage',
    free,
    tile: sharedTile(operand, domain.depth),
    depth,
    bytes: operand.copyBytes!,
  }))

/** What comes before scales of rows that are looked up, in each tile. */
export const scaleFinders = (scales: ScalePlans | null, { loops }: Domain): TileOp[] =>
  scalesOf(scales).flatMap(({ operand, free, layout }): TileOp[] =>
    operand.computed
      ? [{ op: 'find_rows', operand: operand.name, free, rows: layout.count, chunks: 1, along: loops[0].axis }]
      : [],
  )

/** What comes before copies of rows in each tile. */
export const rowFinders = (plan: TensorCorePlan, domain: Domain): TileOp[] =>
  forLoops(plan, domain, ['copy'], ({ operand, free }, { axis }) => ({
    op: 'find_rows',
    operand: operand.operand.name,
    free,
    rows: operand.rows,
    chunks: SWIZZLE_SPAN / 16,
    along: axis,
  }))

/** Copies by `threads` through registers, of which producers have few: a chunk takes ten. */
export const gathers = (plan: TensorCorePlan, domain: Domain, threads: number): TileOp[] =>
  forLoops(plan, domain, ['gather'], (operand, depth) => gather(operand, depth, domain, threads, () => 1))

/** `room`: chunks of so many elements that a thread has under way at once. */
export function gather(
  { operand, free, buffer }: StageOperand,
  depth: DepthView,
  domain: Domain,
  threads: number,
  room: (perChunk: number) => number,
  ring?: string,
): TileOp {
  const { storageBytes } = DTYPES[operand.operand.dtype]
  const tile = sharedTile(operand, domain.depth)
  const chunks = (tile.rows * tile.depth * storageBytes) / 16
  // What they are computed of is in registers too.
  const most = operand.operand.computed ? 1 : room(16 / storageBytes)
  const batch = Math.max(1, Math.min(most, Math.floor(chunks / threads)))
  return {
    op: 'gather',
    operand: operand.operand.name,
    buffer,
    ...(ring !== undefined && { ring }),
    free,
    tile,
    depth,
    batch,
  }
}

/** One operation for the scales of each operand. `copied`: those of 4 bytes asynchronously. */
export const scaleLoadsBy = (
  scales: ScalePlans | null,
  domain: Domain,
  copied: boolean,
  rest: Pick<ScaleLoad, 'barrier' | 'ring' | 'warps'>,
): TileOp[] =>
  scalesOf(scales).map(({ operand, buffer, free, layout, copies }): TileOp => ({
    op: 'load_scales',
    operand: operand.name,
    buffer,
    ...rest,
    free,
    layout,
    depth: depthView(domain, 0),
    copies: copies && copied,
  }))

/**
 * Scales of a stage. A warp by itself tells who awaits `barrier` when those of 4 bytes have landed; else whoever brings the operands does,
 * `through registers` or by asynchronous copies.
 */
export function scaleLoads(
  scales: ScalePlans | null,
  domain: Domain,
  barrier: string,
  how?: 'through registers' | 'copied',
): TileOp[] {
  const loads = scaleLoadsBy(scales, domain, how !== 'through registers', { barrier, warps: how ? GATHER_WARPS : 1 })
  if (how) return loads
  const { copied, written } = broughtBy(scalesOf(scales))
  const publish: TileOp[] = [{ op: 'warp_sync' }, { op: 'lane0', body: [{ op: 'arrive', barrier, at: 'cta' }] }]
  return [...loads, ...(copied ? [{ op: 'arrive_copied', barrier } as const] : []), ...(written ? publish : [])]
}
