/**
 * Wrong kernels of every class: a scale of the wrong row, a group that begins one row late, a sum that is not rescaled, a mask that is off by
 * one. The comparison of `ktl run` refuses each, so no bound is so wide that it hides one; the right kernel has to pass with the same inputs.
 */
import { describe, expect, test } from 'vitest'
import { bindKernel } from '../../compiler/bind.ts'
import { roundToDType } from '../../compiler/codec.ts'
import { checkOutputs } from '../../compiler/evaluate/compare.ts'
import { allExtents, evaluate } from '../../compiler/evaluate/evaluate.ts'
import { extentIn, type EvaluationInputs } from '../../compiler/evaluate/inputs.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'
import { meaningfulValues } from '../../runtime/selftest/meaningful.ts'
import { randomValues, seedOf } from '../../runtime/selftest/values.ts'
import { untouched } from '../codegen/check_simt.ts'
import { SimtKernel } from '../codegen/run_simt.ts'
import { family } from '../compiler/helpers.ts'

type Edit = (values: number[], extents: Readonly<Record<string, number>>) => number[]

interface Mutant {
  /** Replaced in the text. */
  readonly text?: readonly [from: string, to: string]
  /** What the wrong kernel reads in place of an input. */
  readonly reads?: Readonly<Record<string, Edit>>
  /** In place of a scalar. */
  readonly scalars?: Readonly<Record<string, number>>
}

interface Class {
  readonly text: string
  readonly extents: Readonly<Record<string, number>>
  readonly scalars?: Readonly<Record<string, number>>
  readonly values?: Readonly<Record<string, readonly number[]>>
  readonly mutants: Readonly<Record<string, Mutant>>
}

const SEED = 3

/** Each element one place further. */
const shifted: Edit = (values) => [values.at(-1)!, ...values.slice(0, -1)]
const plus =
  (difference: number): Edit =>
  (values) =>
    values.map((x) => x + difference)
/** One end of a group further on. */
const laterBy = (rows: number, group = 0): Edit => (values) => values.map((x, i) => (i === group ? x + rows : x)) // prettier-ignore

const ATTENTION = `kernel attention(Q: bf16[b, h, m, d], K: bf16[b, hk, n, d], V: bf16[b, hk, n, e], scale: f32) -> (O: bf16[b, h, m, e], L: f32[b, h, m]) {
  S = sum[d](Q * K[b, h / (size(h) / size(hk)), n, d]) * scale
  P = select(n <= m + size(n) - size(m), S, -inf)
  top = max[n](P)
  e1 = exp(P - top)
  O = sum[n](e1 / sum[n](e1) * V[b, h / (size(h) / size(hk)), n, e])
  L = top + log(sum[n](e1))
}`

