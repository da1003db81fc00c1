import { describe, expect, test } from 'vitest'
import { roundToDType } from '../../compiler/codec.ts'
import { compare } from '../../compiler/evaluate/compare.ts'
import { evaluate, evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import { integers, normal } from '../../compiler/evaluate/generate.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import type { Node } from '../../compiler/ir/tensor.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { ProgramBuilder } from '../codegen/programs.ts'

const values = (data: ArrayLike<number>, ...shape: number[]) => ({ data, shape })
const f = Math.fround
const inType = (dtype: DTypeName, data: Float32Array): Float32Array => data.map((x) => roundToDType(dtype, x))

describe('statistics of rows', () => {
  const p = new ProgramBuilder(['m', 'c'], { X: { dtype: 'bf16', axes: ['m', 'c'] }, g: { dtype: 'bf16', axes: ['c'] } }) // prettier-ignore
  const X = p.input('X')
  const square = p.reduce('mean', ['c'], p.apply('mul', X, X))
  const norm = p.apply('mul', p.apply('mul', X, p.apply('rsqrt', p.apply('add', square, p.constant(1e-5)))), p.input('g')) // prettier-ignore
  const program = p.program('rms_norm', { Y: { dtype: 'f32', axes: ['m', 'c'], value: norm } })
  verifyTensorProgram(program)
  const [m, c] = [6, 700]
  const [x, g] = [inType('bf16', normal(m * c, 1)), inType('bf16', normal(c, 2))]
  const given = { tensors: { X: values(x, m, c), g: values(g, c) }, scalars: {}, extents: { m, c } }
  const machine = (last = c, ofRow = (row: number): number => row): Float32Array => {
    const Y = new Float32Array(m * c)
    for (let i = 0; i < m; i++) {
      // Runs of 32, one after another, whose sums are added as a tree of one level.
      const runs = new Float32Array(Math.ceil(c / 32))
      for (let j = 0; j < last; j++) runs[j >> 5] = f(runs[j >> 5]! + x[ofRow(i) * c + j]! ** 2)
      const r = f(1 / Math.sqrt(f(f(runs.reduce((a, b) => f(a + b), 0) / c) + f(1e-5))))
      for (let j = 0; j < c; j++) Y[i * c + j] = f(f(x[i * c + j]! * r) * g[j]!)
    }
    return Y
  }

  test('rms_norm in f32 is within its bound', () => {
    expect(compare(evaluateWithBounds(program, given), { Y: machine() })).toMatchObject({ pass: true, exact: false })
  })
  test('one element left out, or the statistics of another row, are not', () => {
    expect(compare(evaluateWithBounds(program, given), { Y: machine(c - 1) }).pass).toBe(false)
    expect(compare(evaluateWithBounds(program, given), { Y: machine(c, (i) => (i + 1) % m) }).pass).toBe(false)
  })

  test('sums are taken in f64 and rounded once; integers are exact', () => {
    const p = new ProgramBuilder(['i'], { X: { dtype: 'f32', axes: ['i'] } })
    const sum = p.reduce('sum', ['i'], p.input('X'))
    const program = p.program('sum', { s: { dtype: 'f32', axes: [], value: sum } })
    const run = (data: number[]) => evaluateWithBounds(program, { tensors: { X: values(data, data.length) }, scalars: {}, extents: { i: data.length } }).s! // prettier-ignore
    expect([...run([1e8, 1, -1e8]).data]).toEqual([1])
    expect(run([3, -7, 100]).bounds).toBe(null)
    const { data, bounds } = run([0.5, 0.25, 1e4])
    expect(data[0]).toBe(10000.75)
    // (log2 3 + 32) · 2^-24 · Σ|x|, and a unit in the last place with the store.
    const own = (Math.log2(3) + 32) * 2 ** -24 * 10000.75
    expect(bounds![0]).toBeGreaterThanOrEqual(own * 0.99)
    expect(bounds![0]).toBeLessThan(own + 2 * 2 ** -10)
    expect(run([Infinity, 1]).bounds).toBe(null)
    expect([...run([]).data]).toEqual([0])
  })

  test('edges of reductions over nothing', () => {
    const p = new ProgramBuilder(['m', 'n'], { X: { dtype: 'f32', axes: ['m', 'n'] } })
    const outputs = (['sum', 'max', 'min', 'mean'] as const).map((fn) => [fn, { dtype: 'f32', axes: ['m'], value: p.reduce(fn, ['n'], p.input('X')) }] as const) // prettier-ignore
    const got = evaluate(p.program('none', Object.fromEntries(outputs)), { X: values([], 1, 0) }, {}, { m: 1, n: 0 })
    expect(['sum', 'max', 'min', 'mean'].map((fn) => got[fn]!.data[0])).toEqual([0, -Infinity, Infinity, NaN])
  })

  test('values of a reduction are used along further axes, and reduced again', () => {
    const p = new ProgramBuilder(['i', 'j', 'k'], { X: { dtype: 'f32', axes: ['i', 'j'] }, Y: { dtype: 'f32', axes: ['k'] } }) // prettier-ignore
    const top = p.reduce('max', ['j'], p.input('X'))
    const centred = p.apply('sub', p.apply('mul', top, p.input('Y')), p.reduce('min', ['i'], top))
    const program = p.program('again', { D: { dtype: 'f32', axes: ['k'], value: p.reduce('sum', ['i'], centred) } })
    verifyTensorProgram(program)
    const { D } = evaluate(program, { X: values([1, 5, 3, 2], 2, 2), Y: values([10, 100], 2) }, {}, { i: 2, j: 2, k: 2 })
    expect([...D!.data]).toEqual([44 + 30, 494 + 300])
  }) // prettier-ignore
})

describe('computed factors', () => {
  const p = new ProgramBuilder(['m', 'n', 'k'], { A: { dtype: 'f16', axes: ['m', 'k'] }, u: { dtype: 'f32', axes: ['k'] }, B: { dtype: 'f16', axes: ['k', 'n'] } }) // prettier-ignore
  const a = p.apply('relu', p.apply('mul', p.input('A'), p.input('u')))
  const program = p.program('scaled', {
    D: { dtype: 'f32', axes: ['m', 'n'], value: p.product(a, p.input('B'), ['k']) },
  })
  verifyTensorProgram(program)
  const [m, n, k] = [9, 8, 96]
  const run = (A: Float32Array, u: Float32Array, B: Float32Array) =>
    evaluateWithBounds(program, { tensors: { A: values(A, m, k), u: values(u, k), B: values(B, k, n) }, scalars: {}, extents: { m, n, k } }) // prettier-ignore
  const machine = (A: Float32Array, u: Float32Array, B: Float32Array, type: DTypeName, last = k): Float32Array => {
    const D = new Float32Array(m * n)
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++)
        for (let x = 0; x < last; x++)
          D[i * n + j] = f(D[i * n + j]! + roundToDType(type, Math.max(0, f(A[i * k + x]! * u[x]!))) * B[x * n + j]!)
    return D
  }

  test('exact where the factor is exact in the type of the other', () => {
    const [A, u, B] = [integers(m * k, 1), integers(k, 2), integers(k * n, 3)]
    const expected = run(A, u, B)
    expect(expected.D!.bounds).toBe(null)
    expect([...expected.D!.data]).toEqual([...machine(A, u, B, 'f16')])
  })
  test('rounded to that type, within the bound; to bf16, or with a row of k left out, not', () => {
    const [A, u, B] = [inType('f16', normal(m * k, 1)), normal(k, 2), inType('f16', normal(k * n, 3))]
    const expected = run(A, u, B)
    expect(compare(expected, { D: machine(A, u, B, 'f16') })).toMatchObject({ pass: true, exact: false })
    expect(compare(expected, { D: machine(A, u, B, 'f16', k - 1) }).pass).toBe(false)
    expect(compare(expected, { D: machine(A, u, B, 'e5m2') }).pass).toBe(false)
  })
  test('what overflows the type of the MMA may be anything, what is far from it not', () => {
    const [A, u, B] = [integers(m * k, 1), integers(k, 2), integers(k * n, 3)]
    A[0] = 60000
    u[0] = 2
    const { bounds } = run(A, u, B).D!
    expect([bounds![0], bounds![n]]).toEqual([Infinity, 0])
  })
})

