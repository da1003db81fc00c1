/**
 * Reductions in the reference: combined in index order. A kernel combines per-tile partial results, so a sum of
 * floats has the bound of any order, n · 2^-23 · sum |x| (f64: 2^-52); sums of integers below 2^24 are exact.
 */
import { operation, REDUCTIONS } from '../ops.ts'
import type { ReduceNode } from '../ir/tensor.ts'
import type { Row } from './tape.ts'

export interface ReductionState {
  /** Result and bound of the elements seen since the last call. */
  finish(): { value: number; error: number }
  add(value: number, error: number): void
}

export function startReduction(node: ReduceNode, count: number): ReductionState {
  const { combine, identity } = REDUCTIONS[node.fn]
  const { type } = node
  const evaluate = operation(combine).evaluate
  const float = type === 'f32' || type === 'f64'
  const unit = type === 'f64' ? 2 ** -52 : 2 ** -23
  let value = identity(type)
  let errors = 0
  let worst = 0
  let magnitude = 0
  let integers = true
  return {
    add(x, error) {
      value = evaluate(type, value, x)
      errors += error
      worst = Math.max(worst, error)
      magnitude += Math.abs(x)
      integers &&= Number.isInteger(x)
    },
    finish() {
      let result = value
      let error = combine === 'add' ? errors : worst
      if (combine === 'add' && float && !(integers && magnitude < 1 / unit))
        error += count * unit * (magnitude + errors)
      if (node.fn === 'mean') {
        result = operation('div').evaluate(type, value, count)
        error = error / count + (error === 0 ? 0 : unit * Math.abs(result))
      }
      value = identity(type)
      errors = worst = magnitude = 0
      integers = true
      return { value: result, error }
    },
  }
}

export function reduceRow(state: ReductionState, { values, errors }: Row): void {
  for (let j = 0; j < values.length; j++) state.add(values[j]!, errors[j]!)
}
