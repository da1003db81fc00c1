/** Epilogue strings that read operands at indices, and compute with positions. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EpilogueArguments } from '../../runtime/arguments/epilogue.ts'
import { GemmArguments } from '../../runtime/arguments/gemm.ts'
import type { RuntimeArguments } from '../../runtime/arguments/base.ts'
import type { Device, Tensor } from '../../runtime/devices/device.ts'
import { readEpilogue } from '../../runtime/cli/epilogue.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { ConvolutionArguments } from '../../runtime/operations/convolution.ts'
import { GroupedGemmArguments } from '../../runtime/operations/grouped_gemm.ts'
import { quantize } from '../../runtime/operations/quantize.ts'
import { randomValues } from '../../runtime/selftest/values.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { FULL, part } from '../cases_of.ts'
import { errorOf } from './errors.ts'

let device: Device
beforeAll(async () => {
  device = await openDevice('virtual-sm100')
})
afterAll(() => device.close())

const random = (dtype: 'f32' | 'f16' | 'bf16', shape: readonly number[], seed = 1): Tensor =>
  device.tensor(dtype, shape, randomValues(dtype, shape.reduce((product, extent) => product * extent, 1), seed, 'normal')) // prettier-ignore
const ints = (...values: number[]): Tensor => device.tensor('i32', [values.length], values)

/** The first of the kernels and the last, in the full test some between, held against the evaluator. */
async function check(args: RuntimeArguments): Promise<void> {
  const kernels = [...getKernels(args)]
  expect(kernels.length).toBeGreaterThan(0)
  const step = Math.max(1, Math.ceil((kernels.length - 1) / (FULL ? 3 : 1)))
  for (const kernel of kernels.filter((_, i) => i % step === 0 || i === kernels.length - 1)) {
    const { check } = await verify(kernel as KtlKernel, args)
    expect(check.worst && check).toMatchObject({ pass: true })
  }
}

const [m, n, k] = [8, 16, 16]
const gemm = (text: string, bindings: Record<string, Tensor | number> = {}) =>
  new GemmArguments({
    A: random('f16', [m, k]), B: random('f16', [k, n], 2), out: device.empty('f32', [m, n]), epilogue: new EpilogueArguments(text, bindings),
  }) // prettier-ignore

describe('GEMM', () => {
  test('what they compute', async () => {
    const args = gemm('acc * 0 + T[ids[m], n / 2] + select(n <= m, 100, 0)', {
      T: device.tensor(
        'f32',
        [3, n / 2],
        Array.from({ length: (3 * n) / 2 }, (_, i) => i),
      ),
      ids: ints(2, 0, 1, 1, 0, 2, 2, 1),
    })
    await getKernels(args)[0]!.run(args)
    const ids = [2, 0, 1, 1, 0, 2, 2, 1]
    const expected = ids.flatMap((id, row) =>
      Array.from({ length: n }, (_, column) => id * (n / 2) + Math.floor(column / 2) + (column <= row ? 100 : 0)),
    )
    expect([...(await args.out.toArray())]).toEqual(expected)
  })

  const reads: readonly (readonly [string, string, () => Record<string, Tensor | number>])[] = [
    ['positions', 'select(n <= m, acc, -inf)', () => ({})],
    ['a slope', 'acc + slope * f32(n - m)', () => ({ slope: 0.5 })],
    ['half the columns', 'acc + bias[n / 2]', () => ({ bias: random('f32', [n / 2]) })],
    ['what is outside', 'acc + X[m - 1, n] else 0.5', () => ({ X: random('f16', [m, n]) })],
    [
      'looked-up rows',
      'relu(acc) * T[ids[m], n]',
      () => ({ T: random('bf16', [5, n]), ids: ints(4, 0, 2, 1, 3, 0, 0, 4) }),
    ],
    ['a shape of its own', 'acc + T[m % 2, n / 4, m / 4]', () => ({ T: random('f32', [2, 4, 2]) })],
    ['another order in memory', 'acc + T[n / 2, m]', () => ({ T: random('f32', [m, n / 2]).permute([1, 0]) })],
    [
      'beside operands without brackets',
      'acc + bias[n / 2] + row[m] + C',
      () => ({ bias: random('f32', [n / 2]), row: random('f32', [m]), C: random('f32', [m, n]) }),
    ],
  ]
  const kept = [
    'positions',
    'what is outside',
    'looked-up rows',
    'another order in memory',
    'beside operands without brackets',
  ]
  test.each(part(reads, ['a slope', 'half the columns', 'a shape of its own'], kept))('%s', async (_, text, bindings) => {
    const args = gemm(text, bindings())
    await check(args)
    expect(getKernels(args).some(({ metadata }) => metadata.design.kind === 'sm100')).toBe(true)
  }) // prettier-ignore

  test('with a batch, and of scaled operands', async () => {
    const epilogue = new EpilogueArguments('acc + T[ids[m], l]', { T: random('f32', [3, 2]), ids: ints(0, 1, 2, 0, 1, 2, 0, 1) })
    await check(new GemmArguments({ A: random('f16', [2, m, k]), B: random('f16', [2, k, n]), out: device.empty('f32', [2, m, n]), epilogue }))
    const A = await quantize(random('f32', [m, 32]), 'e4m3[m, k] * ue8m0[m, k/32]')
    const B = await quantize(random('f32', [32, n], 2), 'e4m3[k, n] * ue8m0[k/32, n]')
    const bias = new EpilogueArguments('acc + bias[n / 2]', { bias: random('f32', [n / 2]) })
    await check(new GemmArguments({ A, B, out: device.empty('f32', [m, n]), epilogue: bias }))
  }) // prettier-ignore

  test('the same kernel serves other tables', async () => {
    const first = gemm('acc + T[m / 4, n]', { T: random('f32', [2, n]) })
    const [kernel] = getKernels(first)
    const second = gemm('acc + T[m / 4, n]', { T: random('f32', [7, n], 9) })
    expect((await verify(kernel as KtlKernel, second)).check.pass).toBe(true)
  })

  test.each([
    ['a name that is no axis', 'select(n <= x, acc, 0)', () => ({}), 'KTL2023'],
    ['a name that is none in a product', 'acc * n', () => ({}), 'KTL2023'],
    ['the summed axis', 'select(n <= k, acc, 0)', () => ({}), 'KTL2023'],
    ['an index outside', 'acc + bias[n / 2 + 1]', () => ({ bias: random('f32', [n / 2]) }), 'KTL4046'],
    ['too few indices', 'acc + T[n / 2]', () => ({ T: random('f32', [2, n]) }), 'KTL2035'],
    ['one that is read both ways', 'acc + T[n / 2] + T', () => ({ T: random('f32', [n]) }), 'KTL2035'],
    ['an index that is no integer', 'acc + T[X[m], n / 2]', () => ({ T: random('f32', [2, n]), X: random('f32', [m]) }), 'KTL2220'],
    ['the accumulator elsewhere', 'acc[m, n - 1]', () => ({}), 'KTL2029'],
  ])('refuses %s', async (_, text, bindings, code) => {
    expect((await errorOf(() => gemm(text, bindings()))).code).toBe(code)
  }) // prettier-ignore
})

