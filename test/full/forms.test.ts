/** A few random kernels of all forms, and what random ones have shown to be wrong; `npm run test:full -- --forms 500` runs more. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDevice, type Device } from '../../runtime/index.ts'
import { describeFailure, runForm, runForms } from './forms.ts'

test('random kernels of all forms are right', { timeout: 180_000 }, async () => {
  const count = 16
  const { right, onTensorCores, refused, failures } = await runForms(count, { seed: 1 })
  expect(failures.map(describeFailure).join('\n')).toBe('')
  expect(right).toBeGreaterThanOrEqual(count - 3)
  expect(onTensorCores).toBeGreaterThanOrEqual(count / 8)
  expect(right + refused).toBe(count)
})

let device: Device
beforeAll(async () => void (device = await openDevice('virtual-sm90')))
afterAll(() => device.close())

const FOUND: Readonly<Record<string, readonly [source: string, extents: Readonly<Record<string, number>>]>> = {
  'elements of 6 bits in guarded memory': ['kernel f(X: e3m2[m]) -> Y: e2m3[m] { Y = X }', { m: 5 }],
  'groups that share bytes have rows of their own': [
    'kernel f(X: f16[r, g] ragged r upto counts as g, counts: i32[g]) -> Y: e2m1[r, g] { Y = X }',
    { r: 6, g: 5 },
  ],
  'blocks of a group that another axis says': [
    'kernel f(X: f16[u, k] ragged u by ends2 as g, Z: f16[k, t] ragged t by ends as g, ends: i32[g], ends2: i32[g]) -> Y: e4m3[u, t] * f32[u, t/4] { Y = sum[k](X * Z) }',
    { u: 9, t: 11, k: 3, g: 3 },
  ],
  'infinities in blocks': [
    'kernel f(X: f16[m, n]) -> Y: e4m3[m] * f32[m/2] { Y = logsumexp[n](select(n < m, exp(X), -inf)) }',
    { m: 6, n: 3 },
  ],
  'an optional axis that is not the first': [
    'kernel f(X: e4m3[m, l?] * f32[m/2, l?]) -> Y: e5m2[m, n, l?] * ue8m0[m/4, n, l?] { Y = X * f32(n) }',
    { m: 7, n: 3 },
  ],
  'factors that meet nowhere find nothing': [
    'kernel f(X: f16[v, k], id: i32[b], W: f16[b, m]) -> Y: f32[k, m] { Y = sum[b](X[id, k] * W) }',
    { v: 0, k: 3, b: 4, m: 0 },
  ],
}

test.each(Object.entries(FOUND))('%s', { timeout: 60_000 }, async (_, [source, extents]) => {
  expect(await runForm(device, { seed: 3, source, extents, scalars: {}, hostile: [] })).not.toBe('refused')
})
