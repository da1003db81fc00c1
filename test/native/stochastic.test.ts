import { expect, test } from 'vitest'
import { decode } from '../../compiler/codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { TestDevice, compileToPtx, differences } from './device.ts'
import { commas } from './prelude.ts'
import { randomNumbers } from './sparse.ts'

// cvt.rs (PTX ISA 9.7.9.21): away from zero where |x| / spacing + random / 2^bits reaches the next code.

interface Form {
  readonly type: DTypeName
  readonly elements: 2 | 4
  /** Of an element in the result; of random bits. */
  readonly bits: number
  readonly random: number
  readonly modifiers: string
}
const form = (type: DTypeName, elements: 2 | 4, bits: number, random: number): Form[] =>
  (elements === 2 ? ['', '.relu', '.satfinite', '.relu.satfinite'] : ['.satfinite', '.relu.satfinite']).map((modifiers) => ({ type, elements, bits, random, modifiers })) // prettier-ignore
const FORMS = [
  ...form('f16', 2, 16, 13),
  ...form('bf16', 2, 16, 16),
  ...(['e4m3', 'e5m2', 'e2m3', 'e3m2'] as const).flatMap((type) => form(type, 4, 8, 16)),
  ...form('e2m1', 4, 4, 16),
]
const COUNT = 2048
const kernel = ({ type, elements, bits, modifiers }: Form, i: number) => {
  const inputs = commas(elements, (k) => `%${k + 1}`)
  const half = elements * bits === 16
  return `
extern "C" __global__ void k${i}(unsigned* out, const float* x, const unsigned* random) {
  int t = blockIdx.x * 32 + threadIdx.x; unsigned ${half ? 'short' : ''} d;
  asm volatile("cvt.rs${modifiers}.${type}x${elements}.f32 %0, ${elements === 4 ? `{${inputs}}` : inputs}, %${elements + 1};"
    : "=${half ? 'h' : 'r'}"(d) : ${commas(elements, (k) => `"f"(x[${elements} * t + ${k}])`)}, "r"(random[t]));
  out[t] = d;
}`
}
const gpu = new TestDevice(compileToPtx(FORMS.map(kernel).join('')))

/** Bits `places` of a word, the first of which weighs most. */
const bitsAt = (word: number, places: readonly number[]) =>
  places.reduce((sum, place) => 2 * sum + ((word >>> place) & 1), 0)
const run = (from: number, to: number) =>
  Array.from({ length: Math.abs(to - from) + 1 }, (_, i) => (from < to ? from + i : from - i))
/** The random bits of operand i, as they were measured on a B200. */
function randomOf({ type, elements, random }: Form, word: number, i: number): number {
  if (elements === 2) return bitsAt(word, i === 0 ? run(random + 15, 16) : run(random - 1, 0))
  const eights = [run(16, 31), run(31, 16), run(0, 15), run(15, 0)]
  const fours = [[...run(8, 15), ...run(24, 31)], [...run(31, 24), ...run(15, 8)], [...run(0, 7), ...run(16, 23)], [...run(23, 16), ...run(7, 0)]]
  return bitsAt(word, (type === 'e2m1' ? fours : eights)[i]!)
} // prettier-ignore

/** Finite codes of positive numbers, rising; the largest may be followed by infinity. */
function codesOf({ type, bits }: Form): Float64Array {
  const all = Uint16Array.from({ length: 2 ** ((type === 'e2m3' || type === 'e3m2' ? 6 : bits) - 1) }, (_, i) => i)
  const values = decode(type, bits === 16 ? all : Uint8Array.from(all))
  return Float64Array.from(values).filter((x) => Number.isFinite(x))
}
function expectedOf(f: Form, finite: Float64Array, x: number, random: number): number {
  const [relu, satfinite] = [f.modifiers.includes('relu'), f.modifiers.includes('satfinite')]
  const sixteen = f.bits === 16
  const width = f.type === 'e2m3' || f.type === 'e3m2' ? 6 : f.bits
  const nan = { f16: 0x7fff, bf16: 0x7fff, e4m3: 0x7f, e5m2: 0x7f }[f.type as string] ?? finite.length - 1
  if (Number.isNaN(x)) return nan
  const negative = x < 0 || Object.is(x, -0)
  if (negative && relu) return 0
  const magnitude = Math.abs(x)
  let low = 0
  for (let high = finite.length - 1; low < high;) {
    const middle = (low + high + 1) >> 1
    if (finite[middle]! <= magnitude) low = middle
    else high = middle - 1
  }
  let code = low
  const spacing = low + 1 < finite.length ? finite[low + 1]! - finite[low]! : finite[low]! - finite[low - 1]!
  if ((magnitude - finite[low]!) / spacing + random / 2 ** f.random >= 1) code++
  if (code >= finite.length) code = satfinite || !sixteen ? finite.length - 1 : finite.length
  return code | (negative ? 2 ** (width - 1) : 0)
}

test.each(FORMS.map((f, i) => [`${f.type}x${f.elements}${f.modifiers}`, f, i] as const))('cvt.rs %s', async (_, f, i) => {
  const random = randomNumbers(17 + i)
  const finite = codesOf(f)
  const words = Uint32Array.from({ length: COUNT }, (_, t) => (t < 64 ? [0, 0xffffffff, 0xffff, 0x1fff][t & 3]! : (random(65536) << 16) | random(65536)))
  const special = [0, -0, Infinity, -Infinity, NaN, finite.at(-1)!, -finite.at(-1)! * 1.03, finite[1]!, finite[1]! / 3, -finite[1]! / 2 ** 20, 1e-45]
  const inputs = Float32Array.from({ length: COUNT * f.elements }, (_, k) => {
    if (k < 1024) return special[k % special.length]!
    const low = random(finite.length)
    const step = (finite[Math.min(low + 1, finite.length - 1)]! - finite[low]!) * (random(2 ** 20) / 2 ** 20)
    return (finite[low]! + step) * (random(2) ? 1 : -1)
  })
  const out = gpu.allocate(COUNT * 4)
  const { findings } = await gpu.run(`k${i}`, [out, gpu.upload(inputs), gpu.upload(words)], { grid: [COUNT / 32, 1, 1], checks: 'full' })
  expect(findings).toEqual([])
  const expected = Uint32Array.from(words, (word, t) =>
    Array.from({ length: f.elements }, (_, e) => expectedOf(f, finite, inputs[t * f.elements + e]!, randomOf(f, word, e))).reduce((all, code) => all * 2 ** f.bits + code, 0))
  expect(differences(gpu.read(out, COUNT, Uint32Array), expected)).toEqual([])
}) // prettier-ignore

test('the device of an SM90 refuses it', () => {
  const ptx = compileToPtx(kernel(FORMS[0]!, 0)).replace('.target sm_100a', '.target sm_90a')
  expect(() => new TestDevice(ptx, 'sm_90a')).toThrow(/sm_100a and sm_103a/)
})
