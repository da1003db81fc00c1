/** Arguments of kernel classes, quantisation and groups: what they compute, and what they refuse. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { uniform } from '../../compiler/evaluate/generate.ts'
import { roundToDType } from '../../compiler/codec.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { blockIndices, blockShape, quantise } from '../compiler/quantise_whole.ts'
import { EpilogueArguments } from '../../runtime/arguments/epilogue.ts'
import { GemmArguments } from '../../runtime/arguments/gemm.ts'
import type { KernelArguments } from '../../runtime/arguments/kernel.ts'
import { ScaledOperand } from '../../runtime/arguments/scaled_operand.ts'
import type { Device, Tensor } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { explainKernels } from '../../runtime/discovery/explain.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { AttentionArguments } from '../../runtime/operations/attention.ts'
import { ConvolutionArguments } from '../../runtime/operations/convolution.ts'
import { GroupedGemmArguments } from '../../runtime/operations/grouped_gemm.ts'
import { offsetsOf, prepareOffsets } from '../../runtime/operations/offsets.ts'
import { dequantize, quantize } from '../../runtime/operations/quantize.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { randomValues } from '../../runtime/selftest/values.ts'
import { swizzleScales, unswizzleScales } from '../../runtime/tensors/scale_tiles.ts'
import { part, sampled } from '../cases_of.ts'
import { errorOf } from './errors.ts'

let device: Device
beforeAll(async () => {
  device = await openDevice('virtual-sm100')
})
afterAll(() => device.close())

const count = (shape: readonly number[]): number => shape.reduce((product, extent) => product * extent, 1)
const random = (dtype: 'f32' | 'f16' | 'bf16' | 'ue8m0' | 'ue4m3', shape: readonly number[], seed = 1): Tensor =>
  device.tensor(dtype, shape, randomValues(dtype, count(shape), seed, 'normal'))
const ints = (values: readonly number[]): Tensor => device.tensor('i32', [values.length], values)

/** Runs the best kernel, and holds it against the evaluator. */
async function checked(args: KernelArguments): Promise<void> {
  const [kernel] = getKernels(args, { limit: 1 })
  expect(kernel).toBeInstanceOf(KtlKernel)
  const { check } = await verify(kernel as KtlKernel, args)
  expect(check.worst && check).toMatchObject({ pass: true })
}

describe('GroupedGemmArguments', () => {
  const [t, g, k, n] = [20, 3, 16, 12]

  test('rows times the matrix of their group, with an epilogue and an empty group', async () => {
    const out = device.tensor('f32', [t, n], -7)
    const bias = random('f32', [n], 4)
    const epilogue = new EpilogueArguments('relu(acc + bias)', { bias })
    const args = new GroupedGemmArguments({ A: random('bf16', [t, k]), B: random('bf16', [g, k, n], 2), out, offsets: ints([7, 7, 18]), epilogue, expectedRows: 8 }) // prettier-ignore
    expect([args.expectedRows, args.axes.extents]).toEqual([8, { t, g, k, n }])
    await checked(args)
    expect([...(await out.toArray())].slice(18 * n)).toEqual(new Array(2 * n).fill(-7))
  })

  test('an epilogue names the axis of groups, or has none', async () => {
    const bias = random('f32', [g, n], 4)
    const make = (text: string) => new GroupedGemmArguments({ A: random('bf16', [t, k]), B: random('bf16', [g, k, n], 2), out: device.empty('f32', [t, n]), offsets: ints([7, 7, 20]), epilogue: new EpilogueArguments(text, { bias }) }) // prettier-ignore
    await checked(make('acc + bias[g, n]'))
    expect((await errorOf(() => make('acc + bias'))).code).toBe('KTL2033')
  })

  test('B may be stored [g, n, k], and operands may be scaled', async () => {
    const B = random('bf16', [g, n, k], 2).permute([0, 2, 1])
    await checked(new GroupedGemmArguments({ A: random('bf16', [t, k]), B, out: device.empty('f32', [t, n]), offsets: ints([7, 7, 20]), accumulatorType: 'f32' })) // prettier-ignore
    const A = await quantize(random('f32', [t, k]), 'e4m3[t, k] * f32[t]')
    const scaled = await quantize(random('f32', [g, k, n], 2), 'e4m3[g, k, n] * f32[g, n]')
    await checked(
      new GroupedGemmArguments({ A, B: scaled, out: device.empty('bf16', [t, n]), offsets: ints([7, 7, 20]) }),
    )
  })

  test.each([
    ['offsets', { offsets: [5] }, 'KTL4021'],
    ['expectedRows', { expectedRows: -1 }, 'KTL4015'],
  ])(
    'refuses other %s',
    async (_, { offsets = [1, 2, 3], expectedRows }: { offsets?: number[]; expectedRows?: number }, code) => {
      const make = () => new GroupedGemmArguments({ A: random('bf16', [t, k]), B: random('bf16', [g, k, n]), out: device.empty('f32', [t, n]), offsets: ints(offsets), ...(expectedRows !== undefined && { expectedRows }) }) // prettier-ignore
      expect((await errorOf(make)).code).toBe(code)
    },
  )
})

