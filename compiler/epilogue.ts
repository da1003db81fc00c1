/**
 * Epilogue arguments: what a string or a named epilogue takes and gives, how the shapes of its operands become axes,
 * and its body as resolved expressions over a kernel's accumulator.
 */
import {
  axisNamesOf,
  type EpilogueDecl,
  type Expr,
  type Name,
  type NumberLiteral,
  type Reference,
  type Span,
} from '../grammar/ast.ts'
import { diagnose } from '../grammar/catalogue/index.ts'
import { KtlError, type Diagnostic, type Source } from '../grammar/diagnostics.ts'
import type { DTypeName } from '../grammar/vocabulary.ts'
import { isDType } from './dtypes.ts'
import { BodyScope, checkReserved, resolveBody, type Input } from './check/body.ts'
import { aloneContext } from './check/context.ts'
import { Reporter } from './check/report.ts'
import type { Divisibility } from './ir/tensor.ts'

/** What the caller binds a name to. */
export type EpilogueBinding =
  | {
      readonly kind: 'tensor'
      readonly dtype: DTypeName
      /** Logical order, in the names of `BoundEpilogue.axes`. */
      readonly axes: readonly string[]
      /** Memory order of `axes`, outermost first. */
      readonly order: readonly string[]
      readonly divisibility: Divisibility
      /** Read at indices: `axes` are its own, none of the output's. */
      readonly indexed?: boolean
      /** Axes of an output that it may lack as well: their extent is 1. */
      readonly unit?: readonly string[]
    }
  /** A number, passed at launch. */
  | { readonly kind: 'scalar'; readonly dtype: DTypeName }
  /** A tensor of one element. */
  | { readonly kind: 'element'; readonly dtype: DTypeName }

export interface BoundEpilogue {
  readonly declaration: EpilogueDecl
  readonly source: Source
  /** Inputs and extra outputs by name; the slot's own output is not among them. */
  readonly bindings: Readonly<Record<string, EpilogueBinding>>
  /** Names for the output's axes, e.g. `['l', 'm', 'n']`; they align at the right with those of the slot's output. */
  readonly axes: readonly string[]
  /** Names for the axes of groups that the output's rows are in, in the order of those rows' axes. */
  readonly groups?: readonly string[]
  /** Named epilogues that the text may call. */
  readonly epilogues?: ReadonlyMap<string, EpilogueDecl>
}

export interface EpilogueName {
  readonly name: string
  /** `bias[m]`; null: not annotated. */
  readonly axes: readonly string[] | null
  readonly span: Span
}

export interface EpilogueSignature {
  /** Names the accumulator goes by. */
  readonly accumulator: readonly string[]
  readonly inputs: readonly (EpilogueName & {
    readonly defaultValue: NumberLiteral | null
    /** A parameter that the body never reads is not. */
    readonly used: boolean
    /** Read at indices (`T[ids[m], n / 2]`), so that it has axes of its own. Brackets with names of axes alone are an annotation. */
    readonly indexed: boolean
    /** It stands nowhere but in brackets, comparisons and conversions: unless it is bound, it is the axis of that name. */
    readonly mayBeAxis: boolean
  })[]
  /** Name of the variable that goes to `out`; null: a bare expression. */
  readonly slot: string | null
  /** Outputs of their own, in the order they are returned. */
  readonly outputs: readonly EpilogueName[]
  /** Assigned names that are not returned. */
  readonly locals: readonly string[]
}

/**
 * What an epilogue takes and gives, known from its text alone. Throws a KtlError for parameters that are declared twice
 * (KTL2002), reserved names (KTL2003), a returned name that is never assigned (KTL2011), annotations that disagree
 * (KTL2017) or repeat an axis (KTL2019), when nothing goes to `out` (KTL2022), a `def` has no parameter (KTL2025) or
 * returned values have no name (KTL2034).
 */
export function inspectEpilogue(declaration: EpilogueDecl, source: Source): EpilogueSignature {
  const { signature, diagnostics } = checkEpilogue(declaration, source)
  if (diagnostics.length > 0) throw new KtlError(diagnostics)
  return signature
}

