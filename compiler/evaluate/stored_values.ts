/** Stored forms in the evaluator: which scale, zero and global scale belong to which element. */
import { roundToDType } from '../codec.ts'
import type { TensorOperand, TensorProgram } from '../ir/tensor.ts'
import { operandNamed } from '../ir/walk.ts'
import { decodeStored } from '../stored/decode.ts'
import type { Groups } from './groups.ts'
import { extentIn, iota, outerSum, scalarOf, stridesOf, tensorOf, type EvaluationInputs } from './inputs.ts'

/**
 * For each axis of the data, the offset in a part (of these strides) that each of its `indices` adds. Blocks along a packed ragged
 * axis count from the group's first row: row t of group i is in block floor(start / b) + i + floor((t - start) / b). A part with
 * the group axis is read at the row's group. Rows behind the last group have no part; they get the first one.
 */
export function partTables(
  part: TensorOperand,
  strides: ReadonlyMap<string, number>,
  axes: readonly string[],
  indices: (axis: string) => Int32Array,
  groups: Groups,
): Int32Array[] {
  return axes.map((axis) => {
    const at = part.axes.indexOf(axis)
    const block = at < 0 ? 1 : (part.blocks?.[at] ?? 1)
    const stride = strides.get(axis) ?? 0
    const group = groups.impliedBy(axis)
    const list = indices(axis)
    if (group === null || axes.includes(group)) return list.map((index) => Math.floor(index / block) * stride)
    const groupOfRow = groups.groupOfRow(axis)
    const starts = groups.starts(axis)
    const groupStride = strides.get(group) ?? 0
    return list.map((row) => {
      const g = groupOfRow[row]!
      if (g < 0) return 0
      const inBlocks = block === 1 ? row : Math.floor(starts[g]! / block) + g + Math.floor((row - starts[g]!) / block)
      return inBlocks * stride + g * groupStride
    })
  })
}

/** Decoded values of a stored input, in the shape of its data. */
export function decodedInput(
  operand: TensorOperand,
  program: TensorProgram,
  inputs: EvaluationInputs,
  groups: Groups,
): Float32Array {
  const { data } = tensorOf(operand.name, inputs)
  const strides = stridesOf(operand, program, inputs)
  // Axes that the data broadcasts along have one index.
  const indices = (axis: string): Int32Array =>
    iota(strides.get(axis) === 0 ? 1 : extentIn(operand, operand.axes.indexOf(axis), program, inputs.extents))
  const valuesOf = (name: string | null, absent: number): ((i: number) => number) => {
    if (name === null) return () => absent
    const scalar = program.scalars.find((candidate) => candidate.name === name)
    if (scalar) {
      const value = roundToDType(scalar.dtype, scalarOf(program, name, inputs))
      return () => value
    }
    const part = operandNamed(program, name)
    const offsets = outerSum(partTables(part, stridesOf(part, program, inputs), operand.axes, indices, groups))
    const { data: values } = tensorOf(name, inputs)
    return (i) => values[offsets[i]!]!
  }
  const { zero, scale, global } = operand.stored!
  const [zeroOf, scaleOf, globalOf] = [valuesOf(zero, 0), valuesOf(scale, 1), valuesOf(global, 1)]
  return Float32Array.from({ length: data.length }, (_, i) =>
    decodeStored(data[i]!, zeroOf(i), scaleOf(i), globalOf(i)),
  )
}
