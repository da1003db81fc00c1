/**
 * Block-scaled MMAs of SM100 on the virtual device: every kind, scales in tiles and plain ones, every design, against the reference
 * evaluator; kernels with one step that is wrong give something else.
 */
import { describe, expect, test } from 'vitest'
import { uniform } from '../../compiler/evaluate/generate.ts'
import { FULL, part } from '../cases_of.ts'
import { expectNoSpills, make, onDevice, passes, resultOf, type Scaled } from './scaled_gemm.ts'

onDevice()

const MXFP8 = { a: 'e4m3', scale: 'ue8m0', block: 32 } as const
const MXFP4 = { a: 'e2m1', scale: 'ue8m0', block: 32 } as const
const NVFP4 = { a: 'e2m1', scale: 'ue4m3', block: 16 } as const
const BIASED = { epilogue: 'relu(x * alpha + bias)', out: 'bf16' } as const

describe('every kind and design, against the evaluator', () => {
  test.each(part<[string, Scaled]>([
    ['mxfp8, tiles', { ...MXFP8, ...BIASED, tiled: 'AB', schedule: 'tile 128x128', extents: [200, 272, 304] }],
    ['mxfp8, plain', { ...MXFP8, ...BIASED, schedule: 'tile 128x128', extents: [200, 272, 304] }],
    ['mxfp8 of both types, tiles and plain, a batch', { ...MXFP8, b: 'e5m2', batch: 2, tiled: 'A', schedule: 'tile 128x64', extents: [144, 144, 160] }],
    ['B contiguous along n', { ...MXFP8, b: 'e5m2', transposed: true, batch: 2, tiled: 'B', schedule: 'tile 128x192', extents: [144, 400, 160] }],
    ['tiles that begin within atoms', { ...MXFP8, tiled: 'AB', schedule: 'tile 128x192', extents: [128, 592, 128] }],
    ['256 columns, one accumulator', { ...MXFP8, tiled: 'AB', schedule: 'tile 128x256', extents: [130, 528, 256] }],
    ['blocks of 128 x 128', { ...MXFP8, block: 128, rows: 128, schedule: 'tile 128x64', extents: [200, 80, 400] }],
    ['pairs', { ...MXFP8, ...BIASED, tiled: 'AB', schedule: 'mma 2cta; tile 256x192; cluster 2x1', extents: [304, 400, 272] }],
    ['pairs of plain scales, dynamic', { ...MXFP8, schedule: 'mma 2cta; tile 256x64; cluster 4x2; fallback 2x1; scheduler clc', extents: [560, 144, 144] }],
    ['clusters, dynamic', { ...MXFP8, tiled: 'B', schedule: 'tile 128x64; cluster 2x2; scheduler clc', extents: [304, 144, 144] }],
    ['transposed roles', { ...MXFP8, tiled: 'A', schedule: 'tile 128x64; operands ba', extents: [48, 144, 144] }],
    ['no k', { ...MXFP8, ...BIASED, tiled: 'AB', schedule: 'tile 128x64', extents: [16, 16, 0] }],
    ['mxfp4', { ...MXFP4, ...BIASED, tiled: 'AB', schedule: 'tile 128x128', extents: [200, 144, 544] }],
    ['mxfp4, plain, pairs', { ...MXFP4, schedule: 'mma 2cta; tile 256x128; cluster 2x1', extents: [300, 144, 96] }],
    ['nvfp4', { ...NVFP4, ...BIASED, tiled: 'AB', schedule: 'tile 128x128', extents: [200, 144, 544] }],
    ['nvfp4, plain, a batch', { ...NVFP4, batch: 2, schedule: 'tile 128x256; scheduler clc', extents: [130, 272, 288] }],
    ['nvfp4, tiles, pairs', { ...NVFP4, tiled: 'AB', schedule: 'mma 2cta; tile 256x256; cluster 2x1', extents: [300, 272, 320] }],
    ['mixed, 8 and 4 bits', { ...MXFP8, b: 'e2m1', ...BIASED, tiled: 'A', schedule: 'tile 128x128', extents: [200, 144, 384] }],
    ['mixed, 4 and 8 bits, pairs', { ...MXFP8, a: 'e2m1', b: 'e5m2', transposed: true, schedule: 'mma 2cta; tile 256x128; cluster 4x2', extents: [300, 144, 256] }],
    ['mixed, 6 bits of both kinds', { ...MXFP8, a: 'e3m2', b: 'e2m3', batch: 2, tiled: 'B', schedule: 'tile 128x64; scheduler clc', extents: [144, 80, 256] }],
    ['A alone has scales', { ...MXFP8, ...BIASED, bare: 'B', tiled: 'A', schedule: 'tile 128x192', extents: [200, 272, 304] }],
    ['B alone, of 4 bits, pairs', { ...MXFP8, b: 'e2m1', bare: 'A', schedule: 'mma 2cta; tile 256x128; cluster 2x1', extents: [300, 144, 384] }],
    ['B alone, nvfp4, dynamic', { ...NVFP4, bare: 'A', tiled: 'B', schedule: 'tile 128x256; scheduler clc', extents: [130, 272, 288] }],
    ['A alone, in pairs of clusters', { ...MXFP4, bare: 'B', schedule: 'mma 2cta; tile 256x64; cluster 4x2; fallback 2x1; scheduler clc', extents: [560, 144, 288] }],
    ['quantised, blocks of 128, dynamic', { ...MXFP8, schedule: 'tile 128x128; scheduler clc', out: 'e4m3[m, n] * f32[m, n/128]', epilogue: 'gelu_tanh(x * alpha)', extents: [144, 304, 160] }],
    ['quantised, blocks of 64, pairs', { ...NVFP4, tiled: 'AB', schedule: 'mma 2cta; tile 256x128; cluster 2x1', out: 'i8[m, n] * f32[m, n/64]', epilogue: 'x * alpha + bias', extents: [300, 208, 320] }],
    ['quantised', { ...MXFP8, tiled: 'AB', schedule: 'tile 128x64', out: 'e4m3[m, n] * ue8m0[m, n/32]', epilogue: 'relu(x * alpha + bias)', extents: [144, 160, 160] }],
  ], ['mxfp8 of both types, tiles and plain, a batch', 'clusters, dynamic', 'mxfp4, plain, pairs', 'nvfp4, tiles, pairs', 'A alone has scales', 'B alone, of 4 bits, pairs', 'quantised, blocks of 128, dynamic', 'pairs']))('%s', { timeout: 60_000 }, async (_, c) => void (await passes(c))) // prettier-ignore

  test.each(part<[string, Scaled]>([
    ['mxfp8', { ...MXFP8, ...BIASED, tiled: 'AB', schedule: 'tile 128x192', extents: [200, 272, 304] }],
    ['mxfp4', { ...MXFP4, tiled: 'AB', schedule: 'tile 128x64', extents: [200, 144, 192] }],
    ['nvfp4, pairs', { ...NVFP4, tiled: 'AB', schedule: 'mma 2cta; tile 256x128; cluster 2x1', extents: [300, 144, 320] }],
    ['B alone, contiguous along n', { ...MXFP8, bare: 'A', transposed: true, tiled: 'B', schedule: 'tile 128x64; scheduler clc', extents: [144, 80, 176] }],
  ], ['mxfp8']))('NaN in what tiles hold beyond the operand reaches no result: %s', { timeout: 60_000 }, async (_, c) => {
    const { D } = await passes({ ...c, poisoned: true })
    expect([...(await D.toArray())].every((x) => Number.isFinite(Number(x)))).toBe(true)
  }) // prettier-ignore

  test('seeded extents', { timeout: 120_000 }, async () => {
    const next = uniform(17)
    const upTo = (most: number): number => 1 + Math.floor(next() * most)
    const forms = [MXFP8, MXFP4, NVFP4]
    for (const [i, form] of forms.entries())
      for (const tiled of FULL ? ['', 'A', 'AB'] : [['', 'A', 'AB'][i]!]) {
        const extents = [upTo(260), upTo(200), 32 * upTo(12)] as const
        await passes({ ...form, ...BIASED, tiled, schedule: 'tile 128x64', extents })
      }
  })
})