describe('ConvolutionArguments', () => {
  const convolutions: readonly (readonly [string, number[], number[], number[], object])[] = [
    ['1 axis', [2, 9, 4], [6, 3, 4], [2, 5, 6], { stride: 2, padding: 1 }],
    ['2 axes, dilated', [1, 7, 8, 4], [5, 3, 2, 4], [1, 3, 4, 5], { stride: [1, 2], dilation: [2, 1] }],
    ['2 axes in groups', [1, 5, 5, 6], [4, 3, 3, 3], [1, 5, 5, 4], { padding: 1, groups: 2 }],
    ['one group for each channel', [1, 5, 4, 6], [6, 3, 3, 1], [1, 3, 2, 6], { groups: 6 }],
    ['3 axes', [1, 3, 4, 3, 2], [3, 2, 2, 2, 2], [1, 2, 3, 2, 3], {}],
  ]
  // library.test.ts has those with groups, and of three axes.
  const kept = ['1 axis', '2 axes, dilated', 'one group for each channel']
  test.each(part(convolutions, ['2 axes in groups', '3 axes'], kept))('%s', async (_, input, filter, out, steps) => {
    await checked(new ConvolutionArguments({ input: random('f16', input), filter: random('f16', filter, 2), out: device.empty('f32', out), ...steps })) // prettier-ignore
  })

  test('an epilogue', async () => {
    const epilogue = new EpilogueArguments('relu(acc + bias)', { bias: random('f16', [3], 5) })
    await checked(new ConvolutionArguments({ input: random('f16', [1, 4, 4, 2]), filter: random('f16', [3, 3, 3, 2], 2), out: device.empty('f16', [1, 4, 4, 3]), padding: 1, epilogue })) // prettier-ignore
  })

  test.each([
    ['a matrix', [4, 4], [4, 4], [4, 4], {}, 'KTL4020', 'input'],
    ['channels that differ', [1, 5, 4], [2, 3, 3], [1, 3, 2], {}, 'KTL4020', 'filter'],
    ['channels that no groups divide', [1, 5, 4], [2, 3, 1], [1, 3, 2], { groups: 3 }, 'KTL4020', 'filter'],
    ['another out', [1, 5, 4], [2, 3, 4], [1, 4, 2], {}, 'KTL4020', 'out'],
    ['a stride of 0', [1, 5, 4], [2, 3, 4], [1, 3, 2], { stride: 0 }, 'KTL4015', undefined],
    ['steps for other axes', [1, 5, 4], [2, 3, 4], [1, 3, 2], { padding: [0, 0] }, 'KTL4015', undefined],
    ['no groups', [1, 5, 4], [2, 3, 4], [1, 3, 2], { groups: 0.5 }, 'KTL4015', undefined],
  ] as const)('refuses %s', async (_, input, filter, out, steps, code, operand) => {
    const error = await errorOf(() => new ConvolutionArguments({ input: random('f16', input), filter: random('f16', filter), out: device.empty('f32', out), ...steps })) // prettier-ignore
    expect([error.code, error.operand]).toEqual([code, operand])
  })
})

