/** Where extents of axes come from: inputs, outputs that the body has positions of, and `axis j = size(h) / size(hk)`. */
import type { AxisStatement, KernelDecl, OperandDecl } from '../../grammar/ast.ts'
import type { FamilyAxis, FamilyOperand } from '../family.ts'
import { checkProperty, type BodyResult } from './body.ts'
import type { BodyContext, FileContext } from './context.ts'
import { checkIndex } from './reads.ts'
import { rootsOf, walkResolved, type Resolved, type ResolvedOutput } from './resolved.ts'

const statementsOf = ({ body }: KernelDecl): AxisStatement[] =>
  body.flatMap((statement) => (statement.kind === 'axisStatement' ? [statement] : []))

/** Axes of `axis` statements, whose extents are yet to be read. KTL2040: an axis that has one already. */
export function computedAxes(
  declaration: KernelDecl,
  operands: readonly OperandDecl[],
  { source, report }: FileContext,
): FamilyAxis[] {
  const statements = statementsOf(declaration)
  return statements.flatMap((statement): FamilyAxis[] => {
    const { axis } = statement
    const same = ({ text }: { readonly text: string }): boolean => text === axis.text
    const twin = statements.find((other) => same(other.axis))!
    const owner = operands.find(({ alternatives }) => alternatives[0]!.axes?.some(({ name }) => same(name)))
    if (!owner && twin === statement)
      return checkProperty(axis, { source, report }) ? [{ name: axis.text, optional: false }] : []
    const first = owner?.alternatives[0]!.axes!.find(({ name }) => same(name))!.name ?? twin.axis
    report.report('KTL2040', source, axis.span, {
      axis: axis.text,
      operand: owner?.name.text ?? null,
      previous: first.span,
    })
    return []
  })
}

/** The axes with the extents that statements give them. KTL2041 for an extent that the arguments do not determine; KTL2008 for an axis without a use. */
export function checkExtents(
  axes: readonly FamilyAxis[],
  statements: BodyResult['extents'],
  outputs: readonly ResolvedOutput[],
  context: BodyContext,
): readonly FamilyAxis[] {
  const { report, source, declared } = context
  const owned = new Set([...declared.values()].flatMap((operand) => operand.axes ?? []))
  const extents = statements.filter(({ statement }) => !owned.has(statement.axis.text))
  const known = new Map<string, Resolved>()
  for (const { statement, value } of extents) {
    const { axis } = statement
    if (value.kind === 'error' || known.has(axis.text) || !checkIndex(value, context)) continue
    const parts = [...walkResolved([value])]
    const later = extents.map((other) => other.statement.axis.text).filter((name) => !known.has(name))
    const why = parts.some(({ kind }) => kind === 'operand')
      ? 'it depends on elements of an operand'
      : value.axes.length > 0
        ? `it varies along ${value.axes.join(', ')}`
        : parts.some((e) => e.kind === 'size' && later.includes(e.axis))
          ? 'it depends on an axis whose extent is not known yet'
          : null
    if (why !== null) report.report('KTL2041', source, statement.value.span, { axis: axis.text, why })
    else known.set(axis.text, value)
  }
  const used = positionsIn(rootsOf(outputs))
  for (const { axis } of extents.map(({ statement }) => statement))
    if (known.has(axis.text) && !used.has(axis.text))
      report.report('KTL2008', source, axis.span, { name: axis.text, what: 'axis' })
  return axes.map((axis) => {
    const extent = known.get(axis.name)
    return extent ? { ...axis, extent } : axis
  })
}

/** KTL2006: an output axis that neither an input nor the body has; of others, the output that the caller passes has the extent. */
export function checkOutputExtents(
  { outputs: declarations }: KernelDecl,
  operands: readonly FamilyOperand[],
  outputs: readonly ResolvedOutput[],
  { source, report }: BodyContext,
): void {
  const known = new Set(operands.filter(({ role }) => role === 'input').flatMap(({ axes }) => axes))
  for (const axis of positionsIn(rootsOf(outputs))) known.add(axis)
  for (const { name, alternatives } of declarations) {
    // A scatter fills no axis, and of a wrong equation nothing is known.
    if (outputs.some(({ operand, at, value }) => operand === name.text && (at || value.kind === 'error'))) continue
    for (const axis of alternatives[0]!.axes ?? []) {
      if (known.has(axis.name.text)) continue
      report.report('KTL2006', source, axis.span, { axis: axis.name.text, output: name.text })
    }
  }
}

/** Axes whose positions are values somewhere below. */
function positionsIn(roots: readonly Resolved[]): Set<string> {
  const used = new Set<string>()
  for (const e of walkResolved(roots)) if (e.kind === 'axis') used.add(e.axis)
  return used
}
