/**
 * The operand of the epilogue that comes through the ring of stages, behind the steps of k: it takes no shared memory of its own, one thread asks for whole
 * columns of the tile, and the consumers have its elements in registers before their last MMAs are done.
 */
import { DTYPES } from '../../dtypes.ts'
import type { StageBlock } from '../../ir/pipe_epilogue.ts'
import { valuesOf } from '../tensor_core/epilogue.ts'
import type { AuxPlan } from '../tensor_core/epilogue_operands.ts'
import { broughtByWarps } from '../tensor_core/operands.ts'
import { bufferOfB, fetchMaps, type TensorCorePlan } from '../tensor_core/plan.ts'
import type { Sm90Design } from './design.ts'

export interface BehindPlan {
  readonly aux: AuxPlan
  /** Blocks of the stages that it takes, one behind the other. */
  readonly parts: readonly (readonly StageBlock[])[]
  /** Of a block. */
  readonly bytes: number
}

/** Consumer warpgroups, at most: three wait for each other's stages longer than they did for slots of their own (1.01 to 1.03 of the time, measured). */
const MOST_WARPGROUPS = 2
/** Sub-tiles of a warp: the addresses of more and narrower ones spill. */
const MOST_SUBTILES = 4
/** Registers of a consumer beside its accumulators and the operand's elements; for each operand and output more. */
const FEWEST_BESIDE = 36
const EACH_BESIDE = 8
/** Stages that load the next tile meanwhile. */
const FEWEST_STAGES = 2

/** What decides. */
interface Bringing extends Pick<
  TensorCorePlan,
  'gemm' | 'tile' | 'cluster' | 'a' | 'b' | 'loops' | 'scales' | 'epilogue'
> {
  readonly design: Sm90Design
  readonly splits: number
  readonly warpgroups: number
  readonly rowBlocks: number
  readonly subtiles: number
  readonly parks: boolean
}

/** Null: it comes to slots of its own, or not by TMA. `spare`: registers of a consumer that are no accumulators. */
export function planBehind(plan: Bringing, spare: number): BehindPlan | null {
  const { design, gemm, tile, a, b, scales, epilogue, splits, warpgroups, rowBlocks, subtiles, parks } = plan
  const [first, ...others] = fetchMaps(plan)
  if (!first || others.length > 0 || design.overlap || design.parts > 1 || scales || gemm.sums) return null
  // Whether there is another tile of a group is not known to all of a cluster's warps.
  if (gemm.groups && plan.cluster.size > 1) return null
  if (splits > 1 || parks || warpgroups > MOST_WARPGROUPS || broughtByWarps(plan) || epilogue.measured !== null)
    return null
  const { aux } = first
  const { operand, fetch } = aux
  const { subtileColumns, layout } = epilogue
  if (fetch!.contiguous !== 'n' || DTYPES[operand.dtype].storageBytes !== 2) return null
  const beside = FEWEST_BESIDE + EACH_BESIDE * (epilogue.aux.length + valuesOf(epilogue).length - 2)
  if (subtileColumns % 16 !== 0 || subtiles > MOST_SUBTILES || spare < (rowBlocks * layout.columns) / 4 + beside)
    return null
  const bytes = (tile[0] / layout.rowsPerWarp) * fetch!.bytes
  const slots = [
    { buffer: 'smem_a', room: Math.floor(a.tileBytes / bytes) },
    ...b.map(({ tileBytes }, i) => ({ buffer: bufferOfB(i), room: Math.floor(tileBytes / bytes) })),
  ]
  const places = slots.flatMap(({ buffer, room }) =>
    Array.from({ length: room }, (_, i) => ({ buffer, offset: i * bytes })),
  )
  if (places.length === 0) return null
  const columns = Array.from({ length: layout.columns / subtileColumns }, (_, i) => i * subtileColumns)
  const parts: StageBlock[][] = []
  for (const [i, column] of columns.entries()) {
    if (i % places.length === 0) parts.push([])
    parts.at(-1)!.push({ ...places[i % places.length]!, column })
  }
  return { aux, parts, bytes }
}

/** So many stages are enough for it. */
export const leavesStages = ({ parts }: BehindPlan, stages: number): boolean => stages >= parts.length + FEWEST_STAGES
