/** Random syntax trees, well formed by construction, without positions (all spans are 0…0). */
import fc, { type Arbitrary } from 'fast-check'
import type {
  AxisRef, AxisStatement, BinaryOp, EpilogueDecl, EpilogueParam, Equation, Expr, Item, KernelDecl, Name, NumberLiteral, OperandDecl,
  PartType, Program, Reference, ScheduleDecl, ScheduleValue, Statement, Target, TensorType, TypeName,
} from '../../grammar/ast.ts' // prettier-ignore
import { PRECEDENCE } from '../../grammar/pratt.ts'
import { KEYWORDS, LITERAL_NAMES } from '../../grammar/vocabulary.ts'

/** The same trees in every run; KTL_SEED tries others. */
fc.configureGlobal({ seed: Number(process.env['KTL_SEED'] ?? 1) })

export const span = { start: 0, end: 0 }

/** The tree without positions, to compare trees of different texts. */
export function withoutSpans<T>(tree: T): T {
  if (Array.isArray(tree)) return tree.map(withoutSpans) as T
  if (typeof tree !== 'object' || tree === null) return tree
  const fields = Object.entries(tree).map(([key, value]) => [key, key === 'span' ? span : withoutSpans(value)])
  return Object.fromEntries(fields) as T
}

const RESERVED: readonly string[] = [...KEYWORDS, ...LITERAL_NAMES]
const NAMES = ['acc', 'D', 'x', 'kernels', 'on1', 'f16', 'start', 'length', 'floor', 'infx']
const ident = fc
  .oneof(fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,4}$/), fc.constantFrom(...NAMES))
  .filter((text) => !RESERVED.includes(text))
const toName = (text: string): Name => ({ kind: 'name', text, span })
const name: Arbitrary<Name> = ident.map(toName)
const word: Arbitrary<Name> = fc.oneof({ weight: 4, arbitrary: ident }, fc.constantFrom(...RESERVED)).map(toName)
const typeName: Arbitrary<TypeName> = ident.map((text) => ({ kind: 'typeName', text, span }))
const axisNames = fc.array(word, { minLength: 1, maxLength: 4 })
const nullable = <T>(arbitrary: Arbitrary<T>): Arbitrary<T | null> => fc.option(arbitrary, { nil: null })
const docLine = fc.string({ unit: 'grapheme', maxLength: 12 }).map((line) => line.replace(/[\r\n]/g, '').trimEnd())
const doc = nullable(fc.array(docLine, { minLength: 1, maxLength: 3 }).map((lines) => lines.join('\n')))

const number: Arbitrary<NumberLiteral> = fc
  .oneof(
    fc.nat().map((value) => ({ text: String(value), integer: true })),
    fc
      .constantFrom('0.5', '.25', '3.', '1e-3', '2.5E+2', '7e0', 'inf', 'nan')
      .map((text) => ({ text, integer: false })),
  )
  .map(({ text, integer }) => ({
    kind: 'number',
    text,
    value: text === 'inf' ? Infinity : Number(text),
    integer,
    span,
  }))
const signedNumber: Arbitrary<NumberLiteral> = fc
  .tuple(number, fc.boolean())
  .map(([n, minus]) => (minus ? { ...n, text: `-${n.text}`, value: -n.value } : n))

/** An axis alone may have a keyword for a name. */
const axisIndex: Arbitrary<Reference> = word.map((axis) => ({
  kind: 'reference',
  name: axis,
  at: null,
  outside: null,
  span,
}))
const indices = (entry: Arbitrary<Expr>): Arbitrary<readonly Expr[]> =>
  fc.array(fc.oneof(axisIndex, entry), { minLength: 1, maxLength: 4 })

