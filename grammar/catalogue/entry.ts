/** The shape of a catalogue entry: what a code means, an example of the mistake, and the function that words it. */
import type { Span } from '../ast.ts'
import type { Diagnostic, Severity, Source } from '../diagnostics.ts'

/** Where a diagnostic points; null: not about a place in a text. */
export interface Place {
  readonly source: Source | null
  readonly span: Span | null
}

/** The part of a diagnostic that an entry words. */
export type Wording = Pick<Diagnostic, 'message' | 'label' | 'labels' | 'notes' | 'help' | 'fix'>

/** Variables that are set while a snippet runs, in a process of its own: `{ KTL_NVCC: '/nonexistent/nvcc' }`. */
export type Environment = Readonly<Record<string, string>>

/**
 * A snippet that a test runs: a whole `.ktl` program, an epilogue string (with the kernel whose slot it fills, where
 * that matters), a call of the API, a command line, run in the checkout, or a kernel in CUDA C++ or PTX and the call
 * that launches it. Calls see everything that `ktl` exports and `device`, a virtual SM100; a launch also sees `kernel`,
 * the function of the text. What the last statement gives (an error, a Status, findings, reasons) names the code.
 */
export type Example =
  | { readonly ktl: string }
  | { readonly epilogue: string; readonly kernel?: string }
  | { readonly call: string; readonly environment?: Environment }
  | { readonly command: string; readonly environment?: Environment }
  | { readonly cuda: string; readonly launch: string }
  | { readonly ptx: string; readonly launch: string }

export interface Entry<P extends object = object> {
  /** A short noun phrase. */
  readonly title: string
  /** One paragraph for `ktl explain`: why it is refused and what to do. */
  readonly explain: string
  readonly severity?: Severity
  readonly wrong?: Example
  readonly right?: Example
  readonly word: (params: P, at: Place) => Wording
}

/** Types an entry by the parameters of its `word` function. */
export const entry = <P extends object>(e: Entry<P>): Entry<P> => e

/** `x`, in the backticks that messages set names and code in. */
export const code = (text: string): string => `\`${text}\``

/** `a`, `b` or `c`. */
export function orList(items: readonly string[], conjunction = 'or'): string {
  if (items.length <= 1) return items.join('')
  return `${items.slice(0, -1).join(', ')} ${conjunction} ${items.at(-1)}`
}

/** `1 value`, `2 values`. */
export const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`
