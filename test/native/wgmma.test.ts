import { expect, test } from 'vitest'
import { decode, encode } from '../../compiler/codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { TestDevice, compileToPtx, differences, f32Bits, f32Of } from './device.ts'
import { type Layout, descriptorOf, offsetOf, swizzled } from './layouts.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'
import {
  WGMMA_TYPES,
  type WgmmaShape,
  placeOfD,
  registersOf,
  resultOf,
  wgmmaFunction,
  wgmmaPrelude,
} from './wgmma_prelude.ts'

// One or two chained wgmma.mma_async of every kind, layout and shape, on values whose products and sums are exact,
// against plain loops.

interface Case extends WgmmaShape {
  /** Layouts in shared memory. */
  readonly A?: Layout
  readonly B?: Layout
  /** Instructions of the chain, all with the same operands. */
  readonly steps?: number
  readonly fresh?: boolean
  readonly warpgroups?: number
}
const K = (swizzle: Layout['swizzle']): Layout => ({ swizzle, mnMajor: false })
const MN = (swizzle: Layout['swizzle']): Layout => ({ swizzle, mnMajor: true })
const PLAIN = ['none', '32B', '64B', '128B'] as const
const withLayouts = (c: Case): Case => ({
  ...c,
  transpose: [c.A?.mnMajor ?? false, c.B?.mnMajor ?? false],
})

const CASES: Case[] = [
  // Every layout of both operands, for each element size.
  ...(['bf16', 'e4m3', 's8', 'tf32'] as const).flatMap((a) =>
    PLAIN.map((s, i): Case => ({ a, n: 64, A: K(s), B: K(PLAIN[(i + 1) % 4]!) })),
  ),
  ...PLAIN.flatMap((s, i): Case[] => [
    { a: 'bf16', n: 64, A: MN(s), B: MN(PLAIN[(i + 1) % 4]!) },
    { a: 'f16', n: 64, A: K(s), B: MN(PLAIN[(i + 1) % 4]!) },
    { a: 'f16', n: 64, A: MN(s), B: K(PLAIN[(i + 1) % 4]!) },
  ]),
  // Shapes, chains, overwriting.
  ...[8, 24, 136, 200, 256].map((n): Case => ({ a: 'bf16', n, steps: 2, fresh: n === 24 })),
  ...[8, 24, 48, 256].map((n): Case => ({ a: 's8', b: 'u8', n, steps: 2 })),
  ...[8, 200].flatMap((n): Case[] => [
    { a: 'tf32', n },
    { a: 'e5m2', n, steps: 2, fresh: true },
  ]),
  // Types.
  ...['e4m3', 'e5m2'].flatMap((a) =>
    ['e4m3', 'e5m2'].flatMap((b) => (['f32', 'f16'] as const).map((d): Case => ({ a, b, d, n: 16, steps: 2 }))),
  ),
  ...['s8', 'u8'].flatMap((a) =>
    ['s8', 'u8'].flatMap((b) => [false, true].map((saturate): Case => ({ a, b, n: 16, saturate }))),
  ),
  { a: 'f16', d: 'f16', n: 24, steps: 2 },
  { a: 'f16', d: 'f16', n: 256, fresh: true, B: MN('64B') },
  // Negation.
  ...(
    [
      [true, false],
      [false, true],
      [true, true],
    ] as const
  ).flatMap((negate): Case[] => [
    { a: 'bf16', n: 16, negate },
    { a: 'f16', d: 'f16', n: 8, negate },
    { a: 'tf32', n: 8, negate },
    { a: 'e4m3', n: 8, negate },
  ]),
  // A in registers.
  ...['bf16', 'f16', 'tf32', 'e4m3', 's8'].flatMap((a) =>
    [8, 64].map((n): Case => ({ a, n, fragments: true, steps: 2 })),
  ),
  ...[64, 256].map((n): Case => ({ a: 'bf16', n, fragments: true, B: MN('128B') })),
  { a: 'f16', d: 'f16', n: 16, fragments: true, B: MN('32B') },
  { a: 'e5m2', b: 'e4m3', d: 'f16', n: 16, fragments: true },
  { a: 'u8', b: 's8', n: 16, fragments: true, saturate: true },
  // Two warpgroups.
  { a: 'bf16', n: 128, steps: 2, warpgroups: 2 },
  { a: 'tf32', n: 32, fragments: true, warpgroups: 2 },
].map((c) => withLayouts(c as Case))

