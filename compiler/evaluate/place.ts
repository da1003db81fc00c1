/** Where values lie: leaves of the elementwise part, and sides of contractions. */
import type { Box } from './groups.ts'
import { outerSum, type Selection } from './inputs.ts'

/** Values of a leaf: an input, a finished contraction or reduction, the positions of an axis. */
export interface Stored {
  readonly values: ArrayLike<number>
  /** null: exact. */
  readonly errors: ArrayLike<number> | null
  readonly strides: ReadonlyMap<string, number>
  /** Results hold the selected indices only; inputs hold every index. */
  readonly selectedOnly: boolean
}

/** Place of each index in the selection of its axis; null: all indices are selected. */
export type Places = ReadonlyMap<string, Int32Array | null>

export function placesOf(selection: Selection, extent: (axis: string) => number): Places {
  return new Map(
    [...selection].map(([axis, indices]) => {
      if (indices.length === extent(axis)) return [axis, null]
      const places = new Int32Array(extent(axis)).fill(-1)
      indices.forEach((index, place) => (places[index] = place))
      return [axis, places]
    }),
  )
}

/** Offset that an index along an axis adds. */
export function offsetAlong(stored: Stored, axis: string, index: number, places: Places): number {
  const stride = stored.strides.get(axis) ?? 0
  return stride === 0 ? 0 : stride * ((stored.selectedOnly ? places.get(axis)?.[index] : undefined) ?? index)
}

/** Offsets of the positions of `axes` in a box, row-major. */
export function offsetsIn(stored: Stored, axes: readonly string[], box: Box, places: Places, base = 0): Int32Array {
  const along = (axis: string): Int32Array =>
    box.lists.get(axis)!.map((index) => offsetAlong(stored, axis, index, places))
  return outerSum(axes.map(along), base)
}

/** What the groups of a box add, for group axes that are not among `axes`. */
export function baseIn(stored: Stored, axes: readonly string[], box: Box, places: Places): number {
  let base = 0
  for (const [group, index] of box.groups) if (!axes.includes(group)) base += offsetAlong(stored, group, index, places)
  return base
}
