/** Sums of products in f64: the order is immaterial at this precision. */
import type { DTypeName } from '../../grammar/vocabulary.ts'

/** An operand as [batch, row, depth]: element (l, r, k) is at batch[l] + row[r] + depth[k]. */
export interface ContractionSide {
  readonly data: ArrayLike<number>
  readonly batch: Int32Array
  readonly rows: Int32Array
  readonly depth: Int32Array
  /** What stands at an index of `data`, in place of the datum. */
  readonly read?: (index: number) => number
  /** Absolute errors of `data`; absent: none. */
  readonly errors?: ArrayLike<number> | null
  /** How it is rounded before it is multiplied; absent: not at all. */
  readonly rounding?: Rounding | null
  /** Scales that are no powers of two are multiplied into partial sums, so that nothing is exact. */
  readonly scaled?: boolean
}

/** Rounding of a factor to the type of the MMA. */
export interface Rounding {
  readonly dtype: DTypeName
  /** Largest relative error of one rounding. */
  readonly unit: number
}

const ROWS = 64
const COLUMNS = 64
const DEPTH = 256

/** Operands a and b of one term. */
export type ContractionPair = readonly [ContractionSide, ContractionSide]

/** [batch, rows of a, rows of b], summed in f64 and rounded once by the array that they are put into. */
export function sumProducts<T extends Float64Array | Float32Array | Int32Array>(
  pairs: readonly ContractionPair[],
  make: (length: number) => T,
): T {
  const [first] = pairs
  const [L, M, N] = [first![0].batch.length, first![0].rows.length, first![1].rows.length]
  const values = make(L * M * N)
  const panelA = new Float64Array(ROWS * DEPTH)
  const panelB = new Float64Array(COLUMNS * DEPTH)
  for (let l = 0; l < L; l++) {
    for (let m0 = 0; m0 < M; m0 += ROWS) {
      const rows = Math.min(ROWS, M - m0)
      const sums = new Float64Array(ROWS * roundUp(N, COLUMNS))
      for (const [a, b] of pairs) {
        for (let k0 = 0; k0 < a.depth.length; k0 += DEPTH) {
          const depth = Math.min(DEPTH, a.depth.length - k0)
          pack(a, l, m0, rows, k0, depth, panelA)
          for (let n0 = 0; n0 < N; n0 += COLUMNS) {
            const columns = Math.min(COLUMNS, N - n0)
            pack(b, l, n0, columns, k0, depth, panelB)
            multiply(panelA, panelB, rows, columns, depth, sums, n0, roundUp(N, COLUMNS))
          }
        }
      }
      for (let m = 0; m < rows; m++) {
        const row = (l * M + m0 + m) * N
        const from = m * roundUp(N, COLUMNS)
        for (let n = 0; n < N; n++) values[row + n] = sums[from + n]!
      }
    }
  }
  return values
}

function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit
}

function pack(
  side: ContractionSide,
  l: number,
  row0: number,
  rows: number,
  k0: number,
  depth: number,
  panel: Float64Array,
): void {
  const { data, depth: offsets, read } = side
  for (let r = 0; r < rows; r++) {
    const base = side.batch[l]! + side.rows[row0 + r]!
    const at = r * DEPTH
    if (read) for (let k = 0; k < depth; k++) panel[at + k] = read(base + offsets[k0 + k]!)
    else for (let k = 0; k < depth; k++) panel[at + k] = data[base + offsets[k0 + k]!]!
  }
  // Whole blocks of four rows are multiplied; the rows beyond the last are never read back.
  for (let r = rows; r < roundUp(rows, 4); r++) panel.fill(0, r * DEPTH, r * DEPTH + depth)
}

/** sums[m, n0 + n] += panelA[m, :] · panelB[n, :], four by four so that a load feeds four products. */
function multiply(
  A: Float64Array,
  B: Float64Array,
  rows: number,
  columns: number,
  depth: number,
  sums: Float64Array,
  n0: number,
  pitch: number,
): void {
  for (let m = 0; m < rows; m += 4) {
    const a0 = m * DEPTH
    for (let n = 0; n < columns; n += 4) {
      const b0 = n * DEPTH
      let s00 = 0,
        s01 = 0,
        s02 = 0,
        s03 = 0,
        s10 = 0,
        s11 = 0,
        s12 = 0,
        s13 = 0
      let s20 = 0,
        s21 = 0,
        s22 = 0,
        s23 = 0,
        s30 = 0,
        s31 = 0,
        s32 = 0,
        s33 = 0
      for (let k = 0; k < depth; k++) {
        const x0 = A[a0 + k]!,
          x1 = A[a0 + DEPTH + k]!,
          x2 = A[a0 + 2 * DEPTH + k]!,
          x3 = A[a0 + 3 * DEPTH + k]!
        const y0 = B[b0 + k]!,
          y1 = B[b0 + DEPTH + k]!,
          y2 = B[b0 + 2 * DEPTH + k]!,
          y3 = B[b0 + 3 * DEPTH + k]!
        s00 += x0 * y0
        s01 += x0 * y1
        s02 += x0 * y2
        s03 += x0 * y3
        s10 += x1 * y0
        s11 += x1 * y1
        s12 += x1 * y2
        s13 += x1 * y3
        s20 += x2 * y0
        s21 += x2 * y1
        s22 += x2 * y2
        s23 += x2 * y3
        s30 += x3 * y0
        s31 += x3 * y1
        s32 += x3 * y2
        s33 += x3 * y3
      }
      const at = m * pitch + n0 + n
      const add = (i: number, value: number): void => void (sums[i] = sums[i]! + value)
      add(at, s00)
      add(at + 1, s01)
      add(at + 2, s02)
      add(at + 3, s03)
      add(at + pitch, s10)
      add(at + pitch + 1, s11)
      add(at + pitch + 2, s12)
      add(at + pitch + 3, s13)
      add(at + 2 * pitch, s20)
      add(at + 2 * pitch + 1, s21)
      add(at + 2 * pitch + 2, s22)
      add(at + 2 * pitch + 3, s23)
      add(at + 3 * pitch, s30)
      add(at + 3 * pitch + 1, s31)
      add(at + 3 * pitch + 2, s32)
      add(at + 3 * pitch + 3, s33)
    }
  }
}
