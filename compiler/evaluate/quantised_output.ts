/**
 * Outputs in stored forms, and what a machine may store instead that is within its error of the value.
 *
 * With e the bound of a value v, the largest magnitude of a block lies between max(|v| - e) and max(|v| + e), and the scale between the
 * scales of these two: the same one, unless a rounding boundary lies between. Given the scale that was stored, a datum is right if it lies
 * between those that v - e and v + e give with it. Both steps rise with their argument, so nothing else can come of a value within
 * its bound; where all values of a block are exact, scale and data must be equal.
 */
import { roundToDType } from '../codec.ts'
import type { TensorOperand } from '../ir/tensor.ts'
import { operandNamed } from '../ir/walk.ts'
import { amaxOf, multiplierOf, quantiseOne, scaleOf, type QuantisedForm } from '../stored/quantise.ts'
import { extentIn, iota, outerSum, scalarOf, tensorOf, type Selection } from './inputs.ts'
import { keepInitial, type BoundedValues, type OutputContext, type Unrounded } from './store.ts'
import { partTables } from './stored_values.ts'

/** The output and its scales. */
export function quantiseOutput(unrounded: Unrounded, context: OutputContext): Record<string, BoundedValues> {
  const { operand, errors, written, shape } = unrounded
  const { dtype, stored } = operand
  const values = Float32Array.from(unrounded.values)
  const part = stored!.scale === null ? null : operandNamed(context.program, stored!.scale)
  const { blockOf, scaleShape, blocks } = blocksOf(operand, part, values.length, context)
  const norms = normsOf(operand, blockOf, blocks, context)
  const form: QuantisedForm | null = part && { data: dtype, scale: part.dtype, rounding: stored!.rounding }

  // An infinity has nothing beside it.
  const errorOf = (i: number): number => (Number.isFinite(values[i]!) ? (errors?.[i] ?? 0) : 0)
  const amaxOfBlocks = (magnitude: (v: number, e: number) => number): Float32Array => {
    const amax = new Float32Array(blocks)
    values.forEach((v, i) => {
      if (written?.[i] !== 0) amax[blockOf[i]!] = amaxOf(amax[blockOf[i]!]!, magnitude(Math.abs(v), errorOf(i)))
    })
    return amax
  }
  const scalesOf = (amax: Float32Array): Float32Array =>
    amax.map((x, block) => (form ? scaleOf(form, x, norms[block]!) : 1))
  const datum = (v: number, block: number, scale: number): number =>
    quantiseOne(dtype, v, multiplierOf(scale, norms[block]!))

  const amax = amaxOfBlocks((v) => v)
  const scales = scalesOf(amax)
  const data = values.map((v, i) => (part && amax[blockOf[i]!] === 0 ? 0 : datum(v, blockOf[i]!, scales[blockOf[i]!]!)))
  keepInitial(data, operand, shape, written, context)
  const allowed = (i: number, scale: number): readonly [number, number] => {
    const block = blockOf[i]!
    const e = errorOf(i)
    if (written?.[i] === 0 || (e === 0 && scale === scales[block])) return [data[i]!, data[i]!]
    return [datum(values[i]! - e, block, scale), datum(values[i]! + e, block, scale)]
  }
  const exact = !errors || errors.every((error) => error === 0)
  const outputs: Record<string, BoundedValues> = {
    [operand.name]: {
      dtype,
      shape,
      data: decodedAs(dtype, data),
      bounds: null,
      ...(exact ? {} : { quantised: { scale: part?.name ?? null, blockOf, allowed } }),
    },
  }
  if (!part) return outputs

  const writtenBlocks = written && new Uint8Array(blocks)
  written?.forEach((on, i) => on === 1 && (writtenBlocks![blockOf[i]!] = 1))
  const kept = (of: Float32Array): Float32Array => {
    keepInitial(of, part, scaleShape, writtenBlocks, context)
    return of
  }
  const range = exact
    ? {}
    : {
        range: {
          low: kept(scalesOf(amaxOfBlocks((v, e) => Math.max(0, v - e)))),
          high: kept(scalesOf(amaxOfBlocks((v, e) => v + e))),
        },
      }
  outputs[part.name] = { dtype: part.dtype, shape: scaleShape, data: kept(scales), bounds: null, ...range }
  return outputs
}

/** The array class in which a dtype is decoded. */
const decodedAs = (dtype: TensorOperand['dtype'], values: Float32Array): BoundedValues['data'] =>
  dtype === 'i8' || dtype === 'i4'
    ? Int8Array.from(values)
    : dtype === 'u8' || dtype === 'u4'
      ? Uint8Array.from(values)
      : values

interface Blocks {
  /** The block of each datum, row-major over the shape of the scales. */
  readonly blockOf: Int32Array
  readonly scaleShape: readonly number[]
  readonly blocks: number
}

/** Scales are kept for the selected indices of an axis that is not in blocks, else for all blocks. Without scales a datum is its own block. */
function blocksOf(operand: TensorOperand, part: TensorOperand | null, count: number, context: OutputContext): Blocks {
  const { program, inputs, selection, groups } = context
  if (!part) return { blockOf: iota(count), scaleShape: [], blocks: count }
  const whole = (axis: string): boolean => (part.blocks?.[part.axes.indexOf(axis)] ?? 1) === 1
  const scaleShape = part.axes.map((axis, i) =>
    whole(axis) ? selection.get(axis)!.length : extentIn(part, i, program, inputs.extents),
  )
  const strides = new Map<string, number>()
  let blocks = 1
  for (let i = part.axes.length - 1; i >= 0; i--) {
    strides.set(part.axes[i]!, blocks)
    blocks *= scaleShape[i]!
  }
  const places = (axis: string): Int32Array => indicesIn(axis, part, selection)
  return { blockOf: outerSum(partTables(part, strides, operand.axes, places, groups)), scaleShape, blocks }
}

/** Along an axis that is not in blocks, a scale is kept for selected indices only, so places count. */
function indicesIn(axis: string, part: TensorOperand, selection: Selection): Int32Array {
  const i = part.axes.indexOf(axis)
  const indices = selection.get(axis)!
  return i >= 0 && (part.blocks?.[i] ?? 1) === 1 ? iota(indices.length) : indices
}

/** What largest magnitudes are multiplied by before they become scales, for each block: 1 without a global scale. */
function normsOf(operand: TensorOperand, blockOf: Int32Array, blocks: number, context: OutputContext): Float32Array {
  const { program, inputs, groups, selection } = context
  const { global, norm } = operand.stored!
  const norms = new Float32Array(blocks).fill(1)
  if (global === null) return norms
  const constant = norm === null ? 0 : Math.fround(scalarOf(program, norm, inputs))
  if (constant !== 0) return norms.fill(constant)
  const scalar = program.scalars.find(({ name }) => name === global)
  if (scalar) return norms.fill(Math.fround(1 / roundToDType(scalar.dtype, scalarOf(program, global, inputs))))
  const part = operandNamed(program, global)
  const strides = new Map(part.axes.map((axis) => [axis, 1]))
  const offsets = outerSum(partTables(part, strides, operand.axes, (axis) => selection.get(axis)!, groups))
  const { data } = tensorOf(global, inputs)
  offsets.forEach((offset, i) => (norms[blockOf[i]!] = Math.fround(1 / data[offset]!)))
  return norms
}
