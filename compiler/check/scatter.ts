/** `D[to[t], n] = …`: targets whose elements go where an integer operand says. */
import { axisNamesOf, type Expr, type Target } from '../../grammar/ast.ts'
import { impliedGroups } from '../ir/verify_tensor.ts'
import { unionAxes, withoutAxes } from './axes.ts'
import type { BodyContext, DeclaredOutput, Scope } from './context.ts'
import { checkIndex } from './reads.ts'
import { walkResolved, type Resolved } from './resolved.ts'

const isAxis = (name: string, { axes, axisAliases }: BodyContext): boolean =>
  axes.includes(name) || axisAliases.has(name)

/** Is there more in the brackets than axes? Names that nobody knows are taken for axes. */
export function isScatter(at: readonly Expr[], scope: Scope, context: BodyContext): boolean {
  const names = axisNamesOf({ at })
  if (context.axesUnknown || context.inEpilogue) return false
  return names === null || names.some(({ text }) => !isAxis(text, context) && scope.names().includes(text))
}

/** An index for each declared axis; none: it was refused with KTL2035, KTL2036 or KTL2042. KTL2007: the value varies along an axis that no index has. */
export function checkScatter(
  { name, at, span }: Target,
  written: readonly Resolved[],
  output: DeclaredOutput | undefined,
  value: Resolved,
  context: BodyContext,
): readonly Resolved[] {
  const { report, source, axes, axisTable } = context
  const wrong = (place: typeof span, reason: string, help: string): readonly Resolved[] => {
    report.report('KTL2042', source, place, { reason, help })
    return []
  }
  if (!output?.axes) return wrong(span, `\`${name.text}\` is no output`, 'scatter to an output; a value has its axes')
  const declared = output.axes
  if (written.length !== declared.length) {
    report.report('KTL2035', source, span, { name: name.text, axes: declared, got: written.length })
    return []
  }
  if (!written.map((index) => checkIndex(index, context)).every(Boolean)) return []
  const reads = written.map((index) => [...walkResolved([index])].filter(({ kind }) => kind === 'operand').length)
  const count = reads.reduce((a, b) => a + b, 0)
  if (count !== 1)
    return wrong(
      span,
      count === 0 ? 'no operand says where the elements go' : `${count} operands say where the elements go`,
      'one integer operand says it: `D[to[t], n]`',
    )
  const shared = declared.find((axis, i) => reads[i] === 1 && output.blocked?.includes(axis))
  if (shared !== undefined)
    return wrong(
      span,
      `elements along \`${shared}\` share scales, and do not stay together`,
      `scatter along an axis that is not in blocks, or to an output of a plain type`,
    )
  const shifted = written.findIndex(
    (index, i) => reads[i] === 0 && !(index.kind === 'axis' && index.axis === declared[i]),
  )
  if (shifted >= 0)
    return wrong(
      at![shifted]!.span,
      `an index without an operand is not axis \`${declared[shifted]}\` itself`,
      `write \`${declared[shifted]}\``,
    )
  const stored = unionAxes(axes, ...written.map((index) => index.axes))
  const missing =
    value.kind === 'error' ? [] : withoutAxes(value.axes, [...stored, ...impliedGroups({ axes: axisTable }, stored)])
  const place = value.source === source ? value.span : span
  if (missing.length > 0)
    report.report('KTL2007', source, place, { axes: missing, target: name.text, targetSpan: name.span })
  return written
}
