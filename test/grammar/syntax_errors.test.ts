import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { epilogueSyntax, programSyntax, readCases, rendered } from './expect.ts'

const cases = readCases(readFileSync(new URL('./cases/syntax_errors.txt', import.meta.url), 'utf8'))

test('the table is large and covers programs and epilogue strings', () => {
  expect(cases.filter((c) => c.kind === 'program').length).toBeGreaterThanOrEqual(80)
  expect(cases.filter((c) => c.kind === 'epilogue').length).toBeGreaterThanOrEqual(20)
  expect(new Set(cases.map((c) => c.input)).size).toBe(cases.length)
})

test.each(cases)('$kind: $input', ({ kind, input, expected }) => {
  const actual = kind === 'program' ? rendered(input) : rendered(input, epilogueSyntax, '<epilogue>')
  expect(actual).toBe(expected)
})

test('several mistakes in a file are all reported, each once', () => {
  const text = `kernel a(A: f16[m k], B: f32) -> D: f32[m] {
  D = A +
  E = (A + B
  F = A B
  G = 3 < 4 < 5
}
kernal b
schedule a on sm_100 { tile | ; stages 2.5 }
`
  const places = programSyntax({ name: 'a.ktl', text }).map(
    (d) => `${d.code} ${text.slice(0, d.span!.start).split('\n').length}`,
  )
  expect(places).toEqual(['KTL1003 1', 'KTL1007 2', 'KTL1005 3', 'KTL1003 4', 'KTL1008 5', 'KTL1025 7', 'KTL1003 8'])
})
