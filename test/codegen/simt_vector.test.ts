/** Products of a few rows with a matrix, on both virtual devices in three orders, against plain loops and the reference evaluator. */
import { expect, test } from 'vitest'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { SimtDesign } from '../../compiler/targets/simt/design.ts'
import { simt } from '../../compiler/targets/simt/index.ts'
import { planSimt } from '../../compiler/targets/simt/plan.ts'
import { generateSimt } from '../../codegen/targets/simt/kernel.ts'
import { bound } from '../compiler/support.ts'
import { part, sampled } from '../cases_of.ts'
import { assemble } from './assemble.ts'
import { check, integers, seesMutation } from './check_simt.ts'

interface Case {
  readonly a: DTypeName
  readonly b?: DTypeName
  readonly out: DTypeName
  readonly vector: NonNullable<SimtDesign['vector']>
  /** Memory order of A and of B, contiguous axis last. */
  readonly orders?: { readonly A?: string; readonly B?: string }
  readonly extents: readonly [number, number, number, number]
  /** Elements behind each row. */
  readonly padding?: number
}

const rows = (count: 1 | 2 | 4 | 8 | 16) => ({ side: 'rows', count }) as const
const columns = (count: 1 | 2 | 4 | 8 | 16) => ({ side: 'columns', count }) as const
const NK = { B: 'lnk' } as const

/** l, m, n, k: rows that begin anywhere, ends of pieces within them, sums longer than a turn of all threads. */
const CASES: readonly (readonly [string, Case])[] = [
  ['k contiguous, one row', { a: 'bf16', out: 'f32', vector: rows(1), orders: NK, extents: [2, 1, 7, 2101], padding: 0 }],
  ['k contiguous, more rows than a CTA has', { a: 'f16', out: 'f16', vector: rows(4), orders: NK, extents: [1, 6, 9, 77], padding: 0 }],
  ['n contiguous, one row', { a: 'bf16', out: 'f32', vector: rows(1), extents: [2, 1, 69, 531] }],
  ['bytes, n contiguous, four rows', { a: 'e4m3', out: 'f32', vector: rows(4), extents: [1, 5, 71, 65] }],
  ['n contiguous, eight rows', { a: 'f16', out: 'f32', vector: rows(8), extents: [1, 8, 37, 65] }],
  ['columns: A is the matrix, along m', { a: 'bf16', out: 'f32', vector: columns(4), orders: { A: 'lkm' }, extents: [1, 41, 3, 66] }],
  ['32 bits', { a: 'f32', out: 'f32', vector: rows(1), orders: NK, extents: [1, 1, 5, 1029], padding: 2 }],
  ['tf32, n contiguous', { a: 'tf32', out: 'f32', vector: rows(4), extents: [1, 2, 19, 65] }],
  ['64 bits, eight rows, n contiguous', { a: 'f64', out: 'f64', vector: rows(8), extents: [1, 3, 11, 65] }],
  ['two types of bytes, eight rows', { a: 'u8', b: 'i8', out: 'i32', vector: rows(8), orders: NK, extents: [1, 7, 5, 140] }],
  ['shorter than a piece', { a: 'bf16', out: 'f32', vector: rows(1), orders: NK, extents: [1, 1, 3, 5] }],
  ['n contiguous, aligned rows, parts of k', { a: 'f16', out: 'f32', vector: rows(1), extents: [1, 1, 520, 700], padding: 0 }],
  ['n contiguous, rows shorter than a piece', { a: 'bf16', out: 'f32', vector: rows(4), extents: [2, 2, 3, 300] }],
  ['n contiguous, two rows, parts of k', { a: 'f16', out: 'f16', vector: rows(2), orders: { A: 'lkm' }, extents: [1, 3, 301, 500] }],
  ['64 bits, one row, parts of k', { a: 'f64', out: 'f64', vector: rows(1), extents: [1, 1, 71, 600] }],
  ['bytes, n contiguous, one row', { a: 'e5m2', out: 'f32', vector: rows(1), extents: [1, 1, 300, 301] }],
  ['shares that begin within tiles', { a: 'bf16', out: 'f32', vector: rows(1), extents: [150, 1, 9, 300] }],
  ['tensor cores, aligned, parts of k', { a: 'bf16', out: 'f32', vector: rows(8), orders: NK, extents: [2, 5, 40, 2048], padding: 0 }],
  ['tensor cores, aligned, the few by elements', { a: 'f16', out: 'f32', vector: rows(1), orders: { A: 'mkl', B: 'lnk' }, extents: [2, 1, 40, 512], padding: 0 }],
  ['tensor cores, 16 of the few, transposed', { a: 'f16', out: 'f16', vector: columns(16), extents: [1, 37, 9, 213] }],
  ['tensor cores, the few in pairs, parts of k', { a: 'bf16', out: 'f32', vector: columns(8), extents: [1, 70, 8, 1000], padding: 0 }],
  ['tensor cores, more of the few than a CTA has', { a: 'bf16', out: 'f32', vector: rows(16), orders: NK, extents: [1, 21, 150, 901], padding: 2 }],
  ['tensor cores, every second row begins at the same byte', { a: 'bf16', out: 'f32', vector: rows(2), orders: NK, extents: [1, 2, 277, 84], padding: 0 }],
  ['32 bits, every fourth row begins at the same byte', { a: 'f32', out: 'f32', vector: rows(2), orders: NK, extents: [2, 2, 71, 613], padding: 0 }],
  ['empty sums on tensor cores', { a: 'bf16', out: 'f32', vector: rows(8), orders: NK, extents: [1, 3, 9, 0] }],
  ['empty sums', { a: 'bf16', out: 'f32', vector: rows(1), extents: [1, 1, 9, 0] }],
] // prettier-ignore

