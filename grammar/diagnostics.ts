/**
 * Diagnostics: a message is a value (code, span, labels, notes, fix), thrown in bundles as one `KtlError`.
 * Texts come from the catalogue (grammar/catalogue/); rendering is in grammar/render.ts.
 */
import type { Span } from './ast.ts'
import { renderDiagnostics } from './render.ts'

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

export interface KtlErrorDetails {
  operand?: string
  expected?: string
  got?: string
  cause?: unknown
}

/**
 * The one error class of ktl. `code` is the first error's code; `message` is its rendered text without colours.
 *
 * @example
 * try {
 *   new EpilogueArguments('relu(acc')
 * } catch (error) {
 *   console.log(error instanceof KtlError, (error as KtlError).code) // true KTL1005
 * }
 */
export class KtlError extends Error {
  readonly code: string
  readonly diagnostics: readonly Diagnostic[]
  readonly operand: string | undefined
  readonly expected: string | undefined
  readonly got: string | undefined

  constructor(diagnostics: readonly Diagnostic[] | Diagnostic, details: KtlErrorDetails = {}) {
    const list: readonly Diagnostic[] = Array.isArray(diagnostics) ? diagnostics : [diagnostics as Diagnostic]
    const first = list.find((d) => d.severity === 'error') ?? list[0]
    super(renderDiagnostics(list), { cause: details.cause })
    this.name = 'KtlError'
    this.code = first?.code ?? 'KTL9001'
    this.diagnostics = list
    this.operand = details.operand
    this.expected = details.expected
    this.got = details.got
  }
}
