/**
 * What one parse knows besides its tokens: the source, the comments, and the diagnostics so far. Holds the rules of
 * the language that are checked while nodes are built: limits, where statements may stand, doc comments.
 */
import type { IToken } from 'chevrotain'
import type {
  Comment,
  EpilogueDecl,
  EpilogueParam,
  Expr,
  Item,
  Name,
  NumberLiteral,
  OperandDecl,
  Program,
  Span,
  Statement,
  TensorType,
} from './ast.ts'
import { axisNamesOf } from './ast.ts'
import { diagnose } from './catalogue/index.ts'
import type { Diagnostic, Source } from './diagnostics.ts'
import { LIMITS } from './limits.ts'
import { foldExpression, type Operand, type StreamItem } from './pratt.ts'
import { tensorTypeOf, type WrittenType } from './stored.ts'
import * as T from './tokens.ts'

export type ParseMode = 'program' | 'epilogue' | 'def'

const WORDS = new Map([
  [T.Inf, Infinity],
  [T.Nan, NaN],
])

export class ParseContext {
  readonly diagnostics: Diagnostic[] = []
  /** Of a program, so far; undefined: one that could not be read. */
  readonly items: (Item | undefined)[] = []
  readonly source: Source
  readonly mode: ParseMode
  private readonly comments: readonly Comment[]
  private readonly docs = new Set<Comment>()
  private expressionNodes = 0

  constructor(source: Source, comments: readonly Comment[], mode: ParseMode) {
    this.source = source
    this.comments = comments
    this.mode = mode
  }

  /** Without its comments. */
  program(): Program {
    const items = this.items.filter((item) => item !== undefined)
    return { kind: 'program', items, comments: [], span: { start: 0, end: this.source.text.length } }
  }

  /** The comments that did not become a node's `doc`. */
  freeComments(): Comment[] {
    return this.comments.filter((comment) => !this.docs.has(comment))
  }

  /** Text of the `///` lines directly above `start`, or null. */
  docBefore(start: number): string | null {
    const lines: string[] = []
    let below = start
    for (let i = this.lastCommentBefore(start); i >= 0; i--) {
      const comment = this.comments[i]!
      const between = this.source.text.slice(comment.span.end, below)
      if (!comment.doc || !comment.ownLine || !/^(?:\r\n|\r|\n)?[ \t]*$/.test(between)) break
      lines.unshift(comment.text.replace(/^ /, '').trimEnd())
      this.docs.add(comment)
      // Up to the line break above this comment.
      below = comment.span.start
    }
    return lines.length > 0 ? lines.join('\n') : null
  }

