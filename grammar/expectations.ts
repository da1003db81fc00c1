/**
 * Syntax errors in the user's terms. Chevrotain asks the provider for a text at each error; the provider answers with
 * the phrase of what was expected, and `syntaxErrors` turns the exceptions into diagnostics of the catalogue.
 */
import type { IParserErrorMessageProvider, IRecognitionException, IToken, TokenType } from 'chevrotain'
import type { Span } from './ast.ts'
import { diagnose } from './catalogue/index.ts'
import type { Diagnostic, Source } from './diagnostics.ts'
import { LIMITS } from './limits.ts'
import { lineColumn } from './lines.ts'
import { suggest } from './suggest.ts'
import * as T from './tokens.ts'

const EXPRESSION = 'an expression'
const SCHEDULE_VALUE = 'a schedule value such as `128x64`, `2cta`, `3` or `auto`'

/** What a rule is about, for errors at its first token or at the first element of its list. */
const RULE_PHRASES: Readonly<Record<string, string>> = {
  kernel: 'a type parameter such as `T: f16 | bf16`',
  typeParam: 'a type',
  outputs: 'an output such as `D: f16[m, n]`',
  operand: 'a type',
  axes: 'an axis name',
  tensorType: 'a type',
  part: 'a type',
  axisNames: 'an axis name',
  ragged: '`by` or `upto`',
  epilogue: 'an output name, or several in parentheses',
  statement: 'a statement',
  equation: 'a name to assign to',
  scheduleValue: SCHEDULE_VALUE,
}

/** What may stand where `token` is missing, by `rule/token`: more than that token, after a list element or an operand. */
const AFTER: Readonly<Record<string, string>> = {
  'kernel/RParen': '`,` or `)`',
  'kernel/Greater': '`,` or `>`',
  'kernel/LParen': '`(` or `<`',
  'outputs/RParen': '`,` or `)`',
  'epilogue/RParen': '`,` or `)`',
  'epilogueParams/RParen': '`,` or `)`',
  'axes/RBracket': '`,` or `]`',
  'axisNames/RBracket': '`,` or `]`',
  'indices/RBracket': 'an operator, `,` or `]`',
  'equation/RParen': '`,` or `)`',
  'returnStatement/RParen': 'an operator, `,` or `)`',
  'args/RParen': 'an operator, `,` or `)`',
  'primary/RParen': 'an operator or `)`',
  'body/RBrace': 'an operator or the end of the statement',
  'epilogueText/EOF': 'an operator or the end of the statement',
  'epilogueDef/EOF': 'an operator or the end of the statement',
  'schedule/On': '`,` or `on`',
  'schedule/RBrace': '`|` or the end of the entry',
  'operand/Colon': '`:` and a type',
  'outside/NumberToken': 'a number',
  'axis/Integer': 'an integer',
  'typeName/Ident': 'a type',
}

const labelOf = (type: TokenType): string => type.LABEL ?? type.name

const expectedAt = (ruleName: string, expected: TokenType): string =>
  AFTER[`${ruleName}/${expected.name}`] ?? labelOf(expected)

/** Ends a parse from within: chevrotain passes on what is not an exception of its own. */
export class TooManyErrors extends Error {}

/** The provider for one parser, which asks `errorsSoFar` to stop a hopeless parse. */
export function createExpectations(errorsSoFar: () => number): IParserErrorMessageProvider {
  const unlessTooMany = (phrase: string): string => {
    if (errorsSoFar() >= LIMITS.syntaxErrors) throw new TooManyErrors()
    return phrase
  }
  const ofRule = ({ ruleName }: { ruleName: string }): string => unlessTooMany(RULE_PHRASES[ruleName] ?? EXPRESSION)
  return {
    buildMismatchTokenMessage: ({ expected, ruleName }) => unlessTooMany(expectedAt(ruleName, expected)),
    buildNotAllInputParsedMessage: ({ ruleName }) => unlessTooMany(AFTER[`${ruleName}/EOF`] ?? 'the end of the file'),
    buildNoViableAltMessage: ofRule,
    buildEarlyExitMessage: ofRule,
  }
}

const ITEM_WORDS = ['kernel', 'epilogue', 'schedule']

/**
 * The first error of each line, and none on lines that `known` diagnostics (of characters and brackets) are about:
 * what recovery stumbles over behind a mistake is mostly noise.
 */
