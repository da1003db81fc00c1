import { expect, test } from 'vitest'
import { decode, encode } from '../../compiler/codec.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { TestDevice, compileToPtx, differences, f32Bits, f32Of } from './device.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'
import { type SparseMatrix, chunkOf, metadataRegister, randomNumbers, sparseMatrix } from './sparse.ts'
import { WGMMA_TYPES, type WgmmaShape, depthOf, placeOfD, registersOf, resultOf, wgmmaFunction, wgmmaPrelude } from './wgmma_prelude.ts' // prettier-ignore

// wgmma.mma_async.sp (PTX ISA 9.7.15.6): A half stored, in shared memory or registers, its metadata in a register.

const FP8 = ['e4m3', 'e5m2'].flatMap((a) => ['e4m3', 'e5m2'].map((b) => ({ a, b })))
const CASES: (WgmmaShape & { sparse: 0 | 1 })[] = [
  ...['f16', 'bf16', 'tf32'].flatMap((a) => ([0, 1] as const).map((sparse) => ({ a, n: 32, sparse }))),
  { a: 'f16', d: 'f16', n: 64, sparse: 1 },
  ...FP8.map((types) => ({ ...types, n: 16, sparse: 0 as const })),
  { a: 'e5m2', b: 'e4m3', d: 'f16', n: 8, sparse: 0 },
  ...['s8', 'u8'].flatMap((a) => ['s8', 'u8'].map((b) => ({ a, b, n: 32, sparse: 0 as const, saturate: a === b }))),
  ...['f16', 'bf16', 'tf32', 'e4m3', 's8'].map((a) => ({ a, n: 8, fragments: true, sparse: a === 'bf16' ? 1 : 0 }) as const),
  { a: 'bf16', n: 64, transpose: [true, true], negate: [true, false], sparse: 1 },
  { a: 'f16', n: 256, fragments: true, transpose: [false, true], sparse: 0 },
] // prettier-ignore

// Two instructions, of 128 bytes of k of B and 64 that are stored of A, both in rows of 128 bytes with their swizzle, or by columns.
const STEPS = 2
function kernel(c: WgmmaShape, index: number): string {
  const count = registersOf(c)
  const type = resultOf(c) === 'f32' ? 'float' : 'u32'
  const [byRows, byColumns] = [!c.transpose?.[0], c.transpose?.[1]]
  return `${wgmmaFunction(`mma${index}`, c)}
extern "C" __global__ void __launch_bounds__(128) kernel${index}(const u32* A, const u32* B, const u32* E, const ${type}* D, ${type}* out) {
  extern __shared__ __align__(1024) u32 image[]; int t = threadIdx.x; u32* b = image + 2048;
  for (int i = t; i < 2048; i += 128) image[i] = A[i];
  for (int i = t; i < 16384 ${byColumns ? '* 2' : ''}; i += 128) b[i] = B[i];
  proxyFence(); __syncthreads();
  ${type} d[${count}];
  for (int i = 0; i < ${count}; i++) { d[i] = D[t * ${count} + i]; pin(d[i]); }
  u32 a[${STEPS}][4]; for (int i = 0; i < ${4 * STEPS}; i++) { a[i / 4][i % 4] = A[t * 8 + i]; pin(a[i / 4][i % 4]); }
  u32 e[${STEPS}]; for (int s = 0; s < ${STEPS}; s++) { e[s] = E[s * 128 + t]; pin(e[s]); }
  // Columns of 64 elements of 2 bytes: blocks of as many rows are 8 KiB apart.
  u64 bd = descriptor(smem(b))${byColumns ? ' + (511ull << 16)' : ''};
  wgFence();
#pragma unroll
  for (int s = 0; s < ${STEPS}; s++) mma${index}(d, ${c.fragments ? 'a[s]' : `descriptor(smem(image)) + ${byRows ? 2 : 128} * s`}, bd + ${byColumns ? 256 : 4} * s, 1, e[s]);
  wgCommit(); wgWait<0>();
  for (int i = 0; i < ${count}; i++) { pin(d[i]); out[t * ${count} + i] = d[i]; }
}`
}
const gpu = new TestDevice(compileToPtx(`${prelude}${wgmmaPrelude}${CASES.map(kernel).join('')}`, 'sm_90a'), 'sm_90a')

