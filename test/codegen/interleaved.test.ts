/** Factors that are the even and odd columns of one operand: one MMA of the whole, whose neighbours an epilogue combines. */
import { expect, test } from 'vitest'
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import type { Sm100Design } from '../../compiler/targets/sm100/design.ts'
import { part, sampled, schedulesOf } from '../cases_of.ts'
import { design } from '../compiler/support.ts'
import { lowerGrouped, runGrouped, type GroupedCase } from './run_grouped.ts'

const GATED = `kernel gated(X: bf16[t, k] ragged t by off as g, W: bf16[g, k, j] | bf16[g, j, k], off: i32[g]) -> H: bf16[t, f] {
  H = silu(sum[k](X * W[g, k, 2 * f])) * sum[k](X * W[g, k, 2 * f + 1])
}`
/** The gate is limited from above, and what it gates on both sides. */
const CLAMPED = `kernel clamped(X: bf16[v, k], row: i32[t] ragged t by off as g, W: bf16[g, k, j] | bf16[g, j, k], bias: f32[g, j], off: i32[g]) -> H: bf16[t, f] {
  gate = min(sum[k](X[row[t], k] * W[g, k, 2 * f]) + bias[g, 2 * f], 7)
  up = clamp(sum[k](X[row[t], k] * W[g, k, 2 * f + 1]) + bias[g, 2 * f + 1], -7, 7)
  H = gate * sigmoid(1.702 * gate) * (up + 1)
}`
const DENSE = `kernel dense(X: bf16[m, k], W: bf16[k, j] | bf16[j, k], R: bf16[m, f]) -> H: bf16[m, f] {
  H = sum[k](X * W[k, 2 * f + 1]) * gelu(sum[k](X * W[k, f * 2])) + R
}`

/** A scale for each row and column: both go behind the sum. */
const ROWWISE = `kernel rowwise(X: e4m3[t, k] * f32[t] ragged t by off as g, W: e4m3[g, j, k] * f32[g, j], off: i32[g]) -> H: bf16[t, f] {
  H = silu(sum[k](X * W[g, 2 * f, k])) * sum[k](X * W[g, 2 * f + 1, k])
}`
/** Scales multiply partial sums, those of even and odd columns alike. */
const BLOCKS = `kernel blocks(X: e4m3[t, k] * f32[t, k/128] ragged t by off as g, W: e4m3[g, j, k] * f32[g, j/128, k/128], off: i32[g]) -> H: bf16[t, f] {
  H = silu(sum[k](X * W[g, 2 * f, k])) * sum[k](X * W[g, 2 * f + 1, k])
}`
/** MMAs read the scales themselves. */
const MXFP8 = `kernel mxfp8(X: e4m3[t, k] * ue8m0[t, k/32] ragged t by off as g, W: e4m3[g, j, k] * ue8m0[g, j, k/32], off: i32[g]) -> H: bf16[t, f] {
  H = silu(sum[k](X * W[g, 2 * f, k])) * sum[k](X * W[g, 2 * f + 1, k])
}`
/** So long a formula that SM90 leaves its accumulators in shared memory. */
const LONG = `kernel long(X: bf16[m, k], W: bf16[k, j], R: bf16[m, f]) -> H: bf16[m, f] {
  gate = sum[k](X * W[k, 2 * f])
  up = sum[k](X * W[k, 2 * f + 1])
  H = gelu(gate) * tanh(up) + erf(gate - up) * sin(up) + log1p(abs(gate)) * cos(gate) + R
}`
const HALF = `kernel half(X: f16[m, k], W: f16[k, j]) -> H: f16[m, f] {
  gate: f16 = sum[k](X * W[k, 2 * f])
  up: f16 = sum[k](X * W[k, 2 * f + 1])
  H = relu(gate) * up
}`

