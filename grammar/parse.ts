/** Text to AST: lexer, layout, parser, and everything they have to say, in source order. Never throws. */
import type { ILexingError, ILexingResult, IToken } from 'chevrotain'
import type { Comment, EpilogueDecl, Program } from './ast.ts'
import { diagnose } from './catalogue/index.ts'
import { ParseContext, type ParseMode } from './context.ts'
import type { Diagnostic, Source } from './diagnostics.ts'
import { dropAnnotations } from './epilogue.ts'
import { syntaxErrors, TooManyErrors } from './expectations.ts'
import { layOut } from './layout.ts'
import { LIMITS } from './limits.ts'
import { lineColumn } from './lines.ts'
import { parser } from './parser.ts'
import * as T from './tokens.ts'

/** Parses a `.ktl` file. With errors the program holds the items and statements that could be read. */
export function parseProgram(source: Source): { program: Program; diagnostics: Diagnostic[] } {
  const { context, comments, diagnostics } = parseWith(source, 'program', () => parser.program())
  return { program: { ...context.program(), comments }, diagnostics }
}

/** Parses an epilogue string in any of its three spellings. */
export function parseEpilogue(source: Source): { epilogue: EpilogueDecl; diagnostics: Diagnostic[] } {
  const mode = epilogueMode(source.text)
  const nothing = (): EpilogueDecl => ({
    kind: 'epilogue',
    name: null,
    doc: null,
    spelling: mode === 'def' ? 'def' : 'statements',
    params: [],
    outputs: null,
    body: [],
    span: { start: 0, end: source.text.length },
  })
  const rule = mode === 'def' ? () => parser.epilogueDef() : () => parser.epilogueText()
  const { result, diagnostics } = parseWith(source, mode, rule)
  return { epilogue: result ?? nothing(), diagnostics }
}

