/** Fixes of diagnostics, one by one and all at once. */
import { CodeActionKind, type CodeAction, type TextEdit } from 'vscode-languageserver'
import type { Span } from '../../../grammar/ast.ts'
import type { Fix } from '../../../grammar/diagnostics.ts'
import type { Analysis } from '../analysis.ts'
import { shownDiagnostics } from './diagnostics.ts'

/** `only`: kinds that the client asks for; undefined: all. */
export function codeActions(analysis: Analysis, { start, end }: Span, only?: readonly string[]): CodeAction[] {
  const { uri } = analysis.document
  const wants = (kind: string): boolean => !only || only.some((one) => kind === one || kind.startsWith(`${one}.`))
  const fixable = analysis.diagnostics.flatMap((diagnostic, i) =>
    diagnostic.fix ? [{ diagnostic, fix: diagnostic.fix, i }] : [],
  )
  const touched = fixable.filter(({ diagnostic: { span } }) => span && span.start <= end && start <= span.end)
  const shown = touched.length > 0 ? shownDiagnostics(analysis) : []
  const actions = touched.map(({ fix, i }): CodeAction => ({
    title: sentence(fix.description),
    kind: CodeActionKind.QuickFix,
    isPreferred: true,
    ...(shown[i] && { diagnostics: [shown[i]] }),
    edit: { changes: { [uri]: [editOf(fix, analysis)] } },
  }))
  const all = separate(fixable.map(({ fix }) => fix))
  const everything: CodeAction = {
    title: `Apply all ${all.length} fixes`,
    kind: CodeActionKind.SourceFixAll,
    edit: { changes: { [uri]: all.map((fix) => editOf(fix, analysis)) } },
  }
  return [
    ...(wants(CodeActionKind.QuickFix) ? actions : []),
    ...(all.length > (only ? 0 : 1) && wants(CodeActionKind.SourceFixAll) ? [everything] : []),
  ]
}

/** In order, of overlapping ones the first. */
function separate(fixes: readonly Fix[]): readonly Fix[] {
  let at = 0
  return [...fixes]
    .sort((a, b) => a.span.start - b.span.start)
    .filter(({ span }) => {
      if (span.start < at) return false
      at = Math.max(span.end, span.start + 1)
      return true
    })
}

const editOf = ({ span, replacement }: Fix, analysis: Analysis): TextEdit => ({
  range: analysis.rangeOf(span),
  newText: replacement,
})

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)
