/** RMSNorm on the way into a product. */
import { formatError, getKernels, KernelArguments, KtlKernel, loadKtl, openDevice, randomValues, verify } from 'ktl'

const device = await openDevice('auto')
const { norm_gemm } = (await loadKtl('samples/norm_gemm.ktl')).kernels
const [m, n, k] = [24, 40, 64]
const args = new KernelArguments(norm_gemm!, {
  X: device.tensor('bf16', [m, k], randomValues('bf16', m * k, 1, 'normal')),
  g: device.tensor('bf16', [k], randomValues('bf16', k, 2, 'normal')),
  W: device.tensor('bf16', [k, n], randomValues('bf16', k * n, 3, 'normal')),
  D: device.empty('bf16', [m, n]),
})
const [kernel] = getKernels(args, { limit: 1 })
if (!(kernel instanceof KtlKernel)) throw new Error('no kernel')
const { check } = await verify(kernel, args)
console.log(`${check.pass ? 'PASS' : 'FAIL'}  max error ${formatError(check.maxError)}, ${check.description}`)
await device.close()
