/**
 * Pipeline program: an explicit warp-specialised program, complete with its memory map and its launch. What synchronises with what is
 * visible here, one operation per wait, arrival, fence, copy and MMA, so that codegen is a table from operation to CUDA text, the
 * printed form can be reviewed like a schedule, and a test can remove any one operation.
 *
 * Names of rings, barriers and buffers are identifiers of ours, never user text, and mean nothing: what differs has a field.
 */
import type { TargetArch } from '../instance.ts'
import type { Domain } from '../space/domain.ts'
import type { WarpMmaKind } from '../targets/sm80/mma.ts'
import type { ClusterPlan, PerCluster } from '../targets/tensor_core/cluster.ts'
import type { AccumulatorLayout } from '../targets/tensor_core/accumulators.ts'
import type { KernelLaunch } from './launch.ts'
import type { EpilogueOp } from './pipe_epilogue.ts'
import type { AtomLoad, AtomWrite, CopyTile, FindRows, Gather, ScaleLoad, TmaLoad } from './pipe_loads.ts'
import type {
  AddPart,
  CopyAtoms,
  FillColumns,
  FragmentSource,
  Mma,
  PartRegisters,
  PartScales,
  SettleRows,
  WarpgroupMma,
} from './pipe_mma.ts'
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
  /** From one slot to the next: others lie between them. Absent: the bytes of a slot. */
  readonly pitch?: number
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
  /** First column of the sums of parts, which the epilogue reads; null: it reads the accumulators of the MMAs. */
  readonly sums: number | null
  /** Of a row of these sums, how many columns are in registers while they are added up; the others stay where they are. Absent: all. */
  readonly inRegisters?: number
  readonly slotOffset: number
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
  readonly cells: 'f32' | 'i32' | 'f16' | 'f64'
  /** An MMA multiplies the columns of all products, whose cells of a block of rows lie side by side. */
  readonly joint?: boolean
  /** MMAs add up parts of a stage by themselves, which are then scaled and added to the cells; absent: MMAs add to the cells. */
  readonly parts?: PartRegisters
  /** Warps along k, each with its steps of every stage, on the same part of the tile; absent: one. */
  readonly deep?: number
  /** Warpgroups on one tile: its blocks of rows go to them in turn. */
  readonly together: number
  /** CTAs of an SM that registers are to suffice for; absent: one. */
  readonly perSm?: number
}

/** Products that an MMA multiplies. */
export const productsOfMma = ({ joint, products }: RegisterPlan): number => (joint ? products : 1)

/** Where a wait or arrival stands in its ring: consumers wait for the current phase, producers for the one before. */
export type Parity = 'consumer' | 'producer'

/** CTAs of a cluster that a commit signals. */
export type CommitTarget = 'cta' | 'pair' | 'producers'
/** `leader`: the even CTA of a pair, which issues its MMAs; `first`: CTA 0 of the cluster. */
export type ArriveTarget = 'cta' | 'leader' | 'first'

