/**
 * Diagnostics: a message is a value (code, span, labels, notes, fix), thrown in bundles as one `KtlError`.
 * Texts come from the catalogue (grammar/catalogue/); rendering is in grammar/render.ts.
 */
import type { Diagnostic } from './diagnostic.ts'
import { renderDiagnostics } from './render.ts'

export type { Diagnostic, Fix, Label, Severity, Source } from './diagnostic.ts'

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