const sm80 = (tile: readonly [number, number]): Sm80Design => ({
  kind: 'sm80', warps: 'auto', tile: [...tile, 64], operands: 'ab', stages: 'auto',
}) // prettier-ignore
const sm90 = (tile: readonly [number, number], rest: Partial<Sm90Design> = {}): Sm90Design => ({
  kind: 'sm90', consumers: 'cooperative', tile: [...tile, 64], cluster: [1, 1, 1], parts: 1, operands: 'ab', stages: 'auto', ...rest,
}) // prettier-ignore
const pingpong = { consumers: 'pingpong' } as const

const pair = (tile: readonly [number, number]): Sm100Design => design(tile, { use2ctaMma: true, cluster: [2, 1, 1] })

const off = [17, 17, 20, 150, 150, 214, 215]
const rows = Array.from({ length: 224 }, (_, i) => (i * 7) % 50)
const grouped = (text: string, rest: Partial<GroupedCase> = {}): Omit<GroupedCase, 'design'> => ({
  text,
  extents: { t: 224, g: off.length, f: 72, j: 144, k: 136, v: 50 },
  integers: { off, row: rows },
  behind: ['t', 215],
  ...rest,
})
const dense = (rest: Partial<GroupedCase> = {}): Omit<GroupedCase, 'design'> => ({
  text: DENSE,
  extents: { m: 150, f: 72, j: 144, k: 136 },
  integers: {},
  ...rest,
})
const alongK = (text: string): Partial<GroupedCase> => ({
  binding: { orders: { W: text === DENSE ? ['j', 'k'] : ['g', 'j', 'k'] } },
})

const CASES: readonly (readonly [string, GroupedCase])[] = [
  ['sm90, gated', { ...grouped(GATED), design: sm90([128, 64]) }],
  ['sm90, gated, along k', { ...grouped(GATED, alongK(GATED)), design: sm90([128, 128]) }],
  ['sm90, gated, ping-pong', { ...grouped(GATED), design: sm90([64, 64], pingpong), smCount: 2 }],
  ['sm90, gated, clusters', { ...grouped(GATED), design: sm90([64, 64], { cluster: [2, 1, 1] }) }],
  ['sm90, clamped, gathered', { ...grouped(CLAMPED), design: sm90([128, 64]) }],
  ['sm90, clamped, gathered, along k', { ...grouped(CLAMPED, alongK(CLAMPED)), design: sm90([64, 32], pingpong), smCount: 1 }],
  ['sm90, dense', { ...dense(), design: sm90([128, 64]) }],
  ['sm90, dense, clusters along columns', { ...dense(), design: sm90([64, 32], { cluster: [1, 2, 1] }) }],
  ['sm90, dense, unaligned', { ...dense({ binding: { divisibility: { X: 'element', W: 'element', H: 'element', R: 'element' } }, extents: { m: 130, f: 71, j: 143, k: 133 } }), design: sm90([64, 64]) }],
  ['sm90, scales of rows and columns', { ...grouped(ROWWISE), design: sm90([128, 64], { tile: [128, 64, 128] }) }],
  ['sm90, scales in blocks', { ...grouped(BLOCKS), design: sm90([128, 64], { tile: [128, 64, 128] }) }],
  ['sm90, parked', { ...dense({ text: LONG }), design: sm90([128, 128]) }],
  ['sm90, sums of f16', { ...dense({ text: HALF }), design: sm90([128, 64]) }],
  ['sm80, gated', { ...grouped(GATED), design: sm80([128, 32]) }],
  ['sm80, gated, along k', { ...grouped(GATED, alongK(GATED)), design: sm80([64, 64]) }],
  ['sm80, clamped, gathered', { ...grouped(CLAMPED), design: sm80([64, 32]) }],
  ['sm80, dense', { ...dense(), design: sm80([128, 64]) }],
  ['sm100, gated', { ...grouped(GATED), design: design([128, 64]) }],
  ['sm100, gated, along k', { ...grouped(GATED, alongK(GATED)), design: design([64, 128]), smCount: 1 }],
  ['sm100, clamped, gathered', { ...grouped(CLAMPED), design: design([128, 32]) }],
  ['sm100, gated, pairs', { ...grouped(GATED), design: pair([256, 64]) }],
  ['sm100, gated, pairs of 64 rows', { ...grouped(GATED, alongK(GATED)), design: pair([128, 64]), smCount: 2 }],
  ['sm100, dense', { ...dense(), design: design([128, 64], { cluster: [2, 2, 1] }) }],
  ['sm100, dense, handed out', { ...dense(), design: design([128, 32], { scheduler: 'clc' }) }],
  ['sm100, scales of rows and columns', { ...grouped(ROWWISE), design: design([128, 64], { tile: [128, 64, 128] }) }],
  ['sm100, scales in blocks', { ...grouped(BLOCKS), design: design([128, 32], { tile: [128, 32, 128] }) }],
  ['sm100, scales that MMAs read', { ...grouped(MXFP8), design: design([128, 64], { tile: [128, 64, 128] }) }],
  ['sm100, scales that MMAs read, pairs', { ...grouped(MXFP8), design: { ...pair([256, 64]), tile: [256, 64, 128] } }],
] // prettier-ignore