  private lastCommentBefore(offset: number): number {
    let low = 0
    let high = this.comments.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.comments[middle]!.span.start < offset) low = middle + 1
      else high = middle
    }
    return low - 1
  }

  // ---- literals and expressions ----

  number(token: IToken, sign?: IToken): NumberLiteral {
    const source = this.source
    const span = { start: (sign ?? token).startOffset, end: T.tokenEnd(token) }
    const text = (sign === undefined ? '' : '-') + token.image
    const word = WORDS.get(token.tokenType)
    if (word !== undefined) return { kind: 'number', text, value: sign ? -word : word, integer: false, span }
    const value = Number(text)
    if (token.tokenType === T.BadNumber) {
      this.diagnostics.push(diagnose('KTL1002', { source, span, text }))
    } else if (!Number.isFinite(value)) {
      this.diagnostics.push(diagnose('KTL1014', { source, span, text }))
    } else if (token.tokenType === T.Integer && !Number.isSafeInteger(value)) {
      this.diagnostics.push(diagnose('KTL1019', { source, span, text }))
    }
    const known = Number.isFinite(value) ? value : 0
    return { kind: 'number', text, value: known, integer: token.tokenType === T.Integer, span }
  }

  fold(stream: readonly StreamItem[]): Operand {
    const source = this.source
    const before = this.expressionNodes
    this.expressionNodes += stream.length
    const operand = stream.find((item): item is Operand => 'expr' in item)!
    if (this.expressionNodes > LIMITS.expressionNodes) {
      if (before <= LIMITS.expressionNodes) {
        const span = { start: operand.start, end: operand.end }
        this.diagnostics.push(diagnose('KTL1024', { source, span, limit: LIMITS.expressionNodes }))
      }
      return operand
    }
    for (const item of stream) if ('image' in item) this.checkOperator(item)
    return foldExpression(stream, (first, second) => {
      const span = T.tokenSpan(second)
      const firstSpan = T.tokenSpan(first)
      this.diagnostics.push(diagnose('KTL1008', { source, span, firstSpan, first: first.image, second: second.image }))
    })
  }

  private checkOperator(token: IToken): void {
    const at = { source: this.source, span: T.tokenSpan(token) }
    if (token.tokenType === T.StarStar && this.mode === 'program') this.diagnostics.push(diagnose('KTL1012', at))
    if (token.tokenType === T.FloorDivide) this.diagnostics.push(diagnose('KTL1017', at))
  }

  /** `sum[k](x)`: names of axes, and exactly one value. */
  reduction(fn: Name, at: readonly Expr[], args: readonly Operand[], span: Span): Expr {
    const { source } = this
    const value = args[0]?.expr
    const axes = axisNamesOf({ at })
    if (axes === null) {
      const index = at.find((e) => axisNamesOf({ at: [e] }) === null)!
      this.diagnostics.push(diagnose('KTL1035', { source, span: index.span, name: fn.text }))
    } else if (args.length === 1 && value !== undefined) return { kind: 'reduce', fn, axes, value, span }
    else this.diagnostics.push(diagnose('KTL1013', { source, span, name: fn.text, count: args.length }))
    return value ?? { kind: 'reference', name: fn, at, outside: null, span }
  }

  // ---- types ----

  tensorType(written: WrittenType): TensorType {
    return tensorTypeOf(written, this.source, this.diagnostics)
  }

  // ---- limits ----

  /** Expression nodes are counted per item. */
  beginItem(): void {
    this.expressionNodes = 0
  }

  checkOperandCount(operands: readonly OperandDecl[]): void {
    const extra = operands[LIMITS.operands]
    if (extra === undefined) return
    const at = { source: this.source, span: extra.name.span }
    this.diagnostics.push(diagnose('KTL1022', { ...at, count: operands.length, limit: LIMITS.operands }))
  }

  checkAxisCount(axes: readonly { readonly span: Span }[]): void {
    const extra = axes[LIMITS.axes]
    if (extra === undefined) return
    const at = { source: this.source, span: extra.span }
    this.diagnostics.push(diagnose('KTL1023', { ...at, count: axes.length, limit: LIMITS.axes }))
  }

  // ---- statements ----

  checkBody(body: readonly Statement[], owner: 'kernel' | 'epilogue' | 'string'): void {
    const source = this.source
    body.forEach((statement, i) => {
      const span = statement.span
      const last = i === body.length - 1
      if (statement.kind === 'return' && owner === 'kernel') {
        this.diagnostics.push(diagnose('KTL1011', { source, span }))
      } else if (statement.kind === 'axisStatement' && owner !== 'kernel') {
        this.diagnostics.push(diagnose('KTL1034', { source, span, axis: statement.axis.text }))
      } else if (statement.kind === 'return' && !last) {
        this.diagnostics.push(diagnose('KTL1015', { source, span: body[i + 1]!.span, returnSpan: span }))
      } else if (statement.kind === 'expressionStatement' && !(owner === 'string' && last)) {
        this.diagnostics.push(diagnose('KTL1010', { source, span, owner }))
      }
    })
  }

  epilogueString(
    name: Name | null,
    spelling: 'expression' | 'statements' | 'def',
    params: readonly EpilogueParam[],
    body: readonly Statement[],
  ): EpilogueDecl {
    this.checkBody(body, 'string')
    this.checkParamCount(params)
    const span = { start: 0, end: this.source.text.length }
    return { kind: 'epilogue', name, doc: null, spelling, params, outputs: null, body, span }
  }

  checkParamCount(params: readonly EpilogueParam[]): void {
    const extra = params[LIMITS.operands]
    if (extra === undefined) return
    const at = { source: this.source, span: extra.name.span }
    this.diagnostics.push(diagnose('KTL1022', { ...at, count: params.length, limit: LIMITS.operands }))
  }
}
