/** Expressions and statements, with the parentheses that precedence needs. */
import type { Doc } from 'prettier'
import { builders } from 'prettier/doc'
import {
  axisNamesOf,
  type Binary,
  type Equation,
  type Expr,
  type Reference,
  type Statement,
  type Target,
} from '../ast.ts'
import { PRECEDENCE, PREFIX_LEVEL } from '../pratt.ts'
import { printAxisNames } from './leaves.ts'
import { chain, list } from './sequences.ts'
import type { Trivia } from './trivia.ts'

const { group, ifBreak, indent, join, line, softline } = builders

export function statementDoc(statement: Statement, trivia: Trivia): Doc {
  const doc = statementText(statement, trivia)
  trivia.hoistBefore(statement.span.end)
  return doc
}

function statementText(statement: Statement, trivia: Trivia): Doc {
  switch (statement.kind) {
    case 'equation':
      return [targets(statement, trivia), ' = ', expressionDoc(statement.value, trivia)]
    case 'axisStatement':
      return [`axis ${statement.axis.text} = `, expressionDoc(statement.value, trivia)]
    case 'return': {
      const values = statement.values.map((value) => expressionDoc(value, trivia))
      if (values.length === 1) return ['return ', values]
      // A comma ends a line only inside parentheses.
      const rows = indent([softline, join([',', line], values)])
      return group(['return ', ifBreak('('), rows, softline, ifBreak(')')])
    }
    case 'expressionStatement':
      return expressionDoc(statement.value, trivia)
  }
}

function targets(equation: Equation, trivia: Trivia): Doc {
  const all = join(
    ', ',
    equation.targets.map((target) => targetDoc(target, trivia)),
  )
  return equation.tuple ? ['(', all, ')'] : all
}

const targetDoc = (target: Target, trivia: Trivia): Doc => [
  indexed(target, target.dtype?.span.start ?? target.span.end, trivia),
  target.dtype === null ? '' : `: ${target.dtype.text}`,
]

/** `x`, `x[m, n]`, `x[p * stride + r, c]`; comments before `limit` belong to it. Names alone stay on one line. */
function indexed({ name, at }: Pick<Reference, 'name' | 'at'>, limit: number, trivia: Trivia): Doc {
  const names = axisNamesOf({ at })
  if (at !== null && names === null) {
    trivia.hoistBefore(name.span.start)
    const end = trivia.find(']', at.at(-1)!.span.end, limit)
    return list([`${name.text}[`, ']'], at, end, trivia, (index) => indexDoc(index, trivia))
  }
  trivia.hoistBefore(limit)
  return name.text + printAxisNames(names)
}

/** The whole of an expression: no line break may come before it, so comments there are hoisted. */
export function expressionDoc(expr: Expr, trivia: Trivia): Doc {
  trivia.hoistBefore(expr.span.start)
  return print(expr, 0, trivia)
}

/** `level`: an expression that binds less tightly takes parentheses. */
function print(expr: Expr, level: number, trivia: Trivia): Doc {
  switch (expr.kind) {
    case 'number':
      return leaf(expr, expr.text, trivia)
    case 'reference':
      return reference(expr, level, trivia)
    case 'size':
      return leaf(expr, `${expr.fn}(${expr.axis.text})`, trivia)
    case 'call':
      return call(expr.callee.text, expr.args, expr, trivia)
    case 'reduce':
      return call(expr.fn.text + printAxisNames(expr.axes), [expr.value], expr, trivia)
    case 'slot':
      return call('epilogue', [expr.value], expr, trivia)
    case 'unary':
      return parenthesise([expr.op, print(expr.operand, PREFIX_LEVEL, trivia)], PREFIX_LEVEL < level)
    case 'binary':
      return binary(expr, level, trivia)
  }
}

/** `X[inf]` is read at an axis of that name. */
function indexDoc(index: Expr, trivia: Trivia): Doc {
  const word = index.kind === 'number' && /^[a-z]/.test(index.text)
  return word ? ['(', print(index, 0, trivia), ')'] : print(index, 0, trivia)
}

/** Beside an operator `X[i] else 0` takes parentheses, which only readers need. */
function reference(expr: Reference, level: number, trivia: Trivia): Doc {
  const read = indexed(expr, expr.outside?.span.start ?? expr.span.end, trivia)
  trivia.hoistBefore(expr.span.end)
  if (expr.outside === null) return read
  const whole = [read, ` else ${expr.outside.text}`]
  return level > 0 ? ['(', whole, ')'] : whole
}

function leaf(expr: Expr, text: string, trivia: Trivia): string {
  trivia.hoistBefore(expr.span.end)
  return text
}

function call(name: string, args: readonly Expr[], expr: Expr, trivia: Trivia): Doc {
  trivia.hoistBefore(expr.span.start)
  return list([`${name}(`, ')'], args, expr.span.end, trivia, (arg) => print(arg, 0, trivia))
}

function binary(expr: Binary, level: number, trivia: Trivia): Doc {
  const own = PRECEDENCE[expr.op]
  const printed = (part: { readonly node: Expr; readonly level: number }): Doc => print(part.node, part.level, trivia)
  if (own.assoc === 'right') {
    const doc = join(expr.op, powers(expr).map(printed))
    return parenthesise(doc, own.level < level)
  }
  const parts = operands(expr)
  const levels = new Map(parts.map((part) => [part.node, part.level]))
  const [first, ...rest] = chain(parts, trivia, (node) => print(node, levels.get(node)!, trivia))
  return parenthesise(group([first!, indent(rest)]), own.level < level)
}

/** `a + b - c` as its operands with the operators before them. */
function operands(expr: Binary): { node: Expr; op: string; level: number }[] {
  const { level, assoc } = PRECEDENCE[expr.op]
  const parts: { node: Expr; op: string; level: number }[] = []
  let left: Expr = expr
  do {
    parts.push({ node: left.right, op: left.op, level: level + 1 })
    left = left.left
  } while (assoc === 'left' && left.kind === 'binary' && PRECEDENCE[left.op].level === level)
  parts.push({ node: left, op: '', level: level + 1 })
  return parts.reverse()
}

/** `a^b^c`, which is `a^(b^c)`. */
function powers(expr: Binary): { node: Expr; level: number }[] {
  const { level } = PRECEDENCE[expr.op]
  const parts: { node: Expr; level: number }[] = []
  let right: Expr = expr
  while (right.kind === 'binary' && right.op === expr.op) {
    parts.push({ node: right.left, level: level + 1 })
    right = right.right
  }
  return [...parts, { node: right, level }]
}

const parenthesise = (doc: Doc, needed: boolean): Doc =>
  needed ? group(['(', indent([softline, doc]), softline, ')']) : doc
