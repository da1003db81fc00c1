/** f32 in two parts of tf32: what they leave out, and that the bound lets three products of them pass and nothing less. */
import { describe, expect, test } from 'vitest'
import { checkOutputs } from '../../compiler/evaluate/compare.ts'
import { evaluate, evaluateWithBounds } from '../../compiler/evaluate/evaluate.ts'
import { uniform } from '../../compiler/evaluate/generate.ts'
import { smallerPart, splitLoss } from '../../compiler/evaluate/split_f32.ts'
import { roundToDType } from '../../compiler/codec.ts'
import { bound } from './support.ts'

const PRECISION = { fractionBits: 25, split: true } as const
const PRODUCT = bound('kernel f(A: f32[m, k], B: f32[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }')

describe('the parts of a number', () => {
  const random = uniform(3)
  const numbers = Array.from({ length: 20_000 }, () => {
    const magnitude = 2 ** Math.floor(random() * 200 - 100) * (1 + random())
    return Math.fround(random() < 0.5 ? magnitude : -magnitude)
  })

  test('leave out the last bit at most', () => {
    expect(numbers.filter((x) => splitLoss(x) > 2 ** -23 * Math.abs(x))).toEqual([])
    expect(numbers.filter((x) => smallerPart(x) > 2 ** -11 * Math.abs(x))).toEqual([])
    // Half of the numbers have a last bit, and half of these a larger part that leaves it beyond the smaller one.
    const whole = numbers.filter((x) => splitLoss(x) === 0).length / numbers.length
    expect([whole > 0.6, whole < 0.9]).toEqual([true, true])
  })

  test('are the number where it has 22 bits, and the larger one alone where it is a tf32', () => {
    const short = (x: number): number => x - (x % 2 ** (Math.floor(Math.log2(Math.abs(x))) - 21))
    expect(numbers.filter((x) => splitLoss(short(x)) !== 0)).toEqual([])
    expect(numbers.filter((x) => smallerPart(roundToDType('tf32', x)) !== 0)).toEqual([])
  })

  test('do not exist where the larger one is infinite; the smallest numbers lose more', () => {
    const largest = 2 ** 128 * (1 - 2 ** -24)
    expect([Infinity, -Infinity, largest, -largest].map(splitLoss)).toEqual([Infinity, Infinity, Infinity, Infinity])
    expect([largest, Infinity].map(smallerPart)).toEqual([0, 0])
    expect(splitLoss(NaN)).toBe(0)
    expect(splitLoss(2 ** 127 * (2 - 2 ** -10))).toBe(0)
    expect(splitLoss(2 ** -126 * (1 + 2 ** -23))).toBe(2 ** -149)
    expect(splitLoss(2 ** -140)).toBe(2 ** -140)
  })
})

describe('the bound', () => {
  const [M, N, K] = [24, 20, 96]
  const random = uniform(7)
  const draw = (count: number): Float32Array =>
    Float32Array.from(
      { length: count },
      () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()),
    )
  const [a, b] = [draw(M * K), draw(K * N)]
  const inputs = {
    tensors: { A: { data: a, shape: [M, K] }, B: { data: b, shape: [K, N] } },
    scalars: {},
    extents: { m: M, n: N, k: K },
  }

  const high = (x: number): number => roundToDType('tf32', x)
  const low = (x: number): number => roundToDType('tf32', x - high(x))
  const same = (x: number): number => x

  /** Sums of such products, in f64, as f32. */
  function sums(...terms: readonly (readonly [(x: number) => number, (x: number) => number])[]): Float32Array {
    return Float32Array.from({ length: M * N }, (_, i) => {
      let sum = 0
      for (let k = 0; k < K; k++)
        for (const [of, by] of terms) sum += of(a[Math.floor(i / N) * K + k]!) * by(b[k * N + (i % N)]!)
      return sum
    })
  }

  test.each([
    ['f32', [[same, same]], true],
    ['three products', [[low, high], [high, low], [high, high]], true],
    ['tf32', [[high, high]], false],
    ['without low times high', [[high, low], [high, high]], false],
    ['without high times low', [[low, high], [high, high]], false],
  ] as const)('of %s', (_, terms, right) => {
    const D = sums(...terms)
    const { pass, exact } = checkOutputs(PRODUCT, inputs, { D }, { precision: PRECISION })
    expect([pass, exact]).toEqual([right, false])
    // It is close to that of one rounding for each product.
    expect(checkOutputs(PRODUCT, inputs, { D }).pass).toBe(right)
  }) // prettier-ignore

  test('is about a third of that of a sum in order; three products in turn stay under a quarter of it', () => {
    const [parts, order] = [PRECISION, { fractionBits: 25 }].map((precision) => evaluateWithBounds(PRODUCT, inputs, { precision }).D!)
    const worst = Math.max(...Array.from(parts!.bounds!, (bound, i) => bound / order!.bounds![i]!))
    expect([worst > 0.25, worst < 0.5]).toEqual([true, true])
    const D = sums([low, high], [high, low], [high, high])
    const exact = evaluate(PRODUCT, inputs.tensors, {}, inputs.extents).D!.data
    expect(Math.max(...Array.from(D, (x, i) => Math.abs(x - exact[i]!) / parts!.bounds![i]!))).toBeLessThan(0.25)
  }) // prettier-ignore

  const one = (x: number, y: number) => {
    const tensors = { A: { data: [x], shape: [1, 1] }, B: { data: [y], shape: [1, 1] } }
    const given = { tensors, scalars: {}, extents: { m: 1, n: 1, k: 1 } }
    return evaluateWithBounds(PRODUCT, given, { precision: PRECISION }).D!.bounds?.[0] ?? 0
  }

  test('is 0 where one side is a tf32 and the product fits f32, not where smaller parts meet', () => {
    expect(one(2049, 2047)).toBe(0)
    expect(one(2049, 4097)).toBeGreaterThan(0)
    expect(one(3, 2 ** 22 + 1)).toBe(0)
  })

  test('is none where a factor has no parts', () => {
    expect(one(3.402823466e38, 1e-20)).toBe(Infinity)
    expect(one(1, Infinity)).toBe(Infinity)
    expect(one(1e38, 1.5)).toBeLessThan(1e33)
  })
})
