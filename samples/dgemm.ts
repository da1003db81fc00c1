/** Double precision, with A stored column by column: strides say so, the shape stays logical. */
import { loadKtl, openDevice } from 'ktl'

const device = await openDevice('auto')
const program = await loadKtl('samples/dgemm.ktl')
const [m, n, k] = [3, 2, 4]
const A = device.tensor('f64', [m, k], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], { strides: [1, m] })
const B = device.tensor('f64', [k, n], [1, 0, 0, 1, 1, 0, 0, 1])
const D = device.empty('f64', [m, n])

await program.kernels['dgemm']!({ A, B, D })
console.log(await D.toArray()) // [4, 6, 12, 14, 20, 22]
await device.close()
