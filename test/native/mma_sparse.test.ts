import { expect, test } from 'vitest'
import { decodeOne, encode } from '../../compiler/codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { TestDevice, compileToPtx, differences, f32Bits, f32Of } from './device.ts'
import { ORDERS, commas, describeOrder, prelude } from './prelude.ts'
import { chunkOf, metadataRegister, randomNumbers, sparseMatrix } from './sparse.ts'

// mma.sp and mma.sp::ordered_metadata (PTX ISA 9.7.14.6) in every form that ptxas takes for sm_90a and sm_100a.

const BITS: Record<string, number> = { f16: 16, bf16: 16, tf32: 32, e4m3: 8, e5m2: 8, u8: 8, s8: 8, u4: 4, s4: 4 }
interface Form {
  readonly k: number
  readonly a: string
  readonly b: string
  readonly d: 'f32' | 'f16' | 's32'
  readonly saturate?: boolean
}
const integers = (bits: 4 | 8, k: number): Form[] =>
  [`u${bits}`, `s${bits}`].flatMap((a) => [`u${bits}`, `s${bits}`].map((b, i): Form => ({ k, a, b, d: 's32', saturate: i === 0 }))) // prettier-ignore
const FORMS: Form[] = [
  ...[16, 32].flatMap((k): Form[] => [
    { k, a: 'f16', b: 'f16', d: 'f32' },
    { k, a: 'f16', b: 'f16', d: 'f16' },
    { k, a: 'bf16', b: 'bf16', d: 'f32' },
    { k: k / 2, a: 'tf32', b: 'tf32', d: 'f32' },
    ...integers(8, 2 * k),
    ...integers(4, 4 * k),
  ]),
  ...['e4m3', 'e5m2'].flatMap((a) => ['e4m3', 'e5m2'].map((b): Form => ({ k: 64, a, b, d: 'f32' }))),
]
/** Each with every selector. */
const CASES = FORMS.flatMap((form) => {
  const selectors = 16 / (form.k / chunkOf(BITS[form.a]!))
  return Array.from({ length: selectors }, (_, selector) => ({ ...form, selector, ordered: selector % 2 === 0 }))
})
type Case = (typeof CASES)[number]

const registersOf = ({ k, a, d }: Form) => ({
  a: (16 * k * BITS[a]!) / 2048,
  b: (8 * k * BITS[a]!) / 1024,
  d: d === 'f16' ? 2 : 4,
})
const nameOf = ({ k, a, b, d, saturate, ordered }: Case) =>
  `mma.sp${ordered ? '::ordered_metadata' : ''}.sync.aligned.m16n8k${k}.row.col${saturate ? '.satfinite' : ''}.${d}.${a}.${b}.${d}`

function kernel(c: Case, index: number): string {
  const n = registersOf(c)
  const list = (from: number, count: number) => `{${commas(count, (i) => `%${from + i}`)}}`
  const [a, b, e] = [n.d, n.d + n.a, n.d + n.a + n.b]
  return `
extern "C" __global__ void mma${index}(u32* out, const u32* A, const u32* B, const u32* C, const u32* E) {
  u32 a[${n.a}], b[${n.b}], d[${n.d}], e = E[threadIdx.x]; int t = threadIdx.x;
  for (int i = 0; i < ${n.a}; i++) a[i] = A[i * 32 + t];
  for (int i = 0; i < ${n.b}; i++) b[i] = B[i * 32 + t];
  for (int i = 0; i < ${n.d}; i++) d[i] = C[i * 32 + t];
  asm volatile("${nameOf(c)} ${list(0, n.d)}, ${list(a, n.a)}, ${list(b, n.b)}, ${list(0, n.d)}, %${e}, ${c.selector};"
    : ${commas(n.d, (i) => `"+r"(d[${i}])`)} : ${commas(n.a, (i) => `"r"(a[${i}])`)}, ${commas(n.b, (i) => `"r"(b[${i}])`)}, "r"(e));
  for (int i = 0; i < ${n.d}; i++) out[i * 32 + t] = d[i];
}`
}
const gpu = new TestDevice(compileToPtx(`${prelude}${CASES.map(kernel).join('')}`))
// Of the others the SM90 has the same.
const onHopper = (index: number) => index % 9 === 0
const hopper = new TestDevice(compileToPtx(`${prelude}${CASES.map(kernel).filter((_, i) => onHopper(i)).join('')}`, 'sm_90a'), 'sm_90a') // prettier-ignore

const random = randomNumbers(11)
const valueOf = (type: string) =>
  type === 'u8' ? random(256) : type === 's8' ? random(256) - 128 : type === 'u4' ? random(16) : type === 's4' ? random(16) - 8 : random(15) - 7 // prettier-ignore
