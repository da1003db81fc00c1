/** Kernels of every class as tensor programs: what the checker makes of them, before and after the passes. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { bindKernel } from '../../compiler/bind.ts'
import { typed } from '../../compiler/check/choices.ts'
import { evaluate } from '../../compiler/evaluate/evaluate.ts'
import { countChoices } from '../../compiler/family.ts'
import { printTensorProgram } from '../../compiler/ir/print_tensor.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import { nodesOf } from '../../compiler/passes/graph.ts'
import { canonicalise } from '../../compiler/pipeline.ts'
import { readCases } from '../grammar/expect.ts'
import { diagnosticsOf, epilogue, family, program, tensor } from './helpers.ts'

const cases = readCases(readFileSync(new URL('./cases/tensor_programs.txt', import.meta.url), 'utf8'))

describe.each(cases)('$kind', ({ input, expected }) => {
  test('has no mistakes, and the tensor program of its first choice', () => {
    const found = diagnosticsOf({ name: 'a.ktl', text: input })
    expect(found.filter(({ severity }) => severity !== 'note')).toEqual([])
    expect(printTensorProgram(program(input)).trimEnd()).toBe(expected)
  })

  test('is well formed under every choice, after every pass', () => {
    const kernel = family(input)
    for (const types of kernel.typeChoices) {
      const bound = bindKernel(kernel, { types })
      verifyTensorProgram(bound)
      const { outputs, axes } = typed(kernel, types)
      const unoptimised = { ...bound, outputs, axes }
      verifyTensorProgram(unoptimised)
      const again = canonicalise(unoptimised, verifyTensorProgram)
      expect(printTensorProgram(again)).toBe(printTensorProgram(bound))
    }
  })
})

const remarks = (text: string): string[] => diagnosticsOf({ name: 'a.ktl', text }).map(({ code }) => code)
const kinds = (value: string, operands = 'A: f16[m, k], B: f16[k, n], u: f16[k], r: f32[m]'): string => {
  const text = `kernel f(${operands}) -> D: f32[m, n] { D = ${value} }`
  const sums = nodesOf(program(text)).filter(({ kind }) => kind === 'contract' || kind === 'reduce')
  return [...sums.map(({ kind }) => kind), ...remarks(text).filter((code) => code.startsWith('KTL23'))].join(' ')
}

test.each([
  ['sum[k](A * B)', 'contract'],
  ['sum[k](relu(A) * B)', 'contract KTL2306'],
  ['sum[k](A * u * B)', 'contract KTL2306'],
  ['sum[k](A * r * B)', 'contract'],
  ['sum[k](A / r * B)', 'contract'],
  ['sum[k](-A * B)', 'contract'],
  ['sum[k](A * B + 1)', 'reduce'],
  ['sum[k](A * B * (A + B))', 'reduce KTL2305'],
  ['sum[k](softmax[k](A) * B)', 'reduce reduce contract'],
  // A vector may be computed on the way into a contraction, a matrix beside a vector not.
  ['sum[k](exp(u) * B)', 'contract KTL2306'],
  ['sum[k](exp(A) * u)', 'reduce'],
  ['sum[k](A * A)', 'reduce'],
])('%s is computed by: %s', (value, expected) => {
  expect(kinds(value)).toBe(expected)
})

test('sums over ragged axes: of each group where the target has the group, of all rows elsewhere', () => {
  const operands = 'X: f32[t, c] ragged t by off as g, w: f32[g], off: i32[g]'
  const axesOf = (output: string, body: string): string[] =>
    nodesOf(program(`kernel f(${operands}) -> D: f32[${output}] { ${body} }`)).flatMap((node) =>
      node.kind === 'reduce' ? [`${node.fn}[${node.over}] [${node.axes}]`] : [],
    )
  expect(axesOf('c', 'D = sum[t](X)')).toEqual(['sum[t] [c]'])
  expect(axesOf('g, c', 'D = sum[t](X)')).toEqual(['sum[t] [c,g]'])
  expect(axesOf('g, c', 's = sum[t](X); D = s')).toEqual(['sum[t] [c,g]'])
  expect(axesOf('g, c', 's[c] = sum[t](X); D = s')).toEqual(['sum[t] [c]'])
  expect(axesOf('g, c', 'D = sum[t](X * w)')).toEqual(['sum[t] [c,g]'])
  expect(axesOf('g', 'D = sum[c](sum[t](X))')).toEqual(['sum[t] [c,g]', 'sum[c] [g]'])
  expect(axesOf('c', 'D = sum[g](max[t](X))')).toEqual(['max[t] [c,g]', 'sum[g] [c]'])
  expect(axesOf('t, c', 's[g, c] = mean[t](X); D = X - s')).toEqual(['mean[t] [c,g]'])
})

test('an epilogue of a grouped kernel may have an operand of each group', () => {
  const kernel = family(
    'kernel f(A: bf16[t, k], B: bf16[g, k, n], off: i32[g]) -> D: bf16[t, n] ragged t by off as g { D = epilogue(sum[k](A * B)) }',
  )
  const bound = bindKernel(kernel, {}, { ...epilogue('acc + bias[g, n]', { bias: tensor('f32', 'g', 'n') }), axes: ['t', 'n'] })
  verifyTensorProgram(bound)
  expect(bound.outputs[0]!.value).toMatchObject({ op: 'add', axes: ['t', 'g', 'n'] })
}) // prettier-ignore

test('an epilogue may fill the slot of a stored output; parts stay behind their operand', () => {
  const kernel = family('kernel f(A: bf16[m, k], B: bf16[k, n]) -> D: e4m3[m, n] * f32[m, n/128] * f32 { D = epilogue(sum[k](A * B)) }') // prettier-ignore
  const bound = bindKernel(kernel, {}, { ...epilogue('acc + C', { C: tensor('f32', 'n') }), axes: ['m', 'n'] })
  verifyTensorProgram(bound)
  expect(bound.operands.map(({ name }) => name)).toEqual(['A', 'B', 'C', 'D', 'D.scale'])
  expect(bound.scalars.map(({ name, partOf }) => [name, partOf])).toEqual([
    ['D.global', 'D'],
    ['D.norm', 'D'],
  ])
})

test.each([
  ['f32 | bf16', 'S[m, k/32]', 4],
  ['f32 | ue8m0', 'S[m, k/32]', 6],
  ['ue8m0 | ue4m3', 'S[m, k/32]', 8],
  ['ue8m0 | ue4m3', 'S[k/32]', 4],
])('scales of %s[%s]: strides are free, those of one byte lie in tiles as well', (types, scale, choices) => {
  const other = scale.replace('m, k/32', 'k/32, m')
  const text = `kernel f<S: ${types}>(A: e4m3[m, k] * ${scale} | e4m3[k, m] * ${other}) -> D: f32[m, k] { D = A }`
  expect(countChoices(family(text))).toBe(choices)
})

test('softmax, logsumexp and var at their edges', () => {
  const kernel = program(
    'kernel f(x: f32[m, n]) -> (P: f32[m, n], L: f32[m], V: f32[m]) { P = softmax[n](x); L = logsumexp[n](x); V = var[n](x) }',
  )
  const rows = [
    [1, 1, 1, 1],
    [0, -Infinity, -Infinity, -Infinity],
    [-Infinity, -Infinity, -Infinity, -Infinity],
    [Infinity, 0, 0, 0],
    [NaN, 0, 0, 0],
    [1000, 1000, -1000, -1000],
  ]
  const { P, L, V } = evaluate(kernel, { x: { data: rows.flat(), shape: [6, 4] } }, {}, { m: 6, n: 4 })
  expect([...P!.data]).toEqual([
    0.25, 0.25, 0.25, 0.25, 1, 0, 0, 0, 0, 0, 0, 0, NaN, NaN, NaN, NaN, NaN, NaN, NaN, NaN, 0.5, 0.5, 0, 0,
  ]) // prettier-ignore
  const [log4, log2] = [4, 2].map((n) => Math.fround(Math.log(n))) as [number, number]
  expect([...L!.data]).toEqual([Math.fround(1 + log4), 0, -Infinity, NaN, NaN, Math.fround(1000 + log2)])
  expect([...V!.data]).toEqual([0, NaN, NaN, NaN, NaN, 1e6])
  const none = evaluate(kernel, { x: { data: [], shape: [1, 0] } }, {}, { m: 1, n: 0 })
  expect([none.P!.data.length, none.L!.data[0], none.V!.data[0]]).toEqual([0, -Infinity, NaN])
})