const epilogueMode = (text: string): 'def' | 'epilogue' => (/^(?:\s|#[^\n]*\n)*def\b/.test(text) ? 'def' : 'epilogue')

/** Of an epilogue string, annotations included; none of a text that is longer than the language allows. */
export function epilogueTokens(text: string): { tokens: readonly IToken[]; comments: readonly IToken[] } {
  const { tokens, groups } = LEXERS[epilogueMode(text)].tokenize(text.length > LIMITS.sourceLength ? '' : text)
  return { tokens, comments: groups['comments'] ?? [] }
}

const LEXERS = { program: T.programLexer, epilogue: T.epilogueLexer, def: T.defLexer }

function parseWith<R>(
  source: Source,
  mode: ParseMode,
  rule: () => R | undefined,
): { result: R | undefined; context: ParseContext; comments: Comment[]; diagnostics: Diagnostic[] } {
  const { text } = source
  const refuse = (diagnostic: Diagnostic) => ({
    result: undefined,
    context: new ParseContext(source, [], mode),
    comments: [],
    diagnostics: [diagnostic],
  })
  if (text.length > LIMITS.sourceLength) {
    const span = { start: 0, end: 0 }
    return refuse(diagnose('KTL1020', { source, span, size: text.length, limit: LIMITS.sourceLength }))
  }
  const lexed = LEXERS[mode].tokenize(text)
  const raw = mode === 'def' ? dropAnnotations(lexed.tokens) : lexed.tokens
  const layout = layOut(raw, mode === 'program' ? 'program' : 'epilogue', LIMITS.nesting)
  if (layout.tooDeep !== null) {
    const span = T.tokenSpan(layout.tooDeep)
    return refuse(diagnose('KTL1021', { source, span, limit: LIMITS.nesting }))
  }
  if (mode !== 'program' && layout.tokens.length === 0 && lexed.errors.length === 0) {
    return refuse(diagnose('KTL1016', { source, span: { start: 0, end: text.length } }))
  }

  const context = new ParseContext(source, commentsOf(lexed, source), mode)
  parser.start(layout.tokens, context)
  const result = untilTooManyErrors(rule)
  const known = [
    ...unexpectedTexts(lexed.errors, source),
    ...layout.unclosed.map(({ open, close, at }) =>
      diagnose('KTL1005', { source, span: T.tokenSpan(open), open: open.image, close, at }),
    ),
    ...layout.unopened.map((token) => diagnose('KTL1006', { source, span: T.tokenSpan(token), close: token.image })),
  ]
  const diagnostics = [...known, ...syntaxErrors(parser.errors, source, known, layout.tokens), ...context.diagnostics]
  // No reference to the user's text outlives the parse.
  parser.start([], NO_CONTEXT)
  return { result, context, comments: context.freeComments(), diagnostics: inOrder(diagnostics, source) }
}

/** Undefined when the parser gave up: a text with so many errors has no shape worth keeping. */
function untilTooManyErrors<R>(rule: () => R): R | undefined {
  try {
    return rule()
  } catch (error) {
    if (error instanceof TooManyErrors) return undefined
    throw error
  }
}

const NO_CONTEXT = new ParseContext({ name: '', text: '' }, [], 'program')

function commentsOf({ groups }: ILexingResult, source: Source): Comment[] {
  return (groups['comments'] ?? []).map((token: IToken): Comment => {
    const doc = token.tokenType === T.DocComment
    const { column } = lineColumn(source, token.startOffset)
    const before = source.text.slice(token.startOffset - column + 1, token.startOffset)
    return {
      kind: 'comment',
      text: token.image.slice(doc ? 3 : token.tokenType === T.LineComment ? 2 : 1),
      doc,
      ownLine: before.trim() === '',
      span: T.tokenSpan(token),
    }
  })
}

const HINTS: readonly (readonly [RegExp, string])[] = [
  [/^#/, 'comments begin with `//`'],
  [/^["'`]/, 'there are no strings in ktl'],
  [/^&/, '`&&` is the logical and'],
  [/^@/, 'a matrix product is written with its axis: `sum[k](A * B)`'],
  [/^\./, 'names are not qualified: write the function name alone'],
]

/** The first of each line: quotes come in pairs, foreign text in runs. */
function unexpectedTexts(errors: readonly ILexingError[], source: Source): Diagnostic[] {
  const lines = new Set<number>()
  return errors.flatMap((error) => {
    const { line } = lineColumn(source, error.offset)
    if (lines.has(line)) return []
    lines.add(line)
    return [unexpectedText(error, source)]
  })
}

function unexpectedText(error: ILexingError, source: Source): Diagnostic {
  const span = { start: error.offset, end: error.offset + error.length }
  const found = source.text.slice(span.start, span.end)
  const hint = HINTS.find(([pattern]) => pattern.test(found))?.[1]
  return diagnose('KTL1001', { source, span, text: nameCharacters(found), ...(hint !== undefined && { hint }) })
}

/** Quoted if it can be seen, else by code point: `U+00A0`. */
function nameCharacters(text: string): string {
  const first = text.codePointAt(0) ?? 0
  if (/^[\p{L}\p{N}\p{P}\p{S}]+$/u.test(text)) {
    const shown = [...text].slice(0, 20).join('')
    return `\`${shown}${shown.length < text.length ? '…' : ''}\``
  }
  return `character U+${first.toString(16).toUpperCase().padStart(4, '0')}`
}

/** By position, at most one message a place, and not more than the limit. */
function inOrder(diagnostics: readonly Diagnostic[], source: Source): Diagnostic[] {
  const start = (d: Diagnostic): number => d.span?.start ?? 0
  const lineOf = (d: Diagnostic): number => lineColumn(source, start(d)).line
  // A statement that is broken off looks like a bare expression.
  const broken = new Set(diagnostics.flatMap((d) => (d.code === 'KTL1010' ? [] : [lineOf(d)])))
  const sorted = diagnostics
    .filter((d) => d.code !== 'KTL1010' || !broken.has(lineOf(d)))
    .sort((a, b) => start(a) - start(b))
  const shown = sorted.filter((d, i) => i === 0 || start(d) !== start(sorted[i - 1]!))
  const left = shown.length - LIMITS.diagnostics
  if (left <= 0) return shown
  const { span } = shown[LIMITS.diagnostics]!
  return [...shown.slice(0, LIMITS.diagnostics), diagnose('KTL1018', { source, span, left })]
}
