/** Kernels of classes: found by what they compute, the library's and users', and gradients that are gradients. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { EpilogueArguments } from '../../runtime/arguments/epilogue.ts'
import { GemmArguments } from '../../runtime/arguments/gemm.ts'
import { KernelArguments } from '../../runtime/arguments/kernel.ts'
import type { Device, Tensor } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { explainKernels } from '../../runtime/discovery/explain.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import type { RuntimeArguments } from '../../runtime/arguments/base.ts'
import { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { OperandsMetadata, type GroupedGemmOperandsMetadata } from '../../runtime/metadata/index.ts'
import { AttentionArguments } from '../../runtime/operations/attention.ts'
import { ConvolutionArguments } from '../../runtime/operations/convolution.ts'
import { GroupedGemmArguments } from '../../runtime/operations/grouped_gemm.ts'
import { quantize } from '../../runtime/operations/quantize.ts'
import { libraryKernels } from '../../runtime/programs/library.ts'
import { loadSource, register } from '../../runtime/programs/program.ts'
import { randomValues } from '../../runtime/selftest/values.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { FULL, part, sampled } from '../cases_of.ts'
import { workOf } from '../work.ts'
import { errorOf } from './errors.ts'

let device: Device
beforeAll(async () => {
  device = await openDevice('virtual-sm100')
})
afterAll(() => device.close())

const registered: (() => void)[] = []
afterEach(() => registered.splice(0).forEach((unregister) => unregister()))
const registerText = (text: string): void => void registered.push(register(loadSource({ name: 'own.ktl', text })))

const count = (shape: readonly number[]): number => shape.reduce((product, extent) => product * extent, 1)
const random = (dtype: 'f32' | 'f16' | 'bf16', shape: readonly number[], seed = 1): Tensor =>
  device.tensor(dtype, shape, randomValues(dtype, count(shape), seed, 'normal'))
const ints = (...values: number[]): Tensor => device.tensor('i32', [values.length], values)
const familiesFor = (args: RuntimeArguments): string[] => [
  ...new Set([...getKernels(args)].map((kernel) => (kernel as KtlKernel).planned.space.family.name)),
]
const isOfLibrary = (args: RuntimeArguments): boolean =>
  (getKernels(args)[0] as KtlKernel).planned.space.library === true

/** The best kernel of each family and backend, in the full test the last one too: designs have tests of their own. */
async function checkAll(args: RuntimeArguments): Promise<void> {
  const kernels = [...getKernels(args)] as KtlKernel[]
  const keyOf = ({ planned, plan }: KtlKernel): string => `${planned.space.family.name} ${plan.kind}`
  const firsts = new Map([...kernels].reverse().map((kernel) => [keyOf(kernel), kernel]))
  const lasts = new Map(kernels.map((kernel) => [keyOf(kernel), kernel]))
  for (const kernel of new Set([...firsts.values(), ...(FULL ? lasts.values() : [])])) {
    const { check } = await verify(kernel, args)
    expect(check.worst && check).toMatchObject({ pass: true })
  }
}

const attention = (more: Partial<ConstructorParameters<typeof AttentionArguments>[0]> = {}, hk = 4) =>
  new AttentionArguments({
    Q: random('bf16', [2, 4, 5, 8]), K: random('bf16', [2, hk, 7, 8], 2), V: random('bf16', [2, hk, 7, 8], 3),
    out: device.empty('bf16', [2, 4, 5, 8]), ...more,
  }) // prettier-ignore
const conv = (more: object = {}, input = [1, 5, 5, 4], filter = [6, 3, 3, 4], out = [1, 5, 5, 6]) =>
  new ConvolutionArguments({
    input: random('f16', input), filter: random('f16', filter, 2), out: device.empty('f32', out), padding: 1, ...more,
  }) // prettier-ignore
const grouped = (more: object = {}) =>
  new GroupedGemmArguments({
    A: random('bf16', [20, 16]), B: random('bf16', [3, 16, 12], 2), out: device.empty('f32', [20, 12]), offsets: ints(7, 7, 18), ...more,
  }) // prettier-ignore

