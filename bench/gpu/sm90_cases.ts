/**
 * GEMMs of the SM90 lowering, recorded on the virtual SM90 for replay.cu: designs spread over the list, random normal numbers, so
 * that every rounding and the order of all sums are compared.
 *
 *   npx tsx bench/gpu/sm90_cases.ts FOLDER [TEXT [COUNT]]
 *
 * Of what has TEXT in it, COUNT designs each.
 */
import type { DTypeName } from '../../grammar/vocabulary.ts'
import {
  EpilogueArguments,
  GemmArguments,
  getKernels,
  KtlKernel,
  openDevice,
  type Device,
  type RuntimeArguments,
  type Tensor,
} from '../../runtime/index.ts'
import { randomValues } from '../../runtime/selftest/values.ts'
import { elementCount } from '../../runtime/tensors/layout.ts'
import { makeArguments, planArguments } from '../../runtime/cli/run_arguments.ts'
import { loadSource } from '../../runtime/programs/program.ts'
import { recordLaunches } from './record.ts'

interface Problem {
  readonly types: readonly [DTypeName, DTypeName, DTypeName]
  /** Contiguous axis of B. */
  readonly b: 'k' | 'n'
  readonly epilogue?: string
  readonly batch?: number
}

const PROBLEMS: readonly Problem[] = [
  { types: ['bf16', 'bf16', 'bf16'], b: 'k' },
  { types: ['f16', 'f16', 'f16'], b: 'n', batch: 2 },
  { types: ['f16', 'f16', 'f32'], b: 'k', epilogue: 'acc*alpha+bias' },
  { types: ['bf16', 'bf16', 'bf16'], b: 'n', epilogue: 'gelu_tanh(acc+bias)' },
  { types: ['bf16', 'bf16', 'bf16'], b: 'k', epilogue: 'relu(acc*alpha+C)' },
  { types: ['bf16', 'bf16', 'f32'], b: 'k', epilogue: 'silu(acc)*C' },
  { types: ['tf32', 'tf32', 'f32'], b: 'k' },
  { types: ['e4m3', 'e4m3', 'bf16'], b: 'k' },
  { types: ['i8', 'i8', 'i32'], b: 'k' },
]
/** Stored forms: scales behind the sum and in parts of it, and quantised outputs. */
const KERNELS: readonly string[] = [
  'kernel rows(A: e4m3[m, k] * f32[m], B: e4m3[n, k] * f32[n]) -> D: bf16[m, n] { D = sum[k](A * B) }',
  'kernel ints(A: i8[m, k] * f32[m], B: i8[n, k] * f32[n]) -> D: i8[m, n] * f32[m, n/128] { D = sum[k](A * B) }',
  'kernel parts(A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[n/128, k/128]) -> D: bf16[m, n] { D = sum[k](A * B) }',
  'kernel both(A: e4m3[m, k] * f32[m, k/128], B: e5m2[n, k] * f32[n, k/64], b: f32[n]) -> D: e4m3[m, n] * ue8m0[m, n/32] { D = silu(sum[k](A * B) + b) }',
  'kernel mx(A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[n, k] * ue8m0[n, k/32]) -> D: e4m3[m, n] * f32[m, n/128] { D = sum[k](A * B) }',
  `kernel gated(A: e4m3[m, k] * f32[m, k/128], G: e4m3[n, k] * f32[n/128, k/128], U: e4m3[n, k] * f32[n/128, k/128]) -> D: bf16[m, n] {
     D = silu(sum[k](A * G)) * sum[k](A * U) }`,
]

/** Groups of rows: plain and with exchanged roles, looked up, fused, their gradient. */
const GROUPED: readonly string[] = [
  'kernel grouped(A: bf16[t, k] ragged t by off as g, B: bf16[g, n, k], off: i32[g]) -> D: bf16[t, n] { D = sum[k](A * B) }',
  `kernel exchanged(A: bf16[t, k] ragged t by off as g, B: bf16[g, n, k], w: f32[t], off: i32[g]) -> D: bf16[t, n] { D = sum[k](A * B) * w }
schedule exchanged on sm_90 { tile 64x16 | 64x32 | 128x32; operands ba }`,
  'kernel rows(A: e4m3[t, k] * f32[t] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n], off: i32[g]) -> D: bf16[t, n] { D = sum[k](A * B) }',
  `kernel up(X: bf16[v, k], row: i32[t] ragged t by off as g, G: bf16[g, n, k], U: bf16[g, n, k], off: i32[g]) -> D: bf16[t, n] {
     D = silu(sum[k](X[row[t], k] * G)) * sum[k](X[row[t], k] * U) }`,
  `kernel up8(X: e4m3[v, k] * f32[v, k/128], row: i32[t] ragged t by off as g, G: e4m3[g, n, k] * f32[g, n/128, k/128], U: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g]) -> D: e4m3[t, n] * f32[t, n/128] {
     D = silu(sum[k](X[row[t], k] * G)) * sum[k](X[row[t], k] * U) }`,
  'kernel gradient(A: bf16[t, k] ragged t by off as g, B: bf16[t, n], off: i32[g]) -> D: f32[g, k, n] { D = sum[t](A * B) }',
]

