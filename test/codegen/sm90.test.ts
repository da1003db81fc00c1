/**
 * Every design knob of the SM90 lowering, on the virtual device against plain loops: kinds of wgmma, cooperative and ping-pong
 * warpgroups, clusters with multicast, a split k, memory orders, operands that are copied or transposed by warps.
 */
import { expect, test } from 'vitest'
import { planInstance } from '../../codegen/index.ts'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { part, schedulesOf } from '../cases_of.ts'
import { bound } from '../compiler/support.ts'
import { runWide, type WideCase } from './run_gemm.ts'

const cluster = (m: number, n: number, k = 1): Partial<Sm90Design> => ({ cluster: [m, n, k] })
const copied = (...names: string[]): Partial<WideCase> => ({ unaligned: [...names, 'D'], repacked: names })
const pingpong = { consumers: 'pingpong' } as const

const CASES: readonly (readonly [string, WideCase])[] = [
  ['cooperative, 64 rows: one warpgroup', { tile: [64, 64], sm90: {} }],
  ['cooperative, 128 rows', { a: 'bf16', out: 'bf16', tile: [128, 128], sm90: {}, orders: { B: 'lnk' } }],
  ['cooperative, 256 rows', { a: 'bf16', tile: [256, 64], sm90: {}, orders: { A: 'lkm' } }],
  ['8 columns, ping-pong, A along m', { a: 'bf16', out: 'bf16', tile: [64, 8], sm90: pingpong, orders: { A: 'lkm', B: 'lnk' }, extents: { n: 8, k: 520 } }],
  ['8 columns, transposed roles, tile after tile', { out: 'f16', tile: [128, 8], sm90: { operands: 'ba' }, smCount: 2, extents: { m: 13, n: 520 } }],
  ['8 columns, unaligned, parts of k', { a: 'e4m3', out: 'f16', tile: [128, 8], sm90: { parts: 3 }, unaligned: ['B', 'D'], orders: { B: 'lnk' }, extents: { n: 5, k: 600 } }],
  ['24 columns', { a: 'bf16', out: 'bf16', tile: [64, 24], sm90: {}, orders: { B: 'lnk' }, extents: { n: 40 } }],
  ['72 columns, cluster 4x1 that shares them', { a: 'bf16', out: 'bf16', tile: [64, 72], sm90: cluster(4, 1), orders: { A: 'lkm', B: 'lnk' } }],
  ['72 columns, transposed roles, ping-pong, cluster, tile after tile', { out: 'f16', tile: [64, 72], sm90: { ...pingpong, ...cluster(4, 1), operands: 'ba' }, smCount: 4, orders: { D: 'lnm' }, extents: { m: 80 } }],
  ['120 columns, ping-pong, cluster 1x4', { a: 'bf16', out: 'bf16', tile: [64, 120], sm90: { ...pingpong, ...cluster(1, 4) }, smCount: 4, orders: { B: 'lnk' } }],
  ['40 columns, 3 parts of k, cluster', { tile: [128, 40], sm90: { ...cluster(2, 2), parts: 3 }, orders: { B: 'lnk' }, extents: { k: 520 } }],
  ['104 columns of 32 bits, parts that meet', { tile: [128, 104], sm90: { parts: 11 }, orders: { B: 'lnk' }, extents: { l: 1, k: 800 } }],
  ['56 columns, unaligned B and output', { a: 'bf16', out: 'bf16', tile: [64, 56], sm90: {}, unaligned: ['B', 'D'], orders: { B: 'lnk' }, extents: { k: 203, n: 131 } }],
  ['88 columns, copies, output along m', { out: 'f16', tile: [128, 88], sm90: cluster(2, 1), ...copied('B'), orders: { B: 'lnk', D: 'lnm' }, extents: { k: 203 } }],
  ['88 columns of bytes, transposed by warps', { a: 'e4m3', out: 'f16', tile: [64, 88], sm90: {}, extents: { n: 200 } }],
  ['24 columns of integers', { a: 'i8', out: 'i32', tile: [128, 24], sm90: cluster(2, 1), orders: { B: 'lnk' } }],
  ['40 columns, f16 accumulator', { accumulator: 'f16', out: 'f16', tile: [128, 40], sm90: {}, orders: { B: 'lnk' } }],
  ['72 columns, two products, output of bytes', { a: 'bf16', out: 'e4m3', tile: [64, 72], gated: true, sm90: {}, orders: { B: 'lnk', B2: 'lnk' } }],
  ['192 rows of 72 columns, cluster 1x2', { a: 'bf16', out: 'bf16', tile: [192, 72], sm90: cluster(1, 2), orders: { B: 'lnk' }, extents: { m: 401 } }],
  ['256 rows of 56 columns', { a: 'bf16', out: 'bf16', tile: [256, 56], sm90: { operands: 'ba' }, extents: { m: 100, n: 304 } }],
  ['overlap of 72 columns of 32 bits', { a: 'bf16', tile: [64, 72], sm90: { overlap: true }, unaligned: ['D'], orders: { B: 'lnk' }, extents: { n: 203 } }],
  ['144 columns in sub-tiles of 48, cluster 4x1, tile after tile', { a: 'bf16', out: 'bf16', tile: [128, 144], sm90: cluster(4, 1), smCount: 4, orders: { B: 'lnk' }, extents: { m: 520, n: 312 } }],
  ['one sub-tile of 112 columns, ping-pong', { out: 'f16', tile: [128, 112], sm90: { ...pingpong, ...cluster(2, 1) }, smCount: 2, orders: { A: 'lkm' }, extents: { m: 401, n: 136 } }],
  ['one sub-tile of 176 columns, three warpgroups', { a: 'bf16', out: 'bf16', tile: [192, 176], sm90: {}, orders: { B: 'lnk' }, extents: { m: 203, n: 360 } }],
  ['one sub-tile of 208 columns, transposed roles, output along m', { out: 'f16', tile: [128, 208], sm90: { operands: 'ba' }, orders: { D: 'lnm' }, extents: { m: 216 } }],
  ['sub-tiles of 80 columns, 3 parts of k', { a: 'bf16', out: 'bf16', tile: [128, 160], sm90: { parts: 3 }, orders: { B: 'lnk' }, extents: { k: 520 } }],
  ['224 columns, f16 accumulator', { accumulator: 'f16', out: 'f16', tile: [64, 224], sm90: {}, orders: { B: 'lnk' } }],
  ['three warpgroups, 192 rows', { a: 'bf16', out: 'bf16', tile: [192, 64], sm90: {}, orders: { B: 'lnk' }, extents: { m: 401 } }],
  ['three warpgroups, cluster, tile after tile', { out: 'f16', tile: [192, 96], sm90: cluster(1, 2), smCount: 2, orders: { A: 'lkm' }, extents: { m: 401 } }],
  ['three warpgroups, 3 parts of k', { a: 'bf16', tile: [192, 64], sm90: { parts: 3 }, orders: { B: 'lnk' }, extents: { m: 203, k: 520 } }],
  ['three warpgroups, k split in 2', { tile: [192, 32], sm90: cluster(1, 1, 2), extents: { m: 203 } }],
  ['three warpgroups, unaligned A and output', { a: 'bf16', out: 'f16', tile: [192, 64], sm90: {}, unaligned: ['A', 'D'], extents: { k: 203, m: 203, n: 263 } }],
  ['three warpgroups, two products', { a: 'bf16', tile: [192, 64], gated: true, sm90: {}, extents: { m: 203 } }],
  ['ping-pong, 192 rows', { out: 'f16', tile: [192, 32], sm90: pingpong, smCount: 2, orders: { B: 'lnk' }, extents: { m: 401 } }],
  ['cooperative, tile after tile', { a: 'bf16', out: 'bf16', tile: [128, 64], sm90: {}, smCount: 1, orders: { B: 'lnk' } }],
  ['widest tile', { a: 'bf16', out: 'bf16', tile: [128, 256], sm90: {}, orders: { B: 'lnk' } }],
  ['odd width', { out: 'f16', tile: [128, 80], sm90: {}, orders: { A: 'lkm', B: 'lnk' } }],
  ['ping-pong, 64 rows', { tile: [64, 128], sm90: pingpong, smCount: 2, orders: { B: 'lnk' } }],
  ['ping-pong, 128 rows', { a: 'bf16', out: 'bf16', tile: [128, 64], sm90: pingpong, smCount: 3 }],
  ['ping-pong, cluster', { tile: [64, 64], sm90: { ...pingpong, ...cluster(2, 1) }, smCount: 4 }],
  ['cluster 2x1', { a: 'bf16', tile: [128, 64], sm90: cluster(2, 1), orders: { A: 'lkm' } }],
  ['cluster 2x1, tile after tile', { a: 'bf16', tile: [128, 64], sm90: cluster(2, 1), smCount: 2 }],
  ['cluster 1x2', { tile: [128, 64], sm90: cluster(1, 2), orders: { B: 'lnk' } }],
  ['cluster 2x2', { tile: [64, 64], sm90: cluster(2, 2) }],
  ['cluster 4x1', { tile: [64, 64], sm90: cluster(4, 1), orders: { B: 'lnk' } }],
  ['k split in 2', { a: 'bf16', tile: [128, 64], sm90: cluster(1, 1, 2), orders: { B: 'lnk' } }],
  ['k split in 4, roles transposed', { tile: [64, 32], sm90: { ...cluster(1, 1, 4), operands: 'ba' }, extents: { m: 16, k: 500 } }],
  ['k split in 8, fewer k tiles', { tile: [64, 64], sm90: cluster(1, 1, 8), extents: { l: 1, m: 130, n: 100 } }],
  ['k split, integers', { a: 'i8', out: 'i32', tile: [64, 64], sm90: cluster(1, 1, 2), orders: { B: 'lnk' } }],
  ['transposed roles', { a: 'bf16', out: 'bf16', tile: [128, 16], sm90: { operands: 'ba' }, extents: { m: 16 } }],
  ['tf32', { a: 'tf32', tile: [128, 64], sm90: {}, orders: { B: 'lnk' } }],
  ['tf32, transposed by warps', { a: 'tf32', tile: [128, 64], sm90: {}, orders: { A: 'lkm' } }],
  ['e4m3 x e5m2', { a: 'e4m3', b: 'e5m2', out: 'e5m2', tile: [128, 96], sm90: {}, orders: { B: 'lnk' } }],
  ['e4m3, transposed by warps', { a: 'e4m3', out: 'f16', tile: [64, 96], sm90: {}, orders: { A: 'lkm' } }],
  ['i8', { a: 'i8', out: 'i32', tile: [128, 64], sm90: cluster(2, 1), orders: { B: 'lnk' } }],
  ['u8 x i8', { a: 'u8', b: 'i8', out: 'i8', tile: [128, 128], sm90: pingpong, orders: { B: 'lnk', D: 'lnm' } }],
  ['f16 accumulator', { accumulator: 'f16', out: 'f16', tile: [128, 64], sm90: {} }],
  ['fp8, f16 accumulator', { a: 'e4m3', accumulator: 'f16', out: 'e4m3', tile: [128, 64], sm90: {}, orders: { B: 'lnk' } }],
  ['M-contiguous output', { out: 'f16', tile: [128, 64], sm90: {}, orders: { D: 'lnm' } }],
  ['M-contiguous output of 32 bits', { tile: [64, 32], sm90: {}, orders: { D: 'lnm' } }],
  ['two products', { a: 'bf16', tile: [128, 64], gated: true, sm90: {} }],
  ['two products, ping-pong', { a: 'bf16', tile: [64, 128], gated: true, sm90: pingpong, orders: { B: 'lnk', B2: 'lnk' } }],
  ['unaligned output', { out: 'f16', tile: [128, 64], sm90: {}, unaligned: ['D'], extents: { n: 263 }, orders: { B: 'lnk' } }],
  ['unaligned output of bytes, ping-pong, tile after tile', { a: 'e4m3', out: 'e4m3', tile: [64, 96], sm90: pingpong, smCount: 1, unaligned: ['D'], extents: { n: 259 }, orders: { B: 'lnk' } }],
  ['unaligned output of 32 bits, k split', { tile: [128, 64], sm90: cluster(1, 1, 2), unaligned: ['D'], extents: { m: 130, n: 131 } }],
  ['unaligned output along m', { out: 'f16', tile: [128, 64], sm90: {}, unaligned: ['D'], extents: { m: 201 }, orders: { D: 'lnm' } }],
  ['unaligned A', { a: 'bf16', tile: [128, 64], sm90: {}, unaligned: ['A'], extents: { k: 203, m: 201 } }],
  ['unaligned everything', { a: 'e4m3', tile: [64, 64], sm90: {}, unaligned: ['A', 'B', 'D'], extents: { k: 203, n: 257 } }],
  ['copies of A and B', { a: 'bf16', out: 'bf16', tile: [128, 64], sm90: {}, ...copied('A', 'B'), extents: { k: 203, m: 201 }, orders: { B: 'lnk' } }],
  ['copies, n contiguous, two products, ping-pong', { a: 'bf16', tile: [64, 64], gated: true, sm90: pingpong, ...copied('B', 'B2'), extents: { n: 263 } }],
  ['copies, cluster, bytes', { a: 'e4m3', out: 'f16', tile: [128, 64], sm90: cluster(2, 1), ...copied('A', 'B'), extents: { k: 203, n: 257 }, orders: { B: 'lnk' } }],
  ['copies of 32 bits, rows shorter than a vector', { a: 'tf32', tile: [64, 64], sm90: cluster(1, 1, 2), ...copied('A', 'B'), extents: { k: 3, n: 67 }, orders: { B: 'lnk' } }],
  ['copies, k = 0', { tile: [128, 64], sm90: {}, ...copied('A', 'B'), extents: { k: 0, n: 67 } }],
  ['k = 0', { tile: [128, 64], sm90: {}, extents: { k: 0 } }],
  ['one stage', { tile: [128, 64], sm90: { stages: 1 }, extents: { k: 300 } }],
  ['one stage, ping-pong', { tile: [64, 64], sm90: { ...pingpong, stages: 1 }, extents: { k: 300 } }],
  ['one stage, cluster', { tile: [64, 64], sm90: { ...cluster(2, 1), stages: 1 }, extents: { k: 300 } }],
  ['3 parts of k', { a: 'bf16', tile: [128, 64], sm90: { parts: 3 }, orders: { B: 'lnk' }, extents: { k: 520 } }],
  ['4 parts of k, tile after tile', { a: 'bf16', out: 'bf16', tile: [128, 128], sm90: { parts: 4 }, smCount: 1, extents: { k: 520 } }],
  ['5 parts of k, ping-pong', { tile: [64, 64], sm90: { ...pingpong, parts: 5 }, smCount: 3, extents: { k: 700 } }],
  ['2 parts of k, cluster', { tile: [64, 64], sm90: { ...cluster(2, 1), parts: 2 }, smCount: 4 }],
  ['3 parts of k, each split in 4', { a: 'bf16', tile: [128, 64], sm90: { ...cluster(1, 1, 4), parts: 3 }, extents: { m: 130, n: 100, k: 700 } }],
  ['more parts than k tiles', { tile: [64, 32], sm90: { parts: 7, operands: 'ba' }, extents: { m: 16, k: 100 } }],
  ['parts of k, integers', { a: 'i8', out: 'i32', tile: [64, 64], sm90: { ...cluster(1, 1, 2), parts: 2 }, orders: { B: 'lnk' } }],
  ['parts of k, two products', { a: 'bf16', tile: [128, 64], gated: true, sm90: { parts: 2 } }],
  ['k = 0, parts', { tile: [64, 64], sm90: { parts: 2 }, extents: { k: 0 } }],
  ['k = 0, split', { tile: [64, 64], sm90: cluster(1, 1, 2), extents: { k: 0 } }],
] // prettier-ignore

