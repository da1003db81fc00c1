/** Diagnostics of the front end as editors show them. */
import { DiagnosticSeverity, DiagnosticTag, type Diagnostic as Shown } from 'vscode-languageserver'
import type { Diagnostic, Severity } from '../../../grammar/diagnostics.ts'
import type { Analysis } from '../analysis.ts'
import { diagnosticText } from '../texts.ts'

const SEVERITIES: Readonly<Record<Severity, DiagnosticSeverity>> = {
  error: DiagnosticSeverity.Error,
  warning: DiagnosticSeverity.Warning,
  note: DiagnosticSeverity.Information,
}
/** Names that nothing reads: editors grey them out. */
const UNUSED: ReadonlySet<string> = new Set(['KTL2008', 'KTL2009'])
/** More do not help, and cost every client time. */
const SHOWN = 500

export function shownDiagnostics(analysis: Analysis): Shown[] {
  const { diagnostics } = analysis
  const shown = diagnostics.slice(0, SHOWN).map((diagnostic) => show(diagnostic, analysis))
  const left = diagnostics.length - shown.length
  if (left > 0) shown[0] = { ...shown[0]!, message: `${shown[0]!.message}\n\n${left} more are not shown` }
  return shown
}

function show(diagnostic: Diagnostic, analysis: Analysis): Shown {
  const { code, severity, span, labels } = diagnostic
  return {
    code,
    source: 'ktl',
    severity: SEVERITIES[severity],
    message: diagnosticText(diagnostic),
    range: analysis.rangeOf(span ?? { start: 0, end: 0 }),
    ...(UNUSED.has(code) && { tags: [DiagnosticTag.Unnecessary] }),
    ...(labels && {
      relatedInformation: labels.map(({ span, text }) => ({
        message: text,
        location: { uri: analysis.document.uri, range: analysis.rangeOf(span) },
      })),
    }),
  }
}
