/** What happens to an accumulator before it is stored: functions, strings, .ktl epilogues, and what is refused. README.md has the prose. */
import {
  EpilogueArguments,
  GemmArguments,
  getKernels,
  KtlError,
  loadSource,
  openDevice,
  randomValues,
  type Kernel,
  type Tensor,
} from 'ktl'

const device = await openDevice('virtual-sm100') // 'auto' takes a GPU where there is one
const [L, M, N, K] = [2, 128, 256, 64]
const values = (count: number, seed: number): Float32Array => randomValues('f32', count, seed, 'integers')
const A = device.tensor('f16', [L, M, K], values(L * M * K, 1))
const B = device.tensor('f16', [L, K, N], values(L * K * N, 2))
const C = device.tensor('f16', [L, M, N], values(L * M * N, 3))
const out = device.empty('f32', [L, M, N])

const plain = new GemmArguments({ A, B, out, accumulatorType: 'f32' })
await getKernels(plain)[0]!.run(plain)
const accumulator = await out.toArray()
const c = await C.toArray()

// --- A function of several outputs: D goes to `out`, Aux to a tensor of its own ---
const Aux = device.empty('f32', [L, M, N])
const text = `def my_epilogue(accum, C, alpha, beta, extra_scalar):
    Aux = (alpha * accum) + (beta * C)
    D = extra_scalar * relu(Aux)
    return D, Aux
`
const fused = (alpha: number, beta: number, extra_scalar: number) =>
  new GemmArguments({
    A, B, out, accumulatorType: 'f32',
    epilogue: new EpilogueArguments(text, { C, Aux, alpha, beta, extra_scalar }),
  }) // prettier-ignore
const args = fused(1, 2, 0.5)
const kernels = getKernels(args)
const kernel = kernels[0]!
console.log(`${kernels.length} kernels fuse it; the first one:`)
console.log(`  ${kernel.metadata.kernelName}`)
const artifact = await kernel.compile(args)
await kernel.run(args, { artifact })
await check('function of several outputs', (acc, i) => 0.5 * Math.max(0, acc + 2 * c[i]!))
const aux = await Aux.toArray()
console.log(`aux store: Aux is what was computed on the way: ${aux.every((x, i) => x === accumulator[i]! + 2 * c[i]!)}`)

// --- Scalars are run-time parameters: other values, the same artifact ---
for (const [alpha, beta, extra] of [
  [2, 0, 1],
  [0.5, -1, 4],
] as const) {
  const again = fused(alpha, beta, extra)
  await kernel.run(again, { artifact })
  await check(
    `alpha ${alpha}, beta ${beta}, no compilation`,
    (acc, i) => extra * Math.max(0, alpha * acc + beta * c[i]!),
  )
}
console.log(`the artifact is the same: ${(await kernel.compile(fused(7, 7, 7))) === artifact}`)

// --- Transports: the compiler chose, the metadata say what ---
console.log(`transports: ${JSON.stringify(kernel.metadata.epilogue!.transports)}`)

// --- Strings: a bare expression; [N] is one value for each column, [M, 1] one for each row ---
const row = device.tensor('f32', [N], values(N, 4))
const column = device.tensor('f32', [M, 1], values(M, 5))
const [r, k] = [await row.toArray(), await column.toArray()]
await run('acc * 2 + row + column', { row, column })
await check('row and column bias in a string', (acc, i) => acc * 2 + r[i % N]! + k[Math.floor(i / N) % M]!)
// A name may say its axes: then its shape may be [M] all the same.
await run('acc * s[m]', { s: device.tensor('f32', [M], await column.toArray()) })
await check('s[m]', (acc, i) => acc * k[Math.floor(i / N) % M]!)

// --- Named epilogues, from a .ktl text ---
const { epilogues } = loadSource({
  name: 'residual.ktl',
  text: `epilogue residual(acc, C, alpha: f32 = 1, beta: f32 = 0) -> (D, F) {
  F = acc * alpha + C * beta
  D = relu(F)
}`,
})
await run(epilogues['residual']!, { C, F: Aux, beta: 3 })
await check('a named epilogue, alpha by default', (acc, i) => Math.max(0, acc + 3 * c[i]!))

// --- The whole language: comparisons, powers, unary minus, the accumulator as often as you like; docstrings are read over ---
await run('select(acc > 3, -acc, acc * acc)', {})
await check('select, minus and a square', (acc) => (acc > 3 ? -acc : acc * acc))
await run(
  'def square(accum):\n    """Of the accumulator."""\n    D = accum ** 2  # exact: small integers\n    return D\n',
  {},
)
await check('a docstring and a power', (acc) => acc * acc)

// --- What is refused, and what is said about it ---
const failing: [string, string, Record<string, number | Tensor>][] = [
  ['no accumulator among the parameters', 'def epi():\n    D = 1\n    return D', {}],
  ['nothing is D', 'X = relu(acc)', {}],
  ['an argument is missing', 'acc + C', {}],
  ['an argument that nothing reads', 'relu(acc)', { C }],
  ['a second assignment', 'tmp = acc * 2; tmp = tmp + 1; D = tmp', {}],
  ['a name from outside', 'acc * SCALE', {}],
  ['an unknown function', 'gleu(acc)', {}],
  ['a shape that does not fit', 'acc + X', { X: device.empty('f32', [L, M, N + 1]) }],
  ['D is read again as an input', 'D = acc + D', { D: out }],
  ['a method of another library', 'def epi(accum):\n    D = torch.relu(accum)\n    return D', {}],
  ['a loop', 'def epi(accum):\n    for i in range(3):\n        D = accum\n    return D', {}],
]
console.log(`${failing.length} mistakes:`)
for (const [what, epilogue, bindings] of failing) {
  try {
    new GemmArguments({ A, B, out, accumulatorType: 'f32', epilogue: new EpilogueArguments(epilogue, bindings) })
    throw new Error(`${what}: accepted`)
  } catch (error) {
    if (!(error instanceof KtlError)) throw error
    console.log(`\n--- ${what}\n${error.message}`)
  }
}
await device.close()

async function run(epilogue: ConstructorParameters<typeof EpilogueArguments>[0], bindings: Record<string, number | Tensor>): Promise<Kernel> {
  const given = new GemmArguments({ A, B, out, accumulatorType: 'f32', epilogue: new EpilogueArguments(epilogue, bindings) })
  const [best] = getKernels(given, { limit: 1 })
  await best!.run(given)
  return best!
} // prettier-ignore

/** Integers are exact in f16 and in f32: equal means equal. */
async function check(what: string, expected: (acc: number, i: number) => number): Promise<void> {
  const d = await out.toArray()
  const wrong = accumulator.findIndex((acc, i) => d[i] !== Math.fround(expected(acc, i)))
  if (wrong >= 0) throw new Error(`${what}: wrong at element ${wrong}`)
  console.log(`${what}: exact`)
}
