/**
 * AST to canonical text. `parse(print(ast))` gives the same tree, and printing that again the same text. Comments keep
 * to the statement they stand at: own-line comments before it, others behind it.
 */
import type {
  AxisRef, Comment, EpilogueDecl, EpilogueParam, Equation, Expr, Item, KernelDecl, Name, OperandDecl, Program,
  ScheduleDecl, ScheduleEntry, ScheduleValue, Span, Statement, Target, TensorType,
} from './ast.ts' // prettier-ignore
import { PRECEDENCE, PREFIX_LEVEL } from './pratt.ts'

/** Kernel headers longer than this take one line per operand. */
const WIDTH = 120
const INDENT = '  '

export function printProgram(program: Program): string {
  const comments = new CommentQueue(program.comments)
  const items = program.items.map((item) => {
    const before = comments.above(item.span.start)
    const text = printItem(item, comments)
    return [...before, text + comments.trailing(followingStart(program.items, item))].join('\n')
  })
  const rest = comments.before(Infinity).join('\n')
  const text = [...items, ...(rest === '' ? [] : [rest])].join('\n\n')
  return text === '' ? '' : `${text}\n`
}

/** A declared epilogue, or an epilogue string in its own spelling. */
export function printEpilogue(epilogue: EpilogueDecl): string {
  return printEpilogueWith(epilogue, new CommentQueue([]))
}

/** Hands out comments in order as the printer passes them. */
class CommentQueue {
  private next = 0
  private readonly comments: readonly Comment[]

  constructor(comments: readonly Comment[]) {
    this.comments = comments
  }

  /** Comments that begin before `offset`, as lines of their own. */
  before(offset: number): string[] {
    const first = this.next
    while (this.next < this.comments.length && this.comments[this.next]!.span.start < offset) this.next++
    return this.comments.slice(first, this.next).map(printComment)
  }

  /** The same, above a node: a blank line keeps a `///` that is not the node's own from becoming it. */
  above(offset: number): string[] {
    const lines = this.before(offset)
    return lines.length > 0 && this.comments[this.next - 1]!.doc ? [...lines, ''] : lines
  }

  /** The next comment before `limit`, if it stands in or behind a line of the node just printed. */
  trailing(limit: number): string {
    const comment = this.comments[this.next]
    if (comment === undefined || comment.ownLine || comment.span.start >= limit) return ''
    this.next++
    return ` ${printComment(comment)}`
  }
}

const printComment = (comment: Comment): string => `${comment.doc ? '///' : '//'}${comment.text.trimEnd()}`

function followingStart(list: readonly { readonly span: Span }[], node: { readonly span: Span }): number {
  return list[list.indexOf(node) + 1]?.span.start ?? Infinity
}

const docLines = (doc: string | null): string[] =>
  doc === null ? [] : doc.split('\n').map((line) => (line === '' ? '///' : `/// ${line}`))

function printItem(item: Item, comments: CommentQueue): string {
  switch (item.kind) {
    case 'kernel':
      return printKernel(item, comments)
    case 'epilogue':
      return printEpilogueWith(item, comments)
    case 'schedule':
      return printSchedule(item, comments)
  }
}

/** `{ … }`: empty, or a line each for statements with their comments. */
function printBlock<N extends { readonly span: Span }>(
  head: string,
  nodes: readonly N[],
  end: number,
  comments: CommentQueue,
  print: (node: N) => readonly string[],
): string {
  const lines: string[] = []
  for (const node of nodes) {
    lines.push(...comments.above(node.span.start))
    const printed = [...print(node)]
    printed.push(printed.pop()! + comments.trailing(Math.min(end, followingStart(nodes, node))))
    lines.push(...printed)
  }
  lines.push(...comments.before(end))
  if (lines.length === 0) return `${head} {}`
  return [`${head} {`, ...lines.map((line) => (line === '' ? '' : INDENT + line)), '}'].join('\n')
}

// ---- kernels ----

function printKernel(kernel: KernelDecl, comments: CommentQueue): string {
  // Comments inside the header move above it.
  const headEnd = kernel.outputs.at(-1)?.span.end ?? kernel.span.start
  const moved = comments.above(headEnd)
  const typeParams = kernel.typeParams.map((p) => `${p.name.text}: ${p.alternatives.map((a) => a.text).join(' | ')}`)
  const name = `${kernel.accuracy === null ? '' : `${kernel.accuracy} `}kernel ${kernel.name.text}`
  const generics = typeParams.length > 0 ? `<${typeParams.join(', ')}>` : ''
  const params = kernel.params.map(printOperand)
  const outputs = kernel.outputs.map(printOperand)
  const result = outputs.length === 1 ? outputs[0]! : `(${outputs.join(', ')})`
  const oneLine = `${name}${generics}(${params.join(', ')}) -> ${result}`
  const head =
    oneLine.length + 2 <= WIDTH || params.length === 0
      ? oneLine
      : `${name}${generics}(\n${params.map((p) => INDENT + p).join(',\n')}\n) -> ${result}`
  const block = printBlock(head, kernel.body, kernel.span.end, comments, printStatement)
  return [...moved, ...docLines(kernel.doc), block].join('\n')
}

function printOperand(operand: OperandDecl): string {
  const { ragged, defaultValue } = operand
  const type = operand.alternatives.map(printTensorType).join(' | ')
  const value = defaultValue === null ? '' : ` = ${defaultValue.text}`
  const rows = ragged === null ? '' : ` ragged ${ragged.axis.text} by ${ragged.by.text} as ${ragged.as.text}`
  return `${operand.name.text}: ${type}${value}${rows}`
}

