/** The analytic cost model that orders kernels: what is common to the backends. It estimates; it never decides what is right. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import { operation } from '../../../compiler/ops.ts'
import { repackedOf } from '../../../compiler/ir/repack.ts'
import type { TensorOperand, TensorProgram } from '../../../compiler/ir/tensor.ts'
import { topological } from '../../../compiler/ir/walk.ts'
import { partsAtOnce, UNDER_WAY } from '../../../compiler/targets/tensor_core/exchange.ts'
import type { ExchangePlan } from '../../../compiler/targets/tensor_core/plan.ts'
import type { Machine } from './machine.ts'

/** What a kernel is ranked by. */
export interface Estimate {
  /** Modelled, never measured. */
  readonly microseconds: number
  /** What the time goes into. */
  readonly boundBy: 'mma' | 'loads' | 'epilogue' | 'dram' | 'l2' | 'cuda cores' | 'launch'
  /** One line for people. */
  readonly text: string
}

export type Extents = Readonly<Record<string, number>>

/** Costs of plans of one program on one machine. */
export interface Costs {
  /** Modelled microseconds of every plan, into `times` from `at` on. */
  fill(extents: Extents, times: Float64Array, at: number): void
  /** Of one plan, with its reason. */
  estimate(i: number, extents: Extents): Estimate
}

/**
 * What a kernel that would cut tiles into so many parts of k, and has none to cut, takes of the time of the one without: stated, so that those who
 * try the first few kernels try different ones.
 */
export const behindPlain = (parts: number): number => (parts > 1 ? 1.1 : 1)

/** Rounds of loads in which a thread adds the sums of all parts, at least one for each 16 vectors. */
export const roundsOf = ({ parts, cells }: ExchangePlan): number =>
  (parts / partsAtOnce(parts, cells / 4)) * Math.ceil(cells / 4 / UNDER_WAY)

/** Costs that are worked out plan by plan. */
export const costOfEach =
  <P>(estimate: (plan: P, extents: Extents, machine: Machine) => Estimate) =>
  (plans: readonly P[], machine: Machine): Costs => ({
    fill: (extents, times, at) =>
      plans.forEach((plan, i) => (times[at + i] = estimate(plan, extents, machine).microseconds)),
    estimate: (i, extents) => estimate(plans[i]!, extents, machine),
  })

const CYCLES = { instruction: 1.5, function: 14 } as const

/** Of a warp, for one element of each lane. */
export const cyclesOf = (op: string): number => CYCLES[operation(op).cost]

/** Of one element, by program: it does not depend on the call. */
const arithmetic = new WeakMap<TensorProgram, number>()

/** Cycles of a warp for the elementwise operations of one element. */
export function arithmeticCycles(program: TensorProgram): number {
  const known = arithmetic.get(program)
  if (known !== undefined) return known
  let cycles = 0
  for (const node of topological(program.outputs.map((output) => output.value))) {
    if (node.kind === 'apply') cycles += cyclesOf(node.op)
  }
  arithmetic.set(program, cycles)
  return cycles
}

/** Bytes that have to cross DRAM once: every operand, read or written. */
export function trafficBytes(program: TensorProgram, extents: Extents): number {
  return program.operands.reduce((sum, operand) => {
    return operand.computed || operand.half ? sum : sum + bytesOf(operand, extents)
  }, 0)
}

/** The same, and what earlier work has left in L2, which goes to DRAM to make room. */
export const movedBytes = (program: TensorProgram, extents: Extents, machine: Machine): number =>
  withDirty(trafficBytes(program, extents), machine)

export const withDirty = (bytes: number, { dirtyBytes }: Machine): number => bytes + Math.min(bytes, dirtyBytes)

/**
 * Lines of L2 that hold the end of one tile's row and the beginning of the next one's are written by two SMs: of outputs that L2 does not hold, each end
 * costs what DRAM could have written of so many bytes. To 6 times on an H100: 49488x7410x2 takes 585 us in rows of 128 columns, 478 of 256, 424 of 512.
 */
const ROW_END_BYTES = 217

/** Of outputs whose rows begin anywhere, in tiles of so many columns along `inner`. */
export function rowEndBytes(
  outputs: readonly TensorOperand[],
  inner: string,
  columns: number,
  extents: Extents,
  machine: Machine,
): number {
  const tiles = Math.ceil((extents[inner] ?? 1) / columns)
  return tiles <= 1 ? 0 : tiles * tileEndBytes(outputs, inner, extents, machine)
}

/** Of the ends that all rows have in one of several tiles along `inner`. */
export function tileEndBytes(
  outputs: readonly TensorOperand[],
  inner: string,
  extents: Extents,
  { dirtyBytes }: Machine,
): number {
  return outputs.reduce((sum, operand) => {
    if (operand.divisibility !== 'element' || operand.order.at(-1) !== inner) return sum
    const rowBytes = ((extents[inner] ?? 1) * DTYPES[operand.dtype].bits) / 8
    return sum + (ROW_END_BYTES * Math.max(0, bytesOf(operand, extents) - dirtyBytes)) / rowBytes
  }, 0)
}

/** Of all elements of an operand: of scales, one for each block. */
export function bytesOf({ axes, blocks, dtype }: TensorOperand, extents: Extents): number {
  const count = (axis: string, i: number): number => Math.ceil((extents[axis] ?? 1) / (blocks?.[i] ?? 1))
  return (axes.reduce((product, axis, i) => product * count(axis, i), 1) * DTYPES[dtype].bits) / 8
}

/** Of a launch before another one on a stream: modelled, not measured. */
const LAUNCH_MICROSECONDS = 2.5

/** Microseconds for copies of operands with aligned rows, made by a launch of its own: each is read and written once. */
export function repackTime(program: TensorProgram, extents: Extents, { dramBytes, clock }: Machine): number {
  const repacked = repackedOf(program)
  if (repacked.length === 0) return 0
  const bytes = repacked.reduce((sum, operand) => sum + bytesOf(operand, extents), 0)
  return LAUNCH_MICROSECONDS + ((2 * bytes) / (dramBytes * clock)) * 1e6
}

export function formatTime(microseconds: number): string {
  if (microseconds < 1000) return `${microseconds.toPrecision(3)} µs`
  if (microseconds < 1e6) return `${(microseconds / 1000).toPrecision(3)} ms`
  return `${(microseconds / 1e6).toPrecision(3)} s`
}
