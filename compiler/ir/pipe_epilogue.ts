/**
 * Operations of the role that turns accumulators into outputs, a sub-tile at a time. A lane holds its cells of the sub-tile in
 * registers: a row (accumulators in TMEM) or those of an MMA fragment.
 */
import type { Swizzle } from '../space/layout.ts'
import type { TileOp } from './pipe.ts'
import type { Node, StoredForm } from './tensor.ts'

export interface AuxLoad {
  readonly op: 'aux_load'
  readonly operand: string
  /** `full`: one value per element; `row`: varies along n only; `column`: along m only; `uniform`: neither. */
  readonly shape: 'full' | 'row' | 'column' | 'uniform'
  /** Vector loads along n where the whole sub-tile is in bounds. */
  readonly vector: boolean
  /** Where TMA has brought it; absent: it is loaded to registers. */
  readonly fetched?: Fetched
  /** Rows that begin anywhere: the warp copies them to its slot, or `copied` others have, and reads its values there. */
  readonly rows?: { readonly buffer: string; readonly copied?: true }
  /** It lies in slots of stages, which `hold_stage` has noted: so many columns in each block, contiguous along n, or 64 rows along m. */
  readonly stage?: HeldStages
  /** Its values are those that `load_ahead`, or `load_next`, has brought to registers. */
  readonly ahead?: Ahead
  /** Load only when this scalar is not 0 (skip0). */
  readonly guard: Node | null
}

/** By part. */
export interface HeldStages {
  readonly parts: readonly (readonly StageBlock[])[]
  readonly columns: number
  readonly swizzle: Swizzle
}

/** What is in registers ahead of its use: all that a lane needs of the tile, or of one sub-tile. */
export type Ahead = 'tile' | 'subtile'

/** A ring of sub-tiles of an operand in shared memory, for each warp. */
interface SubtileRing {
  readonly ring: string
  readonly buffer: string
  readonly barrier: string
}

/** How they lie there. */
export interface Fetched extends SubtileRing {
  readonly swizzle: Swizzle
}

/** How they come there. */
export interface Fetch extends SubtileRing {
  readonly map: string
  readonly bytes: number
  /** Sub-tiles of a warp's part of the tile. */
  readonly subtiles: number
}

export interface StoreOp {
  readonly operand: string
  /** Of an element. */
  readonly bytes: number
  readonly contiguous: 'n' | 'm'
}

/**
 * What a warp needs of an operand along n or m for the whole tile, to registers before its MMAs. Columns are spread over the lanes, which ask
 * each other for them; the rows of a lane are its own. Of an operand along both: its lines to L2, or the lane's `elements`, of the tile or of the first
 * sub-tile.
 */
export interface LoadAhead {
  readonly op: 'load_ahead'
  readonly operand: string
  readonly shape: 'row' | 'column' | 'full'
  readonly elements?: Ahead
  readonly guard: Node | null
}

/** Elements of the sub-tile that comes next take the registers of those that have been read. `stops`: sub-tiles beyond n do not come about. */
export interface LoadNext {
  readonly op: 'load_next'
  readonly operand: string
  readonly stops: boolean
  readonly guard: Node | null
}

/** Rows of a sub-tile of a warpgroup, which begin anywhere, to its slot, by a warp of another role: for `aux_load`, `rows`. */
export interface CopyRows {
  readonly op: 'copy_rows'
  readonly operand: string
  readonly buffer: string
  readonly guard: Node | null
}

/**
 * The values of a stored form: its scales, one for each `block` columns of a row or rows of a column, from the largest magnitudes to
 * memory, and the values themselves as what they are rounded to. A lane that has a whole block finds its largest; others ask the lanes
 * that have the rest, or find in `shared` what other warps have.
 */
export interface Quantise {
  readonly op: 'quantise'
  readonly operand: string
  readonly along: 'n' | 'm'
  readonly block: number
  /** Buffer of largest magnitudes; null: no other warp has a part of the block. */
  readonly shared: string | null
  /** A block is several sub-tiles, which `measure` has seen. */
  readonly measured?: true
  readonly form: StoredForm
}

/** Columns of one or more sub-tiles, of all rows of the tile, in the slot of a stage: from byte `offset` on, those from `column` on. */
export interface StageBlock {
  readonly buffer: string
  readonly offset: number
  readonly column: number
}

/** Blocks of an operand of each element in one slot of the ring of stages. */
export interface OfStage {
  readonly operand: string
  readonly blocks: readonly StageBlock[]
  /** Of a block. To registers only those of one sub-tile. */
  readonly columns: number
  readonly guard: Node | null
}

