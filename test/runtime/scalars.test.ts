/** Scalars that lie on the device: the kernel reads them when it runs, whatever they were when it was prepared. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GemmArguments } from '../../runtime/arguments/gemm.ts'
import { KernelArguments, type KernelBindings } from '../../runtime/arguments/kernel.ts'
import { ScaledOperand } from '../../runtime/arguments/scaled_operand.ts'
import type { Device, Tensor } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import { problemOf } from '../../runtime/discovery/ranking/tuning.ts'
import type { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { AttentionArguments } from '../../runtime/operations/attention.ts'
import { loadSource } from '../../runtime/programs/program.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { errorOf } from './errors.ts'

const kernelOf = (text: string) => Object.values(loadSource({ name: 'scalars.ktl', text }).kernels)[0]!
const GEMM =
  'kernel residual(A: f16[m, k], B: f16[k, n], C: f16[m, n], alpha: f32, beta: bf16 = 1) -> D: f32[m, n] { D = sum[k](A * B) * alpha + skip0(beta) * C }'
const AXPY = 'kernel axpy(X: f32[n], a: f32, y: f64 = 0) -> Y: f64[n] { Y = f64(a * X) + y }'

describe.each(['virtual-sm90', 'virtual-sm100'] as const)('%s', (name) => {
  let device: Device
  beforeAll(async () => {
    device = await openDevice(name, { checks: 'full' })
  })
  afterAll(() => device.close())

  const values = async (tensor: Tensor): Promise<number[]> => [...(await tensor.toArray())]
  const one = (value: number): Tensor => device.tensor('f32', [1], value)
  const best = (args: KernelArguments, kind?: string): KtlKernel => {
    const list = getKernels(args, { limit: 1, ...(kind && { metadataFilter: ({ design }) => design.kind === kind }) })
    expect(list.why).toBeNull()
    return list[0] as KtlKernel
  }

  // Rows that are not aligned are the business of mma.sync on every device.
  test.each([
    [name.replace('virtual-', ''), 32],
    ['sm80', 33],
    ['simt', 32],
  ])('a GEMM of %s, prepared once', async (kind, k) => {
    const [m, n] = [64, 64]
    const [A, B] = [device.tensor('f16', [m, k], 1), device.tensor('f16', [k, n], 1)]
    const [C, D] = [device.tensor('f16', [m, n], 5), device.empty('f32', [m, n])]
    const [alpha, beta] = [device.tensor('f32', [], 2), device.tensor('bf16', [1, 1], 0)]
    const args = new KernelArguments(kernelOf(GEMM), { A, B, C, D, alpha, beta })
    const kernel = best(args, kind)
    const { check, artifact } = await verify(kernel, args)
    expect(check.pass).toBe(true)
    const first = async (): Promise<number> => (await values(D))[0]!
    expect(await first()).toBe(2 * k)
    const prepared = kernel.prepare(args, artifact)
    await alpha.copyFrom([3])
    await beta.copyFrom([1])
    prepared.launch()
    expect(await first()).toBe(3 * k + 5)
    prepared.rebind({ alpha: device.tensor('f32', [], -1) }).launch()
    expect(await first()).toBe(-k + 5)
    const graph = device.capture((stream) => kernel.launch(args, { artifact, stream }))
    for (const a of [4, 7]) {
      await alpha.copyFrom([a])
      graph.launch()
      await device.synchronize()
      expect(await first()).toBe(a * k + 5)
    }
    graph.free()
    // Numbers and tensors are no two kernels.
    const numbers = new KernelArguments(kernelOf(GEMM), { A, B, C, D, alpha: 6 })
    const same = best(numbers, kind)
    expect(same.metadata.kernelName).toBe(kernel.metadata.kernelName)
    expect(problemOf(numbers)).toBe(problemOf(args))
    await same.run(numbers, { artifact })
    expect(await first()).toBe(6 * k + 5)
  })

  test('a kernel on the CUDA cores; f64, defaults and one element in host memory', async () => {
    const X = device.tensor('f32', [3], [1, 2, 3])
    const Y = device.empty('f64', [3])
    const run = async (bindings: KernelBindings): Promise<number[]> => {
      const args = new KernelArguments(kernelOf(AXPY), { X, Y, ...bindings })
      expect((await verify(best(args), args)).check.pass).toBe(true)
      return values(Y)
    }
    expect(await run({ a: one(10) })).toEqual([10, 20, 30])
    expect(await run({ a: 10, y: device.tensor('f64', [1], 0.1) })).toEqual([10.1, 20.1, 30.1])
    expect(await run({ a: { data: Float32Array.of(2), shape: [1] } })).toEqual([2, 4, 6])
    expect(await run({ a: [[3]] })).toEqual([3, 6, 9])
    expect(await run({ a: { data: Uint16Array.of(0x4000), shape: [], dtype: 'bf16' } })).toEqual([2, 4, 6])
  })

  test('global scales and constants of norms', async () => {
    const q = kernelOf('kernel q(X: f32[n]) -> D: e2m1[n] * ue4m3[n/4] * f32 { D = X }')
    const d = kernelOf('kernel d(D: e2m1[n] * ue4m3[n/4] * f32) -> Y: f32[n] { Y = D }')
    const X = device.tensor('f32', [4], [6, 3, 1, 0])
    const Y = device.empty('f32', [4])
    for (const options of [{ globalScale: one(0.25) }, { normConstant: one(4) }, { globalScale: 2, normConstant: one(4) }]) {
      const D = new ScaledOperand(device.empty('e2m1', [4]), device.empty('ue4m3', [1]), { mode: [4], ...options })
      const args = new KernelArguments(q, { X, D })
      expect((await verify(best(args), args)).check.pass).toBe(true)
      expect(await values(D.scale!)).toEqual([4])
      const back = new ScaledOperand(D.data, D.scale, { mode: [4], globalScale: one(0.25) })
      await d({ D: back, Y })
      expect(await values(Y)).toEqual([6, 3, 1, 0])
    }
    const D = new ScaledOperand(device.empty('e2m1', [4]), device.empty('ue4m3', [1]), { mode: [4], normConstant: one(4) })
    expect(await errorOf(() => d({ D, Y }))).toMatchObject({ code: 'KTL4044', operand: 'D.globalScale' })
  }) // prettier-ignore

  test('a GEMM whose result has a constant of its norm', async () => {
    const [A, B] = [device.tensor('f16', [16, 16], 1), device.tensor('f16', [16, 16], 1)]
    for (const normConstant of [8, one(8)]) {
      const out = new ScaledOperand(device.empty('e2m1', [16, 16]), device.empty('ue4m3', [16, 1]), { mode: [1, 16], normConstant })
      const args = new GemmArguments({ A, B, out })
      const [kernel] = getKernels(args, { limit: 1 })
      expect((await verify(kernel as KtlKernel, args)).check.pass).toBe(true)
      expect((await values(out.scale!))[0]).toBe(22)
    }
  }) // prettier-ignore

  test('arguments of a class find kernels of the library', async () => {
    const [Q, K, V] = [1, 2, 3].map((value) => device.tensor('bf16', [1, 1, 4, 16], value / 4))
    const out = device.empty('bf16', [1, 1, 4, 16])
    const args = new AttentionArguments({ Q: Q!, K: K!, V: V!, out, scale: one(0.5) })
    const kernel = best(args)
    expect((await verify(kernel, args)).check.pass).toBe(true)
    const numbers = new AttentionArguments({ Q: Q!, K: K!, V: V!, out, scale: 0.5 })
    expect(best(numbers).metadata.kernelName).toBe(kernel.metadata.kernelName)
  })

  test('refuses several elements, whole numbers, other dtypes and outputs', async () => {
    const X = device.tensor('f32', [3], [1, 2, 3])
    const Y = device.empty('f64', [3])
    const args = (bindings: KernelBindings) => new KernelArguments(kernelOf(AXPY), { X, Y, ...bindings })
    expect((await errorOf(() => args({ a: X }))).code).toBe('KTL4024')
    expect((await errorOf(() => args({ a: { data: [1, 2], shape: [2] } }))).code).toBe('KTL4024')
    expect((await errorOf(() => args({ a: null }))).code).toBe('KTL4024')
    const why = (given: KernelArguments): string | null => getKernels(given).why
    expect(why(args({ a: device.tensor('f16', [1], 1) }))).toContain('KTL4031')
    expect(why(args({ a: 1, y: Y.view([1], { strides: [1] }) }))).toContain('KTL4037')
    const shift = kernelOf('kernel s(X: f32[n], i: i32) -> Y: f32[n] { Y = X[n / i] }')
    const whole = { X, Y: device.empty('f32', [3]), i: device.tensor('i32', [1], 2) }
    expect(why(new KernelArguments(shift, whole))).toContain('KTL4048')
  })
})
