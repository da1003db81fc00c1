import { expect, test } from 'vitest'
import { decodeOne, encodeOne } from '../../compiler/codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { differences, f32Bits, f32Of } from './device.ts'
import { ProbeDevice, wordsOf } from './probes.ts'

// Arithmetic, logic, comparison and data movement, instruction by instruction, on many operands.

const range = (n: number) => Array.from({ length: n }, (_, i) => i)
let state = 11
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0)
const word = () => (BigInt(random()) << 32n) | BigInt(random())
const N = 2048

// --- operand sets

const EDGES = [
  0n,
  1n,
  2n,
  31n,
  32n,
  33n,
  63n,
  64n,
  255n,
  0x7fffn,
  0x8000n,
  0xffffn,
  0x7fffffffn,
  0x80000000n,
  0xffffffffn,
  2n ** 63n,
  2n ** 64n - 1n,
]
const edge = () => EDGES[random() % EDGES.length]!
/** Any bits, with a quarter of edges and a quarter of small numbers. */
const wild = () => BigUint64Array.from(range(N), (i) => (i % 4 === 0 ? edge() : i % 4 === 1 ? word() % 40n : word()))
const [A, B, C] = [wild(), wild(), wild()]
const SPECIAL = [
  0, 0x80000000, 1, 0x80000001, 0x7fffff, 0x800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x3f800000,
  0xbf800000,
]
/** f32 pairs: specials and anything. */
const singles = () =>
  BigUint64Array.from(
    range(N),
    (i) =>
      (BigInt(i % 3 ? random() : SPECIAL[random() % 12]!) << 32n) | BigInt(i % 2 ? random() : SPECIAL[random() % 12]!),
  )
const [FA, FB, FC] = [singles(), singles(), singles()]
const HALF_SPECIAL = [
  0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x3c00, 0x7f80, 0xff80, 0x7fc0,
]
const halves = () =>
  BigUint64Array.from(range(N), () =>
    range(2).reduce((x) => (x << 16n) | BigInt(random() % 3 ? random() & 0xffff : HALF_SPECIAL[random() % 14]!), 0n),
  )
const [HA, HB, HC] = [halves(), halves(), halves()]
/** f32 values and f16 or bf16 values whose sums and products are exact in f64. */
const mild = () => wordsOf(range(N).map(() => f32Bits(((random() % 2 ** 24) - 2 ** 23) * 2 ** -(random() % 20))))
const [MA, MB] = [mild(), mild()]
const mildHalves = (dtype: DTypeName) =>
  wordsOf(range(N).map(() => encodeOne(dtype as 'f16', ((random() % 2048) - 1024) / 2 ** (random() % 10))))

// --- references

const u32 = (x: bigint) => Number(x & 0xffffffffn)
const s32 = (x: bigint) => u32(x) | 0
const masked = (x: bigint | number, bits = 32) => BigInt.asUintN(bits, BigInt(x))
const signed = (x: bigint, bits: number) => BigInt.asIntN(bits, x)
const bytesOf = (x: number) => [0, 8, 16, 24].map((s) => (x >>> s) & 255)
const extend = (x: number, bits: number, isSigned: boolean) => (isSigned ? (x << (32 - bits)) >> (32 - bits) : x)
const clamp32 = (x: bigint) => (x < -(2n ** 31n) ? -(2n ** 31n) : x > 2n ** 31n - 1n ? 2n ** 31n - 1n : x)
const s24 = (x: bigint) => BigInt.asIntN(24, x)
type Reference = (a: bigint, b: bigint, c: bigint) => bigint | number
type Row = readonly [
  text: string,
  reference: Reference,
  operands?: readonly [BigUint64Array, BigUint64Array, BigUint64Array],
]

function bfe(bits: number, isSigned: boolean): Reference {
  return (a, b, c) => {
    const [at, length] = [Number(b & 255n), Number(c & 255n)]
    const raw = BigInt.asUintN(bits, a)
    if (length === 0) return 0n
    const sign = isSigned ? (raw >> BigInt(Math.min(at + length - 1, bits - 1))) & 1n : 0n
    return range(bits).reduce(
      (out, i) => out | ((i < length && at + i < bits ? (raw >> BigInt(at + i)) & 1n : sign) << BigInt(i)),
      0n,
    )
  }
}
function bfi(bits: number): Reference {
  return (a, b, c) => {
    const [at, length] = [Number(c & 255n), Number((c >> 32n) & 255n)]
    return range(bits).reduce(
      (out, i) => out | (((i >= at && i < at + length ? a >> BigInt(i - at) : b >> BigInt(i)) & 1n) << BigInt(i)),
      0n,
    )
  }
}
const byteOf = (a: bigint, b: bigint, s: number) =>
  Number(((((b & 0xffffffffn) << 32n) | (a & 0xffffffffn)) >> BigInt(8 * (s & 7))) & 255n)
