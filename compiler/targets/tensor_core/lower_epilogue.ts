/** What the epilogue programs of all tensor-core backends are made of: operands in, results, sub-tile by sub-tile, and out. */
import type { TileOp } from '../../ir/pipe.ts'
import type { AuxLoad, StoreOp } from '../../ir/pipe_epilogue.ts'
import { guardOf, operandsOf } from '../../ir/walk.ts'
import {
  byMatrices,
  measuredOutputs,
  quantisedOutputs,
  valuesOf,
  type EpiloguePlan,
  type OutputPlan,
} from './epilogue.ts'
import { mapName } from './plan.ts'
import type { ReductionPlan } from './reduction.ts'

/** An operand that others bring to shared memory: where from it is loaded, what that waits for, and what follows. */
export interface Brought {
  readonly before: readonly TileOp[]
  readonly from: Pick<AuxLoad, 'fetched' | 'stage' | 'rows' | 'ahead'>
  readonly then: readonly TileOp[]
}

/** Loads of the operands that vary so. `ahead`: those that lie in registers. */
export function auxLoads(
  epilogue: EpiloguePlan,
  shapes: readonly string[],
  brought?: ReadonlyMap<string, Brought>,
  ahead: readonly string[] = [],
): TileOp[] {
  const values = valuesOf(epilogue)
  return epilogue.aux
    .filter(({ shape }) => shapes.includes(shape))
    .flatMap(({ operand, shape, vector, rows }): TileOp[] => {
      const bring = brought?.get(operand.name)
      const isAhead = ahead.includes(operand.name) || bring?.from.ahead !== undefined
      const load: TileOp = {
        op: 'aux_load',
        operand: operand.name,
        shape,
        vector: vector && !isAhead,
        ...(rows && !isAhead && { rows: { buffer: 'smem_d' } }),
        ...(isAhead && { ahead: 'tile' }),
        ...bring?.from,
        guard: guardOf(values, operand.name),
      }
      return [...(bring?.before ?? []), load, ...(bring?.then ?? [])]
    })
}

export const compute = ({ outputs, reductions }: EpiloguePlan): TileOp => ({
  op: 'compute',
  outputs: [...outputs, ...reductions].map(({ operand, value }) => ({ operand: operand.name, value })),
})

/** Buffer and ring of what warps exchange for blocks that several of them have. */
export const SHARED = { buffer: 'smem_largest', ring: 'exchange', slots: 2 } as const

export const sharesBlocks = ({ outputs }: EpiloguePlan): boolean => outputs.some(({ shared }) => shared)

/** Of a slot: a word for each column and warp. */
export const sharedBytes = ({ subtileColumns }: EpiloguePlan, threads: number): number =>
  (threads / 32) * subtileColumns * 4

/** Outputs in stored forms, before they are stored; `threads`: of the role. */
export const quantise = (epilogue: EpiloguePlan, threads: number): TileOp[] => {
  const measured = measuredOutputs(epilogue)
  return quantisedOutputs(epilogue).flatMap((output): TileOp[] => {
    const { operand, block, shared } = output
    const op: TileOp = {
      op: 'quantise',
      operand: operand.name,
      along: block!.along,
      block: block!.size,
      shared: shared ? SHARED.buffer : null,
      ...(measured.includes(output) && { measured: true }),
      form: operand.stored!,
    }
    if (!shared) return [op]
    // The slot before is read meanwhile: one meeting is enough.
    return [
      { op: 'share_largest', operand: operand.name, buffer: SHARED.buffer },
      { op: 'role_sync', threads },
      op,
      { op: 'advance', ring: SHARED.ring },
    ]
  })
}

/** How the values of a sub-tile come about, and what becomes of them. */
export interface Subtile {
  /** Loads of operands that vary so. */
  readonly loads: readonly TileOp[]
  /** Cells of the accumulators. */
  readonly take: TileOp
  /** Where there is nothing more to take. */
  readonly taken?: readonly TileOp[]
  /** What follows the values. */
  readonly then: readonly TileOp[]
}

/**
 * All sub-tiles of a warp. Blocks that are wider are seen as a whole first: their values are computed again when they are stored, and take
 * no registers in between.
 */
export function overSubtiles(epilogue: EpiloguePlan, { loads, take, taken = [], then }: Subtile): TileOp[] {
  const { measured } = epilogue
  const body: TileOp[] = [...loads, take, ...taken, compute(epilogue), ...then]
  if (measured === null) return [{ op: 'for_subtiles', body }]
  const wide = measuredOutputs(epilogue)
  const needed = operandsOf(wide.map(({ value }) => value))
  const ofWide = (op: TileOp): boolean => op.op !== 'aux_load' || needed.includes(op.operand)
  const named = wide.map(({ operand }) => operand.name)
  const measure: TileOp[] = [
    ...loads.filter(ofWide),
    take,
    { op: 'compute', outputs: wide.map(({ operand, value }) => ({ operand: operand.name, value })) },
    ...named.map((operand): TileOp => ({ op: 'measure', operand })),
  ]
  const block: TileOp[] = [
    ...named.map((operand): TileOp => ({ op: 'measure_begin', operand })),
    { op: 'for_subtiles', of: measured, body: measure },
    { op: 'for_subtiles', of: measured, body },
  ]
  return [{ op: 'for_blocks', columns: measured, body: block }]
}

