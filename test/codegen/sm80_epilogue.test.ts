/** Epilogues of SM80 kernels against the reference, on the virtual SM90 and SM100; every target's ptxas takes them without spills. */
import { describe, expect, test } from 'vitest'
import { planInstance } from '../../codegen/index.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { getKernels, openDevice, type DeviceSpec } from '../../runtime/index.ts'
import { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { runCase } from '../../runtime/selftest/run_case.ts'
import { prepareCase } from '../cases/prepare.ts'
import { FULL, part } from '../cases_of.ts'
import { bound, generated } from '../compiler/support.ts'
import { assemble } from './assemble.ts'
import { HALF, INTEGERS, REDUCED } from './epilogue_sources.ts'

const FLOATS = `kernel floats(A: f16[m, k], B: f16[n, k], C: f16[m, n], E: i8[m, n], bias: f32[n], scale: f32[m], alpha: f32)
  -> (F: tf32[n, m], G: u8[m, n], H: f64[m, n], I: bf16[n, m], P: f16[m, n], Q: f32[m, n]) {
  acc = sum[k](A * B) * alpha
  F = acc * 2
  G = u8(acc)
  H = acc + E
  I = acc + scale
  P = relu(acc + C + bias)
  Q = acc * acc
}`
const GATED = `kernel gated(A: bf16[m, k], B: bf16[n, k], C: bf16[k, n]) -> D: bf16[m, n] { D = relu(sum[k](A * B)) * sum[k](A * C) }`
const TURNED = `kernel turned(A: f16[k, m], B: f16[k, n], C: bf16[n, m]) -> (D: f16[n, m], F: f32[m, n]) {
  F = sum[k](A * B) + C
  D = relu(F)
}`
const ADDED = `kernel added(A: f16[m, k], B: f16[n, k], C: f16[m, n]) -> D: f16[m, n] { D = sum[k](A * B) + C }`
const LONG = `kernel long(A: bf16[m, k], B: bf16[k, n], C: bf16[m, n], bias: bf16[n]) -> (D: bf16[m, n], E: f32[m, n]) {
  x = sum[k](A * B) + C + bias
  D = gelu(x) * sigmoid(x)
  E = gelu_tanh(x)
}`

describe('on the virtual devices', () => {
  const CASES: readonly (readonly [string, string, string, Readonly<Record<string, number>>, DeviceSpec])[] = [
    // Formats that sm_80 does not convert: on the devices' own targets, which have these designs where rows are not aligned.
    ['floats', FLOATS, '128x64', { m: 150, n: 141, k: 71 }, 'virtual-sm90'],
    ['floats', FLOATS, '64x96', { m: 150, n: 141, k: 71 }, 'virtual-sm100'],
    ['integers', INTEGERS, '64x64', { m: 150, n: 144, k: 80 }, 'virtual-sm90'],
    ['reduced', REDUCED, '128x64', { l: 2, m: 200, n: 136, k: 72 }, 'virtual-sm90'],
    ['reduced', REDUCED, '64x96', { l: 3, m: 70, n: 200, k: 40 }, 'virtual-sm100'],
    ['gated', GATED, '128x128', { m: 140, n: 144, k: 40 }, 'virtual-sm90'],
    ['half', HALF, '128x64', { m: 140, n: 144, k: 16 }, 'virtual-sm90'],
    ['turned', TURNED, '64x32', { m: 67, n: 48, k: 16 }, 'virtual-sm90'],
    // Elements of the tile and, of larger tiles, of one sub-tile in registers; in pairs, where rows are aligned; warps with columns beyond n.
    ['added', ADDED, '64x64', { m: 90, n: 67, k: 70 }, 'virtual-sm90'],
    ['added', ADDED, '128x128', { m: 150, n: 145, k: 70 }, 'virtual-sm90'],
    ['added', ADDED, '128x128', { m: 150, n: 168, k: 66 }, 'virtual-sm100'],
    // What no boxes can be cut from.
    ['reduced', REDUCED, '64x32', { l: 2, m: 61, n: 67, k: 33 }, 'virtual-sm90'],
    ['integers', INTEGERS, '64x64', { m: 61, n: 67, k: 33 }, 'virtual-sm100'],
  ] // prettier-ignore

  // Kernels of other cases, in other tiles.
  const alike: readonly (typeof CASES)[number][] = [CASES[1]!, CASES[4]!]
  test.each(CASES.filter((one) => FULL || !alike.includes(one)))('%s, case %#: equal to the reference', { timeout: 60_000 }, async (kernel, text, tile, extents, spec) => {
    const device = await openDevice(spec)
    const [m, n] = tile.split('x').map(Number)
    const scalars: Record<string, number> = kernel === 'floats' ? { alpha: 2 } : {}
    const source = `${text}\nschedule ${kernel} on sm_80 { tile ${tile} }\n`
    const prepared = await prepareCase(device, {
      name: kernel, kernel, source, scalars, types: {}, operands: {}, inputs: 'integers', extents, design: { kind: 'simt' },
    })
    const [chosen] = getKernels(prepared.args, { ...(kernel !== 'floats' && { cc: 80 }), metadataFilter: ({ design }) => design.kind === 'sm80' && design.tileShape[0] === m && design.tileShape[1] === n })
    expect(chosen).toBeInstanceOf(KtlKernel)
    const result = await runCase({ ...prepared, kernel: chosen as KtlKernel }, { checks: 'full' })
    await device.close()
    expect(result.text).toBe('max error 0')
    expect(result.pass).toBe(true)
  })
}) // prettier-ignore

test.each([
  ['sm_80', 'e4m3', 'KTL2904'],
  ['sm_80', 'e5m2', 'KTL2904'],
  ['sm_80', 'tf32', 'KTL2904'],
  ['sm_80', 'f16', null],
  ['sm_90a', 'e4m3', null],
  ['sm_90a', 'ue8m0', 'KTL2904'],
] as const)('%s: an output in %s: %s', (target, dtype, code) => {
  const program = bound(`kernel g(A: f16[m, k], B: f16[k, n]) -> D: ${dtype}[m, n] { D = sum[k](A * B) }`)
  const plan = planInstance({
    program,
    target,
    design: { kind: 'sm80', tile: [64, 64, 64], warps: 'auto', operands: 'ab', stages: 'auto' },
  })
  expect('kind' in plan ? null : plan.code).toBe(code)
  // Operands go to the tensor cores as they are.
  const operands = bound('kernel g(A: tf32[m, k], B: tf32[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }')
  expect(
    planInstance({
      program: operands,
      target: 'sm_80',
      design: { kind: 'sm80', tile: [64, 64, 32], warps: 'auto', operands: 'ab', stages: 'auto' },
    }),
  ).toHaveProperty('kind')
})

// Warps share rows and columns by the bits of their numbers.
test.each([
  [[64, 96, 16], 'a tile of 96 rows or columns of f32'],
  [[48, 128, 16], 'a tile of 48 rows or columns of f32'],
] as const)('f32 on CUDA cores: no tile of %s', (tile, form) => {
  const program = bound('kernel g(A: f32[m, k], B: f32[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }')
  const design = { kind: 'sm80', tile, warps: 'auto', operands: 'ab', stages: 'auto' } as const
  const plan = planInstance({ program, target: 'sm_80', design })
  expect(plan).toMatchObject({ code: 'KTL2904', reason: expect.stringContaining(form) })
})

describe('ptxas', () => {
  const plain = (dtype: string, out: string, order = '[m, k]'): TensorProgram =>
    bound(`kernel g(A: ${dtype}${order}, B: ${dtype}[k, n]) -> D: ${out}[m, n] { D = sum[k](A * B) }`)
  const CASES: readonly (readonly [string, TensorProgram, Sm80Design['tile'], string])[] = [
    ['tile of most columns', plain('bf16', 'bf16'), [128, 256, 32], 'sm_80'],
    ['tile of most rows', plain('f16', 'f16', '[k, m]'), [256, 128, 32], 'sm_86'],
    ['long functions', bound(LONG), [64, 64, 64], 'sm_89'],
    ['two accumulators', bound(GATED), [128, 128, 32], 'sm_120'],
    ['many outputs', bound(FLOATS), [64, 64, 64], 'sm_90a'],
    ['tf32', plain('tf32', 'f32', '[k, m]'), [128, 128, 16], 'sm_100a'],
    ['integers', bound(INTEGERS), [64, 64, 128], 'sm_103a'],
    ['fp8', plain('e4m3', 'f16'), [128, 64, 128], 'sm_89'],
    ['fp8 on Blackwell', plain('e5m2', 'bf16'), [64, 64, 128], 'sm_120'],
    ['reductions', bound(REDUCED), [64, 64, 64], 'sm_80'],
    ['bytes, both operands transposed', bound('kernel g(A: i8[k, m], B: i8[k, n]) -> D: i32[m, n] { D = sum[k](A * B) }'), [64, 64, 128], 'sm_100a'],
    ['copies of two orders', bound('kernel g(A: bf16[l?, k, m], B: bf16[l?, n, k]) -> D: bf16[l?, m, n] { D = sum[k](A * B) }'), [128, 128, 32], 'sm_100a'],
  ] // prettier-ignore

  const leftOut = ['tile of most rows', 'two accumulators', 'fp8', 'reductions', 'copies of two orders']
  test.each(part(CASES, leftOut))('%s: 0 spills', { timeout: 60_000 }, (_, program, tile, arch) => {
    const target: TargetArch = arch === 'sm_80' || arch === 'sm_86' ? 'sm_80' : 'sm_90a'
    const plan = planInstance({ program, target, design: { kind: 'sm80', tile, warps: 'auto', operands: 'ab', stages: 'auto' } })
    if (!('kind' in plan)) throw new Error(plan.reason)
    const { status, output } = assemble(generated(plan, 'ktl.test').cuda, arch)
    expect(output).not.toMatch(/error|[Ww]arning/)
    expect(output).toContain('0 bytes spill stores, 0 bytes spill loads')
    expect(status).toBe(0)
  })
}) // prettier-ignore
