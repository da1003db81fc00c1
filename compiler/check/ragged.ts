/** Ragged axes: what `ragged t by off as g` says about a kernel, and which sums over them are sums of one group. */
import type { OperandDecl } from '../../grammar/ast.ts'
import type { FamilyOperand } from '../family.ts'
import type { Axis, RaggedAxis } from '../ir/tensor.ts'
import { impliedGroups } from '../ir/verify_tensor.ts'
import { unionAxes, withoutAxes } from './axes.ts'
import type { BodyContext, FileContext } from './context.ts'
import { children, walkResolved, withChildren, type Resolved } from './resolved.ts'

/** By axis. KTL2218, KTL2223, and KTL2001 for an operand that there is not. */
export function checkRagged(
  declarations: readonly OperandDecl[],
  operands: readonly FamilyOperand[],
  axes: readonly Pick<Axis, 'name' | 'optional'>[],
  { report, source }: FileContext,
): ReadonlyMap<string, RaggedAxis> {
  const found = new Map<string, RaggedAxis>()
  const clauses = declarations.flatMap(({ name, ragged }) => (ragged ? [{ operand: name.text, ragged }] : []))
  for (const { operand, ragged } of clauses) {
    const { axis, by, as, form, span } = ragged
    const wrong = (at: typeof span, reason: string, help: string): void =>
      report.report('KTL2218', source, at, { reason, help })
    const first = clauses.find((clause) => clause.ragged.axis.text === axis.text)!.ragged
    if (first !== ragged) {
      report.report('KTL2223', source, span, { axis: axis.text, previous: first.span })
      continue
    }
    const own = operands.find(({ name }) => name === operand)?.axes ?? []
    const inputs = operands.filter(({ role }) => role === 'input')
    const counts = inputs.find(({ name }) => name === by.text)
    if (!own.includes(axis.text))
      wrong(
        axis.span,
        `\`${operand}\` has no axis \`${axis.text}\``,
        own.length > 0 ? `its axes are ${own.join(', ')}` : 'it has no axes',
      )
    else if (axes.find(({ name }) => name === axis.text)?.optional)
      wrong(
        axis.span,
        `the axis \`${axis.text}\` is optional, so it cannot be ragged`,
        `write \`${axis.text}\` without \`?\``,
      )
    else if (!counts)
      report.report('KTL2001', source, by.span, { name: by.text, candidates: inputs.map((o) => o.name) })
    else if (counts.dtype !== 'i32' || counts.axes.join() !== as.text || as.text === axis.text) {
      const what = form === 'by' ? 'where each group ends' : 'the rows of each group that count'
      wrong(by.span, `\`${by.text}\` must be \`i32[${as.text}]\``, `declare \`${by.text}: i32[${as.text}]\`: ${what}`)
    } else if (form === 'upto' && !own.includes(as.text))
      wrong(
        as.span,
        `\`${operand}\` has no axis \`${as.text}\``,
        `padded groups have both axes: \`${operand}[${as.text}, ${axis.text}, …]\``,
      )
    else found.set(axis.text, { by: by.text, group: as.text, form: form === 'by' ? 'packed' : 'padded' })
  }
  for (const { ragged } of clauses) {
    if (!found.has(ragged.as.text)) continue
    const reason = `the group axis \`${ragged.as.text}\` is ragged itself`
    report.report('KTL2218', source, ragged.as.span, { reason, help: 'groups lie in one level' })
  }
  return found
}

/**
 * The expression where `groups` are kept: sums over their ragged axes are sums of each group. `pinned` values have been decided
 * before: the target that they were assigned to says its axes.
 */
export function perGroup(
  root: Resolved,
  groups: readonly string[],
  context: Pick<BodyContext, 'axisTable' | 'axes' | 'pinned'>,
): Resolved {
  const { axisTable, axes, pinned } = context
  const ragged = axisTable.filter((axis) => axis.ragged && groups.includes(axis.ragged.group))
  if (ragged.length === 0) return root
  const sumsOver = (e: Resolved): readonly string[] => (e.kind === 'reduce' || e.kind === 'contract' ? e.over : [])
  /** Where a group axis itself is summed over, what is inside keeps the other groups only. */
  const isLeaf = (e: Resolved): boolean => pinned.has(e) || sumsOver(e).some((axis) => groups.includes(axis))
  const made = new Map<Resolved, Resolved>()
  for (const e of walkResolved([root], (x) => (isLeaf(x) ? [] : children(x)))) {
    if (pinned.has(e)) {
      made.set(e, e)
      continue
    }
    const over = sumsOver(e)
    const inner = withoutAxes(groups, over)
    const operands = children(e).map((child) => (isLeaf(e) ? perGroup(child, inner, context) : made.get(child)!))
    const sum = withChildren(e, operands, axes)
    const remaining = impliedGroups({ axes: axisTable }, sum.axes)
    const kept = ragged.flatMap(({ name, ragged }) => (over.includes(name) ? [ragged!.group] : []))
    const added = kept.filter((g) => inner.includes(g) && !sum.axes.includes(g) && !remaining.includes(g))
    made.set(e, added.length > 0 ? { ...sum, axes: unionAxes(axes, sum.axes, added) } : sum)
  }
  return made.get(root)!
}
