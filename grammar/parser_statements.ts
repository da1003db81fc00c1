/**
 * The lower half of the grammar: names, expressions and statements, which kernels, declared epilogues and epilogue
 * strings share. parser.ts adds the items.
 *
 * Rules also run once at start-up in recording mode with dummy tokens, so everything that looks into a token or node
 * stands in `this.ACTION`.
 */
import { EmbeddedActionsParser, type IToken } from 'chevrotain'
import type { AxisStatement, Equation, Expr, Name, Outside, SizeOf, Span, Statement, Target, TypeName } from './ast.ts'
import { ParseContext } from './context.ts'
import { createExpectations } from './expectations.ts'
import type { Operand, StreamItem } from './pratt.ts'
import * as T from './tokens.ts'

/** Errors inside climb to the rule around. */
export const NO_RESYNC = { resyncEnabled: false }

/** Rules that resume after an error give undefined there. */
export const present = <X>(list: readonly (X | undefined)[]): X[] => list.filter((x): x is X => x !== undefined)

const nameOf = (token: IToken): Name => ({ kind: 'name', text: token.image, span: T.tokenSpan(token) })

export class StatementParser extends EmbeddedActionsParser {
  /** Source, comments and diagnostics of the current parse; replaced by every `start`. */
  context = new ParseContext({ name: '', text: '' }, [], 'program')

  constructor() {
    super(T.allTokens, {
      recoveryEnabled: true,
      maxLookahead: 2,
      errorMessageProvider: createExpectations(() => this.errors.length),
    })
  }

  start(tokens: IToken[], context: ParseContext): void {
    this.input = tokens
    this.context = context
  }

  // Hooks of chevrotain's recovery: it would guess a token to insert or to drop, and its guesses read badly.
  protected override canTokenTypeBeInsertedInRecovery(): boolean {
    return false
  }
  protected override canTokenTypeBeDeletedInRecovery(): boolean {
    return false
  }

  // ---- names ----

  name = this.RULE(
    'name',
    (): Name => {
      const token = this.CONSUME(T.Ident)
      return this.ACTION(() => nameOf(token))
    },
    NO_RESYNC,
  )

  /** A name that may also be a keyword: axes and schedule words. */
  word = this.RULE(
    'word',
    (): Name => {
      const token = this.CONSUME(T.Word)
      return this.ACTION(() => nameOf(token))
    },
    NO_RESYNC,
  )

  typeName = this.RULE(
    'typeName',
    (): TypeName => {
      const token = this.CONSUME(T.Ident)
      return this.ACTION(() => ({ kind: 'typeName', text: token.image, span: T.tokenSpan(token) }))
    },
    NO_RESYNC,
  )

  // ---- expressions ----

  expression = this.RULE(
    'expression',
    (): Operand => {
      const stream: StreamItem[] = []
      this.MANY(() => stream.push(this.CONSUME(T.PrefixOperator)))
      stream.push(this.SUBRULE(this.primary))
      this.MANY2(() => {
        stream.push(this.CONSUME(T.BinaryOperator))
        this.MANY3(() => stream.push(this.CONSUME2(T.PrefixOperator)))
        stream.push(this.SUBRULE2(this.primary))
      })
      return this.ACTION(() => this.context.fold(stream))
    },
    NO_RESYNC,
  )

  primary = this.RULE(
    'primary',
    (): Operand => {
      const start = this.begin()
      const expr = this.OR({
        DEF: [
          { ALT: (): Expr => this.SUBRULE(this.sizeOf) },
          { ALT: () => this.SUBRULE(this.nameExpression) },
          {
            ALT: () => {
              const token = this.CONSUME(T.NumberToken)
              return this.ACTION(() => this.context.number(token))
            },
          },
          {
            ALT: () => {
              this.CONSUME(T.LParen)
              const inner = this.SUBRULE(this.expression)
              this.CONSUME(T.RParen)
              return inner.expr
            },
          },
          {
            ALT: (): Expr => {
              this.CONSUME(T.Slot)
              this.CONSUME2(T.LParen)
              const inner = this.SUBRULE2(this.expression)
              this.CONSUME2(T.RParen)
              return { kind: 'slot', value: inner.expr, span: this.span(start) }
            },
          },
        ],
        // `start` and `length` are names elsewhere.
        IGNORE_AMBIGUITIES: true,
      })
      return { expr, ...this.span(start) }
    },
    NO_RESYNC,
  )

  sizeOf = this.RULE(
    'sizeOf',
    (): SizeOf => {
      const start = this.begin()
      const fn = this.OR([
        { ALT: () => (this.CONSUME(T.Size), 'size' as const) },
        { ALT: () => (this.CONSUME(T.Start), 'start' as const) },
        { ALT: () => (this.CONSUME(T.Length), 'length' as const) },
      ])
      this.CONSUME(T.LParen)
      const axis = this.SUBRULE(this.word)
      this.CONSUME(T.RParen)
      return { kind: 'size', fn, axis, span: this.span(start) }
    },
    NO_RESYNC,
  )

