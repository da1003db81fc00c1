/** Named epilogues are inlined where they are called: their parameters stand for the caller's values. */
import type { Call, EpilogueDecl } from '../../grammar/ast.ts'
import { LIMITS } from '../../grammar/limits.ts'
import { sameAxes } from './axes.ts'
import { BodyScope, resolveBody, type Input } from './body.ts'
import type { BodyContext, DeclaredOutput } from './context.ts'
import type { Resolved } from './resolved.ts'

const MAX_DEPTH = 32

/** The values of the epilogue's outputs, in order; null when the call was refused. */
export function inlineCall(e: Call, args: readonly Resolved[], context: BodyContext): readonly Resolved[] | null {
  const { report, source, epilogues, inlining, budget } = context
  const name = e.callee.text
  const declaration = epilogues.get(name)!
  const { params } = declaration
  const from = inlining.indexOf(name)
  if (from >= 0) {
    const by = inlining.slice(from)
    report.report('KTL2027', source, e.span, { name, cycle: by.length > 1 ? [...by, name] : [name] })
    return null
  }
  const limit =
    inlining.length >= MAX_DEPTH
      ? `${MAX_DEPTH} levels`
      : budget.nodes > LIMITS.expressionNodes
        ? `${LIMITS.expressionNodes} names, literals and operators`
        : null
  if (limit !== null) return (report.report('KTL2032', source, e.span, { limit }), null)
  const min = params.findLastIndex((param) => param.defaultValue === null) + 1
  if (args.length < min || args.length > params.length) {
    const declared = declaration.name?.span ?? null
    report.report('KTL2015', source, e.span, { name, min, max: params.length, got: args.length, declared })
    return null
  }
  const inputs = new Map<string, Input>()
  params.forEach((param, i) => {
    const value: Resolved = args[i] ?? {
      kind: 'number',
      value: param.defaultValue!.value,
      literal: param.defaultValue!,
      axes: [],
      source,
      span: param.span,
    }
    const axes = param.axes?.map((axis) => axis.text) ?? null
    const written = e.args[i]
    if (axes && written && !context.axesUnknown && value.kind !== 'error' && !sameAxes(axes, value.axes)) {
      const declaredAt = param.span
      report.report('KTL2026', source, written.span, {
        target: param.name.text,
        axes: value.axes,
        declared: axes,
        declaredAt,
      })
    }
    inputs.set(param.name.text, { value, declared: param.name.span })
  })
  return resolveEpilogueBody(declaration, inputs, { ...context, inlining: [...inlining, name], inEpilogue: true })
}

/** Output values of a declaration whose parameters are known; null if one of them has none. */
export function resolveEpilogueBody(
  declaration: EpilogueDecl,
  inputs: ReadonlyMap<string, Input>,
  context: BodyContext,
): readonly Resolved[] | null {
  const names = declaration.outputs ?? []
  const outputs = new Map<string, DeclaredOutput>(names.map((n) => [n.text, { axes: null, declared: n.span }]))
  const scope = new BodyScope(inputs, declaration.body)
  const { returned } = resolveBody(declaration.body, scope, outputs, context)
  const { report, source } = context
  if (returned && returned.length !== names.length) {
    const span = declaration.body.at(-1)!.span
    report.report('KTL2014', source, span, { targets: names.length, values: returned.length, callee: null })
    return null
  }
  const values = names.map((name, i) => returned?.[i]?.value ?? scope.values.get(name.text)?.value)
  names.forEach((name, i) => {
    if (!values[i]) report.report('KTL2011', source, name.span, { output: name.text })
    else scope.used.add(name.text)
  })
  reportUnused(scope, 'parameter', context)
  return values.every((value) => value !== undefined) ? values : null
}

/** Warns of values and inputs (`what` they are called) that nothing reads. */
export function reportUnused(scope: BodyScope, what: 'operand' | 'parameter', { report, source }: BodyContext): void {
  for (const [name, { target }] of scope.values) {
    if (!scope.used.has(name)) report.report('KTL2008', source, target.name.span, { name, what: 'value' })
  }
  for (const [name, { declared }] of scope.inputs) {
    if (declared && !scope.used.has(name)) report.report('KTL2008', source, declared, { name, what })
  }
}
