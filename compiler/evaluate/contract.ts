/**
 * The reference value of a contraction, and how far a correct machine may be from it.
 *
 * Value: sums in f64 (order immaterial at this precision), rounded once to the accumulator's type.
 *
 * Bound: with S = sum |a||b| (bounded here by |a|·|b|, Cauchy-Schwarz), every machine we target is within
 * (K + 32) · 2^(1-F) · S of the exact sum:
 * - a fused step of the SM100 MMA adds up to 16 (32 for 8-bit, 8 for tf32) products to the accumulator, each term
 *   truncated to F = 25 fraction bits below the largest one, then truncates the result to f32: an error of at most
 *   (17 · 2^-25 + 2^-23) · S a step, less than 16 · 2^-24 · S;
 * - a sequential f32 loop rounds once a term: K · 2^-24 · S.
 * Hopper's fp8 MMA keeps F = 13 bits unless partial sums are promoted. f16 accumulators round to 11 bits instead.
 *
 * Factors that are no operands as they are may be off, by `errors`, and are rounded to the type of the MMA, by at most `unit`
 * relative (mma_type.ts). With E the bound of an element's error that makes, the sum is off by at most |A| |E_B| + |E_A| |B| + |E_A| |E_B|
 * more, norms of rows again. Scales of blocks that are applied to partial sums cost three more roundings of a partial sum each: 8 · 2^(1-F) · S
 * more covers them.
 *
 * Exact: let q be the product of the lowest set bits found in A and in B. Every partial sum in every order is a
 * multiple of q no larger than S, so when S/q fits the accumulator's fraction nothing is ever rounded, and the
 * bound is 0.
 */
import { decode, encode, roundToDType } from '../codec.ts'
import { DTYPES, type Accumulator } from '../dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'

/** An operand as [batch, row, depth]: element (l, r, k) is at batch[l] + row[r] + depth[k]. */
export interface ContractionSide {
  readonly data: ArrayLike<number>
  readonly batch: Int32Array
  readonly rows: Int32Array
  readonly depth: Int32Array
  /** Absolute errors of `data`; absent: none. */
  readonly errors?: ArrayLike<number> | null
  /** How it is rounded before it is multiplied; absent: not at all. */
  readonly rounding?: Rounding | null
}

/** Rounding of a factor to the type of the MMA. */
export interface Rounding {
  readonly dtype: DTypeName
  /** Largest relative error of one rounding. */
  readonly unit: number
}

export interface ContractionResult {
  /** [batch, rows of a, rows of b] */
  readonly values: Float64Array | Float32Array | Int32Array
  /** Absolute bounds of the same shape; null: every element is exact. */
  readonly errors: Float32Array | null
}

const ROWS = 64
const COLUMNS = 64
const DEPTH = 256

/** Operands a and b of one term. */
export type ContractionPair = readonly [ContractionSide, ContractionSide]

/** The sum over all terms of a times b over their depth; K and S above are those of all terms. `fractionBits`: F; null: no bounds are wanted. */
export function contract(
  pairs: readonly ContractionPair[],
  accumulator: Accumulator,
  fractionBits: number | null,
): ContractionResult {
  const [first] = pairs
  const [L, M, N] = [first![0].batch.length, first![0].rows.length, first![1].rows.length]
  const values = resultArray(accumulator, L * M * N)
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
  const errors = fractionBits === null || accumulator === 'i32' ? null : errorBounds(pairs, accumulator, fractionBits)
  return { values: accumulator === 'f16' ? (decode('f16', encode('f16', values)) as Float32Array) : values, errors }
}

