/** GEMMs for the SM80 lowering: kinds of MMA, tiles and how warps divide them, memory orders, alignments, tails, stages. */
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import type { WideCase } from './run_gemm.ts'

const SM80 = {} as const
/** Elements of k in a stage, where they are not 128 bytes. */
const tile = (m: number, n: number, k: number, rest: Partial<Sm80Design> = {}): Pick<WideCase, 'tile' | 'sm80'> => ({
  tile: [m, n],
  sm80: { tile: [m, n, k], ...rest },
})

const byWords = (...names: string[]): Pick<WideCase, 'unaligned' | 'words'> => ({ unaligned: names, words: names })

const PARTS = { f32: 'tf32x3' } as const

const WIDE: readonly (readonly [string, WideCase])[] = [
  ['both along k', { ...tile(64, 64, 64), orders: { B: 'lnk' } }],
  ['neither along k', { ...tile(128, 128, 32), out: 'f16', orders: { A: 'lkm' } }],
  ['rows of 64 bytes', { a: 'bf16', out: 'bf16', ...tile(64, 32, 32), orders: { A: 'lkm', B: 'lnk' } }],
  ['8 warps', { a: 'bf16', ...tile(128, 256, 32), extents: { l: 1 }, orders: { D: 'lnm' } }],
  ['tall', { out: 'f16', ...tile(256, 128, 32), extents: { l: 1, m: 301 }, orders: { A: 'lkm', B: 'lnk', D: 'lnm' } }],
  ['warps on top of each other', { tile: [64, 16], sm80: SM80, extents: { n: 40 }, orders: { A: 'lkm' } }],
  ['parts of 48 columns', { out: 'f16', ...tile(64, 96, 64), orders: { D: 'lnm' } }],
  ['widths that 64 bytes do not divide', { tile: [64, 48], sm80: SM80, on: 'sm_100a', extents: { n: 100 } }],
  ['48 rows, unaligned', { a: 'bf16', out: 'bf16', ...tile(48, 128, 32), unaligned: ['A', 'B', 'D'], extents: { m: 95, n: 263, k: 83 }, orders: { B: 'lnk' } }],
  ['48 rows, unaligned, a swizzle span of k', { a: 'bf16', out: 'bf16', ...tile(48, 128, 64), unaligned: ['A', 'D'], extents: { m: 95, n: 263, k: 331 }, orders: { B: 'lnk' } }],
  ['2 stages', { tile: [64, 64], sm80: { stages: 2 } }],
  ['5 stages', { ...tile(64, 32, 32, { stages: 5 }), extents: { k: 333 } }],
  ['warps in a row', { tile: [32, 128], sm80: { warps: [1, 4] } }],
  ['transposed roles', { out: 'bf16', a: 'bf16', tile: [128, 32], sm80: { operands: 'ba' }, extents: { m: 17 } }],
  ['f16 accumulator', { accumulator: 'f16', out: 'f16', tile: [128, 64], sm80: SM80 }],
  ['tf32', { a: 'tf32', tile: [128, 64], sm80: SM80, orders: { B: 'lnk' }, extents: { k: 90 } }],
  ['tf32, transposed', { a: 'tf32', ...tile(128, 128, 16), orders: { A: 'lkm', D: 'lnm' }, extents: { k: 90 } }],
  ['tf32, unaligned', { a: 'tf32', tile: [64, 64], sm80: SM80, unaligned: ['A', 'B', 'D'], extents: { k: 83, n: 157, m: 133 }, orders: { A: 'lkm' } }],
  ['f64', { a: 'f64', out: 'f64', ...tile(64, 64, 16), orders: { B: 'lnk' }, extents: { k: 91 } }],
  ['f64, 8 warps', { a: 'f64', out: 'f64', ...tile(128, 128, 16), orders: { A: 'lkm' }, extents: { l: 1, k: 50 }, on: 'sm_100a' }],
  ['f64, transposed and unaligned', { a: 'f64', out: 'f32', ...tile(64, 32, 16), unaligned: ['A', 'B', 'D'], orders: { A: 'lkm', B: 'lnk', D: 'lnm' }, extents: { k: 83, n: 157, m: 133 } }],
  ['f64, two products', { a: 'f64', out: 'f64', ...tile(64, 32, 16), gated: true, extents: { k: 40 } }],
  ['f64, neither along k', { a: 'f64', out: 'f64', ...tile(128, 64, 16), orders: { A: 'lkm' }, extents: { k: 90, m: 134, n: 70 } }],
  ['f32, neither along k', { a: 'f32', ...tile(32, 128, 32), orders: { A: 'lkm' }, extents: { k: 91, m: 68, n: 140 } }],
  ['f32', { a: 'f32', ...tile(128, 128, 16), orders: { B: 'lnk' }, extents: { k: 90 } }],
  ['f32, transposed', { a: 'f32', out: 'f16', ...tile(128, 64, 32), orders: { A: 'lkm', D: 'lnm' }, extents: { k: 50 }, on: 'sm_100a' }],
  ['f32, unaligned', { a: 'f32', ...tile(64, 64, 16), unaligned: ['A', 'B', 'D'], extents: { k: 83, n: 157, m: 133 }, orders: { A: 'lkm' } }],
  ['f32, few rows', { a: 'f32', ...tile(16, 64, 8), orders: { B: 'lnk' }, extents: { m: 37, k: 61 } }],
  ['f32, few columns', { a: 'f32', ...tile(64, 16, 32), unaligned: ['A', 'B', 'D'], orders: { A: 'lkm' }, extents: { n: 37, k: 61, m: 133 } }],
  ['f32, 8 warps', { a: 'f32', ...tile(128, 256, 8), extents: { l: 1, k: 61, n: 300 } }],
  ['f32, two products', { a: 'f32', ...tile(64, 64, 32), gated: true, extents: { k: 40 } }],
  ['f32 in parts', { a: 'f32', ...tile(128, 64, 16, { ...PARTS, operands: 'ba' }), orders: { B: 'lnk' }, extents: { k: 90 } }],
  ['f32 in parts, transposed', { a: 'f32', out: 'f16', ...tile(64, 64, 32, PARTS), orders: { A: 'lkm', D: 'lnm' }, extents: { k: 50 }, on: 'sm_100a' }],
  ['f32 in parts, unaligned', { a: 'f32', ...tile(64, 32, 32, PARTS), unaligned: ['A', 'B', 'D'], extents: { k: 83, n: 157, m: 133 }, orders: { A: 'lkm' } }],
  ['f32 in parts, two products', { a: 'f32', ...tile(64, 64, 32, PARTS), gated: true, extents: { k: 40 } }],
  ['i8', { a: 'i8', out: 'i32', ...tile(128, 64, 64), orders: { B: 'lnk' } }],
  ['u8 x i8, transposed', { a: 'u8', b: 'i8', out: 'i8', tile: [128, 64], sm80: SM80, orders: { A: 'lkm' } }],
  ['e4m3 x e5m2', { a: 'e4m3', b: 'e5m2', out: 'e5m2', tile: [64, 64], sm80: SM80, on: 'sm_100a', orders: { B: 'lnk' } }],
  ['e4m3, transposed', { a: 'e4m3', out: 'e4m3', tile: [64, 64], sm80: SM80, orders: { A: 'lkm', D: 'lnm' } }],
  ['two products', { a: 'bf16', tile: [128, 64], sm80: SM80, gated: true }],
  ['two products, one accumulator each', { tile: [128, 128], sm80: SM80, gated: true, orders: { A: 'lkm', B: 'lnk' }, on: 'sm_100a' }],
  ['unaligned output', { out: 'f16', tile: [128, 64], sm80: SM80, unaligned: ['D'], extents: { n: 263 }, orders: { B: 'lnk' } }],
  ['unaligned', { a: 'bf16', out: 'bf16', tile: [64, 64], sm80: SM80, unaligned: ['A', 'B', 'D'], extents: { k: 203, n: 257, m: 201 } }],
  ['unaligned, neither along k', { tile: [64, 96], sm80: SM80, unaligned: ['A', 'B'], extents: { k: 103, n: 157 }, orders: { A: 'lkm', B: 'lnk' }, on: 'sm_100a' }],
  ['unaligned bytes', { a: 'i8', out: 'i8', tile: [64, 64], sm80: SM80, unaligned: ['A', 'B', 'D'], extents: { k: 203, n: 157 }, orders: { A: 'lkm', B: 'lnk' } }],
  ['rows of one piece, unaligned', { a: 'i8', out: 'i8', ...tile(64, 32, 64), unaligned: ['D'], extents: { k: 64, n: 157 }, orders: { B: 'lnk' } }],
  ['unaligned, of batches and few k', { out: 'f16', tile: [128, 64], sm80: SM80, unaligned: ['A', 'B', 'D'], extents: { k: 7, n: 75, m: 131 }, orders: { A: 'lkm' } }],
  ['unaligned, chunks that threads do not share evenly', { ...tile(128, 256, 32), unaligned: ['A', 'B'], extents: { k: 61, n: 259 }, orders: { A: 'lkm', B: 'lkn' } }],
  ['unaligned, two products', { tile: [64, 32], sm80: SM80, unaligned: ['A', 'B'], gated: true, extents: { k: 77 }, orders: { B: 'lnk' } }],
  ['one step of k', { out: 'f16', ...tile(64, 128, 16), unaligned: ['A', 'B', 'D'], extents: { k: 37, n: 257, m: 101 }, orders: { A: 'lkm' } }],
  ['one step of k, aligned', { a: 'bf16', ...tile(128, 128, 16), extents: { k: 40 }, orders: { B: 'lnk' } }],
  ['warps that share k', { out: 'f16', ...tile(16, 16, 64), extents: { l: 1, m: 37, n: 50, k: 330 }, orders: { A: 'lkm', B: 'lnk' } }],
  ['two warps share k', { a: 'bf16', ...tile(16, 32, 64), unaligned: ['A', 'B', 'D'], extents: { m: 37, n: 51, k: 331 }, orders: { B: 'lnk' } }],
  ['warps share k, unaligned along m', { ...tile(32, 16, 64), unaligned: ['A', 'B', 'D'], extents: { l: 1, m: 37, n: 51, k: 131 }, orders: { A: 'lkm' } }],
  ['warps share k of bytes', { a: 'i8', out: 'i32', ...tile(16, 16, 128), extents: { l: 1, m: 37, n: 50, k: 330 } }],
  ['warps share k of two products', { ...tile(16, 16, 64), gated: true, extents: { l: 1, m: 37, n: 48, k: 330 } }],
  ['by words', { a: 'bf16', out: 'bf16', tile: [64, 64], sm80: SM80, ...byWords('A', 'B'), extents: { k: 202, n: 258, m: 201 } }],
  ['by words, neither along k', { ...tile(64, 96, 64), ...byWords('A', 'B'), extents: { k: 103, m: 142, n: 154 }, orders: { A: 'lkm' }, on: 'sm_100a' }],
  ['by words, beside elements', { ...tile(128, 64, 32), unaligned: ['A', 'B'], words: ['B'], extents: { k: 102, m: 141, n: 155 }, orders: { A: 'lkm', B: 'lnk' } }],
  ['bytes by words', { a: 'i8', out: 'i32', tile: [64, 64], sm80: SM80, ...byWords('A', 'B'), extents: { k: 204, n: 157 }, orders: { B: 'lnk' } }],
  ['by words, two products', { tile: [64, 32], sm80: SM80, ...byWords('A', 'B', 'B2'), gated: true, extents: { k: 78, n: 70 } }],
  ['by words, warps that share k', { a: 'bf16', ...tile(16, 32, 64), ...byWords('A', 'B'), extents: { m: 37, n: 51, k: 330 }, orders: { B: 'lnk' } }],
  ['by words, pieces that threads do not share evenly', { ...tile(64, 48, 32), ...byWords('A', 'B'), extents: { k: 62, n: 62 } }],
  ['k = 0', { tile: [128, 64], sm80: SM80, extents: { k: 0 } }],
  ['k less than the stages', { tile: [64, 64], sm80: SM80, extents: { k: 70 } }],
] // prettier-ignore

/** Small, with ends inside tiles. */
export const SM80_CASES = WIDE.map(([name, wide]): readonly [string, WideCase] => [
  name,
  { ...wide, extents: { m: 140, n: 144, k: 136, ...wide.extents } },
])
