/**
 * Tensor-IR expressions as CUDA: one statement per function call, shared value or long formula; short formulas stay in
 * one expression with only the parentheses they need. Evaluation follows the tree, so the written order is kept.
 */
import { CUDA_COMPUTE_TYPE } from '../../compiler/dtypes.ts'
import { operation, resolveTypes, type CudaForm, type Operation } from '../../compiler/ops.ts'
import type { ApplyNode, ComputeType, InputNode, Node, Skip0Node, TensorProgram } from '../../compiler/ir/tensor.ts'
import { castConversion, convertCompute } from './conversion.ts'

export { castConversion, convertCompute, hasZero, loadConversion, loadInside, storeConversion } from './conversion.ts'

/**
 * CUDA text of a node that the surrounding code provides (inputs, scalars, sizes, contractions, reductions), in the
 * node's compute type; null: the emitter computes it.
 */
export type LeafText = (node: Node) => string | null

export interface ExpressionContext {
  /** Device functions that the text calls; see printDeviceFunctions. */
  readonly functions: Set<string>
  /** Names of values computed so far: pass the same map to share them between expressions. */
  readonly emitted?: Map<Node, string>
  /** Numbers temporaries; share it between contexts whose texts stand in one scope. Default: one for each `emitted`. */
  readonly temporaries?: Counter
  readonly accuracy?: TensorProgram['accuracy']
  /** Text of a read at computed positions, which are names or literals; needed where there are such reads. */
  readonly read?: (node: InputNode, at: readonly string[]) => string
}

export interface Counter {
  count: number
}

const COUNTERS = new WeakMap<Map<Node, string>, Counter>()

function counterOf(emitted: Map<Node, string>): Counter {
  const counter = COUNTERS.get(emitted) ?? { count: 0 }
  COUNTERS.set(emitted, counter)
  return counter
}

export interface EmittedExpression {
  /** Lines, already indented relative to each other. */
  readonly statements: string[]
  /** A name or literal. */
  readonly value: string
}

export interface EmittedExpressions {
  readonly statements: string[]
  readonly values: string[]
}

/** Statements that compute `node`, and its value. */
export function emitExpression(node: Node, leaf: LeafText, context: ExpressionContext): EmittedExpression {
  const { statements, values } = emitExpressions([node], leaf, context)
  return { statements, value: values[0]! }
}

/** Statements that compute several nodes, sharing what they have in common, and their values. */
export function emitExpressions(
  nodes: readonly Node[],
  leaf: LeafText,
  context: ExpressionContext,
): EmittedExpressions {
  const emitter = new ExpressionEmitter(leaf, context)
  for (const node of nodes) emitter.countUses(node)
  const values = nodes.map((node) => emitter.bound(node))
  return { statements: emitter.statements, values }
}

/** Expression text and how tightly it binds (C++ operator precedence; higher is tighter). */
interface Text {
  readonly text: string
  readonly precedence: number
}

const ATOM = 20
const PREFIX = 15
const CONDITIONAL = 3
const PRECEDENCE: Readonly<Record<string, number>> = {
  '*': 13,
  '/': 13,
  '+': 12,
  '-': 12,
  '<': 10,
  '<=': 10,
  '>': 10,
  '>=': 10,
  '==': 9,
  '!=': 9,
  '&&': 5,
  '||': 4,
}
const LONGEST_INLINE = 72

const atom = (text: string): Text => ({ text, precedence: ATOM })
/** A name or a number. */
const isName = (text: string): boolean => /^(?:[A-Za-z_]\w*|-?[\d.][\w.+-]*)$/.test(text)

class ExpressionEmitter {
  readonly statements: string[] = []
  readonly #leaf: LeafText
  readonly #functions: Set<string>
  readonly #emitted: Map<Node, string>
  readonly #temporaries: Counter
  readonly #approx: boolean
  readonly #read: ExpressionContext['read']
  readonly #uses = new Map<Node, number>()
  #indent = ''

  constructor(leaf: LeafText, context: ExpressionContext) {
    this.#leaf = leaf
    this.#functions = context.functions
    this.#emitted = context.emitted ?? new Map()
    this.#temporaries = context.temporaries ?? counterOf(this.#emitted)
    this.#approx = context.accuracy === 'approx'
    this.#read = context.read
  }