describe('the library has a family for', () => {
  const classes = [
    // prettier-ignore
    ['attention', () => attention()],
    ['attention_lse', () => attention({ lse: device.empty('f32', [2, 4, 5]) })],
    ['attention_gqa', () => attention({}, 2)],
    ['attention_causal', () => attention({ causal: 'bottom-right' })],
    ['attention_causal_gqa_lse', () => attention({ causal: 'bottom-right', lse: device.empty('f32', [2, 4, 5]) }, 1)],
    ['conv', () => conv()],
    ['conv_groups', () => conv({ groups: 2 }, [1, 5, 5, 4], [6, 3, 3, 2])],
    ['conv1d', () => conv({ stride: 2 }, [2, 9, 4], [6, 3, 4], [2, 5, 6])],
    ['conv3d', () => conv({ padding: 0 }, [1, 3, 4, 3, 2], [3, 2, 2, 2, 2], [1, 2, 3, 2, 3])],
    ['grouped_gemm', () => grouped()],
    ['grouped_gemm_padded', () => grouped({ A: random('bf16', [3, 6, 16]), out: device.empty('f32', [3, 6, 12]), offsets: ints(6, 0, 2) })],
    ['grouped_weight_gradient', () => grouped({ A: random('bf16', [16, 20]), B: random('bf16', [20, 12], 2), out: device.empty('f32', [3, 16, 12]) })],
  ] as const // prettier-ignore
  // One has what two others have; operations.test.ts runs a convolution along one axis.
  const leftOut = ['attention_lse', 'attention_gqa', 'conv1d']
  const kept = classes.map(([family]) => family).filter((family) => !leftOut.includes(family))
  test.each(part(classes, leftOut, kept))('%s', async (family, make) => {
    const args = make()
    expect([familiesFor(args), isOfLibrary(args)]).toEqual([[family], true])
    await checkAll(args)
    expect(explainKernels(args).supported).toBe(getKernels(args).length)
    for (const { metadata } of getKernels(args)) expect(metadata.supports(args)).toEqual({ ok: true })
  }) // prettier-ignore

  // Of the forms every second one: cli_run.test.ts and library_kernels.test.ts have weights of integers and blocks of 1x128.
  test.each(sampled([
    ['gemm_mx', 'e4m3[m, k] * ue8m0[m, k/32]', 'e2m1[k, n] * ue8m0[k/32, n]'],
    ['gemm_mx', 'e3m2[m, k] * ue8m0[m, k/32]', 'e2m3[k, n] * ue8m0[k/32, n]'],
    ['gemm_nvfp4', 'e2m1[m, k] * ue4m3[m, k/16] * f32', 'e2m1[k, n] * ue4m3[k/16, n] * f32'],
    ['gemm_e2m1', 'e2m1[m, k] * ue4m3[m, k/16]', 'e2m1[k, n] * ue4m3[k/16, n]'],
    ['gemm_rowwise', 'e4m3[m, k] * f32[m]', 'e5m2[k, n] * f32[n]'],
    ['gemm_int8_rowwise', 'i8[m, k] * f32[m]', 'i8[k, n] * f32[n]'],
    ['gemm_tensorwise', 'e4m3[m, k] * f32', 'e4m3[k, n] * f32'],
    ['gemm_1x128', 'e4m3[m, k] * f32[m, k/128]', 'e4m3[k, n] * f32[k/128, n]'],
    ['gemm_128x128', 'e4m3[m, k] * f32[m, k/128]', 'e4m3[k, n] * f32[k/128, n/128]'],
    ['gemm_u4_weights', null, '(u4[k, n] - u4[k/128, n]) * f16[k/128, n]'],
    ['gemm_int_weights', null, 'i4[k, n] * f16[k/128, n]'],
  ] as const))('%s of %s and %s', async (family, a, b) => {
    const [m, n, k] = [12, 24, 136]
    const A = a === null ? random('f16', [m, k]) : await quantize(random('f32', [m, k]), a)
    const args = new GemmArguments({ A, B: await quantize(random('f32', [k, n], 2), b), out: device.empty('bf16', [m, n]) })
    expect([familiesFor(args), isOfLibrary(args)]).toEqual([[family], true])
    const [kernel] = getKernels(args)
    const { check } = await verify(kernel as KtlKernel, args)
    expect(check.worst && check).toMatchObject({ pass: true })
    expect(kernel!.metadata.supports(args)).toEqual({ ok: true })
    const plain = new GemmArguments({ A: random('f16', [m, k]), B: random('f16', [k, n]), out: args.out })
    expect(getKernels(plain)[0]!.metadata.supports(args)).toMatchObject({ ok: false, code: 'KTL4030' })
  }) // prettier-ignore

  test('batches, of which one operand has none', async () => {
    const A = await quantize(random('f32', [2, 12, 64]), 'e4m3[l, m, k] * ue8m0[l, m, k/32]')
    const B = await quantize(random('f32', [64, 8], 2), 'e4m3[k, n] * ue8m0[k/32, n]')
    const args = new GemmArguments({ A, B, out: device.empty('f32', [2, 12, 8]) })
    expect(familiesFor(args)).toEqual(['gemm_mx'])
    await checkAll(args)
  })

  test('no modes of its own: those get a kernel of their forms', async () => {
    const A = await quantize(random('f32', [12, 64]), 'e4m3[m, k] * f32[m, k/64]')
    const args = new GemmArguments({ A, B: random('bf16', [64, 8]), out: device.empty('f32', [12, 8]) })
    expect(isOfLibrary(args)).toBe(false)
    expect(isOfLibrary(attention({ causal: 'top-left' }))).toBe(false)
  })
})

