/** A few random kernels for each tensor-core backend; `npm run test:full -- --fuzz 500` runs more. */
import { expect, test } from 'vitest'
import { fuzz } from './fuzz.ts'
import { SAMPLED_TARGETS } from './ptxas.ts'

test.each(SAMPLED_TARGETS)('random kernels of %s under random schedules are right', { timeout: 120_000 }, async (target) => {
  const count = 8
  let kernels = 0
  await fuzz(count, { seed: 5, target, done: (done) => (kernels = done) })
  expect(kernels).toBe(count)
}) // prettier-ignore
