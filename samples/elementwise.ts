/** Kernels without a GEMM: run-time scalars, and a reduction that is an output of its own. */
import { loadKtl, openDevice } from 'ktl'

const device = await openDevice('auto')
const { kernels } = await loadKtl('samples/elementwise.ktl')
const X = device.tensor('f32', [2, 3], [1, -2, 3, -4, 5, -6])

const Z = device.empty('f32', [2, 3])
await kernels['axpby']!({ X, Y: X, a: 2, b: 1, Z })
console.log(await Z.toArray()) // [3, -6, 9, -12, 15, -18]

const Y = device.empty('f16', [2, 3])
const amax = device.empty('f32', [2])
await kernels['scaled_amax']!({ X, s: 0.5, Y, amax })
console.log(await amax.toArray()) // [1.5, 3]
await device.close()
