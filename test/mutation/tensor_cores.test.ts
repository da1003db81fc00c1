/**
 * Texts of tensor-core kernels that are broken where they scale, quantise and multiply in parts, as a wrong emitter would: the comparison of `ktl run`
 * refuses each, so no bound is so wide that it hides one; the right kernel has to pass with the same inputs.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Artifact, openDevice, type Device } from '../../runtime/index.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { compileCuda } from '../../runtime/toolchain/compile.ts'
import type { DeviceCase } from '../../runtime/selftest/case.ts'
import { prepareCase } from '../cases/prepare.ts'

type Edit = readonly [what: string, from: string | RegExp, to: string]

interface Subject {
  readonly signature: string
  /** Default: the product. */
  readonly value?: string
  readonly extents: DeviceCase['extents']
  readonly tile?: readonly [number, number]
  /** Default: designs of SM90, without a schedule. */
  readonly on?: 'sm80' | 'sm90'
  readonly schedule?: string
  readonly scalars?: DeviceCase['scalars']
  readonly edits: readonly Edit[]
}

const SUBJECTS: Readonly<Record<string, Subject>> = {
  '1x128 by 128x128': {
    signature: 'A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[n/128, k/128]) -> D: bf16[m, n]',
    extents: { m: 140, n: 300, k: 400 },
    edits: [
      ['the scale of the row before', 'op_A_scale + (i64)(at.m + first * 1)', 'op_A_scale + (i64)max((int)(at.m + first) - 1, 0)'],
      ['the scales of the chunk before', /\(i64\)\(\(k_at\) \/ 128\)/g, '(i64)(k_at / 128 - (k_at > 0))'],
      ['the scale of the first columns', '(at.n + first * 128) / 128', 'first * 128 / 128'],
      ['scales of rows 8 apart are exchanged', /const float scale_low_0 = (.*), scale_high_0 = (.*);/, 'const float scale_low_0 = $2, scale_high_0 = $1;'],
      ['one scale is not multiplied', /scale_low_0 \* scale_columns_0\[.*?\],/g, 'scale_low_0,'],
      ['a part is not promoted', /fmaf\((scale_low_0) \*/g, 'fmaf((k == k_first ? 0.0f : $1) *'],
      ['parts go on from the one before', 'i != 0', 'i != 0 || k != k_first'],
      ['parts replace each other', /, acc\[0 \* CELLS \+ 0 \+ j \+ 1\]\)/g, ', 0.0f)'],
    ],
  },
  '1x128 by 1x128': {
    signature: 'A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[n, k/128]) -> D: bf16[m, n]',
    extents: { m: 130, n: 136, k: 272 },
    edits: [
      ['scales of neighbouring columns are exchanged', 'first = __uint_as_float(both.x), second = __uint_as_float(both.y)', 'first = __uint_as_float(both.y), second = __uint_as_float(both.x)'],
      ['scales of the columns before', 'lane % 4 * 2 + 0', '(lane + 3) % 4 * 2 + 0'],
    ],
  },
  mxfp8: {
    signature: 'A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[n, k] * ue8m0[n, k/32]) -> D: bf16[m, n]',
    extents: { m: 70, n: 72, k: 200 },
    edits: [
      ['scales of the chunk before', /chunk \* 32;/, '(chunk - (chunk > 0)) * 32;'],
      ['the second chunk has the scales of the first', /SCALE_A_SLOT \+ 512/g, 'SCALE_A_SLOT + 0'],
      ['the last chunk is not added', /fmaf\(scale_low_3/g, 'fmaf(0.0f'],
    ],
  },
  rows: {
    signature: 'A: e4m3[m, k] * f32[m], B: e4m3[n, k] * f32[n]) -> D: bf16[m, n]',
    extents: { m: 140, n: 200, k: 272 },
    edits: [
      ['the scale of the row before', 'op_A_scale[m *', 'op_A_scale[max((int)m - 1, 0) *'],
      ['the scale of the column before', /op_B_scale\[\(n\) \*/g, 'op_B_scale[(n > 1 ? n - 2 : 0) *'],
    ],
  },
  'quantised blocks': {
    signature: 'A: f16[m, k], B: f16[n, k]) -> D: i8[m, n] * f32[m, n/128]',
    extents: { m: 140, n: 272, k: 200 },
    edits: [
      ['the reciprocal of 127 is approximate', '0.007874016f', '0.00787f'],
      ['half of the row is not asked for its largest', 'left[COUNT / 2 - 1], 2)', 'left[COUNT / 2 - 1], 0)'],
      ['a column is missing in the maximum', /for \(u32 e = 0; e < (\d+); \+\+e\) most/, 'for (u32 e = 1; e < $1; ++e) most'],
      ['rounded before it is quantised', /fminf\((v_D\[[^\]]*\]) \* factor/, 'fminf(__uint_as_float(__float_as_uint($1) & 0xffff0000u) * factor'],
      ['the scale of a row beside it', /1\.0f \/ code/, '1.0f / __shfl_xor_sync(~0u, code, 4)'],
    ],
  },
  'into mxfp8': {
    signature: 'A: f16[m, k], B: f16[n, k]) -> D: e4m3[m, n] * ue8m0[m, n/32]',
    extents: { m: 70, n: 144, k: 72 },
    edits: [
      ['powers of two rounded down', 'code = (bits >> 23) + up;', 'code = (bits >> 23);'],
      ['stored beside its place', '* 32)) / 32 *', '* 32)) / 32 % 4 *'],
    ],
  },
  'into mxfp6': {
    signature: 'A: f16[m, k], B: f16[n, k]) -> D: e3m2[m, n] * ue8m0[m, n/32]',
    extents: { m: 70, n: 141, k: 72 },
    edits: [
      ['the elements of the other lane first', 'two | other << 12 : other | two << 12', 'other | two << 12 : two | other << 12'],
      ['a byte too few', 'b < 3; ++b', 'b < 2; ++b'],
    ],
  },
  'blocks wider than what is held': {
    signature: 'A: f16[m, k], B: f16[n, k], C: f32[m, n], E: f32[m, n], bias: f32[n], gain: f32[n]) -> D: i8[m, n] * f32[m, n/128]',
    value: '(sum[k](A * B) + bias + C) * gain + E',
    extents: { m: 140, n: 272, k: 72 },
    edits: [
      ['one sub-tile is not measured', /fabsf\((v_D\[[^;]*\])\)\);/, 'column == 0 ? 0.0f : fabsf($1));'],
    ],
  },
  '1x64 by 1x128 on SM80': {
    signature: 'A: i8[m, k] * f32[m, k/64], B: i8[n, k] * f32[n/128, k/128]) -> D: bf16[m, n]',
    extents: { m: 70, n: 200, k: 339 },
    tile: [64, 64],
    on: 'sm80',
    schedule: 'schedule f on sm_80 { tile 64x64 }',
    edits: [
      ['scales of rows 8 apart are exchanged', /const float scale_low_0 = (.*), scale_high_0 = (.*);/, 'const float scale_low_0 = $2, scale_high_0 = $1;'],
      ['scales of the other warp', / \+ warp_n \* WARP_N \/ 32 \* 4/g, ' + (warp_n ^ 1) * WARP_N / 32 * 4'],
      ['scales of the warp beside it', /warp_m \* WARP_M \+ 0 \* ROWS_PER_WARP/g, '(warp_m ^ 1) * WARP_M + 0 * ROWS_PER_WARP'],
      ['sums go on from the chunk before', 'sums[i] = 0', 'if (k == k_first) sums[i] = 0'],
      ['the second chunk has the scales of the first', /SCALE_A_SLOT \+ 256/g, 'SCALE_A_SLOT + 0'],
      ['the second block of rows is not added', /fmaf\(scale_low_1/g, 'fmaf(0.0f'],
    ],
  },
  'rows put in place': {
    signature: 'A: bf16[m, k], B: bf16[n, k]) -> D: bf16[m, n]',
    extents: { m: 70, n: 133, k: 99 },
    tile: [64, 64],
    on: 'sm80',
    schedule: 'schedule f on sm_80 {\n  tile 64x64\n  depth 32\n}',
    edits: [
      ['rows are not turned', /smem_b_turn\[\d\]\);/g, '0);'],
      ['rows are moved as far as another row', 'smem_b_from[0], smem_b_turn[0]', 'smem_b_from[1], smem_b_turn[0]'],
      ['a lane has the neighbouring row', 'lane / 8 * 2) * 48', '(lane / 8 ^ 1) * 2) * 48'],
      ['a word stays where it was', /store_shared_b32\(own \+ 48, words\[1\]\);/, ''],
      ['fragments of the other half of k', 'lane / 8 % 2 * 16', '(lane / 8 + 1) % 2 * 16'],
    ],
  },
  'f32 in parts': {
    signature: 'A: f32[m, k], B: f32[n, k]) -> D: f32[m, n]',
    extents: { m: 70, n: 72, k: 72 },
    tile: [64, 64],
    on: 'sm80',
    schedule: 'schedule f on sm_80 { f32 tf32x3 }',
    edits: [
      ['tf32 alone', /low\[i\] = .*;/, 'low[i] = 0;'],
      ['no smaller part of A', /.*\(sum, a_low, b_high\);\n/, ''],
      ['no smaller part of B', /.*\(sum, a_high, b_low\);\n/, ''],
      ['the smaller parts with each other', '(sum, a_high, b_low)', '(sum, a_low, b_low)'],
      ['the rest of the element beside it', '__uint_as_float(x[i]) -', '__uint_as_float(x[i ^ 1]) -'],
      ['the rest of what is not rounded', '- __uint_as_float(high[i])', '- __uint_as_float(x[i] & 0xffffe000)'],
      ['a step replaces the sum', 'd[i] += sum[i]', 'd[i] = sum[i]'],
    ],
  },
} // prettier-ignore

let device: Device
beforeAll(async () => {
  device = await openDevice('virtual-sm90')
})
afterAll(() => device.close())

const caseOf = (name: string, { signature, value = 'sum[k](A * B)', extents, tile = [128, 128], on = 'sm90', schedule = '' }: Subject): DeviceCase => ({
  name, kernel: 'f', source: `kernel f(${signature} { D = ${value} }\n${schedule}`, types: {}, design: { kind: on, tile }, extents, operands: {}, inputs: 'normal',
}) // prettier-ignore

describe.each(Object.entries(SUBJECTS))('%s', { timeout: 60_000 }, (name, subject) => {
  test.each([['as it is', /$/, ''], ...subject.edits] as readonly Edit[])('%s', async (what, from, to) => {
    const { kernel, args, guards } = await prepareCase(device, caseOf(name, subject))
    expect(kernel!.plan.kind).toBe(subject.on ?? 'sm90')
    const { info, sections } = await kernel!.compile(args)
    const cuda = new TextDecoder().decode(sections.find((section) => section.name === 'cuda')!.bytes)
    const broken = cuda.replace(from, to)
    if (to !== '') expect(broken).not.toBe(cuda)
    const { image } = await compileCuda(broken, { arch: 'sm_90a', kind: 'ptx' })
    const artifact = new Artifact(info, sections.map((section) => (section.name === 'ptx' ? { ...section, bytes: image } : section)))
    const { check } = await verify(kernel!, args, { artifact })
    expect(check.pass).toBe(what === 'as it is')
    guards.forEach((guard) => guard.free())
  })
}) // prettier-ignore
