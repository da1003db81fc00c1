/**
 * Scales in blocks of k on SM80: data that mma.sync multiplies as it is, and data that is decoded first for devices that have no such MMA; dense,
 * gated and in groups, into plain and into stored forms.
 */
import { expect, test } from 'vitest'
import type { TargetArch } from '../../compiler/instance.ts'
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import { schedulesOf } from '../cases_of.ts'
import { runGrouped, type GroupedCase } from './run_grouped.ts'

const sm80 = (m: number, n: number, k: number, rest: Partial<Sm80Design> = {}): Sm80Design => ({
  kind: 'sm80', warps: 'auto', tile: [m, n, k], operands: 'ab', stages: 'auto', ...rest,
}) // prettier-ignore

const dense = (a: string, b: string, out = 'bf16[m, n]', value = 'sum[k](A * B)'): string =>
  `kernel g(A: ${a}, B: ${b}) -> D: ${out} { D = ${value} }`
const BLOCKS = ['e4m3[m, k] * f32[m, k/128]', 'e4m3[n, k] * f32[n/128, k/128]'] as const
const GATED = `kernel g(A: e4m3[m, k] * f32[m, k/128], G: e4m3[n, k] * f32[n/128, k/128], U: e4m3[n, k] * f32[n/128, k/128]) -> D: e4m3[m, n] * f32[m, n/64] {
  D = relu(sum[k](A * G)) * sum[k](A * U)
}`
const GROUPED = `kernel g(X: e4m3[t, k] * f32[t, k/128] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n/128, k/128], w: f32[t], off: i32[g]) -> D: bf16[t, n] {
  D = sum[k](X * B) * w
}`
const LOOKED_UP = `kernel g(X: e4m3[v, k] * f32[v, k/128], row: i32[t] ragged t by off as g, G: e4m3[g, n, k] * f32[g, n/128, k/128], U: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g]) -> D: e4m3[t, n] * f32[t, n/64] {
  D = relu(sum[k](X[row[t], k] * G)) * sum[k](X[row[t], k] * U)
}`
const GRADIENT = `kernel g(A: e4m3[t, k] * f32[t/32, k] ragged t by off as g, B: e4m3[t, n] * f32[t/32, n], off: i32[g]) -> D: f32[g, k, n] {
  D = sum[t](A * B)
}`
const off = [17, 17, 20, 150, 150, 214, 215]
const row = Array.from({ length: 224 }, (_, i) => (i % 13 === 5 ? -1 : (i * 7) % 50))

const EXTENTS = { m: 150, n: 208, k: 336 }
const case_ = (text: string, design: Sm80Design, target: TargetArch = 'sm_80', rest: Partial<GroupedCase> = {}): GroupedCase => ({
  text, design, target, extents: EXTENTS, integers: {}, ...rest,
}) // prettier-ignore

const CASES: readonly (readonly [string, GroupedCase])[] = [
  ['1x128 by 128x128, decoded', case_(dense(...BLOCKS), sm80(64, 64, 64))],
  ['1x128 by 128x128, fp8', case_(dense(...BLOCKS), sm80(64, 64, 128), 'sm_90a')],
  ['1x64 by 1x32, columns apart', case_(dense('e5m2[m, k] * f32[m, k/64]', 'e4m3[n, k] * f32[n, k/32]'), sm80(64, 64, 64))],
  ['i8 by u4 with zeros', case_(dense('i8[m, k] * f32[m, k/128]', '(u4[n, k] - u4[n, k/32]) * f16[n, k/32]'), sm80(64, 32, 64))],
  ['into 1x128', case_(dense(...BLOCKS, 'e4m3[m, n] * f32[m, n/128]', 'relu(sum[k](A * B))'), sm80(64, 128, 64))],
  ['gated into 1x64', case_(GATED, sm80(64, 64, 64))],
  ['sums of nothing', case_(dense(...BLOCKS), sm80(64, 64, 64), 'sm_80', { extents: { m: 70, n: 24, k: 0 } })],
  ['groups, exchanged', case_(GROUPED, sm80(64, 32, 64, { operands: 'ba' }), 'sm_80', { extents: { t: 224, g: off.length, n: 144, k: 272 }, integers: { off } })],
  ['groups, in parts of k', case_(GROUPED, sm80(64, 64, 64, { parts: 2 }), 'sm_80', { extents: { t: 224, g: off.length, n: 144, k: 272 }, integers: { off } })],
  ['gradients of groups', case_(GRADIENT, sm80(64, 64, 64), 'sm_80', { extents: { t: 224, g: off.length, n: 144, k: 80 }, integers: { off } })],
  ['groups of looked-up rows, gated into 1x64', case_(LOOKED_UP, sm80(64, 64, 64), 'sm_80', { extents: { t: 224, g: off.length, n: 256, k: 264, v: 50 }, integers: { off, row } })],
] // prettier-ignore

test.each(CASES)('%s', { timeout: 60_000 }, async (name, c) => {
  for (const result of await runGrouped(c, schedulesOf(name)))
    expect(result).toEqual({ findings: [], wrong: null, touched: 0 })
})
