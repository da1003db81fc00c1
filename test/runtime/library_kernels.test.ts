/** The library's kernels by name: gradients of convolutions, statistics of rows, quantisation. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { KernelArguments } from '../../runtime/arguments/kernel.ts'
import { ScaledOperand } from '../../runtime/arguments/scaled_operand.ts'
import type { Device, Tensor } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { libraryKernels } from '../../runtime/programs/library.ts'
import { randomValues } from '../../runtime/selftest/values.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { FULL } from '../cases_of.ts'

let device: Device
beforeAll(async () => {
  device = await openDevice('virtual-sm100')
})
afterAll(() => device.close())

const count = (shape: readonly number[]): number => shape.reduce((product, extent) => product * extent, 1)
/** Small integers, whose sums of products are exact. */
const whole = (dtype: 'f32' | 'f16' | 'bf16', shape: readonly number[], seed: number): Tensor =>
  device.tensor(dtype, shape, randomValues('f32', count(shape), seed, 'normal').map((x) => Math.round(2 * x))) // prettier-ignore
const random = (dtype: 'f32' | 'f16' | 'bf16', shape: readonly number[], seed = 1): Tensor =>
  device.tensor(dtype, shape, randomValues(dtype, count(shape), seed, 'normal'))

async function check(name: string, bindings: Readonly<Record<string, Tensor | ScaledOperand | number>>): Promise<void> {
  const { family } = libraryKernels()[name]!
  const args = new KernelArguments({ family }, bindings)
  const [kernel] = getKernels(args)
  expect((kernel as KtlKernel).planned.space.library).toBe(true)
  const { check } = await verify(kernel as KtlKernel, args)
  expect(check.worst && check).toMatchObject({ pass: true })
}

interface Problem {
  readonly input: readonly number[]
  readonly filter: readonly number[]
  readonly stride: readonly number[]
  readonly padding: readonly number[]
  readonly dilation: readonly number[]
  readonly groups: number
}

const places = function* (shape: readonly number[]): Generator<number[]> {
  for (let i = 0; i < count(shape); i++) {
    let rest = i
    yield shape.map((_, d) => {
      const below = count(shape.slice(d + 1))
      const at = Math.floor(rest / below)
      rest -= at * below
      return at
    })
  }
}
const indexIn = (shape: readonly number[], at: readonly number[]): number =>
  at.reduce((index, x, d) => index * shape[d]! + x, 0)

/** Every product that a convolution sums: places in its output, its input and its filter. */
function* products({ input, filter, stride, padding, dilation, groups }: Problem, out: readonly number[]): Generator<[number, number, number]> {
  for (const o of places(out)) {
    const f = o.at(-1)!
    for (const r of places(filter.slice(1))) {
      const channel = Math.floor(f / (filter[0]! / groups)) * filter.at(-1)! + r.at(-1)!
      const y = stride.map((step, d) => o[d + 1]! * step + r[d]! * dilation[d]! - padding[d]!)
      if (y.some((at, d) => at < 0 || at >= input[d + 1]!)) continue
      yield [indexIn(out, o), indexIn(input, [o[0]!, ...y, channel]), indexIn(filter, [f, ...r])]
    }
  }
} // prettier-ignore

const problem = (input: number[], filter: number[], more: Partial<Problem> = {}): Problem => {
  const each = (x: number): number[] => input.slice(2).map(() => x)
  return { input, filter, stride: each(1), padding: each(0), dilation: each(1), groups: 1, ...more }
}

