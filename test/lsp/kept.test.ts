/** Kernels that are kept from one edit to the next fare as if the whole text were checked anew. */
import * as fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { expect, test, vi } from 'vitest'
import { TARGETS } from '../../compiler/targets/index.ts'
import { checkSource, KeptText } from '../../runtime/programs/check_source.ts'

const TEXT = ['norms', 'scaled', 'residual', 'grouped']
  .map((name) => readFileSync(new URL(`../../samples/${name}.ktl`, import.meta.url), 'utf8'))
  .join('\n')
const PIECES = [
  'X',
  'f32',
  'm',
  ' ',
  '\n',
  '}',
  '(',
  'sum[k](A * B)',
  '/// doc\n',
  'epilogue e(acc) -> D { D = acc + Q }\n',
  '',
]

test('whatever is edited where', () => {
  const edit = fc.record({ at: fc.nat(TEXT.length), removed: fc.nat(12), text: fc.constantFrom(...PIECES) })
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 6 }), (edits) => {
      const kept = new KeptText()
      let text = TEXT
      for (const { at, removed, text: piece } of edits) {
        text = text.slice(0, at) + piece + text.slice(at + removed)
        const source = { name: 'a.ktl', text }
        const [ours, fresh] = [checkSource(source, kept), checkSource(source)]
        expect(ours.diagnostics).toEqual(fresh.diagnostics)
        expect(ours.program.kernels.map(({ name }) => name)).toEqual(fresh.program.kernels.map(({ name }) => name))
      }
    }),
    { numRuns: 40, seed: 7 },
  )
}, 30_000)

test('a kernel whose text is the same is the same object; an epilogue that changes is seen', () => {
  const kept = new KeptText()
  const check = (text: string) => checkSource({ name: 'a.ktl', text }, kept).program.kernels
  const kernels = 'kernel f(X: f32[n]) -> Y: f32[n] { Y = e(X) }\nkernel g(X: f32[n]) -> Y: f32[n] { Y = X }'
  const [f, g] = check(`epilogue e(acc) -> D { D = acc }\n${kernels}`)
  const [f2, g2] = check(`\n\nepilogue e(acc) -> D { D = acc }\n${kernels}`)
  expect([f2!.declaration, g2!.declaration]).toEqual([f!.declaration, g!.declaration])
  expect(f2!.declaration).toBe(f!.declaration)
  expect(check(`epilogue e(acc) -> D { D = acc + 1 }\n${kernels}`)[0]!.declaration).not.toBe(f!.declaration)
})

test('an edit that hides kernels, and the one that takes it back, check no other kernel again', () => {
  const kept = new KeptText()
  const check = (text: string) =>
    new Map(
      checkSource({ name: 'a.ktl', text }, kept).program.kernels.map((family) => [family.name, family.declaration]),
    )
  const kernel = (name: string) => `kernel ${name}(X: f32[n]) -> Y: f32[n] { Y = X }\n`
  const first = check(kernel('f') + kernel('g') + kernel('h'))
  const broken = check(kernel('f') + kernel('g').replace('kernel', 'kern') + kernel('h'))
  expect([...broken.keys()]).toEqual(['f', 'h'])
  expect(broken.get('h')).toBe(first.get('h'))
  const mended = check(kernel('f') + kernel('g') + kernel('h'))
  for (const name of ['f', 'g', 'h']) expect(mended.get(name)).toBe(first.get(name))
})

test('a name that becomes that of a kernel or an epilogue is seen', () => {
  const kept = new KeptText()
  const g = 'kernel g(X: f32[n]) -> Y: f32[n] { Y = later(X) }\n'
  const others = [
    '',
    'kernel later(X: f32[n]) -> Y: f32[n] { Y = X }\n',
    'epilogue later(acc) -> D { D = acc }\n',
    'epilogue latter(acc) -> D { D = acc }\n',
  ]
  for (const other of [...others, ...others]) {
    const source = { name: 'a.ktl', text: other + g }
    expect(checkSource(source, kept).diagnostics).toEqual(checkSource(source).diagnostics)
  }
})

test('the designs of a schedule are worked out again only when it changes', () => {
  const kept = new KeptText()
  const kernel = 'kernel f(A: f16[m, k], B: f16[k, n]) -> D: f16[m, n] { D = sum[k](A * B) }\n'
  const spies = TARGETS.entries.map((target) => vi.spyOn(target, 'designs'))
  /** How often a target was asked, and what the diagnostics are. */
  const check = (tile: string, before = '') => {
    const source = { name: 'a.ktl', text: `${before}${kernel}schedule f on sm_90 { tile ${tile} }\n` }
    for (const spy of spies) spy.mockClear()
    const { diagnostics } = checkSource(source, kept)
    const asked = spies.reduce((sum, spy) => sum + spy.mock.calls.length, 0)
    expect(diagnostics).toEqual(checkSource(source).diagnostics)
    return { asked, codes: diagnostics.map(({ code }) => code) }
  }
  expect(check('128x128')).toEqual({ asked: 1, codes: [] })
  expect(check('128x128', '// moved\n')).toEqual({ asked: 0, codes: [] })
  expect(check('128x256')).toEqual({ asked: 1, codes: [] })
  expect(check('128x128')).toEqual({ asked: 0, codes: [] })
  vi.restoreAllMocks()
})
