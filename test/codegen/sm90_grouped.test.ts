/** Groups of rows on SM90: every design knob that tiles of groups meet, on the virtual device against the reference evaluator. */
import { expect, test } from 'vitest'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import { verifyTileProgram } from '../../compiler/verify/index.ts'
import { inTurn, part, schedulesOf } from '../cases_of.ts'
import { lowerGrouped, runGrouped, type GroupedCase } from './run_grouped.ts'

const GROUPED = `kernel grouped(A: bf16[t, k] | bf16[k, t] ragged t by off as g, B: bf16[g, k, n] | bf16[g, n, k], off: i32[g]) -> D: bf16[t, n] {
  D = sum[k](A * B)
}`

const sm90 = (tile: readonly [number, number], rest: Partial<Sm90Design> = {}): Sm90Design => ({
  kind: 'sm90', consumers: 'cooperative', tile: [...tile, 64], cluster: [1, 1, 1], parts: 1, operands: 'ab', stages: 'auto', ...rest,
}) // prettier-ignore

/** Ends of groups of such lengths. */
const ends = (lengths: readonly number[]): number[] => {
  let end = 0
  return lengths.map((length) => (end += length))
}

const LENGTHS = {
  several: [17, 0, 3, 130, 0, 64, 1],
  one: [150],
  none: [0, 0, 0],
  many: Array.from({ length: 75 }, (_, i) => (i % 7 === 0 ? i % 9 : i % 3 === 0 ? 1 : 0)),
} as const

const pingpong = { consumers: 'pingpong' } as const

const caseOf = (
  lengths: readonly number[],
  design: Sm90Design,
  rest: Partial<GroupedCase> = {},
  behind = 9,
): GroupedCase => {
  const off = ends(lengths)
  const rows = off.at(-1) ?? 0
  return {
    text: GROUPED,
    design,
    extents: { t: rows + behind, g: off.length, n: 144, k: 136, ...rest.extents },
    integers: { off, ...rest.integers },
    behind: ['t', rows],
    ...rest,
  }
}

const CASES: readonly (readonly [string, GroupedCase])[] = [
  ['cooperative, 128 rows', caseOf(LENGTHS.several, sm90([128, 128]))],
  ['cooperative, 64 rows, B along k', caseOf(LENGTHS.several, sm90([64, 64]), { binding: { orders: { B: ['g', 'n', 'k'] } } })],
  ['cooperative, tile after tile', caseOf(LENGTHS.several, sm90([128, 64]), { smCount: 1 })],
  ['256 rows', caseOf([300, 5], sm90([256, 64]))],
  ['ping-pong', caseOf(LENGTHS.several, sm90([64, 64], pingpong), { smCount: 2 })],
  ['ping-pong, 128 rows', caseOf(LENGTHS.several, sm90([128, 64], pingpong), { smCount: 1 })],
  ['clusters along rows', caseOf(LENGTHS.several, sm90([64, 64], { cluster: [2, 1, 1] }))],
  ['clusters along columns', caseOf(LENGTHS.several, sm90([128, 64], { cluster: [1, 2, 1] }), { smCount: 2 })],
  ['one group', caseOf(LENGTHS.one, sm90([128, 128]))],
  ['no rows', caseOf(LENGTHS.none, sm90([128, 128]))],
  ['no groups', caseOf([], sm90([128, 128]))],
  ['more groups than lanes', caseOf(LENGTHS.many, sm90([64, 128]))],
  ['more groups than lanes, ping-pong', caseOf(LENGTHS.many, sm90([64, 128], pingpong), { smCount: 3 })],
  ['more groups than lanes, clusters', caseOf(LENGTHS.many, sm90([64, 128], { cluster: [2, 1, 1] }), { smCount: 2 })],
  ['A along rows', caseOf(LENGTHS.several, sm90([128, 64]), { binding: { orders: { A: ['k', 't'] } } })],
  ['rows without 16 bytes', caseOf(LENGTHS.several, sm90([128, 64]), { binding: { divisibility: { A: 'element', D: 'element' } }, extents: { t: 224, g: 7, n: 141, k: 133 } })],
  ['parts of k', caseOf(LENGTHS.several, sm90([64, 64], { parts: 3 }), { extents: { t: 224, g: 7, n: 144, k: 328 } })],
  ['parts of k, ping-pong, more of them than k tiles', caseOf(LENGTHS.several, sm90([64, 128], { ...pingpong, parts: 5 }), { smCount: 3 })],
  ['parts of k, clusters, exchanged', caseOf(LENGTHS.several, sm90([64, 32], { cluster: [2, 1, 1], operands: 'ba', parts: 2 }), { smCount: 2, binding: { orders: { B: ['g', 'n', 'k'] } } })],
  ['k = 0', caseOf(LENGTHS.several, sm90([128, 64]), { extents: { t: 224, g: 7, n: 144, k: 0 } })],
] // prettier-ignore

