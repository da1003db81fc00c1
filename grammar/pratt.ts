/**
 * Operator precedence by one table. The parser collects an expression as a flat stream of prefix operators, operands
 * and binary operators; this folds it into a tree.
 */
import type { IToken } from 'chevrotain'
import type { BinaryOp, Expr, Unary } from './ast.ts'
import { tokenEnd } from './tokens.ts'

/** Loosest first. `none`: `a < b < c` is an error. */
export const PRECEDENCE: Readonly<
  Record<BinaryOp, { readonly level: number; readonly assoc: 'left' | 'right' | 'none' }>
> = {
  '||': { level: 1, assoc: 'left' },
  '&&': { level: 2, assoc: 'left' },
  '<': { level: 3, assoc: 'none' },
  '<=': { level: 3, assoc: 'none' },
  '>': { level: 3, assoc: 'none' },
  '>=': { level: 3, assoc: 'none' },
  '==': { level: 3, assoc: 'none' },
  '!=': { level: 3, assoc: 'none' },
  '+': { level: 4, assoc: 'left' },
  '-': { level: 4, assoc: 'left' },
  '*': { level: 5, assoc: 'left' },
  '/': { level: 5, assoc: 'left' },
  '%': { level: 5, assoc: 'left' },
  '^': { level: 7, assoc: 'right' },
}

/** Prefix `-`, `!`, `+`: tighter than `*`, looser than `^`. */
export const PREFIX_LEVEL = 6

/** An operand with the range it was written in, parentheses included. */
export interface Operand {
  readonly expr: Expr
  readonly start: number
  readonly end: number
}
export type StreamItem = Operand | IToken

const isToken = (item: StreamItem): item is IToken => 'image' in item
const opOf = (token: IToken): BinaryOp =>
  (token.image === '**' ? '^' : token.image === '//' ? '/' : token.image) as BinaryOp

/**
 * `stream`: `prefix* operand (binary prefix* operand)*`. `onChained` is told of each comparison of a comparison;
 * the tree is then built left to right, so that checking can go on.
 */
export function foldExpression(
  stream: readonly StreamItem[],
  onChained: (first: IToken, second: IToken) => void,
): Operand {
  let position = 0

  const parse = (minLevel: number): Operand => {
    const first = stream[position++]!
    let left: Operand = first as Operand
    if (isToken(first)) {
      const operand = parse(PREFIX_LEVEL)
      left = unary(first, operand)
    }
    let comparison: IToken | null = null
    for (;;) {
      const token = stream[position]
      if (token === undefined || !isToken(token)) return left
      const { level, assoc } = PRECEDENCE[opOf(token)]
      if (level < minLevel) return left
      position++
      if (assoc === 'none') {
        if (comparison !== null) onChained(comparison, token)
        comparison = token
      } else comparison = null
      const right = parse(assoc === 'right' ? level : level + 1)
      left = binary(opOf(token), left, right)
    }
  }
  return parse(0)
}

function unary(token: IToken, operand: Operand): Operand {
  const span = { start: token.startOffset, end: Math.max(operand.end, tokenEnd(token)) }
  return { expr: { kind: 'unary', op: token.image as Unary['op'], operand: operand.expr, span }, ...span }
}

function binary(op: BinaryOp, left: Operand, right: Operand): Operand {
  const span = { start: left.start, end: right.end }
  return { expr: { kind: 'binary', op, left: left.expr, right: right.expr, span }, ...span }
}
