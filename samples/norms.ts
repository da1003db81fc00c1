/** Statistics of rows that are used again. */
import { loadKtl, openDevice } from 'ktl'

const device = await openDevice('auto')
const { rms_norm, layer_norm, softmax_rows, cross_entropy } = (await loadKtl('samples/norms.ktl')).kernels
const X = device.tensor('bf16', [2, 4], [1, -1, 1, -1, 2, 2, 2, 2])
const g = device.tensor('bf16', [4], 1)
const b = device.tensor('bf16', [4], 0.5)
const Y = device.empty('bf16', [2, 4])
await rms_norm!({ X, g, eps: 0, Y })
console.log('rms', await Y.toArray()) // 1 -1 1 -1 1 1 1 1
await layer_norm!({ X, g, b, Y })
console.log('layer', await Y.toArray()) // 1.5 -0.5 1.5 -0.5 0.5 0.5 0.5 0.5
await softmax_rows!({ X, Y })
console.log('softmax', (await Y.toArray())[4]) // 0.25
const L = device.empty('f32', [2])
await cross_entropy!({ X, label: device.tensor('i32', [2], [1, 3]), L })
console.log('loss', (await L.toArray())[1]!.toFixed(4)) // ln 4
await device.close()
