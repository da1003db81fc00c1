/** What measured times have taught of a kind of kernels: products of features, and how these are spread in the data. */

/** Of one feature in the data: least, greatest, mean and standard deviation. */
export type Spread = readonly [least: number, greatest: number, mean: number, deviation: number]

export interface Learned {
  /** Those that occur in `terms`. */
  readonly features: Readonly<Record<string, Spread>>
  readonly constant: number
  /** Of features less their means, over their deviations. */
  readonly terms: readonly (readonly [weight: number, first: string, second?: string])[]
}

export type LearnedKind = 'sm80' | 'sm90'
