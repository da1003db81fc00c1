/**
 * AST expressions → resolved expressions: names become operands, scalars and values; calls become operations, casts
 * or inlined epilogues; sums of products become contractions. Types are left to typing.ts.
 */
import type { Call, Expr, SizeOf, Span } from '../../grammar/ast.ts'
import { FUNCTION_NAMES } from '../../grammar/vocabulary.ts'
import { isDType } from '../dtypes.ts'
import { BINARY_OPERATIONS, OPERATIONS, UNARY_OPERATIONS } from '../ops.ts'
import { unionAxes } from './axes.ts'
import { applyOperation, resolveAxis, type BodyContext, type Scope } from './context.ts'
import { inlineCall } from './inline.ts'
import { resolveReference } from './reads.ts'
import type { Resolved } from './resolved.ts'
import { isReduction, resolveReduction } from './sums.ts'

/** Nesting is bounded by the parser, chains of operators are not: a loop, not recursion. */
export function resolveExpression(root: Expr, scope: Scope, context: BodyContext): Resolved {
  const values = new Map<Expr, Resolved>()
  const stack: { e: Expr; next: number }[] = [{ e: root, next: 0 }]
  while (stack.length > 0) {
    const top = stack[stack.length - 1]!
    const child = childrenOf(top.e, scope)[top.next++]
    if (child) stack.push({ e: child, next: 0 })
    else {
      stack.pop()
      values.set(
        top.e,
        resolveNode(top.e, (e) => values.get(e)!, scope, context),
      )
    }
  }
  return values.get(root)!
}

/** Annotations of epilogue strings, `bias[m]`, are no indices. */
function childrenOf(e: Expr, scope: Scope): readonly Expr[] {
  switch (e.kind) {
    case 'reference':
      return scope.annotate && !scope.readAxes?.(e.name.text) ? [] : (e.at ?? [])
    case 'unary':
      return [e.operand]
    case 'binary':
      return [e.left, e.right]
    case 'call':
      return e.args
    case 'reduce':
    case 'slot':
      return [e.value]
    default:
      return []
  }
}

function resolveNode(e: Expr, value: (e: Expr) => Resolved, scope: Scope, context: BodyContext): Resolved {
  const { report, source } = context
  const { span } = e
  const error: Resolved = { kind: 'error', axes: [], source, span }
  context.budget.nodes++
  switch (e.kind) {
    case 'number':
      return { kind: 'number', value: e.value, literal: e, axes: [], source, span }
    case 'reference':
      return resolveReference(e, value, scope, context)
    case 'unary': {
      const operand = value(e.operand)
      if (e.op === '+') return operand
      // -2 is a literal too: it takes the other side's type.
      if (e.op === '-' && operand.kind === 'number') return { ...operand, value: -operand.value, span }
      return applyOperation(UNARY_OPERATIONS[e.op], [operand], span, context)
    }
    case 'binary': {
      const [left, right] = [value(e.left), value(e.right)]
      // `skip0(s) * x`: resolveCall gives the scale alone.
      if (e.op === '*' && isSkip(e.left)) return skip(left, right, span, context)
      if (e.op === '*' && isSkip(e.right)) return skip(right, left, span, context)
      for (const side of [e.left, e.right]) if (isSkip(side)) report.report('KTL2219', source, side.span, {})
      if (e.op === '^' && right.kind === 'number' && right.value === 2)
        return applyOperation('mul', [left, left], span, context)
      return applyOperation(BINARY_OPERATIONS[e.op], [left, right], span, context)
    }
    case 'call':
      e.args.filter(isSkip).forEach((arg) => report.report('KTL2219', source, arg.span, {}))
      return resolveCall(e, e.args.map(value), scope, context) ?? error
    case 'reduce':
      if (isSkip(e.value)) report.report('KTL2219', source, e.value.span, {})
      return resolveReduction(e, value(e.value), context) ?? error
    case 'size':
      return resolveAxisFunction(e, context) ?? error
    case 'slot':
      report.report('KTL2021', source, span, { reason: context.inEpilogue ? 'epilogue' : 'nested', previous: null })
      return value(e.value)
  }
}

export function isSkip(e: Expr): boolean {
  return e.kind === 'call' && e.callee.text === 'skip0'
}

function skip(scale: Resolved, value: Resolved, span: Span, { axes, source }: BodyContext): Resolved {
  return { kind: 'skip0', scale, value, axes: unionAxes(axes, scale.axes, value.axes), source, span }
}

function resolveCall(e: Call, args: readonly Resolved[], scope: Scope, context: BodyContext): Resolved | null {
  const { report, source, typeParams, epilogues } = context
  const name = e.callee.text
  const fail = (usage: string): null => (
    report.report('KTL2016', source, e.span, { name, usage, got: args.length }),
    null
  )
  if (isDType(name) || typeParams.has(name)) {
    const [value] = args
    if (args.length !== 1 || !value) return fail(`${name}(x)`)
    context.typeParamUses.add(name)
    return value.kind === 'error' ? value : { kind: 'cast', to: name, value, axes: value.axes, source, span: e.span }
  }
  if (epilogues.has(name)) {
    const outputs = inlineCall(e, args, context)
    if (outputs && outputs.length !== 1) {
      report.report('KTL2014', source, e.span, { targets: 1, values: outputs.length, callee: name })
      return null
    }
    return outputs?.[0] ?? null
  }
  if (name === 'skip0') return args.length === 1 ? args[0]! : fail('skip0(scale) * x')
  if (isReduction(name) && args.length <= 1) {
    return (report.report('KTL2310', source, e.span, { name, axes: args[0]?.axes ?? [] }), null)
  }
  const operation = (FUNCTION_NAMES as readonly string[]).includes(name) ? OPERATIONS.get(name) : undefined
  if (!operation) {
    const what = context.kernels.has(name) ? 'kernel' : scope.names().includes(name) ? scope.kindOf(name) : null
    if (what) report.report('KTL2028', source, e.callee.span, { name, what })
    else report.report('KTL2004', source, e.callee.span, { name, candidates: [...FUNCTION_NAMES, ...epilogues.keys()] })
    return null
  }
  const { parameters } = operation
  const least = parameters.filter((p) => p.default === null).length
  if (args.length < least || args.length > parameters.length) {
    const usage = parameters.map((p) => (p.default === null ? p.name : `${p.name} = ${p.default}`)).join(', ')
    return fail(`${name}(${usage})`)
  }
  return applyOperation(name, args, e.span, context)
}

/** `size(n)`; `start(t)` and `length(t)` of the group of a row. KTL2222: the axis has no groups. */
function resolveAxisFunction({ fn, axis: name, span }: SizeOf, context: BodyContext): Resolved | null {
  const { report, source, axisTable, axesUnknown } = context
  const axis = resolveAxis(name, context)
  if (axis === null) return null
  if (fn === 'size') return { kind: fn, axis, axes: [], source, span }
  const ragged = axisTable.find((known) => known.name === axis)?.ragged
  if (ragged) return { kind: fn, axis, axes: [ragged.group], source, span }
  if (!axesUnknown) {
    const candidates = axisTable.flatMap((known) => (known.ragged ? [known.name] : []))
    report.report('KTL2222', source, name.span, { fn, axis: name.text, candidates })
  }
  return null
}