describe('attention', () => {
  const inputs = {
    Q: { dtype: 'bf16', axes: ['m', 'd'] }, K: { dtype: 'bf16', axes: ['n', 'd'] }, V: { dtype: 'bf16', axes: ['n', 'e'] },
  } as const // prettier-ignore
  const p = new ProgramBuilder(['m', 'n', 'd', 'e'], inputs, { scale: 'f32' })
  const S = p.apply('mul', p.contract('Q', 'K', ['d']), p.scalar('scale'))
  const late = p.apply('sub', p.apply('add', p.axis('m'), p.size('n')), p.size('m'))
  const masked = p.apply('select', p.apply('le', p.axis('n'), late), S, p.constant(-Infinity))
  /** softmax as the checker writes it out: a row of -inf alone is 0. */
  const top = p.reduce('max', ['n'], masked)
  const finite = p.apply('select', p.apply('eq', top, p.constant(-Infinity)), p.constant(0), top)
  const E = p.apply('exp', p.apply('sub', masked, finite))
  const total = p.reduce('sum', ['n'], E)
  const divided = (x: Node): Node =>
    p.apply('select', p.apply('eq', total, p.constant(0)), p.constant(0), p.apply('div', x, total))
  const O = p.product(divided(E), p.input('V'), ['n'])
  const L = p.apply('add', finite, p.apply('log', total))
  const program = p.program('attention', {
    O: { dtype: 'bf16', axes: ['m', 'e'], value: O },
    L: { dtype: 'f32', axes: ['m'], value: L },
  })
  verifyTensorProgram(program)
  const [m, n, d, e] = [20, 48, 64, 8]
  const [q, k, v] = [m * d, n * d, n * e].map((count, i) => inType('bf16', normal(count, i + 1))) as [Float32Array, Float32Array, Float32Array] // prettier-ignore
  const given = (v_ = v) => ({ tensors: { Q: values(q, m, d), K: values(k, n, d), V: values(v_, n, e) }, scalars: { scale: 0.125 }, extents: { m, n, d, e } }) // prettier-ignore

  /** One pass over tiles of 16 keys, P rounded to bf16, exp2 with a folded scale. */
  function flash({ rescale = true, shift = 0 } = {}): { O: Float32Array; L: Float32Array } {
    const [out, lse] = [new Float32Array(m * e), new Float32Array(m)]
    const folded = f(0.125 * Math.LOG2E)
    for (let i = 0; i < m; i++) {
      const acc = new Float32Array(e)
      let [running, sum] = [-Infinity, 0]
      for (let start = 0; start < n; start += 16) {
        const scores = Array.from({ length: 16 }, (_, j) => {
          let s = 0
          for (let x = 0; x < d; x++) s = f(s + q[i * d + x]! * k[(start + j) * d + x]!)
          return start + j <= i + n - m + shift ? s : -Infinity
        })
        const next = Math.max(running, ...scores)
        const safe = next === -Infinity ? 0 : next
        const weights = scores.map((s) => f(2 ** f(f(s * folded) - f(safe * folded))))
        const correction = running === -Infinity ? 0 : f(2 ** f((running - safe) * folded))
        sum = f(f(sum * correction) + f(weights.reduce((a, b) => a + b, 0)))
        for (let x = 0; x < e; x++) {
          let part = f(acc[x]! * (rescale ? correction : 1))
          weights.forEach((w, j) => (part = f(part + roundToDType('bf16', w) * v[(start + j) * e + x]!)))
          acc[x] = part
        }
        running = next
      }
      for (let x = 0; x < e; x++) out[i * e + x] = sum === 0 ? 0 : roundToDType('bf16', f(acc[x]! / sum))
      lse[i] = f(f(running * 0.125) + f(Math.log(sum)))
    }
    return { O: out, L: lse }
  }

  test('one pass over the keys is within the bound of the two that are written', () => {
    expect(compare(evaluateWithBounds(program, given()), flash())).toMatchObject({ pass: true, exact: false })
  })
  test('a missing rescale, a mask off by one, another row of values are not', () => {
    const expected = evaluateWithBounds(program, given())
    expect(compare(expected, flash({ rescale: false })).pass).toBe(false)
    const right = flash()
    for (const shift of [1, -1]) {
      const wrong = flash({ shift })
      const withRow = (row: number) => {
        const [O, L] = [right.O.slice(), right.L.slice()]
        O.set(wrong.O.subarray(row * e, (row + 1) * e), row * e)
        L[row] = wrong.L[row]!
        return { O, L }
      }
      // Each row by itself (the last one has no key more); where few keys are seen, the output without its logsumexp.
      for (let row = 0; row < m - 1; row++) expect(compare(expected, withRow(row)).pass, `row ${row} by ${shift}`).toBe(false) // prettier-ignore
      for (const row of [0, 7]) expect(compare(expected, { ...withRow(row), L: right.L }).pass).toBe(false)
    }
    const moved = Float32Array.from(v, (_, i) => v[(i + e) % v.length]!)
    expect(compare(expected, evaluateWith(moved)).pass).toBe(false)
  })
  const evaluateWith = (moved: Float32Array) => {
    const { tensors, scalars, extents } = given(moved)
    const { O, L } = evaluate(program, tensors, scalars, extents)
    return { O: O!.data, L: L!.data }
  }

  test('rows without keys are 0, their logsumexp is -inf; an infinite or NaN score makes the row NaN', () => {
    const run = (scores: number[], rows: number) => {
      const tensors = { Q: values(scores, rows, 1), K: values([1, 1], 2, 1), V: values([3, 5], 2, 1) }
      const { O, L } = evaluate(program, tensors, { scale: 1 }, { m: rows, n: 2, d: 1, e: 1 })
      return [[...O!.data], [...L!.data]]
    }
    // Four rows, two keys: rows 0 and 1 see none.
    expect(run([9, 9, 0, 0], 4)).toEqual([[0, 0, 3, 4], [-Infinity, -Infinity, 0, f(Math.log(2))]])
    expect(run([Infinity, NaN], 2)[0]).toEqual([NaN, NaN])
  }) // prettier-ignore
})
