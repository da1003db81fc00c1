/** A message as a value: code, span, labels, notes, fix. Those that are thrown are in a `KtlError` (diagnostics.ts). */
import type { Span } from './ast.ts'

/** Errors stop; warnings and notes do not. */
export type Severity = 'error' | 'warning' | 'note'

/** A text with a name for `FILE:LINE:COL`. Epilogue strings are sources of their own (`<epilogue>`). */
export interface Source {
  readonly name: string
  readonly text: string
}

export interface Label {
  readonly span: Span
  readonly text: string
}

/** Replacement text: applying it to `source.text` gives the corrected program. */
export interface Fix {
  readonly description: string
  readonly span: Span
  readonly replacement: string
}

/** A message as a value. */
export interface Diagnostic {
  /** `KTL2003`. Never reused. */
  readonly code: string
  readonly severity: Severity
  /** One sentence: the fact, with the user's names in it. */
  readonly message: string
  /** null: not about a place in a text (argument and environment errors). */
  readonly source: Source | null
  readonly span: Span | null
  /** Short text under the span, e.g. "expected `]`". */
  readonly label?: string
  readonly labels?: readonly Label[]
  readonly notes?: readonly string[]
  readonly help?: string
  readonly fix?: Fix
}
