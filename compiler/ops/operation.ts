/** What an entry of the operation table says. The entries are in arithmetic.ts, functions.ts and logic.ts. */
import type { ComputeType } from '../ir/tensor.ts'

/** Type of an argument as the checker sees it: literals have no type of their own and take the other side's. */
export type ArgType = ComputeType | 'integer literal' | 'float literal'

/**
 * How an operation finds its compute type:
 * - arithmetic: the common type of its arguments (i32 and u32 wrap)
 * - order: like arithmetic; the result is one of the arguments or exact, so integers stay integers
 * - float: f64 if an argument is f64, else f32
 * - compare: common type in, bool out
 * - logic: bool in, bool out
 * - select: bool first, then the common type of the rest
 */
export type TypeRule = 'arithmetic' | 'order' | 'float' | 'compare' | 'logic' | 'select'

export interface Parameter {
  readonly name: string
  /** Value when the caller leaves it out; null: required. */
  readonly default: number | null
}

/**
 * - exact: no rounding of its own
 * - rounded: IEEE, nearest even; the same bits everywhere
 * - a number: at most that many units in the last place of the compute type, over the whole range
 */
export type Accuracy = 'exact' | 'rounded' | { readonly f32: number; readonly f64: number }

/** How CUDA computes it. Functions named `ktl_…` are in codegen/cuda/device_functions.ts, others are CUDA built-ins. */
export type CudaForm =
  | { readonly kind: 'infix'; readonly operator: string }
  | { readonly kind: 'prefix'; readonly operator: string }
  | { readonly kind: 'call'; readonly function: string }
  | { readonly kind: 'conditional' }

export interface Operation {
  readonly name: string
  /** Spelling in the language: `+`, `exp`. */
  readonly spelling: string
  readonly doc: string
  readonly parameters: readonly Parameter[]
  readonly rule: TypeRule
  /**
   * The reference: arguments of compute type `type` in, correctly rounded result out (functions: computed in f64,
   * rounded once). bool is 0 or 1.
   */
  readonly evaluate: (type: ComputeType, ...args: number[]) => number
  /**
   * Absolute error of the result when argument i may be off by `bounds[i]`, without the operation's own rounding.
   * A bool that might have come out the other way has bound 1.
   */
  readonly propagate: (type: ComputeType, args: readonly number[], bounds: readonly number[]) => number
  readonly accuracy: Accuracy
  readonly cuda: Partial<Readonly<Record<ComputeType, CudaForm>>>
  /** Cheaper f32 form for kernels marked `approx`, and its relative error. */
  readonly approx?: { readonly form: CudaForm; readonly relativeError: number }
  /** Cheaper f32 form of relative error SHORT_ERROR, for values that reach 16-bit outputs alone; see short_forms.ts. */
  readonly short?: CudaForm
}

/** Relative error of short forms: at most a sixteenth of an ulp of f16. Measured over all f32 numbers: 1.4e-5. */
export const SHORT_ERROR = 2 ** -15

export const call = (name: string): CudaForm => ({ kind: 'call', function: name })
export const infix = (operator: string): CudaForm => ({ kind: 'infix', operator })
export const prefix = (operator: string): CudaForm => ({ kind: 'prefix', operator })

export const required = (...names: string[]): Parameter[] => names.map((name) => ({ name, default: null }))
