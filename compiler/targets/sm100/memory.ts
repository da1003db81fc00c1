/** Shared memory of a CTA on SM100. */
import { always, consumersOf, perCluster } from '../tensor_core/cluster.ts'
import { EPILOGUE_WARPS, stagingSlots, tmaOutputs } from '../tensor_core/epilogue.ts'
import { SHARED, sharedBytes, sharesBlocks } from '../tensor_core/lower_epilogue.ts'
import { MemoryMap, tileText, type Wanted } from '../tensor_core/memory.ts'
import { gathersAny } from '../tensor_core/operands.ts'
import { atomsBy, atomsOf } from '../tensor_core/scale_atoms.ts'
import { scaleArrivals, scalesOf } from '../tensor_core/scales.ts'
import { SCALE_SLOTS } from './parts.ts'
import { bufferOfB, GATHER_WARPS, tmaStageBytes } from '../tensor_core/plan.ts'
import type { Sm100Plan } from './plan.ts'

/** Work items that the scheduler asks for ahead. */
export const WORK_SLOTS = 2
/** A response of cluster launch control. */
export const WORK_RESPONSE_BYTES = 16

export interface Sm100Memory {
  readonly map: MemoryMap
  /** Where tcgen05.alloc leaves the address of tensor memory. */
  readonly tmemSlot: number
}

/** What decides the regions, and how large they are. */
export type Sm100Shape = Pick<
  Sm100Plan,
  | 'design'
  | 'gemm'
  | 'tile'
  | 'cluster'
  | 'a'
  | 'b'
  | 'loops'
  | 'atoms'
  | 'scales'
  | 'epilogue'
  | 'stageBytes'
  | 'accumulators'
>

export function sm100Memory(plan: Sm100Shape, stages: number, wanted: Wanted): Sm100Memory {
  const { a, b, tile, cluster, accumulators, epilogue } = plan
  const { pair } = cluster
  const map = new MemoryMap(wanted)
  map.buffer('smem_a', 'stage', stages, a.tileBytes, 1024, () => tileText(a, 'M', tile[2]))
  b.forEach((operand, i) =>
    map.buffer(bufferOfB(i), 'stage', stages, operand.tileBytes, 1024, () => tileText(operand, 'N', tile[2])),
  )
  const slots = stagingSlots(epilogue)
  if (slots > 0) {
    const holds = () => `output sub-tiles on their way to ${tmaOutputs(epilogue).length > 0 ? 'TMA stores' : 'memory'}`
    map.buffer('smem_d', 'staging', slots, epilogue.stagingSlotBytes, 128, holds, {
      owner: 'warp',
      count: EPILOGUE_WARPS,
    })
  }
  for (const { buffer, slotBytes, atoms, block, free } of atomsOf(plan.atoms))
    map.buffer(buffer, 'stage', stages, slotBytes, 512, () => {
      const side = `${atoms.rows} x ${atoms.steps} atoms of scales`
      return `${side} along ${free === 'm' ? 'M' : 'N'} and K, ${block} of k to a scale`
    })
  if (sharesBlocks(epilogue)) {
    const bytes = sharedBytes(epilogue, 32 * EPILOGUE_WARPS)
    map.buffer(SHARED.buffer, SHARED.ring, SHARED.slots, bytes, 16, () => 'largest magnitudes of each column, by warp')
  }
  const scales = scalesOf(plan.scales)
  for (const { buffer, slotBytes, operand } of scales)
    map.buffer(buffer, 'scales', SCALE_SLOTS, slotBytes, 16, () => `scales of a stage: ${operand.name}`)
  const dynamic = plan.design.scheduler === 'clc'
  if (dynamic)
    map.buffer('work_response', 'work', WORK_SLOTS, WORK_RESPONSE_BYTES, 16, () => 'answers of cluster launch control')
  // What fills a stage: the tma thread, warps that gather.
  const byWarps = gathersAny(plan) || atomsBy(plan.atoms, 'warps').length > 0
  const producers = (ctas: number) => +(tmaStageBytes(plan) > 0) + (byWarps ? ctas * GATHER_WARPS : 0)
  map.barrier('full', 'stage', stages, () => ({
    // Warps of both CTAs of a pair tell the one that multiplies.
    arrivals: always(producers(pair)),
    scope: pair > 1 && byWarps ? 'cluster' : 'cta',
    meaning: 'A and B of a stage have landed',
  }))
  map.barrier('empty', 'stage', stages, () => ({
    arrivals: consumersOf(cluster),
    meaning: 'the MMAs that read a stage are done',
  }))
  const what = scales.length > 0 ? 'a part' : 'an accumulator'
  map.barrier('acc_full', 'acc', accumulators, () => ({ arrivals: always(1), meaning: `${what} is complete` }))
  map.barrier('acc_empty', 'acc', accumulators, () => ({
    arrivals: always(pair * EPILOGUE_WARPS),
    scope: pair > 1 ? 'cluster' : 'cta',
    meaning: `all epilogue warps have read ${what}`,
  }))
  if (scales.length > 0) {
    map.barrier('scales_full', 'scales', SCALE_SLOTS, () => ({
      arrivals: always(scaleArrivals(scales)),
      meaning: 'the scales of a stage have landed',
    }))
    map.barrier('scales_empty', 'scales', SCALE_SLOTS, () => ({
      arrivals: always(EPILOGUE_WARPS),
      meaning: 'all epilogue warps have read the scales of a stage',
    }))
  }
  if (dynamic) {
    const scope = cluster.size > 1 ? 'cluster' : 'cta'
    map.barrier('work_full', 'work', WORK_SLOTS, () => ({
      arrivals: always(1),
      scope,
      meaning: 'the next work item is known',
    }))
    map.barrier('work_empty', 'work', WORK_SLOTS, () => ({
      // Every epilogue warp, whatever fills stages or loads scales, the mma thread of each pair; and the scheduler itself.
      arrivals: perCluster(
        cluster,
        ([m, n]) => m * n * (EPILOGUE_WARPS + producers(1) + +(scales.length > 0)) + (m * n) / pair + 1,
      ),
      scope,
      meaning: 'all roles of the cluster have read a work item',
    }))
  }
  return { map, tmemSlot: map.word() }
}
