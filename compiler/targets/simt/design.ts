/** Designs of SIMT: a tile, and what each thread has of it. */
import { wordEntry, type Entry, type ValuesOf } from '../../schedule.ts'

export interface SimtDesign {
  readonly kind: 'simt'
  /** Threads of a CTA, along rows and columns: m * n up to 1024. */
  readonly tile: readonly [number, number]
  /** Elements of each thread in products of matrices, rows x columns, so that a CTA has as many times those of a tile; absent: one. */
  readonly patch?: readonly [number, number]
  /** For one operand with few rows, or columns, of which a CTA has so many: the other one is read once for them, without tiles. */
  readonly vector?: { readonly side: 'rows' | 'columns'; readonly count: number }
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

/** Sums of a thread: more do not fit into its registers. */
const MAX_PATCH = 64

const PATCH: Entry<readonly [number, number]> = {
  example: 'patch 8x4',
  read: (value) => {
    if (value.kind !== 'shape' || value.extents.length !== 2) return { form: 'a shape such as `8x4`' }
    const [m, n] = value.extents as [number, number]
    return m >= 1 && n >= 1 && m * n <= MAX_PATCH
      ? { value: [m, n] }
      : { why: `a thread has 1 to ${MAX_PATCH} elements`, legal: ['4x4', '8x4'] }
  },
}

/** How many of the few a CTA has. */
const COUNTS = [1, 2, 4, 8, 16] as const

const VECTORS = {
  none: undefined,
  ...Object.fromEntries(
    (['rows', 'columns'] as const).flatMap((side) => COUNTS.map((count) => [`${side}${count}`, { side, count }])),
  ),
} as Readonly<Record<string, SimtDesign['vector']>>

export const SIMT_ENTRIES = {
  tile: TILE,
  patch: PATCH,
  vector: wordEntry('vector rows1', ...Object.keys(VECTORS)),
}

const DEFAULT_TILE = [16, 16] as const

/** Without a schedule that asks for them there are no vectors: their threads add up in an order of their own. */
export function* simtDesigns(schedule: ValuesOf<typeof SIMT_ENTRIES> | null): Generator<SimtDesign> {
  for (const tile of schedule?.tile ?? [DEFAULT_TILE])
    for (const patch of schedule?.patch ?? [null])
      for (const name of schedule?.vector ?? ['none']) {
        const vector = VECTORS[name]
        yield { kind: 'simt', tile, ...(patch && { patch }), ...(vector && { vector }) }
      }
}
