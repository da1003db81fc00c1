/**
 * Plan → pipeline program for SM80: a GEMM of one kind of warps. All threads copy A and B into a ring of stages ahead of the MMAs, each
 * warp multiplies its part of the tile with accumulators in registers, and finishes that part itself. One barrier of the CTA for
 * each k tile: behind it the tile's copies have landed, and the slot of the tile before is free.
 */
import { waysOf } from '../../classes/matmul.ts'
import type { Role, TileOp, TileProgram } from '../../ir/pipe.ts'
import type { Ahead } from '../../ir/pipe_epilogue.ts'
import type { FragmentSource } from '../../ir/pipe_mma.ts'
import type { Domain } from '../../space/domain.ts'
import { exchangeParts } from '../tensor_core/exchange.ts'
import { elementLoads, elementsBrought, loadsAhead } from '../tensor_core/ahead.ts'
import { auxLoads, directStore, rowStores, fragmentEpilogue } from '../tensor_core/lower_epilogue.ts'
import { forLoops, gather, scaleFinders, scaleLoadsBy, sharedTile, tileSource } from '../tensor_core/lower_loads.ts'
import { commonParts, groupChecks } from '../tensor_core/lower_program.ts'
import { bufferOfB } from '../tensor_core/plan.ts'
import { partScales } from '../tensor_core/scales.ts'
import { LEFT, sm80Memory } from './memory.ts'
import { MMA_ROWS, type Sm80Plan } from './plan.ts'

/** Ring of the slot that copies fill, for a k tile ahead of the one in `stage`. */
const FILL = 'fill'

export function lowerSm80(plan: Sm80Plan): TileProgram {
  const { stages, epilogue, warps, warpTile, accumulator } = plan
  const staging = epilogue.stagingSlotBytes > 0
  const common = commonParts(plan, { threads: plan.threads, storedRows: epilogue.layout.rowsPerWarp, dynamic: false })
  const rings = [
    { name: 'stage', slots: stages },
    { name: FILL, slots: stages },
    ...(staging ? [{ name: 'staging', slots: 1 }] : []),
  ]
  const role: Role = {
    name: 'worker',
    firstWarp: 0,
    warps: plan.threads / 32,
    does: 'copies, MMAs, epilogue and stores',
    rings: rings.map(({ name }) => name),
    body: workerRole(plan, common.domain),
  }
  return {
    kind: 'sm80',
    ...common,
    rings,
    buffers: sm80Memory(plan, stages, 'regions').buffers,
    barriers: [],
    tmem: null,
    registers: {
      products: plan.b.length,
      rowBlocks: warpTile[0] / MMA_ROWS,
      columns: waysOf(plan.gemm) * warpTile[1],
      warps,
      ...(plan.deep > 1 && { deep: plan.deep }),
      cells: accumulator,
      ...(plan.parts && { parts: { cells: plan.parts.cells, columns: plan.parts.columns } }),
      together: 1,
      ...((plan.isShort || plan.exchange?.meets) && { perSm: plan.perSm }),
    },
    setup: [],
    roles: [role],
    teardown: groupChecks(common.domain),
  }
}

