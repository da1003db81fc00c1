/** Operands in stored forms: scales for blocks, zero points, and an output that is quantised as it is stored. */
import {
  dequantize,
  getKernels,
  KernelArguments,
  KtlKernel,
  loadKtl,
  openDevice,
  quantize,
  randomValues,
  ScaledOperand,
  verify,
} from 'ktl'

const device = await openDevice('auto')
const { kernels } = await loadKtl('samples/scaled.ktl')
const [m, n, k] = [24, 64, 256]
const normal = (dtype: 'f32' | 'f16' | 'bf16', shape: readonly number[], seed: number) =>
  device.tensor(
    dtype,
    shape,
    randomValues(
      dtype,
      shape.reduce((a, b) => a * b),
      seed,
      'normal',
    ),
  )

async function check(name: string, bindings: ConstructorParameters<typeof KernelArguments>[1]): Promise<void> {
  const args = new KernelArguments(kernels[name]!, bindings)
  const [kernel] = getKernels(args, { limit: 1 })
  if (!(kernel instanceof KtlKernel)) throw new Error('no kernel')
  const { check: result } = await verify(kernel, args)
  console.log(`${result.pass ? 'PASS' : 'FAIL'} ${name}`)
}

const X = normal('f32', [m, k], 1)
const W = normal('f32', [k, n], 2)
const Wt = normal('f32', [n, k], 3)
const D = device.empty('bf16', [m, n])
await check('mxfp8', {
  A: await quantize(X, 'e4m3[m, k] * ue8m0[m, k/32]'),
  B: await quantize(W, 'e4m3[k, n] * ue8m0[k/32, n]'),
  D,
})
await check('nvfp4', {
  A: await quantize(X, 'e2m1[m, k] * ue4m3[m, k/16] * f32'),
  B: await quantize(Wt, 'e2m1[n, k] * ue4m3[n, k/16] * f32'),
  D,
})
await check('fp8_blocks', {
  A: await quantize(X, 'e4m3[m, k] * f32[m, k/128]'),
  B: await quantize(Wt, 'e4m3[n, k] * f32[n/128, k/128]'),
  D,
})
await check('u4_weights', {
  X: normal('f16', [m, k], 4),
  W: await quantize(W, '(u4[k, n] - u4[k/128, n]) * f16[k/128, n]'),
  D: device.empty('f16', [m, n]),
})

// What one kernel stores quantised, the next one reads.
const scales = device.empty('ue8m0', [m, n / 32])
const out = new ScaledOperand(device.empty('e4m3', [m, n]), scales, { mode: [1, 32] })
await check('quantised', { A: normal('bf16', [m, k], 5), B: normal('bf16', [k, n], 6), D: out })
console.log('dequantised', (await dequantize(out)).shape)
await device.close()
