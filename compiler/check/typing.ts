/**
 * Types of a checked body under one choice of dtypes, and the tensor IR that goes with them. Conversions that the
 * language makes by itself (integers under `/` and functions, f32 beside f64) become cast nodes here.
 */
import type { Span } from '../../grammar/ast.ts'
import { diagnose, type Code, type ParamsOf } from '../../grammar/catalogue/index.ts'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import { DTYPE_NAMES, type DTypeName } from '../../grammar/vocabulary.ts'
import { canStore, DTYPES } from '../dtypes.ts'
import type { FamilyAxis } from '../family.ts'
import { commonType, operation, resolveTypes, type ArgType } from '../ops.ts'
import type { Axis, ComputeType, ConstNode, InputNode, Node, Output } from '../ir/tensor.ts'
import { convert, typeContraction } from './typing_contraction.ts'
import { FLOORED, isIndex } from './typing_index.ts'
import {
  rootsOf,
  walkResolved,
  type Resolved,
  type ResolvedContraction,
  type ResolvedOperand,
  type ResolvedOutput,
  type ResolvedReduction,
} from './resolved.ts'

/** The input operand that stands for the accumulator in the nodes of an epilogue. */
export const ACCUMULATOR = 'epilogue()'

export interface TypingContext {
  /** The kernel's source: nodes from elsewhere (epilogue strings) have no span. */
  readonly source: Source | null
  /** Dtype of an input or scalar. */
  readonly dtypeOf: (name: string) => DTypeName
  /** Dtype of an output. */
  readonly storedAs: (output: ResolvedOutput) => DTypeName
  readonly typeOf: (type: string) => DTypeName
  /** Operands in stored forms: they are read as f32, and store f32. */
  readonly storedForms: ReadonlySet<string>
}

/** A node, a literal that has yet to find its type, or null: an error was reported. */
type Value = Node | Extract<Resolved, { kind: 'number' }> | null

export interface TypedBody {
  readonly outputs: readonly Output[]
  readonly axes: readonly Axis[]
  /** Rules this choice of types breaks. `outputs` and `axes` are complete when there are none. */
  readonly diagnostics: readonly Diagnostic[]
  /** Of an expression below the outputs; null: a literal, which takes the type of its other side, or what breaks a rule. */
  readonly nodeOf: (e: Resolved) => Node | null
}

interface Body {
  readonly outputs: readonly ResolvedOutput[]
  readonly axes: readonly FamilyAxis[]
}

export function typeBody({ outputs, axes }: Body, context: TypingContext): TypedBody {
  const typing = new Typing(
    context,
    axes.map(({ name }) => name),
  )
  const extents = axes.flatMap(({ extent }) => extent ?? [])
  for (const e of walkResolved([...rootsOf(outputs), ...extents])) typing.add(e)
  const typed = outputs.flatMap((output): Output[] => {
    const value = typing.stored(output)
    const at = output.at === null ? [] : typing.positions(output.at)
    const span = output.source === context.source ? output.span : null
    return value && at ? [{ operand: output.operand, value, span, ...(output.at && { at }) }] : []
  })
  const known = axes.map(({ extent, ...axis }): Axis => {
    const node = extent && typing.positions([extent])?.[0]
    return node ? { ...axis, extent: node } : axis
  })
  return { outputs: typed, axes: known, diagnostics: typing.diagnostics, nodeOf: (e) => typing.nodeOf(e) }
}

class Typing {
  readonly diagnostics: Diagnostic[] = []
  private readonly context: TypingContext
  /** The kernel's axes. */
  private readonly order: readonly string[]
  private readonly values = new Map<Resolved, Value>()
  /** Integers that come from axes, sizes and integer operands: `/` and `%` of them are floor division and modulus. */
  private readonly indices = new Set<Resolved>()

  constructor(context: TypingContext, order: readonly string[]) {
    this.context = context
    this.order = order
  }

  /** Types `e`, whose operands have been added before. */
  add(e: Resolved): void {
    const value = this.value(e)
    this.values.set(e, value)
    const isInteger = value !== null && (value.kind === 'number' || value.type === 'i32')
    if (isInteger && isIndex(e, this.indices)) this.indices.add(e)
  }

  nodeOf(e: Resolved): Node | null {
    const value = this.values.get(e)
    return value && value.kind !== 'number' ? value : null
  }

  /** Indices as i32 nodes; null: one is none, which has been reported. */
  positions(at: readonly Resolved[]): readonly Node[] | null {
    const nodes = at.map((index): Node | null => {
      const node = this.node(index, 'i32')
      return node && node.type !== 'i32' ? this.report('KTL2220', index, { got: node.type }) : node
    })
    return nodes.every((node) => node !== null) ? nodes : null
  }

