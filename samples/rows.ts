/** Rows of a table by number, and to places by number. */
import { loadKtl, openDevice } from 'ktl'

const device = await openDevice('auto')
const { gather, scatter } = (await loadKtl('samples/rows.ktl')).kernels
const table = device.tensor(
  'bf16',
  [4, 2],
  Array.from({ length: 8 }, (_, i) => i),
)
const picked = device.empty('bf16', [3, 2])
// -1 is a row of zeros.
await gather!({ X: table, id: device.tensor('i32', [3], [2, -1, 0]), Y: picked })
console.log(await picked.toArray()) // 4 5 0 0 0 1

await scatter!({ X: picked, to: device.tensor('i32', [3], [3, 0, -1]), Y: table })
console.log(await table.toArray()) // 0 0 2 3 4 5 4 5
await device.close()
