/**
 * Every design knob of the SM100 lowering, on the virtual device against plain loops: kinds of MMA, CTA pairs, clusters
 * with multicast, dynamic scheduling, fallback clusters, memory orders, and operands that TMA cannot address.
 */
import { expect, test } from 'vitest'
import { inTurn, part } from '../cases_of.ts'
import { runWide, type WideCase } from './run_gemm.ts'

const pair = (cluster: readonly [number, number] = [2, 1]) =>
  ({ use2ctaMma: true, cluster: [...cluster, 1] as [number, number, number] }) as const
const cluster = (m: number, n: number) => ({ cluster: [m, n, 1] as [number, number, number] }) as const
const copied = (...names: string[]): Partial<WideCase> => ({ unaligned: [...names, 'D'], repacked: names })
const clc = { scheduler: 'clc' } as const
const fallback = { fallbackCluster: [2, 1, 1] as [number, number, number] } as const

const CASES: readonly (readonly [string, WideCase])[] = [
  ['64 rows', { tile: [64, 64] }],
  ['pair of 256 rows', { tile: [256, 128], design: pair() }],
  ['pair of 128 rows', { tile: [128, 128], design: pair() }],
  ['pair of 128 rows, 32 columns', { tile: [128, 32], design: pair() }],
  ['pair of 128 rows, 96 columns', { a: 'bf16', out: 'bf16', tile: [128, 96], design: pair(), orders: { D: 'lnm' } }],
  ['cluster 2x1', { tile: [128, 64], design: cluster(2, 1), orders: { A: 'lkm' } }],
  ['cluster 1x2', { tile: [128, 64], design: cluster(1, 2), orders: { B: 'lnk' } }],
  ['cluster 4x4', { a: 'bf16', tile: [64, 32], design: cluster(4, 4), smCount: 16 }],
  ['cluster 4x2 of pairs', { tile: [256, 64], design: pair([4, 2]), orders: { A: 'lkm', B: 'lnk' } }],
  ['dynamic', { tile: [128, 64], design: clc }],
  ['dynamic, cluster 2x2', { tile: [64, 64], design: { ...clc, ...cluster(2, 2) }, extents: { k: 40 } }],
  ['dynamic, pairs', { tile: [256, 64], design: { ...clc, ...pair([2, 2]) } }],
  ['fallback cluster', { tile: [128, 64], design: { ...cluster(4, 2), ...fallback } }],
  ['fallback cluster, dynamic pairs', { tile: [256, 64], design: { ...pair([4, 2]), ...fallback, ...clc } }],
  ['transposed roles', { tile: [128, 32], design: { operands: 'ba' }, extents: { m: 16 } }],
  ['copies of A and B', { a: 'bf16', out: 'bf16', tile: [128, 64], ...copied('A', 'B'), extents: { k: 203, m: 201 }, orders: { B: 'lnk' } }],
  ['copies of bytes, pair', { a: 'e4m3', out: 'f16', tile: [256, 64], design: pair(), ...copied('A', 'B'), extents: { k: 203, n: 257 } }],
  ['48 columns', { a: 'bf16', tile: [128, 48], orders: { A: 'lkm' } }],
  ['16 columns, 64 rows, transposed', { tile: [64, 16], design: { operands: 'ba' }, extents: { m: 24 } }],
  ['208 columns, cluster 1x2, M-major D', { a: 'bf16', out: 'bf16', tile: [128, 208], design: cluster(1, 2), orders: { D: 'lnm' } }],
  ['80 columns of bytes, dynamic', { a: 'i8', out: 'i8', tile: [128, 80], design: clc, orders: { B: 'lnk' } }],
  ['3 parts of k', { a: 'bf16', tile: [128, 64], design: { parts: 3 }, orders: { B: 'lnk' }, extents: { k: 520 } }],
  ['2 parts of k, pairs, tile after tile', { a: 'bf16', out: 'bf16', tile: [256, 96], design: { ...pair(), parts: 2 }, smCount: 2, extents: { k: 520 } }],
  ['5 parts of k, dynamic, pairs of 128 rows', { tile: [128, 64], design: { ...clc, ...pair(), parts: 5 }, smCount: 4, extents: { k: 700 } }],
  ['3 parts of k, dynamic, fallback cluster of pairs', { tile: [256, 64], design: { ...pair([4, 1]), ...fallback, ...clc, parts: 3 } }],
  ['more parts than k tiles, 64 rows, transposed', { tile: [64, 32], design: { parts: 7, operands: 'ba' }, extents: { m: 16, k: 100 } }],
  ['20 parts of k, integers', { a: 'i8', out: 'i32', tile: [128, 64], design: { parts: 20 }, orders: { B: 'lnk' }, extents: { l: 1, k: 3000 } }],
  ['parts of k, two products, one accumulator each', { a: 'bf16', tile: [128, 256], gated: true, design: { parts: 2 } }],
  ['k = 0, parts', { tile: [64, 64], design: { parts: 2 }, extents: { k: 0 } }],
  ['tf32', { a: 'tf32', tile: [128, 64], orders: { A: 'lkm' } }],
  ['tf32, pair', { a: 'tf32', tile: [256, 64], design: pair(), orders: { B: 'lnk' } }],
  ['e4m3 x e5m2', { a: 'e4m3', b: 'e5m2', out: 'e5m2', tile: [128, 96], orders: { A: 'lkm', B: 'lnk' } }],
  ['i8', { a: 'i8', out: 'i32', tile: [128, 64], orders: { A: 'lkm' } }],
  ['u8 x i8, pairs', { a: 'u8', b: 'i8', out: 'i8', tile: [256, 64], design: pair([4, 1]), orders: { B: 'lnk' } }],
  ['i8 to u8', { a: 'i8', out: 'u8', tile: [64, 96], orders: { D: 'lnm' } }],
  ['f16 accumulator', { accumulator: 'f16', out: 'f16', tile: [128, 64] }],
  ['fp8, f16 accumulator', { a: 'e4m3', accumulator: 'f16', out: 'e4m3', tile: [128, 64], orders: { D: 'lnm' } }],
  ['narrow M-major tile', { a: 'bf16', tile: [64, 96], orders: { A: 'lkm' } }],
  ['two products', { a: 'bf16', tile: [128, 64], gated: true }],
  ['two products, one accumulator each', { a: 'bf16', tile: [128, 256], gated: true }],
  ['two products, pairs', { a: 'bf16', tile: [256, 64], gated: true, design: pair([2, 2]) }],
  ['unaligned output', { out: 'f16', tile: [128, 64], design: pair(), unaligned: ['D'], extents: { n: 263 } , orders: { B: 'lnk' } }],
  ['unaligned output of bytes, halves of columns', { a: 'e4m3', out: 'e4m3', tile: [128, 64], design: pair(), unaligned: ['D'], extents: { n: 131 }, orders: { B: 'lnk' } }],
  ['unaligned A', { a: 'bf16', tile: [128, 64], unaligned: ['A'], extents: { k: 203, m: 201 } }],
  ['unaligned B', { tile: [64, 96], unaligned: ['B', 'D'], extents: { k: 203, n: 257 } }],
  ['unaligned, dynamic', { a: 'e4m3', tile: [128, 64], design: clc, unaligned: ['A', 'B', 'D'], extents: { k: 203, n: 257 }, orders: { A: 'lkm', B: 'lnk' } }],
  ['unaligned tf32', { a: 'tf32', tile: [128, 64], unaligned: ['A', 'B', 'D'], extents: { k: 203, n: 257, m: 133 }, orders: { A: 'lkm' } }],
  ['overlap, dynamic, clusters of pairs', { out: 'f16', tile: [256, 64], design: { ...pair([2, 2]), ...clc, overlap: true }, unaligned: ['D'], extents: { n: 263 }, orders: { B: 'lnk' } }],
  ['overlap of 32 bits, 3 parts of k, bytes along n', { a: 'e4m3', tile: [64, 96], design: { parts: 3, overlap: true }, unaligned: ['D'], extents: { k: 520, n: 203 } }],
  ['k = 0', { tile: [128, 64], design: pair(), extents: { k: 0 } }],
] // prettier-ignore

/** Late, and shuffled with the race detector. */
const SCHEDULES = [{ order: 'eager' }, { order: 'random', seed: 3, checks: 'full' }] as const

const COMBINED = [
  'pair of 256 rows',
  'pair of 128 rows, 32 columns',
  'cluster 2x1',
  'cluster 4x2 of pairs',
  'dynamic',
  'fallback cluster, dynamic pairs',
  'copies of A and B',
  '48 columns',
  '3 parts of k',
  '5 parts of k, dynamic, pairs of 128 rows',
  'k = 0, parts',
  'tf32',
  'i8',
  'f16 accumulator',
  'narrow M-major tile',
  'two products',
  'unaligned output',
  'unaligned A',
  'unaligned B',
]

test.each(part(CASES, COMBINED))('%s', { timeout: 60_000 }, async (name, wide) => {
  for (const result of await runWide(wide, inTurn(name, SCHEDULES)))
    expect(result).toEqual({ findings: [], wrong: 0, first: null })
})