/** The bytes chosen by the low 3 bits of each selector; bit 3 asks for eight copies of the byte's sign. */
const permuted = (a: bigint, b: bigint, selectors: number[], signs = false) =>
  selectors.reduce((out, s, i) => {
    const byte = byteOf(a, b, s)
    return out + (signs && s & 8 ? (byte & 0x80 ? 255 : 0) : byte) * 2 ** (8 * i)
  }, 0)
const PRMT: Record<string, (s: number) => number[]> = {
  f4e: (s) => [s, s + 1, s + 2, s + 3],
  b4e: (s) => [s, s + 7, s + 6, s + 5],
  rc8: (s) => [s, s, s, s],
  ecl: (s) => [0, 1, 2, 3].map((i) => Math.max(i, s)),
  ecr: (s) => [0, 1, 2, 3].map((i) => Math.min(i, s)),
  rc16: (s) => [0, 1, 0, 1].map((i) => i + 2 * (s & 1)),
}
const dot =
  (ab: [boolean, boolean], width: 8 | 16, high: number): Reference =>
  (a, b, c) =>
    range(32 / width).reduce(
      (sum, i) =>
        sum +
        extend((u32(a) >>> (width * i)) & (2 ** width - 1), width, ab[0]) *
          extend(bytesOf(u32(b))[i + high * 2]!, 8, ab[1]),
      s32(c),
    )
const msb = (x: bigint) => (x === 0n ? -1 : x.toString(2).length - 1)
const findSign = (bits: number, isSigned: boolean) => (a: bigint) => {
  const v = isSigned && signed(a, bits) < 0n ? BigInt.asUintN(bits, ~a) : BigInt.asUintN(bits, a)
  return msb(v)
}
const fns: Reference = (a, b, c) => {
  const [mask, base, n] = [u32(a), u32(b) & 31, s32(c)]
  if (n === 0) return mask & (1 << base) ? base : -1
  const order = n > 0 ? range(32).slice(base) : range(base + 1).reverse()
  return order.filter((i) => (mask >>> i) & 1)[Math.abs(n) - 1] ?? -1
}
const szext =
  (isSigned: boolean, wrap: boolean): Reference =>
  (a, b) => {
    const n = wrap ? Number(b & 31n) : Math.min(u32(b), 32)
    return n === 0 ? 0n : isSigned ? signed(a, n) : BigInt.asUintN(n, a)
  }
const bmsk =
  (wrap: boolean): Reference =>
  (a, b) => {
    const [at, length] = wrap ? [Number(a & 31n), Number(b & 31n)] : [u32(a), u32(b)]
    return range(32).reduce((m, i) => m + (i >= at && i - at < length ? 2 ** i : 0), 0)
  }
const pairs16 =
  (f: (x: number, y: number) => number, isSigned: boolean): Reference =>
  (a, b) =>
    [16, 0].reduce(
      (out, s) =>
        out * 65536 +
        (f(extend((u32(a) >>> s) & 0xffff, 16, isSigned), extend((u32(b) >>> s) & 0xffff, 16, isSigned)) & 0xffff),
      0,
    )

