/** Operands of MMAs that warps compute on their way to shared memory, on every tensor-core backend, against the reference evaluator. */
import { afterAll, describe, expect, test } from 'vitest'
import { checkForm } from '../../bench/gpu/forms/check.ts'
import { generatePlan } from '../../codegen/index.ts'
import { uniform } from '../../compiler/evaluate/generate.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import { planInstance, type Backend } from '../../compiler/targets/index.ts'
import { chooseKernels } from '../../runtime/cli/choose_kernels.ts'
import { makeArguments } from '../../runtime/cli/run_arguments.ts'
import { getKernels, openDevice, type Device, type KernelArguments } from '../../runtime/index.ts'
import { KtlKernel } from '../../runtime/kernels/ktl_kernel.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { bound, familiesOf } from '../compiler/support.ts'
import { FULL, part, schedulesOf } from '../cases_of.ts'
import { GENERATED } from '../native/device.ts'

interface Case {
  readonly text: string
  /** Of the instruction; absent: bf16. */
  readonly mma?: keyof typeof INSTRUCTIONS
  readonly dims?: Readonly<Record<string, number>>
  /** Beside it, others of the same sort run here. */
  readonly only?: readonly string[]
}

const CASES: Readonly<Record<string, Case>> = {
  'u4 with zero points': {
    text: '(X: f16[m, k], W: (u4[k, n] - u4[k/64, n]) * f16[k/64, n]) -> D: f16[m, n] { D = sum[k](X * W) }',
    mma: 'f16',
  },
  'the same along k, both ways round': {
    text: '(W: (u4[m, k] - u4[m, k/24]) * f16[m, k/24], X: f16[k, n]) -> D: f16[m, n] { D = sum[k](W * X) }',
    mma: 'f16',
  },
  'i4 in blocks': { text: '(X: bf16[m, k], W: i4[n, k] * bf16[n, k/64]) -> D: bf16[m, n] { D = sum[k](X * W) }' },
  'e4m3 with a scale for a column': {
    text: '(X: bf16[m, k], W: e4m3[k, n] * f32[n]) -> D: bf16[m, n] { D = sum[k](X * W) }',
  },
  'both sides, of 4 bits': {
    text: '(A: e2m1[m, k] * ue4m3[m, k/16] * f32, B: e2m1[n, k] * ue4m3[n, k/16]) -> D: f32[m, n] { D = sum[k](A * B) }',
    only: ['sm90', 'sm80'],
  },
  'both sides, of 6 bits': {
    text: '(A: e2m3[m, k] * ue8m0[m, k/32], B: e3m2[k, n] * ue8m0[k/32, n]) -> D: f32[m, n] { D = sum[k](A * B) }',
    only: ['sm90', 'sm80'],
  },
  mxfp8: {
    text: '(A: e4m3[m, k] * ue8m0[m, k/32], B: e5m2[k, n] * ue8m0[k/32, n]) -> D: f32[m, n] { D = sum[k](A * B) }',
    only: ['sm80'],
  },
  'integers of 4 and 8 bits': {
    text: '(A: i8[m, k], B: i4[k, n]) -> D: i32[m, n] { D = sum[k](A * B) }',
    mma: 'int8',
    only: ['sm90', 'sm80'],
  },
  'an activation': { text: '(A: f16[m, k], B: f16[k, n]) -> D: f16[m, n] { D = sum[k](relu(A) * B) }', mma: 'f16' },
  'a vector along k': { text: '(A: bf16[m, k], u: f32[k], B: bf16[k, n]) -> D: bf16[m, n] { D = sum[k](A * u * B) }' },
  'both sides, with a scalar': {
    text: '(A: f16[m, k], B: f32[n, k], alpha: f32) -> D: f32[m, n] { D = sum[k](tanh(A * alpha) * exp(B)) }',
  },
  'f32 beside f16': { text: '(A: f16[m, k], B: f32[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }', mma: 'f16' },
  tf32: { text: '(A: tf32[m, k], B: tf32[k, n]) -> D: f32[m, n] { D = sum[k](gelu(A) * B) }', mma: 'tf32' },
  positions: {
    text: '(A: f16[m, k], B: f16[k, n]) -> D: f32[m, n] { D = sum[k](select(k <= m, A, 0) * B) }',
    mma: 'f16',
  },
  'rows that are looked up': {
    text: '(X: f16[t, k], ids: i32[m], B: f16[k, n]) -> D: f16[m, n] { D = sum[k](X[ids, k] * B) }',
    mma: 'f16',
    dims: { t: 37 },
  },
  'fp8 that is looked up, with scales of rows and columns': {
    text: '(X: e4m3[t, k], ids: i32[m], s: f32[m], B: e4m3[n, k] * f32[n]) -> D: f32[m, n] { D = sum[k](X[ids, k] * B) * s }',
    mma: 'e4m3',
    dims: { t: 37, k: 208 },
    only: ['sm90', 'sm100'],
  },
  'neighbours, zeros outside': {
    text: '(X: bf16[t, c], B: bf16[n, k, c]) -> D: f32[m, n] { D = sum[k, c]((X[m + k - 1, c] else 0) * B) }',
    dims: { t: 120, k: 3, c: 72 },
  },
  'neighbours, some outside': {
    text:
      '(X: bf16[t, c], B: bf16[k, n, c], P: f32[m]) -> D: f32[m, n] {\n' +
      '  D = sum[k, c]((X[m + k - 1, c] else -1) * B) + P }',
    dims: { t: 120, k: 3, c: 72 },
  },
  'two products of one activation': {
    text:
      '(X: bf16[m, k], U: i4[n, k] * f16[n, k/32], V: i4[n, k] * f16[n, k/32]) -> D: bf16[m, n] {\n' +
      '  D = silu(sum[k](X * U)) * sum[k](X * V) }',
  },
  'a sum of two products': {
    text:
      '(X: bf16[m, k], W: (u4[k, n] - u4[k/64, n]) * f16[k/64, n], T: bf16[m, r], U: bf16[r, n]) -> D: bf16[m, n] {\n' +
      '  D = sum[k](X * W) + sum[r](T * U) }',
    dims: { r: 16 },
  },
  batches: {
    text: '(A: bf16[l, m, k], B: e2m1[l, n, k] * ue4m3[l, n, k/16] * f32) -> D: bf16[l, m, n] { D = sum[k](A * B) }',
    dims: { l: 2 },
  },
}

