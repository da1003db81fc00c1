import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decode, encode } from '../../compiler/codec.ts'
import { normal } from '../../compiler/evaluate/generate.ts'
import { decodeStored } from '../../compiler/stored/decode.ts'
import { scaleOf, type QuantisedForm } from '../../compiler/stored/quantise.ts'
import { blockIndices, blockShape, quantise } from './quantise_whole.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'

/** Every code's value from the words of the format, apart from the codec: [exponent bits, mantissa bits, bias]. */
const FIELDS = { e4m3: [4, 3, 7], e5m2: [5, 2, 15], e3m2: [3, 2, 3], e2m3: [2, 3, 1], e2m1: [2, 1, 1] } as const
type Float = keyof typeof FIELDS

function valueOfCode(format: Float, code: number): number {
  const [e, m, bias] = FIELDS[format]
  const bits = code.toString(2).padStart(1 + e + m, '0')
  const [sign, exponent, mantissa] = [bits[0] === '1' ? -1 : 1, parseInt(bits.slice(1, 1 + e), 2), parseInt(bits.slice(1 + e), 2)]
  if (format === 'e4m3' && exponent === 15 && mantissa === 7) return NaN
  if (format === 'e5m2' && exponent === 31) return mantissa === 0 ? sign * Infinity : NaN
  return exponent === 0 ? sign * mantissa * 2 ** (1 - bias - m) : sign * (1 + mantissa / 2 ** m) * 2 ** (exponent - bias)
} // prettier-ignore

const codesOf = (format: Float): number[] => Array.from({ length: 2 ** (1 + FIELDS[format][0] + FIELDS[format][1]) }, (_, i) => i) // prettier-ignore
const MAX: Record<string, number> = { e4m3: 448, e5m2: 57344, e3m2: 28, e2m3: 7.5, e2m1: 6, i8: 127, i4: 7 }
const INTEGERS: Record<string, number> = { i8: 8, i4: 4 }

/** The nearest value of the format, ties to the even code, found by trying all. */
function nearest(format: string, x: number): number {
  if (Number.isNaN(x)) return format === 'e4m3' || format === 'e5m2' ? NaN : 0
  const limit = MAX[format]!
  const candidates = INTEGERS[format] ? Array.from({ length: 2 * limit + 1 }, (_, i) => ({ code: i - limit, value: i - limit }))
    : codesOf(format as Float).map((code) => ({ code, value: valueOfCode(format as Float, code) })).filter(({ value }) => Math.abs(value) <= limit) // prettier-ignore
  const saturated = Math.min(limit, Math.max(-limit, x))
  let best = candidates[0]!
  for (const candidate of candidates) {
    const [d, before] = [Math.abs(candidate.value - saturated), Math.abs(best.value - saturated)]
    if (d < before || (d === before && candidate.code % 2 === 0 && best.value !== candidate.value)) best = candidate
  }
  return best.value
}

const f = Math.fround

/** The formula in plain loops, over blocks of `size` along the last axis of [rows, columns]. */
function plain(form: QuantisedForm, values: Float32Array, columns: number, size: number, norm: number) {
  const data: number[] = []
  const scales: number[] = []
  for (let row = 0; row < values.length / columns; row++)
    for (let start = 0; start < columns; start += size) {
      const block = [...values.slice(row * columns + start, row * columns + Math.min(start + size, columns))]
      const amax = block.some(Number.isNaN) ? NaN : Math.max(...block.map(Math.abs))
      const raw = f(f(amax * norm) * f(1 / MAX[form.data]!))
      let scale = raw
      if (form.scale === 'ue8m0') {
        scale = NaN
        if (form.rounding === 'up') for (let e = 127; e >= -127 && 2 ** e >= raw; e--) scale = 2 ** e
        else for (let e = -127; e <= 127 && (e === -127 || 2 ** e * 2 ** Math.floor(Math.log2(MAX[form.data]!)) <= f(amax * norm)); e++) scale = 2 ** e // prettier-ignore
        if (Number.isNaN(raw)) scale = NaN
        else if (Number.isNaN(scale)) scale = 2 ** 127
      } else if (form.scale === 'ue4m3') scale = nearest('e4m3', raw)
      scales.push(scale)
      const multiplier = Number.isNaN(scale) ? NaN : Math.min(f(norm * f(1 / scale)), 3.4028234663852886e38)
      for (const v of block) data.push(amax === 0 ? 0 : nearest(form.data, f(v * multiplier)))
    }
  return { data, scales }
}

