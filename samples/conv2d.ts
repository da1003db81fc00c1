/** A convolution with padding: the border counts 0. */
import { loadKtl, openDevice } from 'ktl'

const device = await openDevice('auto')
const { conv2d } = (await loadKtl('samples/conv2d.ktl')).kernels
const X = device.tensor('bf16', [1, 4, 4, 8], 1)
const W = device.tensor('bf16', [2, 3, 3, 8], 0.5)
const bias = device.tensor('bf16', [2], [0, -20])
const Y = device.empty('bf16', [1, 4, 4, 2])
await conv2d!({ X, W, bias, stride: 1, pad: 1, Y })
const values = await Y.toArray()
console.log('corner', values[0], values[1]) // 2 x 2 x 8 / 2 = 16; relu(16 - 20) = 0
console.log('middle', values[10], values[11]) // 3 x 3 x 8 / 2 = 36; 16
await device.close()
