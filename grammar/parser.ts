/**
 * The grammar (ktl.ebnf) as a chevrotain parser that builds the AST directly. One instance serves every parse: building
 * it costs milliseconds.
 *
 * Recovery: errors in expressions climb to their statement, errors in types to their operand; those resume at the next
 * separator.
 */
import type { IToken } from 'chevrotain'
import type {
  AxisRef,
  EpilogueDecl,
  EpilogueParam,
  Item,
  KernelDecl,
  Name,
  NumberLiteral,
  OperandDecl,
  PartType,
  Program,
  Ragged,
  ScheduleDecl,
  ScheduleEntry,
  ScheduleValue,
  Statement,
  TensorType,
  TypeName,
  TypeParam,
} from './ast.ts'
import { NO_RESYNC, present, StatementParser } from './parser_statements.ts'
import * as T from './tokens.ts'

interface Annotation {
  readonly axes: readonly Name[] | null
  readonly dtype: TypeName | null
}

function scheduleValueOf(token: IToken): ScheduleValue {
  const span = T.tokenSpan(token)
  switch (token.tokenType) {
    case T.Shape:
      return { kind: 'shape', extents: token.image.split('x').map(Number), span }
    case T.Cta:
      return { kind: 'cta', count: parseInt(token.image, 10), span }
    case T.Integer:
      return { kind: 'count', value: Number(token.image), span }
    default:
      return { kind: 'word', text: token.image, span }
  }
}

class KtlParser extends StatementParser {
  constructor() {
    super()
    this.performSelfAnalysis()
  }

  // ---- items ----

  program = this.RULE('program', (): Program => {
    this.MANY(() => {
      const item = this.SUBRULE(this.item)
      // Kept there, since this rule gives nothing when its last item cannot be read.
      this.ACTION(() => this.context.items.push(item))
    })
    return this.ACTION(() => this.context.program())
  })

  item = this.RULE('item', (): Item => {
    this.ACTION(() => this.context.beginItem())
    return this.OR([
      { ALT: (): Item => this.SUBRULE(this.kernel) },
      { ALT: (): Item => this.SUBRULE(this.epilogue) },
      { ALT: (): Item => this.SUBRULE(this.schedule) },
    ])
  })

  kernel = this.RULE(
    'kernel',
    (): KernelDecl => {
      const start = this.begin()
      const accuracy = this.OPTION(() =>
        this.OR([
          { ALT: () => (this.CONSUME(T.Approx), 'approx' as const) },
          { ALT: () => (this.CONSUME(T.Precise), 'precise' as const) },
        ]),
      )
      this.CONSUME(T.Kernel)
      const name = this.SUBRULE(this.name)
      const typeParams: (TypeParam | undefined)[] = []
      this.OPTION2(() => {
        this.CONSUME(T.Less)
        this.AT_LEAST_ONE_SEP({ SEP: T.Comma, DEF: () => typeParams.push(this.SUBRULE(this.typeParam)) })
        this.CONSUME(T.Greater)
      })
      const params: (OperandDecl | undefined)[] = []
      this.CONSUME(T.LParen)
      this.MANY_SEP({ SEP: T.Comma, DEF: () => params.push(this.SUBRULE(this.operand)) })
      this.CONSUME(T.RParen)
      this.CONSUME(T.Arrow)
      const outputs = this.SUBRULE(this.outputs)
      const body = this.SUBRULE(this.body)
      return this.ACTION(() => {
        this.context.checkBody(body, 'kernel')
        const decl: KernelDecl = {
          kind: 'kernel',
          name,
          doc: this.context.docBefore(start),
          accuracy: accuracy ?? null,
          typeParams: present(typeParams),
          params: present(params),
          outputs: present(outputs),
          body,
          span: this.span(start),
        }
        this.context.checkOperandCount([...decl.params, ...decl.outputs])
        return decl
      })
    },
    NO_RESYNC,
  )

  typeParam = this.RULE('typeParam', (): TypeParam => {
    const start = this.begin()
    const name = this.SUBRULE(this.name)
    const alternatives: TypeName[] = []
    this.CONSUME(T.Colon)
    this.AT_LEAST_ONE_SEP({ SEP: T.Bar, DEF: () => alternatives.push(this.SUBRULE(this.typeName)) })
    return { kind: 'typeParam', name, alternatives, span: this.span(start) }
  })

  outputs = this.RULE(
    'outputs',
    (): (OperandDecl | undefined)[] => {
      const outputs: (OperandDecl | undefined)[] = []
      this.OR([
        {
          ALT: () => {
            this.CONSUME(T.LParen)
            this.AT_LEAST_ONE_SEP({ SEP: T.Comma, DEF: () => outputs.push(this.SUBRULE(this.operand)) })
            this.CONSUME(T.RParen)
          },
        },
        { ALT: () => outputs.push(this.SUBRULE2(this.operand)) },
      ])
      return outputs
    },
    NO_RESYNC,
  )

