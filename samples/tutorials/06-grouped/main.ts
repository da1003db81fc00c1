/** Products of groups of rows, whose sizes only the device knows: sort, multiply, gate, scatter, and the gradient. README.md has the prose. */
import { fileURLToPath } from 'node:url'
import {
  EpilogueArguments,
  getKernels,
  GroupedGemmArguments,
  KernelArguments,
  loadKtl,
  offsetsOf,
  openDevice,
  randomValues,
  type RuntimeArguments,
  type Tensor,
} from 'ktl'

const device = await openDevice('virtual-sm90') // 'auto' takes a GPU where there is one
const { kernels } = await loadKtl(fileURLToPath(new URL('grouped.ktl', import.meta.url)))
// Tokens, their width, groups and their width. No token is of group 2.
const [S, K, G, N] = [96, 64, 5, 128]
const normal = (shape: readonly number[], seed: number): Tensor => {
  const values = randomValues('f32', shape.reduce((product, extent) => product * extent, 1), seed, 'normal')
  return device.tensor('bf16', shape, values.map((x) => x / 8))
} // prettier-ignore

// --- Groups from the group of each token: sorted on the device ---
const group = Array.from({ length: S }, (_, s) => [0, 1, 3, 4, 1, 3][(s * 7) % 6]!)
const { offsets, rows } = await offsetsOf(device.tensor('i32', [S], group), G)
const ends = [...(await offsets.toArray())]
console.log(`groups end at ${ends.join(', ')}`)

// --- Rows that lie group by group: a product of a class, with an epilogue; the bias is the group's ---
const A = normal([S, K], 1)
const B = normal([G, K, N], 2)
const bias = device.tensor('f32', [G, N], randomValues('f32', G * N, 3, 'normal'))
const out = device.empty('bf16', [S, N])
await run(
  'grouped',
  new GroupedGemmArguments({
    A,
    B,
    out,
    offsets,
    // Groups of about 20 rows: tiles of few rows come first.
    expectedRows: 20,
    epilogue: new EpilogueArguments('relu(acc + bias[g, n])', { bias }),
  }),
)
const [a, b, c] = [await A.toArray(), await B.toArray(), await bias.toArray()]
const groupOf = (t: number): number => ends.findIndex((end) => t < end)
const sum = (count: number, term: (i: number) => number): number => {
  let total = 0
  for (let i = 0; i < count; i++) total += term(i)
  return total
}
const product = (x: ArrayLike<number>, t: number, w: ArrayLike<number>, g: number, n: number): number =>
  sum(K, (k) => x[t * K + k]! * w[(g * K + k) * N + n]!)
check('grouped', await out.toArray(), S * N, (i) => {
  const [t, n] = [Math.floor(i / N), i % N]
  return Math.max(0, product(a, t, b, groupOf(t), n) + c[groupOf(t) * N + n]!)
})

// --- Rows that stay where they are: looked up on the way in, scattered on the way out ---
const X = normal([S, K], 4)
const up = normal([G, K, N], 5)
const W = normal([G, N, K], 6)
const weight = device.tensor('f32', [S], randomValues('f32', S, 7, 'normal'))
const H = device.empty('bf16', [S, N])
const Y = device.empty('bf16', [S, K])
await run('gathered', new KernelArguments(kernels['gathered']!, { X, row: rows, gate: B, up, ends: offsets, H }))
await run('returned', new KernelArguments(kernels['returned']!, { H, W, row: rows, weight, ends: offsets, Y }))
const [x, u, order] = [await X.toArray(), await up.toArray(), await rows.toArray()]
check('gathered', await H.toArray(), S * N, (i) => {
  const [t, n] = [Math.floor(i / N), i % N]
  const gate = product(x, order[t]!, b, groupOf(t), n)
  return (gate / (1 + Math.exp(-gate))) * product(x, order[t]!, u, groupOf(t), n)
})
const [h, w, scale] = [await H.toArray(), await W.toArray(), await weight.toArray()]
check('returned', await Y.toArray(), S * K, (i) => {
  const [s, k] = [Math.floor(i / K), i % K]
  const t = order.indexOf(s)
  return scale[s]! * sum(N, (n) => h[t * N + n]! * w[(groupOf(t) * N + n) * K + k]!)
})

// --- A sum over the rows of each group; that of a group without rows is 0 ---
const dY = normal([S, N], 8)
const dW = device.empty('f32', [G, K, N])
await run('gradient', new KernelArguments(kernels['gradient']!, { X: A, dY, ends: offsets, dW }))
const dy = await dY.toArray()
check('gradient', await dW.toArray(), G * K * N, (i) => {
  const [g, k, n] = [Math.floor(i / K / N), Math.floor(i / N) % K, i % N]
  const start = g === 0 ? 0 : ends[g - 1]!
  return sum(ends[g]! - start, (j) => a[(start + j) * K + k]! * dy[(start + j) * N + n]!)
})
await device.close()

async function run(name: string, args: RuntimeArguments): Promise<void> {
  const [kernel] = getKernels(args, { limit: 1 })
  await kernel!.run(args)
  console.log(`${name}: ${kernel!.metadata.design.kind}`)
}

/** Within what rounding of bf16 explains. */
function check(what: string, got: ArrayLike<number>, count: number, expected: (i: number) => number): void {
  let wrong = 0
  for (let i = 0; i < count; i++) {
    const value = expected(i)
    if (!(Math.abs(got[i]! - value) <= Math.abs(value) * 2 ** -8 + 1e-4)) wrong++
  }
  console.log(`${what}: ${wrong === 0 ? `all ${count} elements are right` : `${wrong} WRONG`}`)
}
