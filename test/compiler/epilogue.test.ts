import { describe, expect, test } from 'vitest'
import type { KtlError } from '../../grammar/diagnostics.ts'
import { renderDiagnostics } from '../../grammar/render.ts'
import { bindKernel } from '../../compiler/bind.ts'
import { inspectEpilogue, resolveEpilogueAxes, type EpilogueBinding } from '../../compiler/epilogue.ts'
import { printTensorProgram } from '../../compiler/ir/print_tensor.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import { dedent } from '../grammar/expect.ts'
import { checked, codeOf, epilogue, family, GEMM, scalar, tensor } from './helpers.ts'

const gemm = family(GEMM)
const types = { T: 'f16', O: 'f32' } as const
const bind = (text: string, bindings: Record<string, EpilogueBinding> = {}) => {
  const program = bindKernel(gemm, { types }, epilogue(text, bindings))
  verifyTensorProgram(program)
  return program
}

describe('the three spellings are one thing', () => {
  const bindings = { alpha: scalar, C: tensor('f16', 'm', 'n') }
  const texts = [
    'relu(acc*alpha+C)',
    'D = relu(acc*alpha+C)',
    'x = acc*alpha\nD = relu(x + C); return D',
    'def f(accum, alpha, C):\n  D = relu(accum * alpha + C)\n  return D',
    'def f(a, C, alpha=2.0): return relu(a*alpha + C)',
  ]
  test.each(texts)('%s', (text) => {
    const order = (lines: string): string[] => lines.split('\n').filter((line) => line.includes('%'))
    expect(order(printTensorProgram(bind(text, bindings)))).toEqual(
      order(printTensorProgram(bind(texts[0]!, bindings))),
    )
  })
})

test('operands, scalars and extra outputs join the program', () => {
  const bindings = { alpha: scalar, s: { kind: 'element', dtype: 'f32' }, C: tensor('bf16', 'm', 'n'), bias: tensor('f32', 'm'), F: tensor('f16', 'l', 'm', 'n') } as const // prettier-ignore
  const program = bind('F = acc*alpha + C; D = relu(F * s + bias[m]); return D, F', bindings)
  expect(printTensorProgram(program)).toBe(
    dedent(`
      program gemm[l?, m, k, n] {
        input A: f16[l, m, k]
        input B: f16[l, k, n]
        input C: bf16[m, n] epilogue
        input bias: f32[m] epilogue
        output D: f32[l, m, n]
        output F: f16[l, m, n] epilogue
        scalar alpha: f32 epilogue
        scalar s: f32 by pointer epilogue
        %0: f32[l, m, k] = input A
        %1: f32[l, k, n] = input B
        %2: f32[l, m, n] = contract[k] %0, %1 in f32
        %3: f32[] = scalar alpha
        %4: f32[m, n] = input C
        %5: f32[l, m, n] = fma %2, %3, %4
        %6: f32[] = scalar s
        %7: f32[m] = input bias
        %8: f32[l, m, n] = fma %5, %6, %7
        %9: f32[l, m, n] = relu %8
        store D <- %9
        store F <- %5
      }
    `) + '\n',
  )
})

test('roles l, m, n align at the right with the axes of the output, whatever they are called', () => {
  const kernel = family('kernel f(A: f16[p, q], B: f16[q, m]) -> D: f16[p, m] { D = epilogue(sum[q](A * B)) }')
  const program = bindKernel(
    kernel,
    {},
    epilogue('acc + row[m] + C', { row: tensor('f32', 'm'), C: tensor('f32', 'm', 'n') }),
  )
  verifyTensorProgram(program)
  const axes = Object.fromEntries(program.operands.map((operand) => [operand.name, operand.axes]))
  expect(axes).toMatchObject({ row: ['p'], C: ['p', 'm'] })
})

test('a name that the kernel declares too gets another in the program', () => {
  const program = bind('acc + A', { A: tensor('f32', 'n') })
  expect(program.operands.map((operand) => operand.name)).toEqual(['A', 'B', 'A_', 'D'])
})

test('a reduction is an output of its own, or used again', () => {
  const program = bind('amax[m] = max[n](abs(acc)); D = acc; return D, amax', { amax: tensor('f32', 'm') })
  expect(program.outputs.map((output) => [output.operand, output.value.kind])).toEqual([['D', 'contract'], ['amax', 'reduce']]) // prettier-ignore
  expect(program.operands.find((operand) => operand.name === 'amax')!.axes).toEqual(['l', 'm'])
  const again = bind('x = max[n](abs(acc)); D = acc / x')
  verifyTensorProgram(again)
  expect(again.outputs[0]!.value).toMatchObject({
    op: 'div',
    args: [{ kind: 'contract' }, { kind: 'reduce', axes: ['l', 'm'] }],
  })
})

