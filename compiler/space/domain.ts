/**
 * Work domains: which tiles of the output there are, what is walked serially inside of one, and who hands tiles out. The CUDA text
 * calls axes by the parts they play: M, N, L, and K, K1 … for what is summed over.
 */

import type { RaggedAxis } from '../ir/tensor.ts'

/** Groups of rows or columns of the output. */
export interface Groups extends RaggedAxis {
  readonly along: 'm' | 'n'
}

/** A loop over tiles of the last axis, around it the others one by one. */
export interface SerialLoop {
  readonly axis: string
  readonly outer: readonly string[]
}

export interface Domain {
  /** Of the output: the axis, and how much of it a CTA's tile has. */
  readonly rows: { readonly axis: string; readonly extent: number }
  readonly columns: {
    readonly axis: string
    readonly extent: number
    /**
     * From one tile to the next; absent: the extent. Fewer: tiles overlap by a sector of memory, so that each stores whole ones alone, wherever
     * rows begin.
     */
    readonly step?: number
    /** Axis of the operand with columns, of which 2n and 2n + 1 belong to column n; absent: it has those of the output. */
    readonly interleaved?: string
  }
  /** Walked one by one; null: there is none. */
  readonly batch: string | null
  /** Rows, or columns, come in groups, which `batch` counts: tiles begin with a group and end with it. Absent: they do not. */
  readonly groups?: Groups
  /** What a tile sums over is that of a group, which `batch` counts. Absent: all of the axis. */
  readonly sums?: RaggedAxis
  /** Elements of k in a tile, in all loops. */
  readonly depth: number
  readonly loops: readonly [SerialLoop, ...SerialLoop[]]
  /**
   * Parts of k, each of a tile a work item of its own, which meet in global memory: as many of each tile of groups, else up to so many of
   * tiles that whole waves leave. Absent: a work item is a whole tile.
   */
  readonly parts?: number
  /**
   * Of the tiles that are cut, so many share work items: (parts - 1) * share + 1 of them have `share` tiles, each as much k. Where one tile ends within
   * an item, this goes on with the next one: its CTA has the last part of a tile, and later the first of the next. Absent: 1.
   */
  readonly share?: number
  /** `persistent`: CTAs take every so many tiles; `dynamic`: the device hands them out (cluster launch control). */
  readonly walk: 'persistent' | 'dynamic'
}

/** Columns from one tile to the next. */
export const stepOf = ({ columns: { extent, step = extent } }: Domain): number => step

/** Are tiles cut into parts of k only where whole waves leave some? */
export const hasTail = ({ parts, groups }: Domain): boolean => parts !== undefined && !groups

/** An axis as the CUDA text has it: the parameter that is its extent, and the name of a position. */
export interface AxisText {
  readonly extent: string
  readonly index: string
}

export function axisTexts({ rows, columns, batch, loops }: Domain): ReadonlyMap<string, AxisText> {
  const summed = [...new Set(loops.flatMap(({ axis, outer }) => [axis, ...outer]))]
  const text = (axis: string, index: string): readonly [string, AxisText] => [axis, { extent: index.toUpperCase(), index }]
  return new Map([
    text(rows.axis, 'm'),
    text(columns.axis, 'n'),
    ...(batch === null ? [] : [text(batch, 'l')]),
    ...summed.map((axis, i) => text(axis, i === 0 ? 'k' : `k${i}`)),
  ])
} // prettier-ignore

/** What an operand of MMAs has along m or n: its axis, how much of it a tile has, and for how many of the output's positions. */
export function freeSide({ rows, columns }: Domain, free: 'm' | 'n'): FreeSide {
  if (free === 'm') return { ...rows, ways: 1 }
  const { axis, extent, interleaved } = columns
  return interleaved === undefined ? { axis, extent, ways: 1 } : { axis: interleaved, extent: 2 * extent, ways: 2 }
}

export interface FreeSide {
  readonly axis: string
  readonly extent: number
  /** Positions for each of the output. */
  readonly ways: number
}

/** One loop over one axis, as most kernels have. */
export const isPlain = ({ loops: [{ outer }, more] }: Domain): boolean => !more && outer.length === 0
