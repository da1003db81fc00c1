/** Values at one point of the generated code: loads at the current indices, and loops of contractions and reductions. */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../../compiler/dtypes.ts'
import { REDUCTIONS } from '../../../compiler/ops.ts'
import type { ContractNode, InputNode, Node, ReduceNode, TensorProgram } from '../../../compiler/ir/tensor.ts'
import { children, operandNamed, plainTerms } from '../../../compiler/ir/walk.ts'
import {
  convertCompute,
  emitExpressions,
  literal,
  loadConversion,
  storeConversion,
  type Counter,
} from '../../cuda/expression.ts'
import type { ParamNames } from '../../cuda/kernel_params.ts'
import type { SourceBuilder } from '../../cuda/source_builder.ts'

export interface SimtContext {
  readonly out: SourceBuilder
  readonly program: TensorProgram
  readonly names: ParamNames
  readonly functions: Set<string>
  readonly temporaries: Counter
}

type Loop = ContractNode | ReduceNode

export const indexName = (context: SimtContext, axis: string): string => context.names.index(axis)

/** Declares the indices of `axes` (outermost first) from the linear index in `rest`, using it up. */
export function splitIndex(context: SimtContext, axes: readonly string[], rest: string): void {
  const { out, names } = context
  for (const [i, axis] of [...axes].reverse().entries()) {
    const index = indexName(context, axis)
    const outermost = i === axes.length - 1
    out.line(`const long long ${index} = ${rest}${outermost ? '' : ` % ${names.extent(axis)}`};`)
    if (!outermost) out.line(`${rest} /= ${names.extent(axis)};`)
  }
}

/** `op_A[i_m * op_A_stride_m + …]`, with other indices for some axes. */
export function element(context: SimtContext, operand: string, at: Readonly<Record<string, string>> = {}): string {
  const { names, program } = context
  const axes = operandNamed(program, operand).axes
  const terms = axes.map((axis) => `${at[axis] ?? indexName(context, axis)} * ${names.stride(operand, axis)}`)
  return `${names.operand(operand)}[${terms.join(' + ') || '0'}]`
}

/** Adds a product to an accumulator: fused, or wrapping for integers. */
export function accumulate(context: SimtContext, type: Node['type'], sum: string, a: string, b: string): string {
  if (type === 'f32') return `${sum} = __fmaf_rn(${a}, ${b}, ${sum});`
  if (type === 'f64') return `${sum} = __fma_rn(${a}, ${b}, ${sum});`
  context.functions.add('ktl_add_i32')
  return `${sum} = ktl_add_i32(${sum}, ${a} * ${b});`
}

/** f16 accumulators are kept in f32 and rounded once at the end. */
export function finishAccumulator(context: SimtContext, node: ContractNode, sum: string): void {
  if (node.accumulator !== 'f16') return
  const stored = storeConversion('f16', 'f32', sum, context.functions)
  context.out.line(`${sum} = ${loadConversion('f16', stored, context.functions)};`)
}

/** A contraction's factor: operands of tf32 kernels are rounded to tf32, whatever bits they hold. */
export function factor(context: SimtContext, input: InputNode): string {
  const { dtype } = operandNamed(context.program, input.operand)
  const text = loadConversion(dtype, element(context, input.operand), context.functions)
  return dtype === 'tf32' ? storeConversion('tf32', 'f32', text, context.functions) : text
}

export class Scope {
  readonly #context: SimtContext
  readonly #emitted: Map<Node, string>

  /** `known`: names of values that are valid here. */
  constructor(context: SimtContext, known: Iterable<readonly [Node, string]> = []) {
    this.#context = context
    this.#emitted = new Map(known)
  }

