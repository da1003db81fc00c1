/** Rows that begin anywhere: operands that are copied, outputs that leave as words of memory, and products of a few rows with a matrix. */
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { scheduled, type Design } from './scheduled.ts'

const unaligned = (
  name: string,
  design: Design,
  schedule: string,
  body: string,
  extents: DeviceCase['extents'],
  operands: DeviceCase['operands'] = {},
): DeviceCase =>
  scheduled(`unaligned: ${name}`, `unaligned${schedule.length}`, design, schedule, body, extents, { operands })

const TILE = { kind: 'sm90', tile: [64, 64] } as const
const TWICE = { kind: 'sm90', tile: [128, 128] } as const
const LONG = { kind: 'sm90', tile: [128, 64] } as const
const WARPS = { kind: 'sm80', tile: [64, 64] } as const
const SHORT = { kind: 'sm80', tile: [64, 128] } as const
const CTA = { kind: 'sm100', tile: [128, 64] } as const
const HALF = { kind: 'sm100', tile: [64, 64] } as const
const PAIR = { kind: 'sm100', tile: [256, 96] } as const
const VECTOR = { kind: 'simt' } as const
const PLAIN = '(A: bf16[m, k], B: bf16[n, k], bias: f32[n]) -> D: bf16[m, n] { D = relu(sum[k](A * B) + bias) }'
const FULL =
  '(A: bf16[m, k], B: bf16[n, k], C: bf16[m, n], E: e4m3[m, n]) -> D: bf16[m, n] { D = relu(sum[k](A * B) + C) + E }'
const WIDE = { kind: 'sm90', tile: [256, 144] } as const
const THREE = { kind: 'sm90', tile: [192, 96] } as const
const EIGHT = { kind: 'sm90', tile: [64, 8] } as const
const BYTES = '(A: e4m3[m, k], B: e4m3[n, k]) -> D: e4m3[m, n] { D = sum[k](A * B) }'
const I8 = '(A: i8[m, k], B: i8[n, k]) -> D: i32[m, n] { D = sum[k](A * B) }'
const FLOATS = '(A: bf16[m, k], B: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }'

const TWO =
  '(A: bf16[m, k], B: bf16[n, k], bias: f32[m]) -> (D: bf16[m, n], E: f32[m, n]) {\n  D = relu(sum[k](A * B) + bias)\n  E = sum[k](A * B) + bias\n}'

