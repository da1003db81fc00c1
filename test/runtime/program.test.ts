import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  ElementwiseArguments, EpilogueArguments, GemmArguments, getKernels, loadKtl, loadSource, openDevice, type Device, type Tensor,
} from '../../runtime/index.ts' // prettier-ignore
import { librarySources } from '../../runtime/library/index.ts'
import { ktlProvider } from '../../runtime/discovery/providers/provider.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { errorOf } from './errors.ts'

const MLP = `/// A linear layer.
kernel linear_gelu(A: bf16[m, k], B: bf16[k, n] | bf16[n, k], bias: bf16[n]) -> D: bf16[m, n] {
  acc = sum[k](A * B)
  D = relu(acc + bias)
}
epilogue scale_residual(acc, C, alpha: f32 = 1, beta: f32 = 0) -> (D, F) {
  F = acc * alpha + C * beta
  D = relu(F)
}
kernel residual(A: f16[m, k], B: f16[k, n], C: f16[m, n], alpha: f32, beta: f32) -> (D: f16[m, n], F: f32[m, n]) {
  (D, F) = scale_residual(sum[k](A * B), C, alpha, beta)
}
kernel swiglu(A: bf16[m, k], Bg: bf16[k, f], Bu: bf16[k, f]) -> H: f32[m, f] {
  H = relu(sum[k](A * Bg)) * sum[k](A * Bu)
}
kernel axpby(X: f32[i, j], Y: f32[i, j], a: f32, b: f32) -> Z: f32[i, j] { Z = a * X + b * Y }
`

describe('loadKtl', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'ktl-program-'))
  afterAll(() => rmSync(folder, { recursive: true }))

  test('a file, a URL, a text', async () => {
    const file = path.join(folder, 'mlp.ktl')
    writeFileSync(file, MLP)
    const names = ['linear_gelu', 'residual', 'swiglu', 'axpby']
    expect(Object.keys((await loadKtl(file)).kernels)).toEqual(names)
    expect(Object.keys((await loadKtl(new URL(`file://${file}`))).kernels)).toEqual(names)
    const program = await loadKtl({ source: MLP, name: 'mlp.ktl' })
    expect([Object.keys(program.kernels), Object.keys(program.epilogues), program.diagnostics]).toEqual([
      names,
      ['scale_residual'],
      [],
    ])
    expect([program.kernels['swiglu']!.name, program.kernels['linear_gelu']!.family.doc]).toEqual([
      'swiglu',
      'A linear layer.',
    ])
  })

  test('every diagnostic of a wrong text, with its place', async () => {
    const source = 'kernel f(A: f32[m]) -> D: f32[m] { D = rleu(A) }\nkernel g(A: f32[m]) -> D: f32[m] { D = B }'
    const error = await errorOf(() => loadKtl({ source, name: 'w.ktl' }))
    const errors = error.diagnostics.filter((d) => d.severity === 'error')
    expect(errors.map((d) => [d.code, d.source?.name])).toEqual([['KTL2004', 'w.ktl'], ['KTL2001', 'w.ktl']]) // prettier-ignore
  })

  test('syntax errors, missing files, wrong arguments', async () => {
    expect((await errorOf(() => loadKtl({ source: 'kernel' }))).code).toMatch(/^KTL10/)
    await expect(loadKtl(path.join(folder, 'missing.ktl'))).rejects.toMatchObject({
      code: 'KTL6072',
      cause: { code: 'ENOENT' },
    })
    expect((await errorOf(() => loadKtl(3 as never))).code).toBe('KTL4015')
  })

  test('warnings do not stop a program', () => {
    const program = loadSource({ name: 'w.ktl', text: 'kernel f(A: f32[m], B: f32[m]) -> D: f32[m] { D = A }' })
    expect(program.diagnostics.map((d) => [d.code, d.severity])).toEqual([['KTL2008', 'warning']])
  })
})

test('the library loads without errors, and its schedules are warnings at most', () => {
  for (const source of librarySources())
    expect(loadSource(source).diagnostics.filter((d) => d.severity === 'error')).toEqual([])
  const names = ktlProvider.spaces.filter((space) => space.library).map((space) => space.family.name)
  expect(names).toEqual(
    expect.arrayContaining(['gemm', 'dgemm', 'sgemm', 'linear', 'linear_gelu', 'residual', 'swiglu', 'add', 'axpby']),
  )
})

test('instances of a kernel', () => {
  const { kernels } = loadSource({ name: 'mlp.ktl', text: MLP })
  const instances = [...kernels['linear_gelu']!.getInstances({ cc: 100 })]
  // Two orders of B, 16 tiles, two ways to store; and one plain kernel for each order.
  expect(instances.filter((kernel) => kernel.metadata.design.kind === 'sm100')).toHaveLength(2 * 16 * 2)
  expect(instances.filter((kernel) => kernel.metadata.design.kind === 'simt')).toHaveLength(2)
  expect([...kernels['linear_gelu']!.getInstances({ cc: 70 })]).toEqual([])
})

