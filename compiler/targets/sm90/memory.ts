/** Shared memory of a CTA on SM90. */
import type { Copies } from '../../ir/pipe.ts'
import { always, consumersOf } from '../tensor_core/cluster.ts'
import { shiftedRowBytes } from '../../space/layout.ts'
import { DTYPES } from '../../dtypes.ts'
import { tmaOutputs } from '../tensor_core/epilogue.ts'
import type { AuxPlan } from '../tensor_core/epilogue_operands.ts'
import { SHARED, sharedBytes, sharesBlocks } from '../tensor_core/lower_epilogue.ts'
import { MemoryMap, tileText, type Wanted } from '../tensor_core/memory.ts'
import { bufferOfB, fetchMaps, GATHER_WARPS, tmaStageBytes } from '../tensor_core/plan.ts'
import { broughtByWarps, copiesRows } from '../tensor_core/operands.ts'
import { scaleArrivals, scalesOf } from '../tensor_core/scales.ts'
import type { Sm90Plan } from './plan.ts'

/** How shared memory is divided. */
export type Division = Pick<Sm90Plan, 'stages' | 'stagingSlots' | 'fetchSlots' | 'rowSlots' | 'inPlace' | 'behind'>
/** What decides the regions, and how large they are. */
export type Undivided = Pick<
  Sm90Plan,
  | 'design'
  | 'gemm'
  | 'tile'
  | 'cluster'
  | 'a'
  | 'b'
  | 'loops'
  | 'joint'
  | 'scales'
  | 'epilogue'
  | 'warpgroups'
  | 'rowBlocks'
  | 'splits'
  | 'subtiles'
  | 'parks'
  | 'partialBytes'
  | 'stageBytes'
  | 'idleWarps'
  | 'rowWarps'
>

/** Epilogue operands that TMA brings to slots of their own. */
export const slotMaps = (
  plan: Pick<Undivided, 'epilogue'>,
  { behind }: Pick<Division, 'behind'>,
): ReturnType<typeof fetchMaps> => (behind === null ? fetchMaps(plan) : [])

/** Ring of the sub-tiles of the i-th of them. */
export const fetchRing = (i: number): string => `c${i}`

/** Warps of the producer that have nothing to do issue the stores: of more slots than one, as the one before has to be free first. */
export const storesByWarps = (
  { design, epilogue, warpgroups, idleWarps }: Undivided,
  { inPlace, stagingSlots }: Division,
): boolean =>
  idleWarps &&
  design.consumers === 'cooperative' &&
  warpgroups > 1 &&
  !inPlace &&
  stagingSlots > 1 &&
  tmaOutputs(epilogue).every(({ contiguous }) => contiguous === 'n')

/** Operands whose rows begin anywhere, where warps of the producer that have nothing to do can copy them: each sub-tile once, in turn. */
export const rowsByWarps = ({ epilogue, rowWarps }: Pick<Undivided, 'epilogue' | 'rowWarps'>): readonly AuxPlan[] =>
  rowWarps && epilogue.measured === null ? epilogue.aux.filter(({ rows }) => rows) : []

/** Ring of the sub-tiles of the i-th of them. */
export const rowRing = (i: number): string => `rows${i}`

/** Those that they do copy. */
export const copiedRows = (plan: Undivided, { rowSlots }: Pick<Division, 'rowSlots'>): readonly AuxPlan[] =>
  rowSlots > 0 ? rowsByWarps(plan) : []

/** Scales are loaded by a warp of their own, or by those who copy all else. */
const arrivalsForScales = ({ scales, a, b }: Undivided): number =>
  broughtByWarps({ a, b }) ? 0 : scaleArrivals(scalesOf(scales))

/** Do the warps that copy rows write scales themselves? */
export const writesScales = ({ scales }: Pick<Undivided, 'scales'>): boolean =>
  scalesOf(scales).some(({ copies }) => !copies)

/** Each thread's copies arrive by themselves, what a warp has written by one of its threads. */
const copyArrivals = (plan: Undivided): number => GATHER_WARPS * (32 + +writesScales(plan))

