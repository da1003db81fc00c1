/** Two layers in fp8 with scales for blocks: quantise, multiply, quantise what comes out, multiply again. README.md has the prose. */
import { fileURLToPath } from 'node:url'
import {
  dequantize,
  getKernels,
  KernelArguments,
  loadKtl,
  openDevice,
  quantize,
  randomValues,
  ScaledOperand,
  type Kernel,
  type Tensor,
} from 'ktl'

const device = await openDevice('virtual-sm90') // 'auto' takes a GPU where there is one
const { kernels } = await loadKtl(fileURLToPath(new URL('layers.ktl', import.meta.url)))
const [m, k, n, o] = [96, 256, 384, 128]
const normal = (shape: readonly [number, number], seed: number): Tensor =>
  device.tensor('f32', shape, randomValues('f32', shape[0] * shape[1], seed, 'normal'))

// --- Quantise: data in e4m3 and a scale in f32 for each block ---
const X = normal([m, k], 1)
const [W1, W2] = [normal([n, k], 2), normal([o, n], 3)]
const bias = device.tensor('f32', [n], randomValues('f32', n, 4, 'normal'))
const ACTIVATIONS = 'e4m3[m, k] * f32[m, k/128]'
const WEIGHTS = 'e4m3[n, k] * f32[n/128, k/128]'
const A = await quantize(X, ACTIVATIONS)
const [B1, B2] = [await quantize(W1, WEIGHTS), await quantize(W2, WEIGHTS)]
console.log(`A: data ${A.data.dtype} [${A.shape}], scales ${A.scale!.dtype} [${A.scale!.shape}], mode [${A.mode}]`)

// By hand: the largest magnitude of a block becomes 448, the largest number of e4m3.
const x = await X.toArray()
const largest = Math.max(...Array.from(x.subarray(0, 128), Math.abs))
const byHand = Math.fround(Math.fround(largest) * Math.fround(1 / 448))
console.log(`first scale: ${(await A.scale!.toArray())[0] === byHand ? 'exact' : 'WRONG'}`)

// --- Multiply, with what follows in the same kernel; the output is quantised as it is stored ---
const H = new ScaledOperand(device.empty('e4m3', [m, n]), device.empty('f32', [m, n / 128]), { mode: [1, 128] })
const first = await run('hidden', { A, B: B1, bias, D: H })
console.log(`hidden: ${describe(first)}`)

// --- What one kernel has stored, the next one reads ---
const Y = device.empty('bf16', [m, o])
const second = await run('last', { A: H, B: B2, Y })
console.log(`last: ${describe(second)}`)

// --- Against plain loops over the values that the operands stand for ---
const [a, b1, b2, h] = [await values(A), await values(B1), await values(B2), await values(H)]
const c = await bias.toArray()
const hidden = product(a, b1, [m, n, k]).map((sum, i) => Math.max(0, sum + c[i % n]!))
// Half a unit of a number with three bits behind the point, and of the least one of e4m3, times the block's scale.
const scales = await H.scale!.toArray()
const room = hidden.map((v, i) => v * 2 ** -4 + scales[Math.floor(i / 128)]! * 2 ** -10)
check('hidden against plain loops', h, hidden, (i) => room[i]! + 1e-3 * Math.sqrt(k))
check('last against plain loops', await Y.toArray(), product(h, b2, [m, o, n]), () => 0.5)

// --- And what fp8 costs: the same layers without any quantisation ---
const exact = product(
  product(x, await W1.toArray(), [m, n, k]).map((sum, i) => Math.max(0, sum + c[i % n]!)),
  await W2.toArray(),
  [m, o, n],
)
const y = await Y.toArray()
const norm = (list: ArrayLike<number>): number => Math.sqrt(Array.from(list).reduce((sum, v) => sum + v * v, 0))
const off = norm(exact.map((v, i) => v - y[i]!)) / norm(exact)
console.log(`fp8 against f32: ${off < 0.06 ? 'within 6 %' : `off by ${(100 * off).toFixed(1)} %`}`)
await device.close()

async function run(name: string, bindings: ConstructorParameters<typeof KernelArguments>[1]): Promise<Kernel> {
  const args = new KernelArguments(kernels[name]!, bindings)
  const [kernel] = getKernels(args, { where: { design: { kind: 'sm90' } }, limit: 1 })
  await kernel!.run(args)
  return kernel!
}

function describe({ metadata: { design } }: Kernel): string {
  return `${design.kind}, tile ${design.tileShape.join('x')}`
}

async function values(operand: ScaledOperand): Promise<Float32Array> {
  return Float32Array.from(await (await dequantize(operand)).toArray())
}

/** left[rows, depth] times right[columns, depth]. */
function product(left: ArrayLike<number>, right: ArrayLike<number>, [rows, columns, depth]: readonly [number, number, number]): number[] {
  return Array.from({ length: rows * columns }, (_, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns]
    let sum = 0
    for (let j = 0; j < depth; j++) sum += left[row * depth + j]! * right[column * depth + j]!
    return sum
  })
} // prettier-ignore

function check(
  what: string,
  got: ArrayLike<number>,
  expected: readonly number[],
  allowed: (i: number) => number,
): void {
  const wrong = expected.filter((v, i) => !(Math.abs(v - got[i]!) <= allowed(i) + Math.abs(v) * 2 ** -8)).length
  console.log(`${what}: ${wrong === 0 ? `all ${expected.length} elements are right` : `${wrong} WRONG`}`)
}