describe('ptxas', () => {
  test.each(part<[string, Scaled]>([
    ['tiles', { ...MXFP8, ...BIASED, tiled: 'AB', schedule: 'mma 2cta; tile 256x256; cluster 2x1', extents: [16, 16, 128] }],
    ['plain', { ...NVFP4, ...BIASED, schedule: 'tile 128x256; scheduler clc', extents: [16, 16, 128] }],
    ['mixed', { ...MXFP8, ...BIASED, b: 'e2m1', schedule: 'tile 128x192', extents: [16, 16, 128] }],
    ['rows of 128', { ...MXFP8, schedule: 'tile 128x128; scheduler clc', out: 'e4m3[m, n] * f32[m, n/128]', epilogue: 'gelu_tanh(x * alpha)', extents: [16, 128, 128] }],
  ], ['mixed', 'rows of 128']))('spills nothing: %s', { timeout: 60_000 }, (_, c) => expectNoSpills(c)) // prettier-ignore
})

test('rows that TMA cannot pad stay with the CUDA cores', async () => {
  const padded: Scaled = { ...MXFP8, b: 'e2m1', schedule: 'tile 128x64', extents: [16, 16, 128] }
  await make(padded)
  await expect(make({ ...padded, extents: [16, 16, 96] })).rejects.toThrow('no kernel')
  await make({ ...MXFP4, schedule: 'tile 128x64', extents: [16, 16, 96] })
})

