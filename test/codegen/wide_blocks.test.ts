/**
 * Outputs in blocks of 128 columns beside whatever the epilogue reads, and sums of parts that registers lack room for, against the
 * reference evaluator; compiled, no register goes to memory.
 */
import { describe, expect, test } from 'vitest'
import { printProgram } from '../../codegen/index.ts'
import type { Sm100Design } from '../../compiler/targets/sm100/design.ts'
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import { part, schedulesOf } from '../cases_of.ts'
import { design } from '../compiler/support.ts'
import { assemble } from './assemble.ts'
import { lowerGrouped, runGrouped, type GroupedCase } from './run_grouped.ts'

const FP8 = 'e4m3[m, k] * f32[m, k/128]'
const BLOCKS = 'e4m3[n, k] * f32[n/128, k/128]'
type Tile = readonly [number, number]
const sm100 = (tile: Tile, rest: Partial<Sm100Design> = {}): Sm100Design => design(tile, rest)
const fp8 = (tile: Tile, rest: Partial<Sm100Design> = {}): Sm100Design =>
  design(tile, { ...rest, tile: [...tile, 128] })
const pair = { use2ctaMma: true, cluster: [2, 1, 1] } as const
const sm90 = (tile: Tile): Sm90Design => ({
  kind: 'sm90', consumers: 'cooperative', tile: [...tile, 64], cluster: [1, 1, 1], parts: 1, operands: 'ab', stages: 'auto',
}) // prettier-ignore
const sm80 = (tile: Tile): Sm80Design => ({
  kind: 'sm80', warps: 'auto', tile: [...tile, 64], operands: 'ab', stages: 'auto',
}) // prettier-ignore

type Text = Omit<GroupedCase, 'design'>
const dense = (text: string, n = 272): Text => ({ text, extents: { m: 200, n, k: 272 }, integers: {} })
const GATED = dense(`kernel gated(A: ${FP8}, G: ${BLOCKS}, U: ${BLOCKS}) -> D: e4m3[m, n] * f32[m, n/128] {
  D = silu(sum[k](A * G)) * sum[k](A * U)
}`)
const ROWS_GATED =
  dense(`kernel gated(A: ${FP8}, G: e4m3[n, k] * f32[n, k/128], U: e4m3[n, k] * f32[n, k/128]) -> D: bf16[m, n] {
  D = silu(sum[k](A * G)) * sum[k](A * U)
}`)
const FUSED =
  dense(`kernel fused(A: ${FP8}, B: e4m3[n, k] * f32[n, k/128], C: bf16[m, n], bias: f32[n], w: f32[m]) -> D: e4m3[m, n] * f32[m, n/128] {
  D = (sum[k](A * B) + bias + C) * w
}`)
/** Blocks of two widths, and of rows of a column. */
const SEVERAL = dense(`kernel several(A: bf16[m, k], B: bf16[n, k], C: f32[m, n], bias: f32[n]) -> (D: i8[m, n] * f32[m, n/128], E: e4m3[m, n] * ue8m0[m, n/16], F: e4m3[m, n] * ue8m0[m/16, n]) {
  x = relu(sum[k](A * B) + bias) * C
  D = x + bias
  E = x
  F = x
}`) // prettier-ignore
const BIASED =
  dense(`kernel biased(A: bf16[m, k], B: bf16[n, k], C: bf16[m, n], bias: f32[n]) -> D: i8[m, n] * f32[m, n/128] {
  D = sum[k](A * B) + bias + C
}`)
const off = [17, 17, 20, 150, 150, 214, 215]
const UP8: Text = {
  text: `kernel up8(X: e4m3[v, k] * f32[v, k/128], row: i32[t] ragged t by off as g, G: e4m3[g, n, k] * f32[g, n/128, k/128], U: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g]) -> D: e4m3[t, n] * f32[t, n/128] {
  D = silu(sum[k](X[row[t], k] * G)) * sum[k](X[row[t], k] * U)
}`,
  extents: { t: 224, g: off.length, n: 256, k: 264, v: 50 },
  integers: { off, row: Array.from({ length: 224 }, (_, i) => (i % 13 === 5 ? -1 : (i * 7) % 50)) },
}
/** Rows of the epilogue that are looked up, the router's weight, and a bias of the group. */
const DOWN8: Text = {
  ...UP8,
  text: `kernel down8(X: e4m3[t, k] * f32[t, k/128] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n/128, k/128], row: i32[t], bias: f32[g, n], w: f32[v], R: bf16[v, n], off: i32[g]) -> D: e4m3[t, n] * f32[t, n/128] {
  D = (sum[k](X * B) + bias) * w[row[t]] + R[row[t], n]
}`,
}

const CASES: readonly (readonly [string, GroupedCase])[] = [
  ['sm100, gated', { ...GATED, design: fp8([128, 128]) }],
  ['sm100, gated, handed out, pairs', { ...GATED, design: fp8([256, 128], { ...pair, scheduler: 'clc' }) }],
  ['sm100, gated, columns of their own scales', { ...ROWS_GATED, design: fp8([128, 96]) }],
  ['sm100, 224 columns', { ...FUSED, text: FUSED.text.replace('D: e4m3[m, n] * f32[m, n/128]', 'D: bf16[m, n]'), design: fp8([128, 224]) }],
  ['sm100, fused', { ...FUSED, design: fp8([128, 256]) }],
  ['sm100, looked-up rows, gated', { ...UP8, design: fp8([128, 128]) }],
  ['sm100, looked-up rows of the epilogue', { ...DOWN8, design: fp8([128, 128], { scheduler: 'clc' }) }],
  ['sm100, several outputs', { ...SEVERAL, design: sm100([128, 128]) }],
  ['sm100, 64 rows', { ...BIASED, design: sm100([64, 128]) }],
  ['sm90', { ...SEVERAL, design: sm90([128, 128]) }],
  ['sm80', { ...BIASED, design: sm80([128, 128]) }],
] // prettier-ignore

const COMBINED = ['sm100, gated', 'sm100, several outputs']

test.each(part(CASES, COMBINED))('%s', { timeout: 60_000 }, async (name, c) => {
  for (const result of await runGrouped(c, schedulesOf(name)))
    expect(result).toEqual({ findings: [], wrong: null, touched: 0 })
})

describe('ptxas spills nothing', () => {
  const compiled = ['sm100, gated', 'sm100, fused', 'sm100, looked-up rows, gated', 'sm90']
  const cases = CASES.filter(([name]) => compiled.includes(name))
  test.each(part(cases, ['sm100, fused', 'sm100, looked-up rows, gated']))('%s', { timeout: 60_000 }, (_, c) => {
    const program = lowerGrouped(c)
    const { output } = assemble(printProgram(program, 'ktl.wide').cuda, program.target)
    expect(output).not.toMatch(/error|warning/)
    expect(output).toContain('0 bytes spill stores, 0 bytes spill loads')
  }) // prettier-ignore
})
