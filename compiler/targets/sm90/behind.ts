/**
 * The operand of the epilogue that comes through the ring of stages, behind the steps of k: it takes no shared memory of its own, and one thread asks for
 * whole columns of the tile. There the epilogue finds it; warpgroups that take turns have its elements in registers before their last MMAs are done.
 */
import { DTYPES } from '../../dtypes.ts'
import type { StageBlock } from '../../ir/pipe_epilogue.ts'
import { valuesOf } from '../tensor_core/epilogue.ts'
import type { AuxPlan } from '../tensor_core/epilogue_operands.ts'
import { BOX_ROWS, SWIZZLE_OF_ROW, type Swizzle } from '../../space/layout.ts'
import { broughtByWarps } from '../tensor_core/operands.ts'
import { bufferOfB, fetchMaps, type TensorCorePlan } from '../tensor_core/plan.ts'
import type { Sm90Design } from './design.ts'

export interface BehindPlan {
  readonly aux: AuxPlan
  /** Blocks of the stages that it takes, one behind the other. */
  readonly parts: readonly (readonly StageBlock[])[]
  /** Of a block. */
  readonly bytes: number
  /** Columns of a block: those of several sub-tiles, where these are narrow. */
  readonly columns: number
  readonly swizzle: Swizzle
  /** Where its elements wait for the epilogue: warpgroups that take turns need the stages for each other's steps. */
  readonly held: 'registers' | 'stages'
}

/** Consumer warpgroups, at most: three wait for each other's stages longer than they did for slots of their own (1.01 to 1.03 of the time, measured). */
const MOST_WARPGROUPS = 2
/** Sub-tiles of a warp: the addresses of more and narrower ones spill. */
const MOST_SUBTILES = 4
/** Registers of a consumer beside its accumulators and the operand's elements; for each operand and output more. */
const FEWEST_BESIDE = 36
const EACH_BESIDE = 8
/** Elements of a row of a box. */
const MOST_BOX = 256
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
  const { storageBytes } = DTYPES[operand.dtype]
  const held = design.consumers === 'pingpong' ? 'registers' : 'stages'
  const along = fetch!.contiguous === 'n'
  // What ldmatrix reads, of rows and of columns.
  const inMatrices = storageBytes === 2 && subtileColumns % 16 === 0
  if (held === 'stages' ? !along && !inMatrices : !along || !inMatrices) return null
  if (held === 'registers') {
    const beside = FEWEST_BESIDE + EACH_BESIDE * (epilogue.aux.length + valuesOf(epilogue).length - 2)
    if (subtiles > MOST_SUBTILES || spare < (rowBlocks * layout.columns) / 4 + beside) return null
  }
  const slots = [
    { buffer: 'smem_a', room: a.tileBytes },
    ...b.map(({ tileBytes }, i) => ({ buffer: bufferOfB(i), room: tileBytes })),
  ]
  const widths =
    held === 'registers'
      ? [subtileColumns]
      : blockWidths(layout.columns, subtileColumns).filter((width) => !along || isRow(width * storageBytes))
  const [divided] = widths
    .map((columns) => ({ columns, ...divide(slots, layout.columns, columns, tile[0] * columns * storageBytes) }))
    .filter(({ parts }) => parts.length > 0)
    .sort((x, y) => x.parts.length - y.parts.length || y.columns - x.columns)
  if (!divided) return null
  const swizzle = SWIZZLE_OF_ROW[(along ? divided.columns : BOX_ROWS) * storageBytes] ?? 'none'
  return { aux, ...divided, swizzle, held }
}

/** Columns of a block: whole sub-tiles. */
const blockWidths = (all: number, subtile: number): number[] =>
  Array.from({ length: all / subtile }, (_, i) => (i + 1) * subtile).filter(
    (width) => all % width === 0 && width <= MOST_BOX,
  )

/** Rows of a swizzle, or of an odd multiple of 16 or 32 bytes, of which at most two of eight lie in the same banks. TMA takes rows one by one: wide ones are better. */
const isRow = (bytes: number): boolean => SWIZZLE_OF_ROW[bytes] !== undefined || bytes % 32 === 16 || bytes % 64 === 32

/** Blocks of `bytes` in as few stages as they take; none: a slot has no room for one. */
function divide(
  slots: readonly { readonly buffer: string; readonly room: number }[],
  all: number,
  columns: number,
  bytes: number,
): Pick<BehindPlan, 'parts' | 'bytes'> {
  const places = slots.flatMap(({ buffer, room }) =>
    Array.from({ length: Math.floor(room / bytes) }, (_, i) => ({ buffer, offset: i * bytes })),
  )
  const parts: StageBlock[][] = []
  for (let block = 0; block < all / columns && places.length > 0; block++) {
    if (block % places.length === 0) parts.push([])
    parts.at(-1)!.push({ ...places[block % places.length]!, column: block * columns })
  }
  return { parts, bytes }
}

/** So many stages are enough for it. */
export const leavesStages = ({ parts }: BehindPlan, stages: number): boolean => stages >= parts.length + FEWEST_STAGES
