/** Outputs without axes, on every kind of kernel that a device has. */
import { describe, expect, test } from 'vitest'
import { getKernels, KernelArguments, loadSource, openDevice, verify, type KtlKernel } from '../../runtime/index.ts'
import { ktl, lastLine } from './cli.ts'

const { kernels } = loadSource({
  name: 'amax.ktl',
  text: `kernel quantised(A: f16[m, k], B: f16[k, n]) -> (D: f16[m, n], amax: f32, total: f32, least: f16) {
  D = sum[k](A * B)
  amax = max[m, n](abs(D))
  total = sum[m, n](D)
  least = min[m, n](D)
}
kernel mean_square(X: f32[i, j]) -> ms: f32 { ms = mean[i, j](X * X) }
`,
})

describe.each([
  ['virtual-sm100', ['sm100', 'simt'], [200, 136, 40]],
  ['virtual-sm90', ['sm90', 'simt'], [200, 136, 40]],
  ['virtual-sm90', ['sm80'], [70, 35, 19]],
] as const)('%s, %s', (name, kinds, [m, n, k]) => {
  test.each(kinds)('%s: the reference, the same bits every time, tensors of rank 0 and 1', async (kind) => {
    const device = await openDevice(name)
    const normal = (count: number): number[] => Array.from({ length: count }, (_, i) => Math.sin(i * 12.9898) * 2)
    const A = device.tensor('f16', [m, k], normal(m * k))
    const B = device.tensor('f16', [k, n], normal(k * n))
    const run = async (shape: number[]): Promise<number[]> => {
      const one = (dtype: 'f32' | 'f16') => device.tensor(dtype, shape, Number.NaN)
      const outputs = { D: device.empty('f16', [m, n]), amax: one('f32'), total: one('f32'), least: one('f16') }
      const args = new KernelArguments(kernels.quantised!, { A, B, ...outputs })
      const [kernel] = getKernels(args, {
        limit: 1,
        metadataFilter: ({ design }) => design.kind === kind,
      })
      const { run, check } = await verify(kernel as KtlKernel, args)
      expect(run.findings).toEqual([])
      expect(check.pass).toBe(true)
      return (await Promise.all([outputs.amax, outputs.total, outputs.least].map((t) => t.toArray()))).map((v) => v[0]!)
    }
    const first = await run([])
    expect(first.every(Number.isFinite)).toBe(true)
    expect(await run([1])).toEqual(first)
    await device.close()
  })
})

test('a whole tensor to one value; other shapes are refused', async () => {
  const device = await openDevice('virtual-sm90')
  const X = device.tensor('f32', [3, 4], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
  const ms = device.empty('f32', [])
  await kernels.mean_square!({ X, ms })
  expect(await ms.toArray()).toEqual(new Float32Array([650 / 12]))
  expect(() => new KernelArguments(kernels.mean_square!, { X, ms: device.empty('f32', [2]) })).toThrow(/KTL4020/)
  await device.close()
})

test('on the command line an output that is a reduction has the axes it leaves', async () => {
  const text = 'D = acc * 2; amax = max[m, n](abs(D)); rows = sum[n](D); return D, amax, rows'
  const ended = await ktl([
    'run',
    'samples/gemm.ktl',
    '--dims',
    'm=64,n=72,k=40',
    '--epilogue',
    text,
    '--arg',
    'amax=f32',
  ])
  expect([ended.status, ended.stderr]).toEqual([0, ''])
  expect(ended.stdout).toContain('amax: f32[1], rows: f16[m, 1]')
  expect(ended.stdout).toMatch(/^instance {2}ktl\.gemm_sm100_/m)
  expect(lastLine(ended)).toMatch(/^PASS/)
})
