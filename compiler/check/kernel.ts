/** A kernel declaration → its family: operands, body, slot, legal choices of types. */
import type { KernelDecl, Name, OperandDecl, Span, TensorType, TypeName } from '../../grammar/ast.ts'
import type { Source } from '../../grammar/diagnostics.ts'
import { DTYPE_NAMES, type DTypeName } from '../../grammar/vocabulary.ts'
import { isDType } from '../dtypes.ts'
import type { FamilyAxis, FamilyOperand, FamilyScalar, FamilyTypeParameter, KernelFamily } from '../family.ts'
import { isSubset, withoutAxes } from './axes.ts'
import { BodyScope, checkProperty, checkReserved, resolveBody, type Input } from './body.ts'
import type { BodyContext, DeclaredOutput, FileContext } from './context.ts'
import { reportUnused } from './inline.ts'
import { checkExtents, checkOutputExtents, computedAxes } from './extents.ts'
import { checkRagged } from './ragged.ts'
import type { Resolved, ResolvedOutput } from './resolved.ts'
import { storedParts } from './stored.ts'
import { checkTypes } from './choices.ts'

/** The family of a declaration; null when it has errors (all of them are reported). */
export function checkKernel(declaration: KernelDecl, file: FileContext): Omit<KernelFamily, 'schedules'> | null {
  const { source, report } = file
  const before = report.errors
  const typeParameters = checkTypeParameters(declaration, file)
  const typeParams = new Set(typeParameters.map((parameter) => parameter.name))
  const typeParamUses = new Set<string>()
  checkReserved(declaration.name, file)

  const all = [...declaration.params, ...declaration.outputs]
  const declaredAxes = collectAxes(all, file)
  checkNames(all, typeParameters, declaration, file)
  const groups = new Map(all.flatMap(({ ragged }) => (ragged ? [[ragged.axis.text, ragged.as.text] as const] : [])))
  const operands: FamilyOperand[] = []
  const scalars: FamilyScalar[] = []
  for (const [i, operand] of all.entries()) {
    const role = i < declaration.params.length ? 'input' : 'output'
    const name = operand.name.text
    const dtype = checkTypeName(operand.alternatives[0]!.dtype, typeParams, typeParamUses, file)
    // Without axes an input is a scalar, an output a tensor of one element.
    const orders = checkAlternatives(operand, typeParams, typeParamUses, file) ?? (role === 'output' ? [[]] : null)
    if (orders) {
      const parts = storedParts(
        operand,
        role,
        orders[0]!.flatMap((axis) => groups.get(axis) ?? []),
        file,
      )
      const stored = parts && { stored: parts.stored }
      operands.push({ name, role, dtype, axes: orders[0]!, orders, span: operand.span, ...stored })
      operands.push(...(parts?.operands ?? []))
      scalars.push(...(parts?.scalars ?? []))
      if (operand.defaultValue) report.report('KTL2212', source, operand.defaultValue.span, { name })
    } else scalars.push({ name, dtype, defaultValue: operand.defaultValue, span: operand.span })
  }
  const ragged = checkRagged(all, operands, declaredAxes, file)
  const table = [...declaredAxes, ...computedAxes(declaration, all, file)].map((axis): FamilyAxis => {
    const known = ragged.get(axis.name)
    return known ? { ...axis, ragged: known } : axis
  })

  const inputs = new Map<string, Input>()
  const axisNames = table.map((axis) => axis.name)
  for (const { name, text, span, value } of inputValues(operands, scalars, axisNames, source)) {
    if (!inputs.has(text)) inputs.set(text, { value, declared: name ?? span })
  }
  const outputs = new Map<string, DeclaredOutput>()
  for (const { name, axes, role, span, stored, partOf } of operands) {
    if (role !== 'output' || partOf) continue
    const scale = operands.find((part) => part.name === stored?.scale)
    const blocked = axes.filter((axis) => (scale?.blocks?.[scale.axes.indexOf(axis)] ?? 1) !== 1)
    outputs.set(name, { axes, declared: span, blocked })
  }
  const context: BodyContext = {
    report,
    source,
    axes: axisNames,
    axisTable: table,
    declared: new Map([...operands, ...scalars].map((operand) => [operand.name, operand])),
    pinned: new Set(),
    axisAliases: new Map(),
    typeParams,
    typeParamUses,
    // What is wrong with a clause says nothing about the groups that it names.
    impliedAxes: [...groups].flatMap(([axis, group]) => (ragged.has(axis) ? [] : [group])),
    epilogues: file.epilogues,
    kernels: file.kernels,
    inlining: [],
    inEpilogue: false,
    axesUnknown: false,
    budget: { nodes: 0 },
  }
  const scope = new BodyScope(inputs, declaration.body)
  const { definitions, extents } = resolveBody(declaration.body, scope, outputs, context)
  const resolved = definitions.flatMap(({ target, value, equation, slot, at }): ResolvedOutput[] =>
    outputs.has(target.name.text) ? [{ operand: target.name.text, value, span: equation.span, source, slot, at }] : [],
  )
  for (const output of declaration.outputs) {
    const name = output.name.text
    scope.used.add(name)
    if (outputs.has(name) && !scope.values.has(name) && !inputs.has(name))
      report.report('KTL2011', source, output.name.span, { output: name })
  }
  for (const { ragged } of all) if (ragged) scope.used.add(ragged.by.text)
  const axes = checkExtents(table, extents, resolved, context)
  checkOutputExtents(declaration, operands, resolved, context)
  reportUnused(scope, 'operand', context)
  for (const parameter of declaration.typeParams) {
    if (!typeParamUses.has(parameter.name.text))
      report.report('KTL2009', source, parameter.name.span, { name: parameter.name.text })
  }
  warnOfRepeatedReductions(resolved, outputs, context)

  // The declared order of outputs, whatever the order of the equations.
  const order = [...outputs.keys()]
  resolved.sort((a, b) => order.indexOf(a.operand) - order.indexOf(b.operand))
  const family = {
    name: declaration.name.text,
    doc: declaration.doc,
    accuracy: declaration.accuracy ?? 'default',
    declaration,
    source,
    typeParameters,
    axes,
    operands,
    scalars,
    outputs: resolved,
    slot: resolved.find((output) => output.slot)?.operand ?? null,
  } as const
  // Types make sense only where all names do; errors in the body have left holes that typing skips.
  const namesKnown = operands.every((o) => isDType(o.dtype) || typeParams.has(o.dtype))
  if (!namesKnown || scalars.some((s) => !isDType(s.dtype) && !typeParams.has(s.dtype))) return null
  const typeChoices = checkTypes(family, report)
  // An error of a named epilogue is reported once, at the epilogue, but breaks every kernel that calls it.
  const broken = resolved.length < outputs.size || resolved.some((output) => output.value.kind === 'error')
  if (report.errors > before || broken) return null
  return { ...family, typeChoices }
}