export const UNALIGNED_CASES: readonly DeviceCase[] = [
  unaligned('copies, rows of words', TILE, 'consumers pingpong\n  tile 64x64', PLAIN, { m: 150, n: 131, k: 203 }),
  unaligned('rows of whole words', TILE, 'consumers pingpong\n  tile 64x64', PLAIN, { m: 150, n: 134, k: 203 }),
  unaligned('of floats', TILE, 'consumers cooperative\n  tile 64x64', FLOATS, { m: 70, n: 131, k: 145 }),
  unaligned('of bytes', TILE, 'consumers cooperative\n  tile 64x64', BYTES, { m: 70, n: 131, k: 145 }),
  unaligned('operands of the epilogue', TILE, 'consumers cooperative\n  tile 64x64', FULL, { m: 70, n: 131, k: 65 }),
  unaligned('operands of the epilogue that other warps copy', TWICE, 'consumers pingpong\n  tile 128x128', FULL, {
    m: 600,
    n: 275,
    k: 136,
  }),
  unaligned(
    'operands of the epilogue that lanes load, on one tile',
    LONG,
    'consumers cooperative\n  tile 128x64',
    FULL,
    {
      m: 300,
      n: 139,
      k: 64,
    },
  ),
  unaligned('three warpgroups, operands that lanes load', THREE, 'consumers cooperative\n  tile 192x96', FULL, {
    m: 400,
    n: 131,
    k: 200,
  }),
  unaligned('three warpgroups', THREE, 'consumers cooperative\n  tile 192x96', FULL, { m: 400, n: 131, k: 201 }),
  unaligned('8 columns', EIGHT, 'consumers pingpong\n  tile 64x8\n  cluster 1x1', PLAIN, { m: 150, n: 7, k: 328 }),
  unaligned('144 columns, transposed', WIDE, 'consumers cooperative\n  tile 256x144\n  operands ba', PLAIN, {
    m: 150,
    n: 259,
    k: 72,
  }),
  unaligned(
    'overlap of tiles',
    TILE,
    'consumers pingpong\n  tile 64x64\n  overlap',
    PLAIN,
    { m: 150, n: 131, k: 203 },
    { D: { offset: 3, padding: 6 } },
  ),
  unaligned(
    'overlap of floats, a sliver at the end',
    TILE,
    'consumers cooperative\n  tile 64x64\n  cluster 1x2\n  overlap',
    FLOATS,
    { m: 70, n: 171, k: 72 },
  ),
  unaligned(
    'overlap of bytes',
    TILE,
    'consumers cooperative\n  tile 64x64\n  overlap',
    BYTES,
    { m: 70, n: 203, k: 145 },
    { D: { offset: 21, padding: 2 } },
  ),
  unaligned(
    'overlap of short tiles',
    SHORT,
    'tile 64x128\n  depth 32\n  overlap',
    TWO,
    { m: 75, n: 355, k: 13 },
    { D: { offset: 9, padding: 4 }, E: { offset: 1 } },
  ),
  unaligned(
    'overlap of tiles, rows that end with a sub-tile',
    SHORT,
    'tile 64x128\n  depth 64\n  overlap',
    PLAIN,
    { m: 75, n: 176, k: 24 },
    { D: { offset: 3, padding: 5 } },
  ),
  unaligned(
    'overlap, from tensor memory',
    CTA,
    'mma 1cta\n  tile 128x64\n  overlap',
    PLAIN,
    { m: 150, n: 131, k: 200 },
    { D: { offset: 3, padding: 6 } },
  ),
  unaligned(
    'overlap, from tensor memory, rows that end with a sub-tile',
    CTA,
    'mma 1cta\n  tile 128x64\n  overlap',
    PLAIN,
    { m: 150, n: 80, k: 72 },
    { D: { offset: 3, padding: 7 } },
  ),
  unaligned(
    'overlap of pairs, two outputs',
    PAIR,
    'mma 2cta\n  tile 256x96\n  cluster 2x1\n  overlap',
    TWO,
    { m: 300, n: 275, k: 72 },
    { D: { offset: 9, padding: 4 }, E: { offset: 1 } },
  ),
  unaligned(
    'overlap of floats that the device hands out, a sliver at the end',
    CTA,
    'mma 1cta\n  tile 128x64\n  cluster 1x2\n  scheduler clc\n  overlap',
    FLOATS,
    { m: 200, n: 171, k: 72 },
  ),
  unaligned(
    'overlap of bytes, half of the lanes',
    HALF,
    'mma 1cta\n  tile 64x64\n  overlap',
    BYTES,
    { m: 70, n: 203, k: 144 },
    { D: { offset: 21, padding: 2 } },
  ),
  unaligned('elements ahead', TILE, 'consumers cooperative\n  tile 64x64\n  splits 8\n  reassociate', FULL, {
    m: 70,
    n: 131,
    k: 1100,
  }),
  unaligned('operands by words', WARPS, 'tile 64x64\n  stages 2', PLAIN, { m: 150, n: 134, k: 202 }),
  unaligned('bytes by words', WARPS, 'tile 64x64\n  depth 64', I8, { m: 70, n: 131, k: 332 }),
  unaligned('short sums', VECTOR, 'tile 8x32\n  patch 8x4', FULL, { m: 70, n: 131, k: 11 }),
  unaligned('few rows', VECTOR, 'vector rows4', PLAIN, { m: 3, n: 21, k: 2203 }),
]
