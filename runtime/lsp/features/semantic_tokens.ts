/** Semantic tokens: what each word is, by what it stands for. */
import type { IToken } from 'chevrotain'
import { SemanticTokensBuilder, type Range, type SemanticTokens } from 'vscode-languageserver'
import * as T from '../../../grammar/tokens.ts'
import { DTYPE_NAMES } from '../../../grammar/vocabulary.ts'
import type { Analysis } from '../analysis.ts'
import { FUNCTIONS_OF_LANGUAGE } from '../vocabulary.ts'
import type { Role } from '../bindings.ts'

export const LEGEND = {
  tokenTypes: ['comment', 'keyword', 'number', 'operator', 'type', 'typeParameter', 'function', 'parameter', 'variable', 'property', 'enumMember'],
  tokenModifiers: ['declaration', 'documentation', 'defaultLibrary', 'readonly'],
} // prettier-ignore

const DECLARATION = 1
const DOCUMENTATION = 2
const LIBRARY = 4
const READONLY = 8

const TYPE_OF_ROLE: Readonly<Record<Role, string>> = {
  kernel: 'function',
  epilogue: 'function',
  type: 'typeParameter',
  input: 'parameter',
  output: 'parameter',
  parameter: 'parameter',
  value: 'variable',
  axis: 'property',
}

interface Meaning {
  readonly type: string
  readonly modifiers: number
}

/** Of the whole text, or of what lies in `range`. */
export function semanticTokens(analysis: Analysis, range?: Range): SemanticTokens {
  const { tokens, comments } = analysis.tokens
  const meanings = new Map<number, Meaning>()
  for (const { span, of, writes } of analysis.bindings.occurrences) {
    const fixed = of.role === 'input' || of.role === 'axis' ? READONLY : 0
    meanings.set(span.start, { type: TYPE_OF_ROLE[of.role], modifiers: (writes ? DECLARATION : 0) | fixed })
  }
  for (const item of analysis.program.items) {
    if (item.kind !== 'schedule') continue
    meanings.set(item.target.span.start, { type: 'enumMember', modifiers: 0 })
    for (const { key, alternatives } of item.entries) {
      meanings.set(key.span.start, { type: 'property', modifiers: 0 })
      for (const { span } of alternatives) meanings.set(span.start, { type: 'enumMember', modifiers: 0 })
    }
  }
  const builder = new SemanticTokensBuilder()
  const [from, to] = range
    ? [analysis.document.offsetAt(range.start), analysis.document.offsetAt(range.end)]
    : [0, Infinity]
  const all = [...tokens, ...comments].sort((a, b) => a.startOffset - b.startOffset)
  all.forEach((token, i) => {
    if (token.startOffset < from || token.startOffset >= to) return
    const meaning = meaningOf(token, all[i + 1], meanings)
    if (!meaning) return
    const { line, character } = analysis.document.positionAt(token.startOffset)
    builder.push(line, character, token.image.length, LEGEND.tokenTypes.indexOf(meaning.type), meaning.modifiers)
  })
  return builder.build()
}

function meaningOf(token: IToken, next: IToken | undefined, known: ReadonlyMap<number, Meaning>): Meaning | undefined {
  const { tokenType, image } = token
  const plain = (type: string, modifiers = 0): Meaning => ({ type, modifiers })
  if (tokenType === T.DocComment) return plain('comment', DOCUMENTATION)
  if (tokenType === T.LineComment) return plain('comment')
  const own = known.get(token.startOffset)
  if (own) return own
  if (T.isA(token, T.NumberToken) || tokenType === T.Shape || tokenType === T.Cta) return plain('number')
  if (T.isA(token, T.BinaryOperator) || T.isA(token, T.PrefixOperator)) return plain('operator')
  if ([T.Arrow, T.Equals, T.Bar, T.Question].includes(tokenType)) return plain('operator')
  if (!T.isA(token, T.Word)) return undefined
  if ((DTYPE_NAMES as readonly string[]).includes(image)) return plain('type', LIBRARY)
  if ((next?.image === '(' || next?.image === '[') && FUNCTIONS_OF_LANGUAGE.has(image))
    return plain('function', LIBRARY)
  return tokenType === T.Ident ? undefined : plain('keyword')
}