  epilogue = this.RULE(
    'epilogue',
    (): EpilogueDecl => {
      const start = this.begin()
      this.CONSUME(T.Epilogue)
      const name = this.SUBRULE(this.name)
      const params = this.SUBRULE(this.epilogueParams)
      this.CONSUME(T.Arrow)
      const outputs = this.OR([
        { ALT: () => [this.SUBRULE2(this.name)] },
        {
          ALT: () => {
            const names: Name[] = []
            this.CONSUME(T.LParen)
            this.AT_LEAST_ONE_SEP({ SEP: T.Comma, DEF: () => names.push(this.SUBRULE3(this.name)) })
            this.CONSUME(T.RParen)
            return names
          },
        },
      ])
      const body = this.SUBRULE(this.body)
      return this.ACTION(() => {
        this.context.checkBody(body, 'epilogue')
        const doc = this.context.docBefore(start)
        return { kind: 'epilogue', name, doc, spelling: 'declaration', params, outputs, body, span: this.span(start) }
      })
    },
    NO_RESYNC,
  )

  /** An epilogue string in expression or statement spelling. */
  epilogueText = this.RULE('epilogueText', (): EpilogueDecl => {
    const list: (Statement | undefined)[] = []
    this.AT_LEAST_ONE_SEP({ SEP: T.Separator, DEF: () => list.push(this.SUBRULE(this.statement)) })
    return this.ACTION(() => {
      const body = present(list)
      const spelling = body.length === 1 && body[0]!.kind === 'expressionStatement' ? 'expression' : 'statements'
      return this.context.epilogueString(null, spelling, [], body)
    })
  })

  /** An epilogue string in `def` spelling; annotations, comments and the docstring are gone by now. */
  epilogueDef = this.RULE('epilogueDef', (): EpilogueDecl => {
    this.CONSUME(T.Def)
    const name = this.SUBRULE(this.word)
    const params = this.SUBRULE(this.epilogueParams)
    this.CONSUME(T.Colon)
    const list: (Statement | undefined)[] = []
    this.AT_LEAST_ONE_SEP({ SEP: T.Separator, DEF: () => list.push(this.SUBRULE(this.statement)) })
    return this.ACTION(() => this.context.epilogueString(name, 'def', params, present(list)))
  })

  epilogueParams = this.RULE(
    'epilogueParams',
    (): EpilogueParam[] => {
      const params: (EpilogueParam | undefined)[] = []
      this.CONSUME(T.LParen)
      this.MANY_SEP({ SEP: T.Comma, DEF: () => params.push(this.SUBRULE(this.epilogueParam)) })
      this.CONSUME(T.RParen)
      return present(params)
    },
    NO_RESYNC,
  )

  epilogueParam = this.RULE('epilogueParam', (): EpilogueParam => {
    const start = this.begin()
    const name = this.SUBRULE(this.name)
    const { axes, dtype } = this.SUBRULE(this.annotation)
    const defaultValue = this.OPTION(() => this.SUBRULE(this.defaultValue)) ?? null
    return { kind: 'epilogueParam', name, dtype, axes, defaultValue, span: this.span(start) }
  })

  /** `[m, n]`, `: f32`, `: f32[m, n]` or nothing. */
  annotation = this.RULE(
    'annotation',
    (): Annotation => {
      let axes = this.OPTION(() => this.SUBRULE(this.axisNames)) ?? null
      const dtype = this.OPTION2(() => {
        this.CONSUME(T.Colon)
        const type = this.SUBRULE(this.typeName)
        this.OPTION3(() => {
          axes = this.SUBRULE2(this.axisNames)
        })
        return type
      })
      return { axes, dtype: dtype ?? null }
    },
    NO_RESYNC,
  )

  // ---- operands ----

  operand = this.RULE('operand', (): OperandDecl => {
    const start = this.begin()
    const name = this.SUBRULE(this.name)
    const alternatives: TensorType[] = []
    this.CONSUME(T.Colon)
    this.AT_LEAST_ONE_SEP({ SEP: T.Bar, DEF: () => alternatives.push(this.SUBRULE(this.tensorType)) })
    const defaultValue = this.OPTION(() => this.SUBRULE(this.defaultValue)) ?? null
    const ragged = this.OPTION2(() => this.SUBRULE(this.ragged)) ?? null
    return { kind: 'operand', name, alternatives, defaultValue, ragged, span: this.span(start) }
  })

  tensorType = this.RULE(
    'tensorType',
    (): TensorType => {
      const start = this.begin()
      let zero: PartType | null = null
      const data = this.OR([
        { ALT: () => this.SUBRULE(this.part) },
        {
          ALT: () => {
            this.CONSUME(T.LParen)
            const part = this.SUBRULE2(this.part)
            this.CONSUME(T.Minus)
            zero = this.SUBRULE3(this.part)
            this.CONSUME(T.RParen)
            return part
          },
        },
      ])
      const factors: PartType[] = []
      this.MANY(() => {
        this.CONSUME(T.Star)
        factors.push(this.SUBRULE4(this.part))
      })
      return this.ACTION(() => this.context.tensorType({ data, zero, factors, span: this.span(start) }))
    },
    NO_RESYNC,
  )

