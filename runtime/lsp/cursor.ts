/** Where a cursor stands, by the tokens before it. */
import type { IToken } from 'chevrotain'
import type { Item } from '../../grammar/ast.ts'
import * as T from '../../grammar/tokens.ts'
import { AXIS_FUNCTION_NAMES, DERIVED_REDUCTION_NAMES, REDUCTION_NAMES } from '../../grammar/vocabulary.ts'
import type { Analysis } from './analysis.ts'

export type Context =
  /** A name that is being made up, or something without names. */
  | { readonly kind: 'nothing' }
  /** Between items. */
  | { readonly kind: 'item' }
  | { readonly kind: 'type' | 'axis'; readonly item: Item | undefined }
  | { readonly kind: 'expression'; readonly item: Item | undefined; readonly isStatement: boolean }
  /** Of schedules. */
  | { readonly kind: 'kernel' | 'target' }
  | { readonly kind: 'entry'; readonly target: string; readonly taken: readonly string[] }
  | { readonly kind: 'value'; readonly target: string; readonly key: string }

const AXES_FOLLOW: ReadonlySet<string> = new Set([...REDUCTION_NAMES, ...DERIVED_REDUCTION_NAMES])
const AXIS_FUNCTIONS: ReadonlySet<string> = new Set(AXIS_FUNCTION_NAMES)

export function contextAt(analysis: Analysis, offset: number): Context {
  const before = tokensBefore(analysis, offset)
  const start = before.findLastIndex((token, i) => isItemStart(token, before[i - 1]))
  const first = before[start]
  if (!first) return { kind: 'item' }
  const own = before.slice(start).filter(({ tokenType }) => tokenType !== T.Newline)
  const lines = before.slice(start)
  const brackets = openBrackets(own)
  const body = brackets.findIndex(({ image }) => image === '{')
  const closed = body < 0 && own.some(({ image }) => image === '}')
  if (closed) return { kind: 'item' }
  if (first.tokenType === T.Schedule) return scheduleContext(own, lines, body >= 0)
  const item = analysis.program.items.findLast(({ span }) => span.start <= offset)
  return body >= 0 ? bodyContext(own, lines, brackets, item) : headerContext(own, brackets, item)
}

/** All before the word that the cursor is in or behind. */
export function tokensBefore({ tokens: { tokens } }: Analysis, offset: number): readonly IToken[] {
  const before = tokens.filter((token) => token.startOffset < offset)
  const last = before.at(-1)
  const isInside = last !== undefined && T.isA(last, T.Word) && offset <= T.tokenEnd(last)
  return isInside ? before.slice(0, -1) : before
}

function isItemStart({ tokenType }: IToken, previous: IToken | undefined): boolean {
  if (tokenType === T.Kernel || tokenType === T.Schedule || tokenType === T.Epilogue)
    return (
      !previous ||
      previous.tokenType === T.Newline ||
      previous.image === '}' ||
      [T.Approx, T.Precise].includes(previous.tokenType)
    )
  return false
}

interface Bracket {
  readonly image: string
  /** The token before it. */
  readonly of: string
}

/** Those that are not closed, outermost first. */
export function openBrackets(tokens: readonly IToken[]): readonly Bracket[] {
  const open: Bracket[] = []
  tokens.forEach(({ image }, i) => {
    if ('([{'.includes(image) && image.length === 1) open.push({ image, of: tokens[i - 1]?.image ?? '' })
    else if (')]}'.includes(image) && image.length === 1) open.pop()
  })
  return open
}

function scheduleContext(own: readonly IToken[], lines: readonly IToken[], inBody: boolean): Context {
  const on = own.findIndex(({ tokenType }) => tokenType === T.On)
  if (on < 0) {
    const last = own.at(-1)!
    return last.tokenType === T.Schedule || last.image === ',' ? { kind: 'kernel' } : { kind: 'nothing' }
  }
  const target = own[on + 1]?.image ?? ''
  if (!inBody) return own.length === on + 1 ? { kind: 'target' } : { kind: 'nothing' }
  const entries = entriesOf(lines)
  const current = entries.at(-1) ?? []
  const [key] = current
  if (!key) return { kind: 'entry', target, taken: entries.flatMap(([first]) => first?.image ?? []) }
  const last = current.at(-1)!
  return last === key || last.image === '|' ? { kind: 'value', target, key: key.image } : { kind: 'nothing' }
}

/** The tokens behind `{`, a list for each entry; the last is the one that the cursor is in. */
function entriesOf(lines: readonly IToken[]): readonly (readonly IToken[])[] {
  const entries: IToken[][] = [[]]
  for (const token of lines.slice(lines.findIndex(({ image }) => image === '{') + 1)) {
    // A line that ends in `|` goes on.
    if (T.isA(token, T.Separator) && entries.at(-1)!.at(-1)?.image !== '|') entries.push([])
    else if (token.tokenType !== T.Newline) entries.at(-1)!.push(token)
  }
  return entries
}

function headerContext(own: readonly IToken[], brackets: readonly Bracket[], item: Item | undefined): Context {
  const last = own.at(-1)!
  const inner = brackets.at(-1)
  if (inner?.image === '[') return { kind: 'axis', item }
  if (last.tokenType === T.Ragged || last.tokenType === T.As) return { kind: 'axis', item }
  if (last.tokenType === T.By || last.tokenType === T.Upto) return { kind: 'expression', item, isStatement: false }
  if ([':', '|', '*'].includes(last.image)) return { kind: 'type', item }
  return { kind: 'nothing' }
}

function bodyContext(
  own: readonly IToken[],
  lines: readonly IToken[],
  brackets: readonly Bracket[],
  item: Item | undefined,
): Context {
  const last = own.at(-1)!
  const inner = brackets.at(-1)!
  if (inner.image === '[' && AXES_FOLLOW.has(inner.of)) return { kind: 'axis', item }
  if (inner.image === '(' && AXIS_FUNCTIONS.has(inner.of)) return { kind: 'axis', item }
  if (last.image === ':') return { kind: 'type', item }
  if (last.tokenType === T.Axis) return { kind: 'axis', item }
  const behind = lines.at(-1)!
  const isStatement = inner.image === '{' && (behind.image === '{' || T.isA(behind, T.Separator))
  return { kind: 'expression', item, isStatement }
}
