/** What stores of the reference work on, and what they give. */
import type { DecodedArray } from '../codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { Node, TensorOperand, TensorProgram } from '../ir/tensor.ts'
import type { Report } from './findings.ts'
import type { Box, Groups } from './groups.ts'
import { extentIn, iota, outerSum, type EvaluationInputs, type Selection } from './inputs.ts'
import type { Places } from './place.ts'
import type { Row } from './tape.ts'

export interface OutputValues {
  readonly dtype: DTypeName
  readonly shape: readonly number[]
  /** Decoded values, dense, in logical order. */
  readonly data: DecodedArray
}

export interface BoundedValues extends OutputValues {
  /** How far a correct result may be from each value; null: all are exact. */
  readonly bounds: Float64Array | null
  /** Scales of a quantised output: the least and the largest one that are right, in place of bounds. */
  readonly range?: { readonly low: Float32Array; readonly high: Float32Array }
  /** Data of a quantised output: what is right depends on the scale that was stored. In place of bounds. */
  readonly quantised?: QuantisedBounds
}

export interface OutputContext {
  readonly program: TensorProgram
  readonly inputs: EvaluationInputs
  readonly selection: Selection
  readonly places: Places
  readonly groups: Groups
  readonly bounds: boolean
  readonly report: Report
  readonly forEachRow: (
    roots: readonly Node[],
    axes: readonly string[],
    box: Box,
    visit: (rows: readonly Row[], index: number) => void,
  ) => void
}

/** The value of an output before any rounding, at each selected position of its operand, dense. */
export interface Unrounded {
  readonly operand: TensorOperand
  readonly values: Float32Array | Float64Array
  readonly errors: Float64Array | null
  /** 1: stored; null: everything is. */
  readonly written: Uint8Array | null
  readonly shape: readonly number[]
}

export interface QuantisedBounds {
  /** Operand of the scales; null: there is none, and every scale is 1. */
  readonly scale: string | null
  /** The block of each datum. */
  readonly blockOf: Int32Array
  /** The least and the largest datum that are right beside this scale. */
  readonly allowed: (i: number, scale: number) => readonly [low: number, high: number]
}

/** Puts back what an operand of this shape held where nothing was written: 0 where nothing is known. */
export function keepInitial(
  data: DecodedArray,
  operand: TensorOperand,
  shape: readonly number[],
  written: Uint8Array | null,
  { program, inputs, selection }: OutputContext,
): void {
  if (!written) return
  const initial = inputs.tensors[operand.name]
  const extents = operand.axes.map((_, i) => extentIn(operand, i, program, inputs.extents))
  // An operand that holds selected indices only is a part of what was given.
  let stride = 1
  const tables = extents.map(() => new Int32Array())
  for (let i = extents.length - 1; i >= 0; i--) {
    const indices = shape[i] === extents[i] ? iota(extents[i]!) : selection.get(operand.axes[i]!)!
    tables[i] = indices.map((index) => index * stride)
    stride *= extents[i]!
  }
  if (initial && initial.data.length !== stride)
    throw new Error(`${operand.name}: ${initial.data.length} values for shape [${extents}]`)
  const offsets = outerSum(tables)
  for (let i = 0; i < data.length; i++) if (written[i] === 0) data[i] = initial?.data[offsets[i]!] ?? 0
}
