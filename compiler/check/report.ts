/** Collects diagnostics: one message for a place and fact, however often an inlined body is looked at. */
import { diagnose, type Code, type ParamsOf } from '../../grammar/catalogue/index.ts'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import type { Span } from '../../grammar/ast.ts'

export class Reporter {
  readonly diagnostics: Diagnostic[] = []
  private readonly seen = new Set<string>()

  report<C extends Code>(code: C, source: Source, span: Span, params: ParamsOf<C>): void {
    this.add(diagnose(code, { source, span, ...params }))
  }

  add(diagnostic: Diagnostic): void {
    const key = `${diagnostic.code} ${diagnostic.source?.name} ${diagnostic.span?.start} ${diagnostic.message}`
    if (this.seen.has(key)) return
    this.seen.add(key)
    this.diagnostics.push(diagnostic)
  }

  /** How many errors so far. */
  get errors(): number {
    return this.diagnostics.filter((d) => d.severity === 'error').length
  }
}

/** By place, errors and warnings together, as the file is read. */
export function inSourceOrder(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  return [...diagnostics].sort((a, b) => (a.span?.start ?? 0) - (b.span?.start ?? 0))
}