const FORMS: readonly (readonly [DTypeName, DTypeName, number, number])[] = [
  ['e4m3', 'ue8m0', 32, 1], ['e5m2', 'ue8m0', 32, 1], ['e3m2', 'ue8m0', 32, 1], ['e2m3', 'ue8m0', 32, 1], ['e2m1', 'ue8m0', 32, 1],
  ['e2m1', 'ue4m3', 16, 2688 / 3.7], ['e2m1', 'ue4m3', 16, 1], ['e4m3', 'f32', 128, 1], ['i8', 'f32', 128, 1], ['i4', 'f32', 24, 1], ['e4m3', 'ue4m3', 5, 1],
] // prettier-ignore

const same = (got: ArrayLike<number>, expected: ArrayLike<number>): number =>
  Array.from(got).findIndex((x, i) => !(Object.is(x, expected[i]) || x === expected[i]))

describe('every code decodes', () => {
  test.each(['e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1'] as const)('%s', (format) => {
    const codes = codesOf(format)
    expect(Array.from(decode(format, Uint8Array.from(codes)))).toEqual(codes.map((code) => valueOfCode(format, code)))
  })

  test('scales and integers', () => {
    const all = Uint8Array.from({ length: 256 }, (_, i) => i)
    expect(Array.from(decode('ue8m0', all))).toEqual([...Array.from({ length: 255 }, (_, i) => 2 ** (i - 127)), NaN])
    expect(Array.from(decode('ue4m3', all.slice(0, 128)))).toEqual(
      Array.from({ length: 128 }, (_, i) => valueOfCode('e4m3', i)),
    )
    expect(Array.from(decode('i8', all))).toEqual(Array.from(all, (x) => (x < 128 ? x : x - 256)))
    expect(Array.from(decode('i4', all.slice(0, 16)))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1])
    expect(Array.from(decode('u4', all.slice(0, 16)))).toEqual(Array.from(all.slice(0, 16)))
  })

  test('(data - zero) * scale * global, rounded at each step', () => {
    expect(decodeStored(5, 8, 0.5)).toBe(-1.5)
    expect(decodeStored(-0)).toBe(-0)
    // 3 · RN(0.1) rounds once more before the global scale.
    expect(decodeStored(3, 0, f(0.1), f(0.3))).toBe(f(f(3 * f(0.1)) * f(0.3)))
    expect(decodeStored(448, 0, 2 ** 127)).toBe(Infinity)
    expect(decodeStored(0, 0, NaN)).toBeNaN()
  })
})

