/** The first rows of the full covering test, and the machinery that chooses them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { coveringRows } from './covering.ts'
import { DEFAULT_SEED, Devices, fullRows } from './covering_run.ts'
import { toCase } from './case.ts'
import { parseRow, rowText, type FullRow } from './knobs.ts'
import { SAMPLED_TARGETS, sampleInstances } from './ptxas.ts'
import { runRow } from './run_row.ts'

const ROWS = 12

let covering: ReturnType<typeof fullRows>
const devices = new Devices()
beforeAll(() => {
  covering = fullRows(DEFAULT_SEED)
})
afterAll(() => devices.close())

describe('covering rows', () => {
  const factors = { a: [1, 2, 3], b: ['x', 'y', 'z'], c: [true, false].map(String), d: ['p', 'q'] } as const
  const possible = ({ a, b }: { readonly a?: number; readonly b?: string }): boolean => !(a === 1 && b === 'y')
  const legal = ({ a, d }: { readonly a: number; readonly d: string }): boolean => !(a === 3 && d === 'q')
  const { rows, covered, impossible } = coveringRows(factors, { seed: 5, possible, legal })

  test('meet the constraints', () => {
    expect(rows.filter((row) => !possible(row) || !legal(row))).toEqual([])
  })
  test('cover every pair that some legal row has', () => {
    const pairs = new Set(
      rows.flatMap((row) => Object.entries(row).flatMap((x) => Object.entries(row).map((y) => `${x} ${y}`))),
    )
    for (const a of factors.a) {
      for (const b of factors.b) expect(pairs.has(`a,${a} b,${b}`), `${a} ${b}`).toBe(possible({ a, b }))
      for (const d of factors.d) expect(pairs.has(`a,${a} d,${d}`), `${a} ${d}`).toBe(legal({ a, d }))
    }
    expect([covered, impossible]).toEqual([9 + 6 + 6 + 6 + 6 + 4 - 2, 1])
  })
})

test('the rows of the space are at least 400, each legal, each printed and read back', () => {
  expect(covering.rows.length).toBeGreaterThanOrEqual(400)
  expect(new Set(covering.rows.map(rowText)).size).toBe(covering.rows.length)
  for (const row of covering.rows) expect(parseRow(rowText(row))).toEqual(row)
})

test('few pairs of knob values are in no instance', () => {
  expect(covering.impossible / (covering.covered + covering.impossible)).toBeLessThan(0.1)
})

test('instances are drawn with a seed, none twice', () => {
  const draw = (seed: number): string[] => {
    const names: string[] = []
    for (const { name } of sampleInstances(seed)) if (names.push(name) === 20) break
    return names
  }
  const drawn = draw(3)
  expect(draw(3)).toEqual(drawn)
  expect(draw(4)).not.toEqual(drawn)
  expect(new Set(drawn).size).toBe(20)
  expect(drawn.filter((name) => name.includes('.scale')).length).toBeGreaterThan(2)
})

test.each(SAMPLED_TARGETS)('the pipeline programs of instances of %s are well formed', (target) => {
  let count = 60
  for (const { name, problems } of sampleInstances(1, target)) {
    expect(problems, name).toEqual([])
    if (--count === 0) break
  }
})

describe('on the virtual SM100, in every order', () => {
  test.each(Array.from({ length: ROWS }, (_, i) => i))('row %i of the sample', async (i) => {
    const row = spread(covering.rows, i)
    const { status, kernelName, text } = await runRow(await devices.of(row), row)
    expect(status, `${kernelName}: ${text}\n--row "${rowText(row)}"`).toBe('passed')
  })
})

/** One of the quicker rows of each part of the list. */
function spread(rows: readonly FullRow[], i: number): FullRow {
  const part = rows.slice(Math.floor((i * rows.length) / ROWS), Math.floor(((i + 1) * rows.length) / ROWS))
  const macs = (row: FullRow): number => Object.values(toCase(row).device.extents).reduce((a, b) => a * b, 1)
  return [...part].sort((a, b) => macs(a) - macs(b))[Math.floor(part.length / 4)]!
}
