/** Points of a program: what its axes say about each other, groups above all. */
import type { Axis, RaggedAxis, TensorProgram } from '../../ir/tensor.ts'
import { impliedGroups } from '../../ir/verify_tensor.ts'

type Axes = Pick<TensorProgram, 'axes'>

const raggedOf = ({ axes }: Axes, name: string): RaggedAxis | undefined =>
  axes.find((axis: Axis) => axis.name === name)?.ragged

export const packedOf = (program: Axes, axis: string): RaggedAxis | null => {
  const ragged = raggedOf(program, axis)
  return ragged?.form === 'packed' ? ragged : null
}

export const paddedOf = (program: Axes, axis: string): RaggedAxis | null => {
  const ragged = raggedOf(program, axis)
  return ragged?.form === 'padded' ? ragged : null
}

/** The axes that points are counted along: a packed axis says which group a point is in. */
export const ownAxes = (program: Axes, axes: readonly string[]): string[] => {
  const implied = impliedGroups(program, axes)
  return axes.filter((axis) => !implied.includes(axis))
}

export const sameDomain = (program: Axes, a: readonly string[], b: readonly string[]): boolean =>
  domainKey(program, a) === domainKey(program, b)

export const domainKey = (program: Axes, axes: readonly string[]): string => ownAxes(program, axes).sort().join()