const kernel = (inputs: string, out: string, body: string): string =>
  `kernel grouped(A: bf16[t, k] ragged t by off as g, B: bf16[g, n, k], off: i32[g]${inputs}) -> ${out} {\n  ${body}\n}`

const FUSED: readonly (readonly [string, string, Partial<GroupedCase>?])[] = [
  ['a bias of the group', kernel(', bias: f32[g, n]', 'D: bf16[t, n]', 'D = relu(sum[k](A * B) + bias)')],
  ['a weight of the row', kernel(', w: f32[t]', 'D: f32[t, n]', 'D = sum[k](A * B) * w')],
  ['a full operand, and a scalar', kernel(', C: bf16[t, n], s: f32', 'D: bf16[t, n]', 'D = sum[k](A * B) * s + C'), { scalars: { s: 2 } }],
  ['a factor of the group', kernel(', s: f32[g]', 'D: f32[t, n]', 'D = sum[k](A * B) * s')],
  ['two weights', kernel(', B2: bf16[g, n, k]', 'D: bf16[t, n]', 'D = silu(sum[k](A * B)) * sum[k](A * B2)')],
  ['two outputs', kernel('', '(D: bf16[t, n], E: f32[t, n])', 'acc: f32 = sum[k](A * B)\n  D = acc\n  E = acc * 2')],
  ['outputs in blocks', kernel('', 'D: e4m3[t, n] * f32[t, n/128]', 'D = sum[k](A * B)')],
  ['one B for all', 'kernel one(A: bf16[t, k] ragged t by off as g, B: bf16[n, k], bias: f32[g, n], off: i32[g]) -> D: bf16[t, n] {\n  D = sum[k](A * B) + bias\n}'],
  ['rows that are looked up', 'kernel gathered(X: bf16[v, k], row: i32[t] ragged t by off as g, B: bf16[g, n, k], off: i32[g]) -> D: bf16[t, n] {\n  D = sum[k](X[row, k] * B)\n}', { extents: { v: 50 } }],
  ['a weight that is looked up', kernel(', to: i32[t], w: f32[a]', 'D: bf16[t, n]', 'D = sum[k](A * B) * w[to[t]]')],
  ['rows that are looked up, in the epilogue', kernel(', to: i32[t], R: bf16[a, n]', 'D: bf16[t, n]', 'D = sum[k](A * B) + R[to[t], n]')],
  ['the half of a bias', kernel(', bias: f32[g, j]', 'D: bf16[t, n]', 'D = sum[k](A * B) + bias[g, 2 * n + 1]')],
  ['stores at rows that are looked up', kernel(', to: i32[t], w: f32[a]', 'D: bf16[a, n]', 'D[to[t], n] = sum[k](A * B) * w[to[t]]')],
  ['fp8 with scales of rows and columns', 'kernel rowwise(A: e4m3[t, k] * f32[t] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n], off: i32[g]) -> D: bf16[t, n] {\n  D = sum[k](A * B)\n}'],
  ['fp8 with scales in blocks', 'kernel blocks(A: e4m3[t, k] * f32[t, k/128] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g]) -> D: bf16[t, n] {\n  D = sum[k](A * B)\n}'],
  ['looked-up rows of i8 beside matrices that are transposed', 'kernel integers(X: i8[v, k], row: i32[t] ragged t by off as g, B: i8[g, k, n], off: i32[g]) -> D: f32[t, n] {\n  D = f32(sum[k](X[row[t], k] * B))\n}', { extents: { v: 50 } }],
  ['looked-up rows of fp8 with scales', 'kernel rowwise(X: e4m3[v, k] * f32[v], row: i32[t] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n], off: i32[g]) -> D: bf16[t, n] {\n  D = sum[k](X[row[t], k] * B)\n}', { extents: { v: 50 } }],
  ['looked-up rows of fp8 with scales in blocks', 'kernel blocks(X: e4m3[v, k] * f32[v, k/128], row: i32[t] ragged t by off as g, B: e4m3[g, n, k] * f32[g, n/128, k/128], off: i32[g], two: i32) -> D: bf16[t, n] {\n  D = sum[k](X[row[t] / two, k] * B)\n}', { extents: { v: 50 }, scalars: { two: 2 } }],
] // prettier-ignore

