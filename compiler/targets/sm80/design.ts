/** Designs of SM80: what a schedule may say, and the combinations. */
import type { TargetArch } from '../../archs.ts'
import { wordEntry, type Entry, type ValuesOf } from '../../schedule.ts'
import { OPERANDS, OVERLAP, PARTS, REASSOCIATE, SHARE, STAGES, tileEntry } from '../tensor_core/schedule.ts'

export interface Sm80Design {
  readonly kind: 'sm80'
  /** Of a CTA: m x n x k; k is 32, 64 or 128 bytes. */
  readonly tile: readonly [number, number, number]
  /**
   * Warps along m and n, each with its own part of the tile; `auto`: parts of at most 64 x 64, as square as they can be. Tiles that have less
   * than four parts have several warps to each, which share k.
   */
  readonly warps: readonly [number, number] | 'auto'
  /** `ba`: computes the transpose. */
  readonly operands: 'ab' | 'ba'
  /** `auto`: as many as shared memory holds. */
  readonly stages: number | 'auto'
  /** f32 is multiplied on tensor cores, in two parts of tf32 each; absent: by FFMAs. */
  readonly f32?: 'tf32x3'
  /** Parts of k that are work items of their own and meet in global memory; absent: a work item is a whole tile. */
  readonly parts?: number
  /** Tiles that share work items; absent: 1. */
  readonly share?: number
  /** Tiles share a sector of the columns; absent: none. */
  readonly overlap?: true
}

const FFMA_BYTES = 4

/** Bytes of k of a stage. */
const DEPTHS = [32, 64, 128]

const DEPTH: Entry<number> = {
  example: 'depth 128',
  read: (value) => {
    if (value.kind !== 'count') return { form: 'a number of bytes or `auto`' }
    return DEPTHS.includes(value.value)
      ? { value: value.value }
      : { why: 'a stage has 1, 2 or 4 steps of 32 bytes of k', legal: DEPTHS.map(String) }
  },
}

export const SM80_ENTRIES = {
  tile: tileEntry([16, 32, 48, 64, 128, 256]),
  depth: DEPTH,
  operands: OPERANDS,
  stages: STAGES,
  parts: PARTS,
  share: SHARE,
  overlap: OVERLAP,
  f32: wordEntry('f32 fma', 'fma', 'tf32x3'),
  reassociate: REASSOCIATE,
}

/** Tiles considered when the schedule names none. */
const DEFAULT_TILES: readonly (readonly [number, number])[] = [
  [128, 256],
  [256, 128],
  [128, 128],
  [128, 64],
  [64, 128],
  [64, 64],
  [64, 32],
  [64, 16],
  [16, 64],
  [32, 32],
  [16, 32],
  [16, 16],
]
/** Of tiles that have no part for each of four warps. */
const SMALL = 4 * 16 * 16

/** FFMAs of a thread in a stage: more are more than an SM's cache of instructions holds. */
const MOST_FFMAS = 1024
/** Of a CTA with so many results: warps are four, or eight where each would have more than 64 x 64. */
const threadsOf = (cells: number): number => (cells > 128 * 128 ? 256 : 128)

/**
 * Stages of 128 bytes of k have fewer barriers than those of 64. Large tiles take 64, so that enough stages fit, and two CTAs the
 * 164 KB of sm_80; not of f64, where 64 bytes are one step, and registers leave room for one CTA. Of FFMAs they have as many as are unrolled.
 */
function depthOf(cells: number, arch: TargetArch, isFfma: boolean): number {
  const widest = arch === 'sm_80' ? 128 * 64 : 128 * 128
  if (!isFfma) return cells > widest ? 64 : 128
  return DEPTHS.findLast((depth) => ((depth / FFMA_BYTES) * cells) / threadsOf(cells) <= MOST_FFMAS) ?? DEPTHS[0]!
}

export function* sm80Designs(
  schedule: ValuesOf<typeof SM80_ENTRIES> | null,
  arch: TargetArch,
  elementBytes: number,
  isF32: boolean,
): Generator<Sm80Design> {
  for (const [m, n] of schedule?.tile ?? DEFAULT_TILES) {
    if (m * n < SMALL && !schedule?.reassociate) continue
    for (const operands of schedule?.operands ?? (['ab'] as const))
      for (const stages of schedule?.stages ?? (['auto'] as const))
        for (const f32 of schedule?.f32 ?? (['fma'] as const)) {
          const own = depthOf(m * n, arch, isF32 && f32 === 'fma')
          for (const depth of elementBytes === 8 ? [128] : (schedule?.depth ?? [own]))
            for (const parts of schedule?.parts ?? [1]) {
              if (parts > 1 && !(schedule?.reassociate && m * n >= SMALL)) continue
              for (const share of schedule?.share ?? [1])
                if (share === 1 || parts > 1)
                  yield {
                    kind: 'sm80', tile: [m, n, depth / elementBytes], warps: 'auto', operands, stages,
                    // Of operands of other sizes it says nothing.
                    ...(f32 === 'tf32x3' && elementBytes === 4 && { f32 }),
                    ...(parts > 1 && { parts }),
                    ...(share > 1 && { share }),
                    ...(schedule?.overlap && { overlap: true }),
                  } // prettier-ignore
            }
        }
  }
}
