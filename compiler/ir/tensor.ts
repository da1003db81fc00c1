/**
 * Tensor IR: one fully bound kernel (dtypes, memory orders and epilogue chosen) as a typed, immutable DAG over
 * named axes. The reference evaluator executes it, the planners read it, codegen emits its elementwise part.
 *
 * A value has a compute type (what registers hold) and a set of axes it varies along; operands broadcast along
 * every axis they do not carry. Rounding happens only at `cast` nodes and at stores.
 */
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { Span } from '../../grammar/ast.ts'

/** What arithmetic is done in. Narrow floats load as f32 exactly; i8/u8 load as i32. */
export type ComputeType = 'f32' | 'f64' | 'i32' | 'u32' | 'bool'

export interface Axis {
  readonly name: string
  /** `l?`: callers may leave it out of all operands, or of a single input, which then broadcasts. */
  readonly optional: boolean
}

/** How far addresses of an operand may be assumed aligned: whole 16-byte vectors, or single elements. */
export type Divisibility = 'vector' | 'element'

export interface TensorOperand {
  readonly name: string
  readonly role: 'input' | 'output'
  readonly dtype: DTypeName
  /** Logical order: what callers pass. */
  readonly axes: readonly string[]
  /** Memory order, outermost first; the last axis is contiguous. A permutation of `axes`. */
  readonly order: readonly string[]
  readonly divisibility: Divisibility
  /** Bound by an epilogue argument rather than declared by the kernel. */
  readonly fromEpilogue: boolean
}

/** A run-time number. `pointer`: a one-element tensor, read by the kernel. */
export interface ScalarOperand {
  readonly name: string
  readonly dtype: DTypeName
  readonly pointer: boolean
  readonly defaultValue: number | null
  readonly fromEpilogue: boolean
}

export type Node =
  | InputNode
  | ScalarNode
  | ConstNode
  | SizeNode
  | ContractNode
  | ReduceNode
  | ApplyNode
  | CastNode
  | Skip0Node
  | AccumulatorNode

interface Typed {
  readonly type: ComputeType
  /** Axes the value varies along, in the order of TensorProgram.axes. */
  readonly axes: readonly string[]
  readonly span: Span | null
}

/** An element of an input operand, converted exactly to its compute type. */
export interface InputNode extends Typed {
  readonly kind: 'input'
  readonly operand: string
}

export interface ScalarNode extends Typed {
  readonly kind: 'scalar'
  readonly operand: string
}

export interface ConstNode extends Typed {
  readonly kind: 'const'
  readonly value: number
}

/** `size(axis)` as i32. */
export interface SizeNode extends Typed {
  readonly kind: 'size'
  readonly axis: string
}

/** `sum[over](a * b)` of two input operands that both carry `over`. */
export interface ContractTerm {
  readonly a: InputNode
  readonly b: InputNode
  readonly over: readonly string[]
}

/**
 * The sum of its terms: exact products, machine-defined order and internal precision, result in `accumulator` (then held
 * in `type`). Beside what is summed over, `a` carries the same axes in all terms, and so does `b`.
 */
export interface ContractNode extends Typed {
  readonly kind: 'contract'
  readonly terms: readonly [ContractTerm, ...ContractTerm[]]
  readonly accumulator: 'f32' | 'f16' | 'f64' | 'i32'
}

/**
 * The finished accumulator of a contraction, in programs that compute contractions apart from the rest: what a pipeline
 * program has in place of a `ContractNode`.
 */
export interface AccumulatorNode extends Typed {
  readonly kind: 'accumulator'
  readonly index: number
  readonly accumulator: ContractNode['accumulator']
}

/** Any other reduction; combined in index order of `over` (deterministic). */
export interface ReduceNode extends Typed {
  readonly kind: 'reduce'
  readonly fn: 'sum' | 'min' | 'max' | 'mean'
  readonly over: readonly string[]
  readonly value: Node
}

/** An operation of the table in ops.ts (`add`, `mul`, `fma`, `exp`, `select`, `lt`, …). */
export interface ApplyNode extends Typed {
  readonly kind: 'apply'
  readonly op: string
  readonly args: readonly Node[]
  /** Computed to 15 bits; see `markShortForms`. Absent: in full. */
  readonly short?: true
}

/** Rounds to a dtype's value set (and back to a compute type): `f16(x)`, `i8(x)`. */
export interface CastNode extends Typed {
  readonly kind: 'cast'
  readonly to: DTypeName
  readonly value: Node
}

/** `skip0(scale) * value`: 0 without evaluating `value` (so without loading its operands) when scale is 0. Never fused. */
export interface Skip0Node extends Typed {
  readonly kind: 'skip0'
  readonly scale: Node
  readonly value: Node
}

export interface Output {
  readonly operand: string
  readonly value: Node
  readonly span: Span | null
}

export interface TensorProgram {
  /** The kernel's name in the source. */
  readonly kernel: string
  readonly accuracy: 'default' | 'approx' | 'precise'
  readonly axes: readonly Axis[]
  /** Declared inputs, then epilogue inputs, then outputs (declared, then the epilogue's). */
  readonly operands: readonly TensorOperand[]
  readonly scalars: readonly ScalarOperand[]
  readonly outputs: readonly Output[]
}
