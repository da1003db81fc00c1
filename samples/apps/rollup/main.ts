import { openDevice } from 'ktl'
import { scaledAmax } from './amax.ktl'

const device = await openDevice('auto')
const X = device.tensor('f32', [2, 3], [1, -2, 3, -4, 5, -6])
const Y = device.empty('f16', [2, 3])
const amax = device.empty('f32', [2])

await scaledAmax({ X, Y, amax, s: 2 })
console.log(await Y.toArray(), await amax.toArray())
await device.close()
