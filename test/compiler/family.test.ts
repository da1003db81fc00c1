import { ALL_PAIRS } from './support.ts'
import { expect, test } from 'vitest'
import { bindKernel } from '../../compiler/bind.ts'
import { classify } from '../../compiler/classes/contraction.ts'
import { matmulOf } from '../../compiler/classes/matmul.ts'
import { choices, countChoices, orderChoices } from '../../compiler/family.ts'
import { designsOf } from '../../compiler/designs.ts'
import { checked, family, GEMM, program } from './helpers.ts'

test('choices come in the order of the alternatives and are as many as counted', () => {
  const gemm = family(GEMM)
  const all = [...choices(gemm)]
  expect(countChoices(gemm)).toBe(48)
  expect(all.length).toBe(48)
  expect(all[0]).toEqual({
    types: { T: 'f16', O: 'f16' },
    orders: { A: ['l', 'm', 'k'], B: ['l', 'k', 'n'], D: ['l', 'm', 'n'] },
  })
  expect(all[1]!.orders.D).toEqual(['l', 'n', 'm'])
  expect(all.at(-1)!.types).toEqual({ T: 'bf16', O: 'f32' })
  expect([...orderChoices(gemm, gemm.typeChoices[0]!)].length).toBe(8)
})

test('a choice that breaks a rule is no instance', () => {
  const { kernels } = checked(
    'kernel f<T: f16 | bf16, S: f32 | f16>(A: T[m, k], B: T[k, n]) -> D: f32[m, n] { acc: S = sum[k](A * B); D = acc }',
  )
  expect(kernels[0]!.typeChoices).toEqual([{ T: 'f16', S: 'f32' }, { T: 'f16', S: 'f16' }, { T: 'bf16', S: 'f32' }]) // prettier-ignore
})

test('designs: defaults, and consistent combinations of a schedule', () => {
  const plain = family(GEMM)
  const defaults = [...designsOf(plain.schedules, 'sm100', 'sm_100a', 2)]
  expect(defaults.length).toBe(16)
  expect(defaults[0]).toEqual({
    kind: 'sm100', use2ctaMma: false, tile: [64, 32, 64], cluster: [1, 1, 1], fallbackCluster: null, scheduler: 'static', parts: 1, operands: 'ab', stages: 'auto',
  }) // prettier-ignore
  expect([...designsOf(plain.schedules, 'simt', 'sm_100a', 2)]).toEqual([{ kind: 'simt', tile: [16, 16] }])
  const { schedules } = family(
    GEMM +
      'schedule gemm on sm_100 { mma 1cta | 2cta; tile 64x64 | 128x64 | 256x128; cluster 1x1 | 2x1; scheduler static | clc }\nschedule gemm on simt { tile 32x32 | 16x16 }\n',
  )
  // 1cta: 2 tiles x 2 clusters; 2cta: 2 tiles x the even cluster; each with 2 schedulers.
  const designs = [...designsOf(schedules, 'sm100', 'sm_100a', 2)]
  expect(designs.length).toBe((2 * 2 + 2) * 2)
  expect(designs.every((d) => d.kind === 'sm100' && (d.tile[0] !== 256 || d.use2ctaMma))).toBe(true)
  expect([...designsOf(schedules, 'simt', 'sm_100a', 4)].map((d) => d.tile)).toEqual([[32, 32], [16, 16]]) // prettier-ignore
})

test('a schedule of several kernels is one of each', () => {
  const twice = GEMM + GEMM.replace('kernel gemm', 'kernel other')
  const designs = (text: string): unknown =>
    checked(twice + text).kernels.map(({ schedules }) => [...designsOf(schedules, 'simt', 'sm_100a', 2)])
  const [own, shared] = ['tile 32x32 | 16x16', 'tile 8x8']
  expect(designs(`schedule gemm on simt { ${own} }\nschedule other, gemm on simt { ${shared} }\n`)).toEqual([
    [32, 16, 8].map((edge) => ({ kind: 'simt', tile: [edge, edge] })),
    [{ kind: 'simt', tile: [8, 8] }],
  ])
})

test('designs of several schedules join, each once', () => {
  const { schedules } = family(
    GEMM +
      'schedule gemm on sm_100 { tile 128x64 | 128x128 }\nschedule gemm on sm_100 { tile 128x64; operands ab | ba }\nschedule gemm on simt { tile 8x8 }\nschedule gemm on simt { tile 8x8 | 4x4 }\n',
  )
  const designs = [...designsOf(schedules, 'sm100', 'sm_100a', 2)]
  expect(designs.map((d) => [d.tile[1], d.kind === 'sm100' && d.operands])).toEqual([
    [64, 'ab'], [128, 'ab'], [64, 'ba'],
  ]) // prettier-ignore
  expect([...designsOf(schedules, 'simt', 'sm_90a', 2)].map((d) => d.tile)).toEqual([[8, 8], [4, 4]]) // prettier-ignore
})

test('k is split by cooperative warpgroups alone, in clusters of at most 8', () => {
  const { schedules } = family(
    GEMM + 'schedule gemm on sm_90 { tile 128x64; cluster 1x1 | 2x1 | 2x4; splits 1 | 2; reassociate }',
  )
  const designs = [...designsOf(schedules, 'sm90', 'sm_90a', 2)]
  expect(designs.map((d) => d.kind === 'sm90' && `${d.consumers} ${d.cluster.join('x')}`)).toEqual([
    'cooperative 1x1x1', 'cooperative 1x1x2', 'cooperative 2x1x1', 'cooperative 2x1x2', 'cooperative 2x4x1',
    'pingpong 1x1x1', 'pingpong 2x1x1', 'pingpong 2x4x1',
  ]) // prettier-ignore
})

