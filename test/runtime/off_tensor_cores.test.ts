/** A GEMM that ends on the CUDA cores says so wherever a kernel is asked about. */
import { expect, test } from 'vitest'
import { GemmArguments, getKernels, KernelArguments, KtlKernel, loadSource, openDevice } from '../../runtime/index.ts'
import { folder, ktl, records } from './cli.ts'
import { writeFileSync } from 'node:fs'
import path from 'node:path'

const SOURCE = `kernel off(A: f16[m, k], B: f16[k, n], v: f16[m]) -> (D: f16[m, n], s: f16[m]) {
  D = sum[k](A * B)
  s = v * 2
}
`

test('Status, kernel and rank reason; kernels on the tensor cores and elementwise ones say nothing', async () => {
  const device = await openDevice('virtual-sm90')
  const h = (...shape: number[]) => device.empty('f16', shape)
  const off = loadSource({ name: 'off.ktl', text: SOURCE }).kernels.off!
  const [A, B, D] = [h(64, 32), h(32, 64), h(64, 64)]
  const args = new KernelArguments(off, { A, B, D, v: h(64), s: h(64) })
  const kernel = getKernels(args)[0] as KtlKernel
  const remark =
    'on the CUDA cores, not the tensor cores: output `s` lacks axis `n`, which is not lowered to tensor cores yet (KTL2925)'
  expect(kernel.supports(args)).toEqual({ ok: true, remark })
  expect(kernel.remark).toBe(remark)
  expect(kernel.rankReason).toMatch(/; not on the tensor cores \(KTL2925\)$/)

  const gemm = new GemmArguments({ A, B, out: D })
  for (const kind of ['sm90', 'simt'] as const) {
    const other = getKernels(gemm, { where: { design: { kind } } })[0] as KtlKernel
    expect([other.supports(gemm), other.remark]).toEqual([{ ok: true }, null])
    expect(other.rankReason).not.toContain('not on the tensor cores')
  }
  await device.close()
})

test('ktl run prints the remark; f64 is on the tensor cores, f32 as it is on none', async () => {
  const file = path.join(folder, 'off.ktl')
  writeFileSync(file, SOURCE)
  const ended = await ktl(['run', file, '--dims', 'm=32,n=32,k=16'])
  expect(ended.status).toBe(0)
  expect(ended.stdout).toMatch(/^remark {4}on the CUDA cores, not the tensor cores: output `s` lacks axis `n`/m)
  const [record] = records(await ktl(['run', 'samples/dgemm.ktl', '--dims', 'm=130,n=70,k=50', '--json']))
  expect(record).toMatchObject({ kind: 'run', instance: expect.stringContaining('_sm80_') })
  expect(record!.remark).toBeUndefined()
  const device = await openDevice('virtual-sm90')
  const f32 = (...shape: number[]) => device.empty('f32', shape)
  const [tiled, plain] = (['sm80', 'simt'] as const).map(
    (kind) =>
      getKernels(new GemmArguments({ A: f32(64, 32), B: f32(32, 64), out: f32(64, 64) }), {
        where: { design: { kind } },
      })[0] as KtlKernel,
  )
  for (const kernel of [tiled!, plain!]) expect(kernel.remark).toContain('KTL2928')
  await device.close()
})

test('f32 rows that are looked up stand along k, beside rows in the order of lanes', async () => {
  const file = path.join(folder, 'looked_up.ktl')
  writeFileSync(file, 'kernel looked(A: f32[r, k], row: i32[m], B: f32[k, n]) -> D: f32[m, n] { D = sum[k](A[row[m], k] * B) }\n')
  const ended = await ktl(['run', file, '--dims', 'm=70,n=41,k=37,r=50', '--device', 'virtual-sm90', '--design', 'sm80', '--all', '--limit', '2', '--checks', 'full', '--async', 'random'])
  expect(ended.stdout).toMatch(/^PASS {2}2 of 2 instances pass/m)
}) // prettier-ignore

test('f32 in parts is on the tensor cores, where a schedule asks for it', async () => {
  const text = (schedule: string): string =>
    `kernel f<T: f32 | bf16>(A: T[m, k], B: T[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }\nschedule f on sm_80 { tile 64x64; ${schedule} }\n`
  const device = await openDevice('virtual-sm90')
  const kernels = (schedule: string, dtype: 'f32' | 'bf16') => {
    const { f } = loadSource({ name: 'f.ktl', text: text(schedule) }).kernels
    const operand = (...shape: number[]) => device.empty(dtype, shape)
    // Rows of bf16 that TMA does not take.
    const k = dtype === 'bf16' ? 33 : 32
    const args = new KernelArguments(f!, { A: operand(64, k), B: operand(64, k), D: device.empty('f32', [64, 64]) })
    const found = [...getKernels(args, { where: { design: { kind: 'sm80' } } })] as KtlKernel[]
    return new Set(found.map(({ metadata: { kernelName, design }, remark }) =>
      `${design.mmaInstructionType}${kernelName.includes('_tf32x3_') ? ', in parts' : ''}${remark === null ? '' : ', off'}`))
  }
  const [parts, fma] = ['3 mma.sync.m16n8k8.f32.tf32.tf32, in parts', 'fma.rn.f32, off']
  expect(kernels('f32 tf32x3', 'f32')).toEqual(new Set([parts]))
  expect(kernels('f32 fma', 'f32')).toEqual(new Set([fma]))
  expect(kernels('', 'f32')).toEqual(new Set([fma]))
  expect(kernels('f32 fma | tf32x3', 'f32')).toEqual(new Set([parts, fma]))
  // Of bf16 it says nothing.
  expect(kernels('f32 fma | tf32x3', 'bf16')).toEqual(new Set(['mma.sync.m16n8k16.f32.bf16.bf16']))
  await device.close()
}) // prettier-ignore
