/** A low-rank update beside a product, and a sum over two axes: one accumulator, one kernel each, on the tensor cores. */
import { loadKtl, openDevice } from 'ktl'

const device = await openDevice('auto')
const program = await loadKtl('samples/lora.ktl')
const [m, n, k, r] = [128, 64, 64, 16]
const fill = (count: number, value: (i: number) => number): number[] =>
  Array.from({ length: count }, (_, i) => value(i))
const X = device.tensor(
  'bf16',
  [m, k],
  fill(m * k, () => 1),
)
const W = device.tensor(
  'bf16',
  [k, n],
  fill(k * n, () => 0.5),
)
const P = device.tensor(
  'bf16',
  [m, r],
  fill(m * r, () => 2),
)
const U = device.tensor(
  'bf16',
  [r, n],
  fill(r * n, () => -1),
)
const D = device.empty('bf16', [m, n])
await program.kernels['lora']!({ X, W, P, U, D })
console.log('low-rank update', (await D.toArray())[0]) // 64 * 0.5 - 16 * 2 = 0

const [h, d] = [4, 16]
const O = device.tensor(
  'bf16',
  [m, h, d],
  fill(m * h * d, () => 1),
)
const V = device.tensor(
  'bf16',
  [h, d, n],
  fill(h * d * n, (i) => i % n),
)
const Y = device.empty('bf16', [m, n])
await program.kernels['heads_out']!({ O, W: V, Y })
console.log('sum over heads', (await Y.toArray())[1]) // 64
await device.close()
