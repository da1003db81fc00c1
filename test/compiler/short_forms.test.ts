/** Which functions may be computed to fewer bits: those whose every use leads to a narrow store without magnifying an error. */
import { expect, test } from 'vitest'
import { shortForms } from '../../compiler/passes/short_forms.ts'
import type { Node, TensorProgram } from '../../compiler/ir/tensor.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { ProgramBuilder } from '../codegen/programs.ts'

const p = new ProgramBuilder(['i', 'j'], { x: { dtype: 'f32', axes: ['i', 'j'] }, y: { dtype: 'f32', axes: ['i', 'j'] } }, { beta: 'f32' }) // prettier-ignore
const [x, y, beta] = [p.input('x'), p.input('y'), p.scalar('beta')]
const f = (name: string, ...args: Node[]): Node => p.apply(name, ...args)

/** Names of the short functions of a program that stores `value`. */
function short(value: Node, dtype: DTypeName = 'bf16', accuracy: TensorProgram['accuracy'] = 'default'): string[] {
  const program = p.program('k', { D: { dtype, axes: ['i', 'j'], value } }, accuracy)
  return [...shortForms(program)].map((node) => (node.kind === 'apply' ? node.op : node.kind))
}

test.each<DTypeName>(['f16', 'bf16', 'e4m3', 'e5m2'])('stores to %s take the short form', (dtype) => {
  expect(short(f('gelu', x), dtype)).toEqual(['gelu'])
})

test.each<DTypeName>(['f32', 'f64', 'tf32', 'i8', 'u8', 'i32', 'ue8m0'])('stores to %s do not', (dtype) => {
  expect(short(f('gelu', x), dtype)).toEqual([])
})

test('neither do kernels marked approx or precise', () => {
  expect(short(f('gelu', x), 'bf16', 'approx')).toEqual([])
  expect(short(f('gelu', x), 'bf16', 'precise')).toEqual([])
})

test.each<[string, Node, string[]]>(
  [
  ['gated product', f('mul', f('silu', x), y), ['silu']],
  ['product of two', f('mul', f('silu', x), f('tanh', y)), ['silu', 'tanh']],
  ['argument computed in full', f('gelu_tanh', f('add', x, y)), ['gelu_tanh']],
  ['order and sign', f('clamp', f('abs', f('neg', f('max', f('tanh', x), y))), p.constant(0), p.constant(1)), ['tanh']],
  ['values of a select', f('select', f('gt', x, p.constant(0)), x, f('exp', x)), ['exp']],
  ['value under skip0', p.skip0(beta, f('exp', x)), ['exp']],
  ['parameters', f('elu', x, p.constant(0.5)), ['elu']],
] /* prettier-ignore */,
)('carries on: %s', (_name, value, expected) => expect(short(value)).toEqual(expected))

const g = f('gelu', x)
test.each<[string, Node, string[]]>(
  [
  ['sum', f('add', g, y), []],
  ['cancelling difference', f('sub', g, x), []],
  ['fma', f('fma', g, x, y), []],
  ['quotient', f('div', g, y), []],
  ['another function: the outer one alone', f('exp', f('exp', x)), ['exp']],
  ['power', f('pow', g, p.constant(2)), []],
  ['condition', f('select', f('gt', g, y), x, y), []],
  ['condition and value', f('select', f('gt', g, y), g, y), []],
  ['scale of skip0', p.skip0(f('exp', beta), x), []],
  ['rounding to an integer', f('floor', g), []],
  ['cast within a formula', f('mul', p.cast('f16', g), y), []],
  ['second use in a sum', f('mul', g, f('add', g, y)), []],
] /* prettier-ignore */,
)('ends: %s', (_name, value, expected) => expect(short(value)).toEqual(expected))

test('products of more than four short values take none', () => {
  const power = (n: number): Node => Array.from({ length: n - 1 }).reduce<Node>((value) => f('mul', value, g), g)
  expect(short(power(4))).toEqual(['gelu'])
  expect(short(power(5))).toEqual([])
  const doubled = f('mul', g, g)
  expect(short(f('mul', f('mul', doubled, doubled), g))).toEqual([])
})

test('every output counts', () => {
  const D = { dtype: 'bf16', axes: ['i', 'j'], value: g } as const
  const shortWith = (other: Parameters<typeof p.program>[1]): number => shortForms(p.program('k', { D, ...other })).size
  expect(shortWith({ Z: { dtype: 'e4m3', axes: ['i', 'j'], value: g } })).toBe(1)
  expect(shortWith({ Z: { dtype: 'f32', axes: ['i', 'j'], value: x } })).toBe(1)
  expect(shortWith({ Z: { dtype: 'f32', axes: ['i', 'j'], value: g } })).toBe(0)
  expect(shortWith({ Z: { dtype: 'bf16', axes: ['i'], value: p.reduce('max', ['j'], g) } })).toBe(0)
})
