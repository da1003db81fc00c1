/**
 * How far a correct machine may be from the reference value of a contraction.
 *
 * With S = sum |a||b| (bounded here by |a|·|b|, Cauchy-Schwarz), every machine we target is within
 * (K + 32) · 2^(1-F) · S of the exact sum:
 * - a fused step of the SM100 MMA adds up to 16 (32 for 8-bit, 8 for tf32) products to the accumulator, each term
 *   truncated to F = 25 fraction bits below the largest one, then truncates the result to f32: an error of at most
 *   (17 · 2^-25 + 2^-23) · S a step, less than 16 · 2^-24 · S;
 * - a sequential f32 loop rounds once a term: K · 2^-24 · S.
 * f16 accumulators round to 11 bits instead.
 *
 * Hopper's fp8 MMA keeps F = 13 bits. That bound would be wider than the results, so what partial sums can be is estimated from the
 * data: with M = |sum| + 4 min(|a| max|b|, max|a| |b|), a step of 32 products truncates the partial sum by at most 2^-12 M, always towards 0, and
 * its products by as much each, in either direction. N products are off by (N / 32 + sqrt(N) + 8) · 2^-12 · M. Where every N of K products are
 * promoted to f32, each of the C = K / N sums has its share M / sqrt(C), and the errors of all add up.
 *
 * Factors that are no operands as they are may be off, by `errors`, and are rounded to the type of the MMA, by at most `unit`
 * relative (mma_type.ts). With e(x) the error of an element that makes, the sum is off by at most sum |a| e(b) + e(a) (|b| + e(b)) more,
 * computed as it stands. Scales of blocks that are applied to partial sums cost three more roundings of a partial sum each:
 * 8 · 2^(1-F) · S more covers them.
 *
 * f32 in parts of tf32 (split_f32.ts): a step of 8 products is three MMAs into a sum of its own, each of which truncates as above. Two of
 * them are of terms below 2^-11 of the products; the third is off by (9 · 2^-25 + 2^-23) · S of its step, and one rounding adds it to
 * the accumulator: (K / 8 + 7) · 2^-24 · S in all, where (K / 8 + 32) is allowed. What the parts leave out of the factors, e, and the
 * products l · l of the smaller parts come on top, less than 2^-21 · S together.
 *
 * Exact: let q be the product of the lowest set bits found in A and in B. Every partial sum in every order is a
 * multiple of q no larger than S, so when S/q fits the accumulator's fraction nothing is ever rounded, and the
 * bound is 0. Of parts nothing may be left out, and their sums may be greater by 2^-9.
 */
import { roundToDType } from '../codec.ts'
import { DTYPES, type Accumulator, type SumPrecision } from '../dtypes.ts'
import { sumProducts, type ContractionPair, type ContractionSide } from './products.ts'
import { smallerPart, splitLoss } from './split_f32.ts'

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

/** F below which magnitudes are estimated from the data. */
const COARSE = 20

