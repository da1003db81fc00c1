/** Accumulators as the warps of the epilogue hold them. */

/**
 * How the epilogue warps hold a sub-tile of an accumulator. `row`: each lane has a row of it, read from TMEM (PTX ISA
 * 9.7.16.10.5, data path layouts; warp w reads lanes 32w … 32w + 31). `fragment`: a warp has 16 rows; lane t has columns
 * 2(t % 4) and the next one of every 8, of rows t / 4 and t / 4 + 8 (PTX ISA 9.7.15.5.1, wgmma and mma.sync).
 */
export interface AccumulatorLayout {
  readonly held: 'row' | 'fragment'
  /** Rows of the tile in the lanes of one warp: all 32 lanes, or the first 16 (64 rows on one CTA); 16 of fragments. */
  readonly rowsPerWarp: number
  /** 2: warps 2 and 3 hold the right half of the columns of the rows of warps 0 and 1 (128 rows on a CTA pair). */
  readonly columnHalves: 1 | 2
  /** Columns of one accumulator, all of which each warp reads: n / columnHalves. */
  readonly columns: number
}