export const expr: Arbitrary<Expr> = fc.letrec<{ expr: Expr }>((tie) => ({
  expr: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    name.map((n): Reference => ({ kind: 'reference', name: n, at: null, outside: null, span })),
    number,
    fc.record({
      kind: fc.constant('size' as const),
      fn: fc.constantFrom('size', 'start', 'length'),
      axis: word,
      span: fc.constant(span),
    }),
    fc.record({
      kind: fc.constant('reference' as const),
      name,
      at: indices(tie('expr')),
      outside: nullable(signedNumber),
      span: fc.constant(span),
    }),
    fc.record({
      kind: fc.constant('unary' as const),
      op: fc.constantFrom('-', '!', '+'),
      operand: tie('expr'),
      span: fc.constant(span),
    }),
    fc.record({
      kind: fc.constant('binary' as const),
      op: fc.constantFrom(...(Object.keys(PRECEDENCE) as BinaryOp[])),
      left: tie('expr'),
      right: tie('expr'),
      span: fc.constant(span),
    }),
    fc.record({
      kind: fc.constant('call' as const),
      // `start(t)` is a function of an axis.
      callee: name.filter(({ text }) => text !== 'start' && text !== 'length'),
      args: fc.array(tie('expr'), { maxLength: 3 }),
      span: fc.constant(span),
    }),
    fc.record({
      kind: fc.constant('reduce' as const),
      fn: name,
      axes: axisNames,
      value: tie('expr'),
      span: fc.constant(span),
    }),
    fc.record({ kind: fc.constant('slot' as const), value: tie('expr'), span: fc.constant(span) }),
  ),
})).expr

// ---- operands and kernels ----

const axis: Arbitrary<AxisRef> = fc.record({
  kind: fc.constant('axis' as const),
  name: word,
  optional: fc.boolean(),
  divisor: nullable(fc.nat(64)),
  span: fc.constant(span),
})
const axes = fc.array(axis, { minLength: 1, maxLength: 4 })
const part = <A extends AxisRef[] | null>(partAxes: Arbitrary<A>, floor: Arbitrary<boolean>): Arbitrary<PartType> =>
  fc.record({
    kind: fc.constant('partType' as const),
    dtype: typeName,
    axes: partAxes,
    floor,
    span: fc.constant(span),
  })
const plain = { kind: 'tensorType', zero: null, scale: null, global: null, span } as const
const never = fc.constant(false)
const zero = nullable(part(nullable(axes), never))
const tensorType: Arbitrary<TensorType> = fc.oneof(
  fc.record({ dtype: typeName, axes: nullable(axes) }).map((data): TensorType => ({ ...plain, ...data })),
  fc
    .record({
      dtype: typeName,
      axes,
      zero,
      scale: part(axes, fc.boolean()),
      global: nullable(part(nullable(axes), never)),
    })
    .map((stored): TensorType => ({ ...plain, ...stored })),
  fc
    .record({ dtype: typeName, axes, zero, global: part(fc.constant(null), never) })
    .map((stored): TensorType => ({ ...plain, ...stored })),
)
const operand: Arbitrary<OperandDecl> = fc.record({
  kind: fc.constant('operand' as const),
  name,
  alternatives: fc.array(tensorType, { minLength: 1, maxLength: 3 }),
  defaultValue: nullable(signedNumber),
  ragged: nullable(
    fc.record({
      kind: fc.constant('ragged' as const),
      axis: word,
      form: fc.constantFrom('by', 'upto'),
      by: name,
      as: word,
      span: fc.constant(span),
    }),
  ),
  span: fc.constant(span),
})

const target = (typed: boolean): Arbitrary<Target> =>
  fc.record({
    kind: fc.constant('target' as const),
    name,
    at: nullable(indices(expr)),
    dtype: typed ? nullable(typeName) : fc.constant(null),
    span: fc.constant(span),
  })
const axisStatement: Arbitrary<AxisStatement> = fc.record({
  kind: fc.constant('axisStatement' as const),
  axis: word,
  value: expr,
  doc,
  span: fc.constant(span),
})
const equation = (typed: boolean, docs: Arbitrary<string | null>): Arbitrary<Equation> =>
  fc
    .record({
      kind: fc.constant('equation' as const),
      targets: fc.array(target(typed), { minLength: 1, maxLength: 3 }),
      tuple: fc.boolean(),
      value: expr,
      doc: docs,
      span: fc.constant(span),
    })
    .map((e) => (e.targets.length > 1 ? { ...e, tuple: true } : e))

const kernel: Arbitrary<KernelDecl> = fc.record({
  kind: fc.constant('kernel' as const),
  name,
  doc,
  accuracy: fc.constantFrom(null, 'approx', 'precise'),
  typeParams: fc.array(
    fc.record({
      kind: fc.constant('typeParam' as const),
      name,
      alternatives: fc.array(typeName, { minLength: 1, maxLength: 3 }),
      span: fc.constant(span),
    }),
    { maxLength: 2 },
  ),
  params: fc.array(operand, { maxLength: 4 }),
  outputs: fc.array(operand, { minLength: 1, maxLength: 2 }),
  body: fc.array(fc.oneof({ weight: 4, arbitrary: equation(true, doc) }, axisStatement), { maxLength: 3 }),
  span: fc.constant(span),
})