const CLASSES: Readonly<Record<string, Class>> = {
  mxfp8: {
    text: 'kernel f(A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[k, n] * ue8m0[k/32, n]) -> D: bf16[m, n] { D = sum[k](A * B) }',
    extents: { m: 9, n: 10, k: 64 },
    mutants: {
      'the scale of another block': { reads: { 'A.scale': shifted } },
      'the scale of another column': { reads: { 'B.scale': shifted } },
      'blocks of 33': { text: ['[m, k/32]', '[m, k/33]'] },
      'the last product is missing': { text: ['A * B)', 'A * B * f32(k < size(k) - 1))'] },
      'scales doubled': { reads: { 'A.scale': (values) => values.map((x) => 2 * x) } },
    },
  },
  nvfp4: {
    text: 'kernel f(A: e2m1[m, k] * ue4m3[m, k/16] * f32, B: e2m1[n, k] * ue4m3[n, k/16] * f32) -> D: bf16[m, n] { D = sum[k](A * B) }',
    extents: { m: 9, n: 10, k: 64 },
    scalars: { 'A.global': 0.75, 'B.global': 1.5 },
    mutants: {
      'the scale of another block': { reads: { 'B.scale': shifted } },
      'blocks of 17': { text: ['[m, k/16]', '[m, k/17]'] },
      'no global scale': { scalars: { 'A.global': 1 } },
      'high nibble first': { reads: { A: (values) => values.map((_, i) => values[i ^ 1]!) } },
    },
  },
  'fp8, 1 x 128 by 128 x 128': {
    text: 'kernel f(A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[n/128, k/128]) -> D: bf16[m, n] { D = sum[k](A * B) }',
    extents: { m: 6, n: 140, k: 256 },
    mutants: {
      'the scale of another row': { reads: { 'A.scale': shifted } },
      'the scale of another block of B': { reads: { 'B.scale': shifted } },
      'blocks of 127 columns': { text: ['[n/128,', '[n/127,'] },
      'blocks of 129 along k': { text: ['[m, k/128]', '[m, k/129]'] },
      'the sum of the first block is not promoted': { text: ['A * B)', 'A * B * f32(k >= 128))'] },
    },
  },
  'row-wise scales': {
    text: 'kernel f(A: e4m3[m, k] * f32[m], B: e4m3[k, n] * f32[n]) -> D: bf16[m, n] { D = sum[k](A * B) }',
    extents: { m: 9, n: 10, k: 64 },
    mutants: {
      'the scale of another row': { reads: { 'A.scale': shifted } },
      'the scale is missing': { reads: { 'B.scale': (values) => values.map(() => 1) } },
    },
  },
  'u4 weights with zero points': {
    text: 'kernel f(X: f16[m, k], W: (u4[k, n] - u4[k/128, n]) * f16[k/128, n]) -> D: f16[m, n] { D = sum[k](X * W) }',
    extents: { m: 5, n: 12, k: 256 },
    mutants: {
      'zero points less 1': { reads: { 'W.zero': plus(-1) } },
      'the zero point of another column': { reads: { 'W.zero': shifted } },
      'the scale of another column': { reads: { 'W.scale': shifted } },
      'groups of 129': { text: ['k/128, n]) * f16', 'k/129, n]) * f16'] },
      'zero points behind the scale': { text: ['X * W)', 'X * W) + 0.25 * sum[k](X)'] },
    },
  },
  'quantised outputs': {
    text: `kernel f(A: bf16[m, k], B: bf16[k, n]) -> (D: e4m3[m, n] * ue8m0[m, n/32], E: e2m1[m, n] * ue4m3[m, n/16] * f32, F: i8[m, n] * f32[m, n/128]) {
  x = relu(sum[k](A * B))
  D = x
  E = x
  F = x
}`,
    extents: { m: 7, n: 64, k: 40 },
    scalars: { 'E.global': 0.75, 'E.norm': 0 },
    mutants: {
      'scales rounded down': { text: ['* ue8m0[m, n/32]', '* floor(ue8m0[m, n/32])'] },
      'blocks of 33': { text: ['n/32', 'n/33'] },
      'blocks of 17': { text: ['n/16', 'n/17'] },
      'no relu': { text: ['relu(sum[k](A * B))', 'sum[k](A * B)'] },
      'rounded before it is quantised': { text: ['x = relu(sum[k](A * B))', 'x = e4m3(relu(sum[k](A * B)))'] },
      'one column less in the maximum': { text: ['F = x', 'F = select(n == 5, 2 * x, x)'] },
    },
  },
  convolution: {
    text: `kernel f(X: bf16[b, h, w, c], W: bf16[f, r, s, c], bias: bf16[f], stride: i32, pad: i32) -> Y: bf16[b, p, q, f] {
  Y = relu(sum[r, s, c]((X[b, p * stride + r - pad, q * stride + s - pad, c] else 0) * W) + bias)
}`,
    extents: { b: 2, h: 7, w: 6, c: 8, f: 5, r: 3, s: 3, p: 4, q: 3 },
    scalars: { stride: 2, pad: 1 },
    mutants: {
      'padding off by one': { scalars: { pad: 0 } },
      'another stride': { scalars: { stride: 1 } },
      'rows and columns of the filter exchanged': {
        text: ['stride + r - pad, q * stride + s -', 'stride + s - pad, q * stride + r -'],
      },
      'the border counts 1': { text: ['else 0', 'else 1'] },
      'the last channel is missing': { text: ['* W)', '* W * f32(c < size(c) - 1))'] },
    },
  },
  gather: {
    text: 'kernel f(X: f16[v, k], W: f16[k, n], id: i32[t]) -> Y: bf16[t, n] { Y = sum[k](X[id, k] * W) }',
    extents: { v: 9, k: 32, n: 6, t: 12 },
    values: { id: [0, 3, -1, 5, 5, 2, 7, 1, 4, 6, 0, 3] },
    mutants: {
      'the next row': { text: ['X[id, k]', 'X[(id + 1) % size(v), k]'] },
      'the row of another': { reads: { id: shifted } },
      'absent rows are row 0': { reads: { id: (values) => values.map((x) => Math.max(x, 0)) } },
    },
  },
  scatter: {
    text: 'kernel f(X: f16[t, c], to: i32[t]) -> Y: bf16[v, c] { Y[to, c] = X }',
    extents: { v: 14, c: 8, t: 12 },
    mutants: {
      'to the place of another': { reads: { to: shifted } },
      'a row is not written': { reads: { to: (values) => [-1, ...values.slice(1)] } },
      'rows that nobody named are written': {
        reads: {
          to: (values, { v }) => [
            Array.from({ length: v! }, (_, i) => i).find((i) => !values.includes(i))!,
            ...values.slice(1),
          ],
        },
      },
    },
  },
  grouped: {
    text: 'kernel f(A: bf16[t, k] ragged t by ends as g, B: bf16[g, k, n], ends: i32[g]) -> D: bf16[t, n] { D = sum[k](A * B) }',
    extents: { t: 20, k: 32, n: 6, g: 4 },
    values: { ends: [6, 6, 13, 18] },
    mutants: {
      'a group begins one row late': { reads: { ends: laterBy(1, 1) } },
      'the last group is one row short': { reads: { ends: laterBy(-1, 3) } },
      'rows behind the last group are written': { reads: { ends: laterBy(1, 3) } },
      'the matrix of another group': {
        reads: { B: (values) => [...values.slice(32 * 6), ...values.slice(0, 32 * 6)] },
      },
    },
  },
  'scales of groups': {
    text: 'kernel f(A: e4m3[t, k] * f32[t/4, k] ragged t by ends as g, B: e4m3[g, k, n] * f32[g, n], ends: i32[g]) -> D: bf16[t, n] { D = sum[k](A * B) }',
    extents: { t: 20, k: 16, n: 6, g: 3 },
    values: { ends: [5, 11, 20] },
    mutants: {
      'the scale of another block of rows': {
        reads: { 'A.scale': (values) => [...values.slice(16), ...values.slice(0, 16)] },
      },
      'the scale of another group': { reads: { 'B.scale': (values) => [...values.slice(6), ...values.slice(0, 6)] } },
    },
  },
  'padded groups': {
    text: 'kernel f(A: bf16[g, m, k] ragged m upto rows as g, B: bf16[g, k, n], rows: i32[g]) -> (D: bf16[g, m, n], E: f32[g, k]) { D = sum[k](A * B); E = sum[m](A) }',
    extents: { g: 3, m: 8, k: 16, n: 5 },
    values: { rows: [5, 0, 7] },
    mutants: {
      'one row more': { reads: { rows: laterBy(1) } },
      'one row less': { reads: { rows: laterBy(-1, 2) } },
    },
  },
  'weight gradient': {
    text: 'kernel f(A: bf16[t, k] ragged t by ends as g, dY: bf16[t, n], ends: i32[g]) -> dW: f32[g, k, n] { dW = sum[t](A * dY) }',
    extents: { t: 40, k: 8, n: 6, g: 4 },
    values: { ends: [12, 12, 25, 38] },
    mutants: {
      'a group begins one row late': { reads: { ends: laterBy(1, 0) } },
      'the last row of a group is missing': { text: ['A * dY)', 'A * dY * f32(t < 37))'] },
      'an empty group keeps what it had': { text: ['sum[t](A * dY)', 'sum[t](A * dY) + f32(length(t) == 0)'] },
    },
  },
  'rms norm': {
    text: 'kernel f(X: bf16[m, c], g: bf16[c], eps: f32) -> Y: bf16[m, c] { Y = X * rsqrt(mean[c](X * X) + eps) * g }',
    extents: { m: 8, c: 48 },
    scalars: { eps: 0.05 },
    mutants: {
      'one column less': { text: ['mean[c](X * X)', '(sum[c](X * X) / f32(size(c) - 1))'] },
      'a column is missing': { text: ['mean[c](X * X)', 'mean[c](X * X * f32(c != 3))'] },
      'no epsilon': { scalars: { eps: 0 } },
      'the weight of another column': { reads: { g: shifted } },
    },
  },
  softmax: {
    text: `kernel f(X: bf16[m, c]) -> Y: bf16[m, c] {
  top = max[c](X)
  Y = exp(X - top) / sum[c](exp(X - top))
}`,
    extents: { m: 6, c: 40 },
    mutants: {
      'the first half is not rescaled': {
        text: ['sum[c](exp(X - top))', 'sum[c](exp(X - select(c < 20, max[c](select(c < 20, X, -inf)), top)))'],
      },
      'no division': { text: ['/ sum[c](exp(X - top))', ''] },
      'the last column is missing from the sum': {
        text: ['sum[c](exp(X - top))', 'sum[c](select(c < 39, exp(X - top), 0))'],
      },
    },
  },
  'causal attention': {
    text: ATTENTION,
    extents: { b: 1, h: 4, hk: 2, m: 6, n: 9, d: 16, e: 8 },
    scalars: { scale: 0.25 },
    mutants: {
      'the mask is off by one': { text: ['n <= m', 'n < m'] },
      'the mask begins at the other corner': { text: ['m + size(n) - size(m)', 'm'] },
      'the first half is not rescaled': {
        text: ['e1 = exp(P - top)', 'e1 = exp(P - select(n < 4, max[n](select(n < 4, P, -inf)), top))'],
      },
      'no division': { text: ['e1 / sum[n](e1) * V', 'e1 * V'] },
      'the keys of another head': { text: ['K[b, h / (size(h) / size(hk)), n, d]', 'K[b, h % size(hk), n, d]'] },
      'no scale': { scalars: { scale: 1 } },
      'a logarithm to base 2': { text: ['log(', 'log2('] },
    },
  },
  'paged decoding': {
    text: `kernel f(Q: bf16[b, h, d], K: bf16[p, s, hk, d], V: bf16[p, s, hk, e], page: i32[b, j], long: i32[b], scale: f32) -> O: bf16[b, h, e] {
  axis n = size(j) * size(s)
  S = sum[d](Q * K[page[b, n / size(s)], n % size(s), h / (size(h) / size(hk)), d]) * scale
  P = softmax[n](select(n < long, S, -inf))
  O = sum[n](P * V[page[b, n / size(s)], n % size(s), h / (size(h) / size(hk)), e])
}`,
    extents: { b: 2, h: 4, hk: 2, d: 16, e: 8, p: 7, s: 4, j: 3 },
    scalars: { scale: 0.25 },
    values: { long: [7, 11], page: [5, 0, 2, 6, 1, 3] },
    mutants: {
      'a position more': { text: ['n < long', 'n <= long'] },
      'the next position of the page': {
        text: ['V[page[b, n / size(s)], n % size(s)', 'V[page[b, n / size(s)], (n + 1) % size(s)'],
      },
      'the page of another': { reads: { page: shifted } },
      'pages of 5': { text: ['K[page[b, n / size(s)]', 'K[page[b, n / 5]'] },
    },
  },
  'expression as an operand': {
    text: 'kernel f(X: bf16[m, k], g: bf16[k], W: bf16[k, n], eps: f32) -> D: bf16[m, n] { D = sum[k](X * rsqrt(mean[k](X * X) + eps) * g * W) }',
    extents: { m: 6, k: 48, n: 10 },
    scalars: { eps: 0.05 },
    mutants: {
      'no weight': { text: ['* g * W', '* W * f32(g == g)'] },
      'the weight of another column': { reads: { g: shifted } },
      'the statistic of the first half': { text: ['mean[k](X * X)', 'mean[k](2 * X * X * f32(k < 24))'] },
      'no epsilon': { scalars: { eps: 0 } },
    },
  },
}

