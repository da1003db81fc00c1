import { expect, test } from 'vitest'
import { decodeOne, encode } from '../../compiler/codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { TestDevice, compileToPtx, differences, f32Bits, f32Of } from './device.ts'
import { prelude } from './prelude.ts'

// Warp-level matrices (ldmatrix, stmatrix, movmatrix, mma.sync) and atomics in all widths.

const range = (n: number) => Array.from({ length: n }, (_, i) => i)

interface Mma {
  /** Default 16. */
  readonly m?: 8 | 16
  readonly k: number
  readonly a: string
  readonly b: string
  readonly d: 'f32' | 'f16' | 's32'
  readonly saturate?: boolean
  /** Of single bits. */
  readonly operation?: 'and' | 'xor'
}
const BITS: Record<string, number> = {
  f16: 16,
  bf16: 16,
  tf32: 32,
  e4m3: 8,
  e5m2: 8,
  u8: 8,
  s8: 8,
  u4: 4,
  s4: 4,
  b1: 1,
}
const INTEGERS = (bits: 4 | 8, shape: Pick<Mma, 'm' | 'k'>): Mma[] =>
  [`u${bits}`, `s${bits}`].flatMap((a) => [`u${bits}`, `s${bits}`].flatMap((b) => [{}, { saturate: true }].map((s): Mma => ({ ...shape, a, b, d: 's32', ...s })))) // prettier-ignore
const MMAS: Mma[] = [
  ...[8, 16].flatMap((k): Mma[] => [{ k, a: 'f16', b: 'f16', d: 'f32' }, { k, a: 'f16', b: 'f16', d: 'f16' }, { k, a: 'bf16', b: 'bf16', d: 'f32' }]),
  ...[4, 8].map((k): Mma => ({ k, a: 'tf32', b: 'tf32', d: 'f32' })),
  ...[16, 32].flatMap((k) => ['e4m3', 'e5m2'].flatMap((a) => ['e4m3', 'e5m2'].flatMap((b): Mma[] => [{ k, a, b, d: 'f32' }, { k, a, b, d: 'f16' }]))),
  ...[{ m: 8, k: 16 } as const, { k: 16 }, { k: 32 }].flatMap((shape) => INTEGERS(8, shape)),
  ...[{ m: 8, k: 32 } as const, { k: 32 }, { k: 64 }].flatMap((shape) => INTEGERS(4, shape)),
  ...[{ m: 8, k: 128 } as const, { k: 128 }, { k: 256 }].flatMap((shape) => (['and', 'xor'] as const).map((operation): Mma => ({ ...shape, a: 'b1', b: 'b1', d: 's32', operation }))),
] // prettier-ignore
const registers = ({ m = 16, k, a, d }: Mma) => {
  const words = (rows: number) => (rows * k * BITS[a]!) / 1024
  return { a: words(m), b: words(8), d: d === 'f16' ? 2 : m / 4 }
}
/** Rows and depth of mma.sync on f64; matrices lie row by row (B column by column) in memory. */
const F64 = [
  [8, 4],
  [16, 4],
  [16, 8],
  [16, 16],
] as const
function f64Kernel([m, k]: readonly [number, number], index: number): string {
  const [ac, bc, cc] = [(m * k) / 32, k / 4, m / 4]
  const regs = (from: number, n: number) => `{${Array.from({ length: n }, (_, i) => `%${from + i}`).join(', ')}}`
  const operands = (x: string, n: number, how: string) =>
    Array.from({ length: n }, (_, i) => `"${how}"(${x}[${i}])`).join(', ')
  return `
extern "C" __global__ void f64_${index}(double* out, const double* A, const double* B, const double* C) {
  int g = threadIdx.x / 4, q = threadIdx.x % 4; double a[${ac}], b[${bc}], c[${cc}];
  for (int r = 0; r < ${ac}; r++) a[r] = A[(g + 8 * (r % ${m / 8})) * ${k} + q + 4 * (r / ${m / 8})];
  for (int r = 0; r < ${bc}; r++) b[r] = B[g * ${k} + q + 4 * r];
  for (int r = 0; r < ${cc}; r++) c[r] = C[(g + 8 * (r / 2)) * 8 + 2 * q + r % 2];
  asm volatile("mma.sync.aligned.m${m}n8k${k}.row.col.f64.f64.f64.f64 ${regs(0, cc)}, ${regs(cc, ac)}, ${regs(cc + ac, bc)}, ${regs(0, cc)};"
    : ${operands('c', cc, '+d')} : ${operands('a', ac, 'd')}, ${operands('b', bc, 'd')});
  for (int r = 0; r < ${cc}; r++) out[(g + 8 * (r / 2)) * 8 + 2 * q + r % 2] = c[r];
}`
}
function mmaKernel(mma: Mma, index: number): string {
  const n = registers(mma)
  const group = (count: number, first: number) =>
    `{${range(count)
      .map((i) => `%${first + i}`)
      .join(', ')}}`
  const operands = `${group(n.d, 0)}, ${group(n.a, n.d)}, ${group(n.b, n.d + n.a)}, ${group(n.d, 0)}`
  const name = `mma.sync.aligned.m${mma.m ?? 16}n8k${mma.k}.row.col${mma.saturate ? '.satfinite' : ''}.${mma.d}.${mma.a}.${mma.b}.${mma.d}${mma.operation ? `.${mma.operation}.popc` : ''}`
  const out = range(n.d).map((i) => `"+r"(d[${i}])`)
  const inputs = [...range(n.a).map((i) => `"r"(a[${i}])`), ...range(n.b).map((i) => `"r"(b[${i}])`)]
  return `
extern "C" __global__ void mma${index}(u32* out, const u32* A, const u32* B, const u32* C) {
  u32 a[${n.a}], b[${n.b}], d[${n.d}]; int t = threadIdx.x;
  for (int i = 0; i < ${n.a}; i++) a[i] = A[i * 32 + t];
  for (int i = 0; i < ${n.b}; i++) b[i] = B[i * 32 + t];
  for (int i = 0; i < ${n.d}; i++) d[i] = C[i * 32 + t];
  asm volatile("${name} ${operands};" : ${out.join(', ')} : ${inputs.join(', ')});
  for (int i = 0; i < ${n.d}; i++) out[i * 32 + t] = d[i];
}`
}