// ---- epilogues ----

const returnStatement: Arbitrary<Statement> = fc.record({
  kind: fc.constant('return' as const),
  values: fc.array(expr, { minLength: 1, maxLength: 3 }),
  span: fc.constant(span),
})
const expressionStatement: Arbitrary<Statement> = fc.record({
  kind: fc.constant('expressionStatement' as const),
  value: expr,
  span: fc.constant(span),
})
/** Equations, then perhaps one of `last`. */
const statements = (equations: Arbitrary<Equation>, ...last: Arbitrary<Statement>[]): Arbitrary<Statement[]> =>
  fc
    .tuple(fc.array(equations, { maxLength: 3 }), last.length > 0 ? nullable(fc.oneof(...last)) : fc.constant(null))
    .map(([body, end]) => (end === null ? body : [...body, end]))

const param = (typed: boolean): Arbitrary<EpilogueParam> =>
  fc.record({
    kind: fc.constant('epilogueParam' as const),
    name,
    dtype: typed ? nullable(typeName) : fc.constant(null),
    axes: typed ? nullable(axisNames) : fc.constant(null),
    defaultValue: nullable(signedNumber),
    span: fc.constant(span),
  })

const epilogue: Arbitrary<EpilogueDecl> = fc.record({
  kind: fc.constant('epilogue' as const),
  name,
  doc,
  spelling: fc.constant('declaration' as const),
  params: fc.array(param(true), { maxLength: 4 }),
  outputs: fc.array(name, { minLength: 1, maxLength: 3 }),
  body: statements(equation(true, doc), returnStatement),
  span: fc.constant(span),
})

const string = { kind: 'epilogue', doc: null, outputs: null, span } as const
export const epilogueString: Arbitrary<EpilogueDecl> = fc.oneof(
  expressionStatement.map((s): EpilogueDecl => ({
    ...string,
    name: null,
    spelling: 'expression',
    params: [],
    body: [s],
  })),
  statements(equation(true, fc.constant(null)), returnStatement, expressionStatement)
    .filter((body) => body.length > 0 && !(body.length === 1 && body[0]!.kind === 'expressionStatement'))
    .map((body): EpilogueDecl => ({ ...string, name: null, spelling: 'statements', params: [], body })),
  fc
    .tuple(
      name,
      fc.array(param(false), { maxLength: 4 }),
      statements(equation(false, fc.constant(null)), returnStatement, expressionStatement).filter((b) => b.length > 0),
    )
    .map(([defName, params, body]): EpilogueDecl => ({ ...string, name: defName, spelling: 'def', params, body })),
)

// ---- schedules ----

const scheduleValue: Arbitrary<ScheduleValue> = fc.oneof(
  fc
    .array(fc.integer({ min: 1, max: 512 }), { minLength: 2, maxLength: 3 })
    .map((extents) => ({ kind: 'shape' as const, extents, span })),
  fc.integer({ min: 1, max: 4 }).map((count) => ({ kind: 'cta' as const, count, span })),
  fc.nat(99).map((value) => ({ kind: 'count' as const, value, span })),
  word.map(({ text }) => ({ kind: 'word' as const, text, span })),
)
const schedule: Arbitrary<ScheduleDecl> = fc.record({
  kind: fc.constant('schedule' as const),
  kernels: fc.array(name, { minLength: 1, maxLength: 3 }),
  target: name,
  doc,
  entries: fc.array(
    fc.record({
      kind: fc.constant('scheduleEntry' as const),
      key: word,
      alternatives: fc.array(scheduleValue, { maxLength: 4 }),
      span: fc.constant(span),
    }),
    { maxLength: 4 },
  ),
  span: fc.constant(span),
})

const item: Arbitrary<Item> = fc.oneof(kernel, epilogue, schedule)
export const program: Arbitrary<Program> = fc
  .array(item, { maxLength: 4 })
  .map((items) => ({ kind: 'program', items, comments: [], span }))