describe('quantisation', () => {
  test.each(FORMS)('%s by %s in blocks of %d, norm %d: as plain loops have it', (data, scale, size, norm) => {
    const columns = 83
    const values = normal(5 * columns, 7).map((x, i) => x * 2 ** ((i * 7) % 23) * (i % 41 === 0 ? 0 : 1))
    values.fill(0, 83, 83 + 64)
    values[170] = NaN
    values[260] = -Infinity
    values.fill(2 ** -149, 332, 340)
    values.fill(-(2 ** -140), 340, 415)
    for (const rounding of scale === 'ue8m0' ? (['up', 'down'] as const) : (['up'] as const)) {
      const form = { data, scale, rounding }
      const shape = [5, columns]
      const got = quantise(form, values, blockIndices(shape, [1, size]), 5 * Math.ceil(columns / size), norm)
      const expected = plain(form, values, columns, size, norm)
      expect(same(got.scale, expected.scales)).toBe(-1)
      expect(same(got.data, expected.data)).toBe(-1)
    }
  })

  test('bytes made by hand', () => {
    const bytes = (form: QuantisedForm, values: number[], norm = 1): number[][] => {
      const { data, scale } = quantise(form, Float32Array.from(values), new Uint8Array(values.length), 1, norm)
      return [Array.from(encode(form.data, data) as Uint8Array), Array.from(encode(form.scale, scale) as Uint8Array)]
    }
    const mx = (data: DTypeName, rounding: 'up' | 'down' = 'up') => ({ data, scale: 'ue8m0', rounding }) as const
    // 448 fits with scale 1 (0x7f); the next f32 number needs 2. 2^8 (1 + 3/4) is 0x7e, half of it 0x76.
    expect(bytes(mx('e4m3'), [448, -224])).toEqual([[0x7e, 0xf6], [0x7f]])
    expect(bytes(mx('e4m3'), [448.00003, -224])).toEqual([[0x76, 0xee], [0x80]])
    // OCP: 2^(8 - 8) up to 511, which saturates.
    expect(bytes(mx('e4m3', 'down'), [511, -224])).toEqual([[0x7e, 0xf6], [0x7f]])
    // fp4: 6 / 6 = 1; 2.5 is halfway between 2 (code 4) and 3 (code 5), 5 between 4 (6) and 6 (7), 0.25 between 0 and 0.5.
    expect(bytes(mx('e2m1'), [6, 2.5, 5, -0.25, -0.75, 3.5])).toEqual([[7, 4, 6, 8, 10, 6], [0x7f]])
    // nvfp4 with norm 2688 / 6: sf_raw = 6 · 448 / 6 = 448 (0x7e), the data is v · (448 / 448).
    expect(bytes({ data: 'e2m1', scale: 'ue4m3', rounding: 'up' }, [6, 1.5, -3], 448)).toEqual([[7, 3, 0xd], [0x7e]])
    // A block of zeros, also negative ones, is 0 with the least scale; NaN spreads over the block, or becomes 0.
    expect(bytes(mx('e5m2'), [0, -0])).toEqual([[0, 0], [0]])
    expect(bytes(mx('e5m2'), [1, NaN])).toEqual([[0x7f, 0x7f], [0xff]])
    expect(bytes(mx('e3m2'), [1, NaN])).toEqual([[0, 0], [0xff]])
    expect(bytes({ data: 'e2m1', scale: 'ue4m3', rounding: 'up' }, [1, NaN])).toEqual([[0, 0], [0x7f]])
    // Infinity saturates: 2^127 (0xfe) and the largest datum, the rest vanishes.
    expect(bytes(mx('e2m3'), [Infinity, 1, -Infinity])).toEqual([[0x1f, 0, 0x3f], [0xfe]])
    expect(bytes({ data: 'i8', scale: 'f32', rounding: 'up' }, [127, -63.5, 0.5, -127])[0]).toEqual([127, 0xc0, 0, 0x81])
    expect(bytes({ data: 'i4', scale: 'f32', rounding: 'up' }, [7, -7, 2.5, -3.5])[0]).toEqual([7, 9, 2, 0xc])
  }) // prettier-ignore

  test('a ue8m0 scale is the least power of two that keeps the block from overflowing', () => {
    const amax = fc.float({ min: Math.fround(2 ** -100), max: Math.fround(2 ** 120), noNaN: true })
    fc.assert(
      fc.property(amax, fc.constantFrom('e4m3', 'e5m2', 'e3m2', 'e2m3', 'e2m1'), (x, data) => {
        const scale = scaleOf({ data, scale: 'ue8m0', rounding: 'up' }, x)
        // RN(1 / max) is off by at most half a unit, so the comparison is.
        expect(x / scale).toBeLessThanOrEqual(MAX[data]! * (1 + 2 ** -22))
        expect((2 * x) / scale).toBeGreaterThan(MAX[data]! * (1 - 2 ** -22))
        const floor = scaleOf({ data, scale: 'ue8m0', rounding: 'down' }, x)
        expect([scale / floor, scale / floor / 2]).toContain(1)
      }),
    )
  })

  test('blocks along any axes, the last ones short', () => {
    expect(blockShape([3, 5], [2, 2])).toEqual([2, 3])
    expect([...blockIndices([3, 5], [2, 2])]).toEqual([0, 0, 1, 1, 2, 0, 0, 1, 1, 2, 3, 3, 4, 4, 5])
    const values = Float32Array.of(1, 2, 4, 8, 16, 32)
    const columns = quantise({ data: 'e4m3', scale: 'f32', rounding: 'up' }, values, blockIndices([3, 2], [2, 1]), 4)
    expect([...columns.scale]).toEqual([4, 8, 16, 32].map((x) => f(x * f(1 / 448))))
  })
})
