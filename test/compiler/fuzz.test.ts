import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { bindKernel } from '../../compiler/bind.ts'
import { checkProgram } from '../../compiler/check/program.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import { parseProgram } from '../../grammar/parse.ts'
import { printProgram } from '../../grammar/printer.ts'
import { formKernel } from '../full/form_kernels.ts'
import * as arbitraries from '../grammar/arbitraries.ts'
import { readCases } from '../grammar/expect.ts'

/** Checks `text` and binds what is left of it; gives the number of programs bound. */
function checkAndBind(text: string): number {
  const source = { name: 'a.ktl', text }
  const kernels = checkProgram(parseProgram(source).program, source).program.kernels
  let bound = 0
  for (const kernel of kernels) {
    for (const types of kernel.typeChoices.slice(0, 3)) {
      verifyTensorProgram(bindKernel(kernel, { types }))
      bound++
    }
  }
  return bound
}

test('no syntax tree makes the checker throw', () => {
  fc.assert(
    fc.property(arbitraries.program, (program) => checkAndBind(printProgram(program)) >= 0),
    { numRuns: 200, seed: 1 },
  )
})

const read = (name: string): string => readFileSync(new URL(`./cases/${name}`, import.meta.url), 'utf8')
const samples = new URL('../../samples/', import.meta.url)
const texts = [
  ...readCases(read('programs.txt')).map((c) => c.input),
  ...readCases(read('tensor_programs.txt')).map((c) => c.input),
  ...read('language.ktl').split(/\n(?=kernel|\/\/\/)/),
  ...readdirSync(samples).flatMap((name) =>
    name.endsWith('.ktl') ? [readFileSync(new URL(name, samples), 'utf8')] : [],
  ),
  ...Array.from({ length: 40 }, (_, seed) => formKernel(seed).source),
]
const tokensOf = (text: string): string[] => text.match(/\d+x\d+|[\w.?]+|->|\n|[^\s]/g) ?? []
const words = [...new Set(texts.flatMap(tokensOf))]

test('programs with a few tokens changed are refused or bound to valid programs', () => {
  const edit = fc.record({
    at: fc.nat(),
    what: fc.constantFrom('replace', 'remove', 'insert'),
    word: fc.constantFrom(...words),
  })
  let bound = 0
  fc.assert(
    fc.property(fc.constantFrom(...texts), fc.array(edit, { minLength: 1, maxLength: 3 }), (text, edits) => {
      const tokens = tokensOf(text)
      for (const { at, what, word } of edits) {
        tokens.splice(at % (tokens.length + 1), what === 'insert' ? 0 : 1, ...(what === 'remove' ? [] : [word]))
      }
      bound += checkAndBind(tokens.join(' '))
    }),
    { numRuns: 4000, seed: 2 },
  )
  expect(bound).toBeGreaterThan(50)
})

test('what is read is what is printed, and what is printed is read again as the same', () => {
  for (const text of texts) {
    const source = { name: 'a.ktl', text }
    const { program, diagnostics } = parseProgram(source)
    if (diagnostics.length > 0) continue
    const printed = printProgram(program)
    const again = parseProgram({ name: 'a.ktl', text: printed })
    expect(again.diagnostics).toEqual([])
    expect(arbitraries.withoutSpans(again.program)).toEqual(arbitraries.withoutSpans(program))
    expect(printProgram(again.program)).toBe(printed)
  }
})
