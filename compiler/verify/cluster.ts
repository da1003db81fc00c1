/** Which CTAs of a cluster share what, as the kernel works it out from where they lie in their unit. */
import type { ClusterPlan } from '../targets/tensor_core/cluster.ts'

export interface ClusterMap {
  readonly size: number
  readonly preferred: boolean
  /** CTAs, by rank, that need the same rows of A; the same columns of B; whose loads the MMAs of a CTA read. */
  readonly rows: readonly (readonly number[])[]
  readonly columns: readonly (readonly number[])[]
  readonly producers: readonly (readonly number[])[]
  /** That have the same tile: each another part of its k. */
  readonly sums: readonly (readonly number[])[]
}

/** Of the preferred clusters, and of those that stand in for them. */
export function clusterMaps(plan: ClusterPlan): ClusterMap[] {
  const { fallback, size } = plan
  return [clusterMap(plan, size, true), ...(fallback ? [clusterMap(plan, fallback[0] * fallback[1], false)] : [])]
}

function clusterMap(plan: ClusterPlan, size: number, preferred: boolean): ClusterMap {
  const { shape, fallback, pair } = plan
  const [across, down] = ((): [(place: number) => number, (place: number) => number] => {
    if (fallback === null) return [(p) => p % shape[0], (p) => Math.floor(p / shape[0]) % shape[1]]
    const count = fallback[0] * fallback[1]
    const perRow = shape[0] / fallback[0]
    return [
      (p) => (Math.floor(p / count) % perRow) * fallback[0] + ((p % count) % fallback[0]),
      (p) => Math.floor(Math.floor(p / count) / perRow) * fallback[1] + Math.floor((p % count) / fallback[0]),
    ]
  })()
  const ranks = Array.from({ length: size }, (_, rank) => rank)
  const sharing = (alike: (mine: number, other: number) => boolean): number[][] =>
    ranks.map((mine) => ranks.filter((other) => alike(mine, other)))
  const columns = (mine: number, other: number): boolean => down(mine) === down(other)
  const split = (rank: number): number => Math.floor(rank / (shape[0] * shape[1]))
  const depth = (mine: number, other: number): boolean => split(mine) === split(other)
  const row = (rank: number): number => Math.floor(across(rank) / pair)
  return {
    size,
    preferred,
    rows: sharing((mine, other) => depth(mine, other) && across(mine) === across(other)),
    columns: sharing((mine, other) => depth(mine, other) && columns(mine, other) && mine % pair === other % pair),
    producers: sharing((mine, other) => depth(mine, other) && (columns(mine, other) || row(mine) === row(other))),
    sums: sharing((mine, other) => across(mine) === across(other) && columns(mine, other)),
  }
}
