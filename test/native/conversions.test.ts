import { expect, test } from 'vitest'
import { type Codes, decode, encode } from '../../compiler/codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { ProbeDevice, wordsOf } from './probes.ts'

// cvt against compiler/codec.ts: all codes of the 8- and 16-bit formats, f32 and f64 by samples with all exponents,
// ties and specials.

type Mode = 'n' | 'z' | 'm' | 'p'
type Integer = 'u8' | 's8' | 'u16' | 's16' | 'u32' | 's32' | 'u64' | 's64'

const range = (n: number) => Array.from({ length: n }, (_, i) => i)
const SPECIAL32 = [
  0, 0x80000000, 1, 0x80000001, 0x7fffff, 0x800000, 0x3f800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001,
  0x7fc00000, 0xffffffff, 0x47800000, 0x43e80000, 0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000, 0x5f800000,
  0x7e800000, 0x7f000001, 0x7f400000,
]
/** Every sign, exponent and upper mantissa with varying lower bits; ties of all narrower formats; specials. */
const F32 = Uint32Array.from([
  ...SPECIAL32,
  ...range(32768).flatMap((i) => [(i * 131074 + (i & 1)) >>> 0, Math.imul(i, 10 * 4096) >>> 0]),
  ...range(4096).flatMap((i) => [(i << 20) >>> 0, ((i << 20) | 0x80000) >>> 0, ((i << 20) | 0x80001) >>> 0]),
])
const ALL16 = Uint16Array.from(range(65536))
const F64 = new BigUint64Array(
  Float64Array.from([
    0,
    -0,
    NaN,
    Infinity,
    -Infinity,
    5e-324,
    Number.MAX_VALUE,
    2 ** 63,
    -(2 ** 63),
    2 ** 64,
    2 ** 31 - 0.5,
    -(2 ** 31) - 0.5,
    2 ** 32 - 1,
    ...range(8192).map((i) => (i % 2 ? -1 : 1) * (1 + i / 8192 + i * 2 ** -40) * 2 ** (((i * 37) % 300) - 160)),
    ...range(2048).map((i) => (i - 1024) / 2),
  ]).buffer,
)

// --- the reference

/** Codes of `values`, rounded once in the mode: the nearest ones of the codec, moved by a step where it asks. */
function encodeRounded(dtype: DTypeName, values: Float64Array, mode: Mode): Codes {
  const codes = encode(dtype, values)
  if (mode === 'n' || (dtype === 'ue8m0' && mode === 'p')) return codes
  const near = decode(dtype, codes)
  // The codec rounds ue8m0 up.
  if (dtype === 'ue8m0')
    return Uint8Array.from(codes as Uint8Array, (c, i) => (c > 0 && near[i]! > Math.abs(values[i]!) ? c - 1 : c))
  const sign = dtype === 'f32' ? 0x80000000 : 0x8000
  for (let i = 0; i < values.length; i++) {
    const [x, y] = [values[i]!, near[i]!]
    const down = mode === 'm' || (mode === 'z' && x > 0)
    if (down ? !(y > x) : !(y < x)) continue
    // One step of the sign-magnitude code in the direction of x.
    if (y === 0) codes[i] = down ? sign | 1 : 1
    else codes[i] = (codes[i] as number) + (y > 0 === down ? -1 : 1)
  }
  return codes
}

interface Flags {
  readonly relu?: boolean
  readonly satfinite?: boolean
  readonly sat?: boolean
  readonly ftz?: boolean
  readonly integral?: boolean
}
const MAX: Partial<Record<DTypeName, number>> = { f16: 65504, bf16: 3.3895313892515355e38, e5m2: 57344 }

const integralOf = (x: number, mode: Mode): number => {
  if (mode === 'z') return Math.trunc(x)
  if (mode === 'm') return Math.floor(x)
  if (mode === 'p') return Math.ceil(x)
  const floor = Math.floor(x)
  const rest = x - floor
  if (!Number.isFinite(x)) return x
  return rest < 0.5 || (rest === 0.5 && floor % 2 === 0) ? floor : floor + 1
}
const flush = (x: number) => (Math.abs(x) < 2 ** -126 ? 0 * Math.sign(x || 1 / x) : x)

