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
  /** Its positions belong to groups; absent: it has no groups. */
  readonly ragged?: RaggedAxis
  /** `axis j = size(h) / size(hk)`: its extent, an i32 value without axes; absent: that of the operands that carry it. */
  readonly extent?: Node
}

/**
 * An axis in groups. Wherever a packed ragged axis has a position, the group axis has one too: that of the position's group; so
 * operands with the group axis are read there, and two packed axes of the same groups meet inside one group only.
 */
export interface RaggedAxis {
  /** Operand i32[group]. */
  readonly by: string
  readonly group: string
  /** `packed`: rows of all groups lie one after another, and `by` says where each ends. `padded`: each group has all rows, of which the first `by` count. */
  readonly form: 'packed' | 'padded'
}

/**
 * How far addresses of an operand may be assumed aligned: whole 16-byte vectors, whole words of 4 bytes (several elements, whose rows are whole
 * words too), or single elements. `repacked`: less than vectors, of which the kernel first makes a copy with aligned rows.
 */
export type Divisibility = 'vector' | 'word' | 'element' | 'repacked'

/** Bytes of what is aligned, where that is more than an element. */
export const ALIGNED_BYTES = { vector: 16, word: 4 } as const

export interface TensorOperand {
  readonly name: string
  readonly role: 'input' | 'output'
  readonly dtype: DTypeName
  /** Logical order: what callers pass. */
  readonly axes: readonly string[]
  /** Memory order, outermost first; the last axis is contiguous. A permutation of `axes`, behind which scales in tiles have `TILES`. */
  readonly order: readonly string[]
  readonly divisibility: Divisibility
  /** Bound by an epilogue argument rather than declared by the kernel. */
  readonly fromEpilogue: boolean
  /** Positions of each axis that one element stands for (extents are ceil(extent / block)); absent: 1 each. */
  readonly blocks?: readonly number[]
  /** How its elements decode, or are quantised; absent: by themselves. */
  readonly stored?: StoredForm
  /** The operand whose scales or zero points these are; absent: it stands for itself. */
  readonly partOf?: string
  /** An operand of an MMA that lies nowhere in memory: its elements, which are rounded to `dtype`. */
  readonly computed?: Node
  /** A factor of MMAs that lies in memory as every other position of an operand along its axis `along`, from `way` on. */
  readonly half?: { readonly of: string; readonly along: string; readonly way: number }
}

/** Does an element stand for several positions? */
export const inBlocks = ({ blocks }: TensorOperand): boolean => blocks?.some((block) => block > 1) ?? false

/** Are its values elements of memory as they are, one for each position? */
export const isDense = (operand: TensorOperand): boolean => !operand.computed && !operand.stored && !inBlocks(operand)

/**
 * value = (data - zero) * scale * global, in f32. Each part is an operand of its own (`partOf`), named `A.scale`, `A.zero`,
 * `A.global`; a global scale without axes is a scalar. null: the form has no such part.
 */
export interface StoredForm {
  readonly scale: string | null
  readonly zero: string | null
  readonly global: string | null
  /** Outputs with a global scale: the scalar that holds `normConstant`; 0: norm is the reciprocal of the global scale. */
  readonly norm: string | null
  /** Outputs: which power of two a ue8m0 scale becomes. */
  readonly rounding: 'up' | 'down'
}

/** A run-time number. `pointer`: a one-element tensor, read by the kernel. */
export interface ScalarOperand {
  readonly name: string
  readonly dtype: DTypeName
  readonly pointer: boolean
  readonly defaultValue: number | null
  readonly fromEpilogue: boolean
  /** The operand whose global scale this is. */
  readonly partOf?: string
}

export type Node =
  | InputNode
  | ScalarNode
  | ConstNode
  | SizeNode
  | AxisNode
  | GroupNode
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

/** An element of an input operand, converted exactly to its compute type; of a stored form: its decoded value, f32. */
export interface InputNode extends Typed {
  readonly kind: 'input'
  readonly operand: string
  /** An i32 position for each axis of the operand, in the order of its `axes`; absent: the position of the axis itself. */
  readonly at?: readonly Node[]
  /** `else`: the value where a position is outside; absent: 0, and a finding unless a looked-up position is -1. */
  readonly outside?: number
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

/** The position along an axis, as i32; along a packed ragged axis: the row of the tensor. */
export interface AxisNode extends Typed {
  readonly kind: 'axis'
  readonly axis: string
}

/** First row, or number of rows, of a group of a ragged axis, as i32. It varies along the group axis. */
export interface GroupNode extends Typed {
  readonly kind: 'start' | 'length'
  readonly axis: string
}

/**
 * `sum[over](a * b)`, where both factors vary along all of `over`. Tensor cores take elements of operands as they are; other
 * factors are rounded to the type of the MMA, within the bound.
 */
export interface ContractTerm {
  readonly a: Node
  readonly b: Node
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

/**
 * Any other reduction; combined in index order of `over` (deterministic). Over a packed ragged axis, as for contractions: the rows
 * of one group where the result varies along the group axis (or along another axis in the same groups), all rows of all groups
 * otherwise. The result may vary along the group axis even if `value` does not.
 */
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
  /** Scatter: an i32 position for each axis of the operand; outside, nothing is written. Absent: every position, once. */
  readonly at?: readonly Node[]
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
