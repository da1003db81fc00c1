/**
 * How tiles lie in shared memory. A tile is *boxes* side by side, each of rows of one *span* of bytes; a swizzle moves the 16-byte
 * chunks of a row by an XOR with bits of the row's number (PTX ISA 5.5.7), so that a column of chunks spreads over the banks.
 */
import { div, mod, mul, printIx, sum, type Ix } from './ix.ts'

/** Named by the bytes of a row; `ATOM_32B` moves 32 bytes at a time, for transposed 32-bit operands. `none`: dense rows. */
export type Swizzle = 'none' | '32B' | '64B' | '128B' | '128B_ATOM_32B'

/** Chunk c of row r stands at chunk c ^ (r / divisor % modulus * factor). */
interface Pattern {
  readonly divisor: number
  readonly modulus: number
  readonly factor: number
}

const PATTERNS: Readonly<Record<Swizzle, Pattern | null>> = {
  none: null,
  '32B': { divisor: 4, modulus: 2, factor: 1 },
  '64B': { divisor: 2, modulus: 4, factor: 1 },
  '128B': { divisor: 1, modulus: 8, factor: 1 },
  '128B_ATOM_32B': { divisor: 1, modulus: 4, factor: 2 },
}

/** What the number of a chunk in row `row` is XORed with; null: nothing. */
export function swizzleXor(swizzle: Swizzle, row: Ix): Ix | null {
  const pattern = PATTERNS[swizzle]
  return pattern && mul(mod(div(row, pattern.divisor), pattern.modulus), pattern.factor)
}

/** Where chunk `chunk` (C text) of row `row` stands: `(i ^ lane % 8)`, or the text as it is. */
export function swizzled(swizzle: Swizzle, chunk: string, row: Ix): string {
  const xor = swizzleXor(swizzle, row)
  return xor === null ? chunk : `(${chunk} ^ ${printIx(xor)})`
}

/** The swizzle whose span is a row of these bytes; a row of 16 bytes is dense. */
export const SWIZZLE_OF_ROW: Readonly<Record<number, Exclude<Swizzle, '128B_ATOM_32B'>>> = {
  16: 'none',
  32: '32B',
  64: '64B',
  128: '128B',
}

/**
 * Rows of m or n side by side in the order in which lanes multiply them, so that a lane loads several of its own at once: by 32 `fours`, of rows 8 apart, by
 * 16 `twos` of them, or `pairs` of neighbours, each with the pair 8 further.
 */
export type Dealt = 'fours' | 'twos' | 'pairs'

interface Deal {
  /** So many rows stand among each other. */
  readonly among: number
  /** Rows of chunk `chunk` of four, of which `place` is one: CUDA of both. */
  readonly rowOf: (chunk: Ix, place: Ix) => Ix
  readonly placeOf: (row: Ix) => Ix
}

export const DEALS: Readonly<Record<Dealt, Deal>> = {
  fours: {
    among: 32,
    rowOf: (chunk, place) => sum([mul(div(chunk, 8), 32), mul(place, 8), mod(chunk, 8)]),
    placeOf: (row) => sum([mul(div(row, 32), 32), mul(mod(row, 8), 4), mod(div(row, 8), 4)]),
  },
  twos: {
    among: 16,
    rowOf: (chunk, place) => sum([mul(div(chunk, 4), 16), mul(mod(chunk, 4), 2), div(place, 2), mul(mod(place, 2), 8)]),
    placeOf: (row) => sum([mul(div(row, 16), 16), mul(mod(row, 8), 2), mod(div(row, 8), 2)]),
  },
  pairs: {
    among: 16,
    rowOf: (chunk, place) => sum([mul(div(chunk, 4), 16), mul(mod(chunk, 4), 2), mod(place, 2), mul(div(place, 2), 8)]),
    placeOf: (row) =>
      sum([mul(div(row, 16), 16), mul(div(mod(row, 8), 2), 4), mul(mod(div(row, 8), 2), 2), mod(row, 2)]),
  },
}

/** A tile of an operand in a slot: `rows` of m or n by `depth` of k. */
export interface SharedTile {
  /** What the rows of a box are along: k, or m and n. */
  readonly major: 'k' | 'mn'
  readonly rows: number
  readonly depth: number
  /** Elements of a row of a box. */
  readonly span: number
  readonly boxes: number
  /** Bytes from one box to the next. */
  readonly pitch: number
  readonly swizzle: Swizzle
  /** Rows are those of memory from the last multiple of 16 bytes before them on: so far shifted, and 16 bytes longer. */
  readonly shifted?: true
  /** Rows of m or n in the order of lanes, each k of them 16 bytes longer: elements of 16 bytes and 8 k are in all banks. */
  readonly dealt?: Dealt
}

/** Rows of an operand of the epilogue that TMA is asked for at once: more hold up the loads of A and B behind them (measured). */
export const BOX_ROWS = 64

/** What memory is read and written in where rows begin anywhere. */
export const PIECE_BYTES = 16
/** Of memory: the least that L2 writes without the rest of a line. */
export const SECTOR_BYTES = 32

/** A row of so many elements that stands as far from a multiple of a piece as in memory, and ends in one more. */
export const shiftedRowBytes = (elements: number, elementBytes: number): number => elements * elementBytes + PIECE_BYTES

/** Bytes of a row of a shifted or dealt tile. */
export const shiftedPitch = ({ span }: Pick<SharedTile, 'span'>, elementBytes: number): number =>
  shiftedRowBytes(span, elementBytes)

export const tileElements = ({ rows, depth }: SharedTile): number => rows * depth