function resultArray(accumulator: Accumulator, length: number): Float64Array | Float32Array | Int32Array {
  if (accumulator === 'f64') return new Float64Array(length)
  // Assignment to an Int32Array wraps, as the machine does.
  return accumulator === 'i32' ? new Int32Array(length) : new Float32Array(length)
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
  const { data, depth: offsets } = side
  for (let r = 0; r < rows; r++) {
    const base = side.batch[l]! + side.rows[row0 + r]!
    const at = r * DEPTH
    for (let k = 0; k < depth; k++) panel[at + k] = data[base + offsets[k0 + k]!]!
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

/** Fraction bits of an accumulator, and what one rounding costs relative to the sum of magnitudes. */
function precision(accumulator: Accumulator, fractionBits: number): Precision {
  if (accumulator === 'f64') return { exactBits: 53, unit: 2 ** -52, smallest: 2 ** -1074, largest: Number.MAX_VALUE }
  if (accumulator === 'f16') return { exactBits: 11, unit: 2 ** -11, smallest: 2 ** -24, largest: 65504 }
  const largest = 3.4028234663852886e38
  return { exactBits: Math.min(24, fractionBits), unit: 2 ** (1 - fractionBits), smallest: 2 ** -149, largest }
}

interface Precision {
  readonly exactBits: number
  readonly unit: number
  /** Smallest positive number: below it, products are lost whatever their fraction. */
  readonly smallest: number
  readonly largest: number
}

function errorBounds(
  pairs: readonly ContractionPair[],
  accumulator: Accumulator,
  fractionBits: number,
): Float32Array | null {
  const [[a, b]] = pairs as readonly [ContractionPair]
  const [L, M, N] = [a.batch.length, a.rows.length, b.rows.length]
  const K = pairs.reduce((sum, [{ depth }]) => sum + depth.length, 0)
  const { exactBits, unit, smallest, largest } = precision(accumulator, fractionBits)
  const norms = pairs.map((pair) => pair.map(rowNorms) as [Float64Array, Float64Array])
  const doubts = pairs.map((pair) => pair.map(errorNorms) as [Float64Array | null, Float64Array | null])
  const quantum = Math.min(...pairs.map(([x, y]) => lowestBit(x) * lowestBit(y)))
  const exactBelow = quantum < smallest ? 0 : 2 ** exactBits * quantum
  const inexact = doubts.some(([x, y]) => x !== null || y !== null)
  const gamma = (K + (inexact ? 40 : 32)) * unit
  let errors: Float32Array | null = null
  for (let l = 0; l < L; l++) {
    for (let m = 0; m < M; m++) {
      const row = (l * M + m) * N
      for (let n = 0; n < N; n++) {
        let magnitude = 0
        let propagated = 0
        for (const [i, [normsA, normsB]] of norms.entries()) {
          const [x, y] = [normsA[l * M + m]!, normsB[l * N + n]!]
          magnitude += x * y
          if (!inexact) continue
          const [ex, ey] = [doubts[i]![0]?.[l * M + m] ?? 0, doubts[i]![1]?.[l * N + n] ?? 0]
          propagated += product(x, ey) + product(ex, y) + product(ex, ey)
        }
        if (propagated === 0 && magnitude <= exactBelow && magnitude <= largest) continue
        errors ??= new Float32Array(L * M * N)
        // Close to overflow the order of the sum decides, so anything goes. 1 + 2^-20 covers f32 rounding here.
        const own = gamma * (magnitude + propagated) + (K + 32) * smallest
        errors[row + n] = magnitude > largest ? Infinity : (own + propagated) * (1 + 2 ** -20)
      }
    }
  }
  return errors
}

/** Euclidean norm of each row's finite elements (a row with others has a non-finite result in every order). */
function rowNorms(side: ContractionSide): Float64Array {
  const norms = new Float64Array(side.batch.length * side.rows.length)
  let at = 0
  for (const batch of side.batch) {
    for (const row of side.rows) {
      let sum = 0
      for (const k of side.depth) {
        const x = side.data[batch + row + k]!
        if (Number.isFinite(x)) sum += x * x
      }
      // Rounding of the squares themselves: far less than 2^-40 relative.
      norms[at++] = Math.sqrt(sum) * (1 + 2 ** -40)
    }
  }
  return norms
}

/** An exact 0 absorbs any error. */
const product = (x: number, y: number): number => (x === 0 || y === 0 ? 0 : x * y)

/** Euclidean norm of each row's errors, rounding included; null: the factor is exact, and the MMA takes it as it is. */
function errorNorms({ data, errors, rounding, batch, rows, depth }: ContractionSide): Float64Array | null {
  if (!errors && !rounding) return null
  const norms = new Float64Array(batch.length * rows.length)
  const { maxFinite } = DTYPES[rounding?.dtype ?? 'f64']
  let [at, exact] = [0, true]
  for (const b of batch) {
    for (const row of rows) {
      let sum = 0
      for (const k of depth) {
        const x = data[b + row + k]!
        let error = errors?.[b + row + k] ?? 0
        if (!Number.isFinite(x)) continue
        if (rounding && (error !== 0 || roundToDType(rounding.dtype, x) !== x)) {
          const reach = Math.abs(x) + error
          error =
            reach > maxFinite
              ? Infinity
              : error + rounding.unit * reach + 2 ** -25 * (rounding.dtype === 'f16' ? 1 : 2 ** -100)
        }
        sum += error * error
      }
      exact &&= sum === 0
      norms[at++] = Math.sqrt(sum) * (1 + 2 ** -40)
    }
  }
  return exact ? null : norms
}

/** The largest power of two that divides every finite element. */
function lowestBit(side: ContractionSide): number {
  let lowest = Infinity
  for (const batch of side.batch) {
    for (const row of side.rows) {
      for (const k of side.depth) {
        const x = side.data[batch + row + k]!
        while (lowest > 0 && x % lowest !== 0 && Number.isFinite(x))
          lowest = lowest === Infinity ? largestPower(x) : lowest / 2
      }
    }
  }
  return lowest === Infinity ? 1 : lowest
}

function largestPower(x: number): number {
  return 2 ** Math.floor(Math.log2(Math.abs(x)))
}
