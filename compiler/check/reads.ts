/** Names in expressions, reads at indices among them: `A`, `n`, `X[b, p * stride + r - pad, c] else 0`. */
import { axisNamesOf, type Expr, type Name, type Reference, type Span } from '../../grammar/ast.ts'
import type { Source } from '../../grammar/diagnostics.ts'
import { suggest } from '../../grammar/suggest.ts'
import { DTYPES, isDType } from '../dtypes.ts'
import { unionAxes } from './axes.ts'
import type { BodyContext, Scope } from './context.ts'
import { children, opened, type Resolved, type ResolvedOperand } from './resolved.ts'

export function resolveReference(
  e: Reference,
  value: (e: Expr) => Resolved,
  scope: Scope,
  context: BodyContext,
): Resolved {
  const { report, source } = context
  const { name, span } = e
  const error: Resolved = { kind: 'error', axes: [], source, span }
  const found = scope.lookup(name.text)
  const axis = context.axesUnknown ? null : axisNamed(name, context)
  if (!found) {
    if (axis !== null) {
      if (e.at) return (report.report('KTL2029', source, span, { name: name.text, what: 'an axis' }), error)
      return { kind: 'axis', axis, axes: [axis], source, span }
    }
    return (scope.unknown ? scope.unknown(name) : unknownName(name, scope, context), error)
  }
  if (axis !== null && !context.inEpilogue)
    report.report('KTL2038', source, name.span, { name: name.text, what: scope.kindOf(name.text) })
  const own = scope.readAxes?.(name.text)
  if (own && !e.at) {
    report.report('KTL2035', source, span, { name: name.text, axes: own, got: 0 })
    return error
  }
  if (e.at && scope.annotate && !own) {
    const axes = axisNamesOf(e)
    if (axes && !e.outside) scope.annotate(name, axes)
    else report.report('KTL2029', source, span, { name: name.text, what: 'an operand of an epilogue' })
  } else if (e.at && !context.axesUnknown && found.kind !== 'error') {
    const operand = opened(found)
    if (operand.kind === 'operand' && !operand.at) return readAt(operand, e, e.at.map(value), context)
    const what = operand.kind === 'scalar' ? 'a scalar' : 'a value'
    return (report.report('KTL2029', source, span, { name: name.text, what }), error)
  }
  // A leaf is where it is used; a value is shared.
  const { kind } = opened(found)
  return kind === 'operand' || kind === 'scalar' ? { ...found, source, span } : found
}

/** KTL2035 and KTL2036. */
function readAt(operand: ResolvedOperand, e: Reference, at: readonly Resolved[], context: BodyContext): Resolved {
  const { report, source, axes, axisTable } = context
  const error: Resolved = {
    kind: 'error',
    axes: unionAxes(axes, ...at.map((index) => index.axes)),
    source,
    span: e.span,
  }
  const declared = context.declared.get(operand.name)!.axes!
  const optional = declared.filter((axis) => axisTable.find(({ name }) => name === axis)?.optional)
  const short = at.length === declared.length - optional.length
  if (at.length !== declared.length && !short) {
    report.report('KTL2035', source, e.span, { name: operand.name, axes: declared, got: at.length })
    return error
  }
  if (!at.map((index) => checkIndex(index, context)).every(Boolean)) return error
  const written = at[Symbol.iterator]()
  const positions = declared.map((axis): Resolved =>
    short && optional.includes(axis)
      ? { kind: 'axis', axis, axes: [axis], source, span: e.span }
      : written.next().value!,
  )
  const { name } = operand
  const isOwn = positions.every((index, i) => index.kind === 'axis' && index.axis === declared[i])
  if (isOwn) return { ...operand, source, span: e.span }
  const free = unionAxes(axes, ...positions.map((index) => index.axes))
  return { kind: 'operand', name, at: positions, outside: e.outside, axes: free, source, span: e.span }
}

/** Is it an Index, whatever its type? KTL2036 names the part that is none, KTL2039 an operand that hides an axis and is none. */
export function checkIndex(index: Resolved, context: BodyContext): boolean {
  const { report, source } = context
  const pending = [index]
  const seen = new Set<Resolved>()
  for (let e = pending.pop(); e; e = pending.pop()) {
    if (seen.has(e)) continue
    seen.add(e)
    if (e.kind === 'error') return false
    const at = e.source === source ? e : index
    const why = notIndex(e)
    const hiding = hidingAxis(e, context)
    if (why !== null) report.report('KTL2036', source, at.span, { text: textOf(at), why })
    else if (hiding) report.report('KTL2039', source, at.span, hiding)
    if (why !== null || hiding) return false
    if (e.kind !== 'operand') pending.push(...children(e))
  }
  return true
}

/** An operand with the name of an axis and of a type that no index has. */
function hidingAxis(e: Resolved, { axes, declared }: BodyContext): { name: string; dtype: string } | null {
  if ((e.kind !== 'operand' && e.kind !== 'scalar') || !axes.includes(e.name)) return null
  const dtype = declared.get(e.name)?.dtype
  return dtype !== undefined && isDType(dtype) && DTYPES[dtype].compute !== 'i32' ? { name: e.name, dtype } : null
}

/** Why `e` by itself, whatever is in it, is no Index; null: it is one. */
function notIndex(e: Resolved): string | null {
  switch (e.kind) {
    case 'operand':
    case 'scalar':
    case 'axis':
    case 'size':
    case 'start':
    case 'length':
    case 'typed':
      return null
    case 'number':
      return Number.isInteger(e.value) ? null : 'it is no integer'
    case 'cast':
      return e.to === 'i32' ? null : `${e.to} is no type of an index`
    case 'apply': {
      const [left, right] = e.args as [Resolved, Resolved]
      if (e.op === 'add' || e.op === 'sub' || e.op === 'neg') return null
      if (e.op === 'mul')
        return left.axes.length === 0 || right.axes.length === 0 ? null : 'one factor of a product has no axes'
      if (e.op === 'div' || e.op === 'mod') return right.axes.length === 0 ? null : 'a divisor has no axes'
      return `\`${e.op}\` is not known there`
    }
    default:
      return 'it is computed from elements'
  }
}

/** The axis of a name, where an expression could mean it; null: there is none. */
const axisNamed = ({ text }: Name, { axes, axisAliases }: BodyContext): string | null =>
  axisAliases.get(text) ?? (axes.includes(text) ? text : null)

function unknownName(name: Name, scope: Scope, { report, source, axes }: BodyContext): void {
  const later = scope.assignedLater?.(name.text)
  if (later) return report.report('KTL2013', source, name.span, { name: name.text, assigned: later })
  const names = scope.names()
  const isAxis = suggest(name.text, names) === null && suggest(name.text, axes) !== null
  report.report('KTL2001', source, name.span, { name: name.text, candidates: isAxis ? axes : names })
}

const textOf = ({ source, span }: { source: Source; span: Span }): string => source.text.slice(span.start, span.end)