const sm90 = await openDevice('virtual-sm90')
const sm100 = await openDevice('virtual-sm100')
afterAll(() => Promise.all([sm90.close(), sm100.close()]))

const BACKENDS: readonly (readonly [Backend, Device])[] = [
  ['sm90', sm90],
  ['sm80', sm90],
  ['sm100', sm100],
]
const INSTRUCTIONS = { bf16: /bf16|kind::f16/, f16: /f16/, tf32: /tf32/, int8: /s8|kind::i8/, e4m3: /e4m3|f8f6f4/ }

async function argumentsOf(
  family: KernelFamily,
  extents: Readonly<Record<string, number>>,
  seed: number,
  device: Device,
): Promise<KernelArguments> {
  const types = family.typeChoices[0]!
  const options = { seed, inputs: 'normal' } as const
  const plan = { family, types, extents, orders: {}, scalars: {}, values: {}, epilogue: null, options }
  return (await makeArguments(plan, device)).args
}

/** What one backend leaves out, others run. */
const LEFT_OUT = {
  sm90: ['u4 with zero points', 'e4m3 with a scale for a column', 'both sides, with a scalar', 'tf32', 'neighbours, some outside', 'two products of one activation'],
  sm80: ['i4 in blocks', 'both sides, of 6 bits', 'an activation', 'a vector along k', 'positions', 'neighbours, zeros outside', 'batches'],
  sm100: ['the same along k, both ways round', 'f32 beside f16', 'rows that are looked up', 'neighbours, zeros outside', 'a sum of two products', 'a vector along k'],
} // prettier-ignore

describe.each(BACKENDS)('%s', { timeout: 120_000 }, (backend, device) => {
  const cases = Object.entries(CASES).filter(([, { only }]) => !only || only.includes(backend))
  test.each(part(cases, LEFT_OUT[backend as keyof typeof LEFT_OUT]))(
    '%s',
    async (name, { text, dims, mma = 'bf16' }) => {
      const [family] = familiesOf(`kernel f${text}`)
      const known = new Set(family!.axes.map(({ name }) => name))
      const all = { m: 130, n: 76, k: 204, ...dims }
      const extents = Object.fromEntries(Object.entries(all).filter(([axis]) => known.has(axis)))
      for (const [seed, { order }] of schedulesOf(name).entries()) {
        const args = await argumentsOf(family!, extents, seed, device)
        const [kernel] = chooseKernels(args, 'f', { design: backend }, null)
        expect(kernel!.metadata.design).toMatchObject({ mmaInstructionType: expect.stringMatching(INSTRUCTIONS[mma]) })
        const { check } = await verify(kernel!, args, { seed, order, checks: 'full' })
        expect(check, JSON.stringify(check.worst)).toMatchObject({ pass: true })
      }
    },
  )
})