/** Edges inside tiles; rows are multiples of 16 bytes. */
const [M, N, K] = [300, 272, 208]
const DESIGNS_EACH = Number(process.argv[4] ?? 10)
/** Few, so that each CTA computes several tiles. */
const SMS = 6

function operands(device: Device, { types: [a, b, out], b: inner, epilogue, batch }: Problem): { args: GemmArguments; tensors: Tensor[] } {
  const tensors: Tensor[] = []
  const make = (dtype: DTypeName, shape: readonly number[]): Tensor => {
    const tensor = device.tensor(dtype, shape, randomValues(dtype, elementCount(shape), 7 + tensors.length, 'normal'))
    tensors.push(tensor)
    return tensor
  }
  const batched = (shape: readonly number[]): number[] => [...(batch ? [batch] : []), ...shape]
  const A = make(a, batched([M, K]))
  const stored = make(b, batched(inner === 'n' ? [K, N] : [N, K]))
  const B = inner === 'n' ? stored : stored.permute(batch ? [0, 2, 1] : [1, 0])
  const bindings: Record<string, Tensor | number> = {}
  if (epilogue?.includes('alpha')) bindings.alpha = 0.75
  if (epilogue?.includes('bias')) bindings.bias = make(out, [N])
  if (epilogue?.includes('C')) bindings.C = make(out, batched([M, N]))
  const D = make(out, batched([M, N]))
  return { args: new GemmArguments({ A, B, out: D, ...(epilogue && { epilogue: new EpilogueArguments(epilogue, bindings) }) }), tensors }
} // prettier-ignore

/** Legal inputs of any kernel, as `ktl run` makes them. */
async function kernelArguments(device: Device, text: string): Promise<RuntimeArguments> {
  const [kernel] = Object.values(loadSource({ name: 'case.ktl', text }).kernels)
  const extents = { m: M, n: N, k: K, t: M, g: 7, v: 50 }
  const axes = kernel!.family.axes.map(({ name }) => name as keyof typeof extents)
  const dims = Object.fromEntries(axes.map((axis) => [axis, `${extents[axis]}`]))
  const plan = planArguments(kernel!.family, { dims, seed: 7, inputs: 'normal' })
  return (await makeArguments(plan, device)).args
}

const isAsked = (problem: Problem | string): boolean =>
  (typeof problem === 'string' ? problem : (problem.epilogue ?? '')).includes(process.argv[3] ?? '')

let label = ''
let recorded = 0
recordLaunches(process.argv[2]!, () => label)
for (const problem of [...PROBLEMS, ...KERNELS, ...GROUPED].filter(isAsked)) {
  const device = await openDevice('virtual-sm90', { smCount: SMS })
  const args = typeof problem === 'string' ? await kernelArguments(device, problem) : operands(device, problem).args
  const found = Array.from(getKernels(args)).filter(
    (kernel) => kernel instanceof KtlKernel && kernel.plan.kind === 'sm90',
  )
  for (let i = 0; i < Math.min(DESIGNS_EACH, found.length); i++) {
    const kernel = found[Math.floor((i * found.length) / DESIGNS_EACH)] as KtlKernel
    const what = typeof problem === 'string' ? /^kernel (\w+)/.exec(problem)![1]! : (problem.epilogue ?? 'plain')
    label = `${what} ${kernel.metadata.kernelName}`
    const { findings } = await kernel.run(args)
    for (const finding of findings) console.error(`${label}: ${finding.message}`)
    recorded++
  }
  await device.close()
}
console.error(`${recorded} launches recorded`)