function kernel(c: Case, index: number): string {
  const count = registersOf(c)
  const type = resultOf(c) === 'f32' ? 'float' : 'u32'
  return `${wgmmaFunction(`mma${index}`, c)}
extern "C" __global__ void __launch_bounds__(256) kernel${index}(const u32* A, const u32* B, u64 aDesc, u64 bDesc, int steps, int enable, const ${type}* D, ${type}* out) {
  extern __shared__ __align__(1024) u32 image[]; int t = threadIdx.x;
  u32* b = image + 4096;
  ${c.fragments ? '' : 'for (int i = t; i < 4096; i += blockDim.x) image[i] = A[i];'}
  for (int i = t; i < 8192; i += blockDim.x) b[i] = B[i];
  proxyFence(); __syncthreads();
  ${type} d[${count}];
  for (int i = 0; i < ${count}; i++) d[i] = D[t * ${count} + i];
  ${c.fragments ? 'u32 a[4]; for (int i = 0; i < 4; i++) { a[i] = A[t % 128 * 4 + i]; pin(a[i]); }' : 'u64 a = aDesc + ((smem(image) & 0x3ffff) >> 4);'}
  u64 bd = bDesc + ((smem(b) & 0x3ffff) >> 4);
  for (int i = 0; i < ${count}; i++) pin(d[i]);
  wgFence();
  for (int s = 0; s < steps; s++) mma${index}(d, a, bd, s ? 1 : enable);
  wgCommit(); wgWait<0>();
  for (int i = 0; i < ${count}; i++) { pin(d[i]); out[t * ${count} + i] = d[i]; }
}`
}

const gpu = new TestDevice(compileToPtx(`${prelude}${wgmmaPrelude}${CASES.map(kernel).join('')}`, 'sm_90a'), 'sm_90a')

let state = 7
const random = (n: number) => (
  (state = (Math.imul(state, 1664525) + 1013904223) >>> 0),
  Math.floor((state / 2 ** 32) * n)
)
const valueOf = (type: string) => (type === 'u8' ? random(256) : type === 's8' ? random(256) - 128 : random(15) - 7)
const names: Record<string, string> = { s8: 'i8' }
const codeOf = (type: string, x: number) => Number(encode((names[type] ?? type) as DTypeName, [x])[0])

interface Matrix {
  readonly rows: number
  readonly values: number[]
  /** The 32 bytes of each row. */
  readonly bytes: Uint8Array[]
}
function matrix(type: string, rows: number, of: (row: number, k: number) => number = () => valueOf(type)): Matrix {
  const { bytes, depth } = WGMMA_TYPES[type]!
  const values = Array.from({ length: rows * depth }, (_, i) => of(Math.floor(i / depth), i % depth))
  const row = (r: number) => {
    const out = new Uint8Array(32)
    for (let k = 0; k < depth; ++k) {
      const code = codeOf(type, values[r * depth + k]!)
      for (let i = 0; i < bytes; ++i) out[k * bytes + i] = code >>> (8 * i)
    }
    return out
  }
  return { rows, values, bytes: Array.from({ length: rows }, (_, r) => row(r)) }
}

/** Shared-memory image of a matrix, 1024-byte aligned, and its descriptor without the start. */
function image(type: string, m: Matrix, layout: Layout): { words: Uint32Array; descriptor: bigint } {
  const out = new Uint8Array(32768)
  const { bytes } = WGMMA_TYPES[type]!
  m.bytes.forEach((data, row) => {
    for (let i = 0; i < 32; ++i) {
      const at = layout.mnMajor
        ? offsetOf(layout, m.rows * bytes, { row, k: Math.floor(i / bytes), bytes }).offset + (i % bytes)
        : offsetOf(layout, 32, { row, k: i, bytes: 1 }).offset
      out[swizzled(layout.swizzle, at)] = data[i]!
    }
  })
  const { leading, stride } = offsetOf(layout, m.rows * bytes, { row: 0, k: 0, bytes })
  return { words: new Uint32Array(out.buffer), descriptor: descriptorOf(layout, leading, stride) }
}

/** Registers of A: register h + 2g of a thread is row 8h + lane / 4 of its warp, bytes 16g + 4 (lane % 4) of k. */
function fragmentsOf(m: Matrix): Uint32Array {
  const out = new Uint32Array(128 * 4)
  for (let thread = 0; thread < 128; ++thread)
    for (let r = 0; r < 4; ++r) {
      const row = 16 * (thread >> 5) + ((thread & 31) >> 2) + 8 * (r & 1)
      out[thread * 4 + r] = new Uint32Array(m.bytes[row]!.buffer)[4 * (r >> 1) + (thread & 3)]!
    }
  return out
}

