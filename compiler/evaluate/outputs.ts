/** Stores of the reference: every position once, or scattered; then rounded or quantised. */
import { decode, encode } from '../codec.ts'
import { DTYPES } from '../dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { Node, Output } from '../ir/tensor.ts'
import { operandNamed } from '../ir/walk.ts'
import { ulp } from '../ops.ts'
import { countOf, denseStrides, extentOf } from './inputs.ts'
import { offsetsIn } from './place.ts'
import { quantiseOutput } from './quantised_output.ts'
import { keepInitial, type BoundedValues, type OutputContext, type Unrounded } from './store.ts'
import { storeBound, type Row } from './tape.ts'

/** The output of that name, and its parts. */
export function storeOutput(output: Output, context: OutputContext): Record<string, BoundedValues> {
  const unrounded = output.at ? scatter(output, output.at, context) : everyPosition(output, context)
  if (unrounded.operand.stored) return quantiseOutput(unrounded, context)
  const { operand, values, errors, written, shape } = unrounded
  const { name, dtype } = operand
  const data = decode(dtype, encode(dtype, values))
  let bounds: Float64Array | null = null
  errors?.forEach((error, i) => {
    const bound = storedBound(dtype, values[i]!, error)
    if (bound !== 0) (bounds ??= new Float64Array(errors.length))[i] = bound
  })
  keepInitial(data, operand, shape, written, context)
  return { [name]: { dtype, shape, data, bounds } }
}

function bufferFor(value: Node, dtype: DTypeName, count: number): Float32Array | Float64Array {
  const exact = dtype === 'f64' || value.type === 'f64' || value.type === 'i32' || value.type === 'u32'
  return exact ? new Float64Array(count) : new Float32Array(count)
}

/** Each position once; rows behind the last group, and padding, are not written. */
function everyPosition({ operand: name, value }: Output, context: OutputContext): Unrounded {
  const { program, selection, places, groups, bounds } = context
  const operand = operandNamed(program, name)
  const { axes, dtype } = operand
  const count = countOf(axes, selection)
  const values = bufferFor(value, dtype, count)
  const errors = bounds ? new Float64Array(count) : null
  const place = { values, errors: null, strides: denseStrides(axes, selection), selectedOnly: true }
  const boxes = groups.boxes(axes, selection)
  const written = groups.families(axes).length > 0 ? new Uint8Array(count) : null
  for (const box of boxes) {
    const offsets = offsetsIn(place, axes, box, places)
    context.forEachRow([value], axes, box, ([row], index) => {
      const at = index * row!.values.length
      for (let j = 0; j < row!.values.length; j++) {
        const offset = offsets[at + j]!
        values[offset] = row!.values[j]!
        if (errors) errors[offset] = row!.errors[j]!
        if (written) written[offset] = 1
      }
    })
  }
  return { operand, values, errors, written, shape: axes.map((axis) => selection.get(axis)!.length) }
}

/** At computed positions; outside, nothing is written. */
function scatter({ operand: name, value }: Output, at: readonly Node[], context: OutputContext): Unrounded {
  const { program, selection, groups, bounds, report, inputs } = context
  const operand = operandNamed(program, name)
  const shape = operand.axes.map((axis) => extentOf(inputs.extents, axis))
  const count = shape.reduce((product, extent) => product * extent, 1)
  const values = bufferFor(value, operand.dtype, count)
  const errors = bounds ? new Float64Array(count) : null
  const written = new Uint8Array(count)
  const varying = new Set([value, ...at].flatMap(({ axes }) => axes))
  const axes = groups.free(program.axes.flatMap(({ name }) => (varying.has(name) ? [name] : [])))
  const put = ([row, ...positions]: readonly Row[], j: number): void => {
    const index = positions.map((position) => position.values[j]!)
    if (index.some((i, axis) => i < 0 || i >= shape[axis]!)) {
      if (!index.includes(-1)) report({ kind: 'outside', operand: name, index })
      return
    }
    const offset = index.reduce((sum, i, axis) => sum * shape[axis]! + i, 0)
    const [x, error] = [row!.values[j]!, row!.errors[j]!]
    if (written[offset] === 1) report({ kind: 'duplicate', operand: name, index })
    // Any of several values may stay.
    const spread = written[offset] === 1 ? Math.abs(values[offset]! - x) + errorsAt(errors, offset) : 0
    values[offset] = x
    if (errors) errors[offset] = Math.max(error, spread)
    written[offset] = 1
  }
  for (const box of groups.boxes(axes, selection))
    context.forEachRow([value, ...at], axes, box, (rows) => {
      for (let j = 0; j < rows[0]!.values.length; j++) put(rows, j)
    })
  return { operand, values, errors, written, shape }
}

const errorsAt = (errors: Float64Array | null, i: number): number => errors?.[i] ?? 0

/** Bound of a stored element: what the error moves the rounding by, plus a unit in the last place. */
function storedBound(dtype: DTypeName, value: number, error: number): number {
  if (error === 0) return 0
  return storeBound(dtype, value, error) + unit(dtype, Math.abs(value) + error)
}

/** Distance between neighbouring values of the dtype at x: one unit in the last place; 1 for integers. */
export function unit(dtype: DTypeName, x: number): number {
  const { class: kind, mantissaBits, bias, maxFinite } = DTYPES[dtype]
  if (kind === 'int' || kind === 'bool') return 1
  if (dtype === 'f64') return ulp('f64', x)
  const exponent = Math.floor(Math.log2(Math.min(x, maxFinite) || 2 ** -1074))
  return 2 ** (Math.max(exponent, 1 - bias) - mantissaBits)
}