export type EpilogueOp =
  /** Asks for them in L2: a block of `columns` in a step of k, over three quarters of these, as all CTAs would ask at once behind them. */
  | {
      readonly op: 'prefetch_stage'
      readonly operand: string
      readonly map: string
      readonly columns: number
      readonly guard: Node | null
    }
  /** Asks TMA for them, `bytes` in all, and arrives; without any where the guard is 0. */
  | (OfStage & {
      readonly op: 'fetch_stage'
      readonly map: string
      readonly barrier: string
      readonly bytes: number
    })
  /** Notes the slot of a part that has landed: it stays there for the epilogue. */
  | { readonly op: 'hold_stage'; readonly operand: string; readonly part: number; readonly ring: string }
  /** Those of the lane to registers as words; 0 where the guard is. */
  | (OfStage & { readonly op: 'take_stage'; readonly swizzle: Swizzle })
  /** Asks TMA for the first sub-tiles of an operand, as many as its ring holds. */
  | { readonly op: 'fetch_first'; readonly operand: string; readonly fetch: Fetch; readonly guard: Node | null }
  /** The values of the slot are in registers: asks for the sub-tile that comes into it next, if there is one. */
  | { readonly op: 'fetch_next'; readonly operand: string; readonly fetch: Fetch; readonly guard: Node | null }
  /** Over the blocks of rows of a warpgroup or warp. */
  | { readonly op: 'for_row_blocks'; readonly body: readonly TileOp[] }
  /** The cells of a sub-tile out of the accumulator registers, or out of a buffer where `threads` have left them. */
  | { readonly op: 'take_cells'; readonly from: { readonly buffer: string; readonly threads: number } | null }
  /** Over the columns of the tile that this warp holds, so many of them at a time, which share a scale. */
  | { readonly op: 'for_blocks'; readonly columns: number; readonly body: readonly TileOp[] }
  /** Over the columns of the tile that this warp holds, or of a block of so many; sets where the sub-tile starts, in TMEM and in the output. */
  | { readonly op: 'for_subtiles'; readonly of?: number; readonly body: readonly TileOp[] }
  /** The largest magnitude of each row of a block: of nothing yet, and of a sub-tile more. */
  | { readonly op: 'measure_begin'; readonly operand: string }
  | { readonly op: 'measure'; readonly operand: string }
  /** Sub-tiles from here on lie beyond n: a branch, which keeps ptxas from holding values of several sub-tiles at once. */
  | { readonly op: 'stop_at_n' }
  | { readonly op: 'last_subtile'; readonly body: readonly TileOp[] }
  /** Where the warp's rows start; `lane`: also which one this lane owns, and whether it exists. */
  | { readonly op: 'own_row'; readonly lane: boolean }
  /** A sub-tile of the accumulator of each product into registers, complete on return (tcgen05.ld and its wait). */
  | { readonly op: 'tmem_load'; readonly products: number }
  | LoadAhead
  | LoadNext
  | AuxLoad
  | CopyRows
  | { readonly op: 'compute'; readonly outputs: readonly { readonly operand: string; readonly value: Node }[] }
  | Quantise
  /** The largest magnitudes of each column that this warp has of a block of rows, for the others that have a part of it. */
  | { readonly op: 'share_largest'; readonly operand: string; readonly buffer: string }
  | { readonly op: 'bulk_wait_read'; readonly pending: number }
  /** `matrices`: by stmatrix, 16 columns at a time, and the last 8. `carry`, `dense`: see `row_store`. */
  | (StoreOp & {
      readonly op: 'stage_write'
      readonly carry?: number
      readonly dense?: true
      readonly buffer: string
      readonly swizzle: Swizzle
      readonly matrices: boolean
    })
  | { readonly op: 'proxy_fence' }
  /** The rows of what owns the buffer: of a warp, or of the four of a warpgroup. */
  | (Omit<StoreOp, 'bytes'> & { readonly op: 'tma_store'; readonly map: string; readonly buffer: string })
  /** Over the sub-tiles of a warpgroup, in the order in which its warps come to them. */
  | { readonly op: 'for_staged'; readonly body: readonly TileOp[] }
  | { readonly op: 'after_first_staged'; readonly body: readonly TileOp[] }
  | { readonly op: 'bulk_commit' }
  /** Element by element. `places`: for each axis of the operand the axis of the tile, or the operand, that says where; absent: its own. */
  | { readonly op: 'direct_store'; readonly operand: string; readonly places?: readonly string[] }
  /**
   * A staged sub-tile to memory by its warp, in vectors along the contiguous axis. `carry`: of rows that begin anywhere, which leave as words of memory where
   * they are such, else in pieces of 16 bytes; what the last piece has waits from this byte of the slot on for the next sub-tile. They stand in the slot as
   * far from a multiple of 16 bytes as in memory.
   * `dense`: rows that have no more columns than the warp and follow each other in memory stand there as they do in the slot, which has room for all sub-tiles,
   * and leave with the last one.
   */
  | (StoreOp & {
      readonly op: 'row_store'
      readonly carry?: number
      readonly dense?: true
      readonly buffer: string
      readonly swizzle: Swizzle
    })
  /** A total of this lane's row, where n is reduced. */
  | { readonly op: 'reduce_begin'; readonly operand: string }
  /** Adds a sub-tile to the total; where the output keeps n, its columns go to the workspace. */
  | { readonly op: 'reduce_subtile'; readonly operand: string }
  /** The total, or that of the warp's rows, to the workspace. */
  | { readonly op: 'reduce_end'; readonly operand: string }