const CODECS: Record<string, DTypeName> = { s8: 'i8', tf32: 'f32' }
/** Rows of values as bytes, elements of 4 bits two to a byte. */
function bytesOf(type: string, row: readonly number[]): Uint8Array {
  if (BITS[type] === 4) return Uint8Array.from({ length: row.length / 2 }, (_, i) => (row[2 * i]! & 15) | ((row[2 * i + 1]! & 15) << 4))
  const codes = encode(CODECS[type] ?? (type as DTypeName), Float64Array.from(row))
  return new Uint8Array(codes.buffer, codes.byteOffset, codes.byteLength)
} // prettier-ignore
/** Registers of 32 lanes: word r of a row in lane 4 row + q is bytes 16 r + 4 q; of 16 rows, every other register is 8 rows below. */
function fragment(rows: readonly Uint8Array[], count: number): Uint32Array {
  const halves = rows.length / 8
  return Uint32Array.from({ length: 32 * count }, (_, i) => {
    const [r, lane] = [i >> 5, i & 31]
    const row = rows[(lane >> 2) + 8 * (r % halves)]!
    return new DataView(row.buffer, row.byteOffset).getUint32(Math.floor(r / halves) * 16 + (lane & 3) * 4, true)
  })
}
const half = (x: number) => Number(encode('f16', Float64Array.of(x))[0])
/** C or D: element i of a lane is row lane / 4 + 8 (i / 2), column 2 (lane % 4) + i % 2. */
function accumulator(type: Form['d'], at: (row: number, column: number) => number): Uint32Array {
  const value = (lane: number, i: number) => at((lane >> 2) + 8 * (i >> 1), 2 * (lane & 3) + (i & 1))
  if (type !== 'f16') return Uint32Array.from({ length: 128 }, (_, w) => (type === 'f32' ? f32Bits(value(w & 31, w >> 5)) : value(w & 31, w >> 5))) // prettier-ignore
  return Uint32Array.from({ length: 64 }, (_, w) => half(value(w & 31, 2 * (w >> 5))) | (half(value(w & 31, 2 * (w >> 5) + 1)) << 16))
} // prettier-ignore

function problem(c: Case) {
  const n = registersOf(c)
  const A = sparseMatrix(16, c.k, chunkOf(BITS[c.a]!), c.ordered, () => valueOf(c.a), random)
  const B = Array.from({ length: 8 }, () => Array.from({ length: c.k }, () => valueOf(c.b)))
  const C = Array.from({ length: 16 }, () => Array.from({ length: 8 }, () => random(200) - 100))
  const sum = (row: number, column: number) =>
    A.dense[row]!.reduce((total, x, k) => total + x * B[column]![k]!, C[row]![column]!)
  return {
    a: fragment(A.stored.map((row) => bytesOf(c.a, row)), n.a),
    b: fragment(B.map((row) => bytesOf(c.b, row)), n.b),
    c: accumulator(c.d, (row, column) => C[row]![column]!),
    e: metadataRegister(A.bits, BITS[c.a]! < 16, c.selector, random(2 ** 32)),
    expected: accumulator(c.d, sum),
  }
} // prettier-ignore
const shown = (d: Form['d'], words: Iterable<number>) =>
  Array.from(words).flatMap((w) => (d === 'f32' ? [f32Of(w)] : d === 's32' ? [w | 0] : [decodeOne('f16', w & 0xffff), decodeOne('f16', w >>> 16)])) as number[] // prettier-ignore

test.each(CASES.map((c, i) => [`${nameOf(c)}, selector ${c.selector}`, c, i] as const))('%s', async (_, c, i) => {
  for (const [device, order] of [[gpu, ORDERS[0]!], [onHopper(i) ? hopper : gpu, ORDERS[1]!], [gpu, ORDERS[2]!]] as const) {
    const { a, b, c: addend, e, expected } = problem(c)
    const out = device.allocate(512)
    const params = [out, ...[a, b, addend, e].map((x) => device.upload(x))]
    const { findings, stats } = await device.run(`mma${i}`, params, { checks: 'full', ...order })
    expect(findings, describeOrder(order)).toEqual([])
    expect(stats.tensorMacs).toBe(16 * 8 * (c.k / 2))
    const got = device.read(out, expected.length, Uint32Array)
    expect(differences(shown(c.d, got), shown(c.d, expected)), describeOrder(order)).toEqual([])
  }
}) // prettier-ignore

const indexOf = (matches: (c: Case) => boolean) => CASES.findIndex(matches)