export function syntaxErrors(
  errors: readonly IRecognitionException[],
  source: Source,
  known: readonly Diagnostic[],
  tokens: readonly IToken[],
): Diagnostic[] {
  const lineOf = (span: Span | null): number => lineColumn(source, span?.start ?? 0).line
  const lines = new Set(known.map((d) => lineOf(d.span)))
  const placed = errors.map((error) => {
    const previous = previousOf(error.token, tokens)
    return { error, previous, span: placeOf(error.token, previous, source) }
  })
  placed.sort((a, b) => a.span.start - b.span.start)
  return placed.flatMap(({ error, previous, span }) => {
    const line = lineOf(span)
    if (lines.has(line)) return []
    lines.add(line)
    return [toDiagnostic(error, previous, source, span)]
  })
}

function toDiagnostic(
  error: IRecognitionException,
  previous: IToken | undefined,
  source: Source,
  span: Span,
): Diagnostic {
  const { token } = error
  const at = { source, span }
  const type = token.tokenType
  const rules = error.context.ruleStack
  const found = describe(token, source)
  let expected = error.message
  if (expected === AFTER['schedule/RBrace'] && NOT_A_SCHEDULE_VALUE.has(type)) expected = SCHEDULE_VALUE

  if (rules.at(-1) === 'program') {
    if (type === T.Slot)
      return diagnose('KTL1003', { ...at, expected: 'a name between `epilogue` and `(`', found: 'none' })
    return diagnose('KTL1025', { ...at, expected: ITEM_WORDS, found, suggestion: suggest(token.image, ITEM_WORDS) })
  }
  if (
    expected === EXPRESSION &&
    previous !== undefined &&
    T.isA(previous, T.BinaryOperator) &&
    endsLine(previous, token, source)
  ) {
    return diagnose('KTL1007', { source, span: T.tokenSpan(previous), operator: previous.image })
  }
  const special = ofForm(error, previous, source, span, expected)
  if (special !== null) return special
  if ((type === T.Shape || type === T.Cta) && !rules.includes('schedule')) {
    return diagnose('KTL1009', { ...at, text: token.image })
  }
  if (
    T.isA(token, T.Word) &&
    !T.isA(token, T.Ident) &&
    (NAME_OR_MORE.has(expected) || (previous !== undefined && beginsElement(previous)))
  ) {
    return diagnose('KTL1004', { ...at, word: token.image })
  }
  return diagnose('KTL1003', { ...at, expected, found, help: helpFor(token, expected, rules.at(-1), previous) })
}

/** Mistakes in reads, ragged axes and axis statements that have a code of their own. */
function ofForm(
  { token, context }: IRecognitionException,
  previous: IToken | undefined,
  source: Source,
  span: Span,
  expected: string,
): Diagnostic | null {
  if (previous === undefined) return null
  const type = token.tokenType
  const rule = context.ruleStack.at(-1)
  const end = T.tokenEnd(previous)
  if (rule === 'ragged' && expected === RULE_PHRASES['ragged']) return diagnose('KTL1031', { source, span })
  if (rule === 'indices' && type === T.RBracket && previous.tokenType === T.LBracket) {
    const name = /\w*(?=\s*$)/.exec(source.text.slice(0, previous.startOffset))![0]
    const reduction = /^\s*\(/.test(source.text.slice(span.end))
    return diagnose('KTL1033', { source, span: { start: previous.startOffset, end: span.end }, name, reduction })
  }
  if (type === T.Equals && [T.Axis, T.Inf, T.Nan].includes(previous.tokenType)) {
    return diagnose('KTL1004', { source, span: T.tokenSpan(previous), word: previous.image })
  }
  if (context.ruleStack.includes('axisStatement') && endsStatement(token)) {
    const axis = /\baxis\s+(\w+)\s*=?$/.exec(source.text.slice(0, end))?.[1]
    if (axis !== undefined) return diagnose('KTL1032', { source, span, axis })
  }
  if (type !== T.Else || context.ruleStack.includes('schedule')) return null
  const read = /\](?=\s*$)/.exec(source.text.slice(0, span.start))
  if (previous.tokenType === T.Newline) {
    if (read === null) return null
    return diagnose('KTL1026', { source, span, name: null, from: read.index + 1, join: true })
  }
  if (beginsElement(previous) || NAME_OR_MORE.has(expected)) return null
  const value = /^(?:[ \t]*-?[ \t]*[\w.]+)?/.exec(source.text.slice(span.end))![0]
  const name = previous.tokenType === T.Ident ? previous.image : null
  const at = { start: span.start, end: span.end + value.length }
  return diagnose('KTL1026', { source, span: at, name, from: end, join: false })
}

