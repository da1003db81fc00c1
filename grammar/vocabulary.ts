/**
 * The reserved words of the language, in one place: the lexer, the checker's "did you mean", the editor grammar
 * and the docs read this table. What an operation or dtype *means* is in compiler/ops.ts and compiler/dtypes.ts.
 *
 * @example
 * console.log(DTYPE_NAMES.includes('bf16')) // true
 */
export const DTYPE_NAMES = [
  'f64', 'f32', 'tf32', 'f16', 'bf16', 'e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1', 'ue8m0', 'ue4m3',
  'i8', 'u8', 'i4', 'u4', 'i32', 'u32', 'bool',
] as const // prettier-ignore
/** A number format by name. */
export type DTypeName = (typeof DTYPE_NAMES)[number]

/** Elementwise functions callable by name. */
export const FUNCTION_NAMES = [
  'exp', 'exp2', 'expm1', 'log', 'log2', 'log1p', 'sin', 'cos', 'erf', 'sqrt', 'rsqrt', 'tanh', 'sigmoid', 'relu', 'leaky_relu', 'gelu', 'gelu_tanh', 'silu', 'hardswish',
  'softplus', 'elu', 'abs', 'neg', 'sign', 'mod', 'min', 'max', 'clamp', 'pow', 'fma', 'floor', 'ceil', 'round', 'select', 'skip0',
] as const // prettier-ignore
export type FunctionName = (typeof FUNCTION_NAMES)[number]

/** Reductions: `sum[k](…)`. `min` and `max` are also elementwise functions. */
export const REDUCTION_NAMES = ['sum', 'min', 'max', 'mean'] as const
export type ReductionName = (typeof REDUCTION_NAMES)[number]

/** Written like reductions, and defined by them: `softmax[n](x)`. */
export const DERIVED_REDUCTION_NAMES = ['softmax', 'logsumexp', 'var'] as const

/** Functions of an axis: `size(c)`. Only `size` is a keyword. */
export const AXIS_FUNCTION_NAMES = ['size', 'start', 'length'] as const
export type AxisFunctionName = (typeof AXIS_FUNCTION_NAMES)[number]

export const KEYWORDS = ['kernel', 'epilogue', 'schedule', 'on', 'return', 'ragged', 'by', 'as', 'approx', 'precise', 'def', 'size', 'else', 'upto', 'axis'] as const // prettier-ignore
export type Keyword = (typeof KEYWORDS)[number]

/** Numbers that are written as words. */
export const LITERAL_NAMES = ['inf', 'nan'] as const
