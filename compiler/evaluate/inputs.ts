/**
 * What the evaluator works on: decoded values in logical order, extents by axis name, and for each axis the list of
 * indices to compute (all of them, or a sample).
 */
import type { TensorOperand, TensorProgram } from '../ir/tensor.ts'

/** Decoded values in logical order, dense row-major. */
export interface TensorData {
  readonly data: ArrayLike<number>
  readonly shape: readonly number[]
}

export interface EvaluationInputs {
  /**
   * Input operands and their parts (`A`, `A.scale`) by name. An optional axis may be missing from the shape, or have extent 1: it
   * broadcasts. Outputs: what they hold before; 0 where nothing is given.
   */
  readonly tensors: Readonly<Record<string, TensorData>>
  readonly scalars: Readonly<Record<string, number>>
  /** Of axes that operands declare. Computed ones may be missing. */
  readonly extents: Readonly<Record<string, number>>
}

/** Indices of each axis that are computed, ascending. */
export type Selection = ReadonlyMap<string, Int32Array>

export function everyIndex(program: TensorProgram, extents: EvaluationInputs['extents']): Map<string, Int32Array> {
  return new Map(program.axes.map(({ name }) => [name, iota(extentOf(extents, name))]))
}

export const iota = (length: number): Int32Array => Int32Array.from({ length }, (_, i) => i)

export function extentOf(extents: EvaluationInputs['extents'], axis: string): number {
  const extent = extents[axis]
  if (extent === undefined) throw new Error(`no extent given for axis ${axis}`)
  return extent
}

/**
 * Extent of axis i of an operand. Blocks are counted by ceil(extent / block); along a packed ragged axis each group has blocks of its
 * own, so that there are ceil(extent / block) + groups.
 */
export function extentIn(
  operand: TensorOperand,
  i: number,
  program: TensorProgram,
  extents: EvaluationInputs['extents'],
): number {
  const axis = operand.axes[i]!
  const block = operand.blocks?.[i] ?? 1
  const extent = extentOf(extents, axis)
  if (block === 1) return extent
  const ragged = program.axes.find(({ name }) => name === axis)?.ragged
  return Math.ceil(extent / block) + (ragged?.form === 'packed' ? extentOf(extents, ragged.group) : 0)
}

/** Elements between neighbours along each axis of an operand's data; 0 where it broadcasts. */
export function stridesOf(
  operand: TensorOperand,
  program: TensorProgram,
  inputs: EvaluationInputs,
): ReadonlyMap<string, number> {
  const { data, shape } = tensorOf(operand.name, inputs)
  const optional = new Set(program.axes.filter((axis) => axis.optional).map((axis) => axis.name))
  // A shape of lower rank leaves out optional axes, outermost first.
  let missing = operand.axes.length - shape.length
  const present = operand.axes.filter((axis) => !(missing > 0 && optional.has(axis) && missing-- > 0))
  if (present.length !== shape.length)
    throw new Error(`${operand.name}: shape [${shape}] does not fit axes [${operand.axes}]`)
  const strides = new Map(operand.axes.map((axis) => [axis, 0]))
  let stride = 1
  for (let i = present.length - 1; i >= 0; i--) {
    const [axis, extent] = [present[i]!, shape[i]!]
    const broadcast = extent === 1 && optional.has(axis)
    const expected = extentIn(operand, operand.axes.indexOf(axis), program, inputs.extents)
    if (!broadcast && extent !== expected)
      throw new Error(`${operand.name}: extent ${extent} of axis ${axis}, expected ${expected}`)
    strides.set(axis, broadcast ? 0 : stride)
    stride *= extent
  }
  if (data.length !== stride) throw new Error(`${operand.name}: ${data.length} values for shape [${shape}]`)
  return strides
}

export function tensorOf(name: string, inputs: EvaluationInputs): TensorData {
  const tensor = inputs.tensors[name]
  if (!tensor) throw new Error(`no values given for ${name}`)
  return tensor
}

export function scalarOf(program: TensorProgram, name: string, inputs: EvaluationInputs): number {
  const value = inputs.scalars[name] ?? program.scalars.find((scalar) => scalar.name === name)?.defaultValue
  if (value === undefined || value === null) throw new Error(`no value given for scalar ${name}`)
  return value
}

/** Row-major strides over the selected indices of `axes`: where results are kept. */
export function denseStrides(axes: readonly string[], selection: Selection): Map<string, number> {
  const strides = new Map<string, number>()
  let stride = 1
  for (const axis of [...axes].reverse()) {
    strides.set(axis, stride)
    stride *= selection.get(axis)!.length
  }
  return strides
}

export function countOf(axes: readonly string[], selection: Selection): number {
  return axes.reduce((count, axis) => count * selection.get(axis)!.length, 1)
}

/** Sums of one entry of each table, row-major over the tables: offsets of a product of index lists. */
export function outerSum(tables: readonly ArrayLike<number>[], base = 0): Int32Array {
  let sums: Int32Array = Int32Array.of(base)
  for (const table of tables) {
    const next = new Int32Array(sums.length * table.length)
    for (let i = 0, at = 0; i < sums.length; i++) {
      for (let j = 0; j < table.length; j++) next[at++] = sums[i]! + table[j]!
    }
    sums = next
  }
  return sums
}
