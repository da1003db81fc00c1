/** The analytic cost model that orders kernels: what is common to the backends. It estimates; it never decides what is right. */
import { operation } from '../../../compiler/ops.ts'
import type { TensorProgram } from '../../../compiler/ir/tensor.ts'
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

export function formatTime(microseconds: number): string {
  if (microseconds < 1000) return `${microseconds.toPrecision(3)} µs`
  if (microseconds < 1e6) return `${(microseconds / 1000).toPrecision(3)} ms`
  return `${(microseconds / 1e6).toPrecision(3)} s`
}
