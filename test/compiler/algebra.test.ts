/** What entries of the operation table say of order, combinations and errors holds of random numbers, and they say all that holds. */
import { describe, expect, test } from 'vitest'
import {
  BINARY_OPERATIONS,
  OPERATIONS,
  turnsInto,
  UNARY_OPERATIONS,
  type Combine,
  type Operation,
} from '../../compiler/ops.ts'
import { FUNCTION_NAMES } from '../../grammar/vocabulary.ts'

const COMBINES: Readonly<Record<Combine, (x: number, y: number) => number>> = {
  add: (x, y) => x + y,
  mul: (x, y) => x * y,
  min: Math.min,
  max: Math.max,
}
const NAMES = Object.keys(COMBINES) as Combine[]
const SAMPLES = 4000

/** Seeded: of either sign, some whole, some equal. */
function numbers(seed: number): () => number {
  let state = seed
  const next = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
  return () => (next() < 0.2 ? Math.round(next() * 8 - 4) : next() * 8 - 4) + 0
}

/** Is parameter i of bool, given random arguments? */
const isBool = ({ rule }: Operation, i: number): boolean => rule === 'logic' || (rule === 'select' && i === 0)

const drawn = (op: Operation, random: () => number): number[] =>
  op.parameters.map((_, i) => (isBool(op, i) ? +(random() > 0) : random()))
const at = (op: Operation, args: readonly number[], i: number, x: number): number =>
  op.evaluate(op.rule === 'logic' ? 'bool' : 'f64', ...args.with(i, x))

/** Equal but for rounding, which differences of `parts` magnify. */
const close = (one: number, other: number, parts: readonly number[]): boolean =>
  one === other || Math.abs(one - other) <= 1e-9 * Math.max(1e-3, ...[one, other, ...parts].map(Math.abs))

function observedDirection(op: Operation, i: number): 'increasing' | 'decreasing' | null {
  const random = numbers(i + 1)
  let [rises, falls] = [false, false]
  for (let n = 0; n < SAMPLES; n++) {
    const args = drawn(op, random)
    const [low, high] = [args[i]!, isBool(op, i) ? 1 : random()].sort((x, y) => x - y) as [number, number]
    const change = at(op, args, i, high) - at(op, args, i, low)
    if (change > 1e-12) rises = true
    if (change < -1e-12) falls = true
  }
  return rises === falls ? null : rises ? 'increasing' : 'decreasing'
}

function holds(op: Operation, i: number, from: Combine, into: Combine): boolean {
  const random = numbers(i + 7)
  let checked = 0
  for (let n = 0; n < SAMPLES; n++) {
    const args = drawn(op, random)
    const [x, y] = [args[i]!, random()]
    const parts = [at(op, args, i, x), at(op, args, i, y)] as const
    const whole = at(op, args, i, COMBINES[from](x, y))
    const made = COMBINES[into](...parts)
    // Not defined there, or without end.
    if (![...parts, whole, made].every(Number.isFinite)) continue
    checked++
    if (!close(whole, made, parts)) return false
  }
  return checked > SAMPLES / 10
}

test('the table has the names of the language, and no others', () => {
  // `/` and `%` between index values have operations of their own.
  const infix = [...Object.values(BINARY_OPERATIONS), 'floordiv', 'floormod']
  const names = [...FUNCTION_NAMES, ...infix, ...Object.values(UNARY_OPERATIONS)]
  expect([...OPERATIONS.keys()].sort()).toEqual([...new Set(names)].sort())
})

describe.each([...OPERATIONS.values()])('$name', (op) => {
  test('every entry is complete', () => {
    expect(op.doc).toMatch(/\.$/)
    expect(op.monotone).toHaveLength(op.parameters.length)
    expect(['instruction', 'function']).toContain(op.cost)
    if (op.name !== 'skip0') expect(Object.keys(op.cuda).length).toBeGreaterThan(0)
    for (const { argument, from } of op.turns ?? []) {
      expect(argument).toBeLessThan(op.parameters.length)
      // Those of min and max follow from `monotone`.
      expect(['add', 'mul']).toContain(from)
    }
  })

  test.each(op.parameters.map(({ name }, i) => [name, i] as const))(
    'rises and falls with %s as its entry says',
    (_, i) => {
      expect(op.monotone[i]).toBe(observedDirection(op, i))
    },
  )

  test.each(
    op.parameters.flatMap(({ name }, i) => (isBool(op, i) || op.rule === 'compare' ? [] : [[name, i] as const])),
  )('makes of combinations of %s what its entry says, and of others nothing', (_, i) => {
    const said = NAMES.flatMap((from) => { const into = turnsInto(op, i, from); return into ? [`${from} -> ${into}`] : [] }) // prettier-ignore
    const seen = NAMES.flatMap((from) =>
      NAMES.filter((into) => holds(op, i, from, into)).map((into) => `${from} -> ${into}`),
    )
    expect(seen).toEqual(said)
  })

  const { monoid, carries } = op
  if (monoid)
    test('combines in any order, with an identity and, where it has one, an inverse', () => {
      const random = numbers(3)
      const type = op.rule === 'logic' ? 'bool' : 'f64'
      const f = (x: number, y: number): number => op.evaluate(type, x, y)
      for (let n = 0; n < SAMPLES; n++) {
        const [x, y] = drawn(op, random) as [number, number]
        const z = isBool(op, 0) ? +(random() > 0) : random()
        expect(f(x, y)).toBe(f(y, x))
        expect(close(f(f(x, y), z), f(x, f(y, z)), [x, y, z])).toBe(true)
        expect(f(x, monoid.identity)).toBe(x)
        if (monoid.inverse === null || y === 0) continue
        expect(close(OPERATIONS.get(monoid.inverse)!.evaluate('f64', f(x, y), y), x, [x, y])).toBe(true)
      }
    })

  if (carries)
    test('carries relative errors as its entry says', () => {
      const random = numbers(5)
      for (let n = 0; n < SAMPLES; n++) {
        const args = drawn(op, random)
        const errors = args.map((_, i) => (i < carries.first ? 0 : random() * 2 ** -20))
        const exact = op.evaluate('f64', ...args)
        const off = op.evaluate('f64', ...args.map((x, i) => x * (1 + errors[i]!)))
        const sizes = errors.map(Math.abs)
        const allowed = carries.combine === 'sum' ? sizes.reduce((x, y) => x + y, 0) : Math.max(...sizes)
        // The second order of a product of errors.
        expect(Math.abs(off - exact)).toBeLessThanOrEqual(1.001 * allowed * Math.abs(exact) + 1e-15)
      }
    })
})