/** The same without throwing. */
export function checkEpilogue(
  declaration: EpilogueDecl,
  source: Source,
): { signature: EpilogueSignature; diagnostics: Diagnostic[] } {
  const diagnostics: Diagnostic[] = []
  const { params, body, spelling } = declaration
  const named = spelling === 'def' || spelling === 'declaration'
  if (named && params.length === 0)
    diagnostics.push(diagnose('KTL2025', { source, span: declaration.name?.span ?? declaration.span }))
  const accumulator = named ? params.slice(0, 1).map((param) => param.name.text) : ['acc', 'accum']

  const assigned = new Map<string, EpilogueName>()
  const inputs = new Map<string, EpilogueSignature['inputs'][number]>()
  const reserved: Diagnostic[] = []
  const annotations = new Map<string, Name[]>()
  const annotate = (name: Name, axes: readonly Name[] | null): void => {
    if (!axes) return
    const before = annotations.get(name.text)
    const again = axes.find((axis, i) => textOf(axes).indexOf(axis.text) < i)
    if (again) diagnostics.push(diagnose('KTL2019', { source, span: again.span, axis: again.text, name: name.text }))
    if (!before) annotations.set(name.text, [...axes])
    else if (textOf(before).join() !== textOf(axes).join()) {
      const span = spanOf(axes)
      const params = { name: name.text, axes: textOf(axes), previousAxes: textOf(before), previous: spanOf(before) }
      diagnostics.push(diagnose('KTL2017', { source, span, ...params }))
    }
  }
  for (const { name, axes, defaultValue, span } of params.slice(1)) {
    annotate(name, axes)
    inputs.set(name.text, {
      name: name.text,
      axes: null,
      span,
      defaultValue,
      used: false,
      indexed: false,
      mayBeAxis: false,
    })
  }
  if (spelling !== 'declaration') checkParameters(params, source, diagnostics)
  const indexed = indexedNames(body)
  for (const statement of body) {
    for (const { reference, isIndex } of referencesIn(statement, indexed)) {
      const { name, at } = reference
      const isIndexed = indexed.has(name.text)
      if (!isIndexed) annotate(name, axisNamesOf({ at }))
      if (accumulator.includes(name.text) || assigned.has(name.text)) continue
      const known = inputs.get(name.text)
      if (!known) reserved.push(...reservedName(name, source))
      const mayBeAxis = at === null && isIndex && (known?.mayBeAxis ?? true)
      const input = { name: name.text, axes: null, span: name.span, defaultValue: null, ...known }
      inputs.set(name.text, { ...input, used: true, indexed: isIndexed, mayBeAxis })
    }
    if (statement.kind !== 'equation') continue
    for (const { name, at } of statement.targets) {
      annotate(name, axisNamesOf({ at }))
      assigned.set(name.text, { name: name.text, axes: null, span: name.span })
    }
  }
  diagnostics.push(...reserved)
  const { slot, names } = returnedBy(declaration, new Set([...accumulator, ...assigned.keys()]), source, diagnostics)
  const annotated = <T extends EpilogueName>(x: T): T => ({
    ...x,
    axes: annotations.has(x.name) ? textOf(annotations.get(x.name)!) : null,
  })
  const outputs = names.map((name) => annotated({ name: name.text, axes: null, span: name.span }))
  const locals = [...assigned.keys()].filter((name) => name !== slot && !outputs.some((output) => output.name === name))
  const signature = { accumulator, inputs: [...inputs.values()].map(annotated), slot, outputs, locals }
  if (spelling !== 'declaration' && diagnostics.length === 0)
    diagnostics.push(...bodyErrors(declaration, signature, source))
  return { signature, diagnostics }
}

/** Reserved names; calls of functions that are none, or with another number of arguments. */
const WHATEVER_IS_BOUND: ReadonlySet<string> = new Set([
  'KTL2003',
  'KTL2004',
  'KTL2016',
  'KTL2028',
  'KTL2303',
  'KTL2310',
])