describe('AttentionArguments', () => {
  const [b, h, m, n, d] = [2, 4, 5, 7, 8]
  const operands = (hk = h) => ({
    Q: random('bf16', [b, h, m, d], 1), K: random('bf16', [b, hk, n, d], 2), V: random('bf16', [b, hk, n, d], 3),
    out: device.empty('bf16', [b, h, m, d]),
  }) // prettier-ignore

  test('full', () => checked(new AttentionArguments(operands())))
  test('causal, with shared heads and logarithms of the sums', async () => {
    const lse = device.empty('f32', [b, h, m])
    const args = new AttentionArguments({ ...operands(2), lse, causal: 'bottom-right', scale: 0.25 })
    await checked(args)
    expect([args.scale, args.causal, args.outputs]).toEqual([0.25, 'bottom-right', ['out', 'lse']])
  })
  test('scores by an expression, masks by another, beside the diagonal', async () => {
    const score = { text: 'cap * tanh(s / cap) + slope * f32(n - m)', bindings: { cap: 5, slope: device.tensor('f32', [h, 1, 1], [1, 2, 3, 4]) } }
    const mask = { text: 'doc[b, n] == doc[b, m] && m - n < window', bindings: { doc: device.tensor('i32', [b, n], 1), window: 3 } }
    await checked(new AttentionArguments({ ...operands(), causal: 'top-left', score, mask }))
  }) // prettier-ignore

  test('the diagonal ends in the corner asked for', async () => {
    const V = device.tensor('bf16', [1, 1, 3, 1], [1, 2, 4])
    const Q = device.tensor('bf16', [1, 1, 2, 1], 0)
    const K = device.tensor('bf16', [1, 1, 3, 1], 0)
    const of = async (causal: 'bottom-right' | 'top-left') => {
      const out = device.empty('f32', [1, 1, 2, 1])
      const args = new AttentionArguments({ Q, K, V, out, causal })
      await getKernels(args)[0]!.run(args)
      return [...(await out.toArray())].map((x) => Number(x.toFixed(2)))
    }
    expect(await of('top-left')).toEqual([1, 1.5])
    expect(await of('bottom-right')).toEqual([1.5, 2.33])
  })

  test.each([
    ['heads', () => ({ K: random('bf16', [b, 3, n, d]), V: random('bf16', [b, 3, n, d]) }), 'KTL4020'],
    ['a rank', () => ({ Q: random('bf16', [h, m, d]) }), 'KTL4020'],
    ['a corner', () => ({ causal: 'left' as never }), 'KTL4015'],
    ['names of the kernel', () => ({ score: { text: 's + K', bindings: { K: 1 } } }), 'KTL4015'],
    ['bindings', () => ({ score: { text: 's + x', bindings: { x: '1' as never } } }), 'KTL4024'],
    ['one name twice', () => ({ score: { text: 's + x', bindings: { x: 1 } }, mask: { text: 'n < x', bindings: { x: 2 } } }), 'KTL4015'],
    ['unknown names', () => ({ score: { text: 's + x' } }), 'KTL2001'],
    ['an expression', () => ({ mask: { text: 'n <' } }), 'KTL1003'],
    ['a mask', () => ({ mask: { text: 's' } }), 'KTL2210'],
  ])('refuses %s', async (_, more, code) => {
    expect((await errorOf(() => new AttentionArguments({ ...operands(), ...more() }))).code).toBe(code)
  }) // prettier-ignore
})