async function check(c: Case, index: number) {
  const { a, b = a, n, A = K('128B'), B = K('128B'), steps = 1, fresh = false, warpgroups = 1 } = c
  const d = resultOf(c)
  const { depth } = WGMMA_TYPES[a]!
  const [left, right] = [matrix(a, 64), matrix(b, n)]
  const [aImage, bImage] = [image(a, left, A), image(b, right, B)]
  const [threads, count] = [128 * warpgroups, registersOf(c)]
  const sign = c.negate && c.negate[0] !== c.negate[1] ? -1 : 1
  const places = Array.from({ length: threads * count }, (_, i) => [Math.floor(i / count), i % count] as const)
  const initial = places.map(() => [random(64) - 32, random(64) - 32])
  const encoded = (x: readonly number[]) =>
    d === 's32' ? x[0]! >>> 0 : d === 'f32' ? f32Bits(x[0]!) : codeOf('f16', x[0]!) | (codeOf('f16', x[1]!) << 16)
  const expected = places.map(([thread, register], i) =>
    [0, 1].map((e) => {
      const [row, column] = placeOfD(c, thread % 128, register, e)
      let sum = 0
      for (let k = 0; k < depth; ++k) sum += left.values[row * depth + k]! * right.values[column * depth + k]!
      return steps * sign * sum + (fresh ? 0 : initial[i]![e]!) || 0
    }),
  )
  const shown = (words: Iterable<number>) =>
    Array.from(words).flatMap((w) =>
      d === 'f32' ? [f32Of(w)] : d === 's32' ? [w | 0] : [...decode('f16', Uint16Array.of(w & 0xffff, w >>> 16))],
    )
  for (const order of ORDERS) {
    const out = gpu.allocate(threads * count * 4)
    const params = [
      gpu.upload(c.fragments ? fragmentsOf(left) : aImage.words.slice(0, 4096)),
      gpu.upload(bImage.words),
      aImage.descriptor,
      bImage.descriptor,
      steps,
      fresh ? 0 : 1,
      gpu.upload(Uint32Array.from(initial, encoded)),
      out,
    ]
    const result = await gpu.run(`kernel${index}`, params, {
      grid: [1, 1, 1],
      block: [threads, 1, 1],
      sharedMemBytes: 49152,
      checks: 'full',
      ...order,
    })
    expect(result.findings, describeOrder(order)).toEqual([])
    expect(result.stats.tensorMacs).toBe(64 * n * depth * steps * warpgroups)
    const got = gpu.read(out, threads * count, Uint32Array)
    expect(differences(shown(got), shown(expected.map(encoded))), describeOrder(order)).toEqual([])
  }
}

const nameOf = (c: Case) => {
  const layout = (x: Layout = K('128B')) => `${x.mnMajor ? 'MN' : 'K'} ${x.swizzle}`
  const flags = Object.entries({
    steps: c.steps,
    fresh: c.fresh,
    negate: c.negate,
    satfinite: c.saturate,
    warpgroups: c.warpgroups,
  })
    .filter(([, v]) => v)
    .map(([k, v]) => `${k}=${v}`)
  return `${c.a}×${c.b ?? c.a}→${resultOf(c)} n${c.n}, A ${c.fragments ? 'registers' : layout(c.A)}, B ${layout(c.B)} ${flags.join(' ')}`
}

test.each(CASES.map((c, i) => [nameOf(c), c, i] as const))('%s', async (_, c, i) => check(c, i))

// 1 - 1 + 2^-j: what is left of the last term shows how many bits below the largest are kept.
test.each([
  ['bf16', 24, 0x33800000],
  ['bf16', 25, 0x33000000],
  ['bf16', 26, 0],
  ['e5m2', 12, 0x39800000],
  ['e5m2', 13, 0x39000000],
  ['e5m2', 14, 0],
] as const)('%s keeps 2^-%i as measured, unless sums are asked to be exact', async (a, j, kept) => {
  const index = CASES.findIndex((c) => c.a === a && c.n === 8 && !c.fragments && !c.negate)
  const c = CASES[index]!
  const left = matrix(a, 64, (_, k) => [1, -1, 2 ** -j][k] ?? 0)
  const right = matrix(a, c.n, () => 1)
  const [aImage, bImage] = [image(a, left, K('128B')), image(a, right, K('128B'))]
  const sum = async (launch: object) => {
    const out = gpu.allocate(128 * registersOf(c) * 4)
    const params = [
      gpu.upload(aImage.words.slice(0, 4096)),
      gpu.upload(bImage.words),
      aImage.descriptor,
      bImage.descriptor,
      1,
      0,
      gpu.allocate(128 * registersOf(c) * 4),
      out,
    ]
    const { findings, stats } = await gpu.run(`kernel${index}`, params, {
      block: [128, 1, 1],
      sharedMemBytes: 49152,
      ...launch,
    })
    expect(findings).toEqual([])
    const [word, ...rest] = new Set(gpu.read(out, 128 * registersOf(c), Uint32Array))
    expect(rest).toEqual([])
    return { word, approximated: Object.keys(stats.fidelity.approximated).filter((form) => form.startsWith('wgmma')) }
  }
  expect(await sum({})).toEqual({ word: kept, approximated: [] })
  expect(await sum({ tensorCores: 'silicon' })).toEqual({ word: kept, approximated: [] })
  const exact = await sum({ tensorCores: 'exact' })
  expect([exact.word, exact.approximated.length]).toEqual([f32Bits(2 ** -j), 1])
})