/** Absolute bounds, in the shape of the result, whose `values` these are; null: every element is exact. */
export function errorBounds(
  pairs: readonly ContractionPair[],
  accumulator: Accumulator,
  { fractionBits, promoted, split }: SumPrecision,
  values: ArrayLike<number>,
): Float32Array | null {
  const [[a, b]] = pairs as readonly [ContractionPair]
  const [L, M, N] = [a.batch.length, a.rows.length, b.rows.length]
  const K = pairs.reduce((sum, [{ depth }]) => sum + depth.length, 0)
  const { exactBits, unit, smallest, largest } = precision(accumulator, fractionBits)
  const norms = pairs.map((pair) => pair.map(rowNorms) as [Float64Array, Float64Array])
  const isCoarse = accumulator === 'f32' && fractionBits < COARSE
  const peaks = isCoarse ? pairs.map((pair) => pair.map(rowPeaks) as [Float64Array, Float64Array]) : []
  const once = Math.min(promoted ?? K, K)
  const coarse = Math.sqrt(K / once) * (once / 32 + Math.sqrt(once) + 8) * unit
  const propagated = propagatedErrors(pairs)
  const leftOut = split ? lossOfParts(pairs) : null
  const quantum = Math.min(...pairs.map(([x, y]) => lowestBit(x) * lowestBit(y)))
  const exactBelow = quantum < smallest ? 0 : (2 ** exactBits * quantum) / (split ? 1 + 2 ** -9 : 1)
  const scaled = pairs.some((pair) => pair.some((side) => side.scaled))
  const gamma = ((split ? K / 8 : K) + (scaled || propagated ? 40 : 32)) * unit
  let errors: Float32Array | null = null
  for (let l = 0; l < L; l++) {
    for (let m = 0; m < M; m++) {
      const row = (l * M + m) * N
      for (let n = 0; n < N; n++) {
        let magnitude = 0
        for (const [normsA, normsB] of norms) magnitude += normsA[l * M + m]! * normsB[l * N + n]!
        // 0 · Infinity of what may overflow is as uncertain as Infinity.
        const sum = (propagated?.[row + n] ?? 0) + (leftOut?.[row + n] ?? 0)
        const added = Number.isNaN(sum) ? Infinity : sum
        const exact = added === 0 && (magnitude === 0 || (!scaled && magnitude <= exactBelow))
        if (exact && magnitude <= largest) continue
        errors ??= new Float32Array(L * M * N)
        // Close to overflow the order of the sum decides, so anything goes. 1 + 2^-20 covers f32 rounding here.
        let lost = gamma * (magnitude + added)
        if (isCoarse) {
          let spread = 0
          for (const [i, [peaksA, peaksB]] of peaks.entries()) {
            const [normsA, normsB] = norms[i]!
            const [x, y] = [l * M + m, l * N + n]
            spread += Math.min(normsA[x]! * peaksB[y]!, peaksA[x]! * normsB[y]!)
          }
          lost = Math.min(lost, coarse * (Math.min(magnitude, Math.abs(values[row + n]!) + 4 * spread) + added))
        }
        const own = lost + (K + 32) * smallest
        errors[row + n] = magnitude > largest ? Infinity : (own + added) * (1 + 2 ** -20)
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

/** Largest finite magnitude of each row. */
function rowPeaks(side: ContractionSide): Float64Array {
  const peaks = new Float64Array(side.batch.length * side.rows.length)
  let at = 0
  for (const batch of side.batch) {
    for (const row of side.rows) {
      let peak = 0
      for (const k of side.depth) {
        const x = Math.abs(side.data[batch + row + k]!)
        if (x > peak && x < Infinity) peak = x
      }
      peaks[at++] = peak
    }
  }
  return peaks
}

/** Error of each element before it is multiplied, by its index; null: all are exact, and the MMA takes them as they are. */
function doubtOf(side: ContractionSide): ((index: number) => number) | null {
  const { data, errors, rounding } = side
  if (!errors && !rounding) return null
  const { maxFinite, bias, mantissaBits } = DTYPES[rounding?.dtype ?? 'f64']
  const smallest = 2 ** (-bias - mantissaBits)
  const doubt = (index: number): number => {
    const x = data[index]!
    const error = errors?.[index] ?? 0
    if (!Number.isFinite(x)) return 0
    if (!rounding || (error === 0 && roundToDType(rounding.dtype, x) === x)) return error
    const reach = Math.abs(x) + error
    return reach > maxFinite ? Infinity : error + rounding.unit * reach + smallest
  }
  for (const batch of side.batch)
    for (const row of side.rows) for (const k of side.depth) if (doubt(batch + row + k) !== 0) return doubt
  return null
}

/** sum |a| e(b) + e(a) (|b| + e(b)) + l(a) l(b), of factors in parts. */
function lossOfParts(pairs: readonly ContractionPair[]): Float64Array {
  const reading = (side: ContractionSide, of: (x: number) => number): ContractionSide => ({
    ...side,
    read: (index) => of(side.data[index]!),
  })
  const finite = (x: number): number => (Math.abs(x) < Infinity ? Math.abs(x) : 0)
  const terms = pairs.flatMap(([a, b]): ContractionPair[] => [
    [reading(a, finite), reading(b, splitLoss)],
    [reading(a, splitLoss), reading(b, (x) => finite(x) + splitLoss(x))],
    [reading(a, smallerPart), reading(b, smallerPart)],
  ])
  return sumProducts(terms, (length) => new Float64Array(length))
}

/** sum |a| e(b) + e(a) (|b| + e(b)); null: nothing is off. */
function propagatedErrors(pairs: readonly ContractionPair[]): Float64Array | null {
  const magnitude =
    ({ data }: ContractionSide) =>
    (index: number): number => {
      const x = Math.abs(data[index]!)
      return x < Infinity ? x : 0
    }
  const terms = pairs.flatMap(([a, b]): ContractionPair[] => {
    const [ofA, ofB] = [doubtOf(a), doubtOf(b)]
    const [sizeA, sizeB] = [magnitude(a), magnitude(b)]
    return [
      ...(ofB
        ? [
            [
              { ...a, read: sizeA },
              { ...b, read: ofB },
            ] as const,
          ]
        : []),
      ...(ofA
        ? [
            [
              { ...a, read: ofA },
              { ...b, read: (i: number) => sizeB(i) + (ofB?.(i) ?? 0) },
            ] as const,
          ]
        : []),
    ]
  })
  return terms.length === 0 ? null : sumProducts(terms, (length) => new Float64Array(length))
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
