/** Designs of SM80: what a schedule may say, and the combinations. */
import type { TargetArch } from '../../archs.ts'
import { wordEntry, type Entry, type ValuesOf } from '../../schedule.ts'
import { OPERANDS, PARTS, REASSOCIATE, STAGES, tileEntry } from '../tensor_core/schedule.ts'

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
  /** CTAs that an SM is to hold: stages and registers are bounded for so many. Absent: as many as fit. */
  readonly ctas?: number
  /** Outputs whose rows begin anywhere leave element by element from registers; absent: by pieces of 16 bytes, out of shared memory. */
  readonly stores?: 'elements'
  /** f32 is multiplied on tensor cores, in two parts of tf32 each; absent: by FFMAs. */
  readonly f32?: 'tf32x3'
  /** Parts of k that are work items of their own and meet in global memory; absent: a work item is a whole tile. */
  readonly parts?: number
}

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

/** Registers are bounded for so many: of more CTAs of four warps, those of a thread would be less than 128. */
const MOST_CTAS = 4

const CTAS: Entry<number> = {
  example: 'ctas 2',
  read: (value) => {
    if (value.kind !== 'count') return { form: 'a number or `auto`' }
    return value.value >= 1 && value.value <= MOST_CTAS
      ? { value: value.value }
      : { why: `an SM holds 1 to ${MOST_CTAS} CTAs by a bound`, legal: [] }
  },
}

export const SM80_ENTRIES = {
  tile: tileEntry([16, 32, 64, 128, 256]),
  depth: DEPTH,
  operands: OPERANDS,
  stages: STAGES,
  ctas: CTAS,
  stores: wordEntry('stores elements', 'pieces', 'elements'),
  parts: PARTS,
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

/**
 * Stages of 128 bytes of k have fewer barriers than those of 64. Large tiles take 64, so that enough stages fit, and two CTAs the
 * 164 KB of sm_80; not of f64, where 64 bytes are one step, and registers leave room for one CTA.
 */
export function* sm80Designs(
  schedule: ValuesOf<typeof SM80_ENTRIES> | null,
  arch: TargetArch,
  elementBytes: number,
): Generator<Sm80Design> {
  const widest = arch === 'sm_80' ? 128 * 64 : 128 * 128
  for (const [m, n] of schedule?.tile ?? DEFAULT_TILES) {
    if (m * n < SMALL && !schedule?.reassociate) continue
    const depths = elementBytes === 8 ? [128] : (schedule?.depth ?? [m * n > widest ? 64 : 128])
    for (const depth of depths)
      for (const operands of schedule?.operands ?? (['ab'] as const))
        for (const stages of schedule?.stages ?? (['auto'] as const))
          for (const ctas of schedule?.ctas ?? [null])
            for (const stores of schedule?.stores ?? (['pieces'] as const))
              for (const f32 of schedule?.f32 ?? (['fma'] as const))
                for (const parts of schedule?.parts ?? [1]) {
                  if (parts > 1 && !(schedule?.reassociate && m * n >= SMALL)) continue
                  yield {
                    kind: 'sm80', tile: [m, n, depth / elementBytes], warps: 'auto', operands, stages,
                    ...(typeof ctas === 'number' && { ctas }),
                    ...(stores === 'elements' && { stores }),
                    // Of operands of other sizes it says nothing.
                    ...(f32 === 'tf32x3' && elementBytes === 4 && { f32 }),
                    ...(parts > 1 && { parts }),
                  } // prettier-ignore
                }
  }
}
