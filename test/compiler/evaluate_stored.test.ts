import { describe, expect, test } from 'vitest'
import { roundToDType } from '../../compiler/codec.ts'
import { checkOutputs, compare } from '../../compiler/evaluate/compare.ts'
import { evaluate, evaluateWithBounds, type EvaluationOptions } from '../../compiler/evaluate/evaluate.ts'
import { integers, normal, uniform } from '../../compiler/evaluate/generate.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import { blockIndices, quantise } from './quantise_whole.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { ProgramBuilder, type OperandSpec, type OutputSpec } from '../codegen/programs.ts'

const values = (data: ArrayLike<number>, ...shape: number[]) => ({ data, shape })
const f = Math.fround
const scales = (dtype: DTypeName, count: number, seed: number): Float32Array =>
  normal(count, seed).map((x) => roundToDType(dtype, 2 ** Math.round(2 * x)))
const data = (dtype: DTypeName, count: number, seed: number): Float32Array =>
  normal(count, seed).map((x) => roundToDType(dtype, 2 * x))

describe('stored inputs', () => {
  const A: OperandSpec = { dtype: 'e4m3', axes: ['m', 'k'], stored: { scale: 'A.scale' } }
  const B: OperandSpec = { dtype: 'e2m1', axes: ['n', 'k'], stored: { scale: 'B.scale', global: 'B.global' } }
  const inputs: Record<string, OperandSpec> = {
    A, 'A.scale': { dtype: 'ue8m0', axes: ['m', 'k'], blocks: [1, 32], partOf: 'A' },
    B, 'B.scale': { dtype: 'ue4m3', axes: ['n', 'k'], blocks: [1, 16], partOf: 'B' },
  } // prettier-ignore
  const p = new ProgramBuilder(['m', 'n', 'k'], inputs, { 'B.global': 'f32' })
  const program = p.program('mx', { D: { dtype: 'f32', axes: ['m', 'n'], value: p.contract('A', 'B', ['k']) } })
  verifyTensorProgram(program)
  // The last blocks along k are short.
  const [m, n, k] = [5, 4, 83]
  const tensors = {
    A: values(data('e4m3', m * k, 1), m, k), 'A.scale': values(scales('ue8m0', m * 3, 2), m, 3),
    B: values(data('e2m1', n * k, 3), n, k), 'B.scale': values(scales('ue4m3', n * 6, 4), n, 6),
  } // prettier-ignore
  const given = { tensors, scalars: { 'B.global': 0.3 }, extents: { m, n, k } }
  /** Sums of 16 products that share scales, each added in f32. `row`: which row of scales of A a row uses. */
  const machine = (row = (i: number): number => i): Float32Array => {
    const D = new Float32Array(m * n)
    for (let i = 0; i < m; i++) for (let j = 0; j < n; j++) for (let start = 0; start < k; start += 16) {
      let sum = 0
      for (let x = start; x < Math.min(k, start + 16); x++) sum += tensors.A.data[i * k + x]! * tensors.B.data[j * k + x]!
      const scale = tensors['A.scale'].data[row(i) * 3 + Math.floor(start / 32)]! * tensors['B.scale'].data[j * 6 + start / 16]!
      D[i * n + j] = f(D[i * n + j]! + f(f(sum) * f(scale)))
    }
    return D.map((x) => f(x * f(0.3)))
  } // prettier-ignore

  test('a block-scaled GEMM: partial sums of blocks are within the bound', () => {
    const expected = evaluateWithBounds(program, given)
    const result = compare(expected, { D: machine() })
    expect(result).toMatchObject({ pass: true, exact: false })
    // Not by much: a relative error of 2^-12 of the sum is too much.
    expect(compare(expected, { D: machine().map((x) => x * (1 + 2 ** -10)) }).pass).toBe(false)
  })

  test('the scales of another row are out of bounds', () => {
    expect(compare(evaluateWithBounds(program, given), { D: machine((i) => (i + 1) % m) }).pass).toBe(false)
  })

  test('zero points, groups of k, scales that leave an axis out', () => {
    const inputs: Record<string, OperandSpec> = {
      W: { dtype: 'u4', axes: ['k', 'n'], stored: { scale: 'W.scale', zero: 'W.zero' } },
      'W.zero': { dtype: 'u4', axes: ['k', 'n'], blocks: [4, 1], partOf: 'W' },
      'W.scale': { dtype: 'f16', axes: ['n'], partOf: 'W' },
    }
    const p = new ProgramBuilder(['k', 'n'], inputs)
    const program = p.program('w4', { D: { dtype: 'f32', axes: ['n', 'k'], value: p.input('W') } })
    verifyTensorProgram(program)
    const W = Array.from({ length: 12 }, (_, i) => (i * 7) % 16)
    const tensors = { W: values(W, 6, 2), 'W.zero': values([8, 7, 1, 2], 2, 2), 'W.scale': values([0.5, 0.25], 2) }
    const { D } = evaluate(program, tensors, {}, { k: 6, n: 2 })
    const expected = [0, 1].flatMap((n) => [0, 1, 2, 3, 4, 5].map((k) => (W[k * 2 + n]! - [8, 7, 1, 2][Math.floor(k / 4) * 2 + n]!) * [0.5, 0.25][n]!)) // prettier-ignore
    expect([...D!.data]).toEqual(expected)
  })

  test('blocks along a ragged axis count from the first row of each group; scales with the group axis are those of the row', () => {
    const inputs: Record<string, OperandSpec> = {
      X: { dtype: 'e4m3', axes: ['t', 'n'], stored: { scale: 'X.scale', global: 'X.global' } },
      'X.scale': { dtype: 'f32', axes: ['t', 'n'], blocks: [2, 1], partOf: 'X' },
      'X.global': { dtype: 'f32', axes: ['g'], partOf: 'X' },
      off: { dtype: 'i32', axes: ['g'] },
    }
    const ragged = { by: 'off', group: 'g', form: 'packed' } as const
    const p = new ProgramBuilder(['g', 't', 'n'], inputs, {}, { t: { ragged } })
    const program = p.program('r', { D: { dtype: 'f32', axes: ['t', 'n'], value: p.input('X') } })
    verifyTensorProgram(program)
    // Groups of 3, 0 and 4 rows in blocks of 2: 0 1 | 2 || (none) || 3 4 | 5 6. ceil(8 / 2) + 3 blocks lie in memory.
    const tensors = {
      X: values(new Float32Array(8).fill(1), 8, 1), off: values([3, 3, 7], 3),
      'X.scale': values([10, 20, 30, 40, 50, 60, 70], 7, 1), 'X.global': values([1, 2, 3], 3), D: values(new Float32Array(8).fill(-1), 8, 1),
    } // prettier-ignore
    // floor(0/2) + 0 = 0, floor(3/2) + 2 = 3.
    expect([...evaluate(program, tensors, {}, { g: 3, t: 8, n: 1 }).D!.data]).toEqual([10, 10, 20, 120, 120, 150, 150, -1]) // prettier-ignore
  })
})