const COMBINED = [
  'sm90, gated, along k',
  'sm90, gated, clusters',
  'sm90, clamped, gathered',
  'sm90, dense',
  'sm80, gated',
  'sm80, dense',
  'sm100, gated, along k',
  'sm100, gated, pairs',
  'sm100, dense',
  'sm100, scales of rows and columns',
  'sm100, scales that MMAs read',
]

test.each(part(CASES, COMBINED))('%s', { timeout: 60_000 }, async (name, c) => {
  const lowered = lowerGrouped(c)
  expect(lowered.domain.columns.interleaved).toBe('j')
  for (const result of await runGrouped(c, schedulesOf(name)))
    expect(result).toEqual({ findings: [], wrong: null, touched: 0 })
})

test('columns of other pairs are noticed', { timeout: 60_000 }, async () => {
  const [onSm90, onSm100] = ['sm90, gated', 'sm100, gated'].map((name) => CASES.find((one) => one[0] === name)![1])
  const edits: readonly (readonly [GroupedCase, string, string])[] = [
    [onSm90!, '2 * q - 3 :', '2 * q - 4 :'],
    [onSm90!, 'odd ? high_pair : low_pair', 'low_pair'],
    [onSm90!, 'to[row] = high ? y : x', 'to[row] = x'],
    [onSm90!, '2 * at.n', 'at.n'],
    [onSm100!, '[2 * j + 1]', '[2 * j]'],
  ]
  for (const [c, from, to] of sampled(edits)) {
    const editText = (cuda: string): string => {
      expect(cuda).toContain(from)
      return cuda.replaceAll(from, to)
    }
    const [result] = await runGrouped({ ...c, editText }, [{ order: 'lazy' }])
    expect(result, from).not.toEqual({ findings: [], wrong: null, touched: 0 })
  }
})

test('other products keep operands of their own', () => {
  const of = (body: string): unknown =>
    lowerGrouped({ ...dense({ text: `kernel other(X: bf16[m, k], W: bf16[j, k], V: bf16[f, k]) -> H: bf16[m, f] {\n  H = ${body}\n}` }), design: sm90([64, 64]) }).domain.columns.interleaved
  const half = (at: string): string => `sum[k](X * W[${at}, k])`
  expect(of(`${half('2 * f')} * ${half('1 + f * 2')}`)).toBe('j')
  expect(of(`${half('2 * f')} * ${half('2 * f')}`)).toBeUndefined()
  expect(of(`${half('2 * f')} * ${half('2 * f + 2')}`)).toBeUndefined()
  expect(of(`${half('2 * f')} * ${half('3 * f + 1')}`)).toBeUndefined()
  expect(of(`${half('2 * f')} * ${half('2 * f + 1')} * sum[k](X * V)`)).toBeUndefined()
}) // prettier-ignore