const INTEGERS: Row[] = [
  ...(
    [
      ['u32', 32, false],
      ['s32', 32, true],
      ['u64', 64, false],
      ['s64', 64, true],
    ] as const
  ).flatMap(([type, bits, isSigned]): Row[] => [
    [`bfe.${type} %d${bits}, %a${bits}, %b32, %c32;`, bfe(bits, isSigned)],
    [`bfind.${type} %d32, %a${bits};`, findSign(bits, isSigned)],
    [
      `bfind.shiftamt.${type} %d32, %a${bits};`,
      (a) => {
        const at = findSign(bits, isSigned)(a)
        return at < 0 ? -1 : bits - 1 - at
      },
    ],
    [
      `sad.${type} %d${bits}, %a${bits}, %b${bits}, %c${bits};`,
      (a, b, c) => {
        const [x, y] = isSigned ? [signed(a, bits), signed(b, bits)] : [masked(a, bits), masked(b, bits)]
        return masked(c + (x < y ? y - x : x - y), bits)
      },
    ],
    [
      `mul.hi.${type} %d${bits}, %a${bits}, %b${bits};`,
      (a, b) =>
        masked(
          (isSigned ? signed(a, bits) * signed(b, bits) : masked(a, bits) * masked(b, bits)) >> BigInt(bits),
          bits,
        ),
    ],
    [
      `mad.hi.${type} %d${bits}, %a${bits}, %b${bits}, %c${bits};`,
      (a, b, c) =>
        masked(
          ((isSigned ? signed(a, bits) * signed(b, bits) : masked(a, bits) * masked(b, bits)) >> BigInt(bits)) + c,
          bits,
        ),
    ],
  ]),
  [
    'mad.hi.sat.s32 %d32, %a32, %b32, %c32;',
    (a, b, c) => clamp32(((signed(a, 32) * signed(b, 32)) >> 32n) + signed(c, 32)),
  ],
  ['bfi.b32 %d32, %a32, %b32, %c32, %t32_0;', bfi(32)],
  ['bfi.b64 %d64, %a64, %b64, %c32, %t32_0;', bfi(64)],
  [
    'prmt.b32 %d32, %a32, %b32, %c32;',
    (a, b, c) =>
      permuted(
        a,
        b,
        [0, 4, 8, 12].map((s) => (u32(c) >>> s) & 15),
        true,
      ),
  ],
  ...Object.entries(PRMT).map(([mode, f]): Row => [
    `prmt.b32.${mode} %d32, %a32, %b32, %c32;`,
    (a, b, c) => permuted(a, b, f(u32(c) & 3)),
  ]),
  ...(['wrap', 'clamp'] as const).flatMap((mode): Row[] => {
    const n = (c: bigint) =>
      (mode === 'wrap' ? c & 31n : c & 0xffffffffn) > 32n ? 32n : mode === 'wrap' ? c & 31n : c & 0xffffffffn
    const whole = (a: bigint, b: bigint) => ((b & 0xffffffffn) << 32n) | (a & 0xffffffffn)
    return [
      [`shf.l.${mode}.b32 %d32, %a32, %b32, %c32;`, (a, b, c) => masked((whole(a, b) << n(c)) >> 32n)],
      [`shf.r.${mode}.b32 %d32, %a32, %b32, %c32;`, (a, b, c) => masked(whole(a, b) >> n(c))],
      [`szext.${mode}.u32 %d32, %a32, %b32;`, szext(false, mode === 'wrap')],
      [`szext.${mode}.s32 %d32, %a32, %b32;`, szext(true, mode === 'wrap')],
      [`bmsk.${mode}.b32 %d32, %a32, %b32;`, bmsk(mode === 'wrap')],
    ]
  }),
  ['fns.b32 %d32, %a32, %t32_0, %c32;', fns],
  ...[0x00, 0x1e, 0x96, 0xca, 0xe8, 0xff].flatMap((lut): Row[] => {
    const f = (a: bigint, b: bigint, c: bigint) =>
      range(32).reduce(
        (out, i) =>
          out + ((lut >> (((u32(a) >>> i) & 1) * 4 + ((u32(b) >>> i) & 1) * 2 + ((u32(c) >>> i) & 1))) & 1) * 2 ** i,
        0,
      )
    return [
      [`lop3.b32 %d32, %a32, %b32, %c32, ${lut};`, f],
      [
        `setp.lt.u32 %q, %a32, %b32; lop3.and.b32 %d32|%p, %a32, %b32, %c32, ${lut}, %q; selp.b32 %d32, 1, 0, %p;`,
        (a, b, c) => Number(f(a, b, c) !== 0 && u32(a) < u32(b)),
      ],
      [
        `setp.lt.u32 %q, %a32, %b32; lop3.or.b32 _|%p, %a32, %b32, %c32, ${lut}, !%q; selp.b32 %d32, 1, 0, %p;`,
        (a, b, c) => Number(f(a, b, c) !== 0 || !(u32(a) < u32(b))),
      ],
    ]
  }),
  ...(
    [
      ['u32', 'u32'],
      ['s32', 's32'],
      ['u32', 's32'],
      ['s32', 'u32'],
    ] as const
  ).flatMap((types): Row[] => {
    const kinds: [boolean, boolean] = [types[0] === 's32', types[1] === 's32']
    return [
      [`dp4a.${types.join('.')} %d32, %a32, %b32, %c32;`, dot(kinds, 8, 0)],
      ...(['lo', 'hi'] as const).map((h, i): Row => [
        `dp2a.${h}.${types.join('.')} %d32, %a32, %b32, %c32;`,
        dot(kinds, 16, i),
      ]),
    ]
  }),
  ['mul24.lo.u32 %d32, %a32, %b32;', (a, b) => (a & 0xffffffn) * (b & 0xffffffn)],
  ['mul24.hi.u32 %d32, %a32, %b32;', (a, b) => ((a & 0xffffffn) * (b & 0xffffffn)) >> 16n],
  ['mul24.lo.s32 %d32, %a32, %b32;', (a, b) => s24(a) * s24(b)],
  ['mul24.hi.s32 %d32, %a32, %b32;', (a, b) => (s24(a) * s24(b)) >> 16n],
  ['mad24.lo.u32 %d32, %a32, %b32, %c32;', (a, b, c) => (a & 0xffffffn) * (b & 0xffffffn) + c],
  ['mad24.hi.u32 %d32, %a32, %b32, %c32;', (a, b, c) => (((a & 0xffffffn) * (b & 0xffffffn)) >> 16n) + c],
  ['mad24.hi.s32 %d32, %a32, %b32, %c32;', (a, b, c) => ((s24(a) * s24(b)) >> 16n) + c],
  [
    'mad24.hi.sat.s32 %d32, %a32, %b32, %c32;',
    (a, b, c) => clamp32(signed((s24(a) * s24(b)) >> 16n, 32) + signed(c, 32)),
  ],
  ['add.u16x2 %d32, %a32, %b32;', pairs16((x, y) => x + y, false)],
  ['min.u16x2 %d32, %a32, %b32;', pairs16(Math.min, false)],
  ['max.s16x2 %d32, %a32, %b32;', pairs16(Math.max, true)],
  ['min.relu.s16x2 %d32, %a32, %b32;', pairs16((x, y) => Math.max(0, Math.min(x, y)), true)],
  ['max.relu.s16x2 %d32, %a32, %b32;', pairs16((x, y) => Math.max(0, x, y), true)],
  ['max.relu.s32 %d32, %a32, %b32;', (a, b) => Math.max(0, s32(a), s32(b))],
  ['popc.b64 %d32, %a64;', (a) => a.toString(2).replaceAll('0', '').length],
  ['clz.b64 %d32, %a64;', (a) => 63 - msb(a)],
  ['brev.b64 %d64, %a64;', (a) => range(64).reduce((r, i) => (r << 1n) | ((a >> BigInt(i)) & 1n), 0n)],
  ['mul.wide.u16 %d32, %a16, %b16;', (a, b) => (a & 0xffffn) * (b & 0xffffn)],
  ['mad.wide.s16 %d32, %a16, %b16, %c32;', (a, b, c) => signed(a, 16) * signed(b, 16) + c],
  ['shr.s16 %d16, %a16, %b32;', (a, b) => masked(signed(a, 16) >> (u32(b) > 15 ? 15n : b & 15n), 16)],
  ['shl.b64 %d64, %a64, %b32;', (a, b) => (u32(b) > 63 ? 0n : masked(a << (b & 63n), 64))],
  ['slct.b32.s32 %d32, %a32, %b32, %c32;', (a, b, c) => (s32(c) >= 0 ? a : b)],
  ['cnot.b32 %d32, %a32;', (a) => Number(u32(a) === 0)],
  ['mov.b64 {%t32_1, %t32_2}, %a64; mov.b64 %d64, {%t32_2, %t32_1};', (a) => ((a & 0xffffffffn) << 32n) | (a >> 32n)],
  [
    'add.cc.u64 %t64_0, %a64, %b64; addc.u64 %d64, %c64, 0;',
    (a, b, c) => masked(c + (a + b > 2n ** 64n - 1n ? 1n : 0n), 64),
  ],
  [
    'sub.cc.u32 %t32_1, %a32, %b32; subc.cc.u32 %t32_1, %c32, %a32; subc.u32 %d32, 9, %b32;',
    (a, b, c) => {
      const w = [a, b, c].map((x) => x & 0xffffffffn) as [bigint, bigint, bigint]
      const first = w[0] < w[1] ? 1n : 0n
      return 9n - w[1] - (w[2] < w[0] + first ? 1n : 0n)
    },
  ],
  [
    'mad.lo.cc.u32 %t32_1, %a32, %b32, %c32; madc.hi.u32 %d32, %a32, %b32, %c32;',
    (a, b, c) => {
      const p = (a & 0xffffffffn) * (b & 0xffffffffn)
      return (p >> 32n) + c + ((p & 0xffffffffn) + (c & 0xffffffffn)) / 2n ** 32n
    },
  ],
]

