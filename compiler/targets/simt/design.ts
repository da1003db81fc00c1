/** Designs of SIMT: a tile. */
import type { Entry, ValuesOf } from '../../schedule.ts'

export interface SimtDesign {
  readonly kind: 'simt'
  /** Output tile per CTA (threads = m * n up to 1024). */
  readonly tile: readonly [number, number]
}

const TILE: Entry<readonly [number, number]> = {
  example: 'tile 16x16',
  read: (value) => {
    if (value.kind !== 'shape' || value.extents.length !== 2) return { form: 'a shape such as `16x16`' }
    const [m, n] = value.extents as [number, number]
    return m >= 1 && n >= 1 && m * n <= 1024
      ? { value: [m, n] }
      : { why: 'a CTA has 1 to 1024 threads, one an element', legal: ['16x16', '32x32'] }
  },
}

export const SIMT_ENTRIES = { tile: TILE }

const DEFAULT_TILE = [16, 16] as const

export function* simtDesigns(schedule: ValuesOf<typeof SIMT_ENTRIES> | null): Generator<SimtDesign> {
  for (const tile of schedule?.tile ?? [DEFAULT_TILE]) yield { kind: 'simt', tile }
}
