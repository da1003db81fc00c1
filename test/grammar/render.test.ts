import { describe, expect, test } from 'vitest'
import { KtlError, type Diagnostic } from '../../grammar/diagnostics.ts'
import { lineColumn, lineText } from '../../grammar/lines.ts'
import { parseProgram } from '../../grammar/parse.ts'
import { printProgram } from '../../grammar/printer.ts'
import { applyFixes, renderDiagnostic } from '../../grammar/render.ts'
import { suggest } from '../../grammar/suggest.ts'
import { dedent } from './expect.ts'

const at = (text: string, from: string, rest: Partial<Diagnostic> = {}): Diagnostic => {
  const start = text.indexOf(from)
  const source = { name: 'k/a.ktl', text }
  return {
    code: 'KTL2999',
    severity: 'error',
    message: 'wrong',
    source,
    span: { start, end: start + from.length },
    ...rest,
  }
}

describe('renderDiagnostic', () => {
  test('primary and secondary labels in source order, notes, help, fix', () => {
    const text = 'kernel f(\n  A: f32[m],\n  B: f32[n]\n) -> D: f32[m] {\n  D = A + Bb\n}\n'
    const start = text.indexOf('Bb')
    const diagnostic = at(text, 'Bb', {
      label: 'not declared',
      labels: [{ span: { start: text.indexOf('B: '), end: text.indexOf('B: ') + 1 }, text: 'near this' }],
      notes: ['first line\nsecond line', 'another'],
      help: 'did you mean `B`?',
      fix: { description: 'write `B`', span: { start, end: start + 2 }, replacement: 'B' },
    })
    expect(renderDiagnostic(diagnostic)).toBe(
      dedent(`
      k/a.ktl:5:11: error KTL2999: wrong
        3 |   B: f32[n]
          |   - near this
        .
        5 |   D = A + Bb
          |           ^^ not declared
        note: first line
              second line
        note: another
        help: did you mean \`B\`?
        fix: write \`B\`
        5 |   D = A + B
      `),
    )
  })

  test('without a place, without a source, as a warning', () => {
    const bare: Diagnostic = {
      code: 'KTL4001',
      severity: 'warning',
      message: 'odd',
      source: null,
      span: null,
      help: 'so',
    }
    expect(renderDiagnostic(bare)).toBe('warning KTL4001: odd\n  help: so')
    expect(renderDiagnostic({ ...bare, source: { name: 'a.ktl', text: 'x' } })).toBe(
      'a.ktl: warning KTL4001: odd\n  help: so',
    )
  })

  test('tabs keep the marks in place', () => {
    expect(renderDiagnostic(at('\tD\t= Q', 'Q'))).toBe(
      'k/a.ktl:1:6: error KTL2999: wrong\n  1 |   D  = Q\n    |        ^',
    )
  })

  test('wide and combining characters keep the marks in place', () => {
    expect(renderDiagnostic(at('中é\u0301😀 Q', 'Q')).split('\n').at(-1)).toBe('    |       ^')
  })

  test('long lines are cut around the place', () => {
    const [, line, mark] = renderDiagnostic(at(`${'a'.repeat(500)}Q${'b'.repeat(500)}`, 'Q')).split('\n')
    expect(line).toBe(`  1 | …${'a'.repeat(20)}Q${'b'.repeat(79)}…`)
    expect(mark!.indexOf('^')).toBe(line!.indexOf('Q'))
  })

  test('text of the source cannot act on the terminal', () => {
    expect(renderDiagnostic(at('\x1b[31mQ\u202e\x07', 'Q', { message: 'a\x1bb' }))).not.toMatch(
      /[\x00-\x09\x0b-\x1f\u202e]/,
    )
  })

  test('spans at and behind the end, empty ones and those over lines', () => {
    const source = { name: 'a', text: 'ab\ncd' }
    const mark = (start: number, end: number): string =>
      renderDiagnostic({ code: 'KTL2999', severity: 'note', message: 'm', source, span: { start, end } })
    expect(mark(5, 5)).toBe('a:2:3: note KTL2999: m\n  2 | cd\n    |   ^')
    expect(mark(9, 12)).toBe('a:2:3: note KTL2999: m\n  2 | cd\n    |   ^')
    expect(mark(1, 4)).toBe('a:1:2: note KTL2999: m\n  1 | ab\n    |  ^')
  })

  test('colours are the same text with codes', () => {
    const diagnostic = at('D = Q', 'Q', { label: 'here', help: 'h', notes: ['n'] })
    const colored = renderDiagnostic(diagnostic, { color: true })
    expect(colored).toContain('\x1b[31;1merror KTL2999\x1b[0m')
    expect(colored.replace(/\x1b\[[0-9;]*m/g, '')).toBe(renderDiagnostic(diagnostic))
  })
})

test('a KtlError carries the first error’s code and the rendered text', () => {
  const diagnostics = [at('D = Q', 'D', { severity: 'warning', code: 'KTL2998' }), at('D = Q', 'Q')]
  const error = new KtlError(diagnostics, { operand: 'Q' })
  expect([error.code, error.operand, error.name]).toEqual(['KTL2999', 'Q', 'KtlError'])
  expect(error.message).toBe(diagnostics.map((d) => renderDiagnostic(d)).join('\n\n'))
})

test('fixes applied give a program without those errors', () => {
  const source = { name: 'a.ktl', text: 'kernal f(A: f32[m]) -> D: f32[m] {\n  D = A ** 2 + (A\n}\n' }
  const once = applyFixes(source, parseProgram(source).diagnostics)
  const twice = applyFixes({ name: 'a.ktl', text: once }, parseProgram({ name: 'a.ktl', text: once }).diagnostics)
  expect(twice).toBe('kernel f(A: f32[m]) -> D: f32[m] {\n  D = A ^ 2 + (A)\n}\n')
  expect(parseProgram({ name: 'a.ktl', text: twice }).diagnostics).toEqual([])
})

test('lineColumn counts from 1 over every kind of line break', () => {
  const source = { name: 'a', text: 'ab\ncd\r\nef\rgh' }
  expect([0, 2, 3, 5, 7, 9, 10, 12, 99, -1].map((o) => Object.values(lineColumn(source, o)).join(':'))).toEqual([
    '1:1', '1:3', '2:1', '2:3', '3:1', '3:3', '4:1', '4:3', '4:3', '1:1',
  ]) // prettier-ignore
  expect([1, 2, 3, 4, 5].map((line) => lineText(source, line))).toEqual(['ab', 'cd', 'ef', 'gh', ''])
})

test.each([
  ['kernal', ['kernel', 'epilogue'], 'kernel'],
  ['rleu', ['exp', 'relu', 'elu'], 'relu'],
  ['gelu_tahn', ['gelu', 'gelu_tanh'], 'gelu_tanh'],
  ['Alpha', ['alpha', 'beta'], 'alpha'],
  ['C', ['c', 'A'], 'c'],
  ['C', ['A', 'B'], null],
  ['tiles', ['tile', 'stages'], 'tile'],
  ['foo', ['bar', 'quux'], null],
  ['', ['a'], null],
] as const)('suggest %s among %j', (name, candidates, expected) => {
  expect(suggest(name, candidates)).toBe(expected)
})

test('the largest expression that is allowed prints', () => {
  const text = `kernel f(A: f32[m]) -> D: f32[m] {\n  D = A${'\n    + A'.repeat(2047)}\n}\n`
  const { program, diagnostics } = parseProgram({ name: 'a.ktl', text })
  expect(diagnostics).toEqual([])
  expect(printProgram(program)).toBe(text)
})