export function sm90Memory(plan: Undivided, division: Division, wanted: Wanted): MemoryMap {
  const { a, b, tile, cluster, epilogue, warpgroups, splits, partialBytes, parks, stageBytes } = plan
  const { stages, stagingSlots, fetchSlots, rowSlots } = division
  const pingpong = plan.design.consumers === 'pingpong'
  const storeWarps = storesByWarps(plan, division)
  const eachWarp: Copies = { owner: 'warp', count: 4 * warpgroups }
  const eachWarpgroup: Copies = { owner: 'warpgroup', count: warpgroups }
  const fetched = slotMaps(plan, division)
  const copied = copiedRows(plan, division)
  const map = new MemoryMap(wanted)
  map.buffer('smem_a', 'stage', stages, a.tileBytes, 1024, () => tileText(a, 'M', tile[2]))
  const tiles = b.map((operand, i) => ({
    name: bufferOfB(i),
    slotBytes: operand.tileBytes,
    holds: () => tileText(operand, 'N', tile[2]),
  }))
  if (plan.joint) map.sideBySide('stage', stages, 1024, tiles)
  else for (const { name, slotBytes, holds } of tiles) map.buffer(name, 'stage', stages, slotBytes, 1024, holds)
  if (stagingSlots > 0) {
    const [slotBytes, owners] = storeWarps
      ? [4 * epilogue.stagingSlotBytes, eachWarpgroup]
      : [epilogue.stagingSlotBytes, eachWarp]
    map.buffer(
      'smem_d',
      'staging',
      stagingSlots,
      slotBytes,
      128,
      () => `output sub-tiles on their way to ${tmaOutputs(epilogue).length > 0 ? 'TMA stores' : 'memory'}`,
      owners,
    )
  }
  fetched.forEach(({ aux }, i) =>
    map.buffer(
      `smem_${fetchRing(i)}`,
      fetchRing(i),
      fetchSlots,
      aux.fetch!.bytes,
      128,
      () => 'sub-tiles of an epilogue operand',
      eachWarp,
    ),
  )
  copied.forEach(({ operand }, i) =>
    map.buffer(
      `smem_${rowRing(i)}`,
      rowRing(i),
      rowSlots,
      4 * epilogue.layout.rowsPerWarp * shiftedRowBytes(epilogue.subtileColumns, DTYPES[operand.dtype].storageBytes),
      128,
      () => `rows of an epilogue operand: ${operand.name}`,
      eachWarpgroup,
    ),
  )
  for (const { buffer, slotBytes, operand } of scalesOf(plan.scales))
    map.buffer(buffer, 'stage', stages, slotBytes, 16, () => `scales of a stage: ${operand.name}`)
  if (sharesBlocks(epilogue)) {
    const bytes = sharedBytes(epilogue, 128 * warpgroups)
    map.buffer(SHARED.buffer, SHARED.ring, SHARED.slots, bytes, 16, () => 'largest magnitudes of each column, by warp')
  }
  const kept = parks && splits === 1 ? 'accumulators' : 'sums of each CTA of the cluster over its share of k'
  if (partialBytes > 0) map.buffer('smem_partials', null, 1, partialBytes, 16, () => kept)
  map.barrier('full', 'stage', stages, () => {
    const copied = tmaStageBytes(plan)
    const brought = copied === stageBytes ? 0 : copiesRows(plan) ? copyArrivals(plan) : GATHER_WARPS
    const arrivals = always(+(copied > 0) + brought + arrivalsForScales(plan))
    return { arrivals, meaning: `${plan.scales ? 'A, B and their scales' : 'A and B'} of a stage have landed` }
  })
  map.barrier('empty', 'stage', stages, () => {
    const each = (pingpong ? 1 : warpgroups) * (plan.scales ? 4 : 1)
    const arrivals = always(consumersOf(cluster).preferred * each)
    return { arrivals, meaning: 'the MMAs that read a stage are done' }
  })
  fetched.forEach((_, i) => {
    const landed = () => ({ arrivals: always(1), meaning: 'a sub-tile of an epilogue operand has landed' })
    map.barrier(`${fetchRing(i)}_full`, fetchRing(i), fetchSlots, landed, eachWarp)
  })
  copied.forEach((_, i) => {
    // Copies of threads come one by one, and what they have written with those of a warp.
    const landed = () => ({ arrivals: always(32 + 1), meaning: 'rows of a sub-tile have landed' })
    const read = () => ({ arrivals: always(4), meaning: 'all warps of the warpgroup have read them' })
    map.barrier(`${rowRing(i)}_full`, rowRing(i), rowSlots, landed, eachWarpgroup)
    map.barrier(`${rowRing(i)}_empty`, rowRing(i), rowSlots, read, eachWarpgroup)
  })
  if (storeWarps) {
    const staged = () => ({ arrivals: always(4), meaning: 'all warps of the warpgroup have staged a sub-tile' })
    map.barrier('staged', 'staging', stagingSlots, staged, eachWarpgroup)
    map.barrier(
      'stored',
      'staging',
      stagingSlots,
      () => ({ arrivals: always(1), meaning: 'TMA has read it' }),
      eachWarpgroup,
    )
  }
  if (pingpong) {
    const seen = () => ({ arrivals: always(4), meaning: 'the other warpgroup has seen all stages of its tile' })
    map.barrier('turn', 'turn', warpgroups, seen)
  }
  if (splits > 1) {
    const scope = 'cluster'
    map.barrier('partials_full', 'partials', 1, () => ({
      arrivals: always(1),
      scope,
      meaning: 'sums of all CTAs of the cluster have landed',
    }))
    map.barrier('partials_empty', 'partials', 1, () => ({
      arrivals: always(splits),
      scope,
      meaning: 'all CTAs of the cluster have read theirs',
    }))
  }
  return map
}