const random = randomNumbers(5)
const valueOf = (type: string) => (type === 'u8' ? random(256) : type === 's8' ? random(256) - 128 : random(15) - 7)
const CODECS: Record<string, DTypeName> = { s8: 'i8', tf32: 'f32' }
function bytesOf(type: string, values: readonly number[]): Uint8Array {
  const codes = encode(CODECS[type] ?? (type as DTypeName), Float64Array.from(values))
  return new Uint8Array(codes.buffer, codes.byteOffset, codes.byteLength)
}
/** 16-byte chunks of a line of 128 bytes change places by its number (PTX ISA 5.5.7). */
const swizzled = (at: number) => at ^ (((at >> 7) & 7) << 4)

/** Rows of 128 bytes; or, by columns, lines of 64 elements of 16 bits, 32 of k in each instruction: blocks of 64 rows are 8 KiB apart. */
function image(type: string, rows: readonly (readonly number[])[], byColumns: boolean, bytes: number): Uint8Array {
  const out = new Uint8Array(bytes)
  for (const [row, values] of rows.entries()) {
    const own = bytesOf(type, values)
    const size = WGMMA_TYPES[type]!.bytes
    for (let i = 0; i < own.length; i++) {
      const k = Math.floor(i / size)
      out[swizzled(byColumns ? (row >> 6) * 8192 + k * 128 + (row & 63) * 2 + (i % size) : row * 128 + i)] = own[i]!
    }
  }
  return out
} // prettier-ignore
const fragments = (type: string, stored: readonly (readonly number[])[]) =>
  Uint32Array.from({ length: 2048 }, (_, i) => {
    if (i >= 128 * 4 * STEPS) return 0
    const [thread, s, r] = [Math.floor(i / 8), (i >> 2) & 1, i & 3]
    const row = bytesOf(type, stored[16 * (thread >> 5) + ((thread & 31) >> 2) + 8 * (r & 1)]!)
    return new DataView(row.buffer, row.byteOffset).getUint32(32 * s + 16 * (r >> 1) + 4 * (thread & 3), true)
  })

async function check(c: (typeof CASES)[number], index: number) {
  const { a, b = a, n } = c
  const [d, k, count, chunk] = [resultOf(c), depthOf(c), registersOf(c), chunkOf(WGMMA_TYPES[a]!.bytes * 8)]
  const A: SparseMatrix = sparseMatrix(64, STEPS * k, chunk, true, () => valueOf(a), random)
  const B = Array.from({ length: n }, () => Array.from({ length: STEPS * k }, () => valueOf(b)))
  const initial = Array.from({ length: 128 * count }, () => [random(64) - 32, random(64) - 32] as const)
  const half = (x: number) => Number(encode('f16', Float64Array.of(x))[0])
  const encoded = (x: readonly number[]) => (d === 's32' ? x[0]! >>> 0 : d === 'f32' ? f32Bits(x[0]!) : half(x[0]!) | (half(x[1]!) << 16))
  const expected = initial.map((start, i) =>
    [0, 1].map((e) => {
      const [row, column] = placeOfD(c, Math.floor(i / count), i % count, e)
      return A.dense[row]!.reduce((sum, x, at) => sum + (c.negate?.[0] ? -1 : 1) * x * B[column]![at]!, start[e]!)
    }),
  )
  const E = new Uint32Array(128 * STEPS)
  for (let s = 0; s < STEPS; s++)
    for (let warp = 0; warp < 4; warp++) {
      const bits = A.bits.slice(16 * warp, 16 * warp + 16).map((row) => row.slice((s * k) / chunk, ((s + 1) * k) / chunk))
      E.set(metadataRegister(bits, WGMMA_TYPES[a]!.bytes === 1, c.sparse, random(2 ** 32)), 128 * s + 32 * warp)
    }
  const shown = (words: Iterable<number>) =>
    Array.from(words).flatMap((w) => (d === 'f32' ? [f32Of(w)] : d === 's32' ? [w | 0] : [...decode('f16', Uint16Array.of(w & 0xffff, w >>> 16))]))
  for (const order of ORDERS) {
    const out = gpu.allocate(128 * count * 4)
    const left = c.fragments ? fragments(a, A.stored) : image(a, A.stored, c.transpose?.[0] ?? false, 8192)
    const params = [left, image(b, B, c.transpose?.[1] ?? false, 131072), E, Uint32Array.from(initial, encoded)].map((x) => gpu.upload(x))
    const { findings, stats } = await gpu.run(`kernel${index}`, [...params, out], { block: [128, 1, 1], sharedMemBytes: 8192 + 131072, checks: 'full', ...order })
    expect(findings, describeOrder(order)).toEqual([])
    expect(stats.tensorMacs).toBe(64 * n * (k / 2) * STEPS)
    expect(differences(shown(gpu.read(out, 128 * count, Uint32Array)), shown(expected.map(encoded))), describeOrder(order)).toEqual([])
  }
} // prettier-ignore

