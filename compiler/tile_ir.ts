/**
 * Tile IR: an explicit warp-specialised program. What synchronises with what is visible here, one operation per
 * wait, arrival, fence, copy and MMA, so that codegen is a table from operation to CUDA text, the printed form can be reviewed
 * like a schedule, and a test can remove any one operation.
 *
 * Names of rings, barriers and buffers are identifiers of ours, never user text.
 */
import type { Node, TensorProgram } from './tensor_ir.ts'

/** A circular index over slots with the phase bit that flips at every wrap-around. */
export interface Ring {
  readonly name: string
  readonly slots: number
}

export interface SmemBuffer {
  readonly name: string
  /** Slots of this ring; null: one slot. */
  readonly ring: string | null
  readonly slots: number
  readonly slotBytes: number
  /** Copies of the ring, one for each warp of the role that owns it. */
  readonly perWarp: number
  /** From the 1024-byte aligned base. */
  readonly offset: number
  readonly holds: string
}

/** An array of mbarriers, one for each slot of `ring`. */
export interface Barrier {
  readonly name: string
  readonly ring: string
  readonly arrivals: number
  /** Bytes expected per phase through complete_tx; null: arrivals only. */
  readonly txBytes: number | null
  readonly offset: number
  readonly meaning: string
}

export interface TmemPlan {
  readonly columns: number
  /** Ring of accumulators. */
  readonly ring: string
  readonly columnsPerAccumulator: number
  readonly slotOffset: number
}

/** Where a wait or arrival stands in its ring: consumers wait for the current phase, producers for the one before. */
export type Parity = 'consumer' | 'producer'

/** One of the two bulk tensor loads of a stage. `coords` name tile-space coordinates, innermost first. */
export interface TmaLoad {
  readonly op: 'tma_load'
  readonly operand: string
  readonly map: string
  readonly buffer: string
  readonly barrier: string
  /** Boxes side by side along the first coordinate (MN-major operands wider than one swizzle span). */
  readonly boxes: number
  readonly boxBytes: number
  readonly boxExtent: number
  readonly coords: readonly ('k' | 'm' | 'n')[]
}

export interface Mma {
  readonly op: 'mma'
  readonly kind: 'f16'
  readonly a: string
  readonly b: string
  readonly instructionDescriptor: number
  readonly aDescriptor: DescriptorPlan
  readonly bDescriptor: DescriptorPlan
  /** MMAs for one stage and the byte step of each operand between them. */
  readonly steps: number
}

/** Shared-memory matrix descriptor without its start address (PTX ISA 9.7.16.4). */
export interface DescriptorPlan {
  readonly leadingBytes: number
  readonly strideBytes: number
  readonly stepBytes: number
}

export interface AuxLoad {
  readonly op: 'aux_load'
  readonly operand: string
  /** `full`: one value per element; `row`: varies along n only; `column`: along m only; `uniform`: neither. */
  readonly shape: 'full' | 'row' | 'column' | 'uniform'
  /** 16-byte vector loads along n where the whole sub-tile is in bounds. */
  readonly vector: boolean
  /** Load only when this scalar is not 0 (skip0). */
  readonly guard: Node | null
}

export interface StoreOp {
  readonly operand: string
  readonly bytes: number
  readonly contiguous: 'n' | 'm'
}

