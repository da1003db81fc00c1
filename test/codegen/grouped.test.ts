/** Groups of rows on SM100 and SM80: as on SM90 (sm90_grouped.test.ts), with what these targets have of their own. */
import { expect, test } from 'vitest'
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import type { Sm100Design } from '../../compiler/targets/sm100/design.ts'
import { part, schedulesOf } from '../cases_of.ts'
import { design } from '../compiler/support.ts'
import { runGrouped, type GroupedCase } from './run_grouped.ts'

const GROUPED = `kernel grouped(A: bf16[t, k] | bf16[k, t] ragged t by off as g, B: bf16[g, k, n] | bf16[g, n, k], off: i32[g]) -> D: bf16[t, n] {
  D = sum[k](A * B)
}`
const BIAS = `kernel grouped(A: bf16[t, k] ragged t by off as g, B: bf16[g, n, k], bias: f32[g, n], w: f32[t], off: i32[g]) -> D: bf16[t, n] {
  D = gelu(sum[k](A * B) + bias) * w
}`
const SCATTERED = `kernel grouped(A: bf16[t, k] ragged t by off as g, B: bf16[g, n, k], bias: f32[g, j], to: i32[t], w: f32[a], off: i32[g]) -> D: bf16[a, n] {
  D[to[t], n] = (sum[k](A * B) + bias[g, 2 * n + 1]) * w[to[t]]
}`
const UP8 = `kernel up8(X: e4m3[v, k] * f32[v, k/128], row: i32[t] ragged t by off as g, G: e4m3[g, n, k] * f32[g, n/128, k/128], U: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g]) -> D: e4m3[t, n] * f32[t, n/128] {
  D = silu(sum[k](X[row[t], k] * G)) * sum[k](X[row[t], k] * U)
}`
const MXFP8 = `kernel mx(X: e4m3[v, k] * ue8m0[v, k/32], row: i32[t] ragged t by off as g, B: e4m3[g, n, k] * ue8m0[g, n, k/32], off: i32[g]) -> D: bf16[t, n] {
  D = sum[k](X[row[t], k] * B)
}`
const ROWWISE = `kernel rowwise(X: e4m3[v, k] * f32[v], row: i32[t] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n], off: i32[g]) -> D: bf16[t, n] {
  D = sum[k](X[row[t], k] * B)
}`
const PADDED = `kernel padded(A: bf16[g, m, k] ragged m upto len as g, B: bf16[g, n, k], len: i32[g]) -> D: bf16[g, m, n] {
  D = sum[k](A * B)
}`

const sm80 = (tile: readonly [number, number], rest: Partial<Sm80Design> = {}): Sm80Design => ({
  kind: 'sm80', warps: 'auto', tile: [...tile, 64], operands: 'ab', stages: 'auto', ...rest,
}) // prettier-ignore
const pair = (tile: readonly [number, number], rest: Partial<Sm100Design> = {}): Sm100Design => design(tile, { use2ctaMma: true, cluster: [2, 1, 1], ...rest }) // prettier-ignore

const off = [17, 17, 20, 150, 150, 214, 215]
const many = Array.from({ length: 75 }, (_, i) => Math.floor((i * i) / 60))
const rows = (ends: readonly number[], rest: Partial<GroupedCase>): Omit<GroupedCase, 'design'> => {
  const end = ends.at(-1)!
  const extents = { t: end + 9, g: ends.length, n: 144, k: 136 }
  return { text: GROUPED, extents, integers: { off: ends }, behind: ['t', end], ...rest }
}
/** Distinct places, and some that are none. */
const scattered = (rest: Partial<GroupedCase> = {}): Omit<GroupedCase, 'design'> => {
  const to = Array.from({ length: 224 }, (_, i) => (i % 11 === 3 ? -1 : (i * 7) % 300))
  return { ...rows(off, { text: SCATTERED, integers: { off, to }, ...rest }), extents: { t: 224, g: off.length, n: 144, k: 136, a: 300, j: 300 } }
} // prettier-ignore
/** Rows of 50 that are looked up, some of which are none. */
const lookedUp = (text: string): Omit<GroupedCase, 'design'> => {
  const row = Array.from({ length: 224 }, (_, i) => (i % 13 === 5 ? -1 : (i * 7) % 50))
  return { ...rows(off, { text, integers: { off, row } }), extents: { t: 224, g: off.length, n: 256, k: 264, v: 50 } }
}
const padded: Omit<GroupedCase, 'design'> = {
  text: PADDED,
  extents: { g: 5, m: 150, n: 80, k: 72 },
  integers: { len: [3, 150, 0, 64, 129] },
}

