/** Where in an output the errors are: each element's error over its bound, and what is left of it at a coarser resolution. */
import type { ComparedElement } from '../../compiler/evaluate/compare.ts'

export interface ErrorMap {
  readonly output: string
  /** Of the last axis, and of all others together. */
  readonly columns: number
  readonly rows: number
  /** By row: 0 is equal, up to 1 within the bound, infinite beyond it. */
  readonly levels: Float32Array
}

export class ErrorMaps {
  readonly #maps = new Map<string, ErrorMap>()

  /** For `observe` of a comparison. */
  readonly observe = ({ output, shape, position, error, bound, right }: ComparedElement): void => {
    let map = this.#maps.get(output)
    if (!map) {
      const count = shape.reduce((product, extent) => product * extent, 1)
      const columns = shape.at(-1) ?? 1
      map = { output, columns, rows: columns === 0 ? 0 : count / columns, levels: new Float32Array(count) }
      this.#maps.set(output, map)
    }
    map.levels[position] = !right ? Infinity : error === 0 ? 0 : bound > 0 ? Math.min(1, error / bound) : 1
  }

  get all(): readonly ErrorMap[] {
    return [...this.#maps.values()]
  }
}

/** At most so many columns and rows: each cell has the worst of its elements. */
export function coarser(map: ErrorMap, mostColumns: number, mostRows: number): ErrorMap {
  const columns = Math.min(map.columns, mostColumns)
  const rows = Math.min(map.rows, mostRows)
  if (columns === map.columns && rows === map.rows) return map
  const levels = new Float32Array(columns * rows)
  for (let r = 0; r < map.rows; r++) {
    const to = Math.floor((r * rows) / map.rows) * columns
    for (let c = 0; c < map.columns; c++) {
      const cell = to + Math.floor((c * columns) / map.columns)
      levels[cell] = Math.max(levels[cell]!, map.levels[r * map.columns + c]!)
    }
  }
  return { output: map.output, columns, rows, levels }
}
