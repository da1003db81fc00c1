/** Operands of MMAs that warps compute on their way to shared memory, on every tensor-core backend, against the reference evaluator. */
import { afterAll, describe, expect, test } from 'vitest'
import { checkForm } from '../../bench/gpu/forms/check.ts'
import { generatePlan } from '../../codegen/index.ts'
import { planInstance, type Backend } from '../../compiler/targets/index.ts'
import { chooseKernels } from '../../runtime/cli/choose_kernels.ts'
import { makeArguments } from '../../runtime/cli/run_arguments.ts'
import { openDevice, type Device } from '../../runtime/index.ts'
import { verify } from '../../runtime/selftest/verify.ts'
import { bound, familiesOf } from '../compiler/support.ts'

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
const INSTRUCTIONS = { bf16: /bf16|kind::f16/, f16: /f16/, tf32: /tf32/, int8: /s8|kind::i8/ }

describe.each(BACKENDS)('%s', { timeout: 120_000 }, (backend, device) => {
  const cases = Object.entries(CASES).filter(([, { only }]) => !only || only.includes(backend))
  test.each(cases)('%s', async (_, { text, dims, mma = 'bf16' }) => {
    const [family] = familiesOf(`kernel f${text}`)
    const known = new Set(family!.axes.map(({ name }) => name))
    const all = { m: 130, n: 76, k: 204, ...dims }
    const extents = Object.fromEntries(Object.entries(all).filter(([axis]) => known.has(axis)))
    for (const [seed, order] of (['lazy', 'eager', 'random'] as const).entries()) {
      const types = family!.typeChoices[0]!
      const plan = { family: family!, types, extents, orders: {}, scalars: {}, values: {}, epilogue: null, options: { seed, inputs: 'normal' } } as const // prettier-ignore
      const { args } = await makeArguments(plan, device)
      const [kernel] = chooseKernels(args, 'f', { design: backend }, null)
      expect(kernel!.metadata.design).toMatchObject({ mmaInstructionType: expect.stringMatching(INSTRUCTIONS[mma]) })
      const { check } = await verify(kernel!, args, { seed, order, checks: 'full' })
      expect(check, JSON.stringify(check.worst)).toMatchObject({ pass: true })
    }
  })
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
    const design = { kind: 'sm90', consumers: 'cooperative', tile: [128, 64, 64], cluster: [1, 1, 1], operands: 'ab', stages: 'auto' } as const // prettier-ignore
    const plan = planInstance({ program, target: 'sm_90a', design })
    if (!('kind' in plan)) throw new Error(plan.reason)
    const generated = generatePlan(plan, 'ktl.f')
    const cuda = generated.cuda.replace(from, to)
    expect(cuda === generated.cuda).toBe(what === 'nothing')
    const module = await sm90.compileCuda(cuda, { flags: ['-fmad=false', '-DKTL_DEVICE_ONLY'], name: 'f.cu' })
    const wrong = await checkForm(sm90, { program, generated, module }, { name: what, extents: { m: 130, n: 76, k: 208 } }, 7) // prettier-ignore
    if (what === 'nothing') expect(wrong).toEqual([])
    else expect(wrong.join()).toMatch(/elements are out of bounds/)
  })
})
