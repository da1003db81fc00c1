/** Statements of kernels and epilogues: single assignment from top to bottom, and what each name means on the way. */
import {
  axisNamesOf,
  type AxisStatement,
  type Equation,
  type Expr,
  type Name,
  type Span,
  type Statement,
  type Target,
} from '../../grammar/ast.ts'
import { DTYPE_NAMES, FUNCTION_NAMES, REDUCTION_NAMES } from '../../grammar/vocabulary.ts'
import { isDType } from '../dtypes.ts'
import type { BodyContext, DeclaredOutput, Scope } from './context.ts'
import { resolveExpression } from './expressions.ts'
import { inlineCall } from './inline.ts'
import { impliedGroups } from '../ir/verify_tensor.ts'
import { isSubset, sameAxes, withoutAxes } from './axes.ts'
import { perGroup } from './ragged.ts'
import type { Resolved } from './resolved.ts'
import { checkScatter, isScatter } from './scatter.ts'

/** A name that stands for a value before the first statement: an operand, a scalar, a parameter. */
export interface Input {
  readonly value: Resolved
  /** Where it is declared; null: in a call of the API. */
  readonly declared: Span | null
}

export class BodyScope implements Scope {
  readonly used = new Set<string>()
  readonly values = new Map<string, { readonly value: Resolved; readonly target: Target }>()
  readonly inputs: ReadonlyMap<string, Input>
  private readonly later = new Map<string, Span>()

  constructor(inputs: ReadonlyMap<string, Input>, body: readonly Statement[]) {
    this.inputs = inputs
    for (const statement of body) {
      if (statement.kind !== 'equation') continue
      for (const { name } of statement.targets) if (!this.later.has(name.text)) this.later.set(name.text, name.span)
    }
  }

  lookup(name: string): Resolved | undefined {
    const found = this.values.get(name)?.value ?? this.inputs.get(name)?.value
    if (found) this.used.add(name)
    return found
  }

  names(): readonly string[] {
    return [...this.inputs.keys(), ...this.values.keys()]
  }

  kindOf(name: string): 'operand' | 'value' {
    this.used.add(name)
    return this.inputs.has(name) ? 'operand' : 'value'
  }

  assignedLater(name: string): Span | null {
    this.used.add(name)
    return this.values.has(name) ? null : (this.later.get(name) ?? null)
  }
}

/** What an equation defines: `slot` when its right side was `epilogue(…)`. */
export interface Definition {
  readonly target: Target
  readonly value: Resolved
  readonly equation: Equation
  readonly slot: boolean
  /** Scatter: an index for each axis of the target. */
  readonly at: readonly Resolved[] | null
}

export interface BodyResult {
  readonly definitions: readonly Definition[]
  /** `axis j = …`, in order. */
  readonly extents: readonly { readonly statement: AxisStatement; readonly value: Resolved }[]
  /** `return …`, or the final bare expression. */
  readonly returned: readonly { readonly name: Name | null; readonly value: Resolved }[] | null
}

export function resolveBody(
  body: readonly Statement[],
  scope: BodyScope & Scope,
  outputs: ReadonlyMap<string, DeclaredOutput>,
  context: BodyContext,
): BodyResult {
  const definitions: Definition[] = []
  const extents: { statement: AxisStatement; value: Resolved }[] = []
  let returned: BodyResult['returned'] = null
  for (const statement of body) {
    if (statement.kind === 'equation')
      definitions.push(...resolveEquation(statement, scope, outputs, definitions, context))
    else if (statement.kind === 'axisStatement')
      extents.push({ statement, value: resolveExpression(statement.value, scope, context) })
    else {
      const values: readonly Expr[] = statement.kind === 'return' ? statement.values : [statement.value]
      returned = values.map((e) => ({
        name: e.kind === 'reference' ? e.name : null,
        value: resolveExpression(e, scope, context),
      }))
    }
  }
  return { definitions, extents, returned }
}

function resolveEquation(
  equation: Equation,
  scope: BodyScope & Scope,
  outputs: ReadonlyMap<string, DeclaredOutput>,
  before: readonly Definition[],
  context: BodyContext,
): readonly Definition[] {
  const { report, source } = context
  const { targets, value: e } = equation
  const slot = e.kind === 'slot' && checkSlot(equation, outputs, before, context)
  const values =
    slot || e.kind === 'slot' ? [resolveExpression(e.value, scope, context)] : valuesOf(equation, scope, context)
  return targets.flatMap((target, i): Definition[] => {
    const name = target.name.text
    const raw: Resolved = values?.[i] ?? { kind: 'error', axes: [], source, span: e.span }
    const output = outputs.get(name)
    const claimed = withClaim(raw, target, context)
    const scatter = target.at !== null && isScatter(target.at, scope, context)
    const at = scatter
      ? checkScatter(target, indicesOf(target, output, scope, context), output, claimed, context)
      : null
    const value = scatter ? claimed : checkTargetAxes(target, claimed, output, context)
    const input = scope.inputs.get(name)
    const previous = scope.values.get(name)
    if (input) report.report('KTL2012', source, target.name.span, { name, declared: input.declared })
    else if (previous) report.report('KTL2010', source, target.name.span, { name, previous: previous.target.name.span })
    else {
      checkReserved(target.name, context)
      scope.values.set(name, { value, target })
      return [{ target, value, equation, slot, at }]
    }
    return []
  })
}

