import { openDevice } from 'ktl'
import { activate } from './activate.ktl'

const device = await openDevice('auto')
const X = device.tensor('f32', [2, 2], [1, -2, 3, -4])
const bias = device.tensor('f32', [2], [1, -2])
const Y = device.empty('f32', [2, 2])

await activate({ X, bias, Y })
console.log(await Y.toArray())
await device.close()
