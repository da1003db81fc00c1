/**
 * What the cost models of tensor cores leave out, as measured times have taught it: the logarithm of modelled over measured, beside what all kernels of a
 * problem have in common, as a sum of products of two features. It orders kernels that the models take for about equal, and no more: no time moves by more
 * than a sixth, and of features nothing is believed beyond what was measured. `bench/fit/learn.ts` makes `h200.ts`.
 */
import type { Features } from './features.ts'
import { H200 } from './h200.ts'
import type { Learned, LearnedKind, Spread } from './learned.ts'

/** Of a logarithm. */
const MOST = 0.15

/** Less the mean, over the deviation. */
export const standardized = ([least, greatest, mean, deviation]: Spread, value: number): number =>
  (Math.min(greatest, Math.max(least, value)) - mean) / deviation

/** What a modelled time is to be multiplied with. `learned`: default: what is in force. */
export function correction(kind: LearnedKind, features: Features | null, learned: Learned = H200[kind]): number {
  if (features === null) return 1
  const valueOf = (name: string): number => standardized(learned.features[name]!, features[name]!)
  const tooLong = learned.terms.reduce(
    (sum, [weight, first, second]) => sum + weight * valueOf(first) * (second === undefined ? 1 : valueOf(second)),
    learned.constant,
  )
  return Math.exp(-Math.min(MOST, Math.max(-MOST, tooLong)))
}