  /** The value of an output, fit to be stored to its dtype. */
  stored(output: ResolvedOutput): Node | null {
    const { operand, value: e } = output
    const found = this.values.get(e)!
    const to = this.context.storedAs(output)
    const value = found?.kind === 'number' ? this.literal(found, literalTypeFor(found.literal.integer, to), e) : found
    if (!value) return null
    if (this.context.storedForms.has(operand) && value.type !== 'bool') return convert(value, 'f32')
    if (canStore(value.type, to)) return value
    const from = value.type
    const float = from === 'f32' || from === 'f64'
    if (float) this.report('KTL2204', e, { from, to, output: operand })
    else
      this.report('KTL2205', e, {
        from,
        to,
        output: operand,
        legal: DTYPE_NAMES.filter((name) => canStore(from, name)),
      })
    return null
  }

  private value(e: Resolved): Value {
    const { axes } = e
    const span = e.source === this.context.source ? e.span : null
    switch (e.kind) {
      case 'error':
        return null
      case 'number':
        return e
      case 'operand':
        return this.read(e, span)
      case 'accumulator':
        return { kind: 'input', operand: ACCUMULATOR, type: e.type, axes, span }
      case 'scalar':
        return { kind: 'scalar', operand: e.name, type: DTYPES[this.context.dtypeOf(e.name)].compute, axes, span }
      case 'size':
      case 'axis':
      case 'start':
      case 'length':
        return { kind: e.kind, axis: e.axis, type: 'i32', axes, span }
      case 'contract':
        return this.contraction(e, span)
      case 'reduce': {
        const value = this.node(e.value, null)
        if (!value) return null
        if (value.type === 'bool')
          return this.report('KTL2209', e, { name: writtenName(e), got: 'bool', expected: 'numbers' })
        const float = value.type === 'f32' || value.type === 'f64'
        const over = e.over
        const of = e.fn === 'mean' && !float ? convert(value, 'f32') : value
        return { kind: 'reduce', fn: e.fn, over, value: of, type: of.type, axes, span }
      }
      case 'cast': {
        const to = this.context.typeOf(e.to)
        const value = this.node(e.value, DTYPES[to].class === 'int' ? null : DTYPES[to].compute)
        return value && { kind: 'cast', to, value, type: DTYPES[to].compute, axes, span }
      }
      case 'typed':
        return this.claim(e)
      case 'skip0': {
        const [scale, value] = this.arguments('mul', [e.scale, e.value], e) ?? []
        return scale && value ? { kind: 'skip0', scale, value, type: value.type, axes, span } : null
      }
      case 'apply': {
        const name = this.floors(e) ? FLOORED[e.op]! : e.op
        const op = operation(name)
        const args = this.arguments(name, e.args, e)
        if (!args) return null
        const signature = resolveTypes(
          op,
          args.map((arg) => arg.type),
        )
        if ('problem' in signature) throw new Error(`${name}: ${signature.problem}`)
        return { kind: 'apply', op: name, args, type: signature.result, axes, span }
      }
    }
  }

  private read({ name, at, outside, axes, source }: ResolvedOperand, span: Span | null): Node | null {
    const type = this.context.storedForms.has(name) ? 'f32' : DTYPES[this.context.dtypeOf(name)].compute
    const node: InputNode = { kind: 'input', operand: name, type, axes, span }
    if (at === null) return node
    const positions = this.positions(at)
    const literal =
      outside && this.literal({ value: outside.value, literal: outside }, type, { source, span: outside.span })
    if (!positions || (outside && !literal)) return null
    return { ...node, at: positions, ...(literal && { outside: literal.value }) }
  }

  private contraction(e: ResolvedContraction, span: Span | null): Node | null {
    const [a, b] = [this.node(e.a, null), this.node(e.b, null)]
    if (!a || !b || !this.checkKinds('arithmetic', '*', [a.type, b.type], [e.a, e.b], e)) return null
    const typed = typeContraction(e, [a, b], span, this.context, this.order)
    return 'kind' in typed ? typed : this.report('KTL2203', e, typed)
  }

  private claim(e: Extract<Resolved, { kind: 'typed' }>): Node | null {
    const claimed = this.context.typeOf(e.type)
    const compute = DTYPES[claimed].compute
    const value = this.node(e.value, claimed === compute && compute !== 'bool' ? compute : null)
    if (!value || (claimed === compute && value.type === compute)) return value
    return this.report('KTL2216', e, { value: e.name, claimed, actual: value.type })
  }

  /** Is it `/` or `%` between indices? A literal beside them is one too. KTL2221: its divisor is not positive. */
  private floors({ op, args, source, span }: Extract<Resolved, { kind: 'apply' }>): boolean {
    if (!FLOORED[op] || !args.every((arg) => this.indices.has(arg)) || args.every(({ kind }) => kind === 'number'))
      return false
    const divisor = args[1]!
    if (divisor.kind === 'number' && divisor.value <= 0)
      this.diagnostics.push(
        diagnose('KTL2221', { source, span, divisor: `${divisor.value}`, op: op === 'div' ? '/' : '%' }),
      )
    return true
  }