describe('GemmArguments of scaled operands', () => {
  const [m, n, k] = [12, 40, 70]

  test('find the kernel of their forms, on any epilogue and with a batch', async () => {
    const A = await quantize(random('f32', [m, k]), 'e4m3[m, k] * ue8m0[m, k/32]')
    const B = await quantize(random('f32', [k, n], 2), 'e4m3[k, n] * ue8m0[k/32, n]')
    const epilogue = new EpilogueArguments('relu(acc + bias)', { bias: random('f32', [n], 3) })
    const args = new GemmArguments({ A, B, out: device.empty('bf16', [m, n]), epilogue })
    expect([args.isScaled, args.accumulatorType, args.A]).toEqual([true, 'f32', A.data])
    const kernels = getKernels(args)
    expect(kernels[0]!.metadata.kernelName).toContain('ue8m0')
    const { check } = await verify(kernels[0] as KtlKernel, args)
    expect(check.pass).toBe(true)
    const batch = await quantize(random('f32', [2, m, k]), 'i8[l, m, k] * f32[l, m]')
    const C = new GemmArguments({ A: batch, B: random('bf16', [2, k, n]), out: device.empty('f32', [2, m, n]) })
    expect((await verify(getKernels(C)[0] as KtlKernel, C)).check.pass).toBe(true)
  })

  test('out may be scaled, and B stored [n, k]', async () => {
    const B = random('bf16', [n, k], 2).permute([1, 0])
    const out = new ScaledOperand(device.empty('e4m3', [m, n]), device.empty('ue8m0', [m, 2]), { mode: [1, 32] })
    const args = new GemmArguments({ A: random('bf16', [m, k]), B, out })
    const { check } = await verify(getKernels(args)[0] as KtlKernel, args)
    expect(check.pass).toBe(true)
  })

  test('kernels without scales refuse them', async () => {
    const plain = getKernels(new GemmArguments({ A: random('f16', [m, k]), B: random('f16', [k, n]), out: device.empty('f32', [m, n]) }))[0]!
    const A = new ScaledOperand(random('f16', [m, k]), null, { globalScale: 2 })
    const args = new GemmArguments({ A, B: random('f16', [k, n]), out: device.empty('f32', [m, n]) })
    expect(plain.supports(args)).toMatchObject({ ok: false, code: 'KTL4030' })
    expect(explainKernels(args).supported).toBeGreaterThan(0)
  }) // prettier-ignore
})

