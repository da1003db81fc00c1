/**
 * Scales in blocks of k that no MMA takes, on SM100: the MMAs of each chunk of k sum it by itself in a slot of tensor memory, and go on
 * with the next one, while the epilogue's warps multiply it by its scales and add it to sums in their registers. The sums of a whole tile
 * go back to tensor memory, where the epilogue finds them as it finds other accumulators; those that registers lack room for are there all
 * the time.
 */
import { inParts, waysOf, type Matmul } from '../../classes/matmul.ts'
import type { Rejection } from '../../instance.ts'
import type { TileOp } from '../../ir/pipe.ts'
import type { PartRegisters } from '../../ir/pipe_mma.ts'
import type { TensorProgram } from '../../ir/tensor.ts'
import { rejection } from '../../rejection.ts'
import type { Domain } from '../../space/domain.ts'
import { scaleLoads } from '../tensor_core/lower_loads.ts'
import { partScales, planScales, type ScalePlans } from '../tensor_core/scales.ts'

/** Sums in the registers of a thread; what else the loop over k holds takes the rest of them. */
const MOST_IN_REGISTERS = 128
/** The same where warps that gather take their share of the registers. */
const MOST_BESIDE_GATHER = 96
/** Registers through which sums pass that stay in tensor memory. */
const PASSING = 64
/** Parts that are summed ahead of those that add them, at most. */
const MOST_AHEAD = 4
/** Stages of scales, which the loads of so many parts keep under way. */
export const SCALE_SLOTS = 8

export interface PartPlan {
  readonly scales: ScalePlans
  readonly cells: PartRegisters['cells']
  /** Sums of a thread that are in registers while parts are added; the others are in tensor memory. */
  readonly inRegisters: number
  /** Slots of tensor memory for parts, and the first column behind them, where the sums of the tile go. */
  readonly slots: number
  readonly column: number
  /** Of tensor memory, all together. */
  readonly columns: number
}

/** Of so many sums of a thread, those that are in registers; `beside`: warps that gather. */
export function sumsInRegisters(cells: number, beside: boolean): number {
  const most = beside ? MOST_BESIDE_GATHER : MOST_IN_REGISTERS
  return cells <= most ? cells : most - PASSING
}

/**
 * `step`: elements of k of one MMA; `held`: columns of a product that a thread has; `beside`: warps that gather. Null: no scales are left to
 * multiply. KTL2904, 4520.
 */
export function planParts(
  program: TensorProgram,
  gemm: Matmul,
  tile: readonly [rows: number, columns: number, depth: number],
  step: number,
  held: number,
  isInteger: boolean,
  beside: boolean,
  limit: number,
): PartPlan | null | Rejection {
  if (!inParts(gemm)) return null
  const scales = planScales(program, gemm, tile, step, held)
  if (scales === null || 'code' in scales) return scales
  const cells = (gemm.accumulators.length / waysOf(gemm)) * held
  const slots = Math.min(MOST_AHEAD, Math.floor(limit / cells) - 1)
  if (slots < 1) return rejection('KTL4520', { columns: 2 * cells, limit })
  const column = slots * cells
  const inRegisters = sumsInRegisters(cells, beside)
  return { scales, cells: isInteger ? 's32' : 'f32', inRegisters, slots, column, columns: column + cells }
}

/** One warp loads scales ahead. */
export function scaleRole({ scales }: PartPlan, domain: Domain): TileOp[] {
  return [
    { op: 'wait', barrier: 'scales_empty', parity: 'producer' },
    ...scaleLoads(scales, domain, 'scales_full'),
    { op: 'advance', ring: 'scales' },
  ]
}

/** The chunks of a stage by the MMA thread, each into a slot of its own; who waits for the last one sees that the stage is `spent`. */
export const multiplyParts = (
  { scales: { chunks } }: PartPlan,
  multiply: (chunk: number) => TileOp,
  commit: TileOp,
  spent: TileOp,
): TileOp[] =>
  Array.from({ length: chunks }, (_, chunk): TileOp[] => [
    { op: 'wait', barrier: 'acc_empty', parity: 'producer' },
    { op: 'tcgen05_fence', when: 'after_thread_sync' },
    multiply(chunk),
    ...(chunk === chunks - 1 ? [spent] : []),
    commit,
    { op: 'advance', ring: 'acc' },
  ]).flat()

/** The sums of a tile by the epilogue's warps. `release`: a slot is free for the MMAs. */
export function addParts({ scales, cells }: PartPlan, release: readonly TileOp[]): TileOp[] {
  const { chunks, b } = scales
  const each = b.map((_, product) => partScales(scales, product))
  const add = (chunk: number): TileOp[] => [
    { op: 'wait', barrier: 'acc_full', parity: 'consumer' },
    { op: 'tcgen05_fence', when: 'after_thread_sync' },
    { op: 'add_part', chunk, of: chunks, cells, a: each[0]!.a, b: each.map((one) => one.b) },
    ...release,
    { op: 'advance', ring: 'acc' },
  ]
  const step: TileOp[] = [
    { op: 'wait', barrier: 'scales_full', parity: 'consumer' },
    ...Array.from({ length: chunks }, (_, chunk) => add(chunk)).flat(),
    // Behind the last part its warp has met: each lane has read its scales.
    { op: 'lane0', body: [{ op: 'arrive', barrier: 'scales_empty', at: 'cta' }] },
    { op: 'advance', ring: 'scales' },
  ]
  return [{ op: 'zero_cells' }, { op: 'for_k', body: step }, { op: 'park_cells' }]
}
