/** Pieces that are kept from one edit to the next give what the parser makes of the whole text. */
import * as fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { KeptPieces } from '../../grammar/kept_pieces.ts'
import { parseProgram } from '../../grammar/parse.ts'

const TEXT = ['norms', 'scaled', 'grouped']
  .map((name) => readFileSync(new URL(`../../samples/${name}.ktl`, import.meta.url), 'utf8'))
  .join('\n')
// Brackets, what begins items, and what ends lines here and not there.
const PIECES = [
  ...['x', 'f16', '+ 1', '- - ', ',', '=', '->', '|', '"', '#', ';', '(', ')', '[', ']', '{', '}', '\n}\n', '\n)', ''],
  ...['kernel', 'kernel g(', '\nkernel ', 'approx ', 'precise\n', 'epilogue(', 'epilogue e(acc) -> D {', '\nschedule'],
  ...['schedule f, g on sm_90 {', 'schedule f on sm_90 {', '// a', '/// doc\n', ';///', '\n', '\r', '\u2028', '\f'],
]

test('whatever is edited where', () => {
  const edit = fc.record({ at: fc.nat(TEXT.length), removed: fc.nat(30), text: fc.constantFrom(...PIECES) })
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 8 }), (edits) => {
      const kept = new KeptPieces()
      let text = TEXT
      for (const { at, removed, text: piece } of edits) {
        text = text.slice(0, at) + piece + text.slice(at + removed)
        const source = { name: 'a.ktl', text }
        expect(kept.parse(source)).toEqual(parseProgram(source))
      }
    }),
    { numRuns: 60, seed: 5 },
  )
}, 30_000)

const kernel = (name: string, body = 'Y = X'): string =>
  `/// ${name}\nkernel ${name}(X: f32[n]) -> Y: f32[n] { ${body} }\n`

test.each(['\nkernel f', '\n\n', '', '// c', '\r\nkernel f(', ';', '\n;'])('short texts: %j', (text) => {
  for (const whole of [text, text + kernel('f'), kernel('f') + text]) {
    const source = { name: 'a.ktl', text: whole }
    expect(new KeptPieces().parse(source)).toEqual(parseProgram(source))
  }
})

test('only the piece that is edited is parsed again, and one behind it where it has mistakes', () => {
  const kept = new KeptPieces()
  const items = (text: string) => kept.parse({ name: 'a.ktl', text }).program.items
  const before = items(['f', 'g', 'h', 'i'].map((name) => kernel(name)).join(''))
  const changed = items(kernel('f') + kernel('g', 'Y = Z') + kernel('h') + kernel('i'))
  expect(changed.map((item, i) => item === before[i])).toEqual([true, false, true, true])
  const broken = items(kernel('f') + kernel('g', 'Y =  ') + kernel('h') + kernel('i'))
  expect(broken.map((item, i) => item === before[i])).toEqual([true, false, false, true])
  // One line more above: the trees are moved.
  const lower = items(`\n${['f', 'g', 'h', 'i'].map((name) => kernel(name)).join('')}`)
  expect(lower.map(({ span }) => span.start)).toEqual(before.map(({ span }) => span.start + 1))
})

test('a text with more mistakes than are shown is read as a whole', () => {
  const text = Array.from({ length: 60 }, (_, i) => kernel(`f${i}`, 'Y = )')).join('')
  const source = { name: 'a.ktl', text }
  const { diagnostics } = new KeptPieces().parse(source)
  expect(diagnostics).toEqual(parseProgram(source).diagnostics)
  expect(diagnostics.at(-1)!.code).toBe('KTL1018')
})
