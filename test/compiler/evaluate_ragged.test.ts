import { describe, expect, test } from 'vitest'
import { compare } from '../../compiler/evaluate/compare.ts'
import { evaluate, evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import type { EvaluationFinding } from '../../compiler/evaluate/findings.ts'
import { integers, normal } from '../../compiler/evaluate/generate.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import { ProgramBuilder } from '../codegen/programs.ts'

const values = (data: ArrayLike<number>, ...shape: number[]) => ({ data, shape })
const packed = (by: string, group = 'g') => ({ ragged: { by, group, form: 'packed' } }) as const
const OFF = { dtype: 'i32', axes: ['g'] } as const

const grouped = () => {
  const inputs = { A: { dtype: 'bf16', axes: ['t', 'k'] }, B: { dtype: 'bf16', axes: ['g', 'k', 'n'] }, off: OFF } as const
  const p = new ProgramBuilder(['g', 't', 'n', 'k'], inputs, {}, { t: packed('off') })
  const program = p.program('grouped', { D: { dtype: 'f32', axes: ['t', 'n'], value: p.contract('A', 'B', ['k']) } })
  verifyTensorProgram(program)
  return program
} // prettier-ignore

/** Group sizes 3, 0, 4 of 9 rows. */
const OFFSETS = [3, 3, 7]
const groupOf = (t: number): number => OFFSETS.findIndex((end) => t < end)

describe('packed groups', () => {
  test('a grouped GEMM: each row with its group, rows behind the last one stay', () => {
    const [A, B] = [integers(9 * 5, 1), integers(3 * 5 * 2, 2)]
    const before = Float32Array.from({ length: 18 }, (_, i) => 100 + i)
    const tensors = { A: values(A, 9, 5), B: values(B, 3, 5, 2), off: values(OFFSETS, 3), D: values(before, 9, 2) }
    const { D } = evaluateWithBounds(grouped(), { tensors, scalars: {}, extents: { g: 3, t: 9, n: 2, k: 5 } })
    const expected = [...before]
    for (let t = 0; t < 7; t++) for (let n = 0; n < 2; n++) {
      expected[t * 2 + n] = 0
      for (let k = 0; k < 5; k++) expected[t * 2 + n]! += A[t * 5 + k]! * B[(groupOf(t) * 5 + k) * 2 + n]!
    }
    expect([[...D!.data], D!.bounds]).toEqual([expected, null])
  }) // prettier-ignore

  test('a row of the wrong group is out of bounds', () => {
    const [A, B] = [normal(9 * 64, 1), normal(3 * 64 * 2, 2)]
    const run = (off: number[]) => {
      const tensors = { A: values(A, 9, 64), B: values(B, 3, 64, 2), off: values(off, 3) }
      return evaluateWithBounds(grouped(), { tensors, scalars: {}, extents: { g: 3, t: 9, n: 2, k: 64 } })
    }
    const expected = run(OFFSETS)
    expect(compare(expected, { D: expected.D!.data }).pass).toBe(true)
    expect(compare(expected, { D: run([4, 4, 7]).D!.data })).toMatchObject({ pass: false, failures: 2 })
    expect(compare(expected, { D: run([3, 3, 6]).D!.data })).toMatchObject({ pass: false, failures: 2 })
  })

  test('sums over rows: of each group, or of all; other groups do not reach a result, not even as 0 · NaN', () => {
    const inputs = { X: { dtype: 'f32', axes: ['t', 'n'] }, Y: { dtype: 'f32', axes: ['t', 'm'] }, off: OFF } as const
    const p = new ProgramBuilder(['g', 't', 'm', 'n'], inputs, {}, { t: packed('off') })
    const [X, Y] = [p.input('X'), p.input('Y')]
    const program = p.program('sums', {
      W: { dtype: 'f32', axes: ['g', 'm', 'n'], value: p.product(Y, X, ['t'], 'f32', ['g']) },
      all: { dtype: 'f32', axes: ['m', 'n'], value: p.product(Y, X, ['t']) },
      s: { dtype: 'f32', axes: ['g', 'n'], value: p.reduce('sum', ['t'], X, ['g']) },
      a: { dtype: 'f32', axes: ['g', 'n'], value: p.reduce('mean', ['t'], X, ['g']) },
      top: { dtype: 'f32', axes: ['n'], value: p.reduce('max', ['t'], X) },
      first: { dtype: 'i32', axes: ['g'], value: p.group('start', 't') },
      count: { dtype: 'i32', axes: ['g'], value: p.group('length', 't') },
      // The value of a group at each of its rows.
      back: { dtype: 'f32', axes: ['t', 'n'], value: p.apply('sub', X, p.reduce('mean', ['t'], X, ['g'])) },
      row: { dtype: 'i32', axes: ['t'], value: p.apply('sub', p.axis('t'), p.group('start', 't')) },
    })
    verifyTensorProgram(program)
    const x = Float32Array.from([1, 2, 3, 4, 5, 6, NaN, 8, 9, 10, 11, 12, 13, 14, NaN, NaN, 17, 18])
    const y = Float32Array.of(1, 1, 2, 0, 1, 0, 1, NaN, NaN)
    const tensors = { X: values(x, 9, 2), Y: values(y, 9, 1), off: values(OFFSETS, 3) }
    const { W, all, s, a, top, first, count, back, row } = evaluate(program, tensors, {}, { g: 3, t: 9, m: 1, n: 2 })
    expect([...s!.data]).toEqual([9, 12, 0, 0, NaN, 44])
    expect([...a!.data]).toEqual([3, 4, NaN, NaN, NaN, 11])
    expect([...W!.data]).toEqual([14, 18, 0, 0, NaN, 24])
    expect([...all!.data]).toEqual([NaN, 42])
    expect([...top!.data]).toEqual([NaN, 14])
    expect([[...first!.data], [...count!.data]]).toEqual([[0, 3, 3], [3, 0, 4]])
    expect([...back!.data]).toEqual([-2, -2, 0, 0, 2, 2, NaN, -3, NaN, -1, NaN, 1, NaN, 3, 0, 0, 0, 0])
    expect([...row!.data]).toEqual([0, 1, 2, 0, 1, 2, 3, 0, 0])
  }) // prettier-ignore

  test('queries and keys of one sequence meet only inside it', () => {
    const inputs = {
      Q: { dtype: 'f32', axes: ['m', 'd'] }, K: { dtype: 'f32', axes: ['n', 'd'] }, V: { dtype: 'f32', axes: ['n', 'e'] },
      qe: OFF, ke: OFF,
    } as const // prettier-ignore
    const p = new ProgramBuilder(['g', 'm', 'n', 'd', 'e'], inputs, {}, { m: packed('qe'), n: packed('ke') })
    const S = p.contract('Q', 'K', ['d'])
    const top = p.reduce('max', ['n'], S)
    const E = p.apply('exp', p.apply('sub', S, top))
    const O = p.apply('div', p.product(E, p.input('V'), ['n']), p.reduce('sum', ['n'], E))
    const program = p.program('sequences', { O: { dtype: 'f32', axes: ['m', 'e'], value: O } })
    verifyTensorProgram(program)
    const [Q, K, V] = [normal(6 * 4, 1), normal(7 * 4, 2), normal(7 * 2, 3)]
    V[12] = NaN
    const [qe, ke] = [
      [2, 5],
      [3, 6],
    ]
    const tensors = { Q: values(Q, 6, 4), K: values(K, 7, 4), V: values(V, 7, 2), qe: values(qe!, 2), ke: values(ke!, 2) } // prettier-ignore
    const expected = evaluateWithBounds(program, { tensors, scalars: {}, extents: { g: 2, m: 6, n: 7, d: 4, e: 2 } })
    const plain = (keys: readonly number[]): Float32Array => {
      const out = new Float32Array(12)
      for (let m = 0; m < 5; m++) {
        const g = m < 2 ? 0 : 1
        const weights: number[] = []
        for (let n = g === 0 ? 0 : keys[0]!; n < keys[g]!; n++) {
          let score = 0
          for (let d = 0; d < 4; d++) score += Q[m * 4 + d]! * K[n * 4 + d]!
          weights[n] = Math.exp(score)
        }
        const total = weights.reduce((a, b) => a + b, 0)
        for (let e = 0; e < 2; e++) weights.forEach((w, n) => (out[m * 2 + e]! += (w / total) * V[n * 2 + e]!))
      }
      return out
    }
    expect(compare(expected, { O: plain(ke!) })).toMatchObject({ pass: true, exact: false })
    expect(compare(expected, { O: plain([4, 6]) }).pass).toBe(false)
    expect(compare(expected, { O: plain([3, 5]) }).pass).toBe(false)
  })

  test('offsets that decrease or exceed the axis are findings, and are taken at the nearest legal row', () => {
    const findings: EvaluationFinding[] = []
    const tensors = { A: values([1, 2, 3], 3, 1), B: values([1, 10, 100], 3, 1, 1), off: values([2, 1, 8], 3) }
    const report = (finding: EvaluationFinding): void => void findings.push(finding)
    const { D } = evaluate(grouped(), tensors, {}, { g: 3, t: 3, n: 1, k: 1 }, { report })
    expect([...D!.data]).toEqual([1, 2, 300])
    expect(findings).toEqual([
      { kind: 'groups', operand: 'off', group: 1, value: 1 },
      { kind: 'groups', operand: 'off', group: 2, value: 8 },
    ])
  })
})

describe('padded groups', () => {
  test('rows beyond the length are neither read nor written', () => {
    const inputs = { A: { dtype: 'f32', axes: ['g', 'm', 'k'] }, B: { dtype: 'f32', axes: ['g', 'k', 'n'] }, len: OFF } as const
    const ragged = { by: 'len', group: 'g', form: 'padded' } as const
    const p = new ProgramBuilder(['g', 'm', 'n', 'k'], inputs, {}, { m: { ragged } })
    const A = p.input('A')
    const program = p.program('padded', {
      D: { dtype: 'f32', axes: ['g', 'm', 'n'], value: p.contract('A', 'B', ['k']) },
      a: { dtype: 'f32', axes: ['g', 'k'], value: p.reduce('mean', ['m'], A) },
      all: { dtype: 'f32', axes: ['k'], value: p.reduce('sum', ['g', 'm'], A) },
      C: { dtype: 'f32', axes: ['m', 'n'], value: p.contract('A', 'B', ['g', 'k']) },
      len2: { dtype: 'i32', axes: ['g'], value: p.group('length', 'm') },
    })
    verifyTensorProgram(program)
    const a = Float32Array.of(1, 2, 3, 4, NaN, NaN, 5, 6, NaN, NaN, NaN, NaN)
    const tensors = {
      A: values(a, 2, 3, 2), B: values([1, 1, 1, 2], 2, 2, 1), len: values([2, 1], 2), D: values([9, 9, 9, 8, 8, 8], 2, 3, 1),
    }
    const got = evaluateWithBounds(program, { tensors, scalars: {}, extents: { g: 2, m: 3, n: 1, k: 2 } })
    expect([...got.D!.data]).toEqual([3, 7, 9, 17, 8, 8])
    expect([...got.a!.data]).toEqual([2, 3, 5, 6])
    expect([...got.all!.data]).toEqual([9, 12])
    expect([...got.C!.data]).toEqual([20, 7, 0])
    expect([...got.len2!.data]).toEqual([2, 1])
  }) // prettier-ignore
})