/** Who finishes a tile whose parts wait for each other: the last one, with the totals of all shares, or each its share, sub-tile by sub-tile. */
export type Meeting = 'last' | 'each'

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
  /** Directly in the body of `for_tiles`: the origin of the next tile, which its turn then does not begin with. `underMmas`: `origin_in_last_k` finds it. */
  | { readonly op: 'next_origin'; readonly underMmas?: true }
  /** Of the next tile, in the last k tile, while MMAs run. */
  | { readonly op: 'origin_in_last_k' }
  /** Until the cluster has no more work: the scheduler's loop. */
  | { readonly op: 'while_work'; readonly body: readonly TileOp[] }
  /** Once for every slot of a ring, `but` for the last ones. */
  | { readonly op: 'for_slots'; readonly ring: string; readonly but: number; readonly body: readonly TileOp[] }
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
  /** This many threads, those of the first role or of one of its warpgroups that take turns, meet and see what each of them wrote before. */
  | { readonly op: 'role_sync'; readonly threads: number }
  /** The same of the threads of a warpgroup. */
  | { readonly op: 'warpgroup_sync' }
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
  /** In one k tile, each warp in another. */
  | { readonly op: 'in_own_k'; readonly body: readonly TileOp[] }
  /** Except in the first k tile. */
  | { readonly op: 'after_first_k'; readonly body: readonly TileOp[] }
  /** Registers of each thread of this warpgroup from here on (setmaxnreg). */
  | { readonly op: 'set_registers'; readonly count: number; readonly change: 'more' | 'fewer' }
  /** Only in the first warp of the role, one thread. */
  | { readonly op: 'one_thread'; readonly body: readonly TileOp[] }
  /** Only in the first warp of the role, all of its threads. */
  | { readonly op: 'first_warp'; readonly body: readonly TileOp[] }
  /** One thread of each warp behind the role's first (`whole`: all of its threads), as many as there are consumer warpgroups: each serves one of them, in its turns. */
  | { readonly op: 'for_warpgroups'; readonly whole?: true; readonly body: readonly TileOp[] }
  /** Ends of groups that decrease or leave the axis of rows are findings. */
  | { readonly op: 'check_groups' }
  /** The k tiles of a tile that another warpgroup computes, and `behind` steps more: the rings move on without it. */
  | {
      readonly op: 'skip_tile'
      readonly rings: readonly string[]
      readonly unless: 'first' | null
      readonly behind: number
    }
  /** Until the other warpgroup has seen all stages of its tile: a wait two phases early would pass at once. */
  | { readonly op: 'wait_turn'; readonly barrier: string }
  | { readonly op: 'pass_turn'; readonly barrier: string }
  /** The sums of the cluster's CTAs over their shares of k, added in the order of the CTAs, to the registers of this CTA's columns. */
  | { readonly op: 'add_sums'; readonly buffer: string; readonly threads: number }
  /** The accumulators of this part of k to the workspace: each thread its own. */
  | { readonly op: 'store_part' }
  /**
   * Counts the part of the tile that this many threads have stored, behind the last `role_sync`; what follows is for those alone who come
   * last, and see what all parts have stored. Nobody waits for another part.
   */
  | { readonly op: 'last_part'; readonly threads: number; readonly body: readonly TileOp[] }
  /**
   * Where all parts run at once (LaunchRecipe, grid.meets): waits until those of the tile have stored. What this many threads have stored is behind the last
   * `role_sync`. If the last one `finishes` the tile, each sums a share of it in the place of the first part, which has the totals behind this; if each does,
   * `last_part` is for all of them, `add_parts` and `for_subtiles` for their own sub-tiles.
   */
  | { readonly op: 'meet_parts'; readonly threads: number; readonly finishes: Meeting }
  /** Adds the sums of all parts to the accumulators, in the order of the parts; or what `meet_parts` left. */
  | { readonly op: 'add_parts' }
  /** Those of warps behind the first along k to shared memory. */
  | { readonly op: 'leave_cells'; readonly buffer: string }
  /** For the first warps along k alone. */
  | { readonly op: 'first_along_k'; readonly body: readonly TileOp[] }
  /** Adds what the others have left, in their order, to the accumulators. */
  | { readonly op: 'add_cells'; readonly buffer: string }
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
  | FindRows
  | ScaleLoad
  | AtomLoad
  | AtomWrite
  | CopyAtoms
  | FillColumns
  /** An arrival of every thread once its copies so far have landed (cp.async.mbarrier.arrive.noinc). */
  | { readonly op: 'arrive_copied'; readonly barrier: string }
  /** By the last warp of the role. */
  | { readonly op: 'last_warp'; readonly body: readonly TileOp[] }
  /** The scales of this part to registers. */
  | (PartScales & { readonly op: 'part_scales' })
  /** Adds the part, times its scales, to the accumulators. */
  | (PartScales & { readonly op: 'promote' })
  | AddPart
  /** The cells of this lane's row to tensor memory, for the epilogue; complete on return. */
  | { readonly op: 'park_cells' }
  /** All copies of this thread since the last one form a group. */
  | { readonly op: 'copy_commit' }
  /** Until at most `pending` groups of this thread are under way. */
  | { readonly op: 'copy_wait'; readonly pending: number }
  /** For the first `count` k tiles. */
  | { readonly op: 'for_first_k'; readonly count: number; readonly body: readonly TileOp[] }
  /** For the k tile that is `by` after this one, if it exists. */
  | { readonly op: 'ahead'; readonly by: number; readonly body: readonly TileOp[] }
  | { readonly op: 'zero_cells' }
  | SettleRows
  /** Fragments of k step `step` of the stage, into set `set` of two. */
  | (FragmentSource & { readonly op: 'load_fragments'; readonly step: number; readonly set: 0 | 1 })
  /**
   * mma.sync of each block of 16 rows with each 8 columns, from the fragments of a set. `chunk`: of k, which is summed by itself, from nothing
   * (`begins`) or to its sums so far; null: added to the accumulators.
   */
  | {
      readonly op: 'mma_sync'
      readonly kind: WarpMmaKind
      readonly set: 0 | 1
      readonly chunk: 'begins' | 'goes on' | null
    }
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
  for_tiles: true, while_work: true, for_slots: true, for_k: true, for_first_k: true, ahead: true, in_own_k: true, after_first_k: true, for_row_blocks: true,
  for_blocks: true, for_subtiles: true, for_staged: true, after_first_staged: true, elected: true, one_thread: true, first_warp: true, for_warpgroups: true, leader: true,
  first_cta: true, lane0: true, last_warp: true, last_subtile: true, before_next_tile: true, last_part: true, first_along_k: true,
} // prettier-ignore

/** Warpgroups that take turns over the tiles; 1: all work on each. */
export const turnsOf = ({ roles }: Pick<TileProgram, 'roles'>): number => {
  const tiles = roles[0]!.body.find((op) => op.op === 'for_tiles')
  return (tiles?.op === 'for_tiles' ? tiles.turns : undefined) ?? 1
}

/** Consumer warpgroups: those that work together on a tile, or take turns. */
export const warpgroupsOf = ({ roles }: Pick<TileProgram, 'roles'>): number => Math.ceil(roles[0]!.warps / 4)

/** Registers that a role sets for each of its threads; null: it has those of the launch. */
export function registersSet({ body }: Pick<Role, 'body'>): number | null {
  const set = body.find((op) => op.op === 'set_registers')
  return set?.op === 'set_registers' ? set.count : null
}

/** Warps that are the first along k: those that finish a tile. */
export const firstAlongK = ({ roles, registers }: Pick<TileProgram, 'roles' | 'registers'>): number =>
  roles[0]!.warps / (registers?.deep ?? 1)

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

/** Operations of a body, and of the bodies in it. */
export const walkedOps = (ops: readonly TileOp[]): TileOp[] => [...walkTileOps(ops)].map(([op]) => op)

/** All operations of a program. */
export function* opsOf({ setup, roles, teardown }: TileProgram): Generator<TileOp> {
  for (const { body } of [...setup, ...roles, ...teardown]) for (const [op] of walkTileOps(body)) yield op
}
