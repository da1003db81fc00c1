/** Tiles that share columns: which programs have such tiles, and how much they share. */
import { describe, expect, test } from 'vitest'
import { planInstance } from '../../codegen/index.ts'
import type { Design } from '../../compiler/targets/index.ts'
import { bound, design } from '../compiler/support.ts'

const sm80 = (m: number, n: number, k: number): Design => ({
  kind: 'sm80', warps: 'auto', tile: [m, n, k], operands: 'ab', stages: 'auto', overlap: true,
}) // prettier-ignore
const sm90 = (m: number, n: number, splits = 1): Design => ({
  kind: 'sm90', consumers: 'cooperative', tile: [m, n, 64], cluster: [1, 1, splits], parts: 1, operands: 'ab', stages: 'auto', overlap: true,
}) // prettier-ignore
const sm100 = (m: number, n: number): Design => design([m, n], { overlap: true })
const pair = (m: number, n: number): Design => design([m, n], { use2ctaMma: true, cluster: [2, 1, 1], overlap: true })

const ARCH = { sm80: 'sm_80', sm90: 'sm_90a', sm100: 'sm_100a' } as const
const planOf = (text: string, shape: Design, orders = {}) =>
  planInstance({
    program: bound(`kernel g${text}`, { orders, divisibility: { D: 'element' } }),
    target: ARCH[shape.kind as keyof typeof ARCH],
    design: shape,
  })

const PLAIN = '(A: bf16[m, k], B: bf16[n, k]) -> D: bf16[m, n] { D = sum[k](A * B) }'
const bytes = (scale: string): string =>
  `(A: e4m3[m, k] * f32[m, k/128], B: e4m3[n, k] * f32[${scale}]) -> D: f32[m, n] { D = sum[k](A * B) }`

describe('columns that tiles share', () => {
  test.each<[string, Design, number]>([
    [PLAIN, sm80(64, 128, 16), 16],
    [PLAIN, sm90(128, 128), 16],
    [PLAIN, sm100(128, 128), 16],
    [PLAIN, pair(256, 128), 16],
    // TMA loads 16 bytes of a row of B.
    ['(A: e4m3[m, k], B: e4m3[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }', sm100(128, 128), 16],
    ['(A: e4m3[m, k], B: e4m3[n, k]) -> D: f32[m, n] { D = sum[k](A * B) }', sm100(128, 128), 8],
    [bytes('n, k/128'), sm90(128, 128), 8],
    [bytes('n/8, k/128'), sm90(128, 128), 8],
  ])('%s on %o', (text, shape, overlap) => expect(planOf(text, shape)).toMatchObject({ overlap }))
})

describe('is refused', () => {
  test.each<[string, string, Design, object?]>([
    ['whose rows are shared by warps', PLAIN, pair(128, 128)],
    ['whose rows are shared by warps', PLAIN, sm90(64, 128, 2)],
    ['whose rows are shared by warps', PLAIN, sm80(128, 128, 64)],
    ['with scales that columns of both share', bytes('n/128, k/128'), sm90(128, 128)],
    ['with operands of each element', PLAIN.replace('B: bf16[n, k]', 'B: bf16[n, k], C: bf16[m, n]').replace('(A * B)', '(A * B) + C'), sm100(128, 128)],
    ['of outputs whose rows are aligned', PLAIN, sm100(128, 128), { D: ['n', 'm'] }],
    ['of outputs that are summed', PLAIN.replace('D: bf16[m, n]', '(D: bf16[m, n], s: f32[m])').replace('}', '\n s = sum[n](D) }'), sm100(128, 128)],
    ['16 columns of them', PLAIN, sm100(128, 16)],
  ])('tiles %s: %s', (form, text, shape, orders) =>
    expect(planOf(text, shape, orders)).toMatchObject({ code: 'KTL2904', reason: expect.stringContaining(form) }),
  ) // prettier-ignore
})