function convertFloat(dtype: DTypeName, values: Float64Array, mode: Mode, flags: Flags): bigint[] {
  const { relu, satfinite, sat, ftz, integral } = flags
  const adjusted = values.map((value) => {
    let x = ftz ? flush(value) : value
    if (integral && x === x) x = x < 0 ? -Math.abs(integralOf(x, mode)) : Object.is(x, -0) ? -0 : integralOf(x, mode)
    if (sat) x = x > 0 ? Math.min(x, 1) : 0
    if (relu && (x < 0 || Object.is(x, -0))) x = 0
    const max = MAX[dtype]
    return satfinite && max !== undefined && Math.abs(x) > max ? Math.sign(x) * max : x
  })
  if (dtype === 'f64') return [...(encode('f64', adjusted) as BigUint64Array)]
  const codes = encodeRounded(dtype, adjusted, integral ? 'n' : mode)
  const out = Array.from(codes as Uint32Array, (code) => BigInt(code >>> 0))
  if (ftz && dtype === 'f32') return out.map((code) => (code & 0x7f800000n ? code : code & 0x80000000n))
  return out
}

const bitsOf = (type: Integer) => Number(type.slice(1))
function convertInteger(type: Integer, x: number, mode: Mode, fromF64: boolean): bigint {
  const bits = bitsOf(type)
  const top = 1n << BigInt(bits - 1)
  if (x !== x) return fromF64 || bits === 64 ? top : 0n
  const [low, high] = type[0] === 's' ? [-top, top - 1n] : [0n, 2n * top - 1n]
  if (x === Infinity) return high
  const clamp = (v: bigint) => (v < low ? low : v > high ? high : v)
  return BigInt.asUintN(bits, x === -Infinity ? low : clamp(BigInt(integralOf(x, mode))))
}

// --- the forms

const SOURCES: Record<string, { words: BigUint64Array; dtype: DTypeName; lanes: 1 | 2; bits: number }> = {
  f32: { words: wordsOf(F32), dtype: 'f32', lanes: 1, bits: 32 },
  f64: { words: F64, dtype: 'f64', lanes: 1, bits: 64 },
  f16: { words: wordsOf(ALL16), dtype: 'f16', lanes: 1, bits: 16 },
  bf16: { words: wordsOf(ALL16), dtype: 'bf16', lanes: 1, bits: 16 },
  f16x2: {
    words: wordsOf(range(65536).map((i) => i + ((i * 40503) & 0xffff) * 65536)),
    dtype: 'f16',
    lanes: 2,
    bits: 16,
  },
  bf16x2: {
    words: wordsOf(range(65536).map((i) => i + ((i * 40503) & 0xffff) * 65536)),
    dtype: 'bf16',
    lanes: 2,
    bits: 16,
  },
  e4m3x2: { words: wordsOf(ALL16), dtype: 'e4m3', lanes: 2, bits: 8 },
  e5m2x2: { words: wordsOf(ALL16), dtype: 'e5m2', lanes: 2, bits: 8 },
  e3m2x2: { words: wordsOf(range(4096).map((i) => (i & 63) | ((i >> 6) << 8))), dtype: 'e3m2', lanes: 2, bits: 8 },
  e2m3x2: { words: wordsOf(range(4096).map((i) => (i & 63) | ((i >> 6) << 8))), dtype: 'e2m3', lanes: 2, bits: 8 },
  e2m1x2: { words: wordsOf(range(256)), dtype: 'e2m1', lanes: 2, bits: 4 },
  ue8m0x2: { words: wordsOf(ALL16), dtype: 'ue8m0', lanes: 2, bits: 8 },
}