/** What stands in the brackets of a scatter: an axis of the output is the axis, whatever has its name. */
function indicesOf({ at }: Target, output: DeclaredOutput | undefined, scope: Scope, context: BodyContext): Resolved[] {
  return at!.map((e): Resolved => {
    const own = e.kind === 'reference' && e.at === null && output?.axes?.find((axis) => axis === e.name.text)
    return own
      ? { kind: 'axis', axis: own, axes: [own], source: context.source, span: e.span }
      : resolveExpression(e, scope, context)
  })
}

/** Values of the right side, one for each target; null when that was refused. */
function valuesOf(
  { targets, tuple, value: e, span }: Equation,
  scope: Scope,
  context: BodyContext,
): readonly Resolved[] | null {
  const { report, source, epilogues } = context
  if (!tuple && targets.length === 1) return [resolveExpression(e, scope, context)]
  if (e.kind !== 'call' || !epilogues.has(e.callee.text)) {
    const value = resolveExpression(e, scope, context)
    if (targets.length === 1) return [value]
    report.report('KTL2014', source, span, { targets: targets.length, values: 1, callee: null })
    return null
  }
  const args = e.args.map((arg) => resolveExpression(arg, scope, context))
  const values = inlineCall(e, args, context)
  if (!values || values.length === targets.length) return values
  report.report('KTL2014', source, span, { targets: targets.length, values: values.length, callee: e.callee.text })
  return null
}

function checkSlot(
  { targets, value }: Equation,
  outputs: ReadonlyMap<string, DeclaredOutput>,
  before: readonly Definition[],
  context: BodyContext,
): boolean {
  const { report, source, inEpilogue } = context
  const first = before.find((definition) => definition.slot)
  const reason = inEpilogue
    ? 'epilogue'
    : first
      ? 'twice'
      : outputs.has(targets[0]!.name.text) && targets.length === 1
        ? null
        : 'local'
  if (reason === null) return true
  report.report('KTL2021', source, value.span, { reason, previous: first?.equation.value.span ?? null })
  return false
}

/** `acc: S = sum[k](…)` chooses the accumulator; on any other value it is a claim that typing.ts checks. */
function withClaim(value: Resolved, { dtype, name }: Target, context: BodyContext): Resolved {
  if (!dtype || value.kind === 'error') return value
  const { report, source, typeParams } = context
  if (!isDType(dtype.text) && !typeParams.has(dtype.text)) {
    const candidates = [...DTYPE_NAMES, ...typeParams]
    report.report('KTL2201', source, dtype.span, { name: dtype.text, candidates })
    return value
  }
  context.typeParamUses.add(dtype.text)
  if (value.kind === 'contract') return { ...value, accumulator: dtype.text, span: value.span }
  return { kind: 'typed', type: dtype.text, name: name.text, value, axes: value.axes, source, span: dtype.span }
}

/** The value with the axes of the target: sums over ragged axes are sums of each group that these keep. */
function checkTargetAxes(
  target: Target,
  given: Resolved,
  output: DeclaredOutput | undefined,
  context: BodyContext,
): Resolved {
  const { report, source, axesUnknown, axisAliases, axisTable } = context
  const name = target.name.text
  const axes = axisNamesOf(target)
  const written = axes?.map((axis) => axisAliases.get(axis.text) ?? axis.text)
  if (axes && written) {
    const repeated = axes.find((axis, i) => written.indexOf(written[i]!) !== i)
    if (repeated) report.report('KTL2019', source, repeated.span, { axis: repeated.text, name })
  }
  if (axesUnknown || given.kind === 'error') return given
  const declared = output?.axes ?? null
  const lhs = declared ?? written ?? null
  if (lhs === null) return given
  const value = perGroup(given, lhs, context)
  if (axisTable.some(({ ragged }) => ragged)) context.pinned.add(value)
  const missing = withoutAxes(value.axes, [...lhs, ...context.impliedAxes, ...impliedGroups({ axes: axisTable }, lhs)])
  if (missing.length > 0) {
    report.report('KTL2007', source, value.source === source ? value.span : target.span, {
      axes: missing,
      target: name,
      targetSpan: target.name.span,
    })
  } else if (written && declared && !(sameAxes(written, declared) && isSubset(declared, written))) {
    const span = { start: axes![0]!.span.start, end: axes!.at(-1)!.span.end }
    report.report('KTL2026', source, span, {
      target: name,
      axes: written,
      declared,
      declaredAt: output?.declared ?? null,
    })
  }
  return value
}

/** Names of functions, reductions and dtypes are reserved (keywords are the parser's). */
export function checkReserved(name: Name, { report, source }: Pick<BodyContext, 'report' | 'source'>): boolean {
  if (!checkProperty(name, { report, source })) return false
  const role = isDType(name.text)
    ? 'dtype'
    : (FUNCTION_NAMES as readonly string[]).includes(name.text)
      ? 'function'
      : (REDUCTION_NAMES as readonly string[]).includes(name.text)
        ? 'reduction'
        : null
  if (role) report.report('KTL2003', source, name.span, { name: name.text, role })
  return role === null
}

/** Callers of the API write names as fields of objects: `constructor` and its like are always there, and `__proto__` is no field. */
export function checkProperty(
  { text, span }: Name,
  { report, source }: Pick<BodyContext, 'report' | 'source'>,
): boolean {
  const isProperty = text in Object.prototype
  if (isProperty) report.report('KTL2003', source, span, { name: text, role: 'property of every object' })
  return !isProperty
}
