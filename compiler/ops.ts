/**
 * The operation table. One entry holds the name, type rule, reference evaluator, error rule, accuracy bound, CUDA forms, cost and
 * algebra of an elementwise operation; the checker, the evaluator, the passes, codegen and the cost models all read it.
 */
import type { BinaryOp } from '../grammar/ast.ts'
import type { FunctionName, ReductionName } from '../grammar/vocabulary.ts'
import type { ComputeType, TensorProgram } from './ir/tensor.ts'
import { ARITHMETIC } from './ops/arithmetic.ts'
import { FUNCTIONS } from './ops/functions.ts'
import { LOGIC } from './ops/logic.ts'
import { ulp } from './ops/numeric.ts'
import { SHORT_ERROR, type Operation } from './ops/operation.ts'

export type { Accuracy, ArgType, Combine, CudaForm, Operation, Parameter, TypeRule } from './ops/operation.ts'
export { turnsInto } from './ops/operation.ts'
export { commonType, literalType, resolveTypes, type Signature, type TypeProblem } from './ops/type_rules.ts'
export { convertCompute, ulp } from './ops/numeric.ts'

/** Operation of an infix operator. */
export const BINARY_OPERATIONS = {
  '+': 'add', '-': 'sub', '*': 'mul', '/': 'div', '%': 'mod', '^': 'pow',
  '<': 'lt', '<=': 'le', '>': 'gt', '>=': 'ge', '==': 'eq', '!=': 'ne', '&&': 'and', '||': 'or',
} as const satisfies Record<BinaryOp, string> // prettier-ignore

/** Operation of a prefix operator (`+x` is x). */
export const UNARY_OPERATIONS = { '-': 'neg', '!': 'not' } as const

type Operators = typeof BINARY_OPERATIONS & typeof UNARY_OPERATIONS

/** What the language can say, by name or by an operator: each has an entry. */
export type OperationName = FunctionName | Operators[keyof Operators]

const TABLE = { ...ARITHMETIC, ...FUNCTIONS, ...LOGIC } satisfies Record<OperationName, Operation>

export const OPERATIONS: ReadonlyMap<string, Operation> = new Map(Object.entries(TABLE))

/** The entry of a name that is known to be in the table. */
export function operation(name: string): Operation {
  const op = OPERATIONS.get(name)
  if (!op) throw new Error(`no operation ${name} in the table`)
  return op
}

/** The reference is off too: rounded to f32; in f64 as good as JavaScript's functions make it. Units in the last place. */
export const REFERENCE_ERROR = { f32: 0.5, f64: 2 } as const

/** Approximate forms flush what would be near or below the subnormal numbers. */
const APPROX_FLOOR = 2 ** -118
/** Subnormal results of short forms are products of a subnormal number, rounded to 2^-149, and one of at most 100. */
const SHORT_FLOOR = 2 ** -142

/**
 * Absolute error bound of `op(args)` when argument i may be off by `bounds[i]` and another machine computed it.
 * `result` is the reference's value; `accuracy` is the kernel's, or says that the short form is used.
 */
export function errorBound(
  op: Operation,
  type: ComputeType,
  args: readonly number[],
  bounds: readonly number[],
  result: number,
  accuracy: TensorProgram['accuracy'] | 'short' = 'default',
): number {
  const inexact = bounds.some((b) => b !== 0)
  const propagated = inexact ? op.propagate(type, args, bounds) : 0
  if (op.accuracy === 'exact' || (type !== 'f32' && type !== 'f64')) return propagated
  if (op.accuracy === 'rounded') return inexact ? propagated + ulp(type, result) : 0
  if (accuracy === 'approx' && op.approx && type === 'f32')
    return propagated + op.approx.relativeError * Math.abs(result) + APPROX_FLOOR
  if (accuracy === 'short') return propagated + SHORT_ERROR * Math.abs(result) + SHORT_FLOOR
  return propagated + (op.accuracy[type] + REFERENCE_ERROR[type]) * ulp(type, result)
}

export interface Reduction {
  /** Elementwise operation that combines two partial results, in index order. */
  readonly combine: 'add' | 'min' | 'max'
  /** Result over no elements; `mean` divides the sum by the count afterwards. */
  readonly identity: (type: ComputeType) => number
}

const LIMITS: Readonly<Record<ComputeType, readonly [number, number]>> = {
  f32: [-Infinity, Infinity],
  f64: [-Infinity, Infinity],
  i32: [-(2 ** 31), 2 ** 31 - 1],
  u32: [0, 2 ** 32 - 1],
  bool: [0, 1],
}

export const REDUCTIONS: Readonly<Record<ReductionName, Reduction>> = {
  sum: { combine: 'add', identity: () => 0 },
  mean: { combine: 'add', identity: () => 0 },
  min: { combine: 'min', identity: (type) => LIMITS[type][1] },
  max: { combine: 'max', identity: (type) => LIMITS[type][0] },
}