test('groups of rows: their bias, and gathered rows', async () => {
  const make = (text: string, bindings: Record<string, Tensor>) =>
    new GroupedGemmArguments({
      A: random('bf16', [20, k]), B: random('bf16', [3, k, n], 2), out: device.empty('f32', [20, n]), offsets: ints(7, 7, 18),
      epilogue: new EpilogueArguments(text, bindings),
    }) // prettier-ignore
  await check(make('acc + bias[g, n]', { bias: random('f32', [3, n]) }))
  await check(make('acc * w[ids[t]] + bias[g, n / 2]', { w: random('f32', [9]), ids: device.tensor('i32', [20], Array.from({ length: 20 }, (_, i) => i % 9)), bias: random('f32', [3, n / 2]) })) // prettier-ignore
  expect((await errorOf(() => make('acc + bias', { bias: random('f32', [3, n]) }))).code).toBe('KTL2033')
})

test('outputs of any rank', async () => {
  const make = (text: string, bindings: Record<string, Tensor>) =>
    new ConvolutionArguments({
      input: random('f16', [2, 4, 4, 2]), filter: random('f16', [6, 3, 3, 2], 2), out: device.empty('f32', [2, 4, 4, 6]), padding: 1,
      epilogue: new EpilogueArguments(text, bindings),
    }) // prettier-ignore
  await check(make('relu(acc + bias)', { bias: random('f32', [6]) }))
  await check(make('acc + pos[p0, p1] * per[b, f]', { pos: random('f32', [4, 4]), per: random('f32', [2, 6]) }))
  await check(make('acc + bias[f / 3] + select(p0 == p1, skip[b, p0 / 2, p1 / 2, f], 0)', { bias: random('f32', [2]), skip: random('f16', [2, 2, 2, 6]) })) // prettier-ignore
})

test('on the command line positions are none of the operands, and tables have no shapes there', async () => {
  const output = { axes: ['l', 'm', 'n'], present: ['m', 'n'], dtype: 'f32' } as const
  expect(readEpilogue('select(n <= m, acc, 0) + bias[n]', {}, output).operands.map(({ name }) => name)).toEqual([
    'bias',
  ])
  expect((await errorOf(() => readEpilogue('acc + T[n / 2]', {}, output))).code).toBe('KTL4103')
})
