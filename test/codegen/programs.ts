/** Tensor programs built by hand, for tests of code generation: what a kernel of the language would lower to. */
import { operation, resolveTypes } from '../../compiler/ops.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import type {
  Axis, ComputeType, ContractNode, InputNode, Node, RaggedAxis, ReduceNode, ScalarOperand, StoredForm, TensorOperand, TensorProgram,
} from '../../compiler/ir/tensor.ts' // prettier-ignore
import type { DTypeName } from '../../grammar/vocabulary.ts'

export interface OperandSpec {
  readonly dtype: DTypeName
  readonly axes: readonly string[]
  /** Memory order; default: `axes`. */
  readonly order?: readonly string[]
  /** Of scales and zero points: positions of each axis that one element stands for. */
  readonly blocks?: readonly number[]
  readonly stored?: Partial<StoredForm>
  readonly partOf?: string
}

/** An output; parts of one have no value. */
export interface OutputSpec extends OperandSpec {
  readonly value?: Node
  readonly at?: readonly Node[]
}

/** Makes nodes over declared operands. Axis order of nodes follows `axes`. */
export class ProgramBuilder {
  readonly axes: readonly Axis[]
  readonly #inputs: Readonly<Record<string, OperandSpec>>
  readonly #scalars: Readonly<Record<string, DTypeName>>
  readonly #nodes = new Map<string, Node>()

  /** An axis ending in `?` is optional. */
  constructor(
    axes: readonly string[],
    inputs: Readonly<Record<string, OperandSpec>>,
    scalars: Readonly<Record<string, DTypeName>> = {},
    rest: Readonly<Record<string, { readonly ragged?: RaggedAxis; readonly extent?: Node }>> = {},
  ) {
    this.axes = axes.map((axis) => ({ name: axis.replace('?', ''), optional: axis.endsWith('?'), ...rest[axis] }))
    this.#inputs = inputs
    this.#scalars = scalars
  }