  part = this.RULE(
    'part',
    (): PartType => {
      const start = this.begin()
      const { floor, dtype, axes } = this.OR({
        DEF: [
          {
            ALT: () => {
              this.CONSUME(T.Floor)
              this.CONSUME(T.LParen)
              const dtype = this.SUBRULE(this.typeName)
              const axes = this.OPTION(() => this.SUBRULE(this.axes)) ?? null
              this.CONSUME(T.RParen)
              return { floor: true, dtype, axes }
            },
          },
          {
            ALT: () => {
              const dtype = this.SUBRULE2(this.typeName)
              const axes = this.OPTION2(() => this.SUBRULE2(this.axes)) ?? null
              return { floor: false, dtype, axes }
            },
          },
        ],
        // `floor` is a name elsewhere.
        IGNORE_AMBIGUITIES: true,
      })
      return { kind: 'partType', dtype, axes, floor, span: this.span(start) }
    },
    NO_RESYNC,
  )

  axes = this.RULE(
    'axes',
    (): AxisRef[] => {
      const axes: AxisRef[] = []
      this.CONSUME(T.LBracket)
      this.AT_LEAST_ONE_SEP({ SEP: T.Comma, DEF: () => axes.push(this.SUBRULE(this.axis)) })
      this.CONSUME(T.RBracket)
      this.ACTION(() => this.context.checkAxisCount(axes))
      return axes
    },
    NO_RESYNC,
  )

  axis = this.RULE(
    'axis',
    (): AxisRef => {
      const start = this.begin()
      const name = this.SUBRULE(this.word)
      const optional = this.OPTION(() => this.CONSUME(T.Question)) !== undefined
      const divisor = this.OPTION2(() => {
        this.CONSUME(T.Slash)
        const token = this.CONSUME(T.Integer)
        return this.ACTION(() => this.context.number(token).value)
      })
      return { kind: 'axis', name, optional, divisor: divisor ?? null, span: this.span(start) }
    },
    NO_RESYNC,
  )

  ragged = this.RULE(
    'ragged',
    (): Ragged => {
      const start = this.begin()
      this.CONSUME(T.Ragged)
      const axis = this.SUBRULE(this.word)
      const form = this.OR([
        { ALT: () => (this.CONSUME(T.By), 'by' as const) },
        { ALT: () => (this.CONSUME(T.Upto), 'upto' as const) },
      ])
      const by = this.SUBRULE(this.name)
      this.CONSUME(T.As)
      const as = this.SUBRULE2(this.word)
      return { kind: 'ragged', axis, form, by, as, span: this.span(start) }
    },
    NO_RESYNC,
  )

  defaultValue = this.RULE(
    'defaultValue',
    (): NumberLiteral => {
      this.CONSUME(T.Equals)
      const sign = this.OPTION(() => this.CONSUME(T.Minus))
      const token = this.CONSUME(T.NumberToken)
      return this.ACTION(() => this.context.number(token, sign))
    },
    NO_RESYNC,
  )

  // ---- schedules ----

  schedule = this.RULE(
    'schedule',
    (): ScheduleDecl => {
      const start = this.begin()
      this.CONSUME(T.Schedule)
      const kernels: Name[] = []
      this.AT_LEAST_ONE_SEP({ SEP: T.Comma, DEF: () => kernels.push(this.SUBRULE(this.name)) })
      this.CONSUME(T.On)
      const target = this.SUBRULE2(this.name)
      const entries: (ScheduleEntry | undefined)[] = []
      this.CONSUME(T.LBrace)
      this.MANY_SEP({ SEP: T.Separator, DEF: () => entries.push(this.SUBRULE(this.scheduleEntry)) })
      this.CONSUME(T.RBrace)
      return this.ACTION(() => {
        const doc = this.context.docBefore(start)
        return { kind: 'schedule', kernels, target, doc, entries: present(entries), span: this.span(start) }
      })
    },
    NO_RESYNC,
  )

  scheduleEntry = this.RULE('scheduleEntry', (): ScheduleEntry => {
    const start = this.begin()
    const key = this.SUBRULE(this.word)
    const alternatives: ScheduleValue[] = []
    this.MANY_SEP({ SEP: T.Bar, DEF: () => alternatives.push(this.SUBRULE(this.scheduleValue)) })
    return { kind: 'scheduleEntry', key, alternatives, span: this.span(start) }
  })

  scheduleValue = this.RULE(
    'scheduleValue',
    (): ScheduleValue => {
      const token = this.OR([
        { ALT: () => this.CONSUME(T.Shape) },
        { ALT: () => this.CONSUME(T.Cta) },
        { ALT: () => this.CONSUME(T.Integer) },
        { ALT: () => this.CONSUME(T.Word) },
      ])
      return this.ACTION(() => scheduleValueOf(token))
    },
    NO_RESYNC,
  )
}

export const parser = new KtlParser()