/** Of random data types, scales, blocks, orders and expressions, with tails everywhere. */
function randomCase(seed: number): Case {
  const next = uniform(seed)
  const below = (n: number): number => Math.floor(next() * n)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!
  const dtype = pick(['u4', 'i4', 'u8', 'i8', 'e2m1', 'e2m3', 'e3m2', 'e4m3', 'e5m2'] as const)
  const order = pick(['k, n', 'n, k'])
  const blocks = { k: pick([1, 3, 8, 16, 64, 100]), n: pick([1, 2, 128]) }
  const part = (type: string): string =>
    `${type}[${order
      .split(', ')
      .map((axis) => (blocks[axis as 'k' | 'n'] === 1 ? axis : `${axis}/${blocks[axis as 'k' | 'n']}`))
      .join(', ')}]`
  const data = `${dtype}[${order}]`
  const scale = pick(['f32', 'f16', 'bf16', 'ue8m0', 'ue4m3'])
  const zero = pick([dtype, 'u8'])
  const decoded = /^[ui]/.test(dtype) && next() < 0.5 ? `(${data} - ${part(zero)})` : data
  const stored = `${decoded} * ${next() < 0.2 ? 'f32[n]' : part(scale)}${next() < 0.3 ? ' * f32' : ''}`
  const [x, rows] = [pick(['f16', 'bf16', 'f32']), pick(['m, k', 'k, m'])]
  const side = pick(['X', 'X', 'relu(X)', 'X * u', 'select(k < m, X, 0.5)'])
  const vector = side.includes('u)') || side.includes(' u') ? ', u: f32[k]' : ''
  return {
    text: `(X: ${x}[${rows}]${vector}, W: ${stored}) -> D: f32[m, n] { D = sum[k](${side} * W) }`,
    dims: { m: 1 + below(150), n: 1 + below(150), k: 1 + below(300) },
  }
}

test('random forms', { timeout: 300_000 }, async () => {
  let reached = 0
  const count = FULL ? 40 : 3
  for (let seed = 0; seed < count; seed++) {
    const { text, dims } = randomCase(seed)
    const [backend, device] = BACKENDS[seed % 3]!
    const [family] = familiesOf(`kernel f${text}`)
    const args = await argumentsOf(family!, dims!, seed, device)
    const [kernel] = getKernels(args, { limit: 1, metadataFilter: ({ design }) => design.kind === backend })
    if (!(kernel instanceof KtlKernel)) continue
    reached++
    const { check } = await verify(kernel, args, { seed, order: 'random', checks: 'full' })
    expect(check, `${text} ${JSON.stringify(dims)} ${JSON.stringify(check.worst)}`).toMatchObject({ pass: true })
  }
  // The others have scales that leave no type of the MMA exact.
  expect(reached).toBeGreaterThan(0.6 * count)
})

describe('a kernel with a mistake is noticed', { timeout: 60_000 }, () => {
  const text = `kernel f${CASES['u4 with zero points']!.text}`
  const changes: readonly (readonly [string, string | RegExp, string])[] = [
    ['nothing', '', ''],
    ['another zero point', /(ktl_load_4\(op_W_zero\w*, [^;]*?)\)\)/, '$1) + 1)'],
    ['the scale of another row', /(op_W_scale\w*\[\(i64\)\(\()k_at/, '$1k_at + 64'],
    ['a code too far', /codes0\[e \/ 8\] >> e/, 'codes0[e / 8] >> (e ^ 1)'],
  ]
  test.each(changes)('%s', async (what, from, to) => {
    const program = bound(text, { divisibility: Object.fromEntries(['W', 'W.scale', 'W.zero', 'D'].map((name) => [name, 'element'])) }) // prettier-ignore
    const design = { kind: 'sm90', consumers: 'cooperative', tile: [128, 64, 64], cluster: [1, 1, 1], parts: 1, operands: 'ab', stages: 'auto' } as const // prettier-ignore
    const plan = planInstance({ program, target: 'sm_90a', design })
    if (!('kind' in plan)) throw new Error(plan.reason)
    const generated = generatePlan(plan, 'ktl.f')
    const cuda = generated.cuda.replace(from, to)
    expect(cuda === generated.cuda).toBe(what === 'nothing')
    const module = await sm90.compileCuda(cuda, { flags: GENERATED, name: 'f.cu' })
    const wrong = await checkForm(sm90, { program, generated, module }, { name: what, extents: { m: 130, n: 76, k: 208 } }, 7) // prettier-ignore
    if (what === 'nothing') expect(wrong).toEqual([])
    else expect(wrong.join()).toMatch(/elements are out of bounds/)
  })
})