// --- floating point

const nanBits = (x: number) => (x === x ? f32Bits(x) : 0x7fffffff)
const flush = (x: number) => (Math.abs(x) < 2 ** -126 ? 0 * Math.sign(x || 1 / x) : x)
/** A NaN loses unless both are, or the instruction propagates it. */
const pick = (max: boolean, nan: boolean) => (x: number, y: number) =>
  x !== x || y !== y ? (nan || (x !== x && y !== y) ? NaN : x !== x ? y : x) : max ? Math.max(x, y) : Math.min(x, y)
const f32Row = (text: string, f: (...x: number[]) => number): Row => [
  `${text} %d32, ${['%a32', '%b32', '%c32'].slice(0, f.length).join(', ')};`,
  (a, b, c) => nanBits(f(...[a, b, c].map((x) => f32Of(u32(x))).slice(0, f.length))),
  [FA, FB, FC],
]
/** The sign is that of the bits, also of a NaN that loses. */
const xorsign = (dtype: 'f32' | 'f16' | 'bf16', f: (x: number, y: number) => number) => (a: number, b: number) => {
  const top = dtype === 'f32' ? 0x80000000 : 0x8000
  const magnitude = (code: number) => decodeOne(dtype, (code & (top - 1)) >>> 0)
  const r = f(magnitude(a), magnitude(b))
  return r === r ? (encodeOne(dtype, r) | ((a ^ b) & top)) >>> 0 : dtype === 'f32' ? 0x7fffffff : 0x7fff
}
/** f32 nearest to p + c, where p is exact in f64: rounds to odd in between. */
function fma32(p: number, c: number): number {
  const s = p + c
  const t = s - p
  const error = p - (s - t) + (c - t)
  if (error === 0 || !Number.isFinite(s)) return Math.fround(s)
  const bits = new BigInt64Array(Float64Array.of(s).buffer)
  if ((bits[0]! & 1n) === 0n) bits[0]! += error > 0 === s > 0 ? 1n : -1n
  return Math.fround(new Float64Array(bits.buffer)[0]!)
}
const pair =
  (f: (...x: number[]) => number): Reference =>
  (a, b, c) => {
    const half = (s: bigint) => BigInt(nanBits(f(...[a, b, c].map((x) => f32Of(u32(x >> s))))))
    return (half(32n) << 32n) | half(0n)
  }