const MOVES = ['', '.trans'].flatMap((trans) => [1, 2, 4].map((count) => ({ trans, count })))
const moveKernel = ({ trans, count }: (typeof MOVES)[number], index: number) => {
  const list = `{${range(count)
    .map((i) => `%${i}`)
    .join(', ')}}`
  const each = (mode: string) =>
    range(count)
      .map((i) => `"${mode}"(r[${i}])`)
      .join(', ')
  return `
extern "C" __global__ void load${index}(u32* out, const u32* in, const int* at) {
  __shared__ __align__(16) u32 x[256]; int t = threadIdx.x; u32 r[${count}];
  for (int i = t; i < 256; i += 32) x[i] = in[i];
  __syncwarp();
  asm volatile("ldmatrix.sync.aligned.m8n8.x${count}${trans}.shared::cta.b16 ${list}, [%${count}];" : ${each('=r')} : "r"(smem(x) + at[t] * 16));
  for (int i = 0; i < ${count}; i++) out[i * 32 + t] = r[i];
}
extern "C" __global__ void store${index}(u32* out, const u32* in, const int* at) {
  __shared__ __align__(16) u32 x[256]; int t = threadIdx.x; u32 r[${count}];
  for (int i = t; i < 256; i += 32) x[i] = 0;
  for (int i = 0; i < ${count}; i++) r[i] = in[i * 32 + t];
  __syncwarp();
  asm volatile("stmatrix.sync.aligned.x${count}${trans}.m8n8.shared.b16 [%${count}], ${list};" :: ${each('r')}, "r"(smem(x) + at[t] * 16) : "memory");
  __syncwarp();
  for (int i = t; i < 256; i += 32) out[i] = x[i];
}`
}

