/** A typed module of a kernel, made by `ktl build samples/linear.ktl --out samples/generated`. */
import { openDevice } from 'ktl'
import { linearGelu } from './generated/linear.ts'

const device = await openDevice('auto')
const [m, n, k] = [32, 48, 64]
const A = device.tensor('bf16', [m, k], new Float32Array(m * k).fill(0.25))
const B = device.tensor('bf16', [k, n], new Float32Array(k * n).fill(0.125))
const bias = device.tensor(
  'bf16',
  [n],
  Float32Array.from({ length: n }, (_, i) => -i / 8),
)
const D = device.empty('bf16', [m, n])

const { stats } = await linearGelu({ A, B, bias, D })
console.log(`${stats.ctas} CTAs on ${device.name}`)
console.log((await D.toArray()).slice(0, 4)) // gelu_tanh(2), gelu_tanh(1.875), …
await device.close()