/** The f32 on the side of an exact f64 that the mode asks for. */
function directed(x: number, mode: string): number {
  const near = Math.fround(x)
  const down = mode === 'rm' || (mode === 'rz' && x > 0)
  if (mode === 'rn' || near === x || (down ? near < x : near > x)) return near
  return near === 0 ? (down ? -1 : 1) * 2 ** -149 : f32Of(f32Bits(near) + (near > 0 === down ? -1 : 1))
}
const CLASSES: Record<string, (x: number, smallest: number) => boolean> = {
  finite: (x) => Number.isFinite(x),
  infinite: (x) => Math.abs(x) === Infinity,
  number: (x) => x === x,
  notanumber: (x) => x !== x,
  normal: (x, s) => Number.isFinite(x) && Math.abs(x) >= s,
  subnormal: (x, s) => x !== 0 && Math.abs(x) < s,
}
const f64Of = (x: bigint) => new Float64Array(BigUint64Array.of(x).buffer)[0]!
const DOUBLES = BigUint64Array.from(FA, (x, i) =>
  i % 5 ? x : [0n, 1n, 2n ** 52n, 0x7ffn << 52n, 0xfffn << 52n, (0x7ffn << 52n) | 1n][i % 6]!,
)

const FLOATS: Row[] = [
  ...(['min', 'max'] as const).flatMap((op): Row[] => {
    const [plain, nan] = [pick(op === 'max', false), pick(op === 'max', true)]
    const ftz = (f: typeof plain) => (x: number, y: number) => f(flush(x), flush(y))
    return [
      f32Row(`${op}.f32`, (x, y) => plain(x!, y!)),
      f32Row(`${op}.NaN.f32`, (x, y) => nan(x!, y!)),
      f32Row(`${op}.ftz.f32`, (x, y) => ftz(plain)(x!, y!)),
      f32Row(`${op}.f32`, (x, y, z) => plain(plain(x!, y!), z!)),
      f32Row(`${op}.NaN.f32`, (x, y, z) => nan(nan(x!, y!), z!)),
      f32Row(`${op}.ftz.NaN.abs.f32`, (x, y, z) =>
        nan(nan(flush(Math.abs(x!)), flush(Math.abs(y!))), flush(Math.abs(z!))),
      ),
      ...[plain, nan].map((f, i): Row => [
        `${op}${i ? '.NaN' : ''}.xorsign.abs.f32 %d32, %a32, %b32;`,
        (a, b) => xorsign('f32', f)(u32(a), u32(b)),
        [FA, FB, FC],
      ]),
    ]
  }),
  ['add.rn.f32x2 %d64, %a64, %b64;', pair((x, y) => Math.fround(x! + y!)), [FA, FB, FC]],
  ['sub.f32x2 %d64, %a64, %b64;', pair((x, y) => Math.fround(x! - y!)), [FA, FB, FC]],
  ['mul.ftz.f32x2 %d64, %a64, %b64;', pair((x, y) => flush(Math.fround(flush(x!) * flush(y!)))), [FA, FB, FC]],
  ['fma.rn.f32x2 %d64, %a64, %b64, %c64;', pair((x, y, z) => fma32(x! * y!, z!)), [FA, FB, FC]],
  ['copysign.f32 %d32, %a32, %b32;', (a, b) => (a & 0x80000000n) | (b & 0x7fffffffn), [FA, FB, FC]],
  ['slct.ftz.b32.f32 %d32, %a32, %b32, %c32;', (a, b, c) => (flush(f32Of(u32(c))) >= 0 ? a : b), [A, B, FC]],
  ['slct.u64.f32 %d64, %a64, %b64, %c32;', (a, b, c) => (f32Of(u32(c)) >= 0 ? a : b), [A, B, FC]],
  ...Object.entries(CLASSES).flatMap(([name, f]): Row[] => [
    [`testp.${name}.f32 %p, %a32; selp.b32 %d32, 1, 0, %p;`, (a) => Number(f(f32Of(u32(a)), 2 ** -126)), [FA, FB, FC]],
    [`testp.${name}.f64 %p, %a64; selp.b32 %d32, 1, 0, %p;`, (a) => Number(f(f64Of(a), 2 ** -1022)), [DOUBLES, FB, FC]],
  ]),
  ...(['f16', 'bf16'] as const).flatMap((t): Row[] => {
    const [X, Y] = [mildHalves(t), mildHalves(t)]
    const value = (x: bigint) => decodeOne(t, Number(x & 0xffffn))
    return ['rn', 'rz', 'rm', 'rp'].flatMap((mode): Row[] => [
      [
        `add.${mode}.f32.${t} %d32, %a16, %b32;`,
        (a, b) => f32Bits(directed(value(a) + f32Of(u32(b)), mode)),
        [X, MB, MB],
      ],
      [
        `sub.${mode}.sat.f32.${t} %d32, %a16, %b32;`,
        (a, b) => f32Bits(Math.min(1, Math.max(0, directed(value(a) - f32Of(u32(b)), mode)))),
        [X, MB, MB],
      ],
      [
        `fma.${mode}.f32.${t} %d32, %a16, %b16, %c32;`,
        (a, b, c) => f32Bits(directed(value(a) * value(b) + f32Of(u32(c)), mode)),
        [X, Y, MA],
      ],
    ])
  }),
]

