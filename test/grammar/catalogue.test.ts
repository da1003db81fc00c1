import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { catalogue, diagnose, explainCode, RANGES, type Entry } from '../../grammar/catalogue/index.ts'
import { LIMITS } from '../../grammar/limits.ts'
import { parseProgram } from '../../grammar/parse.ts'

const entries = Object.entries(catalogue) as unknown as [string, Entry<object>][]

test('codes are unique and each stands in the file of its range', () => {
  const seen = new Set<string>()
  RANGES.forEach((range, i) => {
    const end = RANGES[i + 1]?.from ?? 9999
    for (const code of Object.keys(range.entries)) {
      expect(seen.has(code), code).toBe(false)
      seen.add(code)
      expect(code).toMatch(/^KTL\d{4}$/)
      const number = Number(code.slice(3))
      expect(number > range.from && number < end, `${code} in ${range.title}`).toBe(true)
    }
  })
  expect(seen.size).toBe(entries.length)
})

// Examples are run by test/catalogue.
test.each(entries)('%s has a title and an explanation', (_, entry) => {
  expect(entry.title).toMatch(/^(?![A-Z][a-z]).*[^.]$/)
  expect(entry.explain).toMatch(/^.{20,}[.]$/)
})

test('diagnose words a message with its values', () => {
  const source = { name: 'a.ktl', text: 'D = acc + Cc' }
  const span = { start: 10, end: 12 }
  expect(diagnose('KTL2001', { source, span, name: 'Cc', candidates: ['A', 'B', 'C'] })).toEqual({
    code: 'KTL2001',
    severity: 'error',
    source,
    span,
    message: 'unknown name `Cc`',
    label: 'not declared',
    help: 'did you mean `C`?',
    fix: { description: 'write `C`', span, replacement: 'C' },
  })
})

test('explainCode finds codes and nothing else', () => {
  expect(explainCode('KTL1001')?.title).toBe('character that is not part of the language')
  expect(explainCode('KTL0000')).toBeUndefined()
  expect(explainCode('toString')).toBeUndefined()
})

test('the findings of the virtual device have entries with the numbers of findings.h', () => {
  const header = readFileSync(new URL('../../native/src/virtual/findings.h', import.meta.url), 'utf8')
  const codes = [...header.matchAll(/= (50\d\d)\b/g)].map((match) => `KTL${match[1]}`)
  expect(codes.length).toBeGreaterThan(20)
  expect(codes.filter((code) => !(code in catalogue))).toEqual([])
})

describe('limits', () => {
  const kernel = (value: string): string => `kernel f(A: f32[m]) -> D: f32[m] { D = ${value} }`
  const codes = (text: string): string[] => parseProgram({ name: 'a.ktl', text }).diagnostics.map((d) => d.code)

  test('source length, before anything is read', () => {
    const room = LIMITS.sourceLength - kernel('A').length
    expect(codes(kernel('A') + ' '.repeat(room))).toEqual([])
    expect(codes(kernel('A') + ' '.repeat(room + 1))).toEqual(['KTL1020'])
  })
  test('nesting: brackets, prefix operators, both', () => {
    // The braces of the kernel are one level.
    const deep = LIMITS.nesting - 1
    expect(codes(kernel(`${'('.repeat(deep)}A${')'.repeat(deep)}`))).toEqual([])
    expect(codes(kernel(`${'('.repeat(deep + 1)}A${')'.repeat(deep + 1)}`))).toEqual(['KTL1021'])
    expect(codes(kernel(`${'-'.repeat(deep)}A`))).toEqual([])
    expect(codes(kernel(`${'-'.repeat(deep + 1)}A`))).toEqual(['KTL1021'])
    expect(codes(kernel('('.repeat(100_000)))).toEqual(['KTL1021'])
    expect(codes(kernel(`A${'[('.repeat(150)}`))).toEqual(['KTL1021'])
  })
  test('operands and axes', () => {
    const operands = (n: number): string => Array.from({ length: n }, (_, i) => `a${i}: f32[m]`).join(', ')
    expect(codes(`kernel f(${operands(63)}) -> D: f32[m] { D = a0 }`)).toEqual([])
    expect(codes(`kernel f(${operands(64)}) -> D: f32[m] { D = a0 }`)).toEqual(['KTL1022'])
    expect(codes(`kernel f(A: f32[a, b, c, d, e, f, g, h]) -> D: f32[a] { D = A }`)).toEqual([])
    expect(codes(`kernel f(A: f32[a, b, c, d, e, f, g, h, i]) -> D: f32[a] { D = A }`)).toEqual(['KTL1023'])
  })
  test('expression nodes, by item', () => {
    const terms = (n: number): string => `A${' + A'.repeat(n - 1)}`
    expect(codes(kernel(terms(2048)))).toEqual([])
    expect(codes(kernel(terms(2049)))).toEqual(['KTL1024'])
    expect(codes(kernel(terms(2000)) + kernel(terms(2000)))).toEqual([])
    expect(codes(kernel(`A${'^A'.repeat(200_000)}`))).toEqual(['KTL1024'])
  })
  test('diagnostics: the rest is counted', () => {
    const { diagnostics } = parseProgram({
      name: 'a.ktl',
      text: Array.from({ length: 60 }, (_, i) => `x${i}\n`).join('kernel\n'),
    })
    expect(diagnostics.length).toBe(LIMITS.diagnostics + 1)
    expect(diagnostics.at(-1)!.message).toMatch(/^\d+ more errors not shown$/)
  })
})
