/**
 * Outputs whose rows begin anywhere: in words where rows are words of memory, else in pieces of 16 bytes; edges, several outputs, and operands of
 * the epilogue that pass through the same slot.
 */
import { describe, expect, test } from 'vitest'
import type { Sm100Design } from '../../compiler/targets/sm100/design.ts'
import type { Sm80Design } from '../../compiler/targets/sm80/design.ts'
import type { Sm90Design } from '../../compiler/targets/sm90/design.ts'
import { design } from '../compiler/support.ts'
import { part, schedulesOf } from '../cases_of.ts'
import { runGrouped, type GroupedCase } from './run_grouped.ts'

const kernel = (outputs: string, body: string, more = ''): string =>
  `kernel p(A: f16[m, k], B: f16[n, k]${more}) -> ${outputs} {\n  x = sum[k](A * B)\n  ${body}\n}`
const ONE = kernel('D: f16[m, n]', 'D = x')
const BYTES = kernel('D: e4m3[m, n]', 'D = x')
const FLOATS = kernel('D: f32[m, n]', 'D = x')
const THREE = kernel(
  '(D: f16[m, n], E: e4m3[m, n], F: f32[m, n])',
  'D = x + C\n  E = x\n  F = relu(x + C)',
  ', C: f16[m, n]',
)

const sm90 = (m: number, n: number, rest: Partial<Sm90Design> = {}): Sm90Design => ({
  kind: 'sm90', consumers: 'cooperative', tile: [m, n, 64], cluster: [1, 1, 1], operands: 'ab', parts: 1, stages: 'auto', ...rest,
}) // prettier-ignore
const sm100 = (m: number, n: number, rest: Partial<Sm100Design> = {}): Sm100Design => design([m, n], rest)
const pair: Partial<Sm100Design> = { use2ctaMma: true, cluster: [2, 1, 1] }

/** Stages of 32 bytes of k: warps have whole rows of the tile. */
const sm80 = (m: number, n: number, depth = 16): Sm80Design => ({
  kind: 'sm80', warps: 'auto', tile: [m, n, depth], operands: 'ab', stages: 'auto',
}) // prettier-ignore

const of = (text: string, shape: Sm80Design | Sm90Design | Sm100Design, n: number, m = 150): GroupedCase => ({
  text,
  design: shape,
  extents: { m, n, k: 72 },
  integers: {},
  binding: { divisibility: { C: 'element', D: 'element', E: 'element', F: 'element' } },
})

const WIDE = sm90(128, 256)
const CASES: readonly (readonly [string, GroupedCase])[] = [
  ['four sub-tiles, rows of odd length', of(ONE, WIDE, 517)],
  ['rows of words', of(ONE, WIDE, 518)],
  ['rows of 8 bytes', of(ONE, WIDE, 516)],
  ['rows of half a sector', of(ONE, WIDE, 520)],
  ['whole sectors', of(ONE, WIDE, 528)],
  ['a row ends with its sub-tile', of(ONE, WIDE, 321)],
  ['three elements of another tile', of(ONE, WIDE, 259)],
  ['fewer elements than a piece', of(ONE, sm90(64, 64), 5)],
  ['two blocks of rows', of(ONE, sm90(256, 128), 203, 300)],
  ['warpgroups that take turns', of(ONE, sm90(64, 192, { consumers: 'pingpong' }), 331)],
  ['bytes', of(BYTES, WIDE, 517)],
  ['floats', of(FLOATS, WIDE, 517)],
  ['three outputs and an operand', of(THREE, sm90(128, 128), 261)],
  ['rows behind each other, in words', of(ONE, sm80(64, 128), 98)],
  ['rows behind each other, of odd length', of(ONE, sm80(128, 128), 77, 151)],
  ['rows behind each other, shorter than a sub-tile', of(ONE, sm80(64, 64), 5, 163)],
  ['rows behind each other, bytes', of(BYTES, sm80(64, 128), 117, 155)],
  ['rows behind each other, pairs of bytes', of(BYTES, sm80(64, 128), 90)],
  ['rows behind each other, floats', of(FLOATS, sm80(128, 64), 63, 131)],
  ['rows behind each other beside wider ones', of(ONE, sm80(64, 32), 35)],
  ['rows behind each other beside other outputs', of(THREE, sm80(64, 64), 35)],
  ['sm100, rows of odd length', of(ONE, sm100(128, 128), 261)],
  ['sm100, rows of words', of(ONE, sm100(128, 128), 262)],
  ['sm100, rows of half a sector, halves of columns', of(ONE, sm100(128, 128, pair), 264)],
  ['sm100, rows of odd length, halves of columns', of(ONE, sm100(128, 128, pair), 261)],
  ['sm100, bytes', of(BYTES, sm100(128, 128), 261)],
  ['sm100, bytes of half of the lanes', of(BYTES, sm100(64, 128), 277)],
  ['sm100, floats', of(FLOATS, sm100(128, 64), 133)],
  ['sm100, three outputs and an operand', of(THREE, sm100(128, 64), 131)],
] // prettier-ignore

/** Rows that begin and end as those of other cases do. */
const COMBINED = ['rows of 8 bytes', 'whole sectors', 'three elements of another tile', 'floats', 'sm100, bytes']
const KEPT = CASES.map(([name]) => name).filter((name) => !COMBINED.includes(name))

describe('stores', () => {
  test.each(part(CASES, COMBINED, KEPT))('%s', { timeout: 60_000 }, async (name, c) => {
    for (const result of await runGrouped(c, schedulesOf(name)))
      expect(result).toEqual({ findings: [], wrong: null, touched: 0 })
  })
})
