/** Sparse matrices A for mma.sp, wgmma.mma_async.sp and tcgen05.mma.sp, and where their metadata are (PTX ISA 9.7.14.6). */

/** Numbers that repeat: random(n) is below n. */
export function randomNumbers(seed: number): (n: number) => number {
  let state = seed
  return (n) => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0), Math.floor((state / 2 ** 32) * n))
}

export interface SparseMatrix {
  /** [row][k] with the zeros. */
  readonly dense: readonly (readonly number[])[]
  /** [row][k / 2]: what is stored. */
  readonly stored: readonly (readonly number[])[]
  /** [row][chunk]: four bits. */
  readonly bits: readonly (readonly number[])[]
}

/** Elements of a chunk: one of two of 32 bits, two of four, two pairs of four pairs of 4 bits. */
export const chunkOf = (bits: number): 2 | 4 | 8 => (bits === 32 ? 2 : bits === 4 ? 8 : 4)

/** `ordered`: the lower index always first. Stored elements are value(). */
export function sparseMatrix(
  rows: number,
  k: number,
  chunk: 2 | 4 | 8,
  ordered: boolean,
  value: () => number,
  random: (n: number) => number,
): SparseMatrix {
  const all = Array.from({ length: rows }, () => {
    const [dense, stored, bits] = [Array<number>(k).fill(0), [] as number[], [] as number[]]
    for (let first = 0; first < k; first += chunk) {
      const low = random(4)
      const other = (low + 1 + random(3)) % 4
      const [i, j] = low < other || !ordered ? [low, other] : [other, low]
      bits.push(chunk === 2 ? (i & 1 ? 0b1110 : 0b0100) : i | (j << 2))
      const places = chunk === 2 ? [i & 1] : chunk === 4 ? [i, j] : [2 * i, 2 * i + 1, 2 * j, 2 * j + 1]
      for (const place of places) {
        const x = value()
        stored.push(x)
        dense[first + place] = x
      }
    }
    return { dense, stored, bits }
  })
  return { dense: all.map((r) => r.dense), stored: all.map((r) => r.stored), bits: all.map((r) => r.bits) }
}

/** Four bits each, from the lowest. */
const pack = (bits: readonly number[]) => bits.reduce((word, x, i) => word + x * 2 ** (4 * i), 0) >>> 0

/**
 * The register of a warp with the metadata of 16 rows, by the figures of 9.7.14.6.2: T(4g + t) for lane group g. Lanes that do not
 * count hold `other`.
 */
export function metadataRegister(bits: readonly (readonly number[])[], narrow: boolean, selector: number, other: number): Uint32Array {
  const chunks = bits[0]!.length
  return Uint32Array.from({ length: 32 }, (_, lane) => {
    const [g, t] = [lane >> 2, lane & 3]
    const halves = (from: number) => pack([...bits[g]!.slice(from, from + 4), ...bits[g + 8]!.slice(from, from + 4)])
    if (chunks === 4) return t === selector ? halves(0) : other
    if (chunks === 8 && t >> 1 !== selector) return other
    if (!narrow) return halves(4 * (t & 1))
    return pack(bits[g + 8 * (t & 1)]!.slice(chunks === 16 ? 8 * (t >> 1) : 0).slice(0, 8))
  })
} // prettier-ignore
