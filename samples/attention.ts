/** Causal attention: four query heads share two heads of keys and values. */
import { formatError, getKernels, KernelArguments, KtlKernel, loadKtl, openDevice, randomValues, verify } from 'ktl'

const device = await openDevice('auto')
const { attention } = (await loadKtl('samples/attention.ktl')).kernels
const [b, h, hk, m, n, d] = [2, 4, 2, 8, 12, 16]
const normal = (shape: readonly number[], seed: number) =>
  device.tensor(
    'bf16',
    shape,
    randomValues(
      'bf16',
      shape.reduce((x, y) => x * y),
      seed,
      'normal',
    ),
  )
const args = new KernelArguments(attention!, {
  Q: normal([b, h, m, d], 1),
  K: normal([b, hk, n, d], 2),
  V: normal([b, hk, n, d], 3),
  scale: d ** -0.5,
  O: device.empty('bf16', [b, h, m, d]),
  L: device.empty('f32', [b, h, m]),
})
const [kernel] = getKernels(args, { limit: 1 })
if (!(kernel instanceof KtlKernel)) throw new Error('no kernel')
const { check } = await verify(kernel, args)
console.log(`${check.pass ? 'PASS' : 'FAIL'}  max error ${formatError(check.maxError)}, ${check.description}`)
await device.close()
