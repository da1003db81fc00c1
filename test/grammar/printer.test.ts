import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseEpilogue, parseProgram } from '../../grammar/parse.ts'
import { printEpilogue, printExpr, printProgram } from '../../grammar/printer.ts'
import { renderDiagnostics } from '../../grammar/render.ts'
import * as arbitrary from './arbitraries.ts'

const { withoutSpans } = arbitrary
const format = (text: string): string => {
  const { program, diagnostics } = parseProgram({ name: 'a.ktl', text })
  expect(renderDiagnostics(diagnostics)).toBe('')
  return printProgram(program)
}

test('programs: parse(print(tree)) is the tree, print(parse(print(tree))) the text', () => {
  fc.assert(
    fc.property(arbitrary.program, (tree) => {
      const text = printProgram(tree)
      const { program, diagnostics } = parseProgram({ name: 'a.ktl', text })
      expect(renderDiagnostics(diagnostics)).toBe('')
      expect(withoutSpans(program)).toEqual(tree)
      expect(printProgram(program)).toBe(text)
    }),
    { numRuns: 300 },
  )
})

test('epilogue strings: the same, in their own spelling', () => {
  fc.assert(
    fc.property(arbitrary.epilogueString, (tree) => {
      const text = printEpilogue(tree)
      const { epilogue, diagnostics } = parseEpilogue({ name: '<epilogue>', text })
      expect(renderDiagnostics(diagnostics)).toBe('')
      expect(withoutSpans(epilogue)).toEqual(tree)
      expect(printEpilogue(epilogue)).toBe(text)
    }),
    { numRuns: 300 },
  )
})

test('expressions carry the parentheses that precedence needs, and no others', () => {
  fc.assert(
    fc.property(arbitrary.expr, (tree) => {
      const text = printExpr(tree)
      const { epilogue } = parseEpilogue({ name: '<epilogue>', text })
      const [statement] = epilogue.body
      expect(statement?.kind === 'expressionStatement' && withoutSpans(statement.value)).toEqual(tree)
    }),
    { numRuns: 500 },
  )
})

test('a header longer than 120 columns takes a line for each operand', () => {
  const params = Array.from({ length: 6 }, (_, i) => `operand_${i}: f16[m, k] | f16[k, m]`)
  const head = `kernel wide(${params.join(', ')}) -> D: f16[m, k] {}`
  expect(format(head)).toBe(`kernel wide(\n${params.map((p) => `  ${p}`).join(',\n')}\n) -> D: f16[m, k] {}\n`)
})
