/** What a call costs on the host, and how to pay less of it: artifacts, no checks, prepared launches, graphs. README.md has the prose. */
import { EpilogueArguments, GemmArguments, getKernels, KtlKernel, openDevice, randomValues } from 'ktl'

const device = await openDevice('virtual-sm100') // 'auto' takes a GPU where there is one
const [M, N, K] = [64, 64, 64]
const A = device.tensor('f16', [M, K], randomValues('f16', M * K, 1, 'integers'))
const B = device.tensor('f16', [K, N], randomValues('f16', K * N, 2, 'integers'))
const C = device.tensor('f32', [M, N], 1)
const out = device.empty('f32', [M, N])
const describe = () =>
  new GemmArguments({
    A,
    B,
    out,
    accumulatorType: 'f32',
    epilogue: new EpilogueArguments('relu(acc * alpha + C)', { alpha: 2, C }),
  })

// --- Compile once: an artifact is kept in memory and on disk ---
const args = describe()
const [kernel] = getKernels(args, { limit: 1 })
if (!(kernel instanceof KtlKernel)) throw new Error('users’ kernels have no launch recipe to prepare')
const first = await milliseconds(() => kernel.compile(args))
const again = await milliseconds(() => kernel.compile(args))
console.log(
  `compile: ${first.toFixed(1)} ms the first time (nvcc, or the cache on disk), ${again.toFixed(3)} ms afterwards`,
)
const artifact = await kernel.compile(args)

// --- What one call costs until it is enqueued: the device works behind the stream, so only the host is measured ---
const rows: [string, number][] = []
rows.push(['arguments made anew', await microseconds(() => void describe())])
rows.push(['discovery, best first', await microseconds(() => void getKernels(args, { limit: 1 })[0])])
rows.push(['supports', await microseconds(() => void kernel.supports(args))])
rows.push(['launch, checked', await microseconds(() => void kernel.launch(args, { artifact }))])
rows.push([
  'launch, assumeSupportedArgs',
  await microseconds(() => void kernel.launch(args, { artifact, assumeSupportedArgs: true })),
])

// --- Prepared: everything about the call is worked out beforehand ---
const prepared = kernel.prepare(args, artifact)
rows.push(['prepared.launch', await microseconds(() => prepared.launch())])

// --- A graph: many launches, enqueued as one ---
const LAUNCHES = 20
const graph = device.capture((stream) => {
  for (let i = 0; i < LAUNCHES; i++) prepared.launch(stream)
})
const one = await microseconds(() => {
  for (let i = 0; i < LAUNCHES; i++) prepared.launch()
}, 50)
const all = await microseconds(() => graph.launch(), 50)
rows.push([`${LAUNCHES} prepared launches`, one], [`the same as a graph`, all])
for (const [what, time] of rows) console.log(`${what.padEnd(30)} ${time.toFixed(2).padStart(9)} µs`)
const checked = rows.find(([what]) => what === 'launch, checked')![1]
const direct = rows.find(([what]) => what === 'prepared.launch')![1]
console.log(`a prepared launch takes ${((direct / checked) * 100).toFixed(0)} % of a checked one`)

// --- Other tensors of the same kind: rebind, and launch without another look ---
const other = device.empty('f32', [M, N])
prepared.rebind({ out: other }).launch()
graph.launch()
await device.synchronize()
const [replayed, rebound] = [await out.toArray(), await other.toArray()]
const [a, b] = [await A.toArray(), await B.toArray()]
const expected = Float32Array.from({ length: M * N }, (_, i) => {
  let sum = 0
  for (let k = 0; k < K; k++) sum += a[Math.floor(i / N) * K + k]! * b[k * N + (i % N)]!
  return Math.max(0, sum * 2 + 1)
})
console.log(
  `results: ${expected.every((x, i) => x === replayed[i] && x === rebound[i]) ? 'exact' : 'WRONG'}, by graph and rebound`,
)
graph.free()
await device.close()

async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await work()
  return performance.now() - start
}

/** Median of one call on the host; what it enqueued is waited for between the calls, and not counted. */
async function microseconds(work: () => void, calls = 200): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < calls; i++) {
    const start = performance.now()
    work()
    times.push(performance.now() - start)
    await device.synchronize()
  }
  return times.sort((x, y) => x - y)[calls >> 1]! * 1000
}
