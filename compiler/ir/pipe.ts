/**
 * Pipeline program: an explicit warp-specialised program, complete with its memory map and its launch. What synchronises with what is
 * visible here, one operation per wait, arrival, fence, copy and MMA, so that codegen is a table from operation to CUDA text, the
 * printed form can be reviewed like a schedule, and a test can remove any one operation.
 *
 * Names of rings, barriers and buffers are identifiers of ours, never user text, and mean nothing: what differs has a field.
 */
import type { TargetArch } from '../instance.ts'
import type { Domain } from '../space/domain.ts'
import type { Ix } from '../space/ix.ts'
import type { SharedTile } from '../space/layout.ts'
import type { MmaKind } from '../targets/sm100/mma.ts'
import type { WarpMmaKind } from '../targets/sm80/mma.ts'
import type { WgmmaKind } from '../targets/sm90/mma.ts'
import type { ClusterPlan, PerCluster } from '../targets/tensor_core/cluster.ts'
import type { AccumulatorLayout } from '../targets/tensor_core/epilogue.ts'
import type { DescriptorPlan } from '../targets/tensor_core/operands.ts'
import type { KernelLaunch } from './launch.ts'
import type { EpilogueOp } from './pipe_epilogue.ts'
import type { ReduceNode, TensorProgram } from './tensor.ts'

/** A circular index over slots with the phase bit that flips at every wrap-around. */
export interface Ring {
  readonly name: string
  readonly slots: number
  /** Slot that a role begins with; absent: the first. */
  readonly startsAt?: 'warpgroup'
}

/** One ring of slots, or of barriers, for each warp or each consumer warpgroup. */
export interface Copies {
  readonly owner: 'warp' | 'warpgroup'
  readonly count: number
}

export interface SmemBuffer {
  readonly name: string
  /** Slots of this ring; null: one slot, addressed as a whole. */
  readonly ring: string | null
  readonly slots: number
  readonly slotBytes: number
  /** Absent: one for the CTA. */
  readonly per?: Copies
  /** From the 1024-byte aligned base. */
  readonly offset: number
  /** Bytes that what accesses it needs each slot to be aligned to. */
  readonly align: number
  readonly holds: string
  /** Lies over this buffer and what follows it, which are empty while it is in use. */
  readonly over?: string
}

