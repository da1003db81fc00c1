/** Definition, references and highlights of a name. */
import { DocumentHighlightKind, type DocumentHighlight, type Location } from 'vscode-languageserver'
import type { Analysis } from '../analysis.ts'
import { occurrenceAt, occurrencesOf } from '../bindings.ts'

export function definition(analysis: Analysis, offset: number): Location | null {
  const found = occurrenceAt(analysis.bindings, offset)
  return found ? { uri: analysis.document.uri, range: analysis.rangeOf(found.of.span) } : null
}

export function references(analysis: Analysis, offset: number, withDeclaration: boolean): Location[] {
  const found = occurrenceAt(analysis.bindings, offset)
  if (!found) return []
  return occurrencesOf(analysis.bindings, found.of)
    .filter(({ span }) => withDeclaration || span !== found.of.span)
    .map(({ span }) => ({ uri: analysis.document.uri, range: analysis.rangeOf(span) }))
}

export function highlights(analysis: Analysis, offset: number): DocumentHighlight[] {
  const found = occurrenceAt(analysis.bindings, offset)
  if (!found) return []
  return occurrencesOf(analysis.bindings, found.of).map(({ span, writes }) => ({
    range: analysis.rangeOf(span),
    kind: writes ? DocumentHighlightKind.Write : DocumentHighlightKind.Read,
  }))
}
