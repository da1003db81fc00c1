/** Nothing that can be typed makes the parser, the printer or the renderer throw. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Diagnostic } from '../../grammar/diagnostics.ts'
import { parseEpilogue, parseProgram } from '../../grammar/parse.ts'
import { printEpilogue, printProgram } from '../../grammar/printer.ts'
import { renderDiagnostics } from '../../grammar/render.ts'
import * as arbitrary from './arbitraries.ts'
import { FULL, part } from '../cases_of.ts'
import { workOf } from '../work.ts'

const FRAGMENTS = [
  'kernel', 'epilogue', 'schedule', 'on', 'return', 'ragged', 'by', 'as', 'approx', 'precise', 'def', 'size', 'f', 'A', 'D', 'f16',
  'm', '1', '0.5', '1e999', '0x1f', '128x64', '2cta', '(', ')', '[', ']', '{', '}', '<', '>', '->', ':', ',', ';', '=', '==', '+',
  '-', '*', '**', '/', '//', '///', '#', '^', '|', '||', '&&', '!', '?', '.', '\n', '\r\n', ' ', '\t', '"', "'", '"""', '\\\n', '\0', 'é', '😀',
  'kernel f(A: f16[m]) -> D: f16[m] {', 'D = A', 'epilogue(acc)', 'sum[k](A * B)', 'schedule f on simt { tile 16x16', 'def f(acc):',
] // prettier-ignore

function check(text: string): void {
  const program = parseProgram({ name: 'a.ktl', text })
  const epilogue = parseEpilogue({ name: '<epilogue>', text })
  for (const diagnostics of [program.diagnostics, epilogue.diagnostics]) {
    renderDiagnostics(diagnostics, { color: true })
    for (const diagnostic of diagnostics) expectPlaced(diagnostic, text)
  }
  printProgram(program.program)
  printEpilogue(epilogue.epilogue)
  if (program.diagnostics.length === 0) {
    const printed = printProgram(program.program)
    expect(printProgram(parseProgram({ name: 'b.ktl', text: printed }).program)).toBe(printed)
  }
}

function expectPlaced({ code, span, message, labels, fix }: Diagnostic, text: string): void {
  expect(code).toMatch(/^KTL10/)
  expect(message).not.toMatch(/undefined|NaN|null|\[object/)
  for (const place of [span, ...(labels ?? []).map((label) => label.span), fix?.span]) {
    if (place === undefined) continue
    expect(place !== null && place.start >= 0 && place.start <= place.end && place.end <= text.length).toBe(true)
  }
}

test('random characters', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 200 }), check), { numRuns: 400 })
  fc.assert(fc.property(fc.string({ unit: 'binary-ascii', maxLength: 200 }), check), { numRuns: 400 })
})

test('random tokens', () => {
  const soup = fc.array(fc.constantFrom(...FRAGMENTS), { maxLength: 60 })
  fc.assert(
    fc.property(soup, fc.constantFrom('', ' '), (parts, between) => check(parts.join(between))),
    { numRuns: FULL ? 1500 : 400 },
  )
})

test('valid programs with something cut out, doubled or put in', () => {
  const edit = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    length: fc.nat(6),
    insert: fc.constantFrom('', ...FRAGMENTS),
  })
  const edited = fc
    .tuple(arbitrary.program.map(printProgram), fc.array(edit, { minLength: 1, maxLength: 3 }))
    .map(([text, edits]) =>
      edits.reduce((t, { at, length, insert }) => {
        const start = Math.floor(at * t.length)
        return t.slice(0, start) + insert + t.slice(start + length)
      }, text),
    )
  fc.assert(fc.property(edited, check), { numRuns: FULL ? 600 : 150 })
})

/** Texts that once took time quadratic in their length, and their like. */
const MONOTONOUS = [
  '(', ')', '-', '^', 'a+', 'kernel ', 'kernel f(', 'x=', '@', '@ ', '// x\n', '/// x\n', '\n', ';', '"', '9', 'a', '{}', '[]', 'x\n',
  'kernel f() -> D: f {}\n', 'f(,', '.5', '|',
] // prettier-ignore

const SHOWN = part(MONOTONOUS, [], ['(', '// x\n', 'kernel f() -> D: f {}\n'])

test.each(SHOWN)('many %j take work in proportion', (unit) => {
  const work = (length: number): number => {
    const text = unit.repeat(length / unit.length)
    return workOf(() => {
      check(text)
      check(`kernel f(A: f32[m]) -> D: f32[m] { D = A\n${text}}`)
    })
  }
  const most = FULL ? 1 << 16 : 1 << 13
  // Quadratic would be 64 times as much.
  expect(work(most) / work(most / 8)).toBeLessThan(12)
})
