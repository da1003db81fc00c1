/** Two outputs from one accumulator, and the same kernel prepared once and launched again with other tensors. */
import { getKernels, KernelArguments, KtlKernel, loadKtl, openDevice } from 'ktl'

const device = await openDevice('auto')
const program = await loadKtl('samples/residual.ktl')
const [m, n, k] = [64, 64, 64]
const A = device.tensor('f16', [m, k], new Float32Array(m * k).fill(0.5))
const B = device.tensor('f16', [k, n], new Float32Array(k * n).fill(0.25))
const C = device.tensor(
  'f16',
  [m, n],
  Float32Array.from({ length: m * n }, (_, i) => i % 4),
)
const [D, F] = [device.empty('f16', [m, n]), device.empty('f32', [m, n])]

const args = new KernelArguments(program.kernels['residual']!, { A, B, C, alpha: 1, beta: -8, D, F })
const [kernel] = getKernels(args, { limit: 1 })
if (!(kernel instanceof KtlKernel)) throw new Error('no kernel')
const prepared = kernel.prepare(args, await kernel.compile(args))
prepared.launch()
console.log((await F.toArray()).slice(0, 4)) // [8, 0, -8, -16]
console.log((await D.toArray()).slice(0, 4)) // [8, 0, 0, 0]

const next = device.tensor('f16', [m, k], new Float32Array(m * k).fill(1))
prepared.rebind({ A: next }).launch()
console.log((await F.toArray()).slice(0, 4)) // [16, 8, 0, -8]
await device.close()