const TYPE = /^(f64|f32|(f16|bf16|e4m3|e5m2|e3m2|e2m3|e2m1|ue8m0)(x2)?)$/
const INTEGER = /^[us](8|16|32|64)$/

const narrow = (to: string, from: string[], flags: string[]) =>
  from.flatMap((source) => flags.map((flag) => `cvt${flag}.${to}.${source}`))
const modes = (list: string, make: (mode: string) => string) => list.split(' ').map(make)
const ints = ['u8', 's8', 'u16', 's16', 'u32', 's32', 'u64', 's64']

/** Every form is one that ptxas accepts for sm_100a. */
const FORMS = [
  ...narrow(
    'f16',
    ['f32'],
    [
      '.rn',
      '.rz',
      '.rm',
      '.rp',
      '.rn.relu',
      '.rz.relu',
      '.rn.satfinite',
      '.rz.satfinite',
      '.rn.relu.satfinite',
      '.rn.sat',
      '.rn.ftz',
    ],
  ),
  ...narrow('bf16', ['f32'], ['.rn', '.rz', '.rn.relu', '.rz.relu', '.rn.satfinite', '.rz.relu.satfinite']),
  ...['f16x2', 'bf16x2'].flatMap((to) =>
    narrow(to, ['f32'], ['.rn', '.rz', '.rn.relu', '.rz.relu', '.rn.satfinite', '.rz.relu.satfinite']),
  ),
  ...['e4m3x2', 'e5m2x2'].flatMap((to) => narrow(to, ['f32', 'f16x2'], ['.rn.satfinite', '.rn.satfinite.relu'])),
  ...['e3m2x2', 'e2m3x2', 'e2m1x2'].flatMap((to) => narrow(to, ['f32'], ['.rn.satfinite', '.rn.satfinite.relu'])),
  ...narrow('ue8m0x2', ['f32', 'bf16x2'], ['.rp.satfinite', '.rz.satfinite']),
  ...narrow('f16x2', ['e4m3x2', 'e5m2x2', 'e3m2x2', 'e2m3x2', 'e2m1x2'], ['.rn', '.rn.relu']),
  'cvt.rn.bf16x2.ue8m0x2',
  ...['f32.f16', 'f32.bf16', 'f64.f16', 'f64.f32', 'f32.ftz.f16', 'ftz.f64.f32', 'sat.f32.f16', 'sat.f32.f32'].map(
    (f) => `cvt.${f}`,
  ),
  ...modes('rn rz rm rp', (m) => `cvt.${m}.f32.f64`),
  ...modes('rn rz rm rp', (m) => `cvt.${m}.f16.f64`),
  'cvt.rn.ftz.f32.f64',
  'cvt.rn.sat.f32.f64',
  ...['f16', 'f32', 'f64', 'ftz.f32'].flatMap((t) =>
    modes('rni rzi rmi rpi', (m) => `cvt.${m}.${t}.${t.replace('ftz.', '')}`),
  ),
  ...ints
    .flatMap((to) =>
      ['f16', 'f32', 'f64', 'bf16'].flatMap((from) =>
        modes(from === 'f32' ? 'rni rzi rmi rpi' : 'rni rzi', (m) => `cvt.${m}.${to}.${from}`),
      ),
    )
    .filter((form) => !/8.bf16$/.test(form)),
  'cvt.rzi.ftz.s32.f32',
  'cvt.rpi.ftz.u32.f32',
  'cvt.rzi.sat.s16.f32',
]

interface Form {
  readonly to: string
  readonly from: string
  readonly mode: Mode
  readonly flags: Flags
}
function parseForm(form: string): Form {
  const parts = form.split('.').slice(1)
  const [to, from] = parts.filter((p) => TYPE.test(p) || INTEGER.test(p)) as [string, string]
  const rounding = parts.find((p) => /^r[nzmp]i?$/.test(p)) ?? 'rn'
  const has = (flag: string) => parts.includes(flag)
  return {
    to,
    from,
    mode: rounding[1] as Mode,
    flags: {
      relu: has('relu'),
      satfinite: has('satfinite'),
      sat: has('sat') && !INTEGER.test(to),
      ftz: has('ftz'),
      integral: rounding.length === 3 && TYPE.test(to),
    },
  }
}