const DESIGNS: readonly Sm90Design[] = [sm90([128, 128]), sm90([64, 128], pingpong)]

/** Distinct places out of 300, and some that are none. */
const scattered = (count: number): number[] =>
  Array.from({ length: count }, (_, i) => (i % 11 === 3 ? -1 : (i * 7) % 300))

const LATE = { order: 'lazy' } as const

const COMBINED = [
  'cooperative, 128 rows',
  'ping-pong, 128 rows',
  'more groups than lanes',
  'more groups than lanes, clusters',
  'parts of k',
]

test.each(part(CASES, COMBINED))('%s', { timeout: 60_000 }, async (name, c) => {
  for (const result of await runGrouped(c, schedulesOf(name)))
    expect(result).toEqual({ findings: [], wrong: null, touched: 0 })
})

/** Operands that other kernels have beside others, here or in grouped.test.ts. */
const ALIKE = [
  'a weight of the row',
  'a factor of the group',
  'two outputs',
  'rows that are looked up',
  'rows that are looked up, in the epilogue',
  'fp8 with scales of rows and columns',
  'fp8 with scales in blocks',
]
const KEPT = FUSED.map(([name]) => name).filter((name) => !ALIKE.includes(name))

test.each(
  part(
    FUSED.map(([name, text, rest]) => [name, { text, rest }] as const),
    ALIKE,
    KEPT,
  ),
)('%s', { timeout: 60_000 }, async (name, { text, rest }) => {
  const inBlocks = text.includes('k/128')
  for (const design of inBlocks ? DESIGNS.slice(0, 1) : inTurn(name, DESIGNS)) {
    const c = caseOf(LENGTHS.several, design)
    const rows = Array.from({ length: c.extents['t']! }, (_, i) => (i * 7) % 50)
    const tile = [design.tile[0], design.tile[1], /: (e4m3|i8)\[[tv], k\]/.test(text) ? 128 : 64] as const
    const results = await runGrouped(
      {
        ...c,
        ...rest,
        text,
        design: { ...design, tile },
        extents: { ...c.extents, a: 300, j: 300, ...rest?.extents },
        integers: { ...c.integers, row: rows, to: scattered(c.extents['t']!) },
      },
      schedulesOf(name),
    )
    for (const result of results) expect(result).toEqual({ findings: [], wrong: null, touched: 0 })
  }
})

test('padded groups', { timeout: 60_000 }, async () => {
  const text = `kernel padded(A: bf16[g, m, k] ragged m upto len as g, B: bf16[g, n, k], len: i32[g]) -> D: bf16[g, m, n] {
  D = sum[k](A * B)
}`
  for (const design of [sm90([64, 64]), sm90([64, 64], pingpong), sm90([64, 64], { cluster: [2, 1, 1] })]) {
    const c: GroupedCase = {
      text,
      design,
      extents: { g: 5, m: 150, n: 80, k: 72 },
      integers: { len: [3, 150, 0, 64, 129] },
    }
    for (const result of await runGrouped(c, schedulesOf('padded groups')))
      expect(result).toEqual({ findings: [], wrong: null, touched: 0 })
  }
})

