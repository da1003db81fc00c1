/** What measured times teach beside the cost models: the regression finds what was there, and what was learned only orders kernels that the models take for about equal. */
import { Matrix } from 'ml-matrix'
import { afterAll, expect, test } from 'vitest'
import { forward } from '../../bench/fit/forward.ts'
import { onPaper } from '../../runtime/bench/suite/open.ts'
import { machineFor, machineOf, type Chip, type Machine } from '../../runtime/discovery/ranking/machine.ts'
import { GemmArguments, getKernels, KtlKernel, openDevice } from '../../runtime/index.ts'
import { correction } from '../../runtime/targets/learned/correction.ts'
import { featuresOf, type FeaturedPlan } from '../../runtime/targets/learned/features.ts'
import { H200 } from '../../runtime/targets/learned/h200.ts'
import type { Learned } from '../../runtime/targets/learned/learned.ts'
import { estimateSm80 } from '../../runtime/targets/sm80.ts'
import { estimateSm90 } from '../../runtime/targets/sm90.ts'

const device = await openDevice('virtual-sm90')
afterAll(() => device.close())

/** Numbers from -1 to 1 that are the same in every run. */
function* numbers(): Generator<number> {
  for (let state = 1; ; state = (state * 48271) % 2147483647) yield (2 * state) / 2147483647 - 1
}

test('few columns of many are found, those that say most first', () => {
  const source = numbers()
  const next = (): number => source.next().value as number
  const rows = Array.from({ length: 4000 }, () => Array.from({ length: 40 }, next))
  const y = rows.map((row) => 0.5 + 3 * row[7]! - 2 * row[21]! + row[30]! + 0.1 * next())
  const { constant, terms } = forward(new Matrix(rows), y, rows.map(() => 1), 3) // prettier-ignore
  expect(terms.map(({ column }) => column)).toEqual([7, 21, 30])
  for (const [i, truth] of [3, -2, 1].entries()) expect(Math.abs(terms[i]!.weight - truth)).toBeLessThan(0.1)
  expect(constant).toBeCloseTo(0.5, 1)
})

test('rows without weight do not count, and columns that say nothing have small weights', () => {
  const source = numbers()
  const rows = Array.from({ length: 500 }, () => Array.from({ length: 5 }, () => source.next().value as number))
  const y = rows.map((row, i) => (i % 2 ? 2 * row[1]! : 100 * row[3]!))
  const { terms } = forward(new Matrix(rows), y, rows.map((_, i) => i % 2), 5) // prettier-ignore
  expect(terms[0]!.column).toBe(1)
  expect(terms).toHaveLength(5)
  for (const { weight } of terms.slice(1)) expect(Math.abs(weight)).toBeLessThan(0.1)
})

const LEARNED: Learned = {
  features: { m: [0, 10, 5, 2], n: [2, 4, 3, 1] },
  constant: 0.01,
  terms: [
    [0.02, 'm'],
    [-0.01, 'm', 'n'],
  ],
}

test.each([
  ['at the means', { m: 5, n: 3 }, 0.01],
  ['elsewhere', { m: 7, n: 4 }, 0.01 + 0.02 - 0.01],
  ['beyond what was measured', { m: 1000, n: 100 }, 0.01 + 0.02 * 2.5 - 0.01 * 2.5],
])('%s, modelled times are divided by what they are too long', (_, features, tooLong) => {
  expect(Math.log(correction('sm90', features, LEARNED))).toBeCloseTo(-tooLong, 12)
})

test('no time moves by more than a sixth, and those of other classes do not', () => {
  const much = { ...LEARNED, constant: 3 }
  expect(correction('sm90', { m: 5, n: 3 }, much)).toBeCloseTo(Math.exp(-0.15), 12)
  expect(correction('sm90', { m: 5, n: 3 }, { ...much, constant: -3 })).toBeCloseTo(Math.exp(0.15), 12)
  expect(correction('sm90', null, much)).toBe(1)
})

const SIZES = [
  [4096, 4096, 1024],
  [65, 5768, 708],
  [9312, 416, 88],
  [3, 9388, 9619],
] as const

async function kernelsOf(dtype: 'bf16' | 'f32', [m, n, k]: readonly [number, number, number]) {
  const paper = onPaper(device)
  const [A, B, out] = [await paper(dtype, [m, k], [k, 1], 'A'), await paper(dtype, [k, n], [n, 1], 'B'), await paper(dtype, [m, n], [n, 1], null)]
  const args = new GemmArguments({ A, B, out })
  const found = [...getKernels(args, { limit: 400 })].filter((kernel): kernel is KtlKernel => kernel instanceof KtlKernel)
  return found.map((kernel) => ({ plan: kernel.plan, extents: kernel.call(args).extents }))
} // prettier-ignore

const timeOf = (plan: KtlKernel['plan'], extents: Readonly<Record<string, number>>, machine: Machine): number =>
  plan.kind === 'sm90'
    ? estimateSm90(plan, extents, machine).microseconds
    : plan.kind === 'sm80'
      ? estimateSm80(plan, extents, machine).microseconds
      : NaN

test.each(SIZES)('%d x %d x %d: all that was learned is known of every kernel, and moves times', async (...size) => {
  const machine = machineFor('sm_90a')
  let moved = 0
  for (const { plan, extents } of await kernelsOf('bf16', size)) {
    if (plan.kind !== 'sm90' && plan.kind !== 'sm80') continue
    const features = featuresOf(plan as FeaturedPlan, extents, machine)!
    for (const name of Object.keys(H200[plan.kind].features)) expect(Number.isFinite(features[name]), name).toBe(true)
    const ratio = timeOf(plan, extents, machine) / timeOf(plan, extents, { ...machine, taught: false })
    expect(Math.abs(Math.log(ratio))).toBeLessThan(0.1501)
    moved += +(ratio !== 1)
  }
  expect(moved).toBeGreaterThan(20)
})

test('products of f32 are as the models have them', async () => {
  const machine = machineFor('sm_90a')
  for (const { plan, extents } of await kernelsOf('f32', [512, 512, 512]))
    if (plan.kind === 'sm90' || plan.kind === 'sm80')
      expect(timeOf(plan, extents, machine)).toBe(timeOf(plan, extents, { ...machine, taught: false }))
})

test('it holds for the chip that was measured, whose drivers say a little less, and for no other', () => {
  const chip: Chip = { smCount: 132, l2Bytes: 60 << 20, clockKHz: 1_980_000, memoryClockKHz: 3_201_000, memoryBusBits: 6016, clusters: [66, 30, 15] } // prettier-ignore
  expect(machineOf('sm_90a', chip).taught).toBe(true)
  expect(machineOf('sm_90a', { ...chip, memoryClockKHz: 2_619_000, memoryBusBits: 5120 }).taught).toBe(false)
  expect(machineOf('sm_90a', { ...chip, smCount: 114 }).taught).toBe(false)
  expect([machineFor('sm_100a'), machineFor('sm_80')].map(({ taught = false }) => taught)).toEqual([false, false])
})