const registerOf = (type: string, x: string) => {
  if (/^e2m1x2$/.test(type)) return `%${x}8`
  if (/^(f16|bf16|[us]8|[us]16|e...x2|ue8m0x2)$/.test(type)) return `%${x}16`
  return /64$/.test(type) ? `%${x}64` : `%${x}32`
}
function textOf(form: string): string {
  const { to, from } = parseForm(form)
  const two = to.endsWith('x2') && !from.endsWith('x2')
  const sources = [registerOf(from, 'a'), ...(two ? [registerOf(from, 'b')] : [])].join(', ')
  const lines = [`${form} ${registerOf(to, 'd')}, ${sources};`]
  if (from === 'e2m1x2') lines.unshift('.reg .b8 %a8, %u8;', 'mov.b16 {%a8, %u8}, %a16;')
  if (to === 'e2m1x2') {
    lines.unshift('.reg .b8 %d8;')
    lines.push('mov.b16 %d16, {%d8, 0};')
  }
  return lines.join(' ')
}

const codesOf = (from: string, part: 0 | 1): Float64Array => {
  const source = SOURCES[from]!
  const mask = (1n << BigInt(source.bits)) - 1n
  if (source.bits === 64) return new Float64Array(source.words.slice().buffer)
  const codes = Array.from(source.words, (w) => Number((w >> BigInt(part * source.bits)) & mask))
  const array = source.bits === 32 ? Uint32Array : source.bits === 16 ? Uint16Array : Uint8Array
  return Float64Array.from(decode(source.dtype, array.from(codes)))
}

/** The words that the probe of a form should give; `b` holds the second operands of packing forms. */
function expectedOf(form: Form, b: BigUint64Array): bigint[] {
  const values = codesOf(form.from, 0)
  if (INTEGER.test(form.to)) {
    const x = form.flags.ftz ? values.map(flush) : values
    return Array.from(x, (v) => convertInteger(form.to as Integer, v, form.mode, form.from === 'f64'))
  }
  const dtype = form.to.replace('x2', '') as DTypeName
  const convert = (x: Float64Array) => convertFloat(dtype, x, form.mode, form.flags)
  if (!form.to.endsWith('x2')) return convert(values)
  const bits = BigInt(dtype === 'e2m1' ? 4 : dtype === 'f16' || dtype === 'bf16' ? 16 : 8)
  const second = new Float64Array(decode('f32', Uint32Array.from(b, Number)))
  const [low, high] = form.from.endsWith('x2')
    ? [convert(values), convert(codesOf(form.from, 1))]
    : [convert(second), convert(values)]
  return low.map((x, i) => x | (high[i]! << bits))
}

// --- integers

const INTEGERS = BigUint64Array.from(
  [
    ...[
      0n,
      1n,
      -1n,
      127n,
      128n,
      255n,
      256n,
      -128n,
      -129n,
      32767n,
      32768n,
      65535n,
      65536n,
      2n ** 31n,
      -(2n ** 31n) - 1n,
      2n ** 32n,
      2n ** 63n,
      2n ** 24n + 1n,
      2n ** 53n + 1n,
      2n ** 63n + 2n ** 39n,
      65520n,
    ],
    ...range(2000).map((i) => (BigInt(i + 1) * 0x9e3779b97f4a7c15n) >> BigInt(i % 60)),
  ],
  (x) => BigInt.asUintN(64, x),
)
const valueOf = (type: string, word: bigint): bigint =>
  type[0] === 's' ? BigInt.asIntN(bitsOf(type as Integer), word) : BigInt.asUintN(bitsOf(type as Integer), word)
const extended = (type: string, value: bigint, width: number): bigint => BigInt.asUintN(width, valueOf(type, value))

