/**
 * How the CTAs of a cluster lie over the output, and what they share. A *unit* is the block of CTA tiles that the preferred
 * cluster covers; its CTAs are numbered so that any fallback cluster is a run of consecutive ones.
 */
import type { Sm100Design } from '../sm100/design.ts'

/** CTAs along m and n. */
export type ClusterShape = readonly [number, number]

export interface ClusterPlan {
  readonly shape: ClusterShape
  readonly fallback: ClusterShape | null
  /** CTAs of a cluster: those of `shape`, times `splits`. */
  readonly size: number
  /** CTAs that share the k of each tile, those of one part of k behind one another. */
  readonly splits: number
  /** CTAs of one MMA. */
  readonly pair: 1 | 2
}

/** A number that depends on which of the two shapes a cluster got. */
export interface PerCluster {
  readonly preferred: number
  /** Equal to `preferred` where there is no fallback. */
  readonly fallback: number
}

export const always = (count: number): PerCluster => ({ preferred: count, fallback: count })

/** `designsOf` yields legal clusters only: at most 16 CTAs, whole pairs, a fallback that divides the preferred one. */
export function planCluster({ cluster: [m, n], fallbackCluster, use2ctaMma }: Sm100Design): ClusterPlan {
  const fallback = fallbackCluster && ([fallbackCluster[0], fallbackCluster[1]] as const)
  return { shape: [m, n], fallback, size: m * n, splits: 1, pair: use2ctaMma ? 2 : 1 }
}

export function perCluster({ shape, fallback }: ClusterPlan, count: (shape: ClusterShape) => number): PerCluster {
  return { preferred: count(shape), fallback: count(fallback ?? shape) }
}

/** CTAs that issue MMAs and read what a CTA loads: those of its row, and those of its column. */
export const consumersOf = (cluster: ClusterPlan): PerCluster =>
  perCluster(cluster, ([m, n]) => n + m / cluster.pair - 1)