describe('quantize', () => {
  const values = Float32Array.from({ length: 96 }, (_, i) => Math.fround(Math.sin(i) * 10))
  const source = () => device.tensor('f32', [2, 48], values)

  test.each([
    ['e4m3[m, k] * ue8m0[m, k/32]', [2, 2], [1, 32], 0.07],
    ['e4m3[m, k] * floor(ue8m0[m, k/32])', [2, 2], [1, 32], 0.25],
    ['e2m1[m, k] * ue4m3[m, k/16] * f32', [2, 3], [1, 16], 0.25],
    ['i8[m, k] * f32[m, k/16]', [2, 3], [1, 16], 0.01],
    ['i8[m, k] * f32[m]', [2], [1, 'all'], 0.01],
    ['i4[m, k] * bf16[m/2, k/16]', [1, 3], [2, 16], 0.2],
    ['e4m3[m, k] * f32', null, ['all', 'all'], 0.07],
    ['(u4[m, k] - u4[m, k/16]) * f16[m, k/16]', [2, 3], [1, 16], 0.2],
  ] as const)('%s', async (form, scale, mode, error) => {
    const q = await quantize(source(), form)
    expect([q.scale?.shape ?? null, q.mode]).toEqual([scale, mode])
    const back = await (await dequantize(q)).toArray()
    values.forEach((x, i) => expect(Math.abs(back[i]! - x)).toBeLessThan(error * 10))
  })

  test.each([
    ['e4m3[m, k] * ue8m0[m, k/32]', 'e4m3', 'ue8m0', 32, 'up'],
    ['e4m3[m, k] * floor(ue8m0[m, k/32])', 'e4m3', 'ue8m0', 32, 'down'],
    ['e2m1[m, k] * ue4m3[m, k/16] * f32', 'e2m1', 'ue4m3', 16, 'up'],
    ['i8[m, k] * f32[m, k/16]', 'i8', 'f32', 16, 'up'],
  ] as const)('%s: the device gives the bits of the steps in f32', async (form, data, scale, block, rounding) => {
    const q = await quantize(source(), form)
    const blockOf = blockIndices([2, 48], [1, block])
    const host = quantise(
      { data, scale, rounding },
      values,
      blockOf,
      2 * Math.ceil(48 / block),
      (q.normConstant as number | null) ?? 1,
    )
    expect([...(await q.data.toArray())]).toEqual([...host.data])
    expect([...(await q.scale!.toArray())]).toEqual([...host.scale])
  })

  // A block of zeros, one with NaN, one with an infinity, subnormals, and the largest there is.
  const edges = Float32Array.from({ length: 5 * 50 }, (_, i) => Math.fround(Math.sin(i) * 10 ** ((i % 11) - 5)))
  edges.fill(0, 0, 14)
  edges.fill(0, 50, 64)
  edges.set([NaN, 1, 2], 20)
  edges.set([Infinity, -1], 110)
  edges.set([1e-40, -3e-39, 0, 2e-45], 196)
  edges.set([3.4e38, -3.4e38], 249 - 2)

  test.each(sampled([
    ['i8[m, k] * f32[m]', [1, 50]],
    ['e4m3[m, k] * f32[k]', [5, 1]],
    ['i4[m, k] * bf16[m/2, k/16]', [2, 16]],
    ['u8[m, k] * f16[m/2, k/7]', [2, 7]],
    ['e4m3[m, k] * floor(ue8m0[m/2, k/7])', [2, 7]],
    ['e2m1[m, k] * floor(ue8m0[k/7])', [5, 7]],
    ['e2m3[m, k] * ue4m3[m/2, k/16] * f32', [2, 16]],
    ['e5m2[m, k] * ue8m0[m, k]', [1, 1]],
  ] as const))('%s, in steps: the bits of the steps in f32', async (form, blocks) => {
    const q = await quantize(device.tensor('f32', [5, 50], edges), form, { normConstant: 3 })
    const [data, scale] = [q.dtype, q.scale!.dtype]
    const host = quantise({ data, scale, rounding: q.rounding === 'floor' ? 'down' : 'up' }, edges, blockIndices([5, 50], blocks), count(blockShape([5, 50], blocks)), form.endsWith('* f32') ? 3 : 1)
    expect([...(await q.scale!.toArray())]).toEqual([...host.scale])
    expect([...(await q.data.toArray())]).toEqual([...host.data])
  }) // prettier-ignore

  test('one scale for the tensor', async () => {
    const q = await quantize(device.tensor('f32', [5, 50], edges), 'e4m3[m, k] * f32', { normConstant: 3 })
    expect([...(await q.data.toArray())]).toEqual([...edges].map((x) => roundToDType('e4m3', Math.fround(x * 3))))
  })

  test.each(sampled([
    ['(u4[m, k] - u4[m/2, k/7]) * f16[m/2, k/7]', 'u4', 'f16', 'u4', [2, 7]],
    ['(i8[m, k] - i8[m]) * f32[m]', 'i8', 'f32', 'i8', [1, 50]],
    ['(u8[m, k] - bf16[k/16]) * bf16[k/16]', 'u8', 'bf16', 'bf16', [5, 16]],
  ] as const))('%s: the range of a block, and 0, on all of the data', async (form, data, scale, zero, blocks) => {
    const finite = edges.map((x) => (Math.abs(x) < 1e30 ? x : 1))
    const q = await quantize(device.tensor('f32', [5, 50], finite), form)
    const f32 = Math.fround
    const { bits, signed } = DTYPES[data]
    const [levels, lowest] = [2 ** bits - 1, signed ? -(2 ** (bits - 1)) : 0]
    const blockOf = blockIndices([5, 50], blocks)
    const size = count(blockShape([5, 50], blocks))
    const [low, high] = [new Float32Array(size), new Float32Array(size)]
    finite.forEach((x, i) => {
      low[blockOf[i]!] = Math.min(low[blockOf[i]!]!, x)
      high[blockOf[i]!] = Math.max(high[blockOf[i]!]!, x)
    })
    const scales = low.map((x, b) => roundToDType(scale, f32(f32(high[b]! - x) * f32(1 / levels))))
    const inverse = scales.map((x) => (x === 0 ? 0 : f32(1 / x)))
    const zeros = low.map((x, b) => roundToDType(zero, lowest - roundToDType('i32', f32(x * inverse[b]!))))
    const stored = finite.map((x, i) => {
      const sum = roundToDType('i32', f32(x * inverse[blockOf[i]!]!)) + zeros[blockOf[i]!]!
      return roundToDType(data, Math.min(lowest + levels, Math.max(lowest, sum)))
    })
    expect([...(await q.scale!.toArray())]).toEqual([...scales])
    expect([...(await q.zero!.toArray())]).toEqual([...zeros])
    expect([...(await q.data.toArray())]).toEqual([...stored])
  }) // prettier-ignore

  test('tensors without elements, of f16, and with strides', async () => {
    const none = await quantize(device.empty('f32', [0, 8]), 'e4m3[m, k] * f32')
    expect([none.shape, none.globalScale]).toEqual([[0, 8], 1])
    const half = await quantize(device.tensor('f16', [4], [1, 2, 3, 4]), 'i8[n] * f32')
    expect([...(await half.data.toArray())]).toEqual([32, 64, 95, 127])
    const X = device.tensor('f32', [2, 3], [1, 4, 2, 5, 3, 6], { strides: [1, 2] })
    const q = await quantize(X, '(u8[m, k] - u8[m]) * f32[m]')
    const plain = await quantize(device.tensor('f32', [2, 3], await X.toArray()), '(u8[m, k] - u8[m]) * f32[m]')
    expect([...(await q.data.toArray())]).toEqual([...(await plain.data.toArray())])
  })

  test('the global scale: given, its inverse, or what makes the largest value the largest', async () => {
    const form = 'e2m1[m, k] * ue4m3[m, k/16] * f32'
    const amax = Math.max(...values.map(Math.abs))
    expect((await quantize(source(), form)).normConstant).toBe(Math.fround(2688 / Math.fround(amax)))
    expect((await quantize(source(), form, { globalScale: 0.5 })).globalScale).toBe(0.5)
    expect((await quantize(source(), form, { normConstant: 4 })).globalScale).toBe(0.25)
  })

  test.each([
    ['e4m3[m, k', 'KTL1005'],
    ['e4m3[k] * ue8m0[k/32]', 'KTL4020'],
    ['e4m3[m, k] * ue8m0[j/32]', 'KTL2228'],
  ])('refuses %s', async (form, code) => {
    expect((await errorOf(() => quantize(source(), form))).code).toBe(code)
  })

  test('refuses what is no tensor', async () => {
    expect((await errorOf(() => quantize([1] as never, 'e4m3[m] * f32'))).code).toBe('KTL4024')
    expect((await errorOf(() => dequantize(source() as never))).code).toBe('KTL4024')
  })
})