/** The nearest f32 or f64 of an integer, or its neighbour in the direction asked. */
function floatOfInteger(to: 'f32' | 'f64' | 'f16', value: bigint, mode: Mode): bigint {
  const bits = { f16: 11, f32: 24, f64: 53 }[to]
  const magnitude = value < 0n ? -value : value
  const drop = BigInt(Math.max(0, magnitude.toString(2).length - bits))
  let kept = magnitude >> drop
  const rest = magnitude - (kept << drop)
  const half = drop === 0n ? 0n : 1n << (drop - 1n)
  const up =
    rest !== 0n &&
    (mode === 'n'
      ? rest > half || (rest === half && kept % 2n === 1n)
      : mode === 'p'
        ? value > 0n
        : mode === 'm' && value < 0n)
  if (up) kept += 1n
  const x = Number(value < 0n ? -(kept << drop) : kept << drop)
  if (to === 'f64') return new BigUint64Array(Float64Array.of(x).buffer)[0]!
  if (to === 'f16' && mode === 'z' && Math.abs(x) > 65504) return x > 0 ? 0x7bffn : 0xfbffn
  return BigInt((encode(to, [x])[0] as number) >>> 0)
}

/** Where `.sat` is allowed. */
const canOverflow = (from: string, to: string) =>
  bitsOf(from as Integer) - Number(from[0] === 's') > bitsOf(to as Integer) - Number(to[0] === 's') ||
  (from[0] === 's' && to[0] === 'u')

interface IntegerForm {
  readonly text: string
  readonly expected: (word: bigint) => bigint
}
const INTEGER_FORMS: IntegerForm[] = [
  ...(['f32', 'f64', 'f16'] as const).flatMap((to) =>
    ints.flatMap((from) =>
      (to === 'f16' ? (['n', 'z'] as const) : (['n', 'z', 'm', 'p'] as const)).map((mode) => ({
        text: `cvt.r${mode}.${to}.${from} ${registerOf(to, 'd')}, ${registerOf(from, 'a')};`,
        expected: (word: bigint) => floatOfInteger(to, valueOf(from, word), mode),
      })),
    ),
  ),
  // Each destination type in a register of its own width and in the widest.
  ...ints.flatMap((to) =>
    ints.flatMap((from) =>
      (canOverflow(from, to) ? ['', '.sat'] : ['']).flatMap((sat) =>
        [Math.max(16, bitsOf(to as Integer)), 64].map((width) => ({
          text: `cvt${sat}.${to}.${from} %d${width}, ${registerOf(from, 'a')};`,
          expected: (word: bigint) => {
            const top = 1n << BigInt(bitsOf(to as Integer) - 1)
            const [low, high] = to[0] === 's' ? [-top, top - 1n] : [0n, 2n * top - 1n]
            const x = valueOf(from, word)
            return extended(to, sat ? (x < low ? low : x > high ? high : x) : x, width)
          },
        })),
      ),
    ),
  ),
  ...(['u16', 's16'] as const).map((to) => ({
    text: `cvt.pack.sat.${to}.s32 %d32, %a32, %b32;`,
    expected: (word: bigint) => pack(to, [valueOf('s32', word), valueOf('s32', word >> 32n)], 0n),
  })),
  ...(['u8', 's8'] as const).map((to) => ({
    text: `cvt.pack.sat.${to}.s32.b32 %d32, %a32, %b32, %a32;`,
    expected: (word: bigint) => pack(to, [valueOf('s32', word), valueOf('s32', word >> 32n)], word),
  })),
]
function pack(to: Integer, values: readonly [bigint, bigint], upper: bigint): bigint {
  const bits = BigInt(bitsOf(to))
  const [high, low] = values.map((x) => convertInteger(to, Number(x), 'z', false)) as [bigint, bigint]
  return BigInt.asUintN(32, (upper << (2n * bits)) | (high << bits) | low)
}