/** Vector atomics of 4 words per thread, by their modifiers and the registers of an element. */
const VECTORS: [string, number, DTypeName, 'add' | 'min' | 'max'][] = [
  ['v2.f32.add', 2, 'f32', 'add'],
  ['v4.f32.add', 4, 'f32', 'add'],
  ['v2.f16x2.add.noftz', 2, 'f16', 'add'],
  ['v4.bf16x2.add.noftz', 4, 'bf16', 'add'],
  ['v4.f16x2.min.noftz', 4, 'f16', 'min'],
  ['v2.bf16x2.max.noftz', 2, 'bf16', 'max'],
]
const vectorKernel = ([form, n]: (typeof VECTORS)[number], index: number) => {
  const list = (first: number) =>
    `{${range(n)
      .map((i) => `%${first + i}`)
      .join(', ')}}`
  return `
extern "C" __global__ void vector${index}(u32* memory, const u32* in, u32* old) {
  int t = threadIdx.x; u32 r[${n}];
  asm volatile("atom.relaxed.gpu.global.${form} ${list(0)}, [%${n}], ${list(n + 1)};" : ${range(n)
    .map((i) => `"=r"(r[${i}])`)
    .join(', ')} : "l"(memory + t * ${n}), ${range(n)
    .map((i) => `"r"(in[t * ${n} + ${i}])`)
    .join(', ')} : "memory");
  for (int i = 0; i < ${n}; i++) old[t * ${n} + i] = r[i];
  asm volatile("red.relaxed.gpu.global.${form} [%0], ${list(1)};" :: "l"(memory + t * ${n}), ${range(n)
    .map((i) => `"r"(in[t * ${n} + ${i}])`)
    .join(', ')} : "memory");
}`
}

const source = `${prelude}
${MMAS.map(mmaKernel).join('')}${F64.map(f64Kernel).join('')}${MOVES.map(moveKernel).join('')}${VECTORS.map(vectorKernel).join('')}
extern "C" __global__ void transposed(u32* out, const u32* in) { u32 r; asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r)
  : "r"(in[threadIdx.x])); out[threadIdx.x] = r; }
#define ATOM(type, op, c, T, i, x) { T r; asm volatile("atom.global." op "." type " %0, [%1], %2;" : "=" c(r) : "l"(m + i), c((T)(x)) : "memory"); }
extern "C" __global__ void narrow(u64* m, u64* old) {  // one lane after the other on one word each
  int t = threadIdx.x;
  ATOM("s64", "max", "l", long long, 0, (long long)t - 40) ATOM("u64", "min", "l", u64, 1, 1000 - t) ATOM("b64", "and", "l", u64, 2, ~(1ull << t))
    ATOM("b64", "exch", "l", u64, 3, t)
  ATOM("u32", "inc", "r", u32, 4, 9) ATOM("u32", "dec", "r", u32, 5, 9) ATOM("s32", "min", "r", int, 6, 5 - t) ATOM("b32", "xor", "r", u32, 7, 1 << t)
    ATOM("f64", "add", "d", double, 8, t * 0.5)
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" :: "l"(m + 9), "r"(0x3c004000) : "memory");
  asm volatile("red.global.add.noftz.bf16 [%0], %1;" :: "l"(m + 10), "h"((short)0x3f80) : "memory");
  unsigned short a = 0, b; do { b = a; asm volatile("atom.relaxed.gpu.global.cas.b16 %0, [%1], %2, %3;" : "=h"(a)
    : "l"(m + 11), "h"(b), "h"((unsigned short)(b + 3)) : "memory"); } while (a != b);
  u64 lo, hi; asm volatile("{.reg .b128 v, d; mov.b128 v, {%2, %3}; atom.global.exch.b128 d, [%4], v; mov.b128 {%0, %1}, d;}" : "=l"(lo), "=l"(hi)
    : "l"((u64)t), "l"((u64)t * 2), "l"(m + 12) : "memory");
  old[t * 2] = lo; old[t * 2 + 1] = hi;
  asm volatile("{.reg .b128 c, v, d; mov.b128 c, {%0, %1}; mov.b128 v, {%2, %2}; atom.acq_rel.gpu.global.cas.b128 d, [%3], c, v;}"
    :: "l"(77ull), "l"(0ull), "l"((u64)t + 100), "l"(m + 14) : "memory");
}
`
const gpu = new TestDevice(compileToPtx(source, 'sm_100a', ['-w']))
let state = 3
const random = (n: number) => (
  (state = (Math.imul(state, 1664525) + 1013904223) >>> 0),
  Math.floor((state / 2 ** 32) * n)
)

const valueOf = (type: string) =>
  type[0] === 'u' || type === 'b1'
    ? random(2 ** BITS[type]!)
    : type[0] === 's'
      ? random(2 ** BITS[type]!) - 2 ** (BITS[type]! - 1)
      : random(15) - 7
const codeOf = (type: string, x: number) =>
  /^[usb][0-9]/.test(type) ? x & (2 ** BITS[type]! - 1) : Number(encode(type as DTypeName, [x])[0])
