/** How errors of arguments become errors of results: absolute bounds, by the shape of the function. */
import type { ComputeType } from '../ir/tensor.ts'
import type { Operation } from './operation.ts'

type Evaluate = Operation['evaluate']
type Propagate = Operation['propagate']

/** |a - b| where equal infinities and two NaNs differ by 0. */
export function distance(a: number, b: number): number {
  if (Object.is(a, b) || a === b) return 0
  const d = Math.abs(a - b)
  return Number.isNaN(d) ? (Number.isNaN(a) && Number.isNaN(b) ? 0 : Infinity) : d
}

/** A function of its first argument (the others exact parameters) that rises or falls between its turning points. */
export const piecewiseMonotone =
  (evaluate: Evaluate, ...turningPoints: number[]): Propagate =>
  (type, args, bounds) => {
    const [x, ...rest] = args as [number, ...number[]]
    const e = bounds[0]!
    const at = (v: number) => distance(evaluate(type, v, ...rest), evaluate(type, x, ...rest))
    let worst = Math.max(at(x - e), at(x + e))
    for (const p of turningPoints) if (Math.abs(p - x) < e) worst = Math.max(worst, at(p))
    return worst
  }

/** Largest change over the corners of the box of arguments: functions monotone in each argument. */
export const byCorners =
  (evaluate: Evaluate): Propagate =>
  (type, args, bounds) => {
    const centre = evaluate(type, ...args)
    let worst = 0
    for (let corner = 0; corner < 2 ** args.length; corner++) {
      const moved = args.map((a, i) => (corner & (1 << i) ? a + bounds[i]! : a - bounds[i]!))
      worst = Math.max(worst, distance(evaluate(type, ...moved), centre))
    }
    return worst
  }

export const sumOfBounds: Propagate = (_type, _args, bounds) => bounds.reduce((a, b) => a + b, 0)
export const largestBound: Propagate = (_type, _args, bounds) => Math.max(...bounds)

/** |a| eb + |b| ea + ea eb; an exact 0 absorbs anything finite. */
export function productBound(a: number, b: number, ea: number, eb: number): number {
  const term = (x: number, e: number) => (e === 0 || x === 0 ? 0 : Math.abs(x) * e)
  return term(a, eb) + term(b, ea) + term(ea, eb)
}

/** Comparisons: uncertain when the intervals touch. */
export const whenClose: Propagate = (_type, [a, b], [ea, eb]) => (Math.abs(a! - b!) <= ea! + eb! ? 1 : 0)

export const bothTypes = (f32: number, f64: number) => ({ f32, f64 })

/** Rounds a real result into the compute type (identity for f64). */
export const roundTo = (type: ComputeType, x: number): number => (type === 'f32' ? Math.fround(x) : x)