function problem({ a, b = a, out, vector, orders, extents: [l, m, n, k], padding }: Case) {
  const type = ['i8', 'u8'].includes(a) ? 'i32' : a === 'f64' ? 'f64' : 'f32'
  const source = `kernel g(A: ${a}[l, m, k] | ${a}[l, k, m], B: ${b}[l, k, n] | ${b}[l, n, k], bias: ${type}[n]) -> D: ${out}[l, m, n] {
  D = sum[k](A * B) + bias
}`
  const program = bound(source, {
    orders: Object.fromEntries(Object.entries(orders ?? {}).map(([name, axes]) => [name, [...axes]])),
  })
  const least = a.startsWith('u') ? 0 : -2
  const A = integers(l * m * k, least, 2)
  const B = integers(l * k * n, -2, 2)
  const bias = integers(n, -3, 3)
  const D = Array.from({ length: l * m * n }, (_, i) => {
    const [z, row, column] = [Math.floor(i / (m * n)), Math.floor(i / n) % m, i % n]
    let sum = bias[column]!
    for (let at = 0; at < k; at++) sum += A[(z * m + row) * k + at]! * B[(z * k + at) * n + column]!
    return sum
  })
  const inputs = { extents: { l, m, n, k }, tensors: { A, B, bias }, ...(padding !== undefined && { padding }) }
  return { program, inputs, expectation: { outputs: { D } }, options: { vector } }
}

const COMBINED = [
  'n contiguous, one row',
  'n contiguous, eight rows',
  'tf32, n contiguous',
  'n contiguous, rows shorter than a piece',
  '64 bits, one row, parts of k',
  'tensor cores, the few in pairs, parts of k',
]

test.each(part(CASES, COMBINED))('%s', { timeout: 60_000 }, async (_, one) => {
  const { program, inputs, expectation, options } = problem(one)
  // In turn: operands that begin anywhere.
  const lead = { A: 1, B: 3 }
  const kernel = await check(program, [[one.extents[2] % 2 ? { ...inputs, lead } : inputs, expectation]], options)
  expect(kernel.plan.stages.map(({ form }) => form.kind)).toContain('vector')
})