/** Reductions over n, whose totals a lane keeps from sub-tile to sub-tile. */
export const totalsOf = ({ reductions }: EpiloguePlan): ReductionPlan[] => reductions.filter(({ keepsN }) => !keepsN)

export const reduce = (
  op: 'reduce_begin' | 'reduce_subtile' | 'reduce_end',
  reductions: readonly ReductionPlan[],
): TileOp[] => reductions.map(({ operand }) => ({ op, operand: operand.name }))

/** Do sub-tiles beyond n not come about? What TMA moves and what is reduced takes turns that each has to keep, and some rows leave with the last one. */
export const stopsAtN = ({ reductions, aux, outputs }: EpiloguePlan): boolean =>
  reductions.length === 0 &&
  aux.every(({ fetch }) => !fetch) &&
  outputs.every(({ store, dense }) => store !== 'tma' && !dense)

/** The epilogue of fragments in registers: block of rows by block, sub-tile by sub-tile. */
export function fragmentEpilogue(
  epilogue: EpiloguePlan,
  loads: (shapes: readonly string[]) => TileOp[],
  from: Extract<TileOp, { op: 'take_cells' }>['from'],
  stores: readonly TileOp[],
  threads: number,
): TileOp[] {
  const subtile: Subtile = {
    loads: [...(stopsAtN(epilogue) ? [{ op: 'stop_at_n' } as const] : []), ...loads(['full', 'row'])],
    take: { op: 'take_cells', from },
    then: [...quantise(epilogue, threads), ...stores, ...reduce('reduce_subtile', epilogue.reductions)],
  }
  const body: TileOp[] = [
    { op: 'own_row', lane: true },
    ...loads(['column']),
    ...reduce('reduce_begin', totalsOf(epilogue)),
    ...overSubtiles(epilogue, subtile),
    ...reduce('reduce_end', totalsOf(epilogue)),
  ]
  return [...loads(['uniform']), { op: 'for_row_blocks', body }]
}

/** Where staged sub-tiles wait for TMA: a ring of slots of each warp, or of each warpgroup. */
export interface Staging {
  readonly buffer: string
  readonly ring: string
  /** How a slot becomes free; null: all slots are. */
  readonly free: TileOp | null
  /** Who issues the store: this warp, or one that waits for the sub-tiles of a whole warpgroup. */
  readonly issue: 'here' | { readonly arriveOn: string }
}

/** Stores of this warp that may still be reading their slots when the next one is written. */
export const freeBehind = (pending: number): TileOp => ({ op: 'lane0', body: [{ op: 'bulk_wait_read', pending }] })

export function tmaStores(epilogue: EpiloguePlan, { buffer, ring, free, issue }: Staging): TileOp[] {
  let staged = 0
  return epilogue.outputs.flatMap((output): TileOp[] => {
    const store = storeOf(output)
    const matrices = byMatrices(output, epilogue.layout.held, epilogue.subtileColumns)
    if (output.store === 'direct') return [directStore(output)]
    if (output.store === 'rows') return rowStores(output, buffer, matrices)
    const map = mapName(staged++)
    const send: TileOp[] =
      issue === 'here'
        ? [
            { op: 'tma_store', map, buffer, operand: store.operand, contiguous: store.contiguous },
            { op: 'bulk_commit' },
          ]
        : [{ op: 'arrive', barrier: issue.arriveOn, at: 'cta' }]
    return [
      ...(free === null ? [] : [free]),
      { op: 'warp_sync' },
      { op: 'stage_write', buffer, swizzle: output.swizzle, matrices, ...store },
      { op: 'proxy_fence' },
      { op: 'warp_sync' },
      { op: 'lane0', body: send },
      { op: 'advance', ring },
    ]
  })
}

/** Through shared memory, of which the warp has read all when it writes there again. */
export function rowStores(output: OutputPlan, buffer: string, matrices: boolean): TileOp[] {
  const { swizzle, carry, dense } = output
  const store = { ...storeOf(output), ...(carry !== null && { carry }), ...(dense && { dense }) }
  return [
    { op: 'stage_write', buffer, swizzle, matrices, ...store },
    { op: 'warp_sync' },
    { op: 'row_store', buffer, swizzle, ...store },
    { op: 'warp_sync' },
  ]
}

export const directStore = ({ operand, places }: OutputPlan): TileOp => ({
  op: 'direct_store',
  operand: operand.name,
  ...(places && { places }),
})

export const storeOf = ({ operand, elementBytes, contiguous }: OutputPlan): StoreOp => ({
  operand: operand.name,
  bytes: elementBytes,
  contiguous,
})
