/** fp8 with scales in blocks of k on SM90: the strides of scales change how they are loaded, and nothing of the result. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { GemmArguments } from '../../runtime/arguments/gemm.ts'
import { ScaledOperand } from '../../runtime/arguments/scaled_operand.ts'
import type { Device, Tensor } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import { getKernels } from '../../runtime/discovery/query.ts'
import type { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { randomValues } from '../../runtime/selftest/values.ts'
import { verify } from '../../runtime/selftest/verify.ts'

let device: Device
beforeAll(async () => {
  device = await openDevice('virtual-sm90', { checks: 'full' })
})
afterAll(() => device.close())

const random = (dtype: 'e4m3' | 'f32', shape: readonly number[], seed: number): Tensor =>
  device.tensor(dtype, shape, randomValues(dtype, shape[0]! * shape[1]!, seed, 'normal'))

/** Scales [rows, blocks of k], in memory along k or along the rows, which may be apart from where 16 bytes begin. */
async function scalesOf(
  rows: number,
  blocks: number,
  seed: number,
  along: 'k' | 'rows' | 'rows, shifted',
): Promise<Tensor> {
  const plain = random('f32', [rows, blocks], seed)
  if (along === 'k') return plain
  const values = await plain.toArray()
  const pitch = along === 'rows' ? Math.ceil(rows / 4) * 4 : rows + 1
  const turned = new Float32Array(blocks * pitch + 1)
  const first = along === 'rows' ? 0 : 1
  for (let row = 0; row < rows; row++)
    for (let block = 0; block < blocks; block++) turned[first + block * pitch + row] = values[row * blocks + block]!
  const memory = device.tensor('f32', [turned.length], turned)
  return memory.view([rows, blocks], { strides: [1, pitch], offset: first })
}

test.each([
  [198, 264, 272],
  [64, 40, 640],
  [1, 128, 130],
])('%i x %i x %i: scales along k, along rows, and along rows at any address', async (m, n, k) => {
  const pad = Math.ceil(k / 16) * 16
  const data = (rows: number, seed: number): Tensor => random('e4m3', [rows, pad], seed).slice([0, rows], [0, k])
  const [A, B] = [data(m, 1), data(n, 2).permute([1, 0])]
  const blocks = Math.ceil(k / 128)
  const results: number[][] = []
  for (const along of ['k', 'rows', 'rows, shifted'] as const) {
    const out = device.empty('f32', [m, n])
    const args = new GemmArguments({
      A: new ScaledOperand(A, await scalesOf(m, blocks, 3, along), { mode: [1, 128] }),
      B: new ScaledOperand(B, (await scalesOf(n, blocks, 4, along)).permute([1, 0]), { mode: [128, 1] }),
      out,
    })
    const kernel = getKernels(args).find((one) => (one as KtlKernel).plan.kind === 'sm90') as KtlKernel
    const { check } = await verify(kernel, args)
    expect([along, check.pass]).toEqual([along, true])
    results.push([...(await out.toArray())])
  }
  expect(results[1]).toEqual(results[0])
  expect(results[2]).toEqual(results[0])
})