describe('wrong kernels give something else', () => {
  const tiles: Scaled = { ...MXFP8, tiled: 'AB', schedule: 'tile 128x192', extents: [128, 400, 256] }
  const plain: Scaled = { ...MXFP8, schedule: 'tile 128x64', extents: [128, 128, 256] }
  const alone: Scaled = { ...MXFP8, bare: 'B', schedule: 'tile 128x64', extents: [128, 64, 256] }
  const nvfp4: Scaled = { ...NVFP4, tiled: 'AB', schedule: 'tile 128x128', extents: [128, 256, 512] }
  test.each(part<[string, Scaled, RegExp, string]>([
    ['the scale of the first step for all', tiles, /\* SCALE_ID/g, '* 0'],
    ['scales of A for B', tiles, /tmem \+ 388 \+/g, 'tmem + 384 +'],
    ['tiles as if they began with an atom', tiles, / \+ at\.n \/ 32 % 4/g, ''],
    ['scales that are not copied', tiles, /tcgen05_copy_scales_cg1\(tmem \+ 384.*\);/g, ';'],
    ['atoms of the first k tile', tiles, /0, at\.m \/ 128, k\)/g, '0, at.m / 128, 0)'],
    ['plain scales of the next block', plain, /(k_of|k_at) \/ 32/g, '($1 / 32 ^ 1)'],
    ['rows of an atom as they come', plain, /row % 32 \* 16 \+ row % 128 \/ 32 \* 4/g, 'row * 4'],
    ['scales that MMAs may not see yet', plain, /(words\[s\]\);\n\s+\}\n\s+\}\n\s+)fence_proxy_async\(\);/g, '$1'],
    ['elements as if they were packed', { ...MXFP8, b: 'e2m1', schedule: 'tile 128x64', extents: [128, 64, 256] }, / \(32 >> 4\), INSTR/g, ' (16 >> 4), INSTR'],
    ['scales of 2 for 1', alone, /0x7f7f7f7f/g, '0x80808080'],
    ['ones in a quarter of the lanes', alone, /tcgen05_fill_x4\(tmem \+ \(warp << 21\)/g, 'if (warp == 0) tcgen05_fill_x4(tmem'],
    ['one atom for all steps', nvfp4, /i \* 4 \/ 4 \* 4/g, '0'],
  ], ['scales of A for B', 'tiles as if they began with an atom', 'atoms of the first k tile', 'rows of an atom as they come', 'scales of 2 for 1']))('%s', { timeout: 60_000 }, async (_, c, from, to) => {
    const made = await passes(c)
    const right = await resultOf(made, ' ', ' ')
    expect(right).toEqual([...(await made.D.toArray())].map(Number))
    expect(await resultOf(made, from, to)).not.toEqual(right)
  }) // prettier-ignore
})
