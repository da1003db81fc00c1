import { expect, test } from 'vitest'
import fc from 'fast-check'
import { bindKernel } from '../../compiler/bind.ts'
import { typed } from '../../compiler/check/choices.ts'
import { evaluate } from '../../compiler/evaluate/evaluate.ts'
import { shareCommonSubexpressions } from '../../compiler/passes/cse.ts'
import { foldConstants } from '../../compiler/passes/fold.ts'
import { factorScales } from '../../compiler/passes/factor_scales.ts'
import { formFma } from '../../compiler/passes/fma.ts'
import { nodesOf } from '../../compiler/passes/graph.ts'
import { canonicalise } from '../../compiler/pipeline.ts'
import { printTensorProgram } from '../../compiler/ir/print_tensor.ts'
import type { Node, TensorProgram } from '../../compiler/ir/tensor.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import { family, program } from './helpers.ts'

/** A kernel over x[i], y[i] and scalar s, before any pass. */
function unoptimised(value: string): TensorProgram {
  const kernel = family(`kernel f(x: f32[i], y: f32[i], s: f32) -> D: f32[i] { D = ${value} + (x + y) * s }`)
  return { ...bindKernel(kernel), outputs: typed(kernel, {}).outputs }
}

const operations = (value: string): string[] =>
  nodesOf(program(`kernel f(x: f32[i], y: f32[i], z: f32[i]) -> D: f32[i] { D = ${value} }`))
    .filter((node) => node.kind === 'apply' || node.kind === 'const')
    .map((node) => (node.kind === 'apply' ? node.op : `${(node as Node & { value: number }).value}`))

test.each([
  ['x*y + z', ['fma']],
  ['x + y*z', ['fma']],
  ['x*y - z', ['neg', 'fma']],
  ['x - y*z', ['neg', 'fma']],
  ['x*y + y*z', ['mul', 'fma']],
  ['(x*y + z) * (x*y)', ['mul', 'add', 'mul']],
  ['x*y + x*y', ['mul', 'add']],
  ['x*2 + 1', ['2', '1', 'fma']],
])('fma rule: %s', (value, expected) => {
  expect(operations(value)).toEqual(expected)
})

test('fma rule: what is added to a sum whose scales go behind it', () => {
  const text = (value: string): string =>
    `kernel f(A: e4m3[m, k] * f32[m], B: e4m3[n, k] * f32[n], bias: f32[n]) -> D: f32[m, n] { D = ${value} }`
  const operationsBehind = (value: string): string[] =>
    nodesOf(factorScales(program(text(value)))!.program).flatMap((node) => (node.kind === 'apply' ? [node.op] : []))
  expect(operationsBehind('sum[k](A * B) + bias')).toEqual(['mul', 'fma'])
  expect(operationsBehind('relu(sum[k](A * B))')).toEqual(['mul', 'mul', 'relu'])
})

test.each([
  ['x * 1', []],
  ['x + 0', ['0', 'add']],
  ['x - 0', []],
  ['2 * 3 + x', ['6', 'add']],
  ['x / 1', []],
  ['-(-x)', []],
  ['exp(0.0) * x', ['0', 'exp', 'mul']],
  ['select(1 < 2, x, y)', []],
  ['x^2', ['mul']],
])('folding keeps bits: %s', (value, expected) => {
  expect(operations(value)).toEqual(expected)
})

const expression: fc.Arbitrary<string> = fc.letrec<{ e: string }>((tie) => ({
  e: fc.oneof(
    { maxDepth: 5, depthSize: 'medium' },
    fc.constantFrom('x', 'y', 's', '0', '1', '2', '0.5', '-1.0', 'x*y'),
    fc.tuple(tie('e'), fc.constantFrom('+', '-', '*', '/'), tie('e')).map(([a, op, b]) => `(${a} ${op} ${b})`),
    fc.tuple(fc.constantFrom('relu', 'abs', 'neg', 'exp', 'f16', 'sqrt'), tie('e')).map(([f, a]) => `${f}(${a})`),
    fc.tuple(fc.constantFrom('min', 'max'), tie('e'), tie('e')).map(([f, a, b]) => `${f}(${a}, ${b})`),
    fc.tuple(tie('e'), tie('e'), tie('e')).map(([a, b, c]) => `select(${a} < ${b}, ${b}, ${c})`),
  ),
})).e

