/** Of repeated measurements: medians and intervals, never means (a single interruption would show in them). */

export function median(values: readonly number[]): number {
  if (values.length === 0) return NaN
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

export function geomean(values: readonly number[]): number {
  return values.length === 0 ? NaN : Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length)
}

/** The value that `share` of them do not exceed: the nearest one. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.round(share * (sorted.length - 1))] ?? NaN
}

export interface Summary {
  /** Of the medians of the rounds. */
  readonly median: number
  /** Least and greatest median of a round: what to expect when the same is measured again. */
  readonly low: number
  readonly high: number
  readonly rounds: number
}

/** One list of samples for each round. */
export function summarize(rounds: readonly (readonly number[])[]): Summary {
  const medians = rounds.filter((samples) => samples.length > 0).map(median)
  return { median: median(medians), low: Math.min(...medians), high: Math.max(...medians), rounds: medians.length }
}
