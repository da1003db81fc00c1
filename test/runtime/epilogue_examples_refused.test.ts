/** Epilogue strings that are refused: each with its code and the place in the string. */
import { describe, expect, test } from 'vitest'
import { EpilogueArguments, GemmArguments, Tensor } from '../../runtime/index.ts'
import { renderDiagnostics } from '../../grammar/render.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { errorOf } from './errors.ts'
import { MemoryDevice } from './memory_device.ts'

const device = new MemoryDevice()
const empty = (shape: number[], dtype: DTypeName = 'f32', strides?: number[]): Tensor =>
  device.empty(dtype, shape, strides ? { strides } : {})
const [L, M, N, K] = [2, 64, 48, 32]
const A = empty([L, M, K], 'f16')
const B = empty([L, K, N], 'f16')
const out = empty([L, M, N])
const full = empty([L, M, N])

const refuse = (text: string, bindings: object = {}) =>
  errorOf(() => new GemmArguments({ A, B, out, epilogue: new EpilogueArguments(text, bindings as never) }))

/** Indented as in Python. */
const def = (params: string, ...lines: string[]): string =>
  `def epi(${params}):\n${lines.map((x) => `  ${x}\n`).join('')}`

/** String, bindings, code, the text that the diagnostic points at (null: the string has no such place). */
type Refused = [text: string, bindings: object, code: string, spanned: string | null]

