/** Text of the small parts of the tree, which stand on one line whatever its width. */
import type {
  AxisRef,
  EpilogueParam,
  Name,
  OperandDecl,
  PartType,
  ScheduleValue,
  TensorType,
  TypeName,
  TypeParam,
} from '../ast.ts'

export function printTensorType(type: TensorType): string {
  const data = withAxes(type)
  const stored = type.zero === null ? data : `(${data} - ${printPart(type.zero)})`
  return [stored, ...[type.scale, type.global].flatMap((part) => (part === null ? [] : [printPart(part)]))].join(' * ')
}

const printPart = (part: PartType): string => (part.floor ? `floor(${withAxes(part)})` : withAxes(part))

const withAxes = ({ dtype, axes }: { readonly dtype: TypeName; readonly axes: readonly AxisRef[] | null }): string =>
  dtype.text + (axes === null ? '' : `[${axes.map(printAxis).join(', ')}]`)

const printAxis = (axis: AxisRef): string =>
  axis.name.text + (axis.optional ? '?' : '') + (axis.divisor === null ? '' : `/${axis.divisor}`)

export const printAxisNames = (axes: readonly Name[] | null): string =>
  axes === null ? '' : `[${axes.map((axis) => axis.text).join(', ')}]`

export const printTypeParam = ({ name, alternatives }: TypeParam): string =>
  `${name.text}: ${alternatives.map((alternative) => alternative.text).join(' | ')}`

/** What follows the types of an operand: its default, its ragged rows. */
export function printOperandTail({ defaultValue, ragged }: OperandDecl): string {
  const value = defaultValue === null ? '' : ` = ${defaultValue.text}`
  if (ragged === null) return value
  return `${value} ragged ${ragged.axis.text} ${ragged.form} ${ragged.by.text} as ${ragged.as.text}`
}

/** `name`, then `: f32`, `: f32[m]`, `[m]` or nothing, then the default. */
export function printEpilogueParam({ name, dtype, axes, defaultValue }: EpilogueParam): string {
  const annotation = (dtype === null ? '' : `: ${dtype.text}`) + printAxisNames(axes)
  return name.text + annotation + (defaultValue === null ? '' : ` = ${defaultValue.text}`)
}

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