describe('convolutions and their gradients are the sums of the same products', () => {
  test.each([
    ['conv', problem([2, 5, 6, 3], [4, 3, 2, 3], { stride: [2, 1], padding: [1, 0] })],
    ['conv', problem([1, 7, 7, 2], [3, 3, 3, 2], { stride: [3, 2], padding: [2, 1], dilation: [2, 1] })],
    ['conv', problem([1, 6, 6, 4], [6, 3, 3, 2], { stride: [2, 2], padding: [1, 1], groups: 2 })],
    ['conv1d', problem([2, 9, 3], [4, 4, 3], { stride: [2], padding: [2] })],
    ['conv1d', problem([2, 9, 4], [8, 3, 1], { stride: [2], groups: 4 })],
    ['conv3d', problem([1, 4, 3, 4, 2], [3, 2, 2, 2, 2], { stride: [1, 1, 2], padding: [1, 0, 1] })],
    ['conv3d', problem([1, 3, 3, 4, 2], [4, 2, 1, 2, 1], { stride: [2, 1, 1], groups: 2 })],
  ])('%s %#', async (name, given) => {
    const { input, filter, stride, padding, dilation, groups } = given
    const out = [input[0]!, ...stride.map((step, d) => Math.floor((input[d + 1]! + 2 * padding[d]! - dilation[d]! * (filter[d + 1]! - 1) - 1) / step) + 1), filter[0]!]
    const numbers = Object.fromEntries(
      stride.flatMap((step, d) => [[`stride${d}`, step], [`padding${d}`, padding[d]!], [`dilation${d}`, dilation[d]!]]),
    )
    const steps = { ...numbers, ...(groups > 1 && { groups }) }
    const [X, W, G] = [whole('f16', input, 1), whole('f16', filter, 2), whole('f16', out, 3)]
    const [x, w, g] = (await Promise.all([X, W, G].map((tensor) => tensor.toArray()))) as unknown as [ArrayLike<number>, ArrayLike<number>, ArrayLike<number>]
    const sums = { out: new Float64Array(count(out)), input: new Float64Array(count(input)), filter: new Float64Array(count(filter)) }
    for (const [o, i, f] of products(given, out)) {
      sums.out[o]! += x[i]! * w[f]!
      sums.input[i]! += g[o]! * w[f]!
      sums.filter[f]! += g[o]! * x[i]!
    }
    const suffix = groups > 1 ? '_groups' : ''
    const kernels = libraryKernels()
    const run = async (kernel: string, operands: Record<string, Tensor>, shape: readonly number[]): Promise<number[]> => {
      const result = device.empty('f32', shape)
      await kernels[kernel + suffix]!({ ...operands, out: result, ...steps })
      return [...(await result.toArray())]
    }
    expect(await run(name, { input: X, filter: W }, out)).toEqual([...sums.out])
    expect(await run(`${name}_data_gradient`, { gradient: G, filter: W }, input)).toEqual([...sums.input].map((s) => s + 0))
    expect(await run(`${name}_filter_gradient`, { gradient: G, input: X }, filter)).toEqual([...sums.filter].map((s) => s + 0))
    // Of other types: those of one axis and of three are as those of two.
    if (FULL || name === 'conv') await check(`${name}_data_gradient${suffix}`, { gradient: random('bf16', out), filter: random('bf16', filter, 2), out: device.empty('f32', input), ...steps })
  }) // prettier-ignore
})

describe('statistics of rows', () => {
  const [m, c] = [5, 70]
  test.each([
    ['rms_norm', () => ({ X: random('bf16', [m, c]), weight: random('bf16', [c], 2), Y: device.empty('bf16', [m, c]) })],
    ['rms_norm', () => ({ X: random('f32', [2, m, c]), weight: random('f32', [c], 2), eps: 0.5, Y: device.empty('f32', [2, m, c]) })],
    ['layer_norm', () => ({ X: random('f16', [m, c]), weight: random('f16', [c], 2), bias: random('f16', [c], 3), Y: device.empty('f32', [m, c]) })],
    ['softmax_rows', () => ({ X: random('bf16', [m, c]), scale: 0.25, Y: device.empty('bf16', [m, c]) })],
    ['logsumexp_rows', () => ({ X: random('f32', [m, c]), L: device.empty('f32', [m]) })],
    ['cross_entropy', () => ({ X: random('bf16', [m, c]), label: device.tensor('i32', [m], [0, 69, 3, 4, 9]), L: device.empty('f32', [m]) })],
  ] as const)('%s %#', (name, bindings) => check(name, bindings())) // prettier-ignore
})

describe('quantisation', () => {
  const X = () => random('f32', [4, 256])
  const scaled = (data: Tensor['dtype'], scale: Tensor['dtype'], mode: readonly [number, number], more: object = {}) =>
    new ScaledOperand(device.empty(data, [4, 256]), device.empty(scale, [Math.ceil(4 / mode[0]), 256 / mode[1]]), { mode, ...more })
  test.each([
    ['mx', () => scaled('e4m3', 'ue8m0', [1, 32])],
    ['nvfp4', () => scaled('e2m1', 'ue4m3', [1, 16], { globalScale: 0.25 })],
    ['1x128', () => scaled('e4m3', 'f32', [1, 128])],
    ['128x1', () => scaled('e4m3', 'f32', [128, 1])],
    ['tensorwise', () => new ScaledOperand(device.empty('e5m2', [4, 256]), null, { globalScale: 0.125 })],
    ...(FULL
      ? ([
          ['mx', () => scaled('e2m1', 'ue8m0', [1, 32])],
          ['1x128', () => scaled('i8', 'f32', [1, 128])],
        ] as const)
      : []),
  ] as const)('%s %#', async (name, make) => {
    const Y = make()
    await check(`quantize_${name}`, { X: X(), Y })
    const back = `dequantize_${name}`
    if (libraryKernels()[back]) await check(back, { X: Y, Y: device.empty('f16', [4, 256]) })
  })

  test('weights of four bits', () => {
    const data = device.tensor('u4', [256, 6], Array.from({ length: 256 * 6 }, (_, i) => i % 16))
    const zero = device.tensor('u4', [2, 6], Array.from({ length: 12 }, (_, i) => i))
    const W = new ScaledOperand(data, random('f16', [2, 6]), { mode: [128, 1], zero })
    return check('dequantize_u4', { W, Y: device.empty('f32', [256, 6]) })
  })
}) // prettier-ignore