export function printTensorType(type: TensorType): string {
  const axes = type.axes === null ? '' : `[${type.axes.map(printAxis).join(', ')}]`
  return type.dtype.text + axes + (type.scale === null ? '' : ` * ${printTensorType(type.scale)}`)
}

const printAxis = (axis: AxisRef): string =>
  axis.name.text + (axis.optional ? '?' : '') + (axis.divisor === null ? '' : `/${axis.divisor}`)

// ---- epilogues ----

function printEpilogueWith(epilogue: EpilogueDecl, comments: CommentQueue): string {
  const params = epilogue.params.map(printEpilogueParam).join(', ')
  if (epilogue.spelling === 'declaration') {
    const moved = comments.above(epilogue.body[0]?.span.start ?? epilogue.span.start)
    const outputs = (epilogue.outputs ?? []).map((name) => name.text)
    const result = outputs.length === 1 ? outputs[0]! : `(${outputs.join(', ')})`
    const head = `epilogue ${epilogue.name?.text ?? ''}(${params}) -> ${result}`
    const block = printBlock(head, epilogue.body, epilogue.span.end, comments, printStatement)
    return [...moved, ...docLines(epilogue.doc), block].join('\n')
  }
  const statements = epilogue.body.map((statement, i) => {
    const line = printStatement(statement).at(-1)!
    // A line that begins with a sign would carry on the line above.
    return i > 0 && /^[-+]/.test(line) ? `(${line})` : line
  })
  if (epilogue.spelling !== 'def') return statements.join('\n')
  const body = statements.map((line) => `\n${INDENT}${INDENT}${line}`).join('')
  return `def ${epilogue.name?.text ?? ''}(${params}):${body}`
}

function printEpilogueParam(param: EpilogueParam): string {
  const value = param.defaultValue === null ? '' : ` = ${param.defaultValue.text}`
  return param.name.text + printAnnotation(param) + value
}

/** `: f32`, `: f32[m]`, `[m]` or nothing. */
function printAnnotation({ dtype, axes }: EpilogueParam): string {
  return (dtype === null ? '' : `: ${dtype.text}`) + printAxisNames(axes)
}

const printAxisNames = (axes: readonly Name[] | null): string =>
  axes === null ? '' : `[${axes.map((axis) => axis.text).join(', ')}]`

// ---- statements ----

/** Lines; the last is the statement, those before it its doc comment. */
export function printStatement(statement: Statement): string[] {
  switch (statement.kind) {
    case 'equation':
      return [...docLines(statement.doc), `${printTargets(statement)} = ${printExpr(statement.value)}`]
    case 'return':
      return [`return ${statement.values.map((value) => printExpr(value)).join(', ')}`]
    case 'expressionStatement':
      return [printExpr(statement.value)]
  }
}

function printTargets(equation: Equation): string {
  const targets = equation.targets.map(printTarget).join(', ')
  return equation.tuple ? `(${targets})` : targets
}

const printTarget = (target: Target): string =>
  target.name.text + printAxisNames(target.axes) + (target.dtype === null ? '' : `: ${target.dtype.text}`)

// ---- schedules ----

function printSchedule(schedule: ScheduleDecl, comments: CommentQueue): string {
  const moved = comments.above(schedule.target.span.end)
  const head = `schedule ${schedule.kernel.text} on ${schedule.target.text}`
  const block = printBlock(head, schedule.entries, schedule.span.end, comments, (entry) => [printEntry(entry)])
  return [...moved, ...docLines(schedule.doc), block].join('\n')
}

const printEntry = (entry: ScheduleEntry): string =>
  [entry.key.text, entry.alternatives.map(printScheduleValue).join(' | ')].join(' ').trimEnd()

export function printScheduleValue(value: ScheduleValue): string {
  switch (value.kind) {
    case 'shape':
      return value.extents.join('x')
    case 'cta':
      return `${value.count}cta`
    case 'count':
      return String(value.value)
    case 'word':
      return value.text
  }
}

// ---- expressions ----

/** With the parentheses that precedence needs, and no others. */
export function printExpr(expr: Expr): string {
  return print(expr, 0)
}

/** `level`: an expression that binds less tightly takes parentheses. */
function print(expr: Expr, level: number): string {
  switch (expr.kind) {
    case 'number':
      return expr.text
    case 'reference':
      return expr.name.text + printAxisNames(expr.axes)
    case 'call':
      return `${expr.callee.text}(${expr.args.map((arg) => print(arg, 0)).join(', ')})`
    case 'reduce':
      return `${expr.fn.text}${printAxisNames(expr.axes)}(${print(expr.value, 0)})`
    case 'size':
      return `size(${expr.axis.text})`
    case 'slot':
      return `epilogue(${print(expr.value, 0)})`
    case 'unary':
      return parenthesise(expr.op + print(expr.operand, PREFIX_LEVEL), PREFIX_LEVEL < level)
    case 'binary': {
      const own = PRECEDENCE[expr.op]
      const left = print(expr.left, own.assoc === 'left' ? own.level : own.level + 1)
      const right = print(expr.right, own.assoc === 'right' ? own.level : own.level + 1)
      const op = expr.op === '^' ? expr.op : ` ${expr.op} `
      return parenthesise(left + op + right, own.level < level)
    }
  }
}

const parenthesise = (text: string, needed: boolean): string => (needed ? `(${text})` : text)
