/**
 * SIMT kernels on the virtual SM90, recorded for a GPU: `npx tsx bench/gpu/simt_cases.ts FOLDER`, then replay.cu.
 * Inputs are normal random numbers, not integers: every operation must give the same bits, sums in the same order.
 */
import { loadKtl, openDevice } from '../../runtime/index.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { normal } from '../../compiler/evaluate/generate.ts'
import { recordLaunches } from './record.ts'

const FUNCTIONS = ['exp(x)', 'exp2(x)', 'expm1(x)', 'log(abs(x))', 'log2(abs(x))', 'log1p(abs(x))', 'sin(x)', 'cos(x)', 'erf(x)', 'sign(x)', 'mod(x, 0.75)', 'sqrt(abs(x))', 'rsqrt(abs(x))', 'tanh(x)', 'sigmoid(x)', 'relu(x)', 'leaky_relu(x)', 'gelu(x)', 'gelu_tanh(x)', 'silu(x)', 'hardswish(x)', 'softplus(x)', 'elu(x)', 'abs(x)', 'neg(x)', 'min(x, 1)', 'max(x, 0.5)', 'clamp(x, 0, 1)', 'pow(abs(x), 0.75)', 'fma(x, x, x)', 'floor(x)', 'ceil(x)', 'round(x)', 'select(x > 0, x, -1)', 'x / 3', 'x ^ 2'] // prettier-ignore

interface GpuCase {
  readonly name: string
  readonly source: string
  readonly operands: Readonly<Record<string, readonly [DTypeName, readonly number[]]>>
  readonly scalars?: Readonly<Record<string, number>>
}

const elementwise = (type: DTypeName, expression: string): GpuCase => ({
  name: `${type} ${expression}`,
  source: `kernel f(X: ${type}[i, j]) -> Y: ${type}[i, j] { x = X\n Y = ${expression} }`,
  operands: { X: [type, [173, 211]], Y: [type, [173, 211]] },
})

const gemm = (a: DTypeName, out: DTypeName, [m, n, k]: readonly [number, number, number], acc = ''): GpuCase => ({
  name: `${a} gemm ${m}x${n}x${k} to ${out}${acc}`,
  source: `kernel f(A: ${a}[m, k], B: ${a}[k, n], bias: f32[n]) -> D: ${out}[m, n] { acc${acc} = sum[k](A * B)\n D = ${a === 'i8' ? 'acc' : 'gelu(acc + bias)'} }`.replace(a === 'i8' ? ', bias: f32[n]' : '\0', ''),
  operands: { A: [a, [m, k]], B: [a, [k, n]], ...(a !== 'i8' && { bias: ['f32', [n]] as const }), D: [out, [m, n]] },
}) // prettier-ignore

const CASES: readonly GpuCase[] = [
  ...FUNCTIONS.flatMap((f) => [elementwise('f32', f), elementwise('f64', f)]),
  ...(['f16', 'bf16', 'e4m3', 'e5m2', 'tf32'] as const).map((t) => elementwise(t, 'silu(x) * 3 + 1')),
  gemm('f16', 'f16', [77, 53, 131]),
  gemm('bf16', 'f32', [64, 96, 128]),
  gemm('f32', 'f32', [65, 33, 200]),
  gemm('tf32', 'f32', [48, 48, 64]),
  gemm('e4m3', 'bf16', [32, 80, 96]),
  gemm('f16', 'f16', [40, 40, 100], ': f16'),
  gemm('f64', 'f64', [33, 65, 70]),
  gemm('i8', 'i32', [50, 60, 70]),
  {
    name: 'swiglu',
    source:
      'kernel f(A: bf16[m, k], G: bf16[k, h], U: bf16[k, h]) -> H: bf16[m, h] { H = silu(sum[k](A * G)) * sum[k](A * U) }',
    operands: { A: ['bf16', [37, 64]], G: ['bf16', [64, 41]], U: ['bf16', [64, 41]], H: ['bf16', [37, 41]] },
  },
  {
    name: 'amax and a scaled copy',
    source:
      'kernel f(X: f32[m, n], s: f32) -> (Y: f16[m, n], amax: f32[m]) { Y = X * s\n amax[m] = max[n](abs(X * s)) }',
    operands: { X: ['f32', [19, 301]], Y: ['f16', [19, 301]], amax: ['f32', [19]] },
    scalars: { s: 0.37 },
  },
]

let current = ''
recordLaunches(process.argv[2]!, () => current)
let failures = 0
for (const [i, { name, source, operands, scalars }] of CASES.entries()) {
  current = name
  const device = await openDevice('virtual-sm90')
  const tensors = Object.fromEntries(
    Object.entries(operands).map(([operand, [dtype, shape]], j) => {
      const count = shape.reduce((x, y) => x * y, 1)
      const values = normal(count, 100 * i + j).map((v) => (dtype === 'i8' ? Math.round(v * 20) : v * 2))
      return [operand, device.tensor(dtype, shape, values)]
    }),
  )
  try {
    const program = await loadKtl({ source, name: `${name}.ktl` })
    await program.kernels['f']!({ ...tensors, ...scalars })
  } catch (error) {
    failures++
    console.error(`${name}: ${(error as Error).message}`)
  }
  await device.close()
}
console.error(`${CASES.length - failures} launches recorded, ${failures} failed here`)