const nameOf = (c: (typeof CASES)[number]) =>
  `${c.a}×${c.b ?? c.a}→${resultOf(c)} n${c.n}, A ${c.fragments ? 'in registers' : c.transpose?.[0] ? 'by columns' : 'by rows'}, selector ${c.sparse}`
test.each(CASES.map((c, i) => [nameOf(c), c, i] as const))('%s', async (_, c, i) => check(c, i))

const found = async (source: string, elements: number, change: (e: Uint32Array) => void) => {
  const device = new TestDevice(source, 'sm_90a')
  const E = new Uint32Array(256).fill(0x44444444)
  change(E)
  const params = [new Uint8Array(8192).fill(1), new Uint8Array(131072).fill(1), E, new Uint8Array(elements * 4)].map((x) => device.upload(x)) // prettier-ignore
  const launch = {
    block: [128, 1, 1] as [number, number, number],
    sharedMemBytes: 8192 + 131072,
    checks: 'full' as const,
  }
  const { findings } = await device.run('kernel0', [...params, device.allocate(elements * 4)], launch)
  return findings.map(({ code, message }) => `${code} ${message}`)
}
const ptxOf = (c: WgmmaShape, change = (s: string) => s) =>
  compileToPtx(change(`${prelude}${wgmmaPrelude}${kernel(c, 0)}`), 'sm_90a')

test('metadata that name no places, a register that is overwritten, and a swizzle too narrow for B are findings', async () => {
  const c = { a: 'bf16', n: 8, sparse: 1 } as const
  const ptx = ptxOf(c)
  expect(await found(ptx, 512, () => {})).toEqual([])
  expect(await found(ptx, 512, (e) => e.fill(0, 64, 65))).toEqual([])
  expect(await found(ptx, 512, (e) => e.fill(0xf4444444, 67, 68))).toEqual([
    expect.stringMatching(/5027 .*the metadata of row 40 of A, columns 28 to 31, is 0b1111/),
  ])
  const overwritten = ptxOf(c, (s) => s.replace('wgCommit(); wgWait<0>();\n  for', 'wgCommit(); asm volatile("add.u32 %0, %0, 1;" : "+r"(e[1])); wgWait<0>(); pin(e[1]);\n  for')) // prettier-ignore
  expect(await found(overwritten, 512, () => {})).toEqual([expect.stringMatching(/5019 .*overwrites a register of A/)])
  const narrow = ptxOf(c, (s) => s.replace('u64 bd = descriptor(smem(b))', 'u64 bd = descriptor(smem(b)) | 3ull << 62'))
  expect(await found(narrow, 512, () => {})).toEqual([expect.stringMatching(/5010 .*swizzle 32B does not hold the 64 bytes of k/)])
}) // prettier-ignore