test('a row sees only those elements of B for which it stores something', async () => {
  const i = indexOf((c) => c.a === 'bf16' && c.k === 32)
  const c = CASES[i]!
  const A = sparseMatrix(16, 32, 4, true, () => 1, random)
  for (const tensorCores of ['exact', 'silicon'] as const) {
    const B = Array.from({ length: 8 }, (_, column) => Array.from({ length: 32 }, (_, k) => (k === 4 * column + 1 ? Infinity : 1)))
    const out = gpu.allocate(512)
    const inputs = [
      fragment(A.stored.map((row) => bytesOf('bf16', row)), 4),
      fragment(B.map((row) => bytesOf('bf16', row)), 4),
      accumulator('f32', () => 0),
      metadataRegister(A.bits, false, c.selector, 0),
    ]
    const { findings } = await gpu.run(`mma${i}`, [out, ...inputs.map((x) => gpu.upload(x))], { tensorCores })
    expect(findings).toEqual([])
    const expected = accumulator('f32', (row, column) => (A.dense[row]![4 * column + 1] ? Infinity : 16))
    expect(differences(shown('f32', gpu.read(out, 128, Uint32Array)), shown('f32', expected))).toEqual([])
  }
}) // prettier-ignore

/** What the device says when bits of one lane are changed. */
async function said(c: (c: Case) => boolean, change: (e: Uint32Array, a: Uint32Array) => void) {
  const i = indexOf(c)
  const { a, b, c: addend, e } = problem(CASES[i]!)
  a.fill(0x01010101)
  change(e, a)
  const out = gpu.allocate(512)
  const { findings } = await gpu.run(`mma${i}`, [out, ...[a, b, addend, e].map((x) => gpu.upload(x))], { checks: 'full' })
  return findings.map(({ code, message }) => `${code} ${message}`)
} // prettier-ignore

test('metadata that name no places are findings, where anything is stored', async () => {
  const f16 = (c: Case) => c.a === 'f16' && c.k === 16 && c.selector === 2
  const set = (lane: number, shift: number, bits: number) => (e: Uint32Array) => (e[lane] = (e[lane]! & ~(15 << shift)) | (bits << shift)) // prettier-ignore
  expect(await said(f16, set(6, 8, 0b1010))).toEqual([expect.stringMatching(/5027 the metadata of row 1 of A, columns 8 to 11, is 0b1010/)]) // prettier-ignore
  expect(await said(f16, set(6, 20, 0b0001))).toEqual([expect.stringMatching(/row 9 of A, columns 4 to 7, is 0b0001, expected two different indices, the lower one/)]) // prettier-ignore
  expect(await said(f16, set(7, 20, 0b0001))).toEqual([])
  const unordered = (c: Case) => c.a === 'f16' && c.k === 16 && c.selector === 1
  expect(await said(unordered, set(1, 0, 0b0001))).toEqual([])
  expect(await said(unordered, set(1, 0, 0b0101))).toEqual([expect.stringMatching(/is 0b0101, expected two different indices$/)])
  const tf32 = (c: Case) => c.a === 'tf32' && c.k === 16 && c.selector === 0
  expect(await said(tf32, set(1, 4, 0b1001))).toEqual([expect.stringMatching(/row 0 of A, columns 10 to 11, is 0b1001, expected 0b0100 or 0b1110/)]) // prettier-ignore
  expect(await said(f16, (e, a) => (e.fill(0), a.fill(0)))).toEqual([])
}) // prettier-ignore

test('undefined metadata make the result undefined, of the lanes that count alone', async () => {
  const kernel = (name: string, lanes: string) => `
extern "C" __global__ void ${name}(float* out) {
  __shared__ volatile u32 written[32]; u32 a = 0; float d[4] = {0, 0, 0, 0};
  if (${lanes}) written[threadIdx.x] = 0x44444444;
  u32 e = written[threadIdx.x];
  asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4}, {%4, %4}, {%0, %1, %2, %3}, %5, 1;"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "r"(e));
  out[threadIdx.x] = d[0];
}`
  const kernels = kernel('own', 'threadIdx.x % 4 == 1') + kernel('others', 'threadIdx.x % 4 != 1')
  const device = new TestDevice(compileToPtx(`${prelude}${kernels}`))
  const codes = async (name: string) => (await device.run(name, [device.allocate(128)])).findings.map(({ code }) => code)
  expect(await codes('own')).toEqual([])
  expect(await codes('others')).toEqual(['KTL5004'])
}) // prettier-ignore

test('a selector that names no lanes is refused', () => {
  const ptx = compileToPtx(kernel(CASES[indexOf((c) => c.a === 'bf16' && c.k === 32)]!, 0).replaceAll('u32', 'unsigned'))
  expect(() => new TestDevice(ptx.replace(/, [01];(?=\n.*\/\/ end inline asm)/s, ', 2;'))).toThrow(/the sparsity selector is 2, expected 0 to 1/)
}) // prettier-ignore