const NOT_A_SCHEDULE_VALUE = new Set([T.Bar, T.Equals, T.Decimal, T.BadNumber])
const NAME_OR_MORE = new Set([labelOf(T.Ident), EXPRESSION, 'a type', 'a statement'])
const beginsElement = (token: IToken): boolean =>
  T.isA(token, T.Separator) || [T.LParen, T.LBrace, T.Comma, T.Less].includes(token.tokenType)

const endsStatement = (token: IToken): boolean =>
  T.isA(token, T.Separator) || token.tokenType === T.RBrace || token.tokenType.name === 'EOF'

const endsLine = (token: IToken, next: IToken, source: Source): boolean =>
  next.tokenType.name !== 'EOF' && /[\n\r]/.test(source.text.slice(T.tokenEnd(token), T.tokenEnd(next)))

/** The token before the error; undefined at the beginning of the text. Chevrotain's own may be the last one it skipped. */
function previousOf({ startOffset }: IToken, tokens: readonly IToken[]): IToken | undefined {
  if (Number.isNaN(startOffset)) return tokens.at(-1)
  let low = 0
  let high = tokens.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (tokens[middle]!.startOffset < startOffset) low = middle + 1
    else high = middle
  }
  return tokens[low - 1]
}

/** Help for slips that are common enough to know. */
function helpFor(
  token: IToken,
  expected: string,
  rule: string | undefined,
  previous: IToken | undefined,
): string | undefined {
  const type = token.tokenType
  const inExpression = expected.startsWith('an operator')
  if (rule === 'schedule' && type === T.Equals) return 'entries have no `=`: write `tile 128x64`'
  if (rule === 'schedule' && /^x\d*$/.test(token.image)) return 'a shape has no blanks: write `128x64`'
  if (type === T.Equals && inExpression) return '`==` compares; `=` assigns, once per statement'
  if (type === T.Bar && inExpression) return '`||` is the logical or'
  if ((token.image === 'if' || previous?.image === 'if') && inExpression)
    return 'a choice is written `select(condition, a, b)`'
  if (type === T.RParen && previous?.tokenType === T.Comma) return 'remove the comma before `)`'
  if (type === T.Text) return 'there are no strings in ktl'
  if (type === T.Dot) return 'names are not qualified: write the function name alone'
  if (type === T.LBrace && expected === '`->`') return 'name the output: `-> D: f16[m, n]`, or `-> D` for an epilogue'
  if (rule === 'axes' && type === T.RBracket) return 'one value has no brackets: `alpha: f32`, `-> amax: f32`'
  if (expected === 'an axis name' && type === T.Integer)
    return 'axes have names, and one value has no brackets: `alpha: f32`, `-> amax: f32`'
  if (rule === 'outside') return 'what is read outside is a number: `X[m - 1] else 0`'
  if (expected === 'a type' && type === T.Star) return 'the data come first: `e4m3[m, k] * ue8m0[m, k/32]`'
  if ((rule === 'tensorType' && expected === '`-`') || (type === T.Minus && (rule === 'kernel' || rule === 'outputs')))
    return 'zero points stand in parentheses with the data: `(u4[k, n] - u4[k/128, n]) * f16[k/128, n]`'
  if (rule === 'operand' && expected.startsWith('`:`')) return 'operands are declared as `A: f16[m, k]`'
  return undefined
}

/** Errors at the end of the text or of a line point right behind the last token before. */
function placeOf(token: IToken, previous: IToken | undefined, source: Source): Span {
  if (token.tokenType.name === 'EOF' || token.tokenType === T.Newline) {
    const end = previous !== undefined ? T.tokenEnd(previous) : source.text.length
    return { start: end, end }
  }
  return T.tokenSpan(token)
}

function describe(token: IToken, source: Source): string {
  if (token.tokenType.name === 'EOF') return source.text.trim() === '' ? 'nothing' : 'the end of the text'
  if (token.tokenType === T.Newline || token.image === '') return 'the end of the line'
  const image = token.image.length > 40 ? `${token.image.slice(0, 40)}…` : token.image
  return token.tokenType === T.Text ? 'a string' : `\`${image}\``
}