  outside = this.RULE(
    'outside',
    (): Outside => {
      this.CONSUME(T.Else)
      const sign = this.OPTION(() => this.CONSUME(T.Minus))
      const token = this.CONSUME(T.NumberToken)
      return this.ACTION(() => this.context.number(token, sign))
    },
    NO_RESYNC,
  )

  /** `x`, `exp(x)`, `X[p * stride + r, c] else 0`, `sum[k](x)`. */
  nameExpression = this.RULE(
    'nameExpression',
    (): Expr => {
      const start = this.begin()
      const name = this.SUBRULE(this.name)
      let at: Expr[] | null = null
      let outside: Outside | null = null
      let args: Operand[] | null = null
      this.OPTION(() =>
        this.OR([
          { ALT: () => (args = this.SUBRULE(this.args)) },
          {
            ALT: () => {
              at = this.SUBRULE(this.indices)
              this.OPTION2(() =>
                this.OR2([
                  { ALT: () => (outside = this.SUBRULE(this.outside)) },
                  { ALT: () => (args = this.SUBRULE2(this.args)) },
                ]),
              )
            },
          },
        ]),
      )
      return this.ACTION((): Expr => {
        const span = this.span(start)
        if (args === null) return { kind: 'reference', name, at, outside, span }
        if (at === null) return { kind: 'call', callee: name, args: args.map((a) => a.expr), span }
        return this.context.reduction(name, at, args, span)
      })
    },
    NO_RESYNC,
  )

  args = this.RULE(
    'args',
    (): Operand[] => {
      const list: Operand[] = []
      this.CONSUME(T.LParen)
      this.MANY_SEP({ SEP: T.Comma, DEF: () => list.push(this.SUBRULE(this.expression)) })
      this.CONSUME(T.RParen)
      return list
    },
    NO_RESYNC,
  )

  indices = this.RULE(
    'indices',
    (): Expr[] => {
      const list: Expr[] = []
      this.CONSUME(T.LBracket)
      this.AT_LEAST_ONE_SEP({ SEP: T.Comma, DEF: () => list.push(this.SUBRULE(this.index)) })
      this.CONSUME(T.RBracket)
      this.ACTION(() => this.context.checkAxisCount(list))
      return list
    },
    NO_RESYNC,
  )

  /** Alone an axis may have a keyword for a name. */
  index = this.RULE(
    'index',
    (): Expr =>
      this.OR({
        DEF: [
          {
            GATE: () => this.axisAhead(),
            ALT: (): Expr => {
              const name = this.SUBRULE(this.word)
              return this.ACTION(() => ({ kind: 'reference', name, at: null, outside: null, span: name.span }))
            },
          },
          { ALT: () => this.SUBRULE(this.expression).expr },
        ],
        IGNORE_AMBIGUITIES: true,
        MAX_LOOKAHEAD: 1,
      }),
    NO_RESYNC,
  )

  axisNames = this.RULE(
    'axisNames',
    (): Name[] => {
      const names: Name[] = []
      this.CONSUME(T.LBracket)
      this.AT_LEAST_ONE_SEP({ SEP: T.Comma, DEF: () => names.push(this.SUBRULE(this.word)) })
      this.CONSUME(T.RBracket)
      this.ACTION(() => this.context.checkAxisCount(names))
      return names
    },
    NO_RESYNC,
  )

  // ---- statements ----

  body = this.RULE(
    'body',
    (): Statement[] => {
      const list: (Statement | undefined)[] = []
      this.CONSUME(T.LBrace)
      this.MANY_SEP({ SEP: T.Separator, DEF: () => list.push(this.SUBRULE(this.statement)) })
      this.CONSUME(T.RBrace)
      return present(list)
    },
    { recoveryValueFunc: (): Statement[] => [] },
  )

  /** Which statements are legal where is checked afterwards: it allows better messages than the grammar could give. */
  statement = this.RULE('statement', (): Statement =>
    this.OR({
      DEF: [
        { GATE: () => this.equationAhead(), ALT: (): Statement => this.SUBRULE(this.equation) },
        { ALT: (): Statement => this.SUBRULE(this.axisStatement) },
        { ALT: (): Statement => this.SUBRULE(this.returnStatement) },
        {
          ALT: (): Statement => {
            const value = this.SUBRULE(this.expression)
            return this.ACTION(() => ({
              kind: 'expressionStatement',
              value: value.expr,
              span: { start: value.start, end: value.end },
            }))
          },
        },
      ],
      IGNORE_AMBIGUITIES: true,
      MAX_LOOKAHEAD: 1,
    }),
  )

