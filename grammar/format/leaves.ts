/** Text of the small parts of the tree, which stand on one line whatever its width. */
import type { AxisRef, EpilogueParam, Name, OperandDecl, ScheduleValue, Target, TensorType, TypeParam } from '../ast.ts'

export function printTensorType(type: TensorType): string {
  const axes = type.axes === null ? '' : `[${type.axes.map(printAxis).join(', ')}]`
  return type.dtype.text + axes + (type.scale === null ? '' : ` * ${printTensorType(type.scale)}`)
}

const printAxis = (axis: AxisRef): string =>
  axis.name.text + (axis.optional ? '?' : '') + (axis.divisor === null ? '' : `/${axis.divisor}`)

export const printAxisNames = (axes: readonly Name[] | null): string =>
  axes === null ? '' : `[${axes.map((axis) => axis.text).join(', ')}]`

export const printTypeParam = ({ name, alternatives }: TypeParam): string =>
  `${name.text}: ${alternatives.map((alternative) => alternative.text).join(' | ')}`

/** What follows the types of an operand: its default, its ragged rows. */
export function printOperandTail({ defaultValue, ragged }: OperandDecl): string {
  const value = defaultValue === null ? '' : ` = ${defaultValue.text}`
  const rows = ragged === null ? '' : ` ragged ${ragged.axis.text} by ${ragged.by.text} as ${ragged.as.text}`
  return value + rows
}

/** `name`, then `: f32`, `: f32[m]`, `[m]` or nothing, then the default. */
export function printEpilogueParam({ name, dtype, axes, defaultValue }: EpilogueParam): string {
  const annotation = (dtype === null ? '' : `: ${dtype.text}`) + printAxisNames(axes)
  return name.text + annotation + (defaultValue === null ? '' : ` = ${defaultValue.text}`)
}

export const printTarget = ({ name, axes, dtype }: Target): string =>
  name.text + printAxisNames(axes) + (dtype === null ? '' : `: ${dtype.text}`)

export function printScheduleValue(value: ScheduleValue): string {
  switch (value.kind) {
    case 'shape':
      return value.extents.join('x')
    case 'cta':
      return `${value.count}cta`
    case 'count':
      return String(value.value)
    case 'word':
      return value.text
  }
}
