/** The reference value of a contraction: summed in f64, rounded once to the accumulator's type; and its bounds. */
import { decode, encode } from '../codec.ts'
import type { Accumulator, SumPrecision } from '../dtypes.ts'
import { errorBounds } from './contract_bounds.ts'
import { sumProducts, type ContractionPair } from './products.ts'

export interface ContractionResult {
  /** [batch, rows of a, rows of b] */
  readonly values: Float64Array | Float32Array | Int32Array
  /** Absolute bounds of the same shape; null: every element is exact. */
  readonly errors: Float32Array | null
}

/** The sum over all terms of a times b over their depth. `precision`: of the machine (contract_bounds.ts); null: no bounds are wanted. */
export function contract(
  pairs: readonly ContractionPair[],
  accumulator: Accumulator,
  precision: SumPrecision | null,
): ContractionResult {
  const values = sumProducts(pairs, (length) => resultArray(accumulator, length))
  const errors = precision === null || accumulator === 'i32' ? null : errorBounds(pairs, accumulator, precision, values)
  return { values: accumulator === 'f16' ? (decode('f16', encode('f16', values)) as Float32Array) : values, errors }
}

function resultArray(accumulator: Accumulator, length: number): Float64Array | Float32Array | Int32Array {
  if (accumulator === 'f64') return new Float64Array(length)
  // Assignment to an Int32Array wraps, as the machine does.
  return accumulator === 'i32' ? new Int32Array(length) : new Float32Array(length)
}
