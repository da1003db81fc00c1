import { expect, test } from 'vitest'
import { workOf } from './work.ts'

const add = (sum: number, i: number): number => sum + i
const loop = (n: number): number => {
  let sum = 0
  for (let i = 0; i < n; i++) sum = add(sum, i)
  return sum
}

test('work is counted: twice the calls, twice the count, and the same each time, also once the engine has compiled it well', () => {
  for (let i = 0; i < 100; i++) loop(10_000)
  const [once, again, twice] = [10_000, 10_000, 20_000].map((n) => workOf(() => void loop(n))) as number[]
  expect([once! > 10_000, again]).toEqual([true, once])
  expect(twice! / once!).toBeCloseTo(2, 1)
})
