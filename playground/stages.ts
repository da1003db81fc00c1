/** What the page and the compiler in its worker say to one another. */
import type { TargetArch } from '../compiler/instance.ts'
import type { Span } from '../grammar/ast.ts'
import type { Diagnostic } from '../grammar/diagnostics.ts'

export const STAGES = ['tensor', 'plan', 'tile', 'cuda', 'evaluate'] as const
export type Stage = (typeof STAGES)[number]

export interface Question {
  readonly stage: Stage
  readonly source: string
  /** Empty: the first. */
  readonly kernel: string
  readonly target: TargetArch
  /** `m=128,n=128`, for the evaluator. */
  readonly dims: string
}

export interface Made {
  readonly text: string
  /** Of CUDA: what each line was generated from; null: nothing that stands in the program. */
  readonly origins?: readonly (Span | null)[]
}

export interface Checked {
  /** Of a program without errors; `dims`: extents to begin with. */
  readonly kernels: readonly { readonly name: string; readonly dims: string }[]
  readonly diagnostics: readonly Diagnostic[]
}

export type Asked =
  { readonly kind: 'check'; readonly text: string } | { readonly kind: 'make'; readonly question: Question }

/** What the page asks of the virtual device in it. */
export interface DeviceQuestion extends Omit<Question, 'stage'> {
  readonly call: DeviceCall
}
export const DEVICE_CALLS = ['run', 'timeline', 'ptx'] as const
export type DeviceCall = (typeof DEVICE_CALLS)[number]

/** A text, or a page to be framed. */
export type Ran = { readonly text: string } | { readonly page: string }