function workerRole(plan: Sm80Plan, domain: Domain): TileOp[] {
  const { stages, mmaSteps, mma } = plan
  const { d, a: aType, b: bType, k, split } = mma
  const scales = scaleLoadsBy(plan.scales, domain, true, { barrier: null, ring: FILL, warps: plan.threads / 32 })
  const fill: TileOp[] = [...copies(plan, domain), ...scales, { op: 'advance', ring: FILL }]
  const commit: TileOp = { op: 'copy_commit' }
  // Of the copies under way, those of the next k tile are the oldest.
  const source = fragmentSource(plan)
  const settled = [source.a, ...source.products].filter(({ tile }) => tile.settled)
  const landed: TileOp[] = [
    { op: 'copy_wait', pending: stages - 2 },
    ...settled.map(({ buffer, operand }): TileOp => ({ op: 'settle_rows', buffer, operand })),
    { op: 'cta_sync' },
  ]
  const set = (step: number): 0 | 1 => (step % 2 === 0 ? 0 : 1)
  const load = (step: number): TileOp => ({ op: 'load_fragments', step, set: set(step), ...source })
  const kind = { d, a: aType, b: bType, k, ...(split && { split }) }
  const perChunk = mmaSteps / (plan.scales?.chunks ?? 1)
  const multiply = (step: number): TileOp[] => {
    const chunk = plan.scales && (step % perChunk === 0 ? 'begins' : 'goes on')
    const added = (step + 1) % perChunk === 0 ? promoted(plan, Math.floor(step / perChunk)) : []
    return [{ op: 'mma_sync', kind, set: set(step), chunk }, ...added]
  }
  const last = mmaSteps / plan.deep - 1
  const advance: TileOp = { op: 'advance', ring: 'stage' }
  // Empty groups keep the count.
  const refill: TileOp[] = [{ op: 'ahead', by: stages - 1, body: fill }, commit]
  const steps = Array.from({ length: last }, (_, i) => [load(i + 1), ...multiply(i)]).flat()
  // The first fragments of the next k tile load under the last MMAs of this one, whose scales would be gone by then, and fragments, of one step.
  const loadsNext = !plan.scales && last > 0
  const step: TileOp[] = loadsNext
    ? [...refill, ...steps, advance, ...landed, load(0), ...multiply(last)]
    : [...landed, load(0), ...refill, ...steps, ...multiply(last), advance]
  const tile: TileOp[] = [
    { op: 'zero_cells' },
    ...loadsAhead(plan),
    ...scaleFinders(plan.scales, domain),
    { op: 'for_first_k', count: stages - 1, body: [{ op: 'ahead', by: 0, body: fill }, commit] },
    ...(loadsNext ? [...landed, load(0)] : []),
    { op: 'for_k', body: step },
    ...(plan.deep > 1 ? [{ op: 'leave_cells', buffer: LEFT } as const] : []),
    // Sub-tiles on their way out lie over the stages.
    { op: 'cta_sync' },
    ...finish(plan),
    { op: 'cta_sync' },
  ]
  return [{ op: 'for_tiles', body: tile }]
}

/** All parts of a chunk of k, which MMAs have summed by themselves. */
const promoted = ({ parts, scales }: Sm80Plan, chunk: number): TileOp[] =>
  (parts?.parts ?? []).flatMap((part): TileOp[] => {
    if (part.chunk !== chunk) return []
    const from = { part, ...partScales(scales!, part.product) }
    return [
      { op: 'part_scales', ...from },
      { op: 'promote', ...from },
    ]
  })

/** Chunks that are copied through registers are several at once, as registers allow. */
const copies = (plan: Sm80Plan, domain: Domain): TileOp[] =>
  forLoops(plan, domain, ['copy', 'gather'], (stage, depth) => {
    const { operand, free, buffer } = stage
    if (operand.source === 'gather')
      return gather(stage, depth, domain, plan.threads, (perChunk) => Math.min(4, 32 / perChunk), FILL)
    const tile = sharedTile(operand, domain.depth)
    return {
      op: 'copy_tile',
      operand: operand.operand.name,
      buffer,
      ring: FILL,
      free,
      tile,
      depth,
      bytes: operand.copyBytes!,
      // Of sums this short all CTAs ask for the same few rows, tile by tile: those of L2 that have them are not asked again.
      ...(plan.mmaSteps === 1 && { cached: true }),
    }
  })

const fragmentSource = ({ a, b, tile: [, , depth] }: Sm80Plan): FragmentSource => ({
  a: tileSource(a, 'smem_a', depth),
  products: b.map((plan, i) => tileSource(plan, bufferOfB(i), depth)),
})

/** What becomes of the accumulators. Of warps that share k the first go on. */
function finish(plan: Sm80Plan): TileOp[] {
  const loads = (of: Ahead): TileOp[] =>
    elementLoads(
      plan.epilogue,
      plan.elements.filter((one) => one.of === of),
    )
  const then = [...loads('subtile'), ...epilogue(plan)]
  // Sums of a share leave registers for elements meanwhile.
  if (plan.exchange?.meets === 'each')
    return exchangeParts(plan.exchange, epilogue(plan), [...loads('tile'), ...loads('subtile')])
  if (plan.exchange) return exchangeParts(plan.exchange, then, loads('tile'))
  if (plan.deep === 1) return [...loads('tile'), ...then]
  return [{ op: 'first_along_k', body: [...loads('tile'), { op: 'add_cells', buffer: LEFT }, ...then] }]
}

const epilogue = (plan: Sm80Plan): TileOp[] =>
  fragmentEpilogue(
    plan.epilogue,
    (shapes) => auxLoads(plan.epilogue, shapes, elementsBrought(plan.epilogue, plan.elements), plan.ahead),
    null,
    storeOps(plan),
    plan.threads,
  )

/** Fragments are pairs of elements: through shared memory they become rows. */
const storeOps = (plan: Sm80Plan): TileOp[] =>
  plan.epilogue.outputs.flatMap((output): TileOp[] => {
    if (output.store === 'direct') return [directStore(output)]
    return rowStores(output, 'smem_d', false)
  })