function checkTypeParameters({ typeParams }: KernelDecl, file: FileContext): FamilyTypeParameter[] {
  const { source, report } = file
  return typeParams.map(({ name, alternatives }) => {
    checkReserved(name, file)
    const known: { dtype: DTypeName; span: Span }[] = []
    for (const { text, span } of alternatives) {
      const previous = known.find(({ dtype }) => dtype === text)
      if (!isDType(text)) report.report('KTL2201', source, span, { name: text, candidates: DTYPE_NAMES })
      else if (previous)
        report.report('KTL2002', source, span, { name: text, what: 'the alternative', previous: previous.span })
      else known.push({ dtype: text, span })
    }
    return { name: name.text, alternatives: known.map((k) => k.dtype), spans: known.map((k) => k.span) }
  })
}

/** Axes in order of first appearance; optional everywhere or nowhere. */
function collectAxes(operands: readonly OperandDecl[], { source, report }: FileContext): FamilyAxis[] {
  const axes = new Map<string, { optional: boolean; operand: string; span: Span }>()
  for (const operand of operands) {
    for (const alternative of operand.alternatives) {
      for (const { name, optional, span } of alternative.axes ?? []) {
        const axis = name.text
        const known = axes.get(axis)
        if (!known) checkProperty(name, { source, report })
        if (!known) axes.set(axis, { optional, operand: operand.name.text, span })
        else if (known.optional !== optional) {
          const params = { axis, name: operand.name.text, optional, other: known.operand, previous: known.span }
          report.report('KTL2020', source, span, params)
        }
      }
    }
  }
  return [...axes].map(([name, { optional }]) => ({ name, optional }))
}

function checkNames(
  operands: readonly OperandDecl[],
  typeParameters: readonly FamilyTypeParameter[],
  { typeParams }: KernelDecl,
  file: FileContext,
): void {
  const seen = new Map<string, Span>()
  const declare = (name: Name, what: string): void => {
    const previous = seen.get(name.text)
    if (previous) file.report.report('KTL2002', file.source, name.span, { name: name.text, what, previous })
    else seen.set(name.text, name.span)
  }
  for (const { name } of typeParams) declare(name, 'type parameter')
  for (const { name } of operands) {
    checkReserved(name, file)
    declare(name, 'operand')
  }
}

