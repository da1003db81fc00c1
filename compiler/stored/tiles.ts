/**
 * Scales in the tiles that block-scaled instructions of tensor cores read: 128 (outer) x 4 (blocks) bytes, in which scale (o, i) lies
 * at (o % 32) * 16 + (o / 32) * 4 + i; tiles follow each other along the blocks first (PTX ISA, tcgen05.mma, scale factor layouts).
 * They are one more memory order of an operand: its axes, and where the contiguous one would stand last the name of the tile.
 */

/** Last in the memory order of scales in tiles. No axis has such a name. */
export const TILES = '32x4x4'
export const TILE_OUTER = 128
export const TILE_INNER = 4
export const TILE_BYTES = TILE_OUTER * TILE_INNER

export const inTiles = (order: readonly string[]): boolean => order.at(-1) === TILES

export const tiledOrder = (axes: readonly string[]): readonly string[] => [...axes, TILES]

/** The axes of a memory order. */
export const axesOfOrder = (order: readonly string[]): readonly string[] =>
  inTiles(order) ? order.slice(0, -1) : order

/** The two sides of tiles. For each index of other axes, in their order, there is a block of whole tiles. */
export interface Tiling<Axis = string> {
  readonly outer: Axis
  readonly inner: Axis
}

/** `inner`: the axis in blocks; `outer`: the last one of the others. null: several axes are in blocks, or none, or there is no other. */
export function tilingOf(scale: {
  readonly axes: readonly string[]
  readonly blocks?: readonly number[] | undefined
}): Tiling | null {
  const blocked = scale.axes.filter((_, i) => (scale.blocks?.[i] ?? 1) !== 1)
  const outer = scale.axes.findLast((axis) => !blocked.includes(axis))
  return blocked.length === 1 && outer !== undefined ? { outer, inner: blocked[0]! } : null
}

/** Where scales in tiles lie. */
export interface TileLayout {
  /** Of the plain scales. */
  readonly shape: readonly number[]
  /** Axis numbers. */
  readonly tiling: Tiling<number>
  /** Bytes between neighbours along each axis; along the two of the tiling: between neighbouring tiles. */
  readonly strides: readonly number[]
  readonly bytes: number
}

/** `groups`: of the outer axis; each begins a row of tiles, group i at floor(start / 128) + i. */
export function tileLayout(shape: readonly number[], tiling: Tiling<number>, groups = 0): TileLayout {
  const tilesAlong = Math.ceil(shape[tiling.inner]! / TILE_INNER)
  const rows = Math.ceil(shape[tiling.outer]! / TILE_OUTER) + groups
  const strides = shape.map(() => TILE_BYTES)
  strides[tiling.outer] = TILE_BYTES * tilesAlong
  let bytes = TILE_BYTES * tilesAlong * rows
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    if (axis === tiling.outer || axis === tiling.inner) continue
    strides[axis] = bytes
    bytes *= shape[axis]!
  }
  return { shape, tiling, strides, bytes }
}

/**
 * The byte of each plain scale, row-major. `ends`: where the groups of the outer axis end; scales of rows in no group have no byte: -1.
 */
export function tilePlaces({ shape, tiling, strides }: TileLayout, ends: ArrayLike<number> | null): Float64Array {
  const rows = ends && rowsInTiles(ends, shape[tiling.outer]!)
  const along = (axis: number, index: number): number => {
    if (axis === tiling.inner) return Math.floor(index / TILE_INNER) * strides[axis]! + (index % TILE_INNER)
    if (axis !== tiling.outer) return index * strides[axis]!
    const row = rows ? rows[index]! : index
    const inTile = row % TILE_OUTER
    return row < 0
      ? -Infinity
      : Math.floor(row / TILE_OUTER) * strides[axis]! + (inTile % 32) * 16 + Math.floor(inTile / 32) * 4
  }
  let places = Float64Array.of(0)
  shape.forEach((extent, axis) => {
    const table = Float64Array.from({ length: extent }, (_, index) => along(axis, index))
    places = Float64Array.from(
      { length: places.length * extent },
      (_, i) => places[Math.floor(i / extent)]! + table[i % extent]!,
    )
  })
  return places.map((place) => Math.max(-1, place))
}

/** Rows of groups as rows of tiles have them; -1: the row is in no group. Ends that leave the axis are taken as its limits. */
function rowsInTiles(ends: ArrayLike<number>, extent: number): Int32Array {
  const rows = new Int32Array(extent).fill(-1)
  let start = 0
  for (let group = 0; group < ends.length; group++) {
    const end = Math.min(extent, Math.max(0, ends[group]!))
    const first = (Math.floor(start / TILE_OUTER) + group) * TILE_OUTER
    for (let row = start; row < end; row++) rows[row] = first + row - start
    start = end
  }
  return rows
}