const COMBINED = [
  'odd width',
  '8 columns, ping-pong, A along m',
  '8 columns, unaligned, parts of k',
  '24 columns',
  '40 columns, f16 accumulator',
  '56 columns, unaligned B and output',
  '88 columns of bytes, transposed by warps',
  '24 columns of integers',
  '72 columns, two products, output of bytes',
  '192 rows of 72 columns, cluster 1x2',
  '256 rows of 56 columns',
  'overlap of 72 columns of 32 bits',
  '144 columns in sub-tiles of 48, cluster 4x1, tile after tile',
  'one sub-tile of 112 columns, ping-pong',
  'one sub-tile of 208 columns, transposed roles, output along m',
  'three warpgroups, k split in 2',
  'three warpgroups, two products',
  'ping-pong, 192 rows',
  'ping-pong, 128 rows',
  'cluster 2x1',
  'cluster 4x1',
  'k split in 2',
  'tf32',
  'i8',
  'fp8, f16 accumulator',
  'M-contiguous output of 32 bits',
  'two products',
  'unaligned output',
  'unaligned output of 32 bits, k split',
  'unaligned A',
  'copies of A and B',
  'copies, k = 0',
  'one stage',
  'one stage, ping-pong',
  '3 parts of k',
  '2 parts of k, cluster',
  'parts of k, integers',
  'parts of k, two products',
  'k = 0, split',
]

