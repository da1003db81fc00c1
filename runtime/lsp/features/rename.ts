/** Renaming within a file: what cannot be a name is refused, with the reason. */
import { LSPErrorCodes, ResponseError, type Range, type WorkspaceEdit } from 'vscode-languageserver'
import { checkReserved } from '../../../compiler/check/body.ts'
import { Reporter } from '../../../compiler/check/report.ts'
import { KEYWORDS, LITERAL_NAMES } from '../../../grammar/vocabulary.ts'
import type { Analysis } from '../analysis.ts'
import { occurrenceAt, occurrencesOf, type Declared } from '../bindings.ts'

export function prepareRename(analysis: Analysis, offset: number): { range: Range; placeholder: string } {
  const { span, of } = renamed(analysis, offset)
  return { range: analysis.rangeOf(span), placeholder: of.name }
}

export function rename(analysis: Analysis, offset: number, to: string): WorkspaceEdit {
  const { of } = renamed(analysis, offset)
  const reason = refusal(to, of, analysis)
  if (reason !== null) throw new ResponseError(LSPErrorCodes.RequestFailed, reason)
  const edits = occurrencesOf(analysis.bindings, of).map(({ span }) => ({
    range: analysis.rangeOf(span),
    newText: to,
  }))
  return { changes: { [analysis.document.uri]: edits } }
}

function renamed(analysis: Analysis, offset: number) {
  const found = occurrenceAt(analysis.bindings, offset)
  if (found) return found
  throw new ResponseError(LSPErrorCodes.RequestFailed, 'there is no name of this file here')
}

/** Why `of` cannot be called so; null: it can. */
function refusal(to: string, of: Declared, { bindings }: Analysis): string | null {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(to))
    return `\`${to}\` is no name: names have letters, digits and underscores, and begin with no digit`
  if (of.role !== 'axis') {
    if (([...KEYWORDS, ...LITERAL_NAMES] as readonly string[]).includes(to))
      return `\`${to}\` is a word of the language, which no ${nounOf(of)} can be called`
    const reserved = reservedFor(to)
    if (reserved !== null) return reserved
  }
  const other = bindings.declared.find((one) => one !== of && one.name === to && meets(one, of))
  return other ? `there is ${articleOf(other)} ${nounOf(other)} \`${to}\` already` : null
}

/** As the checker words it. */
function reservedFor(text: string): string | null {
  const report = new Reporter()
  const source = { name: '', text }
  checkReserved({ kind: 'name', text, span: { start: 0, end: text.length } }, { report, source })
  return report.diagnostics[0]?.message ?? null
}

/** Kernels and epilogues share the names of the file, and what is in an item shares those of the item. */
const meets = (a: Declared, b: Declared): boolean => (isGlobal(a) && isGlobal(b)) || (!isGlobal(b) && a.item === b.item)
const isGlobal = ({ role }: Declared): boolean => role === 'kernel' || role === 'epilogue'
const nounOf = ({ role }: Declared): string => (role === 'type' ? 'type parameter' : role)
const articleOf = ({ role }: Declared): string => (/^[aeiou]/.test(role) ? 'an' : 'a')
