/**
 * Scales in blocks of k that no MMA of SM100 takes, on the virtual device: sums of parts in tensor memory, scaled and added in registers,
 * against the reference evaluator; kernels with one step that is wrong give something else.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { part } from '../cases_of.ts'
import { expectNoSpills, onDevice, passes, resultOf, type Scaled } from './scaled_gemm.ts'

onDevice()

const ROWS = { a: 'e4m3', scale: 'f32', block: 128 } as const
const BLOCKS = { ...ROWS, columns: 128 } as const
const BIASED = { epilogue: 'relu(x * alpha + bias)', out: 'bf16' } as const

describe('every form and design, against the evaluator', () => {
  test.each(part<[string, Scaled]>([
    ['1x128 by 128x128', { ...BLOCKS, ...BIASED, schedule: 'tile 128x128', extents: [200, 272, 400] }],
    ['1x128 by 1x128', { ...ROWS, ...BIASED, schedule: 'tile 128x128', extents: [200, 144, 400] }],
    ['1x32, several parts of a stage', { ...ROWS, block: 32, schedule: 'tile 128x64', extents: [144, 80, 272] }],
    ['blocks of A and B that differ', { ...ROWS, block: 64, blockB: 96, schedule: 'tile 128x96', extents: [130, 112, 400] }],
    ['B contiguous along n, a batch', { ...BLOCKS, b: 'e5m2', transposed: true, batch: 2, schedule: 'tile 128x96', extents: [144, 208, 160] }],
    ['pairs', { ...BLOCKS, ...BIASED, schedule: 'mma 2cta; tile 256x128; cluster 2x1', extents: [304, 272, 272] }],
    ['pairs of 64 rows', { ...ROWS, schedule: 'mma 2cta; tile 128x192; cluster 2x1', extents: [144, 208, 272] }],
    ['pairs, dynamic', { ...BLOCKS, schedule: 'mma 2cta; tile 256x64; cluster 4x2; fallback 2x1; scheduler clc', extents: [560, 144, 144] }],
    ['64 rows', { ...ROWS, ...BIASED, schedule: 'tile 64x96', extents: [80, 112, 272] }],
    ['clusters, dynamic', { ...ROWS, schedule: 'tile 128x64; cluster 2x2; scheduler clc', extents: [304, 144, 144] }],
    ['transposed roles', { ...BLOCKS, schedule: 'tile 128x64; operands ba', extents: [48, 144, 144] }],
    ['no k', { ...ROWS, ...BIASED, schedule: 'tile 128x64', extents: [16, 16, 0] }],
    ['scales of 16 bits', { ...ROWS, scale: 'bf16', schedule: 'tile 128x64', extents: [144, 80, 400] }],
    ['integers', { a: 'i8', scale: 'f32', block: 64, schedule: 'tile 128x64', extents: [144, 80, 272] }],
    ['data of 16 bits', { a: 'bf16', scale: 'f32', block: 128, schedule: 'tile 128x64', extents: [144, 80, 272] }],
    ['one operand scaled', { ...ROWS, bare: 'B', schedule: 'tile 128x64', extents: [144, 80, 272] }],
    ['the other one', { ...BLOCKS, bare: 'A', schedule: 'tile 128x128', extents: [144, 144, 272] }],
    ['rows that TMA cannot address', { ...ROWS, schedule: 'tile 128x64', extents: [130, 80, 135] }],
    ['gated', { ...ROWS, schedule: 'tile 128x64', epilogue: 'x * sigmoid(x)', extents: [130, 80, 256] }],
    ['quantised again', { ...BLOCKS, schedule: 'tile 128x128; scheduler clc', out: 'e4m3[m, n] * f32[m, n/128]', epilogue: 'gelu_tanh(x * alpha)', extents: [144, 304, 400] }],
  ], ['1x128 by 1x128', 'clusters, dynamic', 'one operand scaled', 'scales of 16 bits']))('%s', { timeout: 60_000 }, async (_, c) => void (await passes(c))) // prettier-ignore
})

describe('ptxas', () => {
  test.each(part<[string, Scaled]>([
    ['1x128 by 1x128', { ...ROWS, ...BIASED, schedule: 'tile 128x128; scheduler clc', extents: [16, 16, 128] }],
    ['pairs', { ...BLOCKS, ...BIASED, schedule: 'mma 2cta; tile 256x128; cluster 2x1', extents: [16, 16, 128] }],
    ['integers', { a: 'i8', scale: 'f32', block: 128, ...BIASED, schedule: 'tile 128x128', extents: [16, 16, 128] }],
    ['gathered', { ...ROWS, ...BIASED, schedule: 'tile 128x96; scheduler clc', extents: [16, 16, 135] }],
    ['quantised again', { ...BLOCKS, schedule: 'tile 128x128', out: 'e4m3[m, n] * f32[m, n/128]', epilogue: 'gelu_tanh(x * alpha)', extents: [16, 128, 128] }],
  ], ['integers', 'gathered', 'quantised again']))('spills nothing: %s', { timeout: 60_000 }, (_, c) => expectNoSpills(c)) // prettier-ignore
})

describe('wrong kernels give something else', () => {
  const rows: Scaled = { ...ROWS, block: 64, schedule: 'tile 128x64', extents: [128, 64, 4096] }
  let made: Awaited<ReturnType<typeof passes>>
  let right: Awaited<ReturnType<typeof resultOf>>
  beforeAll(async () => {
    made = await passes(rows)
    right = await resultOf(made, ' ', ' ')
    expect(right).toEqual([...(await made.D.toArray())].map(Number))
  }, 60_000)

  test.each(part<[string, RegExp, string]>([
    ['the first chunk twice', /\(2 \+ i\) \* \(/g, 'i * ('],
    ['the scales of the first chunk for both', /SCALE_A_SLOT \+ 512/g, 'SCALE_A_SLOT'],
    ['scales of other columns', /\+ \(column \+ j\) \* 4/g, '+ (column + (j ^ 4)) * 4'],
    ['parts that add to the one before', /INSTRUCTION, i != 0\)/g, 'INSTRUCTION, true)'],
    ['a part that may be overwritten', /mbarrier_wait\(smem \+ ACC_EMPTY.*/g, ';'],
    ['a part that may not be complete', /mbarrier_wait\(smem \+ ACC_FULL.*/g, ';'],
    ['scales that may not have landed', /mbarrier_wait\(smem \+ SCALES_FULL.*/g, ';'],
    ['scales that may be overwritten', /mbarrier_wait\(smem \+ SCALES_EMPTY.*/g, ';'],
    ['sums that are never put back', /tcgen05_st_x32\(tmem .*/g, ';'],
    ['one slot for all parts', /acc \* ACC_COLUMNS \+ column/g, 'column'],
  ], ['the scales of the first chunk for both', 'parts that add to the one before', 'a part that may not be complete', 'scales that may be overwritten', 'sums that are never put back']))('%s', { timeout: 60_000 }, async (_, from, to) => {
    expect(await resultOf(made, from, to)).not.toEqual(right)
  }) // prettier-ignore
})