/** What is wrong whatever the names are bound to. That of a declaration is found with its file. */
function bodyErrors(
  { body }: EpilogueDecl,
  { accumulator, inputs, outputs }: EpilogueSignature,
  source: Source,
): Diagnostic[] {
  const report = new Reporter()
  const names = [...accumulator, ...inputs.map(({ name }) => name)]
  const value = (name: string): Input => ({
    value: { kind: 'scalar', name, axes: [], source, span: { start: 0, end: 0 } },
    declared: null,
  })
  const scope = new BodyScope(new Map(names.map((name) => [name, value(name)])), body)
  const context = aloneContext({ source, report, epilogues: new Map(), kernels: new Set() }, [])
  resolveBody(body, scope, new Map(outputs.map(({ name }) => [name, { axes: null, declared: null }])), context)
  return report.diagnostics.filter(({ code }) => WHATEVER_IS_BOUND.has(code))
}

/** Parameters of a `def`; those of a declaration are checked with its file. */
function checkParameters(params: EpilogueDecl['params'], source: Source, diagnostics: Diagnostic[]): void {
  params.forEach(({ name }, i) => {
    const first = params.findIndex((param) => param.name.text === name.text)
    const again = { source, span: name.span, name: name.text, what: 'parameter', previous: params[first]!.name.span }
    diagnostics.push(...(first < i ? [diagnose('KTL2002', again)] : reservedName(name, source)))
  })
}

function reservedName(name: Name, source: Source): readonly Diagnostic[] {
  const report = new Reporter()
  checkReserved(name, { report, source })
  return report.diagnostics
}

/** What goes to `out` (a variable, or null for a bare expression), and the other returned names, all of `known` values. */
function returnedBy(
  { outputs, body, name, span }: EpilogueDecl,
  known: ReadonlySet<string>,
  source: Source,
  diagnostics: Diagnostic[],
): { slot: string | null; names: readonly Name[] } {
  if (outputs) {
    const slot = outputs.find((output) => output.text === 'D') ?? outputs[0]!
    return { slot: slot.text, names: outputs.filter((output) => output !== slot) }
  }
  const last = body.at(-1)
  const values: readonly Expr[] =
    last?.kind === 'return' ? last.values : last?.kind === 'expressionStatement' ? [last.value] : []
  if (values.length === 0) {
    if (!known.has('D'))
      diagnostics.push(diagnose('KTL2022', { source, span: body.at(-1)?.span ?? span, name: name?.text ?? null }))
    return { slot: 'D', names: [] }
  }
  const names = values.flatMap((e) => (e.kind === 'reference' ? [e.name] : []))
  for (const n of names.filter((n) => !known.has(n.text)))
    diagnostics.push(diagnose('KTL2011', { source, span: n.span, output: n.text }))
  const bare = values.filter((e) => e.kind !== 'reference')
  const slot = names.find((n) => n.text === 'D') ?? (bare.length === 0 ? names[0]! : null)
  for (const e of slot ? bare : bare.slice(1))
    diagnostics.push(diagnose('KTL2034', { source, span: e.span, name: null }))
  return { slot: slot?.text ?? null, names: names.filter((n) => n !== slot) }
}

interface Use {
  readonly reference: Reference
  /** In brackets, on a side of a comparison, or converted: where the position along an axis makes sense. */
  readonly isIndex: boolean
}

const COMPARISONS: ReadonlySet<string> = new Set(['<', '<=', '>', '>=', '==', '!='])

const valuesOf = (statement: EpilogueDecl['body'][number]): readonly Expr[] =>
  statement.kind === 'return' ? statement.values : [statement.value]