  equation = this.RULE(
    'equation',
    (): Equation => {
      const start = this.begin()
      const targets: Target[] = []
      const tuple = this.OR([
        { ALT: () => (targets.push(this.SUBRULE(this.target)), false) },
        {
          ALT: () => {
            this.CONSUME(T.LParen)
            this.AT_LEAST_ONE_SEP({ SEP: T.Comma, DEF: () => targets.push(this.SUBRULE2(this.target)) })
            this.CONSUME(T.RParen)
            return true
          },
        },
      ])
      this.CONSUME(T.Equals)
      const value = this.SUBRULE(this.expression)
      return this.ACTION(() => {
        const doc = this.context.docBefore(start)
        return { kind: 'equation', targets, tuple, value: value.expr, doc, span: this.span(start) }
      })
    },
    NO_RESYNC,
  )

  target = this.RULE(
    'target',
    (): Target => {
      const start = this.begin()
      const name = this.SUBRULE(this.name)
      const at = this.OPTION(() => this.SUBRULE(this.indices)) ?? null
      const dtype = this.OPTION2(() => {
        this.CONSUME(T.Colon)
        return this.SUBRULE(this.typeName)
      })
      return { kind: 'target', name, at, dtype: dtype ?? null, span: this.span(start) }
    },
    NO_RESYNC,
  )

  axisStatement = this.RULE(
    'axisStatement',
    (): AxisStatement => {
      const start = this.begin()
      this.CONSUME(T.Axis)
      const axis = this.SUBRULE(this.word)
      this.CONSUME(T.Equals)
      const value = this.SUBRULE(this.expression)
      return this.ACTION(() => {
        const doc = this.context.docBefore(start)
        return { kind: 'axisStatement', axis, value: value.expr, doc, span: this.span(start) }
      })
    },
    NO_RESYNC,
  )

  /** `return a, b` or `return (a, b)`. */
  returnStatement = this.RULE(
    'returnStatement',
    (): Statement => {
      const start = this.begin()
      const values: Operand[] = []
      this.CONSUME(T.Return)
      this.OR({
        DEF: [
          {
            GATE: () => this.tupleAhead(),
            ALT: () => {
              this.CONSUME(T.LParen)
              this.AT_LEAST_ONE_SEP({ SEP: T.Comma, DEF: () => values.push(this.SUBRULE(this.expression)) })
              this.CONSUME(T.RParen)
            },
          },
          {
            ALT: () => this.AT_LEAST_ONE_SEP2({ SEP: T.Comma, DEF: () => values.push(this.SUBRULE2(this.expression)) }),
          },
        ],
        IGNORE_AMBIGUITIES: true,
        MAX_LOOKAHEAD: 1,
      })
      return this.ACTION(() => ({ kind: 'return', values: values.map((v) => v.expr), span: this.span(start) }))
    },
    NO_RESYNC,
  )

  // ---- positions ----

  protected begin(): number {
    return this.LA(1).startOffset
  }
  /** From `start` to the end of the last token read. */
  protected span(start: number): Span {
    return { start, end: Math.max(start, T.tokenEnd(this.LA(0))) }
  }

  // ---- look-ahead that LL(2) does not give ----

  /** `name… =`, `name: …`, `(…) =` begin equations; anything else is an expression. */
  private equationAhead(): boolean {
    const first = this.LA(1).tokenType
    if (first !== T.LParen && first !== T.Ident) return false
    let i = first === T.LParen ? this.afterBracket(1) : 2
    if (first === T.Ident && this.LA(i).tokenType === T.LBracket) i = this.afterBracket(i)
    const next = this.LA(i).tokenType
    return next === T.Equals || next === T.Colon
  }

  /** A word and the end of an index. */
  private axisAhead(): boolean {
    const next = this.LA(2).tokenType
    if (next !== T.Comma && next !== T.RBracket) return false
    return T.isA(this.LA(1), T.Word)
  }

  /** `( … , … )` up to the end of the statement. */
  private tupleAhead(): boolean {
    if (this.LA(1).tokenType !== T.LParen) return false
    const end = this.afterBracket(1)
    const next = this.LA(end)
    return T.isA(next, T.Separator) || next.tokenType === T.RBrace || next.tokenType.name === 'EOF'
  }

  /** `i` of the first token behind the bracket that opens at `i`; layout.ts has balanced them. */
  private afterBracket(i: number): number {
    for (let depth = 0; ; i++) {
      const type = this.LA(i).tokenType
      if (type === T.LParen || type === T.LBracket || type === T.LBrace) depth++
      else if (type === T.RParen || type === T.RBracket || type === T.RBrace) depth--
      else if (type.name === 'EOF') return i
      if (depth <= 0) return i + 1
    }
  }
}
