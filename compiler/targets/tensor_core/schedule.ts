/** Entries of schedules that the tensor-core targets share. */
import { countEntry, wordEntry, type Entry, type Switch } from '../../schedule.ts'

/** Most columns of a tile that are an odd multiple of 8. */
const MOST_ODD = 120

/** Rows, of these numbers, and columns of the tile; `narrow`: odd multiples of 8 of these too. */
export const tileEntry = (rows: readonly number[], narrow = false): Entry<readonly [number, number]> => ({
  example: 'tile 128x64',
  read: (value) => {
    if (value.kind !== 'shape' || value.extents.length !== 2) return { form: 'a shape such as `128x64`' }
    const [m, n] = value.extents as [number, number]
    if (!rows.includes(m))
      return { why: 'the rows of a tile are those of the MMA', legal: rows.map((legal) => `${legal}x${n}`) }
    if (n < 8 || n > 256 || n % (narrow && n <= MOST_ODD ? 8 : 16) !== 0)
      return {
        why: `the columns of a tile are a multiple of 16 up to 256${narrow ? `, or of 8 up to ${MOST_ODD}` : ''}`,
        legal: [],
      }
    return { value: [m, n] }
  },
})

/** CTAs along m and n. */
export const CLUSTER: Entry<readonly [number, number]> = {
  example: 'cluster 1x1',
  read: (value) => {
    if (value.kind !== 'shape' || value.extents.length !== 2) return { form: 'a shape such as `2x1`' }
    const [m, n] = value.extents as [number, number]
    const powers = [1, 2, 4, 8, 16]
    const legal = powers.includes(m) && powers.includes(n) && m * n <= 16
    return legal
      ? { value: [m, n] }
      : { why: 'the sides are powers of two, and a cluster has at most 16 CTAs', legal: [] }
  },
}

/** `ba`: computes the transpose. */
export const OPERANDS = wordEntry('operands ab', 'ab', 'ba')

export const STAGES: Entry<number> = {
  example: 'stages 4',
  read: (value) => {
    if (value.kind !== 'count') return { form: 'a number or `auto`' }
    return value.value >= 1 && value.value <= 32
      ? { value: value.value }
      : { why: 'a ring has 1 to 32 stages', legal: [] }
  },
}

/** Most parts of k: what they leave in memory grows with them. */
const MOST_PARTS = 64

/** Parts of k that are work items of their own; more than 1 need `reassociate`. */
export const PARTS: Entry<number> = {
  example: 'parts 1',
  read: (value) => {
    if (value.kind !== 'count') return { form: 'a number' }
    return value.value >= 1 && value.value <= MOST_PARTS
      ? { value: value.value }
      : { why: `k is cut into 1 to ${MOST_PARTS} parts, which meet in memory`, legal: [] }
  },
}

/** Tiles that share work items; more than 1 need `parts`. */
export const SHARE = countEntry('share 1', [1, 2, 3, 4], 'few tiles share work items')

/** Tiles share a sector of the columns of each row, and store whole sectors alone: of outputs whose rows begin anywhere. */
export const OVERLAP: Switch = { example: 'overlap', read: null }

/** Sums over k may be taken in another order. */
export const REASSOCIATE: Switch = { example: 'reassociate', read: null }
