import { openDevice } from 'ktl'
import { axpby } from './axpby.ktl'

const device = await openDevice('auto')
const X = device.tensor('f32', [2, 2], [1, 2, 3, 4])
const Y = device.tensor('f32', [2, 2], [10, 20, 30, 40])
const Z = device.empty('f32', [2, 2])

await axpby({ X, Y, Z, a: 0.5 })
console.log(await Z.toArray())
await device.close()