const ALONG: Case = { a: 'bf16', out: 'f32', vector: rows(4), orders: NK, extents: [2, 6, 9, 2101], padding: 0 }
const ACROSS: Case = { a: 'bf16', out: 'f32', vector: rows(1), extents: [2, 1, 69, 531] }

/** Tiles that begin within the shares of CTAs. */
const MANY_TILES: Case = { a: 'bf16', out: 'f32', vector: rows(1), extents: [150, 1, 9, 300] }
const GATHERED: Case = { a: 'f16', out: 'f16', vector: columns(16), extents: [1, 37, 9, 213] }

const BROKEN = [
  ['the vector before', ALONG, 'from - window.shift', 'from - window.shift - 16'],
  ['no shift by 2 bytes', ALONG, '8 * (shift & 3)', '0'],
  ['pieces at the edge of the matrix', ALONG, 'window.inner ? 0 : window.bytes', '0u'],
  ['one piece for all steps', ALONG, 'piece + i / 2 * 4', 'piece + 0'],
  ['the piece in which rows begin is taken for a whole one', ALONG, 'first_whole = skip > 0', 'first_whole = 0'],
  ['the piece in which rows end is left out', ALONG, 'own == 1 && ends', 'own == 1 && false'],
  ['rows beside each other', ALONG, 'tile_n / apart * apart * columns + tile_n % apart', 'tile_n * columns'],
  ['a warp is left out', ALONG, 's < slots; ++s) sum', 's < slots - 1; ++s) sum'],
  ['the matrix of the first batch', ALONG, 'i_l * op_B_stride_l', '0 * op_B_stride_l'],
  ['where rows begin', ACROSS, 'skipped[s]', 'skipped[0]'],
  ['a part is left out', ACROSS, 'other < count ? ktl', 'other < count - 1 ? ktl'],
  ['all have the place of the first tile', MANY_TILES, '2 * cta + (cta == first && is_second)', '2 * cta'],
  ['columns are rows', GATHERED, '.trans.b16 %0, %1', '.trans.b16 %0, %0'],
] as const

const SEEN = ['no shift by 2 bytes', 'a warp is left out', 'where rows begin', 'all have the place of the first tile']

test.each(part(BROKEN, SEEN))('a kernel that is broken is seen: %s', { timeout: 60_000 }, async (_, one, from, to) => {
  const { program, inputs, expectation, options } = problem(one)
  const edit = (cuda: string): string => cuda.replaceAll(from, to)
  await seesMutation(program, edit, inputs, expectation, options)
})

/** On tensor cores, where what is under way takes most of the registers. */
const FULLEST = CASES.filter(([name]) => name.startsWith('tensor cores') || name.startsWith('k contiguous'))
const ARCHS = ['sm_80', 'sm_90a', 'sm_100a'] as const
const ASSEMBLED = ARCHS.flatMap((arch) => FULLEST.map(([name, one]) => [`${arch}: ${name}`, arch, one] as const))

test.each(sampled(ASSEMBLED))('ptxas spills nothing: %s', { timeout: 60_000 }, (_, target, one) => {
  const { program, options } = problem(one)
  const plan = planSimt({ program, target, design: { kind: 'simt', tile: [16, 16], ...options } })
  const { status, output } = assemble(generateSimt(plan, 'ktl.g').cuda, target)
  expect(status, output).toBe(0)
  expect(output).toContain('0 bytes spill stores, 0 bytes spill loads')
  expect(output).not.toMatch(/warning/i)
})

test('what is no such product has no such design', () => {
  const program = bound('kernel g(A: f32[m, n]) -> D: f32[m, n] { D = relu(A) }')
  const plan = simt.plan({ program, target: 'sm_90a', design: { kind: 'simt', tile: [16, 16], vector: rows(1) } })
  expect(plan).toMatchObject({ code: 'KTL2904' })
})
