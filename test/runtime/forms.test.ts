/** Kernels beyond the dense GEMM, as callers bind them: parts, groups, computed extents, indices. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GemmArguments } from '../../runtime/arguments/gemm.ts'
import { KernelArguments, type KernelBindings } from '../../runtime/arguments/kernel.ts'
import { ScaledOperand } from '../../runtime/arguments/scaled_operand.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { OperandsMetadata, ScaledOperandConstraints } from '../../runtime/metadata/index.ts'
import { loadSource, register } from '../../runtime/programs/program.ts'
import type { Device } from '../../runtime/devices/device.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { errorOf } from './errors.ts'

let device: Device
beforeAll(async () => {
  device = await openDevice('virtual-sm100', { checks: 'full' })
})
afterAll(() => device.close())

const kernelOf = (text: string) => Object.values(loadSource({ name: 'form.ktl', text }).kernels)[0]!
const count = (shape: readonly number[]): number => shape.reduce((product, extent) => product * extent, 1)
const iota = (shape: readonly number[], of = (i: number) => i): number[] =>
  Array.from({ length: count(shape) }, (_, i) => of(i))

describe('stored operands', () => {
  const FORM = 'kernel decode(A: i8[m, k] * f32[m, k/4]) -> D: f32[m, k] { D = A }'

  test('value = data * scale of its block, with a short last block and scales of any strides', async () => {
    const data = device.tensor('i8', [2, 6], iota([2, 6]))
    const scale = device.tensor('f32', [2, 2], [1, 10, 100, 1000], { strides: [1, 2] })
    const D = device.empty('f32', [2, 6])
    await kernelOf(FORM)({ A: new ScaledOperand(data, scale, { mode: [1, 4] }), D })
    expect([...(await D.toArray())]).toEqual([0, 1, 2, 3, 40, 50, 600, 700, 800, 900, 10000, 11000])
  })

  test('zero points and one value for a whole axis', async () => {
    const text = 'kernel decode(W: (u4[k, n] - u4[k/2, n]) * f16[k/2, n] * f32) -> D: f32[k, n] { D = W }'
    const W = new ScaledOperand(
      device.tensor('u4', [4, 2], [1, 2, 3, 4, 5, 6, 7, 8]),
      device.tensor('f16', [2, 2], [1, 2, 3, 4]),
      {
        mode: [2, 1],
        zero: device.tensor('u4', [2, 2], [1, 1, 8, 8]),
        globalScale: 10,
      },
    )
    const D = device.empty('f32', [4, 2])
    await kernelOf(text)({ W, D })
    expect([...(await D.toArray())]).toEqual([0, 20, 20, 60, -90, -80, -30, 0])
  })

  test('elements that share bytes do so along an axis that is there', async () => {
    const kernel = kernelOf('kernel q(X: f32[n, l?]) -> D: e2m1[n, l?] { D = X }')
    const args = (shape: number[]) => new KernelArguments(kernel, { X: device.tensor('f32', shape, 1), D: device.empty('e2m1', shape) })
    expect(getKernels(args([4, 2])).length).toBeGreaterThan(0)
    expect(getKernels(args([4])).why).toContain('axis l, along which elements of e2m1 share bytes')
  }) // prettier-ignore

  test('an output gets its scales; a kernel reads what another has written', async () => {
    const D = new ScaledOperand(device.empty('e4m3', [2, 8]), device.empty('ue8m0', [2, 2]), { mode: [1, 4] })
    const X = device.tensor(
      'f32',
      [2, 8],
      iota([2, 8], (i) => i % 8),
    )
    await kernelOf('kernel q(X: f32[m, n]) -> D: e4m3[m, n] * ue8m0[m, n/4] { D = X }')({ X, D })
    // amax 3 and 7 over 448, rounded up to powers of two.
    expect([...(await D.scale!.toArray())]).toEqual([2 ** -7, 2 ** -6, 2 ** -7, 2 ** -6])
    const Y = device.empty('f32', [2, 8])
    await kernelOf('kernel d(D: e4m3[m, n] * ue8m0[m, n/4]) -> Y: f32[m, n] { Y = D }')({ D, Y })
    expect([...(await Y.toArray())]).toEqual([...(await X.toArray())])
  })

  test('normConstant stands for the inverse of the global scale', async () => {
    const q = kernelOf('kernel q(X: f32[n]) -> D: e2m1[n] * ue4m3[n/4] * f32 { D = X }')
    const X = device.tensor('f32', [4], [6, 3, 1, 0])
    const scalesWith = async (options: object): Promise<number[]> => {
      const D = new ScaledOperand(device.empty('e2m1', [4]), device.empty('ue4m3', [1]), { mode: [4], ...options })
      await q({ X, D })
      return [...(await D.scale!.toArray()), ...(await D.data.toArray())]
    }
    expect(await scalesWith({ globalScale: 0.25 })).toEqual([4, 6, 3, 1, 0])
    expect(await scalesWith({ normConstant: 4 })).toEqual([4, 6, 3, 1, 0])
    expect(await scalesWith({ globalScale: 0.25, normConstant: 8 })).toEqual([8, 6, 3, 1, 0])
  })

  test('an output with the scale of a whole tensor, which the caller gives: saturated', async () => {
    const X = device.tensor('f32', [2, 3], [1, -2, 1000, 0.5, -1000, NaN])
    const whole = kernelOf('kernel q(X: f32[m, n]) -> D: e4m3[m, n] * f32 { D = X }')
    const written = async (options: object): Promise<number[]> => {
      const D = new ScaledOperand(device.empty('e4m3', [2, 3]), null, options)
      const args = new KernelArguments(whole, { X, D })
      const { check } = await verify(getKernels(args)[0] as KtlKernel, args)
      expect(check.pass).toBe(true)
      return [...(await D.data.toArray())]
    }
    expect(await written({ globalScale: 0.5 })).toEqual([2, -4, 448, 1, -448, NaN])
    expect(await written({ globalScale: 0.5, normConstant: 4 })).toEqual([4, -8, 448, 2, -448, NaN])
  }) // prettier-ignore

  test('rows are scattered to a stored output with their scales; others keep theirs', async () => {
    const kernel = kernelOf('kernel q(X: bf16[t, n], to: i32[t]) -> D: e4m3[d, n] * ue8m0[d, n/32] { D[to[t], n] = X }')
    const D = new ScaledOperand(device.tensor('e4m3', [5, 64], 3), device.tensor('ue8m0', [5, 2], 4), { mode: [1, 32] })
    const X = device.tensor('bf16', [3, 64], iota([3, 64], (i) => (i % 64) - 20 + Math.floor(i / 64)))
    const args = new KernelArguments(kernel, { X, to: device.tensor('i32', [3], [4, -1, 1]), D })
    const { check } = await verify(getKernels(args)[0] as KtlKernel, args)
    expect(check.worst && check).toMatchObject({ pass: true })
    const [data, scale] = [await D.data.toArray(), await D.scale!.toArray()]
    expect([...scale].map((s) => s === 4)).toEqual([true, true, false, false, true, true, true, true, false, false])
    expect([data[0], data[64 * 3]]).toEqual([3, 3])
    expect([data[64 * 4]! * scale[8]!, data[64]! * scale[2]!]).toEqual([-20, -18])
  }) // prettier-ignore

  test('extents of 0 are no launch', async () => {
    const A = new ScaledOperand(device.empty('i8', [0, 6]), device.empty('f32', [0, 2]), { mode: [1, 4] })
    await kernelOf(FORM)({ A, D: device.empty('f32', [0, 6]) })
  })

  test.each([
    ['a tensor in place of a form', () => device.empty('i8', [2, 6]), 'KTL4024', 'A'],
    ['another mode', () => new ScaledOperand(device.empty('i8', [2, 6]), device.empty('f32', [2, 3]), { mode: [1, 2] }), 'KTL4044', 'A.mode'],
    ['a zero point too many', () => new ScaledOperand(device.empty('i8', [2, 6]), device.empty('f32', [2, 2]), { mode: [1, 4], zero: device.empty('i8', [2, 2]) }), 'KTL4044', 'A.zero'],
    ['a global scale too many', () => new ScaledOperand(device.empty('i8', [2, 6]), device.empty('f32', [2, 2]), { mode: [1, 4], globalScale: 2 }), 'KTL4044', 'A.globalScale'],
    ['scales for more blocks', () => new ScaledOperand(device.empty('i8', [2, 6]), device.empty('f32', [2, 3]), { mode: [1, 4] }), 'KTL4020', 'A.scale'],
  ] as const)('%s', async (_, A, code, operand) => {
    const error = await errorOf(() => new KernelArguments(kernelOf(FORM), { A: A(), D: device.empty('f32', [2, 6]) }))
    expect([error.code, error.operand]).toEqual([code, operand])
  }) // prettier-ignore

  test('a plain operand takes no parts', async () => {
    const X = new ScaledOperand(device.empty('f32', [4]), null, { globalScale: 2 })
    const kernel = kernelOf('kernel id(X: f32[n]) -> Y: f32[n] { Y = X }')
    const error = await errorOf(() => new KernelArguments(kernel, { X, Y: device.empty('f32', [4]) }))
    expect([error.code, error.operand]).toEqual(['KTL4024', 'X'])
  })

  test.each([
    ['without parts', () => new ScaledOperand(device.empty('i8', [2, 6]), null), 'KTL4044'],
    ['scales without a mode', () => new ScaledOperand(device.empty('i8', [2, 6]), device.empty('f32', [2])), 'KTL4044'],
    ['a mode of another rank', () => new ScaledOperand(device.empty('i8', [2, 6]), device.empty('f32', [2]), { mode: [1] }), 'KTL4044'],
    ['too few scales', () => new ScaledOperand(device.empty('i8', [2, 6]), device.empty('f32', [2, 1]), { mode: [1, 4] }), 'KTL4044'],
    ['blocks of 0', () => new ScaledOperand(device.empty('i8', [2, 6]), device.empty('f32', [2, 1]), { mode: [1, 0] }), 'KTL4044'],
    ['another swizzle', () => new ScaledOperand(device.empty('i8', [2]), device.empty('f32', [2]), { mode: [1], swizzle: 'x' as never }), 'KTL4015'],
    ['no tensor', () => new ScaledOperand([1] as never, null), 'KTL4024'],
  ])('refuses an operand %s', async (_, make, code) => {
    expect((await errorOf(make)).code).toBe(code)
  }) // prettier-ignore

  test('rows of packed elements start at whole bytes', async () => {
    const strided = await errorOf(() => device.empty('u4', [2, 3], { strides: [3, 1] }))
    expect(strided.code).toBe('KTL4003')
    expect(device.empty('u4', [2, 3]).strides).toEqual([4, 1])
  })
})

describe('groups', () => {
  const SUM = 'kernel sums(X: f32[t] ragged t by ends as g, ends: i32[g]) -> S: f32[g] { S = sum[t](X) }'
  const i32 = (values: readonly number[]) => device.tensor('i32', [values.length], values)

  test('ends lie on the device; empty groups sum to 0, rows behind the last one count for none', async () => {
    const S = device.empty('f32', [4])
    await kernelOf(SUM)({ X: device.tensor('f32', [6], [1, 2, 4, 8, 16, 32]), ends: i32([2, 2, 5, 5]), S })
    expect([...(await S.toArray())]).toEqual([3, 0, 28, 0])
  })

  test('rows behind the last group stay as they are', async () => {
    const text = 'kernel scale(X: f32[t] ragged t by ends as g, w: f32[g], ends: i32[g]) -> Y: f32[t] { Y = X * w }'
    const Y = device.tensor('f32', [4], -1)
    await kernelOf(text)({
      X: device.tensor('f32', [4], 1),
      w: device.tensor('f32', [2], [2, 3]),
      ends: i32([1, 3]),
      Y,
    })
    expect([...(await Y.toArray())]).toEqual([2, 3, 3, -1])
  })

  test('padded groups count their rows', async () => {
    const text = 'kernel sums(X: f32[g, m] ragged m upto len as g, len: i32[g]) -> S: f32[g] { S = sum[m](X) }'
    const S = device.empty('f32', [2])
    await kernelOf(text)({ X: device.tensor('f32', [2, 3], [1, 2, 4, 8, NaN, NaN]), len: i32([3, 1]), S })
    expect([...(await S.toArray())]).toEqual([7, 8])
  })

  test('each group has blocks of its own', async () => {
    const text = 'kernel decode(X: i8[t] * f32[t/2] ragged t by ends as g, ends: i32[g]) -> Y: f32[t] { Y = X }'
    const kernel = kernelOf(text)
    const X = (blocks: number) => new ScaledOperand(device.tensor('i8', [5], 1), device.tensor('f32', [blocks], iota([blocks], (i) => i + 1)), { mode: [2] }) // prettier-ignore
    const Y = device.empty('f32', [5])
    // Groups of 3 and 2 rows: their blocks begin at 0 and floor(3 / 2) + 1.
    await kernel({ X: X(5), ends: i32([3, 5]), Y })
    expect([...(await Y.toArray())]).toEqual([1, 1, 2, 3, 3])
    const error = await errorOf(() => new KernelArguments(kernel, { X: X(4), ends: i32([3, 5]), Y }))
    expect([error.code, error.operand, error.expected]).toEqual(['KTL4020', 'X.scale', 'a tensor of shape [5]'])
  })

  test('no groups, and no rows', async () => {
    const kernel = kernelOf(SUM)
    await kernel({ X: device.empty('f32', [0]), ends: device.empty('i32', [0]), S: device.empty('f32', [0]) })
    const S = device.empty('f32', [2])
    await kernel({ X: device.empty('f32', [0]), ends: i32([0, 0]), S })
    expect([...(await S.toArray())]).toEqual([0, 0])
  })

  test('ends that decrease are a finding', async () => {
    const bindings = { X: device.tensor('f32', [4], 1), ends: i32([3, 1]), S: device.empty('f32', [2]) }
    const error = await errorOf(() => kernelOf(SUM)(bindings))
    expect(error.code).toMatch(/^KTL50/)
  })
})

describe('indices', () => {
  const shift = (read: string, more = '') =>
    kernelOf(`kernel shift(X: f32[n], k: i32) -> Y: f32[m] { ${more} Y = ${read} }`)
  const bindings = (extent: number, out: number, k: number): KernelBindings => ({
    X: device.tensor('f32', [extent], iota([extent])), k, Y: device.empty('f32', [out]),
  }) // prettier-ignore
  const outcome = async (text: string, extent: number, out: number, k: number): Promise<unknown> => {
    try {
      const args = new KernelArguments(shift(text), bindings(extent, out, k))
      return args.status.ok ? 'ok' : args.status.code
    } catch (error) {
      return (error as { code: string }).code
    }
  }

  test.each([
    ['X[m + k]', 8, 6, 2, 'ok'],
    ['X[m + k]', 8, 7, 2, 'KTL4046'],
    ['X[m - k]', 8, 4, 1, 'KTL4046'],
    ['X[m - k] else 0', 8, 4, 1, 'ok'],
    ['X[k - m]', 8, 4, 3, 'ok'],
    ['X[m * k]', 8, 4, 2, 'ok'],
    ['X[m * k]', 6, 4, 2, 'KTL4046'],
    ['X[m / k]', 2, 6, 3, 'ok'],
    ['X[m / k]', 2, 7, 3, 'KTL4046'],
    ['X[m % k]', 3, 100, 3, 'ok'],
    ['X[m % k]', 2, 100, 3, 'KTL4046'],
    ['X[m - m % k]', 8, 10, 3, 'KTL4046'],
    ['X[m - m % k]', 10, 10, 3, 'ok'],
    ['X[m * 2 % 4]', 3, 10, 1, 'ok'],
    ['X[size(n) - 1 - m]', 8, 8, 1, 'ok'],
    ['X[size(n) - m]', 8, 8, 1, 'KTL4046'],
    ['X[m / k]', 8, 4, 0, 'KTL4047'],
    ['X[m % k]', 8, 4, -2, 'KTL4047'],
    // Nothing is computed, so nothing is read.
    ['X[m + k]', 8, 0, 100, 'ok'],
    ['X[m / k]', 8, 0, 0, 'ok'],
  ])('%s with n = %i, m = %i, k = %i: %s', async (read, extent, out, k, expected) => {
    expect(await outcome(read, extent, out, k)).toBe(expected)
  })

  test('the error says where, and what helps', async () => {
    const error = await errorOf(() => new KernelArguments(shift('X[m - k]'), bindings(8, 4, 1)))
    expect([error.operand, error.expected, error.got]).toEqual(['X', 'an index of 0 to 7', '-1 at m = 0'])
    expect(error.diagnostics[0]!.help).toContain('else 0')
  })

  test('a divisor of 0 is a Status of every kernel, and no error', () => {
    const kernels = getKernels(new KernelArguments(shift('X[m / k]'), bindings(8, 4, 0)))
    expect([kernels.length, kernels.why]).toEqual([0, expect.stringContaining('KTL4047')])
  })

  test('what is outside of an empty operand, and summed over nothing, is not read', async () => {
    const kernel = kernelOf('kernel sums(X: f32[n], W: f32[r]) -> Y: f32[m] { Y = sum[r](X[m + r] * W) }')
    const Y = device.tensor('f32', [2], -1)
    await kernel({ X: device.empty('f32', [0]), W: device.empty('f32', [0]), Y })
    expect([...(await Y.toArray())]).toEqual([0, 0])
  })

  test('where there are no groups, nothing is read at indices of theirs', async () => {
    const kernel = kernelOf(
      'kernel even(X: f32[t, k] ragged t by ends as g, W: f32[g, k, j], ends: i32[g]) -> Y: f32[t, n] { Y = sum[k](X * W[g, k, 2 * n]) }',
    )
    const of = (groups: number, j: number): KernelArguments =>
      new KernelArguments(kernel, {
        X: device.empty('f32', [2, 3]), W: device.empty('f32', [groups, 3, j]), ends: device.empty('i32', [groups]), Y: device.empty('f32', [2, 4]),
      }) // prettier-ignore
    expect(of(0, 2).status.ok).toBe(true)
    expect(of(1, 8).status.ok).toBe(true)
    expect(() => of(1, 2)).toThrow('KTL4046')
    for (const read of ['2 * n', 'n']) {
      const kernel = kernelOf(
        `kernel none(X: f32[t, k] ragged t by ends as g, W: f32[g, k, ${read === 'n' ? 'n' : 'j'}], ends: i32[g]) -> Y: f32[t, n] { Y = sum[k](X * W${read === 'n' ? '' : `[g, k, ${read}]`}) }`,
      )
      const Y = device.tensor('f32', [2, 4], -1)
      await kernel({
        X: device.tensor('f32', [2, 3], 1),
        W: device.empty('f32', [0, 3, read === 'n' ? 4 : 8]),
        ends: device.empty('i32', [0]),
        Y,
      })
      expect([...(await Y.toArray())]).toEqual(Array(8).fill(-1))
    }
  })

  test('extents that the kernel computes', async () => {
    const kernel = kernelOf(
      'kernel folds(X: f32[n], k: i32) -> Y: f32[k2] { axis j = size(n) / k\nY = sum[j](X[j * k + k2]) }',
    )
    const Y = device.empty('f32', [2])
    await kernel({ X: device.tensor('f32', [6], [1, 2, 4, 8, 16, 32]), k: 2, Y })
    expect([...(await Y.toArray())]).toEqual([21, 42])
    const args = new KernelArguments(kernel, { X: device.empty('f32', [6]), k: 2, Y })
    expect(args.axes.extents).toEqual({ n: 6, k2: 2, j: 3 })
  })

  test('a looked-up index outside reads 0: -1 silently, others as a finding', async () => {
    const kernel = kernelOf('kernel gather(X: f32[v], id: i32[t]) -> Y: f32[t] { Y = X[id[t]] }')
    const X = device.tensor('f32', [2], [1, 2])
    const Y = device.empty('f32', [3])
    const id = device.tensor('i32', [3], [1, -1, 0])
    await kernel({ X, id, Y })
    expect([...(await Y.toArray())]).toEqual([2, 0, 1])
    await id.copyFrom([1, 7, 0])
    expect((await errorOf(() => kernel({ X, id, Y }))).code).toBe('KTL5025')
    expect([...(await Y.toArray())]).toEqual([2, 0, 1])
  })

  test('a scatter keeps rows that it does not name', async () => {
    const kernel = kernelOf('kernel scatter(X: f32[t], to: i32[t]) -> Y: f32[v] { Y[to[t]] = X }')
    const Y = device.tensor('f32', [4], -1)
    await kernel({ X: device.tensor('f32', [3], [1, 2, 3]), to: device.tensor('i32', [3], [3, -1, 0]), Y })
    expect([...(await Y.toArray())]).toEqual([3, -1, -1, 1])
  })

  test.each([
    ['elements', 'f32[t]', 'f32[v]', 'X', [3], [4]],
    ['sums', 'f32[t, k]', 'f16[v]', 'sum[k](X * X)', [3, 20], [4]],
    ['sums of tiles', 'f16[t, k]', 'f32[v, n]', 'sum[k](X * W)', [3, 16], [4, 8]],
    ['4-bit elements', 'f32[t, n]', 'e2m1[v, n]', 'X', [3, 5], [4, 5]],
  ] as const)('of %s scattered to one place one stays, as a finding', async (_, input, output, value, from, to) => {
    const at = to.length === 1 ? 'to[t]' : 'to[t], n'
    const weights = value.includes('W') ? ', W: f16[k, n]' : ''
    const kernel = kernelOf(`kernel scatter(X: ${input}, to: i32[t]${weights}) -> Y: ${output} { Y[${at}] = ${value} }`)
    const [dtypeX] = input.split('[') as ['f32' | 'f16']
    const [dtypeY] = output.split('[') as ['f32' | 'f16' | 'e2m1']
    const X = device.tensor(dtypeX, from, iota(from, (i) => 1 + Math.floor((3 * i) / count(from))))
    const Y = device.tensor(dtypeY, to, -1)
    const bindings = { X, Y, ...(weights && { W: device.tensor('f16', [16, 8], 1) }) }
    const run = (places: readonly number[]) => kernel({ ...bindings, to: device.tensor('i32', [3], places) })
    await run([3, -1, 0])
    const distinct = await Y.toArray()
    expect((await errorOf(() => run([2, 1, 2]))).code).toBe('KTL5026')
    const row = (r: number, array: ArrayLike<number>) => Array.from(array).slice((r * count(to)) / 4, ((r + 1) * count(to)) / 4)
    const both = await Y.toArray()
    expect([row(0, distinct), row(3, distinct)]).toContainEqual(row(2, both))
  }) // prettier-ignore
})

test('plain GEMM arguments do not find kernels with parts', () => {
  const text = `kernel quantised(A: f32[m, k], B: f32[k, n]) -> D: e4m3[m, n] * ue8m0[m, n/32] { D = sum[k](A * B) }`
  const unregister = register(loadSource({ name: 'special.ktl', text }))
  const [A, B, out] = [device.empty('f32', [4, 8]), device.empty('f32', [8, 32]), device.empty('e4m3', [4, 32])]
  expect(getKernels(new GemmArguments({ A, B, out })).map(({ metadata }) => metadata.kernelName)).toEqual([])
  unregister()
})

test('every kernel that is found supports what it was found for, and a prepared launch of it runs', async () => {
  const kernel = kernelOf('kernel mx(A: e4m3[m, k] * ue8m0[m, k/32]) -> D: f32[m, k] { D = A }')
  const A = new ScaledOperand(device.tensor('e4m3', [2, 64], 2), device.tensor('ue8m0', [2, 2], 4), { mode: [1, 32] })
  const D = device.empty('f32', [2, 64])
  const args = new KernelArguments(kernel, { A, D })
  const [found] = getKernels(args)
  expect(found).toBeInstanceOf(KtlKernel)
  expect(found!.supports(args).ok).toBe(true)
  const prepared = (found as KtlKernel).prepare(args, await (found as KtlKernel).compile(args))
  prepared.launch()
  expect((await D.toArray())[0]).toBe(8)
  const other = new ScaledOperand(device.tensor('e4m3', [2, 64], 3), device.tensor('ue8m0', [2, 2], 8), {
    mode: [1, 32],
  })
  prepared.rebind({ A: other }).launch()
  expect((await D.toArray())[0]).toBe(24)
  const scaled = new ScaledOperand(other.data, other.scale, { mode: [1, 32], globalScale: 2 })
  expect((await errorOf(() => prepared.rebind({ A: scaled }))).code).toBe('KTL4024')
})

test('metadata say how operands are stored, and outlive JSON', () => {
  const text =
    'kernel decode(W: (u4[k, n] - u4[k/2, n]) * f16[k/2, n] * f32, B: i8[n] * f32) -> D: f32[k, n] { D = W + B }'
  const kernel = kernelOf(text)
  const W = new ScaledOperand(device.empty('u4', [4, 2]), device.empty('f16', [2, 2], { strides: [1, 2] }), {
    mode: [2, 1], zero: device.empty('u4', [2, 2]), globalScale: 1,
  }) // prettier-ignore
  const args = new KernelArguments(kernel, {
    W,
    B: new ScaledOperand(device.empty('i8', [2]), null, { globalScale: 1 }),
    D: device.empty('f32', [4, 2]),
  })
  const { operands } = getKernels(args)[0]!.metadata
  expect(operands.scaled).toEqual({
    W: { mode: [2, 1], swizzle: 'none', parts: ['scale', 'zero', 'global'] },
    B: { mode: ['all'], swizzle: 'none', parts: ['global'] },
  })
  expect(operands.tensors['W.scale']).toMatchObject({ dtype: 'f16', stride: [0, 0] })
  expect(operands.supports(args)).toEqual({ ok: true })
  expect(OperandsMetadata.fromJSON(JSON.parse(JSON.stringify(operands)))).toEqual(operands)
})

test.each([
  ['mode', { mode: [0], swizzle: 'none', parts: [] }],
  ['swizzle', { mode: [1], swizzle: '128x4', parts: [] }],
  ['parts', { mode: [1], swizzle: 'none', parts: ['norm'] }],
])('constraints of another %s are refused', async (_, fields) => {
  expect((await errorOf(() => ScaledOperandConstraints.fromJSON(fields))).code).toBe('KTL4175')
})