test('a fallback cluster divides a larger cluster evenly', () => {
  const { schedules } = family(
    GEMM +
      'schedule gemm on sm_100 { mma 2cta; tile 256x128; cluster 2x1 | 4x1 | 4x2; fallback none | 2x1 | 1x2 | 2x2 }',
  )
  const designs = [...designsOf(schedules, 'sm100', 'sm_100a', 2)]
  expect(designs.map((d) => d.kind === 'sm100' && [d.cluster.slice(0, 2).join('x'), d.fallbackCluster?.slice(0, 2).join('x')])).toEqual([
    ['2x1', undefined], ['4x1', undefined], ['4x1', '2x1'], ['4x2', undefined], ['4x2', '2x1'], ['4x2', '2x2'],
  ]) // prettier-ignore
})

test('without `mma`, the rows of the tile choose it', () => {
  const { schedules } = family(GEMM + 'schedule gemm on sm_100 { tile 256x128 | 128x128 }')
  const designs = [...designsOf(schedules, 'sm100', 'sm_103a', 1)]
  expect(designs.map((d) => [d.tile, d.kind === 'sm100' && d.cluster])).toEqual([
    [[256, 128, 128], [2, 1, 1]], [[128, 128, 128], [1, 1, 1]],
  ]) // prettier-ignore
})

test('the parts of a matrix product are named by what the output says', () => {
  const read = (text: string): unknown => {
    const graph = classify(program(text), ALL_PAIRS)
    return graph.kind === 'tiles' ? matmulOf(graph, 'ab') : graph
  }
  expect(read(GEMM)).toMatchObject({ l: 'l', m: 'm', n: 'n', segments: [{ k: 'k', a: 'A', b: ['B'] }] })
  const swapped = 'kernel f(X: f16[p, q], Y: f16[q, r]) -> D: f32[r, p] { D = sum[q](X * Y) }'
  expect(read(swapped)).toMatchObject({ l: null, m: 'r', n: 'p', segments: [{ k: 'q', a: 'Y', b: ['X'] }] })
  expect(classify(program('kernel f(X: f32[i]) -> Y: f32[i] { Y = X * 2 }'), ALL_PAIRS).kind).toBe('elementwise')
  expect(classify(program('kernel f(X: f32[i, j]) -> Y: f32[i] { Y = sum[j](X) }'), ALL_PAIRS).kind).toBe('general')
  const swiglu =
    'kernel f(A: bf16[m, k], B: bf16[k, f], C: bf16[k, f]) -> H: bf16[m, f] { H = sum[k](A * B) * sum[k](A * C) }'
  expect(read(swiglu)).toMatchObject({ n: 'f', segments: [{ a: 'A', b: ['B', 'C'] }], accumulators: ['f32', 'f32'] })
})

test('binding sets dtypes, orders and divisibility', () => {
  const bound = bindKernel(family(GEMM), {
    types: { T: 'bf16', O: 'f32' },
    orders: { A: ['l', 'k', 'm'] },
    divisibility: { A: 'vector' },
  })
  const [A, B, D] = bound.operands
  expect(A).toEqual({
    name: 'A', role: 'input', dtype: 'bf16', axes: ['l', 'm', 'k'], order: ['l', 'k', 'm'], divisibility: 'vector', fromEpilogue: false,
  }) // prettier-ignore
  expect([B!.order, B!.divisibility, D!.dtype]).toEqual([['l', 'k', 'n'], 'element', 'f32'])
  expect(() => bindKernel(family(GEMM), { types: { T: 'u32', O: 'f32' } })).toThrow('KTL2203')
  const scaled =
    'kernel f(A: e4m3[m, k] * ue8m0[m, k/32], B: e4m3[k, n] * ue8m0[k/32, n]) -> D: bf16[m, n] { D = sum[k](A * B) }'
  expect(program(scaled).operands.map(({ name, dtype, axes, blocks, partOf }) => [name, dtype, axes, blocks, partOf])).toEqual([
    ['A', 'e4m3', ['m', 'k'], undefined, undefined],
    ['A.scale', 'ue8m0', ['m', 'k'], [1, 32], 'A'],
    ['B', 'e4m3', ['k', 'n'], undefined, undefined],
    ['B.scale', 'ue8m0', ['k', 'n'], [32, 1], 'B'],
    ['D', 'bf16', ['m', 'n'], undefined, undefined],
  ]) // prettier-ignore
})

test('bytes of k that a stage has, as the schedule says or by the size of the tile; of f64 always as many', () => {
  const depths = (text: string, bytes: number): unknown =>
    [...designsOf(family(GEMM + text).schedules, 'sm80', 'sm_90a', bytes)].map(
      (design) => design.kind === 'sm80' && design.tile[2] * bytes,
    )
  expect(depths('schedule gemm on sm_80 { tile 64x64; depth 32 | 64 | 128 }\n', 2)).toEqual([32, 64, 128])
  expect(depths('schedule gemm on sm_80 { tile 64x64 | 128x256 }\n', 2)).toEqual([128, 64])
  expect(depths('schedule gemm on sm_80 { tile 64x64; depth 32 | 64 }\n', 8)).toEqual([128])
})
