/** Rows that begin anywhere: operands that are copied, outputs that leave as words of memory, and products of a few rows with a matrix. */
import type { DeviceCase } from '../../runtime/selftest/case.ts'

type Design = DeviceCase['design']

const unaligned = (
  name: string,
  design: Design,
  schedule: string,
  body: string,
  extents: DeviceCase['extents'],
): DeviceCase => {
  const kernel = `unaligned${schedule.length}`
  const on = { simt: 'simt', sm80: 'sm_80', sm90: 'sm_90', sm100: 'sm_100' }[design.kind]
  const source = `kernel ${kernel}${body}\nschedule ${kernel} on ${on} {\n  ${schedule}\n}\n`
  return { name: `unaligned: ${name}`, kernel, source, types: {}, design, extents, operands: {}, inputs: 'integers' }
}

const TILE = { kind: 'sm90', tile: [64, 64] } as const
const WARPS = { kind: 'sm80', tile: [64, 64] } as const
const VECTOR = { kind: 'simt' } as const
const PLAIN = '(A: bf16[m, k], B: bf16[n, k], bias: f32[n]) -> D: bf16[m, n] { D = relu(sum[k](A * B) + bias) }'
const FULL =
  '(A: bf16[m, k], B: bf16[n, k], C: bf16[m, n], E: e4m3[m, n]) -> D: bf16[m, n] { D = relu(sum[k](A * B) + C) + E }'
const WIDE = { kind: 'sm90', tile: [256, 144] } as const
const BYTES = '(A: e4m3[m, k], B: e4m3[n, k]) -> D: e4m3[m, n] { D = sum[k](A * B) }'
const I8 = '(A: i8[m, k], B: i8[n, k]) -> D: i32[m, n] { D = sum[k](A * B) }'
const FLOATS = '(A: bf16[m, k], B: bf16[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }'

export const UNALIGNED_CASES: readonly DeviceCase[] = [
  unaligned('copies, rows of words', TILE, 'consumers pingpong\n  tile 64x64', PLAIN, { m: 150, n: 131, k: 203 }),
  unaligned('rows of whole words', TILE, 'consumers pingpong\n  tile 64x64', PLAIN, { m: 150, n: 134, k: 203 }),
  unaligned('of floats', TILE, 'consumers cooperative\n  tile 64x64', FLOATS, { m: 70, n: 131, k: 145 }),
  unaligned('of bytes', TILE, 'consumers cooperative\n  tile 64x64', BYTES, { m: 70, n: 131, k: 145 }),
  unaligned('operands of the epilogue', TILE, 'consumers cooperative\n  tile 64x64', FULL, { m: 70, n: 131, k: 65 }),
  unaligned('144 columns, transposed', WIDE, 'consumers cooperative\n  tile 256x144\n  operands ba', PLAIN, {
    m: 150,
    n: 259,
    k: 72,
  }),
  unaligned('operands by words', WARPS, 'tile 64x64\n  stages 2', PLAIN, { m: 150, n: 134, k: 202 }),
  unaligned('bytes by words', WARPS, 'tile 64x64\n  depth 64', I8, { m: 70, n: 131, k: 332 }),
  unaligned('short sums', VECTOR, 'tile 8x32\n  patch 8x4', FULL, { m: 70, n: 131, k: 11 }),
  unaligned('few rows', VECTOR, 'vector rows4', PLAIN, { m: 3, n: 21, k: 2203 }),
]