/** Fragment registers of a matrix: row lane/4 + 8 (r % 2), k from (r / 2 | 0) and lane % 4 (B: column lane/4, every r along k). */
function fragments(type: string, rows: number, k: number, values: number[]): Uint32Array {
  const per = 32 / BITS[type]!
  const count = (rows * k * BITS[type]!) / 1024
  return Uint32Array.from({ length: count * 32 }, (_, i) => {
    const [r, lane] = [i >> 5, i & 31]
    const row = (lane >> 2) + (rows === 16 ? 8 * (r % 2) : 0)
    const first = (rows === 16 ? r >> 1 : r) * 4 * per + (lane & 3) * per
    return range(per).reduce((word, e) => word | (codeOf(type, values[row * k + first + e]!) << (e * BITS[type]!)), 0)
  })
}
const nameOf = ({ m = 16, k, a, b, d, saturate, operation }: Mma) =>
  `m${m}n8k${k} ${d} ${a} ${b}${saturate ? ' satfinite' : ''} ${operation ?? ''}`
test.each(F64.map((shape, i) => [shape.join('×'), shape, i] as const))('mma.sync f64 %s', async (_, [m, k], index) => {
  const [a, b, c] = [m * k, 8 * k, m * 8].map((n) => Float64Array.from({ length: n }, () => Math.random() - 0.5)) as [
    Float64Array,
    Float64Array,
    Float64Array,
  ]
  const out = gpu.allocate(m * 64)
  const { findings } = await gpu.run(`f64_${index}`, [out, gpu.upload(a), gpu.upload(b), gpu.upload(c)])
  expect(findings).toEqual([])
  const got = gpu.read(out, m * 8, Float64Array)
  for (let row = 0; row < m; ++row)
    for (let column = 0; column < 8; ++column) {
      let sum = c[row * 8 + column]!
      for (let i = 0; i < k; ++i) sum += a[row * k + i]! * b[column * k + i]!
      expect(got[row * 8 + column]).toBeCloseTo(sum, 13)
    }
})

test.each(MMAS.map((mma, i) => [nameOf(mma), mma, i] as const))('mma.sync %s', async (_, mma, index) => {
  const { m = 16, k, a, b, d, saturate, operation } = mma
  const A = range(m * k).map(() => valueOf(a))
  const B = range(8 * k).map(() => valueOf(b))
  const C = range(m * 8).map(() => (d === 's32' ? (random(2) ? 1 : -1) * (2 ** 31 - 1 - random(2e5)) : random(64) - 32))
  const at = (i: number, lane: number) => ((lane >> 2) + 8 * (i >> 1)) * 8 + 2 * (lane & 3) + (i & 1)
  const pack = (value: (x: number) => number) =>
    d === 'f16'
      ? Uint32Array.from({ length: 64 }, (_, w) =>
          [0, 1].reduce((x, e) => x | (codeOf('f16', value(at(2 * (w >> 5) + e, w & 31))) << (16 * e)), 0),
        )
      : Uint32Array.from({ length: m * 8 }, (_, w) =>
          d === 'f32' ? f32Bits(value(at(w >> 5, w & 31))) : value(at(w >> 5, w & 31)),
        )
  const out = gpu.allocate(512)
  const params = [
    out,
    gpu.upload(fragments(a, m, k, A)),
    gpu.upload(fragments(b, 8, k, B)),
    gpu.upload(pack((i) => C[i]!)),
  ]
  expect((await gpu.run(`mma${index}`, params)).findings).toEqual([])
  const expected = pack((i) => {
    const [row, column] = [i >> 3, i & 7]
    const times = (x: number, y: number) => (operation === 'xor' ? x ^ y : x * y)
    const sum = range(k).reduce((s, j) => s + times(A[row * k + j]!, B[column * k + j]!), C[i]!)
    return saturate ? Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, sum)) : sum + 0
  })
  expect(differences(gpu.read(out, expected.length, Uint32Array), expected)).toEqual([])
})

