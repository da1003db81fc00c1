/**
 * What is particular to `def` strings: annotations and the docstring are dropped from the tokens, so that the grammar
 * sees `def name(params): statements` only. Indentation carries no meaning here: a string holds one function.
 */
import type { IToken } from 'chevrotain'
import * as T from './tokens.ts'

const OPENERS = new Set([T.LParen, T.LBracket, T.LBrace])
const CLOSERS = new Set([T.RParen, T.RBracket, T.RBrace])

/** `def f(acc: Tensor, a: float = 1) -> Tensor: """doc""" D: Tensor = …` without what Python alone understands. */
export function dropAnnotations(tokens: readonly IToken[]): IToken[] {
  const kept: IToken[] = []
  let i = 0
  let depth = 0
  const type = (at: number) => tokens[at]?.tokenType
  /** First token at this depth from `at` on that `ends`, or the end of the line outside brackets. */
  const skipTo = (at: number, ends: readonly unknown[]): number => {
    for (let inner = 0; at < tokens.length; at++) {
      if (inner === 0 && ends.includes(type(at))) return at
      if (OPENERS.has(type(at)!)) inner++
      else if (CLOSERS.has(type(at)!)) inner--
      if (inner < 0) return at
    }
    return at
  }

  // The header, up to the colon that ends it.
  for (; i < tokens.length; i++) {
    const current = type(i)!
    if (depth === 1 && current === T.Colon) i = skipTo(i + 1, [T.Comma, T.Equals])
    else if (depth === 0 && current === T.Arrow) i = skipTo(i + 1, [T.Colon, T.Newline])
    const token = tokens[i]
    if (token === undefined) return kept
    if (OPENERS.has(token.tokenType)) depth++
    else if (CLOSERS.has(token.tokenType)) depth--
    kept.push(token)
    if (depth === 0 && token.tokenType === T.Colon) break
  }
  i++
  while (type(i) === T.Newline) i++
  if (type(i) === T.Text) {
    i++
    while (type(i) === T.Newline || type(i) === T.Semicolon) i++
  }

  // The body: `name: annotation = …` at the beginning of a statement.
  for (let fresh = true; i < tokens.length; i++) {
    const token = tokens[i]!
    kept.push(token)
    if (fresh && token.tokenType === T.Ident && type(i + 1) === T.Colon) i = skipTo(i + 2, [T.Equals, T.Newline]) - 1
    fresh = T.isA(token, T.Separator)
  }
  return kept
}
