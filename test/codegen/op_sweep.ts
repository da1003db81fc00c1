/**
 * Sweep of every float function over its whole range, as data: programs whose outputs are the functions of x, inputs
 * that reach every binade and the places where a function changes its method, and the accuracy that the operation
 * table promises. Device tests run them on any device.
 */
import { convertCompute, OPERATIONS, REFERENCE_ERROR, ulp, type Operation } from '../../compiler/ops.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { FULL } from '../cases_of.ts'
import { ProgramBuilder } from './programs.ts'

export interface OpSweepCase {
  readonly type: 'f32' | 'f64'
  readonly accuracy: 'default' | 'approx'
  /** Input `x`[i]; output `y_NAME` for each operation of one argument (others at their defaults). */
  readonly program: TensorProgram
  readonly operations: readonly Operation[]
  readonly inputs: Float64Array
}

const functions = [...OPERATIONS.values()].filter(
  (op) =>
    (op.rule === 'float' || op.rule === 'order') &&
    op.name !== 'skip0' &&
    op.parameters.slice(1).every((p) => p.default !== null),
)

/** Both signs of every fourth of binades (of every `step`th) from 2^-low to 2^high, and `count` seeded points on each scale. */
function sweepInputs(type: 'f32' | 'f64', low: number, high: number, count: number, step = 1): Float64Array {
  const points = [0, -0, Infinity, -Infinity, NaN]
  for (let e = -low; e < high; e += step) for (const f of [1, 1.25, 1.5, 1.999]) points.push(f * 2 ** e, -f * 2 ** e)
  // The floats nearest to a multiple of pi/2 (f32, f64), and where sin and cos change their reduction.
  points.push(16367173 * 2 ** 72, 6381956970095103 * 2 ** 797, 32767.998, 32768, 355, 710)
  let seed = 12345
  const random = (): number => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32 - 0.5
  for (let i = 0; i < count; i++) for (const range of [2, 8, 40, 230, 1500]) points.push(random() * range)
  return Float64Array.from(points, (x) => (type === 'f32' ? Math.fround(x) : x))
}

function sweep(type: 'f32' | 'f64', accuracy: OpSweepCase['accuracy'], operations: readonly Operation[]): OpSweepCase {
  const p = new ProgramBuilder(['i'], { x: { dtype: type, axes: ['i'] } })
  const outputs = operations.map((op) => {
    const rest = op.parameters.slice(1).map((parameter) => p.constant(parameter.default!, type))
    return [`y_${op.name}`, { dtype: type, axes: ['i'], value: p.apply(op.name, p.input('x'), ...rest) }] as const
  })
  return {
    type,
    accuracy,
    operations,
    program: p.program(`sweep_${type}_${accuracy}`, Object.fromEntries(outputs), accuracy),
    inputs:
      type === 'f32'
        ? sweepInputs('f32', 149, 128, 600)
        : sweepInputs('f64', 1000, 1000, FULL ? 400 : 200, FULL ? 1 : 5),
  }
}

export const opSweepCases: readonly OpSweepCase[] = [
  sweep('f32', 'default', functions),
  sweep('f64', 'default', functions),
  sweep('f32', 'approx', functions.filter((op) => op.approx)), // prettier-ignore
]

/** f(x) of the reference with the default parameters. */
export function reference(op: Operation, type: 'f32' | 'f64', x: number): number {
  return op.evaluate(type, x, ...op.parameters.slice(1).map((p) => convertCompute(p.default!, type)))
}

/**
 * How many times the promised error (and the reference's own) `got` is away from the reference; at most 1 is right.
 */
export function sweepError(op: Operation, { type, accuracy }: OpSweepCase, x: number, got: number): number {
  const expected = reference(op, type, x)
  if (Object.is(got, expected) || (got === expected && got !== 0)) return 0
  if (got === 0 && expected === 0) return Infinity
  if (Number.isNaN(got) || Number.isNaN(expected)) return Infinity
  if (accuracy === 'approx') {
    if (Math.abs(expected) > 3.3e38 && Math.abs(got) > 3.3e38) return 0
    return Math.abs(got - expected) / (op.approx!.relativeError * Math.abs(expected) + 2 ** -118)
  }
  if (op.accuracy === 'exact' || op.accuracy === 'rounded') return Infinity
  const limit = op.accuracy[type] + REFERENCE_ERROR[type]
  return Math.abs(got - expected) / (limit * ulp(type, expected))
}
