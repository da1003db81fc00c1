/** Blocks along the axis of groups: they count from the first row of each group, in operands, in what is summed over, and in outputs. */
import { expect, test } from 'vitest'
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import type { Sm100Design } from '../../compiler/targets/sm100/design.ts'
import { design } from '../compiler/support.ts'
import { part, schedulesOf } from '../cases_of.ts'
import { runGrouped, type GroupedCase } from './run_grouped.ts'

type Tile = readonly [number, number]
const sm100 = (tile: Tile, depth: number, rest: Partial<Sm100Design> = {}): Sm100Design =>
  design(tile, { ...rest, tile: [...tile, depth] })
const sm90 = (tile: Tile, depth: number, rest: Partial<Sm90Design> = {}): Sm90Design => ({
  kind: 'sm90', consumers: 'cooperative', tile: [...tile, depth], cluster: [1, 1, 1], parts: 1, operands: 'ab', stages: 'auto', ...rest,
}) // prettier-ignore
const sm80 = (tile: Tile, rest: Partial<Sm80Design> = {}): Sm80Design => ({
  kind: 'sm80', warps: 'auto', tile: [...tile, 64], operands: 'ab', stages: 'auto', ...rest,
}) // prettier-ignore
const pair = { use2ctaMma: true, cluster: [2, 1, 1] } as const

type Text = Omit<GroupedCase, 'design'>
const off = [17, 17, 20, 150, 150, 340, 341]
const groups = (text: string, extents: GroupedCase['extents'] = {}): Text => ({
  text, extents: { t: 350, g: off.length, n: 144, k: 272, ...extents }, integers: { off },
}) // prettier-ignore

/** Rows of a group share scales, with their k or without. */
const ROWS = (of: string): Text =>
  groups(`kernel rows(A: e4m3[t, k] * f32[t/${of}, k/128] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g]) -> D: bf16[t, n] {
  D = sum[k](A * B)
}`)
const FREE =
  groups(`kernel free(A: bf16[t, k] * f32[t/32] ragged t by off as g, B: bf16[g, n, k], w: f32[t], off: i32[g]) -> D: bf16[t, n] {
  D = sum[k](A * B) * w
}`)
/** What is summed over has blocks. */
const GRADIENT = (type: string, of: number): Text =>
  groups(`kernel gradient(A: ${type}[t, m] * f32[t/${of}, m] ragged t by off as g, B: ${type}[t, n] * f32[t/${of}, n], off: i32[g]) -> D: f32[g, m, n] {
  D = sum[t](A * B)
}`, { m: 144, n: 80 }) // prettier-ignore
const MX = groups(`kernel gradient(A: e4m3[t, m] * ue8m0[t/32, m] ragged t by off as g, B: e5m2[t, n] * ue8m0[t/32, n], off: i32[g]) -> D: f32[g, m, n] {
  D = sum[t](A * B)
}`, { m: 144, n: 80 }) // prettier-ignore
const DECODED = groups(`kernel decoded(A: bf16[t, m] ragged t by off as g, B: (i4[t, n] - i4[t/64, n]) * bf16[t/32, n], off: i32[g]) -> D: f32[g, m, n] {
  D = sum[t](A * B)
}`, { m: 144, n: 80 }) // prettier-ignore
/** Columns of an output that share a scale are rows of a group. */
const INTO = (of: number): Text =>
  groups(`kernel into(A: bf16[t, k] ragged t by off as g, B: bf16[g, n, k], off: i32[g]) -> D: e4m3[t, n] * f32[t/${of}, n] {
  D = sum[k](A * B)
}`, { k: 72 }) // prettier-ignore

const CASES: readonly (readonly [string, GroupedCase])[] = [
  ['sm100, rows of 48, pairs', { ...ROWS('48'), design: sm100([256, 64], 128, { ...pair, scheduler: 'clc' }) }],
  ['sm100, rows of 128, exchanged', { ...ROWS('128'), design: sm100([128, 32], 128, { operands: 'ba' }) }],
  ['sm100, scales free of k', { ...FREE, design: sm100([128, 64], 64) }],
  ['sm100, sums of blocks of 128', { ...GRADIENT('e4m3', 128), design: sm100([128, 64], 128) }],
  ['sm100, sums of blocks of 32', { ...GRADIENT('bf16', 32), design: sm100([64, 96], 64) }],
  ['sm100, mxfp8', { ...MX, design: sm100([128, 64], 128, { scheduler: 'clc' }) }],
  ['sm100, into 128x1', { ...INTO(128), design: sm100([128, 64], 64) }],
  ['sm100, into 32x1, exchanged', { ...INTO(32), design: sm100([128, 32], 64, { operands: 'ba' }) }],
  ['sm90, rows of 128', { ...ROWS('128'), design: sm90([128, 64], 128) }],
  ['sm90, sums of blocks of 128', { ...GRADIENT('e4m3', 128), design: sm90([128, 64], 128) }],
  ['sm90, sums of blocks of 128, bf16', { ...GRADIENT('bf16', 128), design: sm90([128, 64], 64, { cluster: [2, 1, 1] }) }],
  ['sm90, decoded', { ...DECODED, design: sm90([128, 64], 64) }],
  ['sm90, into 32x1', { ...INTO(32), design: sm90([128, 64], 64) }],
  ['sm80, into 16x1', { ...INTO(16), design: sm80([64, 64]) }],
] // prettier-ignore

/** Blocks that another target or another case has, too. */
const COMBINED = [
  'sm100, rows of 128, exchanged',
  'sm100, sums of blocks of 128',
  'sm100, into 32x1, exchanged',
  'sm90, sums of blocks of 128, bf16',
]
const KEPT = CASES.map(([name]) => name).filter((name) => !COMBINED.includes(name))

test.each(part(CASES, COMBINED, KEPT))('%s', { timeout: 60_000 }, async (name, c) => {
  for (const result of await runGrouped(c, schedulesOf(name)))
    expect(result).toEqual({ findings: [], wrong: null, touched: 0 })
})
