/** Names of numpy, PyTorch and C: each leads to something that the language has. */
import { expect, test } from 'vitest'
import { FORMULAS, SAME_DTYPE, SAME_FUNCTION, SAME_REDUCTION } from '../../grammar/aliases.ts'
import { DTYPE_NAMES, FUNCTION_NAMES, REDUCTION_NAMES } from '../../grammar/vocabulary.ts'
import { diagnosticsOf } from '../compiler/helpers.ts'

const program = (text: string): string =>
  `kernel f(x: f32[m, n], y: f32[m, n], A: f16[m, k], B: f16[k, n], t: f32, alpha: f32) -> D: f32[m, n] { D = ${text} }`
const found = (text: string) =>
  diagnosticsOf({ name: 'a.ktl', text: program(text) }).filter((d) => d.severity === 'error')

test('are no names of ours, and stand for names of ours', () => {
  const tables = [[SAME_FUNCTION, FUNCTION_NAMES], [SAME_DTYPE, DTYPE_NAMES], [SAME_REDUCTION, REDUCTION_NAMES]] as const // prettier-ignore
  for (const [table, ours] of tables) for (const name of table.values()) expect(ours).toContain(name)
  for (const name of [...SAME_FUNCTION.keys(), ...SAME_DTYPE.keys(), ...FORMULAS.keys()])
    expect([...FUNCTION_NAMES, ...DTYPE_NAMES]).not.toContain(name)
})

test.each([...FORMULAS])('%s: %s', (name, formula) => {
  const [unknown] = found(`${name}(x)`)
  expect(unknown).toMatchObject({ code: 'KTL2004', help: `write \`${formula}\`` })
  const reduces = /^(max|min)\[n\]/.test(formula)
  const value = reduces ? `x * 0 + t` : /[=<>!&|]/.test(formula) && !formula.startsWith('select') ? null : formula
  if (value !== null) expect(found(value)).toEqual([])
})

test.each([
  ['where(x > 0, x, y)', 'select', 'D = select(x > 0, x, y)'],
  ['maximum(x, y)', 'max', 'D = max(x, y)'],
  ['absolute(x)', 'abs', 'D = abs(x)'],
  ['power(x, 2)', 'pow', 'D = pow(x, 2)'],
  ['remainder(x, y)', 'mod', 'D = mod(x, y)'],
  ['float16(x)', 'f16', 'D = f16(x)'],
])('%s: did you mean %s?', (text, name, fixed) => {
  const [diagnostic] = found(text)
  expect(diagnostic).toMatchObject({ code: 'KTL2004', help: `did you mean \`${name}\`?` })
  const { span, replacement } = diagnostic!.fix!
  const before = program(text)
  const after = before.slice(0, span.start) + replacement + before.slice(span.end)
  expect(after).toContain(fixed)
  expect(diagnosticsOf({ name: 'a.ktl', text: after }).filter((d) => d.severity === 'error')).toEqual([])
})

test('types and reductions too', () => {
  const types = diagnosticsOf({ name: 'a.ktl', text: 'kernel f(A: float16[m, n]) -> D: f16[m] { D = amax[n](A) }' })
  expect(types.map((d) => [d.code, d.fix?.replacement])).toEqual([
    ['KTL2201', 'f16'],
    ['KTL2303', 'max'],
  ])
})
