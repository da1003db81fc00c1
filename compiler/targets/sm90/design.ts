/** Designs of SM90: what a schedule may say, and the consistent combinations. */
import { countEntry, wordEntry, type ValuesOf } from '../../schedule.ts'
import { CLUSTER, OPERANDS, OVERLAP, PARTS, REASSOCIATE, SHARE, STAGES, tileEntry } from '../tensor_core/schedule.ts'

export interface Sm90Design {
  readonly kind: 'sm90'
  /** `cooperative`: two warpgroups share a tile, three of them one of 192 rows; `pingpong`: each has its own, and one's epilogue runs under the other's MMAs. */
  readonly consumers: 'cooperative' | 'pingpong'
  /** Of a CTA (cooperative) or of a warpgroup (pingpong): m x n x k; k is the 128-byte swizzle span. */
  readonly tile: readonly [number, number, number]
  /** CTAs that run together: along m, along n, and over parts of k whose sums meet in shared memory. */
  readonly cluster: readonly [number, number, number]
  /** Parts of k that are work items of their own and meet in global memory; each is again shared by the CTAs of a cluster. */
  readonly parts: number
  /** Tiles that share work items; absent: 1. */
  readonly share?: number
  /** `ba`: computes the transpose, so that few rows become few columns of the MMA. */
  readonly operands: 'ab' | 'ba'
  /** `auto`: as many as shared memory holds. */
  readonly stages: number | 'auto'
  /** Tiles share a sector of the columns; absent: none. */
  readonly overlap?: true
}

/** CTAs of a cluster that any SM90 device runs. */
const PORTABLE = 8

/** Tiles are few where k is split: warpgroups have no turns to take. */
export const splitFits = ({ consumers, cluster: [m, n, splits] }: Pick<Sm90Design, 'consumers' | 'cluster'>): boolean =>
  splits === 1 || (consumers === 'cooperative' && m * n * splits <= PORTABLE)

/** Warpgroups that take turns know their tiles by number. */
const shareFits = (consumers: Sm90Design['consumers'], parts: number, share: number): boolean =>
  share === 1 || (parts > 1 && consumers === 'cooperative')

/** CTAs that share the k of a tile; more than 1 need `reassociate`. */
const SPLITS = countEntry('splits 1', [1, 2, 4, 8], 'the CTAs of a cluster share k')

export const SM90_ENTRIES = {
  consumers: wordEntry('consumers cooperative', 'cooperative', 'pingpong'),
  tile: tileEntry([64, 128, 192, 256], true),
  cluster: CLUSTER,
  splits: SPLITS,
  parts: PARTS,
  share: SHARE,
  operands: OPERANDS,
  stages: STAGES,
  overlap: OVERLAP,
  reassociate: REASSOCIATE,
}

/** Why a schedule may have no design. */
export const SM90_INCONSISTENT =
  '`splits` of more than 1 need `reassociate`, `consumers cooperative` and at most 8 CTAs of a cluster; `parts` of more than 1 `reassociate`; `share` of more than 1 `parts` and `consumers cooperative`'

/** Tiles considered when the schedule names none. */
const DEFAULT_TILES: readonly (readonly [number, number])[] = [
  [128, 256],
  [128, 192],
  [128, 128],
  [256, 128],
  [192, 128],
  [192, 64],
  [128, 64],
  [64, 256],
  [64, 128],
  [64, 64],
  [64, 32],
  [128, 32],
]

/** And clusters. */
const DEFAULT_CLUSTERS: readonly (readonly [number, number])[] = [
  [1, 1],
  [2, 1],
  [1, 2],
]

/** Every consistent combination of a schedule's alternatives. Without `reassociate` sums over k are in one order. */
export function* sm90Designs(
  schedule: ValuesOf<typeof SM90_ENTRIES> | null,
  elementBytes: number,
): Generator<Sm90Design> {
  const tileK = 128 / elementBytes
  for (const consumers of schedule?.consumers ?? (['cooperative', 'pingpong'] as const)) {
    for (const [m, n] of schedule?.tile ?? DEFAULT_TILES) {
      for (const [clusterM, clusterN] of schedule?.cluster ?? DEFAULT_CLUSTERS) {
        for (const splits of schedule?.splits ?? (schedule?.reassociate ? [1, 2, 4] : [1])) {
          const cluster = [clusterM, clusterN, splits] as const
          if (!splitFits({ consumers, cluster }) || (splits > 1 && !schedule?.reassociate)) continue
          for (const operands of schedule?.operands ?? (['ab'] as const))
            for (const stages of schedule?.stages ?? (['auto'] as const))
              for (const parts of schedule?.parts ?? [1])
                for (const share of schedule?.share ?? [1])
                  if ((parts === 1 || schedule?.reassociate) && shareFits(consumers, parts, share))
                    yield {
                      kind: 'sm90', consumers, tile: [m, n, tileK], cluster, parts, operands, stages,
                      ...(share > 1 && { share }),
                      ...(schedule?.overlap && { overlap: true }),
                    } // prettier-ignore
        }
      }
    }
  }
}