  /** The operands of an operation, converted as its type rule says, defaults filled in. */
  private arguments(name: string, operands: readonly Resolved[], e: Resolved): readonly Node[] | null {
    const op = operation(name)
    const values = operands.map((operand) => this.values.get(operand)!)
    if (values.some((value) => value === null)) return null
    const types = values.map((value): ArgType => {
      if (value!.kind !== 'number') return value!.type
      return value!.literal.integer ? 'integer literal' : 'float literal'
    })
    if (!this.checkKinds(op.rule, op.spelling, types, operands, e)) return null
    const signature = resolveTypes(op, types)
    if ('problem' in signature) {
      const at = within(e, operands[signature.argument])
      return this.report('KTL2209', at, {
        name: op.spelling,
        got: types[signature.argument] ?? 'this',
        expected: 'numbers',
      })
    }
    const nodes = signature.operands.map((type, i) => {
      const value = values[i]!
      return value.kind === 'number' ? this.literal(value, type, operands[i]!) : convert(value, type)
    })
    if (nodes.some((node) => node === null)) return null
    const type = signature.operands.at(-1)!
    const rounded = (x: number): number => (type === 'f64' ? x : Math.fround(x))
    const defaults = op.parameters.slice(operands.length).map((p) => constant(rounded(p.default!), type, null))
    return [...(nodes as Node[]), ...defaults]
  }

  /** Bools are no numbers, and i32 and u32 have no common type. */
  private checkKinds(
    rule: string,
    spelling: string,
    types: readonly ArgType[],
    operands: readonly Resolved[],
    e: Resolved,
  ): boolean {
    const conditions = rule === 'logic' ? types.length : rule === 'select' ? 1 : 0
    for (let i = 0; i < conditions; i++) {
      if (types[i] === 'bool') continue
      const where = rule === 'select' ? 'the condition of `select`' : `\`${spelling}\``
      return (this.report('KTL2210', within(e, operands[i]), { got: types[i]!, where }), false)
    }
    const rest = types.slice(conditions)
    if (rest.length === 0) return true
    const bools = rest.filter((type) => type === 'bool').length
    if (bools === rest.length && (rule === 'select' || spelling === '==' || spelling === '!=')) return true
    if (bools > 0) {
      const at = within(e, operands[conditions + rest.indexOf('bool')])
      return (this.report('KTL2209', at, { name: spelling, got: 'bool', expected: 'numbers' }), false)
    }
    const integer = rest.find((type) => type === 'i32' || type === 'u32')
    const other = rest.find((type) => type === (integer === 'i32' ? 'u32' : 'i32'))
    if (!integer || !other) return true
    const [left, right] = rest.indexOf(integer) < rest.indexOf(other) ? [integer, other] : [other, integer]
    return (this.report('KTL2208', e, { op: spelling, left, right }), false)
  }

  /** A node of its own type, or a literal as `type` (null: what it is by itself). */
  private node(e: Resolved, type: ComputeType | null): Node | null {
    const value = this.values.get(e)!
    if (value?.kind !== 'number') return value
    return this.literal(value, type ?? commonType([value.literal.integer ? 'integer literal' : 'float literal'])!, e)
  }

  private literal(
    { value, literal }: Pick<Extract<Resolved, { kind: 'number' }>, 'value' | 'literal'>,
    type: ComputeType,
    at: Pick<Resolved, 'source' | 'span'>,
  ): ConstNode | null {
    const span = at.source === this.context.source ? at.span : null
    if (type === 'f64') return constant(value, type, span)
    if (type === 'f32') {
      const rounded = Math.fround(value)
      return Number.isFinite(rounded) || !Number.isFinite(value)
        ? constant(rounded, type, span)
        : this.report('KTL2211', at, { text: literal.text, dtype: type })
    }
    const [low, high] = type === 'i32' ? [-(2 ** 31), 2 ** 31 - 1] : type === 'u32' ? [0, 2 ** 32 - 1] : [0, 1]
    const fits = Number.isInteger(value) && value >= low && value <= high
    return fits ? constant(value, type, span) : this.report('KTL2211', at, { text: String(value), dtype: type })
  }

  private report<C extends Code>(code: C, at: Pick<Resolved, 'source' | 'span'>, params: ParamsOf<C>): null {
    this.diagnostics.push(diagnose(code, { source: at.source, span: at.span, ...params }))
    return null
  }
}

/** What a literal is when it is stored: the output's type, but a float literal stays a float. */
function literalTypeFor(integer: boolean, dtype: DTypeName): ComputeType {
  const { compute } = DTYPES[dtype]
  return integer || compute === 'f64' ? compute : 'f32'
}

/** `softmax`, which is made of other reductions. */
const writtenName = ({ source, span, fn }: ResolvedReduction): string =>
  /^\w+/.exec(source.text.slice(span.start, span.end))?.[0] ?? fn

/** Where to point: at the operand, or at the operation when the operand is written elsewhere (the accumulator of a kernel). */
function within(e: Resolved, operand: Resolved | undefined): Resolved {
  return operand?.source === e.source ? operand : e
}

function constant(value: number, type: ComputeType, span: Span | null): ConstNode {
  return { kind: 'const', value, type, axes: [], span }
}