/** An array of mbarriers, one for each slot of `ring`. */
export interface Barrier {
  readonly name: string
  readonly ring: string
  readonly arrivals: PerCluster
  /** Absent: one for the CTA. */
  readonly per?: Copies
  /** `cluster`: other CTAs arrive on it, so that waiting for it acquires at cluster scope. */
  readonly scope: 'cta' | 'cluster'
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

/** The sum of a part: of so many columns. */
export interface PartRegisters {
  readonly cells: 'f32' | 's32'
  readonly columns: number
}

/** What is summed by itself: a chunk of k, for one product, one block of rows and some columns. */
export interface Part {
  /** Its number among the parts of a stage, which are summed in order, and how many there are. */
  readonly index: number
  readonly of: number
  readonly chunk: number
  readonly product: number
  readonly block: number
  /** The first one, and how far it lies behind the first one of B in shared memory. */
  readonly column: number
  readonly columnBytes: number
}

/** Accumulators in the registers of consumer warpgroups, or of warps. */
export interface RegisterPlan {
  readonly products: number
  /** Blocks of 64 rows that each warpgroup computes, of 16 that each warp does. */
  readonly rowBlocks: number
  /** Columns of the tile, of a warp's part of it where `warps` divide it. */
  readonly columns: number
  /** Warps along m and n, each with its own part of the tile; absent: warpgroups have whole rows. */
  readonly warps?: readonly [number, number]
  /** The epilogue reads them back from shared memory, in loops that are not unrolled. */
  readonly parked?: boolean
  readonly cells: 'f32' | 'i32' | 'f16'
  /** MMAs add up parts of a stage by themselves, which are then scaled and added to the cells; absent: MMAs add to the cells. */
  readonly parts?: PartRegisters
  /** Warpgroups on one tile: its blocks of rows go to them in turn. */
  readonly together: number
}

/** Where a wait or arrival stands in its ring: consumers wait for the current phase, producers for the one before. */
export type Parity = 'consumer' | 'producer'

/** Which tile of an operand's k a loop is at. */
export interface DepthView {
  readonly axis: string
  /** In tiles along `axis`. */
  readonly tile: Ix
  /** Axes that are walked one by one around it, outermost first. */
  readonly outer: readonly { readonly axis: string; readonly at: Ix }[]
}

/** Rows of m or n of an operand, in the tile that its loop is at. */
interface TileLoad {
  readonly operand: string
  readonly buffer: string
  /** Axis of the tile that the operand has beside k; `n` of a CTA pair is split in halves. */
  readonly free: 'm' | 'n'
  readonly tile: SharedTile
  readonly depth: DepthView
}

/**
 * Loads this CTA's slices of an operand's tile. Where several CTAs of the cluster need the tile, each loads some slices and
 * multicasts them to all.
 */
export interface TmaLoad extends TileLoad {
  readonly op: 'tma_load'
  readonly map: string
  readonly barrier: string
  /** null: the tile comes whole, for this CTA alone. `rows`: of m or n (K-major), or of k. */
  readonly slices: { readonly count: number; readonly rows: number; readonly bytes: number } | null
}

/** The same tile copied by the warps of a role, for operands whose rows TMA cannot address. */
export interface Gather extends TileLoad {
  readonly op: 'gather'
  /** The ring whose slot is filled; absent: the buffer's own. */
  readonly ring?: string
  /** Chunks of 16 bytes that a thread has under way at once. */
  readonly batch: number
}

/** The same by asynchronous copies of the threads (cp.async): complete after `copy_wait` and a barrier of the CTA. */
export interface CopyTile extends TileLoad {
  readonly op: 'copy_tile'
  readonly ring: string
  /** Of one copy by a thread. */
  readonly bytes: 4 | 16
}

/**
 * Scales of a stage: f32, [chunk of k][group of rows or columns], 0 outside of the operand. By asynchronous copies of 4 bytes
 * (`copies`), which are complete with the phase of the barrier, or through registers.
 */
export interface ScaleLoad {
  readonly op: 'load_scales'
  readonly operand: string
  readonly buffer: string
  readonly barrier: string
  readonly free: 'm' | 'n'
  readonly layout: ScaleLayout
  readonly depth: DepthView
  readonly copies: boolean
  /** Of the role that load them together: all, or the one that is here. */
  readonly warps: number
}

/** `group`: rows or columns that share a scale; `count`: groups of a tile; `chunk`: elements of k; `chunks`: of a stage. */
export interface ScaleLayout {
  readonly group: number
  readonly count: number
  readonly chunk: number
  readonly chunks: number
}

export interface ScaleSource {
  readonly buffer: string
  readonly layout: ScaleLayout
}

/** Scales of a part's A and B; null: none that vary along k. */
export interface PartScales {
  readonly part: Part
  readonly a: ScaleSource | null
  readonly b: ScaleSource | null
}

/** Scales as block-scaled MMAs read them: tiles of 128 x 4 (stored/tiles.ts), of each stage so many. */
export interface ScaleAtoms {
  /** The first atom begins with the tile, or is the one of memory that the tile begins in. */
  readonly from: 'tile' | 'memory'
  /** Along m or n, and along k. */
  readonly rows: number
  readonly steps: number
}

/** The atoms that a CTA's tile of m or n lies in, those of one step of k side by side. */
export interface AtomLoad {
  readonly op: 'load_atoms'
  readonly operand: string
  readonly map: string
  readonly buffer: string
  readonly barrier: string
  readonly free: 'm' | 'n'
  readonly atoms: ScaleAtoms
  readonly depth: DepthView
}

/** The same by all warps of the role from scales with any strides, each for one block of k or several; 0 outside of the operand. */
export interface AtomWrite {
  readonly op: 'write_atoms'
  readonly operand: string
  readonly buffer: string
  readonly free: 'm' | 'n'
  readonly atoms: ScaleAtoms
  /** Elements of k to a scale of the MMA. */
  readonly block: number
  readonly depth: DepthView
}

/** Atoms of a stage to tensor memory, each to four columns from `column` on, behind what this thread's MMAs before have read. */
export interface CopyAtoms {
  readonly op: 'copy_atoms'
  readonly buffer: string
  readonly column: number
  readonly atoms: ScaleAtoms
}

/** Where an MMA finds scales in tensor memory. */
export interface AtomSource {
  readonly column: number
  readonly atoms: ScaleAtoms
}

export interface MmaScales {
  /** Of a row, for one instruction. */
  readonly perStep: number
  readonly a: AtomSource
  /** Of each product. */
  readonly b: readonly AtomSource[]
}

/** A tile in shared memory as MMAs read it. */
export interface TileSource {
  readonly buffer: string
  readonly operand: string
  readonly tile: Pick<SharedTile, 'major' | 'span' | 'pitch' | 'swizzle'>
}

/** Operands of one k step of the MMAs, as ldmatrix reads them: which buffers hold them. */
export interface FragmentSource {
  readonly a: TileSource
  readonly products: readonly TileSource[]
}

/** The MMAs of one stage: for each product, `steps` instructions. */
export interface Mma {
  readonly op: 'mma'
  readonly kind: MmaKind
  readonly a: string
  /** Operand B of each product, and the first column of its accumulator in the slot. */
  readonly products: readonly { readonly b: string; readonly column: number }[]
  /** The instruction descriptor, and what it says in words. */
  readonly instruction: { readonly descriptor: number; readonly text: string }
  readonly aDescriptor: DescriptorPlan
  readonly bDescriptor: DescriptorPlan
  readonly steps: number
  /** null: operands count as they are. */
  readonly scales: MmaScales | null
}

/**
 * The MMAs of one stage by each consumer warpgroup, on accumulators in its registers, as one group (PTX ISA 9.7.15). Each
 * block of 64 rows of the warpgroup's tile is `steps` instructions for each product.
 */
export interface WarpgroupMma {
  readonly op: 'wgmma'
  readonly kind: WgmmaKind
  readonly n: number
  readonly a: string
  readonly products: readonly { readonly b: string }[]
  readonly aDescriptor: DescriptorPlan
  readonly bDescriptor: DescriptorPlan
  readonly aMajor: 'k' | 'mn'
  readonly bMajor: 'k' | 'mn'
  /** From one block of rows of A to the next in shared memory. */
  readonly blockBytes: number
  readonly steps: number
  /** Sums of their own: of this part; null: added to the accumulators. */
  readonly part: Part | null
  /** The last stage takes only the steps that k still has, one after the other; else its zeros are multiplied too. */
  readonly stopsAtK: boolean
}

/** CTAs of a cluster that a commit signals. */
export type CommitTarget = 'cta' | 'pair' | 'producers'
/** `leader`: the even CTA of a pair, which issues its MMAs; `first`: CTA 0 of the cluster. */
export type ArriveTarget = 'cta' | 'leader' | 'first'

export type TileOp =
  | EpilogueOp
  /** Over work items; where the walk is dynamic, the body reads the next one. */
  | {
      readonly op: 'for_tiles'
      /** Warpgroups that take turns over the work items; absent: all work on each. */
      readonly turns?: number
      /** The role has accumulators in registers. */
      readonly accumulators?: true
      readonly body: readonly TileOp[]
    }
  /** Directly in the body of `for_tiles`: the origin of the next tile, which its turn then does not begin with. */
  | { readonly op: 'next_origin' }
  /** Until the cluster has no more work: the scheduler's loop. */
  | { readonly op: 'while_work'; readonly body: readonly TileOp[] }
  /** Once for every slot of a ring. */
  | { readonly op: 'for_slots'; readonly ring: string; readonly body: readonly TileOp[] }
  /** Only in the CTA that issues the MMAs of its pair. */
  | { readonly op: 'leader'; readonly body: readonly TileOp[] }
  /** Only in the first CTA of the cluster. */
  | { readonly op: 'first_cta'; readonly body: readonly TileOp[] }
  /** At least one k tile: K = 0 loads one from outside the tensors, which is zeros. */
  | { readonly op: 'for_k'; readonly body: readonly TileOp[] }
  /** What the loop does that this k tile belongs to: a body for each loop of the domain. */
  | { readonly op: 'by_loop'; readonly bodies: readonly (readonly TileOp[])[] }
  | { readonly op: 'elected'; readonly body: readonly TileOp[] }
  /** Lane 0 only; the rest of the warp meets it at the next warp_sync. */
  | { readonly op: 'lane0'; readonly body: readonly TileOp[] }
  | { readonly op: 'barrier_init'; readonly barrier: string }
  | { readonly op: 'fence_barrier_init' }
  | { readonly op: 'prefetch_maps'; readonly maps: readonly string[] }
  | { readonly op: 'tmem_alloc' }
  | { readonly op: 'tmem_relinquish' }
  | { readonly op: 'tmem_dealloc' }
  | { readonly op: 'tmem_address' }
  | { readonly op: 'cta_sync' }
  /** Behind `fence_barrier_init`: all CTAs of the cluster run and see each other's barriers, but no other writes. */
  | { readonly op: 'cluster_start' }
  | { readonly op: 'cluster_sync' }
  | { readonly op: 'warp_sync' }
  /** This many threads, those of the first role, meet and see what each of them wrote before. */
  | { readonly op: 'role_sync'; readonly threads: number }
  | { readonly op: 'wait'; readonly barrier: string; readonly parity: Parity }
  /** `ring`: another one over the same slots. */
  | { readonly op: 'arrive'; readonly barrier: string; readonly at: ArriveTarget; readonly ring?: string }
  /** `bytes` of all CTAs whose loads signal this barrier. */
  | { readonly op: 'arrive_expect_tx'; readonly barrier: string; readonly bytes: number }
  | { readonly op: 'advance'; readonly ring: string }
  | TmaLoad
  | Gather
  | Mma
  | WarpgroupMma
  /**
   * Until at most `pending` groups of MMAs of this warpgroup are under way; 0: what they have summed may be read.
   */
  | { readonly op: 'wgmma_wait'; readonly pending: 0 | 1 }
  /**
   * The slot of `ring` is free: one arrival for each warpgroup, whose MMAs have read it together, or for each warp, which has read it
   * itself; on the barrier of every CTA that fills it.
   */
  | { readonly op: 'release'; readonly barrier: string; readonly ring: string; readonly eachWarp: boolean }
  /** Except in the first k tile. */
  | { readonly op: 'after_first_k'; readonly body: readonly TileOp[] }
  /** Registers of each thread of this warpgroup from here on (setmaxnreg). */
  | { readonly op: 'set_registers'; readonly count: number; readonly change: 'more' | 'fewer' }
  /** Only in the first warp of the role, one thread. */
  | { readonly op: 'one_thread'; readonly body: readonly TileOp[] }
  /** One thread of each warp behind the role's first, as many as there are consumer warpgroups: each serves one of them. */
  | { readonly op: 'for_warpgroups'; readonly body: readonly TileOp[] }
  /** The k tiles of a tile that another warpgroup computes: the rings move on without it. */
  | { readonly op: 'skip_tile'; readonly rings: readonly string[]; readonly unless: 'first' | null }
  /** Until the other warpgroup has seen all stages of its tile: a wait two phases early would pass at once. */
  | { readonly op: 'wait_turn'; readonly barrier: string }
  | { readonly op: 'pass_turn'; readonly barrier: string }
  /** The accumulators to shared memory, for an epilogue that is not unrolled. */
  | { readonly op: 'park'; readonly buffer: string; readonly threads: number }
  /**
   * The accumulators of this CTA's share of k, those of each column to the CTA of the cluster that stores it, by `threads` of each.
   * Their bytes count on its `barrier`.
   */
  | { readonly op: 'send_sums'; readonly buffer: string; readonly barrier: string; readonly threads: number }
  /** Only where this CTA computes another tile after this one. */
  | { readonly op: 'before_next_tile'; readonly body: readonly TileOp[] }
  /** One arrival on the barrier of every CTA of the cluster, by the first warp of the first role. */
  | { readonly op: 'arrive_all'; readonly barrier: string }
  | CopyTile
  | ScaleLoad
  | AtomLoad
  | AtomWrite
  | CopyAtoms
  /** An arrival of every thread once its copies so far have landed (cp.async.mbarrier.arrive.noinc). */
  | { readonly op: 'arrive_copied'; readonly barrier: string }
  /** By the last warp of the role. */
  | { readonly op: 'last_warp'; readonly body: readonly TileOp[] }
  /** The scales of this part to registers. */
  | (PartScales & { readonly op: 'part_scales' })
  /** Adds the part, times its scales, to the accumulators. */
  | (PartScales & { readonly op: 'promote' })
  /** All copies of this thread since the last one form a group. */
  | { readonly op: 'copy_commit' }
  /** Until at most `pending` groups of this thread are under way. */
  | { readonly op: 'copy_wait'; readonly pending: number }
  /** For the first `count` k tiles. */
  | { readonly op: 'for_first_k'; readonly count: number; readonly body: readonly TileOp[] }
  /** For the k tile that is `by` after this one, if it exists. */
  | { readonly op: 'ahead'; readonly by: number; readonly body: readonly TileOp[] }
  | { readonly op: 'zero_cells' }
  /** Fragments of k step `step` of the stage, into set `set` of two. */
  | (FragmentSource & { readonly op: 'load_fragments'; readonly step: number; readonly set: 0 | 1 })
  /** mma.sync of each block of 16 rows with each 8 columns, from the fragments of a set. */
  | { readonly op: 'mma_sync'; readonly kind: WarpMmaKind; readonly set: 0 | 1 }
  | { readonly op: 'commit'; readonly barrier: string; readonly to: CommitTarget }
  | { readonly op: 'tcgen05_fence'; readonly when: 'before_thread_sync' | 'after_thread_sync' }
  /** Announces the response of a work request on the barrier of every CTA of the cluster; one lane each. */
  | { readonly op: 'expect_work'; readonly barrier: string; readonly bytes: number }
  /** Asks cluster launch control for a cluster that has not started; the response goes to every CTA of this one. */
  | { readonly op: 'request_work'; readonly barrier: string; readonly buffer: string }
  /** The response in this slot: the next work item, or none. */
  | { readonly op: 'read_work'; readonly buffer: string }

export interface Role {
  readonly name: string
  readonly firstWarp: number
  readonly warps: number
  readonly does: string
  /** Rings whose slot and phase this role keeps. */
  readonly rings: readonly string[]
  readonly body: readonly TileOp[]
}

/** What the text says of the kernel that it computes, and how it may compute it. */
export interface KernelSource extends Omit<TensorProgram, 'outputs'> {
  /** Of the tensor program. */
  readonly digest: string
}

/** A reduction that is an output: which partial results the workspace has, and how a second kernel combines them. */
export interface ReductionOutput extends Pick<ReduceNode, 'fn' | 'type' | 'over' | 'span'> {
  readonly operand: string
  /** Axes of the tile that the output keeps: the workspace has a place for each element, else for each part. */
  readonly keepsM: boolean
  readonly keepsN: boolean
}

export interface TileProgram {
  /** The backend whose emitters print it. */
  readonly kind: string
  readonly target: TargetArch
  readonly source: KernelSource
  readonly domain: Domain
  readonly cluster: ClusterPlan
  readonly launch: KernelLaunch
  readonly subtileColumns: number
  readonly layout: AccumulatorLayout
  readonly reductions: readonly ReductionOutput[]
  readonly rings: readonly Ring[]
  readonly buffers: readonly SmemBuffer[]
  readonly barriers: readonly Barrier[]
  /** null: accumulators are in registers. */
  readonly tmem: TmemPlan | null
  /** null: accumulators are in TMEM. */
  readonly registers: RegisterPlan | null
  /** Executed before the roles start, each step by its warp. */
  readonly setup: readonly SetupStep[]
  readonly roles: readonly Role[]
  readonly teardown: readonly SetupStep[]
}

/** warp null: every thread. */
export interface SetupStep {
  readonly warp: number | null
  readonly body: readonly TileOp[]
}

export type NestedOp = Extract<TileOp, { body: readonly TileOp[] }>

const NESTED: Readonly<Record<NestedOp['op'], true>> = {
  for_tiles: true, while_work: true, for_slots: true, for_k: true, for_first_k: true, ahead: true, after_first_k: true, for_row_blocks: true,
  for_subtiles: true, for_staged: true, after_first_staged: true, elected: true, one_thread: true, for_warpgroups: true, leader: true,
  first_cta: true, lane0: true, last_warp: true, last_subtile: true, before_next_tile: true,
} // prettier-ignore

export function isNested(op: TileOp): op is NestedOp {
  return op.op in NESTED
}

/** Lists of operations inside of one. */
export const bodiesOf = (op: TileOp): readonly (readonly TileOp[])[] =>
  op.op === 'by_loop' ? op.bodies : isNested(op) ? [op.body] : []

/** All operations in program order, with the path of list indices that leads to each. */
export function* walkTileOps(
  ops: readonly TileOp[],
  path: readonly number[] = [],
): Generator<[TileOp, readonly number[]]> {
  for (const [i, op] of ops.entries()) {
    const here = [...path, i]
    yield [op, here]
    const bodies = bodiesOf(op)
    for (const [b, body] of bodies.entries()) yield* walkTileOps(body, bodies.length > 1 ? [...here, b] : here)
  }
}

/** All operations of a program. */
export function* opsOf({ setup, roles, teardown }: TileProgram): Generator<TileOp> {
  for (const { body } of [...setup, ...roles, ...teardown]) for (const [op] of walkTileOps(body)) yield op
}
