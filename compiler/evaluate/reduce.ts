/**
 * Reductions in the reference: sums of floats in f64, rounded once to the compute type; min, max and integers in index order.
 *
 * A kernel combines partial results of its own order, each step rounded. A sum of N floats is within (log2 N + 32) · 2^-24 · Σ|x| of the
 * exact one if it is a tree over runs of at most 32 elements (f64: 2^-53); sums of integers below 2^24 are exact. The errors of
 * the elements add up; of min and max, the largest counts.
 */
import { operation, REDUCTIONS } from '../ops.ts'
import type { ReduceNode } from '../ir/tensor.ts'

/** Partial results of `count` reductions that go on at the same time. */
export class Reductions {
  readonly #node: ReduceNode
  readonly #combine: (i: number, x: number) => void
  readonly #values: Float64Array
  readonly #counts: Float64Array
  readonly #errors: Float64Array
  readonly #magnitudes: Float64Array
  /** 1: an element that is no integer has been seen. */
  readonly #fractions: Uint8Array

  constructor(node: ReduceNode, count: number) {
    const { combine, identity } = REDUCTIONS[node.fn]
    const { type } = node
    const { evaluate } = operation(combine)
    this.#node = node
    this.#values = new Float64Array(count).fill(identity(type))
    this.#counts = new Float64Array(count)
    this.#errors = new Float64Array(count)
    this.#magnitudes = new Float64Array(count)
    this.#fractions = new Uint8Array(count)
    const values = this.#values
    this.#combine =
      combine === 'add' && type !== 'i32' && type !== 'u32'
        ? (i, x) => void (values[i]! += x)
        : (i, x) => void (values[i] = evaluate(type, values[i]!, x))
  }

  add(i: number, x: number, error: number): void {
    this.#combine(i, x)
    this.#counts[i]!++
    if (this.#node.fn === 'min' || this.#node.fn === 'max') this.#errors[i] = Math.max(this.#errors[i]!, error)
    else {
      this.#errors[i]! += error
      if (Number.isFinite(x)) this.#magnitudes[i]! += Math.abs(x)
    }
    if (!Number.isInteger(x)) this.#fractions[i] = 1
  }

  /** Results and their bounds. */
  finish(): { values: Float64Array; errors: Float64Array } {
    const { fn, type } = this.#node
    const [values, errors] = [this.#values, this.#errors]
    if (fn === 'min' || fn === 'max') return { values, errors }
    const float = type === 'f32' || type === 'f64'
    const divide = operation('div').evaluate
    for (let i = 0; i < values.length; i++) {
      const sum = type === 'f32' ? Math.fround(values[i]!) : values[i]!
      if (float) errors[i] = this.#sumBound(i, values[i]!)
      values[i] = sum
      if (fn !== 'mean') continue
      const count = this.#counts[i]!
      const mean = divide(type, sum, count)
      values[i] = mean
      if (errors[i] !== 0) errors[i] = errors[i]! / count + this.#unit * 2 * Math.abs(mean)
    }
    return { values, errors }
  }

  get #unit(): number {
    return this.#node.type === 'f64' ? 2 ** -53 : 2 ** -24
  }

  #sumBound(i: number, sum: number): number {
    const [magnitude, error] = [this.#magnitudes[i]!, this.#errors[i]!]
    const exact = this.#fractions[i] === 0 && magnitude < 0.5 / this.#unit
    // An infinite or NaN element decides the sum in every order.
    if (exact || !Number.isFinite(sum)) return error
    if (magnitude > (this.#node.type === 'f64' ? Number.MAX_VALUE : 3.4028234663852886e38)) return Infinity
    return error + (Math.log2(this.#counts[i]!) + 32) * this.#unit * (magnitude + error)
  }
}
