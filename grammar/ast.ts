/**
 * The syntax tree of `.ktl` and of epilogue strings. Plain, immutable data: every node has `kind` and `span`,
 * so printers, formatters and language servers can walk it without methods.
 *
 * Nodes keep what the user wrote (names, literal text, comments); meaning is given by compiler/.
 */
import type { AxisFunctionName, DTypeName } from './vocabulary.ts'

/** Half-open range of UTF-16 offsets into the source text. */
export interface Span {
  readonly start: number
  readonly end: number
}

export interface Name {
  readonly kind: 'name'
  readonly text: string
  readonly span: Span
}

export interface Comment {
  readonly kind: 'comment'
  /** Text without the leading slashes or `#`. */
  readonly text: string
  readonly doc: boolean
  /** Nothing but blanks before it on its line. */
  readonly ownLine: boolean
  readonly span: Span
}

export interface Program {
  readonly kind: 'program'
  readonly items: readonly Item[]
  /** In source order, without the doc comments that became some node's `doc`. */
  readonly comments: readonly Comment[]
  readonly span: Span
}

export type Item = KernelDecl | EpilogueDecl | ScheduleDecl

/** `kernel name<T: f16 | bf16>(A: T[m, k], …) -> D: T[m, n] { … }` */
export interface KernelDecl {
  readonly kind: 'kernel'
  readonly name: Name
  readonly doc: string | null
  /** `approx` or `precise` before `kernel`. */
  readonly accuracy: 'approx' | 'precise' | null
  readonly typeParams: readonly TypeParam[]
  readonly params: readonly OperandDecl[]
  readonly outputs: readonly OperandDecl[]
  readonly body: readonly Statement[]
  readonly span: Span
}

export interface TypeParam {
  readonly kind: 'typeParam'
  readonly name: Name
  readonly alternatives: readonly TypeName[]
  readonly span: Span
}

/** A dtype or the name of a type parameter. */
export interface TypeName {
  readonly kind: 'typeName'
  readonly text: string
  readonly span: Span
}

/** `A: T[l?, m, k] | T[l?, k, m]`, `alpha: f32 = 1`, `A: e4m3[m, k] * ue8m0[m, k/32]`, `A: bf16[t, k] ragged t by off as g` */
export interface OperandDecl {
  readonly kind: 'operand'
  readonly name: Name
  /** First alternative: the logical order. */
  readonly alternatives: readonly TensorType[]
  readonly defaultValue: NumberLiteral | null
  readonly ragged: Ragged | null
  readonly span: Span
}

/**
 * The data, and what they are stored with: `f16[m, k]`, `e4m3[m, k] * ue8m0[m, k/32]`,
 * `(u4[k, n] - u4[k/128, n]) * f16[k/128, n]`, `e2m1[m, k] * ue4m3[m, k/16] * f32`. A value is
 * (data - zero) * scale * global.
 */
export interface TensorType {
  readonly kind: 'tensorType'
  readonly dtype: TypeName
  /** null: a scalar, which has no parts. */
  readonly axes: readonly AxisRef[] | null
  /** Zero points; only with a scale. */
  readonly zero: PartType | null
  /** The first factor that has axes: `* ue8m0[m, k/32]`, `* f32[n]`. */
  readonly scale: PartType | null
  /** The factor behind the scale, or the only one if it has no axes: `* f32` for the tensor, `* f32[g]` for each group. */
  readonly global: PartType | null
  readonly span: Span
}

/** `ue8m0[m, k/32]`, `f32`, `floor(ue8m0[m, k/32])` */
export interface PartType {
  readonly kind: 'partType'
  readonly dtype: TypeName
  /** null: one value for the tensor. */
  readonly axes: readonly AxisRef[] | null
  /** Scales only: an output rounds it down to a power of two. */
  readonly floor: boolean
  readonly span: Span
}

export interface AxisRef {
  readonly kind: 'axis'
  readonly name: Name
  readonly optional: boolean
  /** `k/32`: 32, otherwise null. */
  readonly divisor: number | null
  readonly span: Span
}

/**
 * `ragged t by off as g`: the groups g lie behind one another along t, and `off[g]` says where each ends.
 * `ragged m upto len as g`: every group has its own rows, of which the first `len[g]` count.
 */
export interface Ragged {
  readonly kind: 'ragged'
  readonly axis: Name
  readonly form: 'by' | 'upto'
  /** The operand that has the ends or lengths. */
  readonly by: Name
  /** The group axis. */
  readonly as: Name
  readonly span: Span
}

export type Statement = Equation | AxisStatement | ReturnStatement | ExpressionStatement

/** `acc: f32 = …`, `D = …`, `amax[m] = …`, `(D, F) = …` */
export interface Equation {
  readonly kind: 'equation'
  readonly targets: readonly Target[]
  /** A tuple was written, even of one element. */
  readonly tuple: boolean
  readonly value: Expr
  readonly doc: string | null
  readonly span: Span
}

export interface Target {
  readonly kind: 'target'
  readonly name: Name
  /** `amax[m] = …`: its axes; `D[to[t], n] = …`: where each element goes (scatter). */
  readonly at: readonly Expr[] | null
  /** `acc: S = …` */
  readonly dtype: TypeName | null
  readonly span: Span
}

/** Kernels only: the extent of an axis that no operand declares. `axis j = size(h) / size(hk)` */
export interface AxisStatement {
  readonly kind: 'axisStatement'
  readonly axis: Name
  readonly value: Expr
  readonly doc: string | null
  readonly span: Span
}