test.each(part(CASES, COMBINED))('%s', { timeout: 60_000 }, async (name, wide) => {
  for (const result of await runWide(wide, schedulesOf(name)))
    expect(result).toEqual({ findings: [], wrong: 0, first: null })
})

/** Odd multiples of 8 columns. */
const REFUSED: readonly (readonly [string, string, DTypeName, Partial<Sm90Design>, readonly [number, number], string])[] = [
  ['columns that B has along n', 'B: f16[k, n]', 'f16', {}, [64, 72], 'KTL4516'],
  ['6 rows of a slice', 'B: f16[n, k]', 'f16', cluster(4, 1), [64, 24], 'KTL4515'],
  ['parts of a slice', 'B: f16[n, k]', 'f16', cluster(16, 1), [64, 72], 'KTL4515'],
  ['36 columns of each CTA that shares k', 'B: f16[n, k]', 'f16', cluster(1, 1, 2), [64, 72], 'KTL4522'],
  ['integers', 'B: i8[n, k]', 'i8', {}, [64, 40], 'KTL2904'],
] // prettier-ignore

test.each(REFUSED)('is refused: %s', (_, b, a, sm90, tile, code) => {
  const out = a === 'i8' ? 'i32' : 'f32'
  const program = bound(`kernel g(A: ${a}[m, k], ${b}) -> D: ${out}[m, n] { D = sum[k](A * B) }`)
  const design: Sm90Design = {
    kind: 'sm90', consumers: 'cooperative', tile: [...tile, a === 'i8' ? 128 : 64], cluster: [1, 1, 1], parts: 1, operands: 'ab', stages: 'auto',
    ...sm90,
  } // prettier-ignore
  expect(planInstance({ program, target: 'sm_90a', design })).toMatchObject({ code })
})

test('is refused: parts of 144 columns beside the accumulators of three warpgroups; those of 160 are halves', () => {
  const program = bound(
    'kernel g(A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[n, k/128]) -> D: f32[m, n] { D = sum[k](A * B) }',
  )
  const plan = (columns: number) =>
    planInstance({
      program,
      target: 'sm_90a',
      design: {
        kind: 'sm90', consumers: 'cooperative', tile: [192, columns, 128], cluster: [1, 1, 1], parts: 1, operands: 'ab', stages: 'auto',
      }, // prettier-ignore
    })
  expect(plan(144)).toMatchObject({ code: 'KTL4521' })
  expect(plan(160)).toMatchObject({ kind: 'sm90', parts: { columns: 80 } })
})
