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
 * - index: i32 in, i32 out
 * - select: bool first, then the common type of the rest
 */
export type TypeRule = 'arithmetic' | 'order' | 'float' | 'compare' | 'logic' | 'index' | 'select'

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

/** Operations that combine numbers in any order: of reductions, and of what they are turned into. */
export type Combine = 'add' | 'mul' | 'min' | 'max'

/** f(x ∘ y) = f(x) • f(y) in one argument, whatever the others are, where all of its parts are defined; rounding aside. */
export interface Turn {
  readonly argument: number
  /** ∘ */
  readonly from: Combine
  /** • */
  readonly into: Combine
}

export const turn = (argument: number, from: Combine, into: Combine): Turn => ({ argument, from, into })

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
  /** What cost models take it for: an instruction or two, or several: ex2, rcp and what corrects them. */
  readonly cost: 'instruction' | 'function'
  /** How it changes with each argument, whatever the others are, where it is defined; null: not in one direction. */
  readonly monotone: readonly ('increasing' | 'decreasing' | null)[]
  /** What it makes of combinations, beside what `monotone` says of `min` and `max`; see `turnsInto`. */
  readonly turns?: readonly Turn[]
  /** Commutative and associative, rounding aside. `inverse`: the operation that takes an argument back out. */
  readonly monoid?: { readonly identity: number; readonly inverse: string | null }
  /**
   * Its result is no further off, relatively, than the arguments from `first` on together (`sum`: products) or than one of them
   * (`largest`): the sign and the order of what it chooses from do not decide a branch of another kind.
   */
  readonly carries?: { readonly first: number; readonly combine: 'sum' | 'largest' }
}

/** Entries by their names. */
export function entries<N extends string>(
  table: Readonly<Record<N, Omit<Operation, 'name'>>>,
): Readonly<Record<N, Operation>> {
  const named = Object.entries<Omit<Operation, 'name'>>(table).map(
    ([name, entry]) => [name, { name, ...entry }] as const,
  )
  return Object.fromEntries(named) as Record<N, Operation>
}

/**
 * The • of f(x ∘ y) = f(x) • f(y) in one argument; null: there is none. This is what tells whether a reduction can be taken past a
 * function, and whether a term splits into a factor of each side: exp makes products of sums, whatever rises takes max to max.
 */
export function turnsInto({ monotone, turns = [] }: Operation, argument: number, from: Combine): Combine | null {
  if (from === 'min' || from === 'max') {
    const direction = monotone[argument]
    if (direction === 'increasing') return from
    return direction === 'decreasing' ? (from === 'min' ? 'max' : 'min') : null
  }
  return turns.find((one) => one.argument === argument && one.from === from)?.into ?? null
}

/** Relative error of short forms: at most a sixteenth of an ulp of f16. Measured over all f32 numbers: 1.4e-5. */
export const SHORT_ERROR = 2 ** -15

export const call = (name: string): CudaForm => ({ kind: 'call', function: name })
export const infix = (operator: string): CudaForm => ({ kind: 'infix', operator })
export const prefix = (operator: string): CudaForm => ({ kind: 'prefix', operator })

export const required = (...names: string[]): Parameter[] => names.map((name) => ({ name, default: null }))