describe('scales in tiles', () => {
  test.each([[0, [200, 6]], [1, [6, 200]], [0, [1, 1]]] as const)('outer %i of %j, and back', async (outer, shape) => {
    const scale = random('ue8m0', shape)
    const tiles = await swizzleScales(scale, { outer })
    expect(tiles.elementCount % 512).toBe(0)
    expect(await (await unswizzleScales(tiles, shape as [number, number], { outer })).toBytes()).toEqual(await scale.toBytes())
  }) // prettier-ignore

  test('where scales lie', async () => {
    const [outer, inner] = [256, 8]
    const at = (o: number, i: number) => Math.floor(o / 128) * 1024 + Math.floor(i / 4) * 512 + (o % 32) * 16 + Math.floor((o % 128) / 32) * 4 + (i % 4)
    const codes = Uint8Array.from({ length: outer * inner }, (_, i) => i % 251)
    const tiles = await (await swizzleScales(device.tensor('ue8m0', [outer, inner], { bits: codes }), { outer: 0 })).toBytes()
    for (const [o, i] of [[0, 0], [1, 0], [33, 2], [127, 3], [128, 0], [255, 7], [40, 5]] as const) expect(tiles[at(o, i)]).toBe(codes[o * inner + i])
  }) // prettier-ignore

  test('refuses other tensors', async () => {
    expect((await errorOf(() => swizzleScales(random('f32', [4, 4]), { outer: 0 }))).code).toBe('KTL4024')
    expect((await errorOf(() => swizzleScales(random('ue8m0', [4, 4]), { outer: 2 as never }))).code).toBe('KTL4015')
    expect((await errorOf(() => unswizzleScales(random('ue8m0', [4]), [4, 4], { outer: 0 }))).code).toBe('KTL4001')
  })
})