describe('kernels of users', () => {
  test('are found by what they compute, whatever they call it', async () => {
    registerText(`kernel mine(key: bf16[x, y, j, d], query: bf16[x, y, i, d], value: bf16[x, y, j, e], temperature: f32) -> result: bf16[x, y, i, e] {
      result = sum[j](value * softmax[j](temperature * sum[d](query * key)))
    }`)
    const args = attention()
    expect(familiesFor(args).sort()).toEqual(['attention', 'mine'])
    await checkAll(args)
    const epilogue = new EpilogueArguments('acc * 2')
    expect(familiesFor(attention({ epilogue }))).toEqual(['attention'])
  })

  test('with groups, in the names of their own axes, with an epilogue that names groups', async () => {
    registerText(`kernel experts(ends: i32[e], rows: bf16[i, c] ragged i by ends as e, weight: bf16[e, c, f]) -> out: f32[i, f] {
      out = epilogue(sum[c](weight * rows))
    }`)
    const epilogue = new EpilogueArguments('relu(acc + bias[g, n] * row[t])', { bias: random('f32', [3, 12]), row: random('f32', [20]) })
    const args = grouped({ epilogue })
    expect(familiesFor(args).sort()).toEqual(['experts', 'grouped_gemm'])
    for (const { metadata } of getKernels(args)) {
      const operands = metadata.operands as GroupedGemmOperandsMetadata
      expect([operands.kind, operands.A.dtype, operands.B.stride, operands.offsets.dtype, operands.accumulatorType]).toEqual(['groupedGemm', 'bf16', [0, 0, 1], 'i32', 'f32'])
      expect(OperandsMetadata.fromJSON(JSON.parse(JSON.stringify(operands)))).toEqual(operands)
      expect(metadata.supports(args)).toEqual({ ok: true })
    }
    await checkAll(args)
  }) // prettier-ignore

  test('of scaled operands', async () => {
    registerText(`kernel mx(W: e4m3[x, f] * ue8m0[x/32, f], T: e4m3[r, x] * ue8m0[r, x/32]) -> O: bf16[r, f] {
      O = epilogue(sum[x](T * W))
    }`)
    const A = await quantize(random('f32', [12, 64]), 'e4m3[m, k] * ue8m0[m, k/32]')
    const B = await quantize(random('f32', [64, 8], 2), 'e4m3[k, n] * ue8m0[k/32, n]')
    const args = new GemmArguments({ A, B, out: device.empty('bf16', [12, 8]) })
    expect(familiesFor(args).sort()).toEqual(['gemm_mx', 'mx'])
    await checkAll(args)
    const mine = [...getKernels(args)].find((kernel) => kernel.metadata.kernelName.startsWith('ktl.mx_')) as KtlKernel
    const prepared = mine.prepare(args, await mine.compile(args))
    const [again, out] = [A, device.empty('bf16', [12, 8])]
    prepared.rebind({ A: again, out }).launch()
    await mine.run(args)
    expect(await out.toBytes()).toEqual(await args.out.toBytes())
  })

  test('with numbers built in serve the calls that have them', async () => {
    registerText(`kernel halving(X: f16[b, h, w, c], W: f16[f, r, s, c]) -> Y: f32[b, p, q, f] {
      Y = sum[r, s, c]((X[b, p * 2 + r - 1, q * 2 + s - 1, c] else 0) * W)
    }
    kernel strided(X: f16[b, h, w, c], W: f16[f, r, s, c], stride: i32) -> Y: f32[b, p, q, f] {
      Y = sum[r, s, c](W * (X[b, p * stride + r, q * stride + s, c] else 0))
    }`)
    const halving = conv({ stride: 2 }, [1, 5, 5, 4], [6, 3, 3, 4], [1, 3, 3, 6])
    expect(familiesFor(halving).sort()).toEqual(['conv', 'halving'])
    await checkAll(halving)
    const strided = conv({ stride: 2, padding: 0 }, [1, 5, 5, 4], [6, 3, 3, 4], [1, 2, 2, 6])
    expect(familiesFor(strided).sort()).toEqual(['conv', 'strided'])
    await checkAll(strided)
    expect(familiesFor(conv({ stride: [1, 2], padding: 0 }, [1, 5, 5, 4], [6, 3, 3, 4], [1, 3, 2, 6]))).toEqual(['conv'])
    expect(familiesFor(conv())).toEqual(['conv'])
  }) // prettier-ignore

  test.each([
    ['another function', 'softmax[n](sum[d](Q * K) * scale + 1.0)', 'V'],
    ['another operand', 'softmax[n](sum[d](Q * K) * scale)', 'K'],
    ['another read', 'softmax[n](sum[d](Q * K) * scale)', 'V[b, h, size(n) - 1 - n, e]'],
  ])('with %s are others', (_, p, v) => {
    registerText(`kernel mine(Q: bf16[b, h, m, d], K: bf16[b, h, n, d], V: bf16[b, h, n, ${v === 'K' ? 'd' : 'e'}], scale: f32) -> O: bf16[b, h, m, ${v === 'K' ? 'd' : 'e'}] {
      O = sum[n](${p} * ${v}) ${v === 'K' ? '+ 0.0 * sum[n](V)' : ''}
    }`)
    expect(familiesFor(attention())).toEqual(['attention'])
  }) // prettier-ignore
})