describe('quantised outputs', () => {
  const form = (dtype: DTypeName, scale: DTypeName, blocks: readonly [number, number], rest: object = {}) => (value: OutputSpec['value']): Record<string, OutputSpec> => ({
    D: { dtype, axes: ['m', 'n'], value: value!, stored: { scale: 'D.scale', ...rest } },
    'D.scale': { dtype: scale, axes: ['m', 'n'], blocks, partOf: 'D' },
  }) // prettier-ignore
  const gemm = (outputs: (value: OutputSpec['value']) => Record<string, OutputSpec>, scalars = {}) => {
    const inputs = { A: { dtype: 'bf16', axes: ['m', 'k'] }, B: { dtype: 'bf16', axes: ['k', 'n'] } } as const
    const p = new ProgramBuilder(['m', 'n', 'k'], inputs, scalars)
    const program = p.program('q', outputs(p.apply('silu', p.contract('A', 'B', ['k']))))
    const exact = p.program('e', outputs(p.contract('A', 'B', ['k'])))
    verifyTensorProgram(program)
    return { program, exact }
  }
  const [m, n, k] = [37, 75, 40]
  const extents = { m, n, k }
  const whole = { A: values(integers(m * k, 1), m, k), B: values(integers(k * n, 2), k, n) }
  const fine = { A: values(normal(m * k, 1), m, k), B: values(normal(k * n, 2), k, n) }
  const FORMS = [
    ['e4m3', 'ue8m0', [1, 32]], ['e5m2', 'ue8m0', [32, 1]], ['e3m2', 'ue8m0', [1, 32]], ['e2m3', 'ue8m0', [1, 32]], ['e2m1', 'ue8m0', [1, 32]],
    ['e4m3', 'f32', [1, 128]], ['i8', 'f32', [16, 1]], ['i4', 'f32', [1, 5]], ['e2m1', 'ue4m3', [1, 16]],
  ] as const // prettier-ignore

  test.each(FORMS)('%s by %s in blocks of %s: exact values give exact bytes', (dtype, scale, blocks) => {
    const got = evaluateWithBounds(gemm(form(dtype, scale, blocks)).exact, { tensors: whole, scalars: {}, extents })
    const v = new Float32Array(m * n)
    for (let i = 0; i < m; i++) for (let j = 0; j < n; j++) for (let x = 0; x < k; x++)
      v[i * n + j]! += whole.A.data[i * k + x]! * whole.B.data[x * n + j]!
    const counts = [Math.ceil(m / blocks[0]), Math.ceil(n / blocks[1])]
    const expected = quantise({ data: dtype, scale, rounding: 'up' }, v, blockIndices([m, n], blocks), counts[0]! * counts[1]!)
    expect([got.D!.shape, got['D.scale']!.shape]).toEqual([[m, n], counts])
    expect([...got.D!.data].map((x) => x + 0)).toEqual([...expected.data].map((x) => x + 0))
    expect([...got['D.scale']!.data]).toEqual([...expected.scale])
    const actual = { D: expected.data, 'D.scale': expected.scale }
    expect(compare(got, actual)).toMatchObject({ pass: true, exact: true })
    actual.D = actual.D.slice()
    actual.D[5] = roundToDType(dtype, actual.D[5]! * 1.2 + 1)
    expect(compare(got, actual)).toMatchObject({ pass: false, failures: 1 })
  }) // prettier-ignore

  /** What a machine stores whose values are off by up to the bound of each. */
  const machine = (program: ReturnType<typeof gemm>['program'], dtype: DTypeName, scale: DTypeName, blocks: readonly [number, number], part: number) => {
    const plain = { ...program, operands: program.operands.flatMap(({ partOf, stored, ...o }) => partOf ? [] : [o.role === 'output' ? { ...o, dtype: 'f32' as const } : o]) }
    const { D } = evaluateWithBounds(plain, { tensors: fine, scalars: {}, extents })
    const next = uniform(9)
    const v = Float32Array.from(D!.data, (x, i) => x + (next() < 0.5 ? -1 : 1) * part * (D!.bounds![i]! - 2 ** -23 * Math.abs(x)))
    const blocksOf = blockIndices([m, n], blocks)
    const { data, scale: stored } = quantise({ data: dtype, scale, rounding: 'up' }, v, blocksOf, Math.max(...blocksOf) + 1)
    return { D: data, 'D.scale': stored }
  } // prettier-ignore

  test.each(FORMS)('%s by %s in blocks of %s: what comes of values within their bounds is right', (dtype, scale, blocks) => {
    const { program } = gemm(form(dtype, scale, blocks))
    const expected = evaluateWithBounds(program, { tensors: fine, scalars: {}, extents })
    const right = machine(program, dtype, scale, blocks, 0.9)
    expect(compare(expected, right)).toMatchObject({ pass: true, exact: false })
    // Twice the scale with half the data is another value as it is stored; so are the scales of another block.
    const double = { D: right.D.map((x) => roundToDType(dtype, x / 2)), 'D.scale': right['D.scale'].map((x) => 2 * x) }
    expect(compare(expected, double).pass).toBe(false)
    const shifted = { ...right, 'D.scale': right['D.scale'].map((_, i, all) => all[(i + 1) % all.length]!) }
    expect(compare(expected, shifted).pass).toBe(false)
    const moved = { ...right, D: right.D.map((_, i, all) => all[(i + 1) % all.length]!) }
    expect(compare(expected, moved).pass).toBe(false)
  }) // prettier-ignore

  test('a scale is the neighbour only where a rounding boundary lies within the error of the largest magnitude', () => {
    const p = new ProgramBuilder(['m', 'n'], { X: { dtype: 'f32', axes: ['m', 'n'] } })
    const program = p.program('edge', form('e4m3', 'ue8m0', [1, 2])(p.apply('exp', p.input('X'))))
    // exp(X) is 448 or 400, within 4.5 units in the last place.
    const X = [Math.log(448), 0, Math.log(400), 0]
    const expected = evaluateWithBounds(program, { tensors: { X: values(X, 2, 2) }, scalars: {}, extents: { m: 2, n: 2 } }) // prettier-ignore
    const { low, high } = expected['D.scale']!.range!
    expect([[...low], [...high]]).toEqual([[1, 1], [2, 1]]) // prettier-ignore
    for (const [scale, D] of [
      [
        [1, 1],
        [448, 1, 416, 1],
      ],
      [
        [2, 1],
        [224, 0.5, 416, 1],
      ],
    ] as const) {
      // prettier-ignore
      const data: number[] = [...D]
      data[2] = roundToDType('e4m3', 400)
      expect(compare(expected, { D: data, 'D.scale': [...scale] }).pass).toBe(true)
    }
    expect(compare(expected, { D: [448, 1, 208, 0.5], 'D.scale': [1, 2] }).pass).toBe(false)
    expect(compare(expected, { D: [224, 1, 400, 1], 'D.scale': [2, 1] }).pass).toBe(false)
  })

  test('a global scale: its reciprocal, or the given constant, before the scale', () => {
    const rest = { global: 'D.global', norm: 'D.norm' }
    const { exact } = gemm(form('e2m1', 'ue4m3', [1, 16], rest), { 'D.global': 'f32', 'D.norm': 'f32' })
    const run = (scalars: Record<string, number>) => evaluate(exact, whole, scalars, extents)
    const byGlobal = run({ 'D.global': 0.1, 'D.norm': 0 })
    const byNorm = run({ 'D.global': 0.1, 'D.norm': f(1 / f(0.1)) })
    expect(byNorm).toEqual(byGlobal)
    const v = evaluate(gemm((value) => ({ D: { dtype: 'f32', axes: ['m', 'n'], value: value! } })).exact, whole, {}, extents) // prettier-ignore
    const expected = quantise({ data: 'e2m1', scale: 'ue4m3', rounding: 'up' }, v.D!.data as Float32Array, blockIndices([m, n], [1, 16]), m * 5, f(1 / f(0.1))) // prettier-ignore
    expect([...byGlobal['D.scale']!.data]).toEqual([...expected.scale])
    expect([...byGlobal.D!.data].map((x) => x + 0)).toEqual([...expected.data].map((x) => x + 0))
  })

  test('groups: blocks and global scales of each, rows and scales behind the last one stay', () => {
    const inputs: Record<string, OperandSpec> = {
      X: { dtype: 'f32', axes: ['t', 'n'] }, off: { dtype: 'i32', axes: ['g'] }, 'D.global': { dtype: 'f32', axes: ['g'], partOf: 'D' },
    } // prettier-ignore
    const ragged = { by: 'off', group: 'g', form: 'packed' } as const
    const p = new ProgramBuilder(['g', 't', 'n'], inputs, {}, { t: { ragged } })
    const program = p.program('grouped', {
      D: { dtype: 'e4m3', axes: ['t', 'n'], value: p.input('X'), stored: { scale: 'D.scale', global: 'D.global' } },
      'D.scale': { dtype: 'ue8m0', axes: ['t', 'n'], blocks: [2, 1], partOf: 'D' },
    })
    verifyTensorProgram(program)
    const tensors = {
      X: values([448, 1, 896, 448, 1, 7, 9, 9], 8, 1), off: values([3, 3, 5], 3), 'D.global': values([1, 1, 0.25], 3),
      D: values(new Float32Array(8).fill(5), 8, 1), 'D.scale': values(new Float32Array(7).fill(0.5), 7, 1),
    } // prettier-ignore
    const got = evaluate(program, tensors, {}, { g: 3, t: 8, n: 1 })
    expect([...got['D.scale']!.data]).toEqual([1, 2, 0.5, 4, 0.5, 0.5, 0.5])
    // Of the last group the norm is 4: sf = 448 · 4 / 448, and the data v · (4 / 4).
    expect([...got.D!.data]).toEqual([448, 1, 448, 448, 1, 5, 5, 5])
  })

  test('large outputs are sampled by whole blocks', () => {
    const { program } = gemm(form('e4m3', 'ue8m0', [1, 32]))
    const big = { tensors: fine, scalars: {}, extents }
    const full = evaluate(program, fine, {}, extents)
    const actual = { D: full.D!.data, 'D.scale': full['D.scale']!.data }
    const options: EvaluationOptions & { fullBelow: number } = { fullBelow: 1 }
    expect(checkOutputs(program, big, actual, options)).toMatchObject({ pass: true, method: 'sample' })
    const wrong = { ...actual, 'D.scale': actual['D.scale'].map((x) => 2 * x) }
    expect(checkOutputs(program, big, wrong, options).pass).toBe(false)
  })
})