// --- halves and comparisons

const flush16 = (x: number) => (Math.abs(x) < 2 ** -14 ? 0 * Math.sign(x || 1 / x) : x)
type HalfFunction = (x: number, y: number, z: number) => number
const half =
  (t: 'f16' | 'bf16', f: HalfFunction, packed: boolean): Reference =>
  (a, b, c) => {
    const one = (s: number) =>
      encodeOne(t, f(...([a, b, c].map((x) => decodeOne(t, (u32(x) >>> s) & 0xffff)) as [number, number, number])))
    return packed ? one(16) * 65536 + one(0) : one(0)
  }
const COMPARE: Record<string, (x: number, y: number) => boolean> = {
  eq: (x, y) => x === y,
  ne: (x, y) => x < y || x > y,
  lt: (x, y) => x < y,
  ge: (x, y) => x >= y,
  equ: (x, y) => !(x < y || x > y),
  neu: (x, y) => x !== y,
  ltu: (x, y) => !(x >= y),
  gtu: (x, y) => !(x <= y),
  num: (x, y) => x === x && y === y,
  nan: (x, y) => x !== x || y !== y,
}
const HALVES: Row[] = (['f16', 'bf16'] as const).flatMap((t): Row[] => {
  const relu = (x: number) => (x !== x ? x : x > 0 ? x : 0)
  const forms: [string, number, HalfFunction][] = [
    ['add.rn', 2, (x, y) => x + y],
    ['mul.rn', 2, (x, y) => x * y],
    ['max', 2, pick(true, false)],
    ['min.NaN', 2, pick(false, true)],
    ...(t === 'f16'
      ? ([
          ['add.sat', 2, (x, y) => (x + y > 0 ? Math.min(1, x + y) : 0)],
          ['sub.ftz', 2, (x, y) => flush16(decodeOne('f16', encodeOne('f16', flush16(x) - flush16(y))))],
        ] as [string, number, HalfFunction][])
      : []),
  ]
  const rows = forms.flatMap(([op, n, f]): Row[] => [
    [`${op}.${t} %d16, ${['%a16', '%b16'].slice(0, n).join(', ')};`, half(t, f, false), [HA, HB, HC]],
    [`${op}.${t}x2 %d32, ${['%a32', '%b32'].slice(0, n).join(', ')};`, half(t, f, true), [HA, HB, HC]],
  ])
  for (const [op, max, nan] of [
    ['max.NaN', true, true],
    ['min', false, false],
  ] as const) {
    const f = xorsign(t, pick(max, nan))
    const lane = (a: bigint, b: bigint, s: number) => f((u32(a) >>> s) & 0xffff, (u32(b) >>> s) & 0xffff)
    rows.push(
      [`${op}.xorsign.abs.${t} %d16, %a16, %b16;`, (a, b) => lane(a, b, 0), [HA, HB, HC]],
      [`${op}.xorsign.abs.${t}x2 %d32, %a32, %b32;`, (a, b) => lane(a, b, 16) * 65536 + lane(a, b, 0), [HA, HB, HC]],
    )
  }
  const [X, Y, Z] = [mildHalves(t), mildHalves(t), mildHalves(t)]
  rows.push(
    [`neg.${t} %d16, %a16;`, half(t, (x) => -x, false), [X, Y, Z]],
    [`abs.${t}x2 %d32, %a32;`, half(t, Math.abs, true), [X, Y, Z]],
  )
  rows.push(
    [`fma.rn.${t} %d16, %a16, %b16, %c16;`, half(t, (x, y, z) => x * y + z, false), [X, Y, Z]],
    [`fma.rn.relu.${t}x2 %d32, %a32, %b32, %c32;`, half(t, (x, y, z) => relu(x * y + z), true), [X, Y, Z]],
  )
  const value = (x: bigint, s = 0) => decodeOne(t, (u32(x) >>> s) & 0xffff)
  const one = t === 'f16' ? 0x3c00 : 0x3f80
  for (const [op, f] of Object.entries(COMPARE)) {
    const packed =
      (truth: number): Reference =>
      (a, b) =>
        [16, 0].reduce((out, s) => out * 65536 + (f(value(a, s), value(b, s)) ? truth : 0), 0)
    rows.push(
      [`set.${op}.u32.${t} %d32, %a16, %b16;`, (a, b) => (f(value(a), value(b)) ? 0xffffffff : 0), [HA, HB, HC]],
      [`set.${op}.s16.${t} %d16, %a16, %b16;`, (a, b) => (f(value(a), value(b)) ? 0xffff : 0), [HA, HB, HC]],
      [`set.${op}.${t}.${t} %d16, %a16, %b16;`, (a, b) => (f(value(a), value(b)) ? one : 0), [HA, HB, HC]],
      [`set.${op}.${t}x2.${t}x2 %d32, %a32, %b32;`, packed(one), [HA, HB, HC]],
      [`set.${op}.u32.${t}x2 %d32, %a32, %b32;`, packed(0xffff), [HA, HB, HC]],
      [
        `setp.${op}.and.${t}x2 %p|%q, %a32, %b32, %in; selp.b32 %d32, 1, 0, %p; @%q add.u32 %d32, %d32, 2;`,
        (a, b) => Number(f(value(a), value(b))) + 2 * Number(f(value(a, 16), value(b, 16))),
        [HA, HB, HC],
      ],
    )
  }
  if (t === 'f16')
    rows.push([
      'setp.gt.ftz.f16 %p, %a16, %b16; selp.b32 %d32, 1, 0, %p;',
      (a, b) => Number(flush16(value(a)) > flush16(value(b))),
      [HA, HB, HC],
    ])
  return rows
})
const COMPARISONS: Row[] = [
  ...Object.entries(COMPARE).flatMap(([op, f]): Row[] => [
    [`set.${op}.f32.f32 %d32, %a32, %b32;`, (a, b) => (f(f32Of(u32(a)), f32Of(u32(b))) ? 0x3f800000 : 0), [FA, FB, FC]],
    [
      `setp.${op}.ftz.f32 %p, %a32, %b32; selp.b32 %d32, 1, 0, %p;`,
      (a, b) => Number(f(flush(f32Of(u32(a))), flush(f32Of(u32(b))))),
      [FA, FB, FC],
    ],
    [
      `setp.${op}.f64 %p|%q, %a64, %b64; selp.b32 %d32, 1, 0, %p; @%q add.u32 %d32, %d32, 2;`,
      (a, b) => (f(f64Of(a), f64Of(b)) ? 1 : 2),
      [DOUBLES, FB, FC],
    ],
  ]),
  ...(['hi', 'lo', 'hs', 'ls'] as const).map((op): Row => [
    `setp.${op}.u32 %p, %a32, %b32; selp.b32 %d32, 1, 0, %p;`,
    (a, b) => {
      const [x, y] = [u32(a), u32(b)]
      return Number({ hi: x > y, lo: x < y, hs: x >= y, ls: x <= y }[op])
    },
  ]),
  [
    'setp.lt.s64 %q, %a64, %b64; setp.ge.xor.s32 %p|%q, %b32, %c32, !%q; selp.b32 %d32, 1, 0, %p; @%q add.u32 %d32, %d32, 2;',
    (a, b, c) => {
      const [ge, not] = [s32(b) >= s32(c), !(signed(a, 64) < signed(b, 64))]
      return Number(ge !== not) + 2 * Number(!ge !== not)
    },
  ],
]

