/** Scales in tiles: what plain ones give, tiled ones give too, as operands and as results. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { uniform } from '../../compiler/evaluate/generate.ts'
import { GemmArguments } from '../../runtime/arguments/gemm.ts'
import { KernelArguments, type KernelBindings } from '../../runtime/arguments/kernel.ts'
import { ScaledOperand } from '../../runtime/arguments/scaled_operand.ts'
import type { Device, Tensor } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import type { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { GroupedGemmArguments } from '../../runtime/operations/grouped_gemm.ts'
import { dequantize } from '../../runtime/operations/quantize.ts'
import { loadSource } from '../../runtime/programs/program.ts'
import { randomValues } from '../../runtime/selftest/values.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { FULL, sampled, schedulesOf } from '../cases_of.ts'
import { swizzleScales, unswizzleScales, type ScaleTilesOptions } from '../../runtime/tensors/scale_tiles.ts'
import { errorOf } from './errors.ts'

const SWIZZLE = { swizzle: '32x4x4' } as const
const count = (shape: readonly number[]): number => shape.reduce((product, extent) => product * extent, 1)
const kernelOf = (text: string) => Object.values(loadSource({ name: 'tiles.ktl', text }).kernels)[0]!

describe.each(['virtual-sm90', 'virtual-sm100'] as const)('%s', (name) => {
  let device: Device
  beforeAll(async () => {
    device = await openDevice(name, { checks: 'full' })
  })
  afterAll(() => device.close())

  const values = (dtype: 'e4m3' | 'e2m1' | 'f32', shape: readonly number[], seed: number): Tensor =>
    device.tensor(dtype, shape, randomValues(dtype, count(shape), seed, 'normal'))
  const scales = (dtype: 'ue8m0' | 'ue4m3', shape: readonly number[], seed: number): Tensor => {
    const next = uniform(seed)
    return device.tensor(
      dtype,
      shape,
      Array.from({ length: count(shape) }, () => 2 ** (Math.floor(next() * 7) - 3)),
    )
  }
  const bytes = async (tensor: Tensor): Promise<number[]> => [...(await tensor.toBytes())]

  /** The same operand with plain scales, and with scales in tiles. */
  async function both(
    data: Tensor,
    scale: Tensor,
    mode: readonly (number | 'all')[],
    tiles: ScaleTilesOptions,
    options: object = {},
  ) {
    const tiled = await swizzleScales(scale, tiles)
    return [
      new ScaledOperand(data, scale, { mode, ...options }),
      new ScaledOperand(data, tiled, { mode, ...options, ...SWIZZLE }),
    ] as const
  }

  /** Held against the evaluator. */
  async function checked(args: KernelArguments | GemmArguments): Promise<KtlKernel> {
    const kernel = getKernels(args, { limit: 1 })[0] as KtlKernel
    const { check } = await verify(kernel, args)
    expect(check.worst && check).toMatchObject({ pass: true })
    return kernel
  }

  const decoded = [
    [[300, 200], [1, 32], { outer: 0 }],
    [[1, 1], [1, 32], { outer: 0 }],
    [[130, 259], [32, 1], { outer: 1 }],
    [[2, 3, 129, 40], [1, 1, 1, 8], { outer: 2 }],
    [[2, 70, 131], [1, 16, 1], { outer: 2, inner: 1 }],
  ] as const
  // Plain CUDA is the same on both: one decodes every second one, the other the others; of what follows each has its half.
  const on = (device: typeof name) => (title: string, run: () => Promise<void>) => {
    if (FULL || name === device) test(title, run)
  }
  test.each(
    name === 'virtual-sm90' || FULL ? sampled(decoded) : decoded.filter((one) => !sampled(decoded).includes(one)),
  )('decoding %j in blocks of %j', async (shape, mode, tiles) => {
    const blocks = shape.map((extent, i) => Math.ceil(extent / mode[i]!))
    const [plain, tiled] = await both(values('e4m3', shape, 1), scales('ue8m0', blocks, 2), mode, tiles)
    expect(await bytes(await dequantize(tiled))).toEqual(await bytes(await dequantize(plain)))
  })

  on('virtual-sm90')('operands of a GEMM, with a global scale and a batch', async () => {
    const [l, m, n, k] = [2, 33, 150, 80]
    const A = await both(values('e2m1', [l, m, k], 1), scales('ue4m3', [l, m, k / 16], 2), [1, 1, 16], { outer: 1 }, { globalScale: 0.5 })
    const B = await both(values('e2m1', [l, k, n], 3), scales('ue4m3', [l, k / 16, n], 4), [1, 16, 1], { outer: 2 })
    const outs = [device.empty('f32', [l, m, n]), device.empty('f32', [l, m, n])] as const
    for (const i of [0, 1] as const) {
      const kernel = await checked(new GemmArguments({ A: A[i], B: B[i], out: outs[i] }))
      expect(kernel.metadata.operands.scaled.A!.swizzle).toBe(i === 0 ? 'none' : '32x4x4')
      expect(kernel.metadata.kernelName.includes('_tstst_')).toBe(i === 1)
    }
    expect(await bytes(outs[1])).toEqual(await bytes(outs[0]))
  }) // prettier-ignore

  on('virtual-sm100')('rows in groups, empty ones among them, begin rows of tiles', async () => {
    const [t, g, k, n] = [301, 5, 64, 24]
    const offsets = device.tensor('i32', [g], [0, 130, 130, 259, 300])
    const A = await both(values('e4m3', [t, k], 1), scales('ue8m0', [t, 2], 2), [1, 32], { outer: 0, offsets })
    const B = await both(values('e4m3', [g, k, n], 3), scales('ue8m0', [g, 2, n], 4), [1, 32, 1], { outer: 2 })
    expect(A[1].scale!.shape).toEqual([512 * (3 + g)])
    const outs = [device.tensor('f32', [t, n], 7), device.tensor('f32', [t, n], 7)] as const
    // Sums differ by roundings, of which the check knows.
    for (const i of [0, 1] as const) await checked(new GroupedGemmArguments({ A: A[i], B: B[i], out: outs[i], offsets }))
    for (const out of outs) expect((await out.toArray()).slice(-n)).toEqual(new Float32Array(n).fill(7))
  }) // prettier-ignore

  test('MMAs of SM100 read the tiles of groups', async () => {
    const [t, g, k, n] = [301, 5, 384, 64]
    const offsets = device.tensor('i32', [g], [0, 130, 130, 259, 300])
    const A = await both(values('e4m3', [t, k], 1), scales('ue8m0', [t, k / 32], 2), [1, 32], { outer: 0, offsets })
    const B = await both(values('e4m3', [g, n, k], 3), scales('ue8m0', [g, n, k / 32], 4), [1, 1, 32], { outer: 1 })
    const out = device.tensor('bf16', [t, n], 7)
    const text = 'kernel f(A: e4m3[t, k] * ue8m0[t, k/32] ragged t by off as g, B: e4m3[g, n, k] * ue8m0[g, n, k/32], off: i32[g]) -> D: bf16[t, n] { D = sum[k](A * B) }'
    const args = new KernelArguments(kernelOf(text), { A: A[1], B: B[1], off: offsets, D: out })
    const kernels = getKernels(args).filter(({ metadata }) => metadata.design.kind !== 'simt') as KtlKernel[]
    expect(kernels.length > 0).toBe(name === 'virtual-sm100')
    for (const kernel of kernels.slice(0, 1))
      for (const { order } of schedulesOf(text)) {
        const { check } = await verify(kernel, args, { order, seed: 3, checks: 'full' })
        expect(check).toMatchObject({ pass: true })
      }
    if (kernels.length > 0) expect((await out.toArray()).slice(-n)).toEqual(new Float32Array(n).fill(7))
  }) // prettier-ignore

  test('groups along the blocks of the scales, and gathered rows', async () => {
    const [t, m, g] = [100, 140, 3]
    const ends = device.tensor('i32', [g], [40, 40, 99])
    const rows = device.tensor('i32', [4], [139, 0, 3, 64])
    const [plain, tiled] = await both(values('e4m3', [m, t], 1), scales('ue8m0', [m, 4 + g], 2), [1, 32], { outer: 0 })
    const sum = kernelOf('kernel s(X: e4m3[m, t] * ue8m0[m, t/32] ragged t by ends as g, ends: i32[g], row: i32[r]) -> Y: f32[r, g] { Y = sum[t](X[row[r], t]) }')
    const results = [plain, tiled].map((X) => ({ X, ends, row: rows, Y: device.empty('f32', [4, g]) }))
    for (const bindings of results) await checked(new KernelArguments(sum, bindings))
    expect(await bytes(results[1]!.Y)).toEqual(await bytes(results[0]!.Y))
  }) // prettier-ignore

  async function quantised(text: string, X: Tensor, mode: readonly number[], scaleShape: readonly number[], tiles: ScaleTilesOptions & { groups?: number }, more: KernelBindings = {}) {
    const { groups = 0, ...options } = tiles
    const kernel = kernelOf(text)
    const results = [false, true].map((tiled) => {
      const inner = scaleShape.findLastIndex((_, i) => i !== tiles.outer)
      const others = count(scaleShape.filter((_, i) => i !== tiles.outer && i !== inner))
      const size = others * (Math.ceil(scaleShape[tiles.outer]! / 128) + groups) * Math.ceil(scaleShape[inner]! / 4) * 512
      const scale = tiled ? device.tensor('ue8m0', [size], 1) : device.tensor('ue8m0', scaleShape, 1)
      return new ScaledOperand(device.tensor('e4m3', X.shape, 0), scale, { mode, ...(tiled ? SWIZZLE : {}) })
    }) as [ScaledOperand, ScaledOperand]
    for (const D of results) await checked(new KernelArguments(kernel, { X, D, ...more }))
    expect(await bytes(results[1].data)).toEqual(await bytes(results[0].data))
    const back = await unswizzleScales(results[1].scale!, scaleShape, options)
    return [await bytes(back), await bytes(results[0].scale!)] as const
  } // prettier-ignore

  on('virtual-sm90')('results with scales in tiles', async () => {
    const text = 'kernel q(X: f32[b, m, n]) -> D: e4m3[b, m, n] * ue8m0[b, m, n/32] { D = X }'
    const [tiled, plain] = await quantised(text, values('f32', [2, 131, 170], 5), [1, 1, 32], [2, 131, 6], { outer: 1 })
    expect(tiled).toEqual(plain)
  })

  on('virtual-sm100')('results in groups', async () => {
    const offsets = device.tensor('i32', [4], [0, 129, 129, 250])
    const text = 'kernel q(X: f32[t, n] ragged t by ends as g, ends: i32[g]) -> D: e4m3[t, n] * ue8m0[t, n/32] { D = X }'
    const [tiled, plain] = await quantised(text, values('f32', [260, 70], 6), [1, 32], [260, 3], { outer: 0, offsets, groups: 4 }, { ends: offsets })
    // Rows behind the last group have no scales in tiles.
    expect(tiled.slice(0, 250 * 3)).toEqual(plain.slice(0, 250 * 3))
  }) // prettier-ignore

  test('refuses scales without tiles, and tiles of another size', async () => {
    const decode = (type: string) => kernelOf(`kernel d(A: i8[m, k] * ${type}) -> D: f32[m, k] { D = A }`)
    const data = device.empty('i8', [4, 64])
    const bind = (type: string, scale: Tensor, mode: readonly (number | 'all')[]) => () =>
      new KernelArguments(decode(type), { A: new ScaledOperand(data, scale, { mode, ...SWIZZLE }), D: device.empty('f32', [4, 64]) })
    expect((await errorOf(bind('f32[m, k/32]', device.empty('f32', [512]), [1, 32]))).code).toBe('KTL4045')
    expect((await errorOf(bind('ue8m0[k/32]', device.empty('ue8m0', [512]), ['all', 32]))).code).toBe('KTL4045')
    expect((await errorOf(bind('ue8m0[m/2, k/32]', device.empty('ue8m0', [512]), [2, 32]))).code).toBe('KTL4045')
    expect((await errorOf(bind('ue8m0[m, k/32]', device.empty('ue8m0', [511]), [1, 32]))).code).toBe('KTL4020')
    const strided = bind('ue8m0[m, k/32]', device.empty('ue8m0', [512], { strides: [2] }), [1, 32])()
    const kernels = getKernels(strided)
    expect([kernels.length, kernels.why]).toEqual([0, expect.stringContaining('KTL4032')])
  }) // prettier-ignore
})
