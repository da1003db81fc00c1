/** The TextMate grammar of the editors, in the engine that colours the documentation. */
import { readFileSync } from 'node:fs'
import { createHighlighter, type BundledLanguage, type LanguageRegistration } from 'shiki'
import { expect, test } from 'vitest'
import { DTYPE_NAMES, FUNCTION_NAMES, KEYWORDS } from '../../grammar/vocabulary.ts'

const grammar = JSON.parse(
  readFileSync(new URL('../../editors/vscode/syntaxes/ktl.tmLanguage.json', import.meta.url), 'utf8'),
) as LanguageRegistration

test('colours every word of the language, and names not', async () => {
  const highlighter = await createHighlighter({ langs: [grammar], themes: ['github-dark'] })
  const scopeOf = (text: string): string => {
    const options = { lang: 'ktl' as BundledLanguage, theme: 'github-dark', includeExplanation: true } as const
    const [line] = highlighter.codeToTokensBase(text, options)
    return line![0]!.explanation![0]!.scopes.at(-1)!.scopeName
  }
  const keywords = KEYWORDS.filter((word) => word !== 'size')
  expect(keywords.filter((word) => scopeOf(`${word} `) !== 'keyword.control.ktl')).toEqual([])
  expect(DTYPE_NAMES.filter((word) => scopeOf(`${word}[`) !== 'support.type.ktl')).toEqual([])
  expect(FUNCTION_NAMES.filter((word) => scopeOf(`${word}(x)`) !== 'support.function.ktl')).toEqual([])
  expect(scopeOf('relus(x)')).toBe('source.ktl')
  expect(scopeOf('/// doc')).toBe('comment.line.documentation.ktl')
  expect(scopeOf('128x64 ')).toBe('constant.other.ktl')
})