const tables: Record<string, readonly Refused[]> = {
  'accumulator and result': [
    [def('', 'D = 1', 'return D'), {}, 'KTL2025', 'epi'],
    [def('C', 'D = C', 'return D'), { C: full }, 'KTL2024', 'C'],
    [def('accum', 'X = accum'), {}, 'KTL2022', 'X = accum'],
    ['X = acc', {}, 'KTL2022', 'X = acc'],
    ['', {}, 'KTL1016', ''],
    ['  \n ', {}, 'KTL1016', '  \n '],
    [def('accum', 'return D', 'D = accum'), {}, 'KTL1015', 'D = accum'],
  ],
  'names and bindings': [
    [def('accum, C', 'D = accum + C', 'return D'), {}, 'KTL2023', 'C'],
    ['acc * alpha', {}, 'KTL2023', 'alpha'],
    ['acc * SCALE', {}, 'KTL2023', 'SCALE'],
    [def('accum', 'D = accum * SCALE', 'return D'), {}, 'KTL2023', 'SCALE'],
    [def('x', 'D = accum', 'return D'), {}, 'KTL2023', 'accum'],
    ['relu(acc)', { zz: 1 }, 'KTL2024', null],
    [def('accum, C', 'D = accum', 'return D'), { C: full }, 'KTL2024', 'C'],
    [def('accum, C, C', 'D = accum + C', 'return D'), { C: full }, 'KTL2002', 'C'],
    ['acc + exp', { exp: 1 }, 'KTL2003', 'exp'],
    [def('accum, max', 'D = accum + max', 'return D'), { max: 1 }, 'KTL2003', 'max'],
    ['exp = acc; D = exp', {}, 'KTL2003', 'exp'],
    ['acc + True', {}, 'KTL2023', 'True'],
    ['acc + None', {}, 'KTL2023', 'None'],
    ['acc * alpha', { alpha: '2' }, 'KTL4024', 'alpha'],
    ['acc * alpha', { alpha: 2n }, 'KTL4024', 'alpha'],
    ['acc * alpha', { alpha: undefined }, 'KTL4024', 'alpha'],
  ],
  'assignment and return': [
    ['tmp = acc; tmp = tmp * 2; D = tmp', {}, 'KTL2010', 'tmp'],
    [def('accum', 'D = accum', 'D = D * 2', 'return D'), {}, 'KTL2010', 'D'],
    ['acc = acc * 2; D = acc', {}, 'KTL2012', 'acc'],
    ['D = acc + D', { D: out }, 'KTL2012', 'D'],
    ['D = acc + D', { D: full }, 'KTL4026', 'D'],
    [def('accum, C', 'C = accum', 'return C'), { C: out }, 'KTL2012', 'C'],
    [def('accum', 'D = accum', 'x = D', 'x += 1.0', 'return D'), {}, 'KTL1003', '='],
    ['D = acc', { D: full }, 'KTL4026', 'D'],
    [def('accum, C', 'return C'), { C: full }, 'KTL2011', 'C'],
    [def('accum, C', 'D = accum', 'return D, C'), { C: full }, 'KTL2011', 'C'],
    ['D = acc; return D, F', { F: full }, 'KTL2011', 'F'],
    ['F = acc * 2; D = acc; return D, F', {}, 'KTL2030', 'F'],
    ['F = acc * 2; D = acc; return D, F', { F: 2 }, 'KTL2030', 'F'],
    ['F = acc * 2; D = relu(F)', { F: full }, 'KTL2031', 'F'],
    [def('accum', 'D = accum', 'return D, accum'), {}, 'KTL2030', 'accum'],
    [def('accum', 'D = accum', 'return D, accum + 1'), {}, 'KTL2034', 'accum + 1'],
    [def('accum', 'D = accum', 'return D, 1.0'), {}, 'KTL2034', '1.0'],
    ['a, D = acc, acc', {}, 'KTL1003', ','],
    ['(a, D) = acc', {}, 'KTL2014', '(a, D) = acc'],
    ['relu(acc); D = acc', {}, 'KTL1010', 'relu(acc)'],
  ],
  'shapes': [
    ['acc + X', { X: empty([L, M, N + 1]) }, 'KTL2033', 'X'],
    ['acc + X', { X: empty([M]) }, 'KTL2033', 'X'],
    ['acc + X', { X: empty([L, M]) }, 'KTL2033', 'X'],
    ['acc + X', { X: empty([L + 1, 1, 1]) }, 'KTL2033', 'X'],
    ['acc + X', { X: empty([L, 1, M, N]) }, 'KTL2033', 'X'],
    ['acc + X[m]', { X: empty([N]) }, 'KTL2033', 'X'],
    ['acc + X[k]', { X: empty([K]) }, 'KTL2033', 'X'],
    ['acc + X[m, m]', { X: empty([M, M]) }, 'KTL2019', 'm'],
    ['acc * X[m] + X[n]', { X: empty([M]) }, 'KTL2017', 'n'],
    [def('accum, X', 'D = accum + X', 'return D'), { X: empty([M, N - 1]) }, 'KTL2033', 'X'],
    ['F = acc; D = F; return D, F', { F: empty([L, M, N + 1]) }, 'KTL2033', 'F'],
    // One matrix for two batches would be written twice.
    ['F = acc; D = F; return D, F', { F: empty([M, N]) }, 'KTL2033', 'F'],
    ['top[m] = max[n](acc); D = acc; return D, top', { top: empty([M]) }, 'KTL2033', 'top'],
    ['top = max[l, m](acc); D = acc; return D, top', { top: empty([M, 1]) }, 'KTL2007', 'max[l, m](acc)'],
  ],
  'operators of Python': [
    [def('accum', 'D = accum // 2', 'return D'), {}, 'KTL1017', '//'],
    [def('accum', 'D = accum @ accum', 'return D'), {}, 'KTL1001', '@'],
    ['acc & acc', {}, 'KTL1001', '&'],
    ['acc and acc', {}, 'KTL1003', 'and'],
    ['not acc', {}, 'KTL1003', 'acc'],
    ['0 < acc < 1', {}, 'KTL1008', '<'],
    [def('accum', 'D = accum if accum > 0 else 0', 'return D'), {}, 'KTL1003', 'if'],
    [def('accum', 'if accum > 0:', '  D = accum', 'return D'), {}, 'KTL1003', 'accum'],
    [def('accum', 'for i in range(3):', '  D = accum', 'return D'), {}, 'KTL1003', 'i'],
    [def('accum', 'def g(x):', '  return x', 'D = g(accum)'), {}, 'KTL1004', 'def'],
    [def('accum, *rest', 'return accum'), {}, 'KTL1003', '*'],
    [def('accum, alpha="x"', 'return accum * alpha'), {}, 'KTL1003', '"x"'],
    ['lambda acc: acc', {}, 'KTL1003', 'acc'],
    ['torch.relu(acc)', {}, 'KTL1001', '.'],
    [def('accum', 'D = torch.relu(accum)', 'return D'), {}, 'KTL1003', '.'],
    ['acc[0]', {}, 'KTL2029', 'acc[0]'],
    ['acc + "one"', {}, 'KTL1001', '"'],
    ['relu(acc', {}, 'KTL1005', '('],
    ['relu(acc))', {}, 'KTL1006', ')'],
    ['acc + 1e999', {}, 'KTL1014', '1e999'],
  ],
  'functions and types': [
    ['erfc(acc)', {}, 'KTL2004', 'erfc'],
    ['gleu(acc)', {}, 'KTL2004', 'gleu'],
    ['identity(acc)', {}, 'KTL2004', 'identity'],
    ['maximum(acc, 0)', {}, 'KTL2004', 'maximum'],
    ['multiply_add(acc, 2, 3)', {}, 'KTL2004', 'multiply_add'],
    ['D = permute(acc, (0, 2, 1))', {}, 'KTL1003', ','],
    ['D = reshape(acc, 4)', {}, 'KTL2004', 'reshape'],
    ['relu()', {}, 'KTL2016', 'relu()'],
    ['relu(acc, 1)', {}, 'KTL2016', 'relu(acc, 1)'],
    ['clamp(acc, 0)', {}, 'KTL2016', 'clamp(acc, 0)'],
    ['select(acc, 1, 2)', {}, 'KTL2210', 'select(acc, 1, 2)'],
    ['acc && acc > 0', {}, 'KTL2210', 'acc && acc > 0'],
    ['relu(acc > 0)', {}, 'KTL2209', 'acc > 0'],
    ['skip0(beta) + acc', { beta: 1 }, 'KTL2219', 'skip0(beta)'],
    // The accumulator is the kernel's: a type restates it, and cannot choose another.
    ['x: f16 = acc; D = x', {}, 'KTL2216', 'f16'],
    ['F = acc * 1.5; D = acc; return D, F', { F: empty([L, M, N], 'i8') }, 'KTL2204', 'acc * 1.5'],
  ],
  'reductions': [
    ['D = sum(acc)', {}, 'KTL2310', 'sum(acc)'],
    ['max(acc)', {}, 'KTL2310', 'max(acc)'],
    ['x = max(acc, dim=[0]); D = acc; return D, x', { x: empty([N]) }, 'KTL1003', '='],
    ['t = max[n](max[n](acc)); D = acc; return D, t', { t: empty([L, M, 1]) }, 'KTL2301', 'n'],
    ['t = max[k](acc); D = acc; return D, t', { t: empty([L, M, 1]) }, 'KTL2301', 'k'],
    ['t = max[q](acc); D = acc; return D, t', { t: empty([L, M, 1]) }, 'KTL2005', 'q'],
    ['t = prod[n](acc); D = acc; return D, t', { t: empty([L, M, 1]) }, 'KTL2303', 'prod'],
  ],
} // prettier-ignore

describe.each(Object.entries(tables))('%s', (_, rows) => {
  test.each(rows)('%j', async (text, bindings, code, spanned) => {
    const error = await refuse(text, bindings)
    const [first] = error.diagnostics
    expect([error.code, first!.span && text.slice(first!.span.start, first!.span.end)]).toEqual([code, spanned])
    if (spanned === null) return
    expect(first!.source!.text).toBe(text)
    expect(renderDiagnostics(error.diagnostics)).toMatch(new RegExp(`<epilogue>:\\d+:\\d+: error ${code}:`))
  })
})

test('a vector of M elements is never taken for rows because M = N', async () => {
  const square = { A: empty([M, K], 'f16'), B: empty([K, M], 'f16'), out: empty([M, M]) }
  const axesOf = (text: string, shape: number[]) =>
    new GemmArguments({ ...square, epilogue: new EpilogueArguments(text, { x: empty(shape) }) }).fusion!.tensors[0]!
      .axes
  expect(axesOf('acc + x', [M])).toEqual(['n'])
  expect(axesOf('acc + x[m]', [M])).toEqual(['m'])
  expect(axesOf('acc + x', [M, 1])).toEqual(['m'])
  expect(axesOf('acc + x', [1, M])).toEqual(['n'])
})