const ROWS = [...INTEGERS, ...FLOATS, ...HALVES, ...COMPARISONS]
const setup = (text: string) =>
  text.startsWith('bfi')
    ? `shr.u64 %t64_0, %c64, 32; cvt.u32.u64 %t32_0, %t64_0; ${text}`
    : text.startsWith('fns')
      ? `and.b32 %t32_0, %b32, 31; ${text}`
      : text
const probes = new ProbeDevice(ROWS.map(([text]) => setup(text)))
const widthOf = (text: string) => Number(/%d(\d+)/.exec(text)?.[1] ?? 32)

test.each(
  ['integers', 'floats', 'halves', 'comparisons'].map(
    (name, i) => [name, [INTEGERS, FLOATS, HALVES, COMPARISONS][i]!] as const,
  ),
)('%s', async (_, rows) => {
  const wrong: string[] = []
  for (const row of rows) {
    const [text, reference, [a, b, c] = [A, B, C]] = row
    const got = await probes.run(ROWS.indexOf(row), a, b, c)
    const expected = Array.from(a, (x, i) => masked(reference(x, b[i]!, c[i]!), widthOf(text)))
    const found = differences(got, expected).slice(0, 2)
    if (found.length > 0) wrong.push(`${text} ${found.join(' · ')}`)
  }
  expect(wrong).toEqual([])
})