test.each(MOVES.map((m, i) => [`x${m.count}${m.trans}`, m, i] as const))(
  'ldmatrix and stmatrix %s',
  async (_, { trans, count }, index) => {
    const input = Uint32Array.from({ length: 256 }, (_, i) => (i * 0x20003 + 0x1000b) >>> 0)
    const halves = new Uint16Array(input.buffer)
    // Rows in any order; those of lanes beyond the matrices are not read.
    const rows = Int32Array.from(range(32), (lane) => (lane < 8 * count ? (lane * 29 + 5) % 64 : 1 << 20))
    const out = gpu.allocate(1024)
    const element = (m: number, lane: number, e: number) =>
      trans ? rows[8 * m + 2 * (lane & 3) + e]! * 8 + (lane >> 2) : rows[8 * m + (lane >> 2)]! * 8 + 2 * (lane & 3) + e
    expect((await gpu.run(`load${index}`, [out, gpu.upload(input), gpu.upload(rows)])).findings).toEqual([])
    const loaded = range(count * 32).map(
      (i) => halves[element(i >> 5, i & 31, 0)]! + halves[element(i >> 5, i & 31, 1)]! * 65536,
    )
    expect(differences(gpu.read(out, count * 32, Uint32Array), loaded)).toEqual([])

    expect((await gpu.run(`store${index}`, [out, gpu.upload(input), gpu.upload(rows)])).findings).toEqual([])
    const stored = new Uint16Array(512)
    for (const i of range(count * 32)) for (const e of [0, 1]) stored[element(i >> 5, i & 31, e)] = halves[2 * i + e]!
    expect(differences(gpu.read(out, 512, Uint16Array), stored)).toEqual([])
  },
)

test('movmatrix', async () => {
  const input = Uint32Array.from({ length: 32 }, (_, i) => (i * 0x30005 + 7) >>> 0)
  const halves = new Uint16Array(input.buffer)
  const out = gpu.allocate(128)
  expect((await gpu.run('transposed', [out, gpu.upload(input)])).findings).toEqual([])
  expect([...gpu.read(out, 64, Uint16Array)]).toEqual(range(64).map((i) => halves[(i % 8) * 8 + Math.floor(i / 8)]))
})

test.each(VECTORS.map((v, i) => [v[0], v, i] as const))('vector atomics %s', async (_, [, n, dtype, op], index) => {
  const array = (dtype === 'f32' ? Uint32Array : Uint16Array) as Uint16ArrayConstructor
  const codes = () =>
    array.from({ length: (32 * n * 4) / array.BYTES_PER_ELEMENT }, () => codeOf(dtype, random(100) - 50))
  const [before, input] = [codes(), codes()]
  const memory = gpu.upload(before)
  const old = gpu.allocate(before.byteLength)
  expect((await gpu.run(`vector${index}`, [memory, gpu.upload(input), old])).findings).toEqual([])
  expect([...gpu.read(old, before.length, array)]).toEqual([...before])
  const value = (x: number) => (dtype === 'f32' ? f32Of(x) : decodeOne(dtype as 'f16', x))
  const f = op === 'add' ? (x: number, y: number) => x + y : Math[op]
  const expected = before.map((x, i) => codeOf(dtype, f(f(value(x), value(input[i]!)), value(input[i]!))))
  expect([...gpu.read(memory, before.length, array)]).toEqual([...expected])
})

test('atomics of 16 to 128 bits', async () => {
  const initial = new BigUint64Array(16)
  initial.set([BigInt.asUintN(64, -1000n), 2n ** 64n - 1n, 2n ** 64n - 1n, 99n, 3n, 2n])
  initial[14] = 77n
  const m = gpu.upload(initial)
  const old = gpu.allocate(512)
  expect((await gpu.run('narrow', [m, old])).findings).toEqual([])
  const words = gpu.read(m, 16, BigUint64Array)
  const dec = range(32).reduce((x) => (x === 0 || x > 9 ? 9 : x - 1), 2)
  const inc = range(32).reduce((x) => (x >= 9 ? 0 : x + 1), 3)
  expect([...words.slice(0, 8)]).toEqual([
    BigInt.asUintN(64, -9n),
    969n,
    0xffffffff00000000n,
    31n,
    BigInt(inc),
    BigInt(dec),
    0xffffffffn - 25n,
    0xffffffffn,
  ])
  expect(new Float64Array(words.buffer)[8]).toBe((31 * 32) / 4)
  expect(words.slice(9, 12)).toEqual(BigUint64Array.of(0x50005400n, 0x4200n, 96n))
  expect([...words.slice(12)]).toEqual([31n, 62n, 100n, 100n])
  expect([...gpu.read(old, 64, BigUint64Array)]).toEqual(
    range(64).map((i) => (i < 2 ? 0n : BigInt(((i >> 1) - 1) * (1 + (i & 1))))),
  )
})