function inputsOf(program: TensorProgram, { extents, scalars = {}, values = {} }: Class): EvaluationInputs {
  const all = allExtents(program, { tensors: {}, scalars, extents })
  const tensors = Object.fromEntries(
    program.operands.map((operand) => {
      const { name, dtype, role } = operand
      const shape = operand.axes.map((_, i) => extentIn(operand, i, program, all))
      const count = shape.reduce((product, extent) => product * extent, 1)
      const seed = seedOf(SEED, name)
      const data =
        role === 'output'
          ? new Float32Array(count).fill(roundToDType(dtype, 2.5))
          : (values[name] ?? meaningfulValues(program, name, count, seed, { extents: all, scalars }) ?? randomValues(dtype, count, seed, 'normal'))
      return [name, { data: Array.from(data, (x) => roundToDType(dtype, x)), shape }]
    }),
  )
  return { tensors, scalars, extents: all }
} // prettier-ignore

/** What a kernel of `text` gives that reads what a mutant reads. */
function valuesOf(text: string, { tensors, scalars, extents }: EvaluationInputs, { reads = {}, scalars: others = {} }: Mutant): Record<string, ArrayLike<number>> {
  const read = Object.fromEntries(
    Object.entries(tensors).map(([name, { data, shape }]) => [name, { data: reads[name]?.(Array.from(data), extents) ?? data, shape }]),
  )
  const program = bindKernel(family(text))
  // Blocks of another size: there are as many of them.
  const results = evaluate(program, read, { ...scalars, ...others }, extents)
  return Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, data]))
} // prettier-ignore