describe('offsetsOf', () => {
  test('rows of each group in their order; ids outside are in none', async () => {
    const { offsets, rows } = await offsetsOf(ints([2, 0, 5, 2, 0, -1, 2]), 4)
    expect([[...(await offsets.toArray())], [...(await rows.toArray())]]).toEqual([[2, 2, 5, 5], [1, 4, 0, 3, 6, -1, -1]])
  }) // prettier-ignore
  const sizes = [
    [1000, 4097],
    [500, 63],
    [63, 64],
    [1, 1],
  ] as const
  test.each(sampled(sizes))('%i rows of %i groups', async (count, groups) => {
    const next = uniform(count)
    const ids = Array.from({ length: count }, () => Math.floor(next() ** 2 * (groups + 2)) - 1)
    const { offsets, rows } = await offsetsOf(ints(ids), groups)
    const valid = ids.flatMap((id, row) => (id >= 0 && id < groups ? [row] : [])).sort((a, b) => ids[a]! - ids[b]! || a - b)
    expect([...(await rows.toArray())]).toEqual([...valid, ...new Array<number>(count - valid.length).fill(-1)])
    const ends = Array.from({ length: groups }, (_, g) => valid.filter((row) => ids[row]! <= g).length)
    expect([...(await offsets.toArray())]).toEqual(ends)
  }) // prettier-ignore

  test('prepared, in a graph: each launch sorts what the ids are then', async () => {
    const ids = ints([2, 0, 5, 2, 0, -1, 2])
    using sort = await prepareOffsets(ids, 4)
    using graph = device.capture((stream) => sort.launch(stream))
    const sorted = async (): Promise<number[][]> => [[...(await sort.offsets.toArray())], [...(await sort.rows.toArray())]]
    graph.launch()
    expect(await sorted()).toEqual([[2, 2, 5, 5], [1, 4, 0, 3, 6, -1, -1]])
    // Groups that had rows have none, and the other way round.
    await ids.copyFrom([3, 3, 1, -1, 3, 1, 9])
    graph.launch()
    expect(await sorted()).toEqual([[0, 2, 2, 5], [2, 5, 0, 1, 4, -1, -1]])
    await ids.copyFrom([0, 0, 0, 0, 0, 0, 0])
    sort.launch()
    expect(await sorted()).toEqual([[7, 7, 7, 7], [0, 1, 2, 3, 4, 5, 6]])
  }) // prettier-ignore

  test('the work of 65,536 rows of 1,024 groups', async () => {
    const run = vi.spyOn(KtlKernel.prototype, 'run')
    const [count, groups] = [65_536, 1024]
    const next = uniform(5)
    const { offsets } = await offsetsOf(ints(Array.from({ length: count }, () => Math.floor(next() * groups))), groups)
    expect((await offsets.toArray()).at(-1)).toBe(count)
    const results = await Promise.all(run.mock.results.map(({ value }) => value as ReturnType<KtlKernel['run']>))
    run.mockRestore()
    // A GPU with 132 SMs issues 528 warp instructions a clock: some 60 µs.
    const instructions = results.reduce((sum, { stats }) => sum + stats.warpInstructions, 0)
    expect(instructions).toBeLessThan(60_000_000)
    expect(results.length).toBeLessThan(32)
  })

  test('no rows, and no groups', async () => {
    const none = await offsetsOf(device.empty('i32', [0]), 2)
    expect([...(await none.offsets.toArray())]).toEqual([0, 0])
    const without = await offsetsOf(ints([0, 1]), 0)
    expect([without.offsets.shape, [...(await without.rows.toArray())]]).toEqual([[0], [-1, -1]])
  })
  test('refuses other ids', async () => {
    expect((await errorOf(() => offsetsOf(random('f32', [2]), 2))).code).toBe('KTL4024')
    expect((await errorOf(() => offsetsOf(device.empty('i32', [2, 2]), 2))).code).toBe('KTL4020')
    expect((await errorOf(() => offsetsOf(ints([1]), -1))).code).toBe('KTL4015')
  })
})