test('named epilogues fill the slot like strings', () => {
  const text = 'epilogue scale(acc, C, alpha: f32 = 2) -> (D, F) { F = acc * alpha; D = F + C }\n' + GEMM
  const { kernels, epilogues, source } = checked(text)
  const bindings = { C: tensor('f32', 'n'), F: tensor('f32', 'm', 'n') }
  const filled = { declaration: epilogues.get('scale')!, source, bindings, axes: ['m', 'n'] }
  const program = bindKernel(kernels[0]!, { types }, filled)
  expect(program.scalars).toEqual([
    { name: 'alpha', dtype: 'f32', pointer: false, defaultValue: 2, fromEpilogue: true },
  ])
  // F has the optional batch axis of its value, as D has: callers leave it out of both.
  expect(program.operands.find((operand) => operand.name === 'F')!.axes).toEqual(['l', 'm', 'n'])
  const short = { ...filled, bindings: { ...bindings, F: tensor('f32', 'n') } }
  expect(codeOf(() => bindKernel(kernels[0]!, { types }, short))).toBe('KTL2007')
})

test.each([
  ['acc * alpha', {}, 'KTL2023'],
  ['relu(acc)', { alpha: scalar }, 'KTL2024'],
  ['F = acc * 2; D = relu(F); return D, F', {}, 'KTL2030'],
  ['F = acc * 2; D = relu(F)', { F: tensor('f32', 'l', 'm', 'n') }, 'KTL2031'],
  ['D = acc; D = D * 2', {}, 'KTL2010'],
  ['acc * s[m] + s[n]', { s: tensor('f32', 'm') }, 'KTL2017 KTL2026'],
  ['x = acc * 2', {}, 'KTL2022'],
  ['return relu(acc), acc * 2', {}, 'KTL2034'],
  ['rleu(acc)', {}, 'KTL2004'],
  ['acc && acc', {}, 'KTL2210'],
  ['acc + x[q]', { x: tensor('f32', 'm') }, 'KTL2026'],
  ['acc[m] * 2', {}, 'KTL2026'],
  ['acc + x[m]', { x: tensor('f32', 'm', 'n') }, 'KTL2026'],
] as const)('%s with %o: %s', (text, bindings, codes) => {
  expect(codeOf(() => bind(text, bindings))).toBe(codes)
})

test('diagnostics point into the string', () => {
  const error = (() => {
    try {
      bind('relu(acc * alhpa)', { alpha: scalar })
    } catch (e) {
      return e as KtlError
    }
    return null
  })()
  expect(renderDiagnostics(error!.diagnostics)).toBe(
    dedent(`
      <epilogue>:1:12: error KTL2023: \`alhpa\` is not bound to a tensor or number
        1 | relu(acc * alhpa)
          |            ^^^^^ no binding
        help: did you mean \`alpha\`?
        fix: write \`alpha\`
        1 | relu(acc * alpha)

      <epilogue>: error KTL2024: the epilogue does not use \`alpha\`
        help: it uses \`alhpa\`
    `),
  )
})

test('inspectEpilogue tells inputs, outputs and annotations', () => {
  const { declaration, source } = epilogue('F = acc*alpha + bias[m]; D = relu(F); return D, F')
  expect(inspectEpilogue(declaration, source)).toMatchObject({
    accumulator: ['acc', 'accum'],
    inputs: [{ name: 'alpha', axes: null }, { name: 'bias', axes: ['m'] }],
    slot: 'D', outputs: [{ name: 'F', axes: null }], locals: [],
  }) // prettier-ignore
})

describe('axes of operands bind by position, never by size', () => {
  const extents = { l: 3, m: 64, n: 64 }
  const axesOf = (shape: number[], axes: string[] | null = null, output = ['l', 'm', 'n']) =>
    resolveEpilogueAxes({ name: 'x', axes }, shape, output, extents)
  test.each([
    [[64], null, ['n']],
    [[64, 1], null, ['m', null]],
    [[1, 64], null, [null, 'n']],
    [[3, 1, 1], null, ['l', null, null]],
    [[64, 64], null, ['m', 'n']],
    [[3, 64, 64], null, ['l', 'm', 'n']],
    [[1], null, [null]],
    [[], null, []],
    [[64], ['m'], ['m']],
    [[64, 1], ['m'], ['m', null]],
    [
      [3, 64],
      ['l', 'n'],
      ['l', 'n'],
    ],
    [[1, 1, 64, 64], null, [null, null, 'm', 'n']],
  ] as const)('%o as %o', (shape, annotation, expected) => {
    expect(axesOf([...shape], annotation && [...annotation])).toEqual(expected)
  })
  test.each([[[65]], [[3, 64]], [[2, 3, 64, 64]], [[64, 3]]])('%o does not fit', (shape) => {
    expect(codeOf(() => axesOf(shape))).toBe('KTL2033')
  })
  test('an annotation must be of the output and fit', () => {
    expect(codeOf(() => axesOf([64], ['q']))).toBe('KTL2033')
    expect(codeOf(() => axesOf([3], ['m']))).toBe('KTL2033')
    expect(codeOf(() => axesOf([64, 64], ['m']))).toBe('KTL2033')
  })
})
