import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { countChoices } from '../../compiler/family.ts'
import { readCases, rendered } from '../grammar/expect.ts'
import { checked, diagnosticsOf } from './helpers.ts'

const read = (name: string): string => readFileSync(new URL(`./cases/${name}`, import.meta.url), 'utf8')
const cases = readCases(read('programs.txt'))

test('the table of wrong programs is large', () => {
  expect(new Set(cases.map((c) => c.input)).size).toBeGreaterThanOrEqual(80)
  expect(new Set(cases.flatMap((c) => c.kind.split(' '))).size).toBeGreaterThanOrEqual(55)
})

test.each(cases)('$kind: $input', ({ kind, input, expected }) => {
  expect(
    diagnosticsOf({ name: 'a.ktl', text: input })
      .map((d) => d.code)
      .join(' '),
  ).toBe(kind)
  expect(rendered(input, diagnosticsOf)).toBe(expected)
})

test('every form of the language checks without a word', () => {
  const text = read('language.ktl')
  expect(rendered(text, diagnosticsOf)).toBe('')
  const found = checked(text).kernels.map((k) => `${k.name} ${countChoices(k)}`)
  expect(found).toEqual([
    'gemm 48', 'linear_gelu 2', 'residual 1', 'swiglu 1', 'axpby 1', 'dgemm 8', 'mx 4', 'grouped 1', 'rms 1',
    'conv2d 1', 'attention 1', 'paged 1', 'experts 1', 'padded 1', 'stored 4',
  ]) // prettier-ignore
})

test('sums of elementwise products are no contractions that went wrong', () => {
  const text = `kernel f(x: f32[m, n], y: f32[m, n]) -> (D: f32[m], E: f32[m], F: f32) {
  z = y + 1
  D = sum[n](z * z)
  E = sum[n](x * z * y)
  F = sum[m, n](z * x)
}
`
  expect(rendered(text, diagnosticsOf)).toBe('')
})

test('every mistake of a file is reported, in order', () => {
  const text = `kernel a<T: f16 | u32>(A: T[m, k], B: T[k, n], c: f32) -> D: i8[m, n] {
  acc = sum[k](A * B)
  D = acc + x
}
kernel b(A: f32[m]) -> D: f32[m] { D = rleu(A) }
schedule c on sm_100 { tile 1x1 }
`
  const found = diagnosticsOf({ name: 'a.ktl', text }).map((d) => d.code)
  expect(found).toEqual(['KTL2008', 'KTL2001', 'KTL2004', 'KTL3003', 'KTL3009'])
})

test('long chains and deep inlining are refused or read, never thrown', () => {
  const chain = (n: number): string => `kernel f(A: f32[m]) -> D: f32[m] { D = A${' + A'.repeat(n)} }`
  expect(diagnosticsOf({ name: 'a.ktl', text: chain(2000) })).toEqual([])
  const doubling = Array.from(
    { length: 40 },
    (_, i) => `epilogue e${i}(x) -> D { D = ${i ? `e${i - 1}(x) + e${i - 1}(x)` : 'x + 1'} }`,
  )
  const text = [...doubling, 'kernel f(A: f32[m]) -> D: f32[m] { D = e39(A) }'].join('\n')
  expect(new Set(diagnosticsOf({ name: 'a.ktl', text }).map((d) => d.code))).toEqual(new Set(['KTL2032']))
})