/** Names in the order in which they stand; those of annotations are axes, and no uses. */
function* referencesIn(statement: EpilogueDecl['body'][number], indexed: ReadonlySet<string>): Generator<Use> {
  const pending = valuesOf(statement)
    .map((e) => ({ e, isIndex: false }))
    .reverse()
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { e, isIndex } = next
    const push = (isIndex: boolean, ...operands: readonly Expr[]): void =>
      void pending.push(...[...operands].reverse().map((e) => ({ e, isIndex })))
    if (e.kind === 'reference') {
      yield { reference: e, isIndex }
      if (e.at && indexed.has(e.name.text)) push(true, ...e.at)
    } else if (e.kind === 'unary') push(isIndex, e.operand)
    else if (e.kind === 'binary') push(isIndex || COMPARISONS.has(e.op), e.left, e.right)
    else if (e.kind === 'call') push(isIndex || isDType(e.callee.text), ...e.args)
    else if (e.kind === 'reduce' || e.kind === 'slot') push(isIndex, e.value)
  }
}

/** Names with brackets that hold more than names of axes. */
function indexedNames(body: EpilogueDecl['body']): ReadonlySet<string> {
  const names = new Set<string>()
  const pending = body.flatMap((statement) => [...valuesOf(statement)])
  for (let e = pending.pop(); e; e = pending.pop()) {
    if (e.kind === 'reference') {
      if (e.at && (axisNamesOf(e) === null || e.outside)) names.add(e.name.text)
      pending.push(...(e.at ?? []))
    } else if (e.kind === 'unary') pending.push(e.operand)
    else if (e.kind === 'binary') pending.push(e.left, e.right)
    else if (e.kind === 'call') pending.push(...e.args)
    else if (e.kind === 'reduce' || e.kind === 'slot') pending.push(e.value)
  }
  return names
}

const textOf = (names: readonly Name[]): string[] => names.map((name) => name.text)
const spanOf = (names: readonly Name[]): Span => ({ start: names[0]!.span.start, end: names.at(-1)!.span.end })

/**
 * Axes of an epilogue operand, by position: `shape` aligns at the right with the output's logical axes, an extent of
 * literally 1 broadcasts. An annotation names the axes instead. One entry for each dimension of `shape`; null:
 * broadcast. All null: a scalar. Never depends on whether two extents happen to be equal. Throws KTL2033, which points
 * `at` the operand.
 */
export function resolveEpilogueAxes(
  operand: Pick<EpilogueName, 'name' | 'axes'>,
  shape: readonly number[],
  output: readonly string[],
  extents: Readonly<Record<string, number>>,
  at: { readonly source: Source; readonly span: Span } | null = null,
  /** Axes of groups that an annotation may name as well. */
  groups: readonly string[] = [],
): readonly (string | null)[] {
  const refuse = (expected: string): never => {
    const { name } = operand
    const diagnostic = diagnose('KTL2033', {
      source: at?.source ?? null,
      span: at?.span ?? null,
      name,
      shape,
      expected,
    })
    throw new KtlError(diagnostic, { operand: name, expected, got: `[${shape.join(', ')}]` })
  }
  const show = (axes: readonly string[]): string => `[${axes.map((axis) => `${axis} = ${extents[axis]}`).join(', ')}]`
  const annotation = operand.axes
  const unknown = annotation?.find((axis) => !output.includes(axis) && !groups.includes(axis))
  if (unknown !== undefined) refuse(`axes of the output, ${show(output)}; there is no ${unknown}`)
  if (annotation && annotation.length !== shape.length) {
    // `bias[m]` with shape [M, 1]: extents of 1 may be left out of the annotation.
    const kept = shape.filter((extent) => extent !== 1)
    if (kept.length !== annotation.length) refuse(`${show(annotation)}, as annotated`)
    let i = 0
    return shape.map((extent) => (extent === 1 ? null : matching(annotation[i++]!, extent)))
  }
  const axes = annotation ?? output.slice(Math.max(0, output.length - shape.length))
  const leading = shape.length - axes.length
  return shape.map((extent, i) => {
    if (extent === 1) return null
    const axis = axes[i - leading]
    return axis === undefined ? refuse(`at most ${output.length} dimensions: ${show(output)}`) : matching(axis, extent)
  })

  function matching(axis: string, extent: number): string {
    if (extents[axis] === extent) return axis
    return refuse(
      annotation
        ? `${show(annotation)}, as annotated`
        : `${show(output)} or 1 in place of an extent, aligned at the right`,
    )
  }
}
