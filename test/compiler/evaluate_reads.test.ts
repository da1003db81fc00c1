import { describe, expect, test } from 'vitest'
import { evaluate, evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import type { EvaluationFinding } from '../../compiler/evaluate/findings.ts'
import { integers } from '../../compiler/evaluate/generate.ts'
import { verifyTensorProgram } from '../../compiler/ir/verify_tensor.ts'
import { ProgramBuilder } from '../codegen/programs.ts'

const values = (data: ArrayLike<number>, ...shape: number[]) => ({ data, shape })

test('a convolution with padding equals plain loops', () => {
  const X = { dtype: 'bf16', axes: ['b', 'h', 'w', 'c'] } as const
  const W = { dtype: 'bf16', axes: ['f', 'r', 's', 'c'] } as const
  const p = new ProgramBuilder(['b', 'p', 'q', 'f', 'h', 'w', 'r', 's', 'c'], { X, W }, { stride: 'i32', pad: 'i32' })
  const place = (out: string, tap: string) =>
    p.apply('sub', p.apply('add', p.apply('mul', p.axis(out), p.scalar('stride')), p.axis(tap)), p.scalar('pad'))
  const read = p.read('X', [p.axis('b'), place('p', 'r'), place('q', 's'), p.axis('c')], 0)
  const value = p.apply('relu', p.product(read, p.input('W'), ['r', 's', 'c']))
  const program = p.program('conv', { Y: { dtype: 'f32', axes: ['b', 'p', 'q', 'f'], value } })
  verifyTensorProgram(program)
  const extents = { b: 2, h: 5, w: 6, c: 3, f: 4, r: 3, s: 2, p: 3, q: 4 }
  const [x, w] = [integers(2 * 5 * 6 * 3, 1), integers(4 * 3 * 2 * 3, 2)]
  const tensors = { X: values(x, 2, 5, 6, 3), W: values(w, 4, 3, 2, 3) }
  const findings: EvaluationFinding[] = []
  const options = { report: (finding: EvaluationFinding) => findings.push(finding) }
  const { Y } = evaluateWithBounds(program, { tensors, scalars: { stride: 2, pad: 1 }, extents }, options)
  expect([Y!.bounds, findings]).toEqual([null, []])
  const expected: number[] = []
  for (let b = 0; b < 2; b++) for (let p = 0; p < 3; p++) for (let q = 0; q < 4; q++) for (let f = 0; f < 4; f++) {
    let sum = 0
    for (let r = 0; r < 3; r++) for (let s = 0; s < 2; s++) for (let c = 0; c < 3; c++) {
      const [h, v] = [p * 2 + r - 1, q * 2 + s - 1]
      if (h >= 0 && h < 5 && v >= 0 && v < 6) sum += x[((b * 5 + h) * 6 + v) * 3 + c]! * w[((f * 3 + r) * 2 + s) * 3 + c]!
    }
    expected.push(Math.max(0, sum))
  }
  expect([...Y!.data]).toEqual(expected)
}) // prettier-ignore

describe('looked-up positions', () => {
  const p = new ProgramBuilder(['e', 't', 'n'], { X: { dtype: 'f32', axes: ['e', 'n'] }, ids: { dtype: 'i32', axes: ['t'] } }) // prettier-ignore
  const run = (at: number[], outside?: number) => {
    const value = p.read('X', [p.input('ids'), p.axis('n')], outside)
    const program = p.program('gather', { D: { dtype: 'f32', axes: ['t', 'n'], value } })
    verifyTensorProgram(program)
    const findings: EvaluationFinding[] = []
    const tensors = { X: values([1, 2, 3, 4], 2, 2), ids: values(at, at.length) }
    const report = (finding: EvaluationFinding): void => void findings.push(finding)
    return { D: [...evaluate(program, tensors, {}, { e: 2, t: at.length, n: 2 }, { report }).D!.data], findings }
  }
  test('rows in the order of the ids', () => {
    expect(run([1, 0, 1])).toEqual({ D: [3, 4, 1, 2, 3, 4], findings: [] })
  })
  test('outside: 0 and a finding, silent for -1 and with `else`', () => {
    expect(run([-1, 0])).toEqual({ D: [0, 0, 1, 2], findings: [] })
    const { D, findings } = run([2, -7, 1])
    expect(D).toEqual([0, 0, 0, 0, 3, 4])
    expect(findings[0]).toEqual({ kind: 'outside', operand: 'X', index: [2, 0] })
    expect(findings).toHaveLength(4)
    expect(run([5, 0], -Infinity)).toEqual({ D: [-Infinity, -Infinity, 1, 2], findings: [] })
  })
})

test('a page table: look-ups within look-ups, floor division and modulus', () => {
  const inputs = { K: { dtype: 'f16', axes: ['page', 'slot', 'd'] }, table: { dtype: 'i32', axes: ['b', 'i'] } } as const
  const p = new ProgramBuilder(['b', 'n', 'd', 'page', 'slot', 'i'], inputs)
  const four = p.constant(4, 'i32')
  const page = p.read('table', [p.axis('b'), p.apply('floordiv', p.axis('n'), four)])
  const value = p.read('K', [page, p.apply('floormod', p.axis('n'), four), p.axis('d')])
  const program = p.program('paged', { D: { dtype: 'f32', axes: ['b', 'n', 'd'], value } })
  verifyTensorProgram(program)
  const K = integers(3 * 4 * 2, 3, 9)
  const table = [2, 0, 1, -1]
  const tensors = { K: values(K, 3, 4, 2), table: values(table, 2, 2) }
  const { D } = evaluate(program, tensors, {}, { b: 2, n: 7, d: 2, page: 3, slot: 4, i: 2 })
  const expected: number[] = []
  for (let b = 0; b < 2; b++) for (let n = 0; n < 7; n++) for (let d = 0; d < 2; d++) {
    const at = table[b * 2 + Math.floor(n / 4)]!
    expected.push(at < 0 ? 0 : K[(at * 4 + (n % 4)) * 2 + d]!)
  }
  expect([...D!.data]).toEqual(expected)
}) // prettier-ignore

test('heads that share keys: an axis with a computed extent, positions as values', () => {
  const inputs = { Q: { dtype: 'f32', axes: ['h', 'd'] }, K: { dtype: 'f32', axes: ['hk', 'd'] } } as const
  const sizes = new ProgramBuilder(['h', 'hk', 'j', 'd'], inputs)
  const ratio = sizes.apply('floordiv', sizes.size('h'), sizes.size('hk'))
  const p = new ProgramBuilder(['h', 'hk', 'j', 'd'], inputs, {}, { j: { extent: ratio } })
  const shared = p.read('K', [p.apply('floordiv', p.axis('h'), ratio), p.axis('d')])
  const program = p.program('heads', {
    S: { dtype: 'f32', axes: ['h'], value: p.product(p.input('Q'), shared, ['d']) },
    J: { dtype: 'i32', axes: ['hk', 'j'], value: p.apply('add', p.apply('mul', p.axis('hk'), p.size('j')), p.axis('j')) },
  })
  verifyTensorProgram(program)
  const tensors = { Q: values([1, 2, 3, 4, 5, 6, 7, 8], 4, 2), K: values([1, 10, 100, 1000], 2, 2) }
  const { S, J } = evaluate(program, tensors, {}, { h: 4, hk: 2, d: 2 })
  expect([...S!.data]).toEqual([21, 43, 6500, 8700])
  expect([J!.shape, [...J!.data]]).toEqual([[2, 2], [0, 1, 2, 3]])
}) // prettier-ignore

describe('scatter', () => {
  const p = new ProgramBuilder(['t', 'r', 'n'], { X: { dtype: 'f32', axes: ['t', 'n'] }, to: { dtype: 'i32', axes: ['t'] } }) // prettier-ignore
  const program = p.program('scatter', {
    D: { dtype: 'f16', axes: ['r', 'n'], value: p.input('X'), at: [p.input('to'), p.axis('n')] },
  })
  verifyTensorProgram(program)
  const run = (to: number[], initial: number[]) => {
    const findings: EvaluationFinding[] = []
    const X = Float32Array.from({ length: to.length * 2 }, (_, i) => i + 1)
    const tensors = { X: values(X, to.length, 2), to: values(to, to.length), D: values(initial, 4, 2) }
    const inputs = { tensors, scalars: {}, extents: { t: to.length, r: 4, n: 2 } }
    const { D } = evaluateWithBounds(program, inputs, { report: (finding) => findings.push(finding) })
    return { D: D!, findings }
  }
  test('rows that are not named keep what they had', () => {
    const { D, findings } = run([2, 0], [9, 9, 8, 8, 7, 7, 6, 6])
    expect([[...D.data], D.bounds, findings]).toEqual([[3, 4, 8, 8, 1, 2, 6, 6], null, []])
  })
  test('outside nothing is written: silently at -1, else with a finding', () => {
    const { D, findings } = run([-1, 4, 1], [9, 9, 8, 8, 7, 7, 6, 6])
    expect([...D.data]).toEqual([9, 9, 5, 6, 7, 7, 6, 6])
    expect(findings.map(({ kind }) => kind)).toEqual(['outside', 'outside'])
  })
  test('duplicates are a finding, and any of the values is right', () => {
    const { D, findings } = run([1, 1], [0, 0, 0, 0, 0, 0, 0, 0])
    expect([...D.data]).toEqual([0, 0, 3, 4, 0, 0, 0, 0])
    expect(findings[0]).toEqual({ kind: 'duplicate', operand: 'D', index: [1, 0] })
    expect(D.bounds![2]).toBeGreaterThanOrEqual(2)
    expect(D.bounds![0]).toBe(0)
  })
})