function checkTypeName(
  type: TypeName,
  params: ReadonlySet<string>,
  uses: Set<string>,
  { source, report }: FileContext,
): string {
  uses.add(type.text)
  if (!isDType(type.text) && !params.has(type.text)) {
    report.report('KTL2201', source, type.span, { name: type.text, candidates: [...DTYPE_NAMES, ...params] })
  }
  return type.text
}

/** Memory orders of an operand, the logical one first; null for a scalar. */
function checkAlternatives(
  operand: OperandDecl,
  params: ReadonlySet<string>,
  uses: Set<string>,
  file: FileContext,
): readonly (readonly string[])[] | null {
  const { source, report } = file
  const name = operand.name.text
  const [first, ...others] = operand.alternatives as [TensorType, ...TensorType[]]
  const axesOf = (type: TensorType): readonly string[] | null => type.axes?.map((axis) => axis.name.text) ?? null
  const logical = axesOf(first)
  for (const type of operand.alternatives) {
    const axes = axesOf(type) ?? []
    const repeated = type.axes?.find((axis, i) => axes.indexOf(axis.name.text) !== i)
    if (repeated) report.report('KTL2019', source, repeated.span, { axis: repeated.name.text, name })
    for (const axis of type.axes ?? [])
      if (axis.divisor !== null) report.report('KTL2231', source, axis.span, { name, axis: axis.name.text })
    for (const part of [type.zero, type.scale, type.global]) if (part) checkTypeName(part.dtype, params, uses, file)
  }
  const orders = [logical]
  const spans = [first.span]
  for (const type of others) {
    checkTypeName(type.dtype, params, uses, file)
    const axes = axesOf(type)
    const [have, got] = [logical ?? [], axes ?? []]
    const [missing, extra] = [withoutAxes(have, got), withoutAxes(got, have)]
    const twice = orders.findIndex((order) => order?.join() === axes?.join())
    if (type.dtype.text !== first.dtype.text) {
      report.report('KTL2213', source, type.dtype.span, {
        name,
        first: first.dtype.text,
        other: type.dtype.text,
        firstSpan: first.dtype.span,
      })
    } else if (missing.length > 0 || extra.length > 0) {
      report.report('KTL2018', source, type.span, { name, missing, extra, first: first.span })
    } else if (twice >= 0) {
      report.report('KTL2002', source, type.span, {
        name: source.text.slice(type.span.start, type.span.end),
        what: 'the alternative',
        previous: spans[twice]!,
      })
    } else {
      orders.push(axes)
      spans.push(type.span)
    }
  }
  return logical === null ? null : (orders as readonly (readonly string[])[])
}

function inputValues(
  operands: readonly FamilyOperand[],
  scalars: readonly FamilyScalar[],
  order: readonly string[],
  source: Source,
): { text: string; name: Span | null; span: Span; value: Resolved }[] {
  const nameSpan = (name: string, span: Span): Span => ({ start: span.start, end: span.start + name.length })
  const tensors = operands
    .filter((operand) => operand.role === 'input' && !operand.partOf)
    .map(({ name, axes, span }) => {
      const own = order.filter((axis) => axes.includes(axis))
      const value: Resolved = { kind: 'operand', name, at: null, outside: null, axes: own, source, span }
      return { text: name, name: nameSpan(name, span), span, value }
    })
  return [
    ...tensors,
    ...scalars
      .filter(({ partOf }) => !partOf)
      .map(({ name, span }) => {
        const value: Resolved = { kind: 'scalar', name, axes: [], source, span }
        return { text: name, name: nameSpan(name, span), span, value }
      }),
  ]
}

/** `D[m, k] = sum[k](A)`: legal, but the output repeats one value. */
function warnOfRepeatedReductions(
  outputs: readonly ResolvedOutput[],
  declared: ReadonlyMap<string, DeclaredOutput>,
  { report }: BodyContext,
): void {
  for (const { operand, value, source } of outputs) {
    if (value.kind !== 'reduce' && value.kind !== 'contract') continue
    const axes = value.over.filter((axis) => declared.get(operand)?.axes?.includes(axis))
    if (axes.length > 0 && isSubset(axes, value.over))
      report.report('KTL2309', source, value.span, { axes, output: operand })
  }
}