describe('warm', () => {
  test.each([
    ['attention', () => attention({ causal: 'bottom-right' })],
    ['convolution', () => conv()],
    ['groups', () => grouped()],
  ])('%s takes as little work as a call of the kernel itself', (_, make) => {
    const args = make()
    const kernel = getKernels(args)[0] as KtlKernel
    const { family } = kernel.planned.space
    const named = kernel.call(args)
    const bindings = { ...named.tensors, ...named.scalars }
    const direct = new KernelArguments({ family }, bindings)
    const warm = (asked: RuntimeArguments): number => {
      getKernels(asked)[0]!.supports(asked)
      return workOf(() => void getKernels(asked)[0])
    }
    // Names are exchanged, and nothing is looked for.
    expect(warm(args)).toBeLessThan(2 * warm(direct) + 500)
  })
})

test('extents that are expected are those of axes', async () => {
  const { family } = libraryKernels()['softmax_rows']!
  const X = random('f32', [4, 8])
  const make = (expected: Record<string, number>) =>
    new KernelArguments({ family }, { X, Y: device.empty('f32', [4, 8]) }, { expected })
  expect(make({ m: 2 }).expected).toMatchObject({ m: 2, c: 8 })
  expect((await errorOf(() => make({ rows: 2 }))).code).toBe('KTL4015')
  expect((await errorOf(() => make({ m: 0.5 }))).code).toBe('KTL4015')
})

test('numbers of an epilogue may be called as those of the kernel', async () => {
  const epilogue = new EpilogueArguments('acc * scale', { scale: 2 })
  const args = attention({ epilogue, scale: 0.25 })
  await checkAll(args)
  const [plain, out] = [attention({ scale: 0.25 }), args.tensors['out']!]
  await getKernels(plain)[0]!.run(plain)
  const twice = [...(await plain.tensors['out']!.toArray())].map((x) => 2 * x)
  ;[...(await out.toArray())].forEach((x, i) => expect(x).toBeCloseTo(twice[i]!, 1))
})

test('expectedRows is what the cost model takes for rows', () => {
  const [g, t] = [8, 16384]
  const make = (more: object) =>
    grouped({ A: device.empty('bf16', [t, 1024]), B: device.empty('bf16', [g, 1024, 512]), out: device.empty('f32', [t, 512]), offsets: device.empty('i32', [g]), ...more })
  const [all, few] = [make({}), make({ expectedRows: 2 })]
  const times = [all, few].map((args) => (getKernels(args)[0] as KtlKernel).estimate(args).microseconds)
  expect(times[1]).toBeLessThan(times[0]! / 2)
  expect([all.expected, few.expected]).toMatchObject([{ t, g }, { t: 16, g }])
  const padded = make({ A: device.empty('bf16', [g, 512, 1024]), out: device.empty('f32', [g, 512, 512]), expectedRows: 7 })
  expect(padded.expected).toMatchObject({ m: 7 })
}) // prettier-ignore
