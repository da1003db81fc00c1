/** Groups of rows: a product for each group, a mixture of experts, and the gradient of each group's weights. */
import { loadKtl, offsetsOf, openDevice } from 'ktl'

const device = await openDevice('auto')
const { grouped, experts, gated, returned, weight_gradient } = (await loadKtl('samples/grouped.ktl')).kernels
const [tokens, k, n, groups] = [6, 16, 8, 3]
// The expert of each token; expert 1 has none.
const ids = device.tensor('i32', [tokens], [2, 0, 2, 0, 2, 0])
const { offsets, rows } = await offsetsOf(ids, groups)
console.log('ends', await offsets.toArray(), 'rows', await rows.toArray())

const byGroup = Array.from({ length: groups * k * n }, (_, i) => 1 + Math.floor(i / (k * n)))
const A = device.tensor('bf16', [tokens, k], 1)
const B = device.tensor('bf16', [groups, k, n], byGroup)
const D = device.empty('bf16', [tokens, n])
await grouped!({ A, B, ends: offsets, D })
console.log(
  'grouped',
  [...(await D.toArray())].filter((_, i) => i % n === 0),
) // 16 for group 0, 48 for group 2

const H = device.empty('bf16', [tokens, n])
const zero = device.tensor('bf16', [groups, k, n], 0)
await experts!({ X: A, row: rows, gate: zero, up: B, ends: offsets, H })
console.log('experts', (await H.toArray())[0]) // silu(0) = 0

// Columns of gates and of what they gate in turn: gates are 0, what they gate is far above its limit.
const W = device.tensor(
  'bf16',
  [groups, k, 2 * n],
  Array.from({ length: groups * k * 2 * n }, (_, i) => i % 2),
)
const bias = device.tensor(
  'f32',
  [groups, 2 * n],
  Array.from({ length: groups * 2 * n }, (_, i) => (i % 2 ? 0 : 50)),
)
await gated!({ X: A, row: rows, W, bias, ends: offsets, H })
console.log('gated', (await H.toArray())[0]) // 7 * sigmoid(1.702 * 7) * (7 + 1) = 56

const weight = device.tensor('f32', [tokens], [0, 1, 2, 3, 4, 5])
const Y = device.empty('bf16', [tokens, n])
const ones = device.tensor('bf16', [groups, n, n], 1)
await returned!({ H, W: ones, row: rows, weight, ends: offsets, D: Y })
console.log(
  'returned',
  [...(await Y.toArray())].filter((_, i) => i % n === 0),
) // 8 columns of 56, times the weight of the token

const dW = device.empty('f32', [groups, k, n])
await weight_gradient!({ A, dY: D, ends: offsets, dW })
console.log(
  'gradients',
  [...(await dW.toArray())].filter((_, i) => i % (k * n) === 0),
) // 48, 0, 144
await device.close()