const DOWN8 = `kernel down8(X: e4m3[v, k] * f32[v, k/128], row: i32[t] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g]) -> D: bf16[t, n] {
  D = sum[k](X[row[t], k] * B)
}`
/** B as SM100's and SM80's rows are: along k. */
const exchanged = (rest: Partial<GroupedCase>): Omit<GroupedCase, 'design'> =>
  rows(off, { ...rest, ...(!rest.text && { binding: { orders: { B: ['g', 'n', 'k'] } } }) })

const GRADIENT = `kernel gradient(A: bf16[t, k] | bf16[k, t] ragged t by off as g, B: bf16[t, n] | bf16[n, t], off: i32[g]) -> D: f32[g, k, n] {
  D = sum[t](A * B)
}`
const ADDED = `kernel gradient(A: bf16[t, k] ragged t by off as g, B: bf16[t, n], C: f32[g, k, n], off: i32[g]) -> D: f32[g, k, n] {
  D = sum[t](A * B) + C
}`
/** What the last group has is NaN, which no other group's sum may see. */
const gradient = (rest: Partial<GroupedCase> = {}, extents = { k: 144, n: 80 }): Omit<GroupedCase, 'design'> => ({
  ...rows(off, { text: GRADIENT, behind: ['t', 214], ...rest }), extents: { t: 224, g: off.length, ...extents },
}) // prettier-ignore
const crosswise: Partial<GroupedCase> = { binding: { orders: { A: ['k', 't'], B: ['n', 't'] } } }
const sm90 = (tile: readonly [number, number], rest: Partial<Sm90Design> = {}): Sm90Design => ({
  kind: 'sm90', consumers: 'cooperative', tile: [...tile, 64], cluster: [1, 1, 1], parts: 1, operands: 'ab', stages: 'auto', ...rest,
}) // prettier-ignore
const pingpong = { consumers: 'pingpong' } as const
const paddedSums: Omit<GroupedCase, 'design'> = {
  text: `kernel sums(A: bf16[g, k, m] ragged k upto len as g, B: bf16[g, k, n], len: i32[g]) -> D: bf16[g, m, n] {
  D = sum[k](A * B)
}`,
  extents: { g: 5, m: 80, n: 80, k: 150 },
  integers: { len: [3, 150, 0, 64, 129] },
}

