/**
 * A `.ktl` file imported by Node itself, in a TypeScript program:
 *
 *   node --import tsx --import ktl/register samples/apps/node-hook/main.ts
 *
 * Its types are in dense.d.ktl.ts: `ktl build dense.ktl --emit dts --out .`
 */
import { openDevice } from 'ktl'
import kernels, { dense } from './dense.ktl'

const device = await openDevice('auto')
const X = device.tensor('f32', [2, 3], [1, 2, 3, -1, -2, -3])
const W = device.tensor('f32', [3, 2], [1, 0, 0, 1, 1, 1])
const b = device.tensor('f32', [2], [0.5, -0.5])
const Y = device.empty('f32', [2, 2])

await dense({ X, W, b, Y })
console.log(await Y.toArray())
console.log(kernels.dense === dense, dense.family.doc)

// @ts-expect-error: `W` has 3 rows, and `X` 3 columns.
if (false) await dense({ X: device.empty('f32', [2, 4]), W, b, Y })
await device.close()
