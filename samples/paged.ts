/** One step of decoding: keys and values lie in pages, in any order. */
import { loadKtl, openDevice } from 'ktl'

const device = await openDevice('auto')
const { paged } = (await loadKtl('samples/paged.ktl')).kernels
const [b, h, hk, d, pages, s] = [2, 2, 1, 8, 4, 16]
const Q = device.tensor('bf16', [b, h, d], 0)
const K = device.tensor('bf16', [pages, s, hk, d], 1)
// The value of a position is the number of its page.
const V = device.tensor(
  'bf16',
  [pages, s, hk, d],
  Array.from({ length: pages * s * hk * d }, (_, i) => Math.floor(i / (s * hk * d))),
)
const page = device.tensor('i32', [b, 2], [3, 1, 2, -1])
const length = device.tensor('i32', [b], [32, 5])
const O = device.empty('bf16', [b, h, d])
await paged!({ Q, K, V, page, length, scale: d ** -0.5, O })
const values = await O.toArray()
console.log('means', values[0], values[h * d]) // (3 + 1) / 2 = 2, and 2
await device.close()