/** Epilogues only. */
export interface ReturnStatement {
  readonly kind: 'return'
  readonly values: readonly Expr[]
  readonly span: Span
}

/** Epilogue strings only: the final bare expression. */
export interface ExpressionStatement {
  readonly kind: 'expressionStatement'
  readonly value: Expr
  readonly span: Span
}

/**
 * `epilogue name(acc, C, alpha: f32 = 1) -> (D, F) { … }`, and what an epilogue string parses to (`name` null,
 * spelling says which of the three it was). `outputs` null: not declared (strings).
 */
export interface EpilogueDecl {
  readonly kind: 'epilogue'
  readonly name: Name | null
  readonly doc: string | null
  readonly spelling: 'declaration' | 'expression' | 'statements' | 'def'
  /** Declarations and `def`: the accumulator first. Expressions and statements: empty; `acc` / `accum` are implied. */
  readonly params: readonly EpilogueParam[]
  readonly outputs: readonly Name[] | null
  readonly body: readonly Statement[]
  readonly span: Span
}

export interface EpilogueParam {
  readonly kind: 'epilogueParam'
  readonly name: Name
  readonly dtype: TypeName | null
  readonly axes: readonly Name[] | null
  readonly defaultValue: NumberLiteral | null
  readonly span: Span
}

/** `schedule gemm, gemm_tf32 on sm_100 { mma 1cta | 2cta … }` */
export interface ScheduleDecl {
  readonly kind: 'schedule'
  /** At least one. */
  readonly kernels: readonly Name[]
  /** `sm_100`, `sm_100a`, `sm_103a`, `sm_90`, `simt`, … as written. */
  readonly target: Name
  readonly doc: string | null
  readonly entries: readonly ScheduleEntry[]
  readonly span: Span
}

/** `tile 64x64 | 128x64`, `reassociate` (no alternatives). */
export interface ScheduleEntry {
  readonly kind: 'scheduleEntry'
  readonly key: Name
  readonly alternatives: readonly ScheduleValue[]
  readonly span: Span
}

/** `128x64` → shape; `2cta` → cta; `3` → count; `auto`, `static`, `clc` → word. */
export type ScheduleValue =
  | { readonly kind: 'shape'; readonly extents: readonly number[]; readonly span: Span }
  | { readonly kind: 'cta'; readonly count: number; readonly span: Span }
  | { readonly kind: 'count'; readonly value: number; readonly span: Span }
  | { readonly kind: 'word'; readonly text: string; readonly span: Span }

// ---- expressions ----

export type Expr = NumberLiteral | Reference | Unary | Binary | Call | Reduce | SizeOf | EpilogueSlot

/** `2`, `0.5`, `1e-3`, `inf`, `nan` */
export interface NumberLiteral {
  readonly kind: 'number'
  readonly text: string
  readonly value: number
  /** Written without `.` or exponent: takes the other side's type. */
  readonly integer: boolean
  readonly span: Span
}

/**
 * A name, perhaps read with indices: `A`, `X[b, p * stride + r - pad, c] else 0`, `K[page[b, n / 64], n % 64, d]`. In
 * epilogue strings `bias[m]` says which axes the tensor has.
 */
export interface Reference {
  readonly kind: 'reference'
  readonly name: Name
  /** One for each declared axis; null: at its own axes. */
  readonly at: readonly Expr[] | null
  /** What a read outside of the operand gives; only with indices. */
  readonly outside: Outside | null
  readonly span: Span
}

/** The literal behind `else`, its sign applied to text and value: `0`, `-inf`. */
export type Outside = NumberLiteral

/** `m, n` of `bias[m, n]`: names; null without brackets, or if an index is more than a name. */
export function axisNamesOf({ at }: { readonly at: readonly Expr[] | null }): readonly Name[] | null {
  if (at === null) return null
  const names = at.flatMap((e) => (e.kind === 'reference' && e.at === null ? [e.name] : []))
  return names.length === at.length ? names : null
}

export interface Unary {
  readonly kind: 'unary'
  readonly op: '-' | '!' | '+'
  readonly operand: Expr
  readonly span: Span
}

export type BinaryOp = '+' | '-' | '*' | '/' | '%' | '^' | '<' | '<=' | '>' | '>=' | '==' | '!=' | '&&' | '||'

/** `**` in `def` strings is parsed to `^`. */
export interface Binary {
  readonly kind: 'binary'
  readonly op: BinaryOp
  readonly left: Expr
  readonly right: Expr
  readonly span: Span
}

/** A function of the operation table, a cast `f16(x)` (callee is a dtype), or a named epilogue. */
export interface Call {
  readonly kind: 'call'
  readonly callee: Name
  readonly args: readonly Expr[]
  readonly span: Span
}

/** `sum[k](A * B)`, `max[n](abs(D))`, `softmax[n](S)`. */
export interface Reduce {
  readonly kind: 'reduce'
  readonly fn: Name
  readonly axes: readonly Name[]
  readonly value: Expr
  readonly span: Span
}

/** `size(c)`; of a ragged axis also `start(t)` and `length(t)`: where the group of the row begins, and its length. */
export interface SizeOf {
  readonly kind: 'size'
  readonly fn: AxisFunctionName
  readonly axis: Name
  readonly span: Span
}

/** `epilogue(acc)`: the slot that `GemmArguments.epilogue` fills. */
export interface EpilogueSlot {
  readonly kind: 'slot'
  readonly value: Expr
  readonly span: Span
}

export type Node = Program | Item | Statement | Expr | Name | TypeName | TensorType | PartType | OperandDecl

export type { DTypeName }
