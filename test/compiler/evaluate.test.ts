import { describe, expect, test } from 'vitest'
import fc from 'fast-check'
import { bindKernel } from '../../compiler/bind.ts'
import { checkOutputs, compare } from '../../compiler/evaluate/compare.ts'
import { evaluate, evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import { integers, normal } from '../../compiler/evaluate/generate.ts'
import { epilogue, family, GEMM, program, scalar, tensor } from './helpers.ts'

const values = (data: ArrayLike<number>, ...shape: number[]) => ({ data, shape })

test('a GEMM by hand', () => {
  const gemm = program('kernel f(A: f32[m, k], B: f32[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }')
  const tensors = { A: values([1, 2, 3, 4, 5, 6], 2, 3), B: values([7, 8, 9, 10, 11, 12], 3, 2) }
  const { D } = evaluate(gemm, tensors, {}, { m: 2, n: 2, k: 3 })
  expect(D).toEqual({ dtype: 'f32', shape: [2, 2], data: Float32Array.of(58, 64, 139, 154), bounds: null })
})

test('broadcasts, several outputs, scalars with defaults', () => {
  const text =
    'kernel f(X: f32[i, j], r: f32[i], c: f32[j], a: f32 = 2) -> (D: f32[i, j], E: f32[j, i]) { D = X * a + r; E = X - c }'
  const tensors = { X: values([1, 2, 3, 4], 2, 2), r: values([10, 20], 2), c: values([1, 2], 2) }
  const { D, E } = evaluate(program(text), tensors, {}, { i: 2, j: 2 })
  expect([...D!.data]).toEqual([12, 14, 26, 28])
  expect([...E!.data]).toEqual([0, 2, 0, 2])
  expect([...evaluate(program(text), tensors, { a: -1 }, { i: 2, j: 2 }).D!.data]).toEqual([9, 8, 17, 16])
})

test('stores round as the dtype says', () => {
  const text = 'kernel f(X: f32[i]) -> (H: f16[i], Q: e4m3[i], I: i8[i]) { H = X; Q = X; I = i8(X) }'
  const { H, Q, I } = evaluate(program(text), { X: values([70000, 2.5, -0.3, NaN, 300], 5) }, {}, { i: 5 })
  expect([...H!.data]).toEqual([Infinity, 2.5, Math.fround(-0.300048828125), NaN, 300])
  expect([...Q!.data]).toEqual([448, 2.5, -0.3125, NaN, 288])
  expect([...I!.data]).toEqual([127, 2, 0, 0, 127])
})

test('i32 wraps, bool selects, size counts', () => {
  const text =
    'kernel f(X: i32[i], Y: f32[i]) -> (D: i32[i], E: f32[i]) { D = X + 2147483647; E = select(Y > 0 && !(Y > 2), Y / size(i), -1) }'
  const { D, E } = evaluate(program(text), { X: values([1, -1, 0], 3), Y: values([1, 3, -2], 3) }, {}, { i: 3 })
  expect([...D!.data]).toEqual([-2147483648, 2147483646, 2147483647])
  expect([...E!.data]).toEqual([Math.fround(1 / 3), -1, -1])
})

test('skip0 leaves NaN unread, a plain product does not', () => {
  const text = 'kernel f(X: f32[i], b: f32) -> (D: f32[i], E: f32[i]) { D = skip0(b) * X; E = b * X }'
  const { D, E } = evaluate(program(text), { X: values([NaN, 1], 2) }, { b: 0 }, { i: 2 })
  expect([[...D!.data], [...E!.data]]).toEqual([[0, 0], [NaN, 0]]) // prettier-ignore
})

test('reductions', () => {
  const text =
    'kernel f(X: f32[i, j]) -> (s: f32[i], lo: f32[j], hi: f32[i], a: f32[i]) { s = sum[j](X); lo = min[i](X); hi = max[j](abs(X)); a = mean[j](X) }'
  const { s, lo, hi, a } = evaluate(program(text), { X: values([1, -2, 4, -8, 16, 32], 2, 3) }, {}, { i: 2, j: 3 })
  expect([s, lo, hi, a].map((output) => [...output!.data])).toEqual([[3, 40], [-8, -2, 4], [4, 32], [1, Math.fround(40 / 3)]]) // prettier-ignore
})

test('an optional batch may be missing from all operands or broadcast from one', () => {
  const gemm = bindKernel(family(GEMM), { types: { T: 'f16', O: 'f32' } })
  const B = values(integers(12, 2), 3, 4)
  const flat = evaluate(gemm, { A: values(integers(6, 1), 2, 3), B }, {}, { l: 1, m: 2, n: 4, k: 3 })
  expect(flat.D!.shape).toEqual([1, 2, 4])
  const batched = evaluate(gemm, { A: values(integers(12, 1), 2, 2, 3), B }, {}, { l: 2, m: 2, n: 4, k: 3 })
  expect([...batched.D!.data.slice(0, 8)]).toEqual([...flat.D!.data])
})

test('empty axes: K = 0 gives 0 and the epilogue runs, M = 0 gives nothing', () => {
  const gemm = bindKernel(family(GEMM), { types: { T: 'f16', O: 'f32' } }, epilogue('acc + 1'))
  const run = (m: number, k: number) =>
    evaluate(gemm, { A: values([], m, k), B: values([], k, 2) }, {}, { l: 1, m, n: 2, k })
  expect([...run(2, 0).D!.data]).toEqual([1, 1, 1, 1])
  expect(run(0, 0).D!.data.length).toBe(0)
})

test('a GEMM with an epilogue equals plain loops, exactly', () => {
  const bindings = { alpha: scalar, bias: tensor('f32', 'n'), C: tensor('bf16', 'm', 'n') }
  const gemm = bindKernel(family(GEMM), { types: { T: 'bf16', O: 'f32' } }, epilogue('relu(acc*alpha + C) + bias', bindings))
  const [l, m, n, k] = [2, 67, 70, 259]
  const [A, B, C, bias] = [integers(l * m * k, 1), integers(l * k * n, 2), integers(m * n, 3), integers(n, 4)]
  const tensors = { A: values(A, l, m, k), B: values(B, l, k, n), C: values(C, m, n), bias: values(bias, n) }
  const { D } = evaluateWithBounds(gemm, { tensors, scalars: { alpha: 3 }, extents: { l, m, n, k } })
  expect(D!.bounds).toBe(null)
  for (let b = 0; b < l; b++) for (let i = 0; i < m; i++) for (let j = 0; j < n; j++) {
    let sum = 0
    for (let x = 0; x < k; x++) sum += A[(b * m + i) * k + x]! * B[(b * k + x) * n + j]!
    const expected = Math.max(sum * 3 + C[i * n + j]!, 0) + bias[j]!
    if (D!.data[(b * m + i) * n + j] !== expected) expect(D!.data[(b * m + i) * n + j]).toBe(expected)
  }
}) // prettier-ignore

test('a bound that is no number allows nothing', () => {
  const D = { dtype: 'f32', shape: [2], data: Float32Array.of(1, NaN), bounds: Float64Array.of(NaN, NaN) } as const
  expect(compare({ D }, { D: [1, NaN] }).pass).toBe(true)
  expect(compare({ D }, { D: [1.5, NaN] })).toMatchObject({ pass: false, failures: 1 })
})

describe('bounds', () => {
  const gemm = bindKernel(family(GEMM), { types: { T: 'f16', O: 'f32' } })
  const [m, n, k] = [16, 16, 512]
  const inputs = (A: Float32Array, B: Float32Array) => ({
    tensors: { A: values(A, m, k), B: values(B, k, n) }, scalars: {}, extents: { l: 1, m, n, k },
  }) // prettier-ignore

  test('any order of f32 sums lies within them, and an error of a product does not', () => {
    const [A, B] = [normal(m * k, 1), normal(k * n, 2)]
    const expected = evaluateWithBounds(gemm, inputs(A, B))
    expect(expected.D!.bounds).not.toBe(null)
    for (const step of [1, 3, 511]) {
      const D = new Float32Array(m * n)
      for (let i = 0; i < m * n; i++) {
        const [r, c] = [Math.floor(i / n), i % n]
        // A permutation of k, truncating every sum.
        for (let t = 0, x = 0; t < k; t++, x = (x + step) % k) D[i] = Math.fround(D[i]! + A[r * k + x]! * B[x * n + c]!)
      }
      expect(compare(expected, { D })).toMatchObject({ pass: true, exact: false, failures: 0 })
      D[37]! += 1
      expect(compare(expected, { D })).toMatchObject({
        pass: false,
        failures: 1,
        worst: { output: 'D', index: [0, 2, 5] },
      })
    }
  })

  test('the largest sum of integers that is exact', () => {
    const ones = new Float32Array(m * k).fill(128)
    expect(evaluateWithBounds(gemm, inputs(ones, new Float32Array(k * n).fill(256))).D!.bounds).toBe(null)
    const big = evaluateWithBounds(
      gemm,
      inputs(
        ones.map((x, i) => x + (i % 2)),
        new Float32Array(k * n).fill(257),
      ),
    )
    expect(big.D!.bounds!.every((bound) => bound > 0)).toBe(true)
  })

  test('they follow the epilogue and the store', () => {
    const fused = bindKernel(family(GEMM), { types: { T: 'f16', O: 'f16' } }, epilogue('gelu(acc)'))
    const { D } = evaluateWithBounds(fused, inputs(integers(m * k, 1, 1), integers(k * n, 2, 1)))
    // The sum is exact; gelu is within a few units of f32, so the store moves by one unit of f16 at most.
    D!.bounds!.forEach((bound, i) =>
      expect(bound).toBeLessThanOrEqual(2 ** -9 * Math.max(Math.abs(D!.data[i]!), 2 ** -14)),
    )
  })
})

describe('checkOutputs', () => {
  const sgemm = program('kernel f(A: f32[m, k], B: f32[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }')
  const [m, n, k] = [100, 120, 40]
  const inputs = {
    tensors: { A: values(integers(m * k, 1), m, k), B: values(integers(k * n, 2), k, n) },
    scalars: {},
    extents: { m, n, k },
  }
  const right = Float32Array.from(evaluate(sgemm, inputs.tensors, {}, inputs.extents).D!.data)

  test('all elements, or a sample with checksums when there are too many multiply-adds', () => {
    expect(checkOutputs(sgemm, inputs, { D: right })).toMatchObject({
      pass: true,
      exact: true,
      method: 'full',
      compared: m * n,
      macs: m * n * k,
    })
    const sampled = checkOutputs(sgemm, inputs, { D: right }, { fullBelow: 1000 })
    expect(sampled).toMatchObject({ pass: true, method: 'sample', compared: 48 * 48 })
    expect(sampled.checksums.map((c) => [c.along, c.pass])).toEqual([['rows', true], ['columns', true]]) // prettier-ignore
  })

  test('a checksum finds the element that the sample misses', () => {
    const wrong = right.slice()
    wrong[1 * n + 1]! += 1000
    const result = checkOutputs(sgemm, inputs, { D: wrong }, { fullBelow: 1000 })
    expect(result.pass).toBe(false)
    expect(result.checksums.every((c) => c.pass)).toBe(false)
  })

  test('NaN equals NaN only', () => {
    const X = program('kernel f(X: f32[i]) -> D: f32[i] { D = X }')
    const given = { tensors: { X: values([NaN, Infinity, 0], 3) }, scalars: {}, extents: { i: 3 } }
    expect(checkOutputs(X, given, { D: [NaN, Infinity, -0] })).toMatchObject({ pass: true, maxError: 0 })
    expect(checkOutputs(X, given, { D: [0, Infinity, 0] })).toMatchObject({
      pass: false,
      failures: 1,
      maxError: Infinity,
    })
  })
})

test('generators depend on the seed only', () => {
  expect([...integers(6, 7)]).toEqual([...integers(6, 7)])
  expect([...integers(6, 7)]).not.toEqual([...integers(6, 8)])
  fc.assert(fc.property(fc.nat(), fc.integer({ min: 1, max: 100 }), (seed, limit) =>
    integers(50, seed, limit).every((x) => Number.isInteger(x) && Math.abs(x) <= limit))) // prettier-ignore
  const sample = normal(10_000, 3)
  const mean = sample.reduce((a, b) => a + b, 0) / sample.length
  const variance = sample.reduce((a, b) => a + b * b, 0) / sample.length
  expect([Math.abs(mean) < 0.05, Math.abs(variance - 1) < 0.05]).toEqual([true, true])
})
