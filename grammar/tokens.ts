/**
 * Tokens and the three lexers: `.ktl` files, epilogue strings in ktl spelling, and `def` strings (Python spelling).
 * They share token types, so one parser reads them all. What a newline means is decided afterwards, in layout.ts.
 */
import { createToken, Lexer, type IToken, type TokenType } from 'chevrotain'
import type { Span } from './ast.ts'
import { KEYWORDS, LITERAL_NAMES } from './vocabulary.ts'

const category = (name: string, label: string): TokenType => createToken({ name, pattern: Lexer.NA, label })

/** Identifiers and keywords: what may name an axis, a schedule key or a schedule word. */
export const Word = category('Word', 'a name')
export const BinaryOperator = category('BinaryOperator', 'an operator')
export const PrefixOperator = category('PrefixOperator', '`-`, `!` or `+`')
export const NumberToken = category('NumberToken', 'a number')
/** Ends a statement or schedule entry: `;` or a newline that layout.ts kept. */
export const Separator = category('Separator', 'the end of the line')

export const Ident = createToken({
  name: 'Ident',
  pattern: /[A-Za-z_][A-Za-z0-9_]*/,
  label: 'a name',
  categories: [Word],
})

const titleCase = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)

/** `epilogue` before `(` is the slot, a different token, so that recovery never takes it for a declaration. */
export const Slot = createToken({
  name: 'Slot',
  pattern: /epilogue(?=[ \t]*\()/,
  label: '`epilogue`',
  categories: [Word],
})

/** A name that is a function where layout.ts finds it before `(`: also an Ident, so that operands and axes may have it. */
const functionName = (name: string): TokenType =>
  createToken({ name, pattern: Lexer.NA, label: `\`${name.toLowerCase()}\``, categories: [Ident, Word] })
export const Start = functionName('Start')
export const Length = functionName('Length')
/** In types, `floor(ue8m0[m, k/32])`. */
export const Floor = functionName('Floor')

const keywordTokens = KEYWORDS.map((word) =>
  createToken({
    name: titleCase(word),
    pattern: word,
    longer_alt: Ident,
    label: `\`${word}\``,
    categories: [Word],
  }),
)
const keyword = (word: (typeof KEYWORDS)[number]): TokenType => keywordTokens[KEYWORDS.indexOf(word)]!

export const Kernel = keyword('kernel')
export const Epilogue = keyword('epilogue')
export const Schedule = keyword('schedule')
export const On = keyword('on')
export const Return = keyword('return')
export const Ragged = keyword('ragged')
export const By = keyword('by')
export const As = keyword('as')
export const Approx = keyword('approx')
export const Precise = keyword('precise')
export const Def = keyword('def')
export const Size = keyword('size')
export const Else = keyword('else')
export const Upto = keyword('upto')
export const Axis = keyword('axis')

const literalTokens = LITERAL_NAMES.map((word) =>
  createToken({
    name: titleCase(word),
    pattern: word,
    longer_alt: Ident,
    label: `\`${word}\``,
    categories: [Word, NumberToken],
  }),
)
export const [Inf, Nan] = literalTokens as [TokenType, TokenType]

// Literals. A number runs to the end of the word, so `2x` and `1.2.3` are one malformed number, not two tokens.
export const Shape = createToken({
  name: 'Shape',
  pattern: /[1-9]\d*(?:x[1-9]\d*)+(?![\w.])/,
  label: 'a shape such as `128x64`',
})
export const Cta = createToken({ name: 'Cta', pattern: /[1-9]\d*cta(?![\w.])/, label: '`1cta` or `2cta`' })
export const Integer = createToken({
  name: 'Integer',
  pattern: /\d+(?![\w.])/,
  label: 'an integer',
  categories: [NumberToken],
})
export const Decimal = createToken({
  name: 'Decimal',
  pattern: /(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?(?![\w.])/,
  label: 'a number',
  categories: [NumberToken],
})
export const BadNumber = createToken({
  name: 'BadNumber',
  pattern: /\.?\d[\w.]*/,
  label: 'a number',
  categories: [NumberToken],
})

const punctuation = (name: string, text: string, ...categories: TokenType[]): TokenType =>
  createToken({ name, pattern: text, label: `\`${text}\``, categories })

export const Arrow = punctuation('Arrow', '->')
export const StarStar = punctuation('StarStar', '**', BinaryOperator)
/** Python's floor division; lexed only to be refused by name. */
export const FloorDivide = punctuation('FloorDivide', '//', BinaryOperator)
export const OrOr = punctuation('OrOr', '||', BinaryOperator)
export const AndAnd = punctuation('AndAnd', '&&', BinaryOperator)
export const EqualEqual = punctuation('EqualEqual', '==', BinaryOperator)
export const NotEqual = punctuation('NotEqual', '!=', BinaryOperator)
export const LessEqual = punctuation('LessEqual', '<=', BinaryOperator)
export const GreaterEqual = punctuation('GreaterEqual', '>=', BinaryOperator)
export const Less = punctuation('Less', '<', BinaryOperator)
export const Greater = punctuation('Greater', '>', BinaryOperator)
export const Plus = punctuation('Plus', '+', BinaryOperator, PrefixOperator)
export const Minus = punctuation('Minus', '-', BinaryOperator, PrefixOperator)
export const Star = punctuation('Star', '*', BinaryOperator)
export const Slash = punctuation('Slash', '/', BinaryOperator)
export const Percent = punctuation('Percent', '%', BinaryOperator)
export const Caret = punctuation('Caret', '^', BinaryOperator)
export const Bang = punctuation('Bang', '!', PrefixOperator)
export const Bar = punctuation('Bar', '|')
export const Equals = punctuation('Equals', '=')
export const Question = punctuation('Question', '?')
export const Colon = punctuation('Colon', ':')
export const Comma = punctuation('Comma', ',')
export const Semicolon = punctuation('Semicolon', ';', Separator)
export const LParen = punctuation('LParen', '(')
export const RParen = punctuation('RParen', ')')
export const LBracket = punctuation('LBracket', '[')
export const RBracket = punctuation('RBracket', ']')
export const LBrace = punctuation('LBrace', '{')
export const RBrace = punctuation('RBrace', '}')
/** Python's `.` stands only in annotations, which layout.ts drops. */
export const Dot = punctuation('Dot', '.')

export const Newline = createToken({
  name: 'Newline',
  pattern: /\r?\n|\r/,
  label: 'the end of the line',
  categories: [Separator],
  line_breaks: true,
})
const Blank = createToken({ name: 'Blank', pattern: /[ \t\f\uFEFF]+/, group: Lexer.SKIPPED })
const LineContinuation = createToken({
  name: 'LineContinuation',
  pattern: /\\\r?\n/,
  group: Lexer.SKIPPED,
  line_breaks: true,
})
export const DocComment = createToken({ name: 'DocComment', pattern: /\/\/\/(?!\/)[^\n\r]*/, group: 'comments' })
export const LineComment = createToken({ name: 'LineComment', pattern: /\/\/[^\n\r]*/, group: 'comments' })
export const HashComment = createToken({ name: 'HashComment', pattern: /#[^\n\r]*/, group: 'comments' })
/** Docstrings and annotations of `def` strings. */
export const Text = createToken({
  name: 'Text',
  pattern: /"""[\s\S]*?"""|'''[\s\S]*?'''|"[^"\n\r]*"|'[^'\n\r]*'/,
  label: 'a string',
  line_breaks: true,
})

const categories = [Word, BinaryOperator, PrefixOperator, NumberToken, Separator, Start, Length, Floor]
const words = [Slot, ...keywordTokens, ...literalTokens, Ident]
const numbers = [Shape, Cta, Integer, Decimal, BadNumber]
const operators = [
  Arrow, StarStar, OrOr, AndAnd, EqualEqual, NotEqual, LessEqual, GreaterEqual, Less, Greater, Plus, Minus, Star, Slash,
  Percent, Caret, Bang, Bar, Equals, Question, Colon, Comma, Semicolon, LParen, RParen, LBracket, RBracket, LBrace, RBrace,
] // prettier-ignore

const lexerConfig = { positionTracking: 'onlyOffset', ensureOptimizations: true } as const
const blanks = [Newline, Blank]

export const programLexer = new Lexer(
  [...blanks, ...categories, ...words, ...numbers, DocComment, LineComment, ...operators],
  lexerConfig,
)
export const epilogueLexer = new Lexer(
  [...blanks, ...categories, ...words, ...numbers, DocComment, LineComment, HashComment, ...operators],
  lexerConfig,
)
export const defLexer = new Lexer(
  [...blanks, LineContinuation, ...categories, ...words, ...numbers, HashComment, Text, FloorDivide, ...operators, Dot],
  lexerConfig,
)

/** The parser's vocabulary: every token type of every lexer. */
export const allTokens: TokenType[] = [
  ...categories, ...words, ...numbers, ...operators, ...blanks, LineContinuation, DocComment, LineComment, HashComment,
  Text, FloorDivide, Dot,
] // prettier-ignore

export const tokenEnd = (token: IToken): number => token.startOffset + token.image.length
export const tokenSpan = (token: IToken): Span => ({ start: token.startOffset, end: tokenEnd(token) })

/** Category membership without a parser at hand. */
export function isA(token: IToken, type: TokenType): boolean {
  return token.tokenType === type || (token.tokenType.CATEGORIES?.includes(type) ?? false)
}
