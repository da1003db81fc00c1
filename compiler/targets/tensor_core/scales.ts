/**
 * Planning scales in blocks of k: sums over a *chunk* of k, along which no scale changes, are multiplied and added to the accumulators
 * in f32. Scales go through the ring of stages beside their operands, one for each group of rows or columns and each chunk.
 */
import { freeAxis, inParts, type Matmul } from '../../classes/matmul.ts'
import { DTYPES } from '../../dtypes.ts'
import type { Rejection } from '../../instance.ts'
import type { ScaleLayout, ScaleSource } from '../../ir/pipe_loads.ts'
import type { PartScales } from '../../ir/pipe_mma.ts'
import type { TensorOperand, TensorProgram } from '../../ir/tensor.ts'
import { operandNamed } from '../../ir/walk.ts'
import { rejection } from '../../rejection.ts'
import { blockOf } from '../../stored/blocks.ts'
import { inTiles } from '../../stored/tiles.ts'

export interface ScalePlan {
  readonly operand: TensorOperand
  readonly free: 'm' | 'n'
  readonly buffer: string
  readonly slotBytes: number
  readonly layout: ScaleLayout
  /** By asynchronous copies, which move 4 bytes at least. */
  readonly copies: boolean
}

/** Of A, and of the B of each product; null: it has none in blocks of k. */
export interface ScalePlans {
  readonly chunks: number
  readonly a: ScalePlan | null
  readonly b: readonly (ScalePlan | null)[]
}

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b))
/** Slots begin at multiples of it. */
const ALIGNMENT = 16

/**
 * `tile`: rows, columns and k; `step`: elements of k of one MMA; `held`: columns that a thread has side by side. Null: there are none.
 * KTL2904 for blocks that no MMA ends with.
 */
export function planScales(
  program: TensorProgram,
  gemm: Matmul,
  [rows, columns, depth]: readonly [number, number, number],
  step: number,
  held = columns,
): ScalePlans | null | Rejection {
  if (!inParts(gemm)) return null
  const [{ scales, k, outer }, ...others] = gemm.segments
  if (others.length > 0 || outer.length > 0)
    return rejection('KTL2904', { form: 'scales in blocks of a sum over several axes' })
  const named = (name: string | null): TensorOperand | null => (name === null ? null : operandNamed(program, name))
  const [a, ...b] = [scales.a, ...scales.b].map(named) as [TensorOperand | null, ...(TensorOperand | null)[]]
  if ([a, ...b].some((operand) => operand && inTiles(operand.order)))
    return rejection('KTL2904', { form: 'scales in tiles for partial sums' })
  const chunk = [a, ...b].reduce((all, operand) => (operand ? gcd(all, blockOf(operand, k) ?? depth) : all), depth)
  if (chunk % step !== 0) return rejection('KTL2904', { form: `scales in blocks of ${chunk} k, and MMAs of ${step}` })
  const chunks = depth / chunk
  const plan = (operand: TensorOperand | null, free: 'm' | 'n', buffer: string): ScalePlan | null => {
    if (!operand) return null
    const extent = free === 'm' ? rows : columns
    const group = gcd(free === 'm' ? extent : held, blockOf(operand, freeAxis(gemm, free)) ?? extent)
    const count = extent / group
    const slotBytes = Math.ceil((4 * count * chunks) / ALIGNMENT) * ALIGNMENT
    const copies = DTYPES[operand.dtype].cudaStorage === 'float'
    return { operand, free, buffer, slotBytes, layout: { group, count, chunk, chunks }, copies }
  }
  return { chunks, a: plan(a, 'm', 'scale_a'), b: b.map((operand, i) => plan(operand, 'n', `scale_b${i || ''}`)) }
}

export const scalesOf = (plans: ScalePlans | null): ScalePlan[] =>
  plans ? [plans.a, ...plans.b].flatMap((plan) => plan ?? []) : []

/** Are there scales that threads copy, and such that they write themselves, of which a copy's arrival does not tell? */
export const broughtBy = (scales: readonly ScalePlan[]): { readonly copied: boolean; readonly written: boolean } => ({
  copied: scales.some(({ copies }) => copies),
  written: scales.some(({ copies }) => !copies),
})

/** Arrivals of a warp that loads them by itself: each thread's, once its copies have landed, and one of the warp. */
export function scaleArrivals(scales: readonly ScalePlan[]): number {
  const { copied, written } = broughtBy(scales)
  return 32 * +copied + +written
}

/** No scale goes through registers of the warp that loads it. */
export const areCopied = (plans: ScalePlans): boolean => scalesOf(plans).every(({ copies }) => copies)

/** Where a part of a product finds them. */
export function partScales({ a, b }: ScalePlans, product: number): Pick<PartScales, 'a' | 'b'> {
  const source = (plan: ScalePlan | null): ScaleSource | null => plan && { buffer: plan.buffer, layout: plan.layout }
  return { a: source(a), b: source(b[product]!) }
}
