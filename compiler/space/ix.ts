/**
 * Index expressions: where a tile lies along an axis, as arithmetic over launch parameters and loop variables. Simplified when they
 * are made, and printed here alone: CUDA and the printed programs use one spelling.
 */

/** Unsigned 32-bit arithmetic; `div` and `mod` by a positive number. */
export type Ix =
  | { readonly kind: 'const'; readonly value: number }
  /** A name of the generated code: a parameter, a loop variable, a constant of the kernel. `below`: more than its values. */
  | { readonly kind: 'name'; readonly name: string; readonly below?: number }
  | { readonly kind: IxOperator; readonly a: Ix; readonly b: Ix }

export type IxOperator = 'add' | 'sub' | 'mul' | 'div' | 'mod' | 'min' | 'max'

export const constant = (value: number): Ix => ({ kind: 'const', value })
export const name = (text: string, below?: number): Ix => ({
  kind: 'name',
  name: text,
  ...(below !== undefined && { below }),
})
const lift = (x: Ix | number | string): Ix =>
  typeof x === 'number' ? constant(x) : typeof x === 'string' ? name(x) : x

const FOLD: Readonly<Record<IxOperator, (a: number, b: number) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => Math.floor(a / b),
  mod: (a, b) => a % b,
  min: Math.min,
  max: Math.max,
}

/** What `x op identity` is `x` for, from the right (and from the left where the operator commutes). */
const IDENTITY: Partial<Readonly<Record<IxOperator, number>>> = { add: 0, sub: 0, mul: 1, div: 1, max: 0 }
const COMMUTES: ReadonlySet<IxOperator> = new Set(['add', 'mul', 'max'])

function make(kind: IxOperator, left: Ix | number | string, right: Ix | number | string): Ix {
  const [a, b] = [lift(left), lift(right)]
  if (a.kind === 'const' && b.kind === 'const') return constant(FOLD[kind](a.value, b.value))
  if (b.kind === 'const' && b.value === IDENTITY[kind]) return a
  if (a.kind === 'const' && COMMUTES.has(kind) && a.value === IDENTITY[kind]) return b
  if (kind === 'mul' && [a, b].some((x) => x.kind === 'const' && x.value === 0)) return constant(0)
  if (b.kind === 'const' && (kind === 'div' || kind === 'mod'))
    return kind === 'div' ? quotient(a, b.value) : remainder(a, b.value)
  return { kind, a, b }
}

/** x / a / b is x / (a * b), and x % (a * b) / a is x / a % b. */
function quotient(x: Ix, by: number): Ix {
  if (below(x) <= by) return constant(0)
  if (x.kind === 'div' && x.b.kind === 'const') return make('div', x.a, x.b.value * by)
  if (x.kind === 'mod' && x.b.kind === 'const' && x.b.value % by === 0)
    return make('mod', make('div', x.a, by), x.b.value / by)
  return { kind: 'div', a: x, b: constant(by) }
}

/** What is smaller stays as it is; x % (a * b) / a % b is x / a % b. */
function remainder(x: Ix, by: number): Ix {
  if (below(x) <= by) return x
  const divisor = x.kind === 'div' && x.b.kind === 'const' ? x.b.value : 1
  const inner = x.kind === 'div' && x.b.kind === 'const' ? x.a : x
  if (inner.kind === 'mod' && inner.b.kind === 'const' && inner.b.value % (divisor * by) === 0)
    return make('mod', make('div', inner.a, divisor), by)
  return { kind: 'mod', a: x, b: constant(by) }
}

/** A bound that its values stay below. */
function below(x: Ix): number {
  if (x.kind === 'const') return x.value + 1
  if (x.kind === 'name') return x.below ?? Infinity
  if (x.kind === 'mod' && x.b.kind === 'const') return Math.min(below(x.a), x.b.value)
  if (x.kind === 'div' && x.b.kind === 'const') return Math.ceil(below(x.a) / x.b.value)
  return Infinity
}

type Binary = (a: Ix | number | string, b: Ix | number | string) => Ix
export const add: Binary = (a, b) => make('add', a, b)
export const sub: Binary = (a, b) => make('sub', a, b)
export const mul: Binary = (a, b) => make('mul', a, b)
export const div: Binary = (a, b) => make('div', a, b)
export const mod: Binary = (a, b) => make('mod', a, b)
export const min: Binary = (a, b) => make('min', a, b)
export const max: Binary = (a, b) => make('max', a, b)
/** Tiles of `size` that cover `extent`. */
export const ceilDiv = (extent: Ix | number | string, size: Ix | number | string): Ix =>
  div(sub(add(extent, size), 1), size)
export const sum = (terms: readonly (Ix | number | string)[]): Ix =>
  terms.reduce<Ix>((total, term) => add(total, term), constant(0))

const INFIX: Partial<Readonly<Record<IxOperator, readonly [string, number]>>> = {
  add: ['+', 1],
  sub: ['-', 1],
  mul: ['*', 2],
  div: ['/', 2],
  mod: ['%', 2],
}

/** C spelling, with the parentheses it needs. */
export const printIx = (ix: Ix): string => print(ix, 0)

function print(ix: Ix, outer: number): string {
  if (ix.kind === 'const') return String(ix.value)
  if (ix.kind === 'name') return ix.name
  const infix = INFIX[ix.kind]
  if (!infix) return `${ix.kind}(${print(ix.a, 0)}, ${print(ix.b, 0)})`
  const [operator, precedence] = infix
  const text = `${print(ix.a, precedence)} ${operator} ${print(ix.b, precedence + 1)}`
  return precedence < outer ? `(${text})` : text
}

/** Its value, given those of its names. Tests and the verifier use it. */
export function evaluateIx(ix: Ix, names: (name: string) => number): number {
  if (ix.kind === 'const') return ix.value
  if (ix.kind === 'name') return names(ix.name)
  return FOLD[ix.kind](evaluateIx(ix.a, names), evaluateIx(ix.b, names))
}
