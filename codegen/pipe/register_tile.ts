/**
 * Which elements of a sub-tile the values of a lane are. Values are numbered j = 0 … count - 1; texts are CUDA expressions of j,
 * which the unrolled loops make constants.
 */
import { div, mod, name as ixName } from '../../compiler/space/ix.ts'
import { swizzled, type Swizzle } from '../../compiler/space/layout.ts'
import type { AccumulatorLayout } from '../../compiler/targets/tensor_core/accumulators.ts'

/** The row of a sub-tile that a lane is in, as layouts count rows: of `row`s, of fragments (the other is 8 below), of ldmatrix and stmatrix. */
const LANE = ixName('lane', 32)
export const LANE_ROW = LANE
export const PAIR_ROW = div(LANE, 4)
export const MATRIX_ROW = mod(LANE, 16)

/**
 * Where a lane's row is of four transposed matrices, 16 columns of 16 elements of 16 bits along m: those of rows 0 to 7 and 8 to 15 of the first 8 columns,
 * then of the others.
 */
export const transposedMatrices = (swizzle: Swizzle, pitch = 32, chunk: string | null = null): string =>
  `(lane / 16 * 8 + lane % 8) * ${pitch} + ` +
  `${swizzled(swizzle, chunk === null ? '(lane / 8 % 2)' : `(${chunk} + lane / 8 % 2)`, mod(LANE, 8))} * 16`

export interface RegisterTile {
  /** Values of a lane. */
  readonly count: number
  /** Values of an operand that varies along n only, and along m only; 1: one variable, no array. */
  readonly rowCount: number
  readonly columnCount: number
  /** Which of those value j needs. */
  rowIndex(j: string): string
  columnIndex(j: string): string
  /** Coordinates of value j in the output, from the lane's `row` and `col`. */
  row(j: string): string
  col(j: string): string
  rowInBounds(j: string): string
}

/** `end`: of rows. */
export function registerTile({ held }: AccumulatorLayout, columns: number, end: string): RegisterTile {
  if (held === 'row') {
    return {
      count: columns,
      rowCount: columns,
      columnCount: 1,
      rowIndex: (j) => j,
      columnIndex: () => '0',
      row: () => 'row',
      col: (j) => `col + ${j}`,
      rowInBounds: () => 'row_in_bounds',
    }
  }
  // Of every 8 columns a lane has two neighbours in its two rows: j = 4 * (8 columns) + 2 * (row + 8) + (column + 1).
  const row = (j: string): string => `row + ${j} / 2 % 2 * 8`
  return {
    count: columns / 2,
    rowCount: columns / 4,
    columnCount: 2,
    rowIndex: (j) => `${j} / 4 * 2 + ${j} % 2`,
    columnIndex: (j) => `${j} / 2 % 2`,
    row,
    col: (j) => `col + ${j} / 4 * 8 + ${j} % 2`,
    rowInBounds: (j) => `${row(j)} < ${end}`,
  }
}