const CASES: readonly (readonly [string, GroupedCase])[] = [
  ['sm80', { ...rows(off, {}), design: sm80([128, 64]) }],
  ['sm80, many groups', { ...rows(many, {}), design: sm80([64, 64]) }],
  ['sm80, A along rows', { ...rows(off, { binding: { orders: { A: ['k', 't'], B: ['g', 'n', 'k'] } } }), design: sm80([64, 64]) }],
  ['sm80, fused', { ...rows(off, { text: BIAS }), design: sm80([128, 128]) }],
  ['sm80, scattered', { ...scattered(), design: sm80([128, 64]) }],
  ['sm80, padded', { ...padded, design: sm80([64, 64]) }],
  ['sm100', { ...rows(off, {}), design: design([128, 64]) }],
  ['sm100, 64 rows', { ...rows(off, {}), design: design([64, 128]), smCount: 1 }],
  ['sm100, many groups', { ...rows(many, {}), design: design([128, 64]), smCount: 2 }],
  ['sm100, pairs', { ...rows(off, {}), design: pair([256, 64]) }],
  ['sm100, pairs of 64 rows', { ...rows(off, { binding: { orders: { B: ['g', 'n', 'k'] } } }), design: pair([128, 64]), smCount: 2 }],
  ['sm100, clusters', { ...rows(off, {}), design: design([128, 64], { cluster: [2, 2, 1] }) }],
  ['sm100, A along rows', { ...rows(off, { binding: { orders: { A: ['k', 't'] } } }), design: design([128, 64]) }],
  ['sm100, fused', { ...rows(off, { text: BIAS }), design: pair([256, 128]) }],
  ['sm100, scattered', { ...scattered(), design: design([128, 64]) }],
  ['sm100, scattered, pairs of 64 rows', { ...scattered(), design: pair([128, 64]), smCount: 2 }],
  ['sm90, looked-up rows of fp8, into fp8', { ...lookedUp(UP8), design: sm90([128, 128], { tile: [128, 128, 128] }) }],
  ['sm90, looked-up rows of fp8, 64 rows', { ...lookedUp(UP8), design: sm90([64, 128], { tile: [64, 128, 128] }), smCount: 2 }],
  ['sm100, looked-up rows of fp8', { ...lookedUp(UP8.replace('D: e4m3[t, n] * f32[t, n/128]', 'D: bf16[t, n]')), design: design([128, 32], { tile: [128, 32, 128] }) }],
  ['sm100, looked-up rows of mxfp8', { ...lookedUp(MXFP8), design: design([128, 64], { tile: [128, 64, 128] }) }],
  ['sm100, looked-up rows of fp8, scales of rows', { ...lookedUp(ROWWISE), design: design([128, 64], { tile: [128, 64, 128] }) }],
  ...[64, 16].flatMap((rows): [string, GroupedCase][] => [
    [`sm90, exchanged, ${rows}`, { ...exchanged({}), design: sm90([128, rows], { operands: 'ba' }), smCount: 2 }],
    [`sm90, exchanged, fused, ${rows}`, { ...exchanged({ text: BIAS }), design: sm90([64, rows], { operands: 'ba' }) }],
    [`sm100, exchanged, ${rows}`, { ...exchanged({}), design: design([128, 2 * rows], { operands: 'ba' }), smCount: 2 }],
    [`sm80, exchanged, ${rows}`, { ...exchanged({}), design: sm80([64, rows], { operands: 'ba' }) }],
  ]),
  ['sm90, exchanged, many groups', { ...rows(many, {}), design: sm90([128, 32], { operands: 'ba' }), smCount: 2 }],
  ['sm90, exchanged, ping-pong', { ...rows(many, {}), design: sm90([64, 32], { operands: 'ba', ...pingpong }), smCount: 1 }],
  ['sm90, exchanged, clusters', { ...rows(off, {}), design: sm90([64, 32], { operands: 'ba', cluster: [2, 1, 1] }) }],
  ['sm90, exchanged, clusters along columns', { ...rows(many, {}), design: sm90([64, 32], { operands: 'ba', cluster: [1, 2, 1] }) }],
  ['sm90, exchanged, A along rows', { ...rows(off, { binding: { orders: { A: ['k', 't'] } } }), design: sm90([64, 32], { operands: 'ba' }) }],
  ['sm90, exchanged, scattered', { ...scattered(), design: sm90([64, 32], { operands: 'ba' }) }],
  ['sm90, exchanged, padded', { ...padded, design: sm90([64, 32], { operands: 'ba' }) }],
  ['sm90, exchanged, looked-up rows of fp8, scales of rows', { ...lookedUp(ROWWISE), design: sm90([64, 32], { operands: 'ba', tile: [64, 32, 128] }) }],
  ['sm90, exchanged, looked-up rows of fp8', { ...lookedUp(DOWN8), design: sm90([128, 32], { operands: 'ba', tile: [128, 32, 128] }) }],
  ['sm90, exchanged, fp8', { ...rows(off, { text: DOWN8.replaceAll('X[row[t], k]', 'X').replace('X: e4m3[v, k] * f32[v, k/128], row: i32[t] ragged', 'X: e4m3[t, k] * f32[t, k/128] ragged') }), design: sm90([128, 32], { operands: 'ba', tile: [128, 32, 128] }) }],
  ['sm100, exchanged, pairs, handed out', { ...rows(many, {}), design: pair([128, 32], { operands: 'ba', scheduler: 'clc' }) }],
  ['sm100, exchanged, clusters', { ...rows(many, { text: BIAS }), design: design([128, 32], { operands: 'ba', cluster: [2, 2, 1] }) }],
  ['sm100, exchanged, scattered', { ...scattered(), design: design([128, 32], { operands: 'ba' }) }],
  ['sm80, exchanged, fused, scattered', { ...scattered(), design: sm80([64, 32], { operands: 'ba' }) }],
  ['sm100, handed out', { ...rows(off, {}), design: design([128, 64], { scheduler: 'clc' }), smCount: 2 }],
  ['sm100, many groups, handed out', { ...rows(many, {}), design: design([128, 64], { scheduler: 'clc' }), smCount: 2 }],
  ['sm100, pairs, handed out', { ...rows(off, { text: BIAS }), design: pair([256, 128], { scheduler: 'clc' }) }],
  ['sm100, clusters, handed out', { ...rows(many, {}), design: design([128, 64], { cluster: [2, 2, 1], scheduler: 'clc' }) }],
  ['sm100, looked-up rows, handed out', { ...lookedUp(MXFP8), design: design([128, 64], { tile: [128, 64, 128], scheduler: 'clc' }) }],
  ['sm100, padded', { ...padded, design: design([128, 32]) }],
  ['gradient, sm90', { ...gradient(), design: sm90([128, 64]) }],
  ['gradient, sm90, added', { ...gradient({ text: ADDED }), design: sm90([64, 64]) }],
  ['gradient, sm90, ping-pong', { ...gradient(), design: sm90([64, 64], pingpong), smCount: 1 }],
  ['gradient, sm90, ping-pong, wide', { ...gradient(), design: sm90([128, 128], pingpong), smCount: 2 }],
  ['gradient, sm90, clusters', { ...gradient(), design: sm90([128, 64], { cluster: [2, 1, 1] }) }],
  ['gradient, sm90, clusters along columns', { ...gradient(), design: sm90([64, 64], { cluster: [1, 2, 1] }), smCount: 2 }],
  ['gradient, sm90, along rows', { ...gradient(crosswise), design: sm90([128, 64]) }],
  ['gradient, sm90, A along rows', { ...gradient({ binding: { orders: { A: ['k', 't'] } } }), design: sm90([64, 64]) }],
  ['gradient, sm90, unaligned', { ...gradient({ binding: { divisibility: { A: 'element', B: 'element', D: 'element' } } }, { k: 77, n: 133 }), design: sm90([64, 64]) }],
  ['gradient, sm90, exchanged', { ...gradient(), design: sm90([64, 32], { operands: 'ba' }) }],
  ['gradient, sm90, padded', { ...paddedSums, design: sm90([64, 64]) }],
  ['gradient, sm80', { ...gradient(), design: sm80([64, 64]) }],
  ['gradient, sm80, along rows', { ...gradient(crosswise), design: sm80([64, 64]) }],
  ['gradient, sm100', { ...gradient(), design: design([128, 64]) }],
  ['gradient, sm100, handed out', { ...gradient(), design: design([128, 64], { scheduler: 'clc' }) }],
  ['gradient, sm100, pairs', { ...gradient(), design: pair([256, 64]) }],
  ['gradient, sm100, along rows', { ...gradient(crosswise), design: design([64, 64]) }],
] // prettier-ignore

const COMBINED = [
  'sm80, many groups',
  'sm80, padded',
  'sm100, 64 rows',
  'sm100, many groups',
  'sm100, pairs',
  'sm100, scattered',
  'sm100, clusters, handed out',
  'sm90, looked-up rows of fp8, 64 rows',
  'sm100, looked-up rows of mxfp8',
  'sm90, exchanged, 16',
  'sm90, exchanged, fused, 64',
  'sm100, exchanged, 64',
  'sm80, exchanged, 16',
  'sm90, exchanged, many groups',
  'sm90, exchanged, clusters along columns',
  'sm90, exchanged, A along rows',
  'sm90, exchanged, padded',
  'sm90, exchanged, looked-up rows of fp8',
  'sm100, exchanged, clusters',
  'sm100, exchanged, scattered',
  'sm100, many groups, handed out',
  'gradient, sm90, ping-pong',
  'gradient, sm90, clusters',
  'gradient, sm90, A along rows',
  'gradient, sm80',
  'gradient, sm100, along rows',
]

test.each(part(CASES, COMBINED))('%s', { timeout: 60_000 }, async (name, c) => {
  for (const result of await runGrouped(c, schedulesOf(name)))
    expect(result).toEqual({ findings: [], wrong: null, touched: 0 })
})