describe('callable kernels', () => {
  let device: Device
  beforeAll(async () => void (device = await openDevice('virtual-sm100')))
  afterAll(() => device?.close())
  const { kernels, epilogues } = loadSource({ name: 'mlp.ktl', text: MLP })
  const integers = (count: number, seed: number): number[] =>
    Array.from({ length: count }, (_, i) => (((i + seed) * 7919) % 5) - 2)
  const tensor = (dtype: DTypeName, shape: number[], seed: number): Tensor =>
    device.tensor(dtype, shape, integers(shape.reduce((a, b) => a * b, 1), seed)) // prettier-ignore
  const poisoned = (dtype: DTypeName, shape: number[]): Tensor => device.tensor(dtype, shape, NaN)
  const matmul = (a: ArrayLike<number>, b: ArrayLike<number>, [m, k, n]: readonly [number, number, number]): number[] =>
    Array.from({ length: m * n }, (_, i) => {
      let sum = 0
      for (let x = 0; x < k; x++) sum += a[Math.floor(i / n) * k + x]! * b[x * n + (i % n)]!
      return sum
    })

  test('a linear layer', async () => {
    const [A, B, bias, D] = [
      tensor('bf16', [20, 32], 1),
      tensor('bf16', [32, 24], 2),
      tensor('bf16', [24], 3),
      poisoned('bf16', [20, 24]),
    ]
    const { findings } = await kernels['linear_gelu']!({ A, B, bias, D })
    const b = integers(24, 3)
    const expected = matmul(integers(20 * 32, 1), integers(32 * 24, 2), [20, 32, 24]).map((x, i) =>
      Math.max(0, x + b[i % 24]!),
    )
    expect([findings, [...(await D.toArray())]]).toEqual([[], expected])
  })

  test('two outputs by a named epilogue, scalars', async () => {
    const [A, B, C] = [tensor('f16', [9, 16], 1), tensor('f16', [16, 8], 2), tensor('f16', [9, 8], 3)]
    const [D, F] = [poisoned('f16', [9, 8]), poisoned('f32', [9, 8])]
    await kernels['residual']!({ A, B, C, alpha: 2, beta: -1, D, F })
    const c = integers(72, 3)
    const expected = matmul(integers(9 * 16, 1), integers(16 * 8, 2), [9, 16, 8]).map((x, i) => 2 * x - c[i]!)
    expect([...(await F.toArray())]).toEqual(expected)
    expect([...(await D.toArray())]).toEqual(expected.map((x) => Math.max(0, x)))
  })

  test('a kernel that tensor cores do not take yet runs on CUDA cores', async () => {
    const [A, Bg, Bu, H] = [
      tensor('bf16', [7, 16], 1),
      tensor('bf16', [16, 8], 2),
      tensor('bf16', [16, 8], 3),
      poisoned('f32', [7, 8]),
    ]
    await kernels['swiglu']!({ A, Bg, Bu, H })
    const [g, u] = [2, 3].map((seed) => matmul(integers(7 * 16, 1), integers(16 * 8, seed), [7, 16, 8])) as [
      number[],
      number[],
    ]
    expect([...(await H.toArray())]).toEqual(g.map((x, i) => Math.max(0, x) * u[i]!))
  })

  test('elementwise kernels, in place', async () => {
    const X = tensor('f32', [5, 7], 1)
    const Y = tensor('f32', [5, 7], 2)
    await kernels['axpby']!({ X, Y, a: 2, b: 3, Z: X })
    expect([...(await X.toArray())]).toEqual(integers(35, 1).map((x, i) => 2 * x + 3 * integers(35, 2)[i]!))
    const args = new ElementwiseArguments({ A: X, B: Y, out: poisoned('f32', [5, 7]) })
    await getKernels(args)[0]!.run(args)
    const [x, y] = [await X.toArray(), await Y.toArray()]
    expect([...(await args.out.toArray())]).toEqual([...x].map((v, i) => v + y[i]!))
  })

  test('a named epilogue in the slot of a library kernel', async () => {
    const [A, B, C] = [tensor('f16', [16, 16], 1), tensor('f16', [16, 16], 2), tensor('f32', [16, 16], 3)]
    const [out, F] = [poisoned('f32', [16, 16]), poisoned('f32', [16, 16])]
    const epilogue = new EpilogueArguments(epilogues['scale_residual']!, { C, beta: 2, F })
    const args = new GemmArguments({ A, B, out, epilogue })
    await getKernels(args)[0]!.run(args)
    const c = integers(256, 3)
    const expected = matmul(integers(256, 1), integers(256, 2), [16, 16, 16]).map((x, i) => x + 2 * c[i]!)
    expect([...(await F.toArray())]).toEqual(expected)
    expect([...(await out.toArray())]).toEqual(expected.map((x) => Math.max(0, x)))
  })

  test('no kernel for the arguments: the error says what failed', async () => {
    const bindings = {
      A: tensor('f16', [8, 8], 1),
      B: tensor('bf16', [8, 8], 2),
      bias: tensor('bf16', [8], 3),
      D: poisoned('bf16', [8, 8]),
    }
    const error = await errorOf(() => kernels['linear_gelu']!(bindings))
    expect(error.code).toBe('KTL4042')
    expect(error.diagnostics[0]!.notes!.join()).toContain('operand `A` is unsupported: expected bf16, got f16')
  })
})
