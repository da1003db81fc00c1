/** Products of which each thread has a patch, on both virtual devices in three orders, against plain loops and the reference evaluator. */
import { expect, test } from 'vitest'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { simt } from '../../compiler/targets/simt/index.ts'
import { bound } from '../compiler/support.ts'
import { check, integers, seesMutation } from './check_simt.ts'

interface Case {
  readonly type: DTypeName
  readonly out: DTypeName
  readonly tile: readonly [number, number]
  readonly patch: readonly [number, number]
  /** Memory order of A and of B, contiguous axis last. */
  readonly orders?: { readonly A?: string; readonly B?: string; readonly D?: string }
  readonly extents: readonly [number, number, number, number]
  /** D is the tensor C itself. */
  readonly inPlace?: true
}

/** l, m, n, k: ends within patches, single elements, one step of k and several. */
const CASES: readonly (readonly [string, Case])[] = [
  ['a short sum', { type: 'bf16', out: 'f32', tile: [8, 32], patch: [8, 4], extents: [1, 70, 131, 3] }],
  ['several steps, batches', { type: 'f16', out: 'f16', tile: [8, 32], patch: [4, 4], orders: { B: 'lnk' }, extents: [2, 37, 130, 21] }],
  ['rows along memory', { type: 'bf16', out: 'f32', tile: [4, 32], patch: [2, 3], orders: { A: 'lkm', D: 'lnm' }, extents: [1, 97, 9, 8] }],
  ['in place', { type: 'f32', out: 'f32', tile: [8, 32], patch: [2, 2], extents: [1, 19, 65, 5], inPlace: true }],
  ['64 bits', { type: 'f64', out: 'f64', tile: [4, 8], patch: [3, 2], extents: [1, 13, 17, 9] }],
  ['bytes', { type: 'i8', out: 'i32', tile: [8, 8], patch: [1, 4], extents: [1, 9, 33, 40] }],
  ['one element', { type: 'bf16', out: 'f32', tile: [8, 32], patch: [8, 4], extents: [1, 1, 1, 1] }],
  ['empty sums', { type: 'bf16', out: 'f32', tile: [8, 32], patch: [8, 4], extents: [1, 9, 9, 0] }],
] // prettier-ignore

function problem({ type, out, tile, patch, orders, extents: [l, m, n, k], inPlace }: Case) {
  const sum = type === 'i8' ? 'i32' : type === 'f64' ? 'f64' : 'f32'
  const text = `kernel g(A: ${type}[l, m, k] | ${type}[l, k, m], B: ${type}[l, k, n] | ${type}[l, n, k], C: ${out}[l, m, n] | ${out}[l, n, m], bias: ${sum}[n])
  -> D: ${out}[l, m, n] | ${out}[l, n, m] {
  D = sum[k](A * B) + bias + C
}`
  const contiguous = { ...orders, ...(orders?.D && { C: orders.D }) }
  const program = bound(text, {
    orders: Object.fromEntries(Object.entries(contiguous).map(([name, axes]) => [name, [...axes]])),
  })
  const [A, B, C, bias] = [integers(l * m * k, -2, 2), integers(l * k * n, -2, 2), integers(l * m * n, -3, 3), integers(n, -3, 3)]
  const D = C.map((c, i) => {
    const [z, row, column] = [Math.floor(i / (m * n)), Math.floor(i / n) % m, i % n]
    let value = c + bias[column]!
    for (let at = 0; at < k; at++) value += A[(z * m + row) * k + at]! * B[(z * k + at) * n + column]!
    return value
  })
  const inputs = { extents: { l, m, n, k }, tensors: { A, B, C, bias }, ...(inPlace && { inPlace: { D: 'C' } }) }
  return { program, inputs, expectation: { outputs: { D } }, options: { tile, patch } }
} // prettier-ignore

test.each(CASES)('%s', { timeout: 60_000 }, async (_, one) => {
  const { program, inputs, expectation, options } = problem(one)
  const kernel = await check(program, [[{ ...inputs, lead: { A: 1, B: 3 } }, expectation]], options)
  const [m, n] = [one.tile[0] * one.patch[0], one.tile[1] * one.patch[1]]
  expect(kernel.plan.stages.map(({ form }) => form)).toMatchObject([{ kind: 'tile', extents: [m, n, 8], threads: one.tile }])
}) // prettier-ignore

const SHORT: Case = { type: 'bf16', out: 'f32', tile: [8, 32], patch: [8, 4], extents: [1, 70, 131, 11] }

test.each([
  ['elements of one another', 'row + i * 8', 'row + i * 4'],
  ['columns of one another', 'column + j * 32', 'column + j * 16'],
  ['the last row of a patch is left out', 'i < 8; ++i) {', 'i < 7; ++i) {'],
  ['a step of k twice', 'first_k += 8', 'first_k += 4'],
  ['no barrier before the sums', '}\n      __syncthreads();\n      #pragma', '}\n      #pragma'],
] as const)('a kernel that is broken is seen: %s', { timeout: 60_000 }, async (_, from, to) => {
  const { program, inputs, expectation, options } = problem(SHORT)
  await seesMutation(program, (cuda) => cuda.replaceAll(from, to), inputs, expectation, options)
})

test('what is no product of matrices has no such design', () => {
  for (const text of [
    '(A: f32[m, n]) -> D: f32[m, n] { D = relu(A) }',
    '(A: f32[m, k]) -> D: f32[m] { D = sum[k](A) }',
  ]) {
    const plan = simt.plan({
      program: bound(`kernel g${text}`),
      target: 'sm_90a',
      design: { kind: 'simt', tile: [8, 32], patch: [8, 4] },
    })
    expect(plan).toMatchObject({ code: 'KTL2904' })
  }
})
