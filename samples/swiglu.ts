/** A gated MLP, checked against the reference evaluator. */
import { formatError, getKernels, KernelArguments, KtlKernel, loadKtl, openDevice, randomValues, verify } from 'ktl'

const device = await openDevice('auto')
const { swiglu } = (await loadKtl('samples/swiglu.ktl')).kernels
const [m, f, k] = [24, 40, 64]
const A = device.tensor('bf16', [m, k], randomValues('bf16', m * k, 1, 'normal'))
const Bg = device.tensor('bf16', [k, f], randomValues('bf16', k * f, 2, 'normal'))
const Bu = device.tensor('bf16', [k, f], randomValues('bf16', k * f, 3, 'normal'))
const H = device.empty('bf16', [m, f])

const args = new KernelArguments(swiglu!, { A, Bg, Bu, H })
const [kernel] = getKernels(args, { limit: 1 })
if (!(kernel instanceof KtlKernel)) throw new Error('no kernel')
const { check } = await verify(kernel, args)
console.log(`${check.pass ? 'PASS' : 'FAIL'}  max error ${formatError(check.maxError)}, ${check.description}`)
await device.close()
