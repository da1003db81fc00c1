/** Designs of SM100: what a schedule may say, and the consistent combinations. */
import type { Entry, ValuesOf } from '../../schedule.ts'
import { wordEntry } from '../../schedule.ts'
import { CLUSTER, OPERANDS, OVERLAP, PARTS, REASSOCIATE, SHARE, STAGES, tileEntry } from '../tensor_core/schedule.ts'

export interface Sm100Design {
  readonly kind: 'sm100'
  readonly use2ctaMma: boolean
  /** MMA tile m x n x k; k is the 128-byte swizzle span. */
  readonly tile: readonly [number, number, number]
  /** CTAs that run together, along m and along n. */
  readonly cluster: readonly [number, number, number]
  /** Where the preferred cluster does not fit (in what is left of a GPC), clusters of this shape run instead. */
  readonly fallbackCluster: readonly [number, number, number] | null
  readonly scheduler: 'static' | 'clc'
  /** Parts of k that are work items of their own and meet in global memory. */
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

const MMA: Entry<1 | 2> = {
  example: 'mma 1cta',
  read: (value) => {
    if (value.kind !== 'cta') return { form: '`1cta` or `2cta`' }
    const { count } = value
    return count === 1 || count === 2
      ? { value: count }
      : { why: 'an MMA spans one or two CTAs', legal: ['1cta', '2cta'] }
  },
}

/** Clusters that run where the preferred one does not fit; 'none': the preferred cluster or nothing. */
const FALLBACK: Entry<'none' | readonly [number, number]> = {
  example: 'fallback 2x1',
  read: (value) => {
    if (value.kind === 'word' && value.text === 'none') return { value: 'none' }
    return value.kind === 'shape' ? CLUSTER.read(value) : { form: '`none` or a shape such as `2x1`', words: ['none'] }
  },
}

export const SM100_ENTRIES = {
  mma: MMA,
  tile: tileEntry([64, 128, 256], true),
  cluster: CLUSTER,
  fallback: FALLBACK,
  scheduler: wordEntry('scheduler static', 'static', 'clc'),
  parts: PARTS,
  share: SHARE,
  operands: OPERANDS,
  stages: STAGES,
  overlap: OVERLAP,
  reassociate: REASSOCIATE,
}

/** Why a schedule may have no design. */
export const SM100_INCONSISTENT =
  'tiles of 256 rows need `mma 2cta`, tiles of 64 rows `mma 1cta`, `2cta` an even number of cluster rows, and a' +
  ' fallback cluster divides a larger cluster evenly; `parts` of more than 1 need `reassociate`;' +
  ' `share` of more than 1 `parts`, `scheduler static` and no fallback'

/** Tiles considered when the schedule names none. */
const DEFAULT_TILES: readonly (readonly [number, number])[] = [64, 128].flatMap((m) =>
  [32, 64, 96, 128, 160, 192, 224, 256].map((n) => [m, n] as const),
)

/** Every consistent combination of a schedule's alternatives. Without `reassociate` sums over k are in one order. */
export function* sm100Designs(
  schedule: ValuesOf<typeof SM100_ENTRIES> | null,
  elementBytes: number,
): Generator<Sm100Design> {
  const tileK = 128 / elementBytes
  for (const mma of schedule?.mma ?? [null]) {
    for (const [m, n] of schedule?.tile ?? DEFAULT_TILES) {
      const use2ctaMma = mma === 2 || (mma === null && m === 256)
      if (use2ctaMma ? m === 64 : m === 256) continue
      const pair = use2ctaMma ? 2 : 1
      for (const cluster of schedule?.cluster ?? [[pair, 1] as const]) {
        if (cluster[0] % pair !== 0) continue
        for (const fallback of schedule?.fallback ?? (['none'] as const)) {
          if (fallback !== 'none' && (fallback[0] % pair !== 0 || !dividesEvenly(fallback, cluster))) continue
          const fallbackCluster = fallback === 'none' ? null : ([...fallback, 1] as const)
          for (const scheduler of schedule?.scheduler ?? (['static'] as const))
            for (const operands of schedule?.operands ?? (['ab'] as const))
              for (const stages of schedule?.stages ?? (['auto'] as const))
                for (const parts of schedule?.parts ?? [1])
                  for (const share of schedule?.share ?? [1])
                    if (
                      (parts === 1 || schedule?.reassociate) &&
                      (share === 1 || (parts > 1 && scheduler === 'static' && fallbackCluster === null))
                    )
                      yield {
                        kind: 'sm100',
                        use2ctaMma,
                        tile: [m, n, tileK],
                        cluster: [...cluster, 1],
                        fallbackCluster,
                        scheduler,
                        parts,
                        ...(share > 1 && { share }),
                        operands,
                        stages,
                        ...(schedule?.overlap && { overlap: true }),
                      }
        }
      }
    }
  }
}

/** Into several equal parts. */
const dividesEvenly = ([m, n]: readonly [number, number], [wholeM, wholeN]: readonly [number, number]): boolean =>
  wholeM % m === 0 && wholeN % n === 0 && wholeM * wholeN > m * n