  #ordered(axes: Iterable<string>): string[] {
    const set = new Set(axes)
    return this.axes.map((a) => a.name).filter((name) => set.has(name))
  }

  input(operand: string): InputNode {
    const { dtype, axes, stored } = this.#inputs[operand]!
    const known = this.#nodes.get(operand) as InputNode | undefined
    if (known) return known
    const node: InputNode = {
      kind: 'input',
      operand,
      type: stored ? 'f32' : DTYPES[dtype].compute,
      axes: this.#ordered(axes),
      span: null,
    }
    this.#nodes.set(operand, node)
    return node
  }

  /** An operand at computed positions. */
  read(operand: string, at: readonly Node[], outside?: number): InputNode {
    const axes = this.#ordered(at.flatMap((position) => position.axes))
    return { ...this.input(operand), at, axes, ...(outside === undefined ? {} : { outside }) }
  }

  axis(axis: string): Node {
    return { kind: 'axis', axis, type: 'i32', axes: [axis], span: null }
  }

  /** First row, or number of rows, of a group of a ragged axis. */
  group(kind: 'start' | 'length', axis: string): Node {
    const { group } = this.axes.find(({ name }) => name === axis)!.ragged!
    return { kind, axis, type: 'i32', axes: [group], span: null }
  }

  scalar(operand: string): Node {
    return { kind: 'scalar', operand, type: DTYPES[this.#scalars[operand]!].compute, axes: [], span: null }
  }

  constant(value: number, type: ComputeType = 'f32'): Node {
    return { kind: 'const', value, type, axes: [], span: null }
  }

  size(axis: string): Node {
    return { kind: 'size', axis, type: 'i32', axes: [], span: null }
  }

  apply(op: string, ...args: Node[]): Node {
    const signature = resolveTypes(operation(op), args.map((arg) => arg.type)) // prettier-ignore
    if ('problem' in signature) throw new Error(signature.problem)
    return {
      kind: 'apply',
      op,
      // Conversions are written out, as the checker does.
      args: args.map((arg, i) =>
        arg.type === signature.operands[i] ? arg : this.cast(signature.operands[i]! as DTypeName, arg),
      ),
      type: signature.result,
      axes: this.#ordered(args.flatMap((a) => a.axes)),
      span: null,
    }
  }

  contract(
    a: string,
    b: string,
    over: readonly string[],
    accumulator: ContractNode['accumulator'] = 'f32',
  ): ContractNode {
    const [left, right] = [this.input(a), this.input(b)]
    const axes = this.#ordered([...left.axes, ...right.axes].filter((axis) => !over.includes(axis)))
    const type = accumulator === 'f16' ? 'f32' : accumulator
    return { kind: 'contract', terms: [{ a: left, b: right, over }], accumulator, type, axes, span: null }
  }

  /** The sum of the product of any two factors; `groups`: group axes that the result keeps although no factor has them. */
  product(
    a: Node,
    b: Node,
    over: readonly string[],
    accumulator: ContractNode['accumulator'] = 'f32',
    groups: readonly string[] = [],
  ): ContractNode {
    const axes = this.#ordered([...[...a.axes, ...b.axes].filter((axis) => !over.includes(axis)), ...groups])
    const type = accumulator === 'f16' ? 'f32' : accumulator
    return { kind: 'contract', terms: [{ a, b, over }], accumulator, type, axes, span: null }
  }

  reduce(fn: ReduceNode['fn'], over: readonly string[], value: Node, groups: readonly string[] = []): ReduceNode {
    return {
      kind: 'reduce',
      fn,
      over,
      value,
      type: value.type,
      axes: this.#ordered([...value.axes.filter((x) => !over.includes(x)), ...groups]),
      span: null,
    }
  }

  cast(to: DTypeName, value: Node): Node {
    return { kind: 'cast', to, value, type: DTYPES[to].compute, axes: value.axes, span: null }
  }

  skip0(scale: Node, value: Node): Node {
    return { kind: 'skip0', scale, value, type: value.type, axes: value.axes, span: null }
  }

  program(
    kernel: string,
    outputs: Readonly<Record<string, OutputSpec>>,
    accuracy: TensorProgram['accuracy'] = 'default',
  ): TensorProgram {
    const operand = (role: 'input' | 'output') => ([name, { dtype, axes, order, blocks, stored, partOf }]: [string, OperandSpec]): TensorOperand => ({
      name, role, dtype, axes, order: order ?? axes, divisibility: 'element', fromEpilogue: false,
      ...(blocks ? { blocks } : {}), ...(partOf === undefined ? {} : { partOf }),
      ...(stored ? { stored: { scale: null, zero: null, global: null, norm: null, rounding: 'up', ...stored } } : {}),
    }) // prettier-ignore
    const scalars = Object.entries(this.#scalars).map(([name, dtype]): ScalarOperand =>
      ({ name, dtype, pointer: name.endsWith('_ptr'), defaultValue: null, fromEpilogue: false, ...(name.includes('.') ? { partOf: name.split('.')[0]! } : {}) })) // prettier-ignore
    return {
      kernel,
      accuracy,
      axes: this.axes,
      operands: [
        ...Object.entries(this.#inputs).map(operand('input')),
        ...Object.entries(outputs).map(operand('output')),
      ],
      scalars,
      outputs: Object.entries(outputs).flatMap(([name, { value, at }]) =>
        value ? [{ operand: name, value, span: null, ...(at ? { at } : {}) }] : [],
      ),
    }
  }
}

const MN = ['m', 'n'] as const
const UNARY = ['exp', 'exp2', 'expm1', 'log', 'log2', 'log1p', 'sin', 'cos', 'erf', 'sign', 'sqrt', 'rsqrt', 'tanh', 'sigmoid', 'relu', 'leaky_relu', 'gelu', 'gelu_tanh', 'silu', 'hardswish', 'softplus', 'elu', 'abs', 'neg', 'floor', 'ceil', 'round'] // prettier-ignore

/** A table of programs that covers what SIMT lowers. */
export const SIMT_PROGRAMS: Readonly<Record<string, () => TensorProgram>> = {
  axpby() {
    const p = new ProgramBuilder(['i', 'j'], { X: { dtype: 'f32', axes: ['i', 'j'] }, Y: { dtype: 'f32', axes: ['i', 'j'] } }, { a: 'f32', b: 'f32' }) // prettier-ignore
    const value = p.apply(
      'add',
      p.apply('mul', p.scalar('a'), p.input('X')),
      p.apply('mul', p.scalar('b'), p.input('Y')),
    )
    return p.program('axpby', { Z: { dtype: 'f32', axes: ['i', 'j'], value } })
  },
  dgemm() {
    const p = new ProgramBuilder(['l?', 'm', 'n', 'k'], { A: { dtype: 'f64', axes: ['l', 'm', 'k'], order: ['l', 'k', 'm'] }, B: { dtype: 'f64', axes: ['l', 'k', 'n'] } }) // prettier-ignore
    return p.program('dgemm', { D: { dtype: 'f64', axes: ['l', 'm', 'n'], value: p.contract('A', 'B', ['k'], 'f64') } })
  },
  linear_gelu() {
    const p = new ProgramBuilder(['m', 'n', 'k'], { A: { dtype: 'bf16', axes: ['m', 'k'] }, B: { dtype: 'bf16', axes: ['k', 'n'], order: ['n', 'k'] }, bias: { dtype: 'bf16', axes: ['n'] } }) // prettier-ignore
    const value = p.apply('gelu_tanh', p.apply('add', p.contract('A', 'B', ['k']), p.input('bias')))
    return p.program('linear_gelu', { D: { dtype: 'bf16', axes: MN, value } })
  },
  residual() {
    const p = new ProgramBuilder(['m', 'n', 'k'], { A: { dtype: 'f16', axes: ['m', 'k'] }, B: { dtype: 'f16', axes: ['k', 'n'] }, C: { dtype: 'f16', axes: MN } }, { alpha: 'f32', beta: 'f32' }) // prettier-ignore
    const F = p.apply('add', p.apply('mul', p.contract('A', 'B', ['k']), p.scalar('alpha')), p.skip0(p.scalar('beta'), p.input('C'))) // prettier-ignore
    return p.program('residual', { D: { dtype: 'f16', axes: MN, value: p.apply('relu', F) }, F: { dtype: 'f32', axes: MN, order: ['n', 'm'], value: F } }) // prettier-ignore
  },
  swiglu() {
    const p = new ProgramBuilder(['m', 'f', 'k'], { A: { dtype: 'bf16', axes: ['m', 'k'] }, Bg: { dtype: 'bf16', axes: ['k', 'f'] }, Bu: { dtype: 'bf16', axes: ['k', 'f'] } }) // prettier-ignore
    const value = p.apply('mul', p.apply('silu', p.contract('A', 'Bg', ['k'])), p.contract('A', 'Bu', ['k']))
    return p.program('swiglu', { H: { dtype: 'bf16', axes: ['m', 'f'], value } })
  },
  igemm() {
    const p = new ProgramBuilder(['m', 'n', 'k'], { A: { dtype: 'i8', axes: ['m', 'k'] }, B: { dtype: 'u8', axes: ['k', 'n'] } }) // prettier-ignore
    const sum = p.contract('A', 'B', ['k'], 'i32')
    const scaled = p.cast('i8', p.apply('mul', sum, p.constant(0.125)))
    return p.program('igemm', { D: { dtype: 'i32', axes: MN, value: sum }, Q: { dtype: 'i8', axes: MN, value: scaled }, H: { dtype: 'bf16', axes: MN, value: sum } }) // prettier-ignore
  },
  fp8_amax() {
    const p = new ProgramBuilder(['m', 'n', 'k'], { A: { dtype: 'e4m3', axes: ['m', 'k'] }, B: { dtype: 'e5m2', axes: ['k', 'n'] } }, { s_ptr: 'f32' }) // prettier-ignore
    const D = p.apply('mul', p.contract('A', 'B', ['k']), p.scalar('s_ptr'))
    const amax = p.reduce('max', ['n'], p.apply('abs', D))
    return p.program('fp8_amax', { D: { dtype: 'e4m3', axes: MN, value: D }, amax: { dtype: 'f32', axes: ['m'], value: amax } }) // prettier-ignore
  },
  half_accumulator() {
    const p = new ProgramBuilder(['m', 'n', 'k'], { A: { dtype: 'f16', axes: ['m', 'k'] }, B: { dtype: 'f16', axes: ['k', 'n'] } }) // prettier-ignore
    return p.program('half_accumulator', { D: { dtype: 'f16', axes: MN, value: p.contract('A', 'B', ['k'], 'f16') } })
  },
  tf32_gemm() {
    const p = new ProgramBuilder(['m', 'n', 'k'], { A: { dtype: 'tf32', axes: ['m', 'k'] }, B: { dtype: 'tf32', axes: ['k', 'n'] } }) // prettier-ignore
    return p.program('tf32_gemm', { D: { dtype: 'tf32', axes: MN, value: p.contract('A', 'B', ['k']) } })
  },
  many_axes() {
    // Two contracted axes, a batch axis in one operand only, five axes in all.
    const p = new ProgramBuilder(['a', 'b', 'c', 'd', 'e'], { X: { dtype: 'f32', axes: ['a', 'd', 'b', 'e'] }, Y: { dtype: 'f32', axes: ['e', 'c', 'd'] } }) // prettier-ignore
    return p.program('many_axes', { Z: { dtype: 'f32', axes: ['a', 'b', 'c'], value: p.contract('X', 'Y', ['d', 'e']) } }) // prettier-ignore
  },
  dot() {
    const p = new ProgramBuilder(['k'], { x: { dtype: 'f32', axes: ['k'] }, y: { dtype: 'f32', axes: ['k'] } })
    return p.program('dot', { r: { dtype: 'f32', axes: [], value: p.contract('x', 'y', ['k']) } })
  },
  row_statistics() {
    const p = new ProgramBuilder(['r', 'c'], { X: { dtype: 'f32', axes: ['r', 'c'] }, g: { dtype: 'f32', axes: ['c'] } }, { eps: 'f32' }) // prettier-ignore
    const X = p.input('X')
    const ss = p.reduce('sum', ['c'], p.apply('mul', X, X))
    const scale = p.apply('rsqrt', p.apply('add', p.apply('div', ss, p.size('c')), p.scalar('eps')))
    const value = p.apply('mul', p.apply('mul', X, scale), p.input('g'))
    return p.program('row_statistics', { Y: { dtype: 'f32', axes: ['r', 'c'], value }, mu: { dtype: 'f32', axes: ['r'], value: p.reduce('mean', ['c'], X) } }) // prettier-ignore
  },
  guarded_sum() {
    const p = new ProgramBuilder(['m', 'n'], { X: { dtype: 'f32', axes: MN }, W: { dtype: 'f32', axes: MN } }, { beta: 'f32' }) // prettier-ignore
    const value = p.apply('add', p.reduce('sum', ['n'], p.input('X')), p.skip0(p.scalar('beta'), p.reduce('min', ['n'], p.input('W')))) // prettier-ignore
    return p.program('guarded_sum', { y: { dtype: 'f64', axes: ['m'], value } })
  },
  integers() {
    const p = new ProgramBuilder(['i'], { x: { dtype: 'i32', axes: ['i'] }, y: { dtype: 'u32', axes: ['i'] }, z: { dtype: 'bool', axes: ['i'] } }) // prettier-ignore
    const [x, y, z] = [p.input('x'), p.input('y'), p.input('z')]
    const a = p.apply('clamp', p.apply('sub', p.apply('mul', x, x), p.constant(-3, 'i32')), p.constant(-128, 'i32'), p.constant(127, 'i32')) // prettier-ignore
    const both = p.apply('and', z, p.apply('not', p.apply('lt', y, p.constant(7, 'u32'))))
    return p.program('integers', {
      a: { dtype: 'i8', axes: ['i'], value: a },
      b: { dtype: 'bool', axes: ['i'], value: both },
      c: { dtype: 'u32', axes: ['i'], value: p.apply('select', both, y, p.constant(1, 'u32')) },
      d: { dtype: 'u8', axes: ['i'], value: p.cast('u8', p.apply('div', x, p.constant(2, 'i32'))) },
    })
  },
  every_function() {
    const p = new ProgramBuilder(['i'], { x: { dtype: 'f32', axes: ['i'] } })
    const x = p.input('x')
    const values = UNARY.map((op) => p.apply(op, x, ...(op === 'leaky_relu' || op === 'elu' ? [p.constant(0.5)] : [])))
    const two = [p.apply('pow', x, p.constant(2)), p.apply('pow', x, x), p.apply('min', x, p.constant(1)), p.apply('fma', x, x, x)] // prettier-ignore
    return p.program('every_function', { y: { dtype: 'f32', axes: ['i'], value: [...values, ...two].reduce((a, b) => p.apply('add', a, b)) } }) // prettier-ignore
  },
  every_function_f64() {
    const p = new ProgramBuilder(['i'], { x: { dtype: 'f64', axes: ['i'] } })
    const x = p.input('x')
    const values = UNARY.map((op) => p.apply(op, x, ...(op === 'leaky_relu' || op === 'elu' ? [p.constant(0.5, 'f64')] : []))) // prettier-ignore
    const sum = values.reduce((a, b) => p.apply('add', a, b))
    return p.program('every_function_f64', { y: { dtype: 'f64', axes: ['i'], value: sum }, h: { dtype: 'bf16', axes: ['i'], value: sum } }) // prettier-ignore
  },
  approximate() {
    const p = new ProgramBuilder(['i'], { x: { dtype: 'f16', axes: ['i'] } })
    const value = ['exp', 'tanh', 'sigmoid', 'silu', 'gelu_tanh'].map((op) => p.apply(op, p.input('x')))
    return p.program('approximate', { y: { dtype: 'f16', axes: ['i'], value: value.reduce((a, b) => p.apply('max', a, b)) } }, 'approx') // prettier-ignore
  },
  casts() {
    const p = new ProgramBuilder(['i'], { x: { dtype: 'f32', axes: ['i'] } })
    const names = ['f16', 'bf16', 'tf32', 'e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1', 'ue8m0', 'ue4m3', 'f64', 'i32', 'u32', 'i8', 'u8'] as const // prettier-ignore
    const values = names.map((name) => p.cast('f32', p.cast(name, p.input('x'))))
    return p.program('casts', { y: { dtype: 'f32', axes: ['i'], value: values.reduce((a, b) => p.apply('add', a, b)) } }) // prettier-ignore
  },
}