const inputs = {
  x: { data: [0, -0, 1.5, -3, 1e30, NaN, Infinity, 0.1], shape: [8] },
  y: { data: [2, 0, -1, 7, 1e20, 1, -Infinity, 3], shape: [8] },
}
const results = (p: TensorProgram): number[] => [...evaluate(p, inputs, { s: -2.5 }, { i: 8 }).D!.data]

test('sharing and folding keep every bit', () => {
  fc.assert(
    fc.property(expression, (value) => {
      const before = unoptimised(value)
      verifyTensorProgram(before)
      const shared = shareCommonSubexpressions(before)
      const folded = foldConstants(shared)
      for (const after of [shared, folded]) {
        verifyTensorProgram(after)
        // toEqual tells 0 from -0.
        expect(results(after)).toEqual(results(before))
      }
    }),
    { numRuns: 150, seed: 1 },
  )
})

test('every pass leaves a valid program, and a second round changes nothing', () => {
  fc.assert(
    fc.property(expression, (value) => {
      const passes: string[] = []
      const once = canonicalise(unoptimised(value), (p, pass) => {
        verifyTensorProgram(p)
        passes.push(pass)
      })
      expect(passes).toContain('formFma')
      expect(printTensorProgram(formFma(once))).toBe(printTensorProgram(once))
      expect(printTensorProgram(canonicalise(unoptimised(value)))).toBe(printTensorProgram(once))
    }),
    { numRuns: 150, seed: 2 },
  )
})

test('sharing leaves no two equal nodes', () => {
  const p = program(
    'kernel f(x: f32[i], y: f32[i]) -> (D: f32[i], E: f32[i]) { D = exp(x + y) * 2; E = exp(x + y) + 2 }',
  )
  expect(nodesOf(p).map((node) => (node.kind === 'apply' ? node.op : node.kind))).toEqual([
    'input', 'input', 'add', 'exp', 'const', 'mul', 'add',
  ]) // prettier-ignore
})

test('the verifier names what is wrong', () => {
  const good = program('kernel f(x: f32[i], y: f32[j]) -> D: f32[i, j] { D = x * y }')
  const value = good.outputs[0]!.value as Node & { kind: 'apply' }
  const broken =
    (change: Partial<TensorProgram>): (() => void) =>
    () =>
      verifyTensorProgram({ ...good, ...change })
  const withValue = (node: Node): (() => void) => broken({ outputs: [{ ...good.outputs[0]!, value: node }] })
  expect(withValue({ ...value, axes: ['i'] })).toThrow('has axes [i], expected [i,j]')
  expect(withValue({ ...value, op: 'mull' })).toThrow('unknown operation mull')
  expect(withValue({ ...value, type: 'i32' })).toThrow('mul gives f32, not i32')
  expect(broken({ outputs: [] })).toThrow('output D is defined 0 times')
  expect(broken({ operands: good.operands.slice(1) })).toThrow('x is no input')
  const [x, ...others] = good.operands
  expect(broken({ operands: [{ ...x!, blocks: [0] }, ...others] })).toThrow('x has blocks 0 of 1 axes')
  expect(
    broken({
      operands: [{ ...x!, stored: { scale: 'y', zero: null, global: null, norm: null, rounding: 'up' } }, ...others],
    }),
  ).toThrow('y is no part of x')
  const extent: Node = { kind: 'const', value: 2, type: 'f32', axes: [], span: null }
  expect(broken({ axes: good.axes.map((axis) => ({ ...axis, extent })) })).toThrow(
    'the extent of i is no i32 without axes',
  )
  const cyclic = { ...value, args: [] as Node[] }
  cyclic.args.push(cyclic, value)
  expect(withValue(cyclic)).toThrow('cycle')
})