describe.each(Object.entries(CLASSES))('%s', (_, kernel) => {
  const { text, mutants } = kernel
  const program = bindKernel(family(text))
  const inputs = inputsOf(program, kernel)

  test('the kernel itself passes', () => {
    expect(checkOutputs(program, inputs, valuesOf(text, inputs, {})).pass).toBe(true)
  })

  test.each(Object.entries(mutants))('%s: FAIL', (_, mutant) => {
    const [from, to] = mutant.text ?? ['', '']
    expect(text).toContain(from)
    expect(
      checkOutputs(
        program,
        inputs,
        valuesOf(
          text.replace(from, () => to),
          inputs,
          mutant,
        ),
      ).pass,
    ).toBe(false)
  })
})

/** The generated text is broken in place of the kernel's. */
const BROKEN: readonly (readonly [kernel: string, what: string, from: string, to: string])[] = [
  ['mxfp8', 'the scale of the row before', 'op_A_scale[i_m *', 'op_A_scale[max(i_m - 1, 0) *'],
  ['mxfp8', 'the last step along k is missing', 'first_k < count_1', 'first_k + 16 < count_1'],
  ['u4 weights with zero points', 'groups of 129', 'op_W_zero, (i_k / 128)', 'op_W_zero, (i_k / 129)'],
  ['grouped', 'the matrix of the group before', 'op_B[i_g *', 'op_B[max(i_g - 1, 0) *'],
  ['causal attention', 'the mask is off by one', 'i_n <= sub_', 'i_n < sub_'],
  ['quantised outputs', 'the reciprocal of 127 is approximate', '0.007874016f', '0.00787f'],
]

describe('broken CUDA text', { timeout: 120_000 }, () => {
  test.each(BROKEN)('%s: %s: FAIL', async (name, _, from, to) => {
    const kernel = CLASSES[name]!
    const program = bindKernel(family(kernel.text))
    const inputs = inputsOf(program, kernel)
    const outputs = program.operands.filter(({ role }) => role === 'output').map((operand) => operand.name)
    const tensors = Object.fromEntries(Object.entries(inputs.tensors).flatMap(([own, { data }]) => (outputs.includes(own) ? [] : [[own, data]])))
    const before = program.operands.flatMap(({ name: own, dtype }) => {
      const { shape, data } = inputs.tensors[own]!
      return outputs.includes(own) ? [[own, { shape, data: Array.from(data, () => untouched(dtype)) }]] : []
    })
    const given = { ...inputs, tensors: { ...inputs.tensors, ...Object.fromEntries(before) } }
    const simt = new SimtKernel(program, { edit: (cuda) => cuda.replaceAll(from, to) })
    const run = await simt.run({ extents: inputs.extents, tensors, scalars: inputs.scalars })
    expect(checkOutputs(program, given, run.outputs).pass).toBe(false)
  })
}) // prettier-ignore