  /** Emits what `nodes` need, and returns their values: names or literals. */
  values(nodes: readonly Node[]): string[] {
    for (const [loop, guard] of loopsOf(nodes, this.#emitted)) {
      const condition = guard && `${this.#expressions([guard])[0]} != ${literal(guard.type, 0).text}`
      if (loop.kind === 'contract') this.#contract(loop, condition)
      else this.#reduce(loop, condition)
    }
    return this.#expressions(nodes)
  }

  #expressions(nodes: readonly Node[]): string[] {
    const { functions, temporaries, program, out } = this.#context
    const { accuracy } = program
    const context = { functions, temporaries, emitted: this.#emitted, accuracy }
    const { statements, values } = emitExpressions(nodes, (leaf) => this.#leaf(leaf), context)
    out.lines(statements, { ktl: nodes[0]?.span ?? null, note: 'elementwise' })
    return values
  }

  #leaf(node: Node): string | null {
    const { program, names, functions } = this.#context
    if (node.kind === 'input') {
      const { dtype } = operandNamed(program, node.operand)
      return loadConversion(dtype, element(this.#context, node.operand), functions)
    }
    if (node.kind === 'size') return names.extent(node.axis)
    if (node.kind === 'scalar') {
      const scalar = program.scalars.find((s) => s.name === node.operand)!
      if (scalar.pointer) return loadConversion(scalar.dtype, `${names.operand(scalar.name)}[0]`, functions)
      const name = names.scalar(scalar.name)
      return DTYPES[scalar.dtype].compute === 'bool' ? `(${name} != 0)` : name
    }
    return null
  }

  #declare(node: Loop, initial: string): string {
    const { out, temporaries } = this.#context
    const name = `${node.kind === 'contract' ? 'sum' : node.fn}_${temporaries.count++}`
    out.line(`${CUDA_COMPUTE_TYPE[node.type]} ${name} = ${initial};`, { ktl: node.span, note: node.kind })
    this.#emitted.set(node, name)
    return name
  }

  /** Nested loops in index order, the last axis innermost; skipped where `condition` is false. */
  #loops(over: readonly string[], condition: string | null, body: () => void): void {
    const { out, names } = this.#context
    const nest = (rest: readonly string[]): void => {
      const [axis, ...inner] = rest
      if (axis === undefined) return body()
      const index = indexName(this.#context, axis)
      out.block(`for (long long ${index} = 0; ${index} < ${names.extent(axis)}; ++${index})`, () => nest(inner))
    }
    if (condition) out.block(`if (${condition})`, () => nest(over))
    else nest(over)
  }

  #contract(node: ContractNode, condition: string | null): void {
    const sum = this.#declare(node, literal(node.type, 0).text)
    for (const { a, b, over } of plainTerms(node)!) {
      this.#loops(over, condition, () => {
        const product = accumulate(this.#context, node.type, sum, factor(this.#context, a), factor(this.#context, b))
        this.#context.out.line(product, { ktl: node.span, note: 'contraction' })
      })
    }
    finishAccumulator(this.#context, node, sum)
  }

  #reduce(node: ReduceNode, condition: string | null): void {
    const { out, functions, names } = this.#context
    const { combine, identity } = REDUCTIONS[node.fn]
    const result = this.#declare(node, literal(node.type, identity(node.type)).text)
    // Names of values that vary along the reduced axes mean another element inside.
    const valid = [...this.#emitted].filter(([known]) => !known.axes.some((axis) => node.over.includes(axis)))
    this.#loops(node.over, condition, () => {
      const value = new Scope(this.#context, valid).values([node.value])[0]!
      const next = convertCompute(node.value.type, node.type, value, functions)
      if (combine === 'add' && node.type !== 'i32') out.line(`${result} = ${result} + ${next};`)
      else {
        const fn = `ktl_${combine}_${node.type}`
        functions.add(fn)
        out.line(`${result} = ${fn}(${result}, ${next});`)
      }
    })
    if (node.fn !== 'mean') return
    const count = ['1LL', ...node.over.map((axis) => names.extent(axis))].join(' * ')
    out.line(`${result} = ${result} / (${CUDA_COMPUTE_TYPE[node.type]})(${count});`)
  }
}

/**
 * Contractions and reductions that `roots` need, in order of evaluation and outside of each other, with the scale
 * whose being 0 makes them unneeded (null: needed always).
 */
function loopsOf(roots: readonly Node[], known: ReadonlyMap<Node, string>): Map<Loop, Node | null> {
  const loops = new Map<Loop, Node | null>()
  const seen = new Map<Node, Set<Node | null>>()
  const visit = (node: Node, guard: Node | null): void => {
    const under = seen.get(node) ?? new Set()
    if (known.has(node) || under.has(guard)) return
    seen.set(node, under.add(guard))
    if (node.kind === 'contract' || node.kind === 'reduce') {
      loops.set(node, loops.has(node) && loops.get(node) !== guard ? null : guard)
    } else if (node.kind === 'skip0') {
      visit(node.scale, guard)
      visit(node.value, guard ?? node.scale)
    } else for (const child of children(node)) visit(child, guard)
  }
  for (const root of roots) visit(root, null)
  return loops
}
