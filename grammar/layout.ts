/**
 * Between lexer and parser: what newlines mean, and brackets that do not match.
 *
 * Newlines inside `( ) [ ]` and between items are blanks. Elsewhere they separate statements, unless the next line
 * begins with a binary operator, `|`, `->`, `,` or a closing bracket. `{ }` starts afresh inside.
 *
 * A bracket that is never closed gets a zero-width partner at the end of its line, and a stray closing one is left
 * out, so that one typing slip gives one message and the parser sees balanced brackets.
 */
import { createTokenInstance, type IToken, type TokenType } from 'chevrotain'
import * as T from './tokens.ts'

export interface Layout {
  readonly tokens: IToken[]
  readonly unclosed: readonly { readonly open: IToken; readonly at: number; readonly close: string }[]
  readonly unopened: readonly IToken[]
  /** The token at which nesting passed the limit. */
  readonly tooDeep: IToken | null
}

const PARTNER = new Map<TokenType, TokenType>([
  [T.LParen, T.RParen],
  [T.LBracket, T.RBracket],
  [T.LBrace, T.RBrace],
])
const CLOSERS = new Set(PARTNER.values())
const CONTINUES = new Set([T.Bar, T.Arrow, T.Comma, ...CLOSERS])

/** `mode`: newlines outside all brackets are blanks in a program and separators in an epilogue string. */
export function layOut(raw: readonly IToken[], mode: 'program' | 'epilogue', maxNesting: number): Layout {
  const { partner, unopened, tooDeep } = matchBrackets(raw, mode, maxNesting)
  const tokens: IToken[] = []
  const unclosed: Layout['unclosed'][number][] = []
  const stack: number[] = []

  const top = (): IToken | undefined => raw[stack.at(-1) ?? -1]
  const last = (): IToken | undefined => tokens.at(-1)
  const closeTop = (): void => {
    const open = raw[stack.pop()!]!
    const type = PARTNER.get(open.tokenType)!
    if (type === T.RBrace) dropTrailingSeparator(tokens)
    const at = tokens.length > 0 ? T.tokenEnd(last()!) : 0
    tokens.push(createTokenInstance(type, '', at, NaN, NaN, NaN, NaN, NaN))
    unclosed.push({ open, at, close: type.PATTERN as string })
  }
  const separate = (token: IToken): void => {
    const before = last()?.tokenType
    if (before !== undefined && before !== T.LBrace && !T.isA(last()!, T.Separator)) tokens.push(token)
  }

  for (let i = 0; i < raw.length; i++) {
    const token = raw[i]!
    const type = token.tokenType
    if (type === T.Newline) {
      while (raw[i + 1]?.tokenType === T.Newline) i++
      if (continues(raw[i + 1])) continue
      while (top() !== undefined && top()!.tokenType !== T.LBrace && partner[stack.at(-1)!]! < 0) closeTop()
      const enclosing = top()?.tokenType
      if (enclosing === T.LBrace || (enclosing === undefined && mode === 'epilogue')) separate(token)
    } else if (type === T.Semicolon && (stack.length > 0 || mode === 'epilogue')) {
      separate(token)
    } else if (CLOSERS.has(type)) {
      if (partner[i]! < 0) continue
      while (stack.at(-1) !== partner[i]) closeTop()
      stack.pop()
      if (type === T.RBrace) dropTrailingSeparator(tokens)
      tokens.push(token)
    } else {
      if (mode === 'program' && isItemStart(raw, i)) while (stack.length > 0) closeTop()
      if (PARTNER.has(type)) stack.push(i)
      tokens.push(token)
    }
  }
  while (stack.length > 0) closeTop()
  dropTrailingSeparator(tokens)
  return { tokens: tokens.map((token, i) => functionName(token, tokens, i)), unclosed, unopened, tooDeep }
}

const AXIS_FUNCTIONS = new Map([
  ['start', T.Start],
  ['length', T.Length],
])

/** `start ( axis )`, `length ( axis )` and `floor (` are more than names; comments and newlines between do not count. */
function functionName(token: IToken, tokens: readonly IToken[], i: number): IToken {
  if (token.tokenType !== T.Ident || tokens[i + 1]?.tokenType !== T.LParen) return token
  const axis = tokens[i + 2]
  const isAxis = axis !== undefined && T.isA(axis, T.Word) && tokens[i + 3]?.tokenType === T.RParen
  const type = token.image === 'floor' ? T.Floor : isAxis ? AXIS_FUNCTIONS.get(token.image) : undefined
  return type === undefined ? token : { ...token, tokenType: type, tokenTypeIdx: type.tokenTypeIdx! }
}

function dropTrailingSeparator(tokens: IToken[]): void {
  const last = tokens.at(-1)
  if (last !== undefined && T.isA(last, T.Separator)) tokens.pop()
}

/** Whether `next`, the first token of a line, carries the statement above on. */
const continues = (next: IToken | undefined): boolean =>
  next !== undefined && (CONTINUES.has(next.tokenType) || T.isA(next, T.BinaryOperator))

/** `kernel f(`, `kernel f<`, `approx kernel`, `epilogue e(`, `schedule f on`: nothing else can be read like this. */
function isItemStart(raw: readonly IToken[], i: number): boolean {
  const next = raw[i + 1]?.tokenType
  const second = raw[i + 2]?.tokenType
  switch (raw[i]!.tokenType) {
    case T.Approx:
    case T.Precise:
      return next === T.Kernel
    case T.Kernel:
      return next === T.Ident && (second === T.LParen || second === T.Less)
    case T.Epilogue:
      return next === T.Ident && second === T.LParen
    case T.Schedule:
      return next === T.Ident && second === T.On
    default:
      return false
  }
}

/** `partner[i]`: index of the other bracket, or -1. */
function matchBrackets(
  raw: readonly IToken[],
  mode: 'program' | 'epilogue',
  maxNesting: number,
): { partner: Int32Array; unopened: IToken[]; tooDeep: IToken | null } {
  const partner = new Int32Array(raw.length).fill(-1)
  const unopened: IToken[] = []
  const stack: number[] = []
  let tooDeep: IToken | null = null
  let prefixes = 0
  for (let i = 0; i < raw.length; i++) {
    const token = raw[i]!
    // `- - - x` nests too: the tree is as deep as the run is long.
    prefixes = T.isA(token, T.PrefixOperator) ? prefixes + 1 : token.tokenType === T.Newline ? prefixes : 0
    if (PARTNER.has(token.tokenType)) stack.push(i)
    else if (CLOSERS.has(token.tokenType)) {
      const open = findOpener(raw, stack, token.tokenType)
      if (open < 0) unopened.push(token)
      else {
        partner[i] = stack[open]!
        partner[stack[open]!] = i
        stack.length = open
      }
    } else if (mode === 'program' && stack.length > 0 && isItemStart(raw, i)) stack.length = 0
    if (stack.length + prefixes > maxNesting) tooDeep ??= token
  }
  return { partner, unopened, tooDeep }
}

/** Position in the stack of the bracket that `closer` closes; `)` and `]` do not look past a `{`. */
function findOpener(raw: readonly IToken[], stack: readonly number[], closer: TokenType): number {
  for (let s = stack.length - 1; s >= 0; s--) {
    const type = raw[stack[s]!]!.tokenType
    if (PARTNER.get(type) === closer) return s
    if (type === T.LBrace) return -1
  }
  return -1
}
