/** How ktl code is coloured, from the words that the lexer knows, and what the compiler says of it, as the editor takes it. */
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from '@codemirror/language'
import type { Diagnostic as EditorDiagnostic } from '@codemirror/lint'
import { tags } from '@lezer/highlight'
import { DTYPE_NAMES, FUNCTION_NAMES, KEYWORDS, REDUCTION_NAMES } from '../grammar/vocabulary.ts'
import type { Diagnostic } from '../grammar/diagnostics.ts'

const keywords = new Set<string>(KEYWORDS)
const types = new Set<string>(DTYPE_NAMES)
const functions = new Set<string>([...FUNCTION_NAMES, ...REDUCTION_NAMES])

export const ktl = StreamLanguage.define({
  token(stream) {
    if (stream.eatSpace()) return null
    if (stream.match(/^\/\/.*/)) return 'comment'
    if (stream.match(/^\d[\w.]*/)) return 'number'
    const word = stream.match(/^[A-Za-z_]\w*/) as RegExpMatchArray | null
    if (word) return keywords.has(word[0]) ? 'keyword' : types.has(word[0]) ? 'typeName' : functions.has(word[0]) ? 'macroName' : null // prettier-ignore
    stream.next()
    return null
  },
})

/** Colours are those of the page, light or dark. */
export const colors = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.comment, color: 'var(--faint)', fontStyle: 'italic' },
    { tag: tags.keyword, color: 'var(--keyword)' },
    { tag: tags.typeName, color: 'var(--type)' },
    { tag: tags.macroName, color: 'var(--function)' },
    { tag: tags.number, color: 'var(--number)' },
  ]),
)

export const asEditorDiagnostics = (list: readonly Diagnostic[]): EditorDiagnostic[] =>
  list.flatMap(({ span, severity, message, code, help }) =>
    span === null
      ? []
      : [{ from: span.start, to: span.end, severity: severity === 'error' ? 'error' : 'warning', message: `${code}: ${message}${help ? `\n${help}` : ''}` }],
  ) // prettier-ignore
