/** How much of each kind a CTA's shared memory has on SM90: stages, slots of outputs and of operands of the epilogue. */
import type { Rejection } from '../../instance.ts'
import { isRejection, rejection } from '../../rejection.ts'
import { rowOutputs, STAGING_SLOTS, tmaOutputs, type EpiloguePlan } from '../tensor_core/epilogue.ts'
import { MAX_STAGES, SMEM_LIMIT } from '../tensor_core/plan.ts'
import { leavesStages, planBehind, type BehindPlan } from './behind.ts'
import { greatest } from '../tensor_core/memory.ts'
import { rowsByWarps, sm90Memory, storesByWarps, type Division, type Undivided } from './memory.ts'

/**
 * Shared memory for stages, and as many of them, are enough to keep loads under way; what epilogue operands need of the rest comes first. Three stages
 * of 48 KiB were 4 to 9 % slower than four with narrower sub-tiles (measured on an H100).
 */
const ENOUGH_STAGE_BYTES = 128 * 1024
export const ENOUGH_STAGES = 4
/** Sub-tiles of rows that begin anywhere, at most: one is read while the next one comes. */
const ROW_SLOTS = 2

/** Of a CTA. */
type MemoryPlan = Division & { readonly storeWarps: boolean; readonly smemBytes: number }

/**
 * Shared memory for stages first, until loads are under way; then for operands of the epilogue, more stages and staging slots. `spare`: registers of a
 * consumer that are no accumulators. KTL4510: there is too little.
 */
export function divideMemory(plan: Undivided, spare: number): MemoryPlan | Rejection {
  const behind = planBehind(plan, spare)
  const through = behind && divided(plan, behind)
  return through && !isRejection(through) && leavesStages(behind, through.stages) ? through : divided(plan, null)
}

function divided(plan: Undivided, behind: BehindPlan | null): MemoryPlan | Rejection {
  const { design, epilogue, stageBytes, subtiles } = plan
  const automatic = design.stages === 'auto'
  let rowSlots = 0
  const fits = (stages: number, stagingSlots: number, fetchSlots: number, inPlace: boolean, rows = rowSlots): boolean =>
    sm90Memory(plan, { stages, stagingSlots, fetchSlots, rowSlots: rows, inPlace, behind }, 'sizes').bytes <= SMEM_LIMIT
  let stages = design.stages === 'auto' ? MAX_STAGES : design.stages
  const enough = Math.max(ENOUGH_STAGES, Math.ceil(ENOUGH_STAGE_BYTES / stageBytes))
  const inPlace = behind === null && sharesSlots(epilogue) && fits(automatic ? enough : stages, 0, subtiles, true)
  // More slots than sub-tiles are never used.
  const stores = inPlace
    ? 0
    : Math.max(tmaOutputs(epilogue).length * subtiles, Math.min(1, rowOutputs(epilogue).length))
  let stagingSlots = Math.min(STAGING_SLOTS, stores)
  const fetches = behind === null && fetchesAny(epilogue)
  let fetchSlots = inPlace ? subtiles : Math.min(fetches ? 2 : 0, subtiles)
  const mostRows = rowsByWarps(plan).length > 0 ? Math.min(ROW_SLOTS, subtiles) : 0
  rowSlots = greatest(0, mostRows, (slots) =>
    fits(automatic ? enough : stages, stagingSlots, fetchSlots, inPlace, slots),
  )
  const moreFetches = (stages: number): number =>
    fetches ? greatest(fetchSlots, subtiles, (slots) => fits(stages, stagingSlots, slots, inPlace)) : fetchSlots
  if (automatic) {
    fetchSlots = moreFetches(enough)
    stages = greatest(1, MAX_STAGES, (some) => fits(some, stagingSlots, fetchSlots, inPlace))
  }
  fetchSlots = moreFetches(stages)
  stagingSlots = greatest(stagingSlots, stores, (slots) => fits(stages, slots, fetchSlots, inPlace))
  const division = { stages, stagingSlots, fetchSlots, rowSlots, inPlace, behind }
  const smemBytes = sm90Memory(plan, division, 'sizes').bytes
  if (smemBytes > SMEM_LIMIT) return rejection('KTL4510', { stages, need: smemBytes, limit: SMEM_LIMIT })
  return { ...division, storeWarps: storesByWarps(plan, division), smemBytes }
}

const fetchesAny = ({ aux }: EpiloguePlan): boolean => aux.some(({ fetch }) => fetch !== null)

/** Has the only staged output the layout of the first operand that TMA brings? */
function sharesSlots(epilogue: EpiloguePlan): boolean {
  const { aux, stagingSlotBytes } = epilogue
  const fetch = aux.find((operand) => operand.fetch !== null)?.fetch
  const staged = tmaOutputs(epilogue)
  return (
    fetch?.bytes === stagingSlotBytes &&
    staged.length === 1 &&
    staged[0]!.contiguous === fetch.contiguous &&
    staged[0]!.swizzle === fetch.swizzle
  )
}
