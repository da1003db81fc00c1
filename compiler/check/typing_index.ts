/** Integers that come from axes, sizes and integer operands: `/` and `%` of them are floor division and modulus. */
import type { Resolved } from './resolved.ts'

/** What `/` and `%` are between indices. */
export const FLOORED: Readonly<Record<string, string>> = { div: 'floordiv', mod: 'floormod' }

/** Arithmetic that makes indices of indices. */
const INDEX_OPERATIONS: ReadonlySet<string> = new Set([
  'add',
  'sub',
  'mul',
  'neg',
  'div',
  'mod',
  'min',
  'max',
  'clamp',
  'abs',
  'select',
])

/** Of an i32 or a literal `e`, given those among its operands. Sums of integers are none: their quotient is a float. */
export function isIndex(e: Resolved, indices: ReadonlySet<Resolved>): boolean {
  switch (e.kind) {
    case 'number':
      return e.literal.integer
    case 'operand':
    case 'scalar':
    case 'size':
    case 'axis':
    case 'start':
    case 'length':
      return true
    case 'cast':
    case 'typed':
    case 'skip0':
      return indices.has(e.value)
    case 'apply': {
      const numbers = e.args.slice(e.op === 'select' ? 1 : 0)
      return INDEX_OPERATIONS.has(e.op) && numbers.every((arg) => indices.has(arg))
    }
    default:
      return false
  }
}