test('offsets that decrease or leave the axis are findings, and nothing is read or written outside', { timeout: 60_000 }, async () => {
  for (const off of [
    [9, 4, 12],
    [300, 0, 300, 0, 300, 0, 300],
    [5, 3_000_000],
    [-7, 6],
    [12, -2_000_000_000],
    [2_000_000_000, 1],
  ]) {
    const extents = { t: off[0] === 300 ? 300 : 60, g: off.length, n: 144, k: 136 }
    // Parts of k have room for as many tiles as legal ends make.
    const design = sm90([64, 64], { parts: off.length })
    const c: GroupedCase = { ...caseOf([60], design), extents, integers: { off }, unspecified: true, behind: ['t', extents.t] }
    for (const result of await runGrouped(c, [LATE, { order: 'eager' }]))
      expect(result).toEqual({ findings: ['KTL5025'], wrong: null, touched: 0 })
  }
}) // prettier-ignore

test('a box that is not cut, and a walk that forgets a group, are noticed', { timeout: 60_000 }, async () => {
  const c = caseOf(LENGTHS.several, sm90([128, 64]))
  for (const edit of [
    (cuda: string) => cuda.replace('return row < end ? min(end - row, rows) : 0;', 'return rows;'),
    (cuda: string) => cuda.replace('walk.until > unit', 'walk.until >= unit'),
    (cuda: string) => cuda.replace('(mine == 0 ? walk.before : lower)', 'lower'),
  ]) {
    const [result] = await runGrouped({ ...c, editText: edit }, [LATE])
    expect(result).not.toEqual({ findings: [], wrong: null, touched: 0 })
  }
})

test('a store at a place that is none, and two at one, are noticed', { timeout: 60_000 }, async () => {
  const text = FUSED.find(([name]) => name === 'stores at rows that are looked up')![1]
  const base = caseOf(LENGTHS.several, sm90([128, 128]))
  const to = scattered(base.extents['t']!)
  const c: GroupedCase = { ...base, text, extents: { ...base.extents, a: 300 }, integers: { ...base.integers, to } }
  const found = async (more: Partial<GroupedCase>): Promise<unknown> => (await runGrouped({ ...c, ...more }, [LATE]))[0]
  const clean = { findings: [], wrong: null, touched: 0 }
  expect(await found({})).toEqual(clean)
  expect(await found({ editText: (cuda) => cuda.replace(/ && ktl_inside\(v_D_at[^,]*, \w+\)/, '') })).not.toEqual(clean)
  const twice = to.map((place, i) => (i === 5 ? to[6]! : place))
  expect(await found({ integers: { ...c.integers, to: twice }, unspecified: true })).toMatchObject({ findings: ['KTL5026'] })
  const outside = to.map((place, i) => (i === 5 ? 300 : place))
  expect(await found({ integers: { ...c.integers, to: outside }, unspecified: true })).toMatchObject({ findings: ['KTL5025'], touched: 0 })
}) // prettier-ignore

test('the verifier sees stores that are not cut, and a walk that is not by whole warps', () => {
  const lowered = lowerGrouped(caseOf(LENGTHS.several, sm90([128, 64])))
  expect(verifyTileProgram(lowered)).toEqual([])
  const params = lowered.launch.params.map((rule) => {
    if (rule.kind !== 'tensorMap' || !rule.clipped) return rule
    const { clipped: _, box, ...rest } = rule
    return { ...rest, box: box.slice(0, rest.axes.length) }
  })
  const uncut = { ...lowered, launch: { ...lowered.launch, params } }
  expect(verifyTileProgram(uncut).join()).toContain('map_d')
  const { groups: _, ...dense } = lowered.domain
  expect(verifyTileProgram({ ...lowered, domain: dense })).not.toEqual([])
  const roles = lowered.roles.map((role) => ({
    ...role,
    body: role.body.map((op) => (op.op === 'first_warp' ? { ...op, op: 'one_thread' as const } : op)),
  }))
  expect(verifyTileProgram({ ...lowered, roles }).join()).toContain('whole warps')
})