export type TileOp =
  | { readonly op: 'for_tiles'; readonly body: readonly TileOp[] }
  /** At least one k tile: K = 0 loads one from outside the tensors, which is zeros. */
  | { readonly op: 'for_k'; readonly body: readonly TileOp[] }
  | { readonly op: 'for_subtiles'; readonly body: readonly TileOp[] }
  | { readonly op: 'elected'; readonly body: readonly TileOp[] }
  /** Lane 0 only; the rest of the warp meets it at the next warp_sync. */
  | { readonly op: 'lane0'; readonly body: readonly TileOp[] }
  | { readonly op: 'last_subtile'; readonly body: readonly TileOp[] }
  | { readonly op: 'barrier_init'; readonly barrier: string }
  | { readonly op: 'fence_barrier_init' }
  | { readonly op: 'prefetch_maps'; readonly maps: readonly string[] }
  | { readonly op: 'tmem_alloc' }
  | { readonly op: 'tmem_relinquish' }
  | { readonly op: 'tmem_dealloc' }
  | { readonly op: 'tmem_address' }
  | { readonly op: 'cta_sync' }
  | { readonly op: 'warp_sync' }
  | { readonly op: 'wait'; readonly barrier: string; readonly parity: Parity }
  | { readonly op: 'arrive'; readonly barrier: string }
  | { readonly op: 'arrive_expect_tx'; readonly barrier: string; readonly bytes: number }
  | { readonly op: 'advance'; readonly ring: string }
  | TmaLoad
  | Mma
  | { readonly op: 'commit'; readonly barrier: string }
  | { readonly op: 'tcgen05_fence'; readonly when: 'before_thread_sync' | 'after_thread_sync' }
  /** Which row of the tile this lane owns, and whether it exists. */
  | { readonly op: 'own_row' }
  /** A sub-tile of the accumulator into registers, complete on return (tcgen05.ld and its wait). */
  | { readonly op: 'tmem_load' }
  | AuxLoad
  | { readonly op: 'compute'; readonly outputs: readonly { readonly operand: string; readonly value: Node }[] }
  | { readonly op: 'bulk_wait_read'; readonly pending: number }
  | (StoreOp & { readonly op: 'stage_write'; readonly buffer: string; readonly swizzle: StagingSwizzle })
  | { readonly op: 'proxy_fence' }
  | (StoreOp & { readonly op: 'tma_store'; readonly map: string; readonly buffer: string })
  | { readonly op: 'bulk_commit' }
  | { readonly op: 'bulk_wait' }
  | (StoreOp & { readonly op: 'direct_store' })

/** Span of the store's smem rows; `none`: m-contiguous outputs, whose rows are dense. */
export type StagingSwizzle = 'none' | '32B' | '64B' | '128B'

export interface Role {
  readonly name: string
  readonly firstWarp: number
  readonly warps: number
  readonly does: string
  /** Rings whose slot and phase this role keeps. */
  readonly rings: readonly string[]
  readonly body: readonly TileOp[]
}

export interface TileProgram {
  readonly kind: 'sm100'
  readonly tensor: TensorProgram
  readonly threads: number
  readonly tile: readonly [number, number, number]
  readonly subtileColumns: number
  readonly rowsPerWarp: number
  readonly rings: readonly Ring[]
  readonly buffers: readonly SmemBuffer[]
  readonly barriers: readonly Barrier[]
  readonly tmem: TmemPlan
  /** Executed by the warp that owns each operation before the roles start; see `SetupOp.warp`. */
  readonly setup: readonly SetupStep[]
  readonly roles: readonly Role[]
  readonly teardown: readonly SetupStep[]
}

/** warp null: every thread. */
export interface SetupStep {
  readonly warp: number | null
  readonly body: readonly TileOp[]
}

const NESTED = new Set(['for_tiles', 'for_k', 'for_subtiles', 'elected', 'lane0', 'last_subtile'])

export type NestedOp = Extract<TileOp, { body: readonly TileOp[] }>

export function isNested(op: TileOp): op is NestedOp {
  return NESTED.has(op.op)
}

/** All operations in program order, with the path of list indices that leads to each. */
export function* walkTileOps(
  ops: readonly TileOp[],
  path: readonly number[] = [],
): Generator<[TileOp, readonly number[]]> {
  for (const [i, op] of ops.entries()) {
    const here = [...path, i]
    yield [op, here]
    if (isNested(op)) yield* walkTileOps(op.body, here)
  }
}