/** tf32 rounding, as measured on silicon. */
const TF32: [string, (bits: number) => number][] = [
  ['cvt.rn.tf32.f32', (x) => (isNan(x) ? 0x7fffe000 : (x + 0xfff + ((x >>> 13) & 1)) & ~0x1fff)],
  ['cvt.rz.tf32.f32', (x) => (isNan(x) ? 0x7fffe000 : x & ~0x1fff)],
  ['cvt.rna.tf32.f32', (x) => (isNan(x) ? x & ~0x1fff : (x + 0x1000) & ~0x1fff)],
  ['cvt.rn.relu.tf32.f32', (x) => (isNan(x) ? 0x7fffe000 : x >>> 31 ? 0 : (x + 0xfff + ((x >>> 13) & 1)) & ~0x1fff)],
  [
    'cvt.rn.satfinite.tf32.f32',
    (x) => {
      const rounded = (x + 0xfff + ((x >>> 13) & 1)) & ~0x1fff
      return isNan(x) ? 0x7fffe000 : (rounded & 0x7fffffff) >= 0x7f800000 ? 0x7f7fe000 | (x & 0x80000000) : rounded
    },
  ],
]
const isNan = (x: number) => (x & 0x7fffffff) > 0x7f800000

const probes = new ProbeDevice([
  ...FORMS.map(textOf),
  ...TF32.map(([form]) => `${form} %d32, %a32;`),
  ...INTEGER_FORMS.map((f) => f.text),
])
const reversedF32 = wordsOf(F32.slice().reverse())
/** f32 and f64 NaN of any payload count as equal. */
const canonical = (type: string, x: bigint): bigint =>
  type === 'f32' && (x & 0x7fffffffn) > 0x7f800000n
    ? 0x7fffffffn
    : type === 'f64' && (x & (2n ** 63n - 1n)) > 0x7ffn << 52n
      ? 0x7fffn << 48n
      : x

test.each(FORMS.map((form, i) => [form, i] as const))('%s', async (name, index) => {
  const form = parseForm(name)
  const { words } = SOURCES[form.from]!
  const got = await probes.run(index, words, form.from === 'f32' ? reversedF32 : words)
  const expected = expectedOf(form, reversedF32)
  const signed = /^s(8|16)$/.test(form.to) ? bitsOf(form.to as Integer) : 0
  const wrong: string[] = []
  for (let i = 0; i < words.length; ++i) {
    // 8-bit results live sign- or zero-extended in a 16-bit register.
    const want = signed ? BigInt.asUintN(16, BigInt.asIntN(signed, expected[i]!)) : canonical(form.to, expected[i]!)
    const have = canonical(form.to, got[i]!)
    if (have !== want && wrong.push(`${words[i]!.toString(16)}: ${have.toString(16)}, not ${want.toString(16)}`) > 4)
      break
  }
  expect(wrong).toEqual([])
})

test.each(TF32.map(([form, f], i) => [form, f, i] as const))('%s', async (_, f, index) => {
  const got = await probes.run(FORMS.length + index, SOURCES['f32']!.words)
  const wrong = range(F32.length).filter((i) => Number(got[i]) !== f(F32[i]!) >>> 0)
  expect(wrong.map((i) => `${F32[i]!.toString(16)}: ${got[i]!.toString(16)}`).slice(0, 4)).toEqual([])
})

test('integers to floats and to integers, saturating, packing and in wider registers', async () => {
  const high = INTEGERS.map((x) => x >> 32n)
  const wrong: string[] = []
  for (const [i, { text, expected }] of INTEGER_FORMS.entries()) {
    const got = await probes.run(FORMS.length + TF32.length + i, INTEGERS, high)
    const at = range(INTEGERS.length).find((k) => got[k] !== expected(INTEGERS[k]!))
    if (at === undefined) continue
    const [word, want] = [INTEGERS[at]!, expected(INTEGERS[at]!)]
    wrong.push(`${text} ${word.toString(16)}: ${got[at]!.toString(16)}, not ${want.toString(16)}`)
  }
  expect(wrong).toEqual([])
})