  countUses(node: Node): void {
    const uses = this.#uses.get(node) ?? 0
    this.#uses.set(node, uses + 1)
    if (uses > 0 || this.#emitted.has(node) || this.#leaf(node) !== null) return
    if (node.kind === 'apply') node.args.forEach((arg) => this.countUses(arg))
    else if (node.kind === 'cast') this.countUses(node.value)
    else if (node.kind === 'input') node.at?.forEach((position) => this.countUses(position))
    else if (node.kind === 'skip0') {
      this.countUses(node.scale)
      this.countUses(node.value)
    }
  }

  /** The node's value as a name or literal. */
  bound(node: Node): string {
    const known = this.#emitted.get(node)
    if (known !== undefined) return known
    const { text } = this.#build(node)
    return isName(text) ? text : this.#bind(node, text)
  }

  #bind(node: Node, text: string): string {
    const name = this.#name(node)
    this.statements.push(`${this.#indent}const ${CUDA_COMPUTE_TYPE[node.type]} ${name} = ${text};`)
    this.#emitted.set(node, name)
    return name
  }

  /** `gelu_3`, `load_0`: what computed it, and a number no other temporary of the context has. */
  #name(node: Node): string {
    const what =
      node.kind === 'apply'
        ? node.op
        : node.kind === 'cast'
          ? `as_${node.to}`
          : node.kind === 'accumulator'
            ? 'contract'
            : node.kind
    return `${what}_${this.#temporaries.count++}`
  }

  /** The node's value as an operand: inline if it is short and used once, else by name. */
  #operand(node: Node): Text {
    const known = this.#emitted.get(node)
    if (known !== undefined) return atom(known)
    const built = this.#build(node)
    if (isName(built.text)) return atom(built.text)
    const isCall = node.kind === 'apply' && built.precedence === ATOM
    const once = this.#uses.get(node) === 1
    return once && !isCall && built.text.length <= LONGEST_INLINE ? built : atom(this.#bind(node, built.text))
  }

  #build(node: Node): Text {
    const leaf = this.#leaf(node)
    if (leaf !== null) return atom(leaf)
    switch (node.kind) {
      case 'const':
        return literal(node.type, node.value)
      case 'apply':
        return this.#apply(node)
      case 'cast':
        return atom(castConversion(node.to, node.value.type, this.#operand(node.value).text, this.#functions))
      case 'skip0':
        return atom(this.#skip0(node))
      case 'input':
        if (node.at && this.#read)
          return atom(
            this.#read(
              node,
              node.at.map((position) => this.bound(position)),
            ),
          )
        throw new Error('no CUDA text was provided for a read')
      default:
        throw new Error(`no CUDA text was provided for ${node.kind}`)
    }
  }

  #apply(node: ApplyNode): Text {
    const op = operation(node.op)
    const signature = resolveTypes(
      op,
      node.args.map((arg) => arg.type),
    )
    if ('problem' in signature) throw new Error(`${op.name}: ${signature.problem}`)
    const type = signature.operands.at(-1)!
    const square = smallPower(op, node)
    if (square !== null) {
      const x = this.#converted(node.args[0]!, type, true).text
      return { text: Array.from({ length: square }, () => x).join(' * '), precedence: PRECEDENCE['*']! }
    }
    const args = node.args.map((arg, i) => this.#converted(arg, signature.operands[i]!, false))
    const form = this.#form(op, node, type)
    if (!form) throw new Error(`${op.name} has no CUDA form for ${type}`)
    return this.#print(form, args)
  }

  #form(op: Operation, node: ApplyNode, type: ComputeType): CudaForm | undefined {
    if (node.short) return op.short
    return this.#approx && type === 'f32' && op.approx ? op.approx.form : op.cuda[type]
  }

  #converted(arg: Node, type: ComputeType, named: boolean): Text {
    if (arg.kind === 'const') return literal(type, arg.value)
    if (arg.type === type) return named ? atom(this.bound(arg)) : this.#operand(arg)
    return atom(convertCompute(arg.type, type, this.#operand(arg).text, this.#functions))
  }

  #print(form: CudaForm, args: readonly Text[]): Text {
    const [a, b, c] = args as [Text, Text, Text]
    switch (form.kind) {
      case 'infix': {
        const precedence = PRECEDENCE[form.operator]!
        // The right side needs parentheses at equal precedence too: a - (b - c).
        return {
          text: `${parenthesised(a, precedence)} ${form.operator} ${parenthesised(b, precedence + 1)}`,
          precedence,
        }
      }
      case 'prefix':
        // `-` before a negative literal must not become `--`.
        return {
          text: `${form.operator}${parenthesised(a, a.text.startsWith('-') ? ATOM + 1 : PREFIX)}`,
          precedence: PREFIX,
        }
      case 'conditional':
        return {
          text: `${parenthesised(a, 4)} ? ${parenthesised(b, 4)} : ${parenthesised(c, 4)}`,
          precedence: CONDITIONAL,
        }
      case 'call':
        if (form.function.startsWith('ktl_')) this.#functions.add(form.function)
        return atom(`${form.function}(${args.map((arg) => arg.text).join(', ')})`)
    }
  }

  /** A condition around everything that only `value` needs, its loads included. */
  #skip0(node: Skip0Node): string {
    const type = CUDA_COMPUTE_TYPE[node.type]
    const scale = this.bound(node.scale)
    const name = this.#name(node)
    this.statements.push(`${this.#indent}${type} ${name} = ${literal(node.type, 0).text};`)
    this.statements.push(`${this.#indent}if (${scale} != ${literal(node.scale.type, 0).text}) {`)
    this.#emitted.set(node, name)
    const before = [...this.#emitted.keys()]
    this.#indent += '  '
    const product: ApplyNode = { ...node, kind: 'apply', op: 'mul', args: [node.scale, node.value] }
    this.statements.push(`${this.#indent}${name} = ${this.#apply(product).text};`)
    this.#indent = this.#indent.slice(2)
    this.statements.push(`${this.#indent}}`)
    this.#forgetAllBut(before)
    return name
  }

  /** Names declared inside a condition are gone after it. */
  #forgetAllBut(kept: readonly Node[]): void {
    const known = new Set(kept)
    for (const node of [...this.#emitted.keys()]) if (!known.has(node)) this.#emitted.delete(node)
  }
}

const parenthesised = ({ text, precedence }: Text, needed: number): string => (precedence < needed ? `(${text})` : text)

/** x ^ 2 and x ^ 3 are products. */
function smallPower(op: Operation, node: ApplyNode): number | null {
  const exponent = node.args[1]
  if (op.name !== 'pow' || exponent?.kind !== 'const') return null
  return exponent.value === 2 || exponent.value === 3 ? exponent.value : null
}

/** A number as a CUDA literal of a compute type: the shortest decimal that reads back the same. */
export function literal(type: ComputeType, value: number): Text {
  if (type === 'bool') return atom(value ? 'true' : 'false')
  if (type === 'i32')
    return value === -2147483648 ? { text: '-2147483647 - 1', precedence: 12 } : signed(String(value), value)
  if (type === 'u32') return atom(`${value >>> 0}u`)
  if (!Number.isFinite(value)) {
    const bits = Number.isNaN(value) ? '7fffffff' : value > 0 ? '7f800000' : 'ff800000'
    return atom(type === 'f32' ? `__uint_as_float(0x${bits}u)` : `(double)__uint_as_float(0x${bits}u)`)
  }
  const decimal = Object.is(value, -0) ? '-0' : type === 'f32' ? shortestF32(value) : String(value)
  return signed(`${/[.e]/.test(decimal) ? decimal : `${decimal}.0`}${type === 'f32' ? 'f' : ''}`, value)
}

const signed = (text: string, value: number): Text => ({
  text,
  precedence: value < 0 || Object.is(value, -0) ? PREFIX : ATOM,
})

function shortestF32(value: number): string {
  const rounded = Math.fround(value)
  for (let digits = 1; digits < 9; digits++) {
    const candidate = Number(rounded.toPrecision(digits))
    if (Math.fround(candidate) === rounded) return String(candidate)
  }
  return String(Number(rounded.toPrecision(9)))
}
