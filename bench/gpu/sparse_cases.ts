/**
 * Sparse A on the virtual SM90, recorded for a GPU: wgmma.mma_async.sp and mma.sp in every form, with random metadata, on normal random
 * numbers, numbers of many sizes, and with infinities and NaNs.
 *
 *   npx tsx bench/gpu/sparse_cases.ts FOLDER
 */
import { commas, prelude } from '../../test/native/prelude.ts'
import { chunkOf, randomNumbers } from '../../test/native/sparse.ts'
import { type WgmmaShape, registersOf, resultOf, wgmmaFunction, wgmmaPrelude } from '../../test/native/wgmma_prelude.ts'
import { BLOCKS, data, isInteger, recorder } from './instruction_cases.ts'

const N = 64
const STEPS = 4

const FP8 = ['e4m3', 'e5m2'].flatMap((a) => ['e4m3', 'e5m2'].map((b) => ({ a, b })))
const WGMMA: WgmmaShape[] = [
  ...(['f16', 'bf16', 'tf32'] as const).flatMap((a) => ([0, 1] as const).map((sparse) => ({ a, n: N, sparse }))),
  ...([0, 1] as const).map((sparse) => ({ a: 'f16', d: 'f16', n: N, sparse }) as const),
  ...FP8.flatMap((types) => (['f32', 'f16'] as const).map((d) => ({ ...types, d, n: N, sparse: 0 }) as const)),
  ...['s8', 'u8'].flatMap((a) => ['s8', 'u8'].map((b) => ({ a, b, n: N, sparse: 0, saturate: a === b }) as const)),
  ...['f16', 'bf16', 'tf32', 'e4m3', 's8'].map((a) => ({ a, n: N, fragments: true, sparse: a === 'bf16' ? 1 : 0 }) as const),
  { a: 'bf16', n: N, transpose: [true, true], negate: [true, false], sparse: 1 },
] // prettier-ignore

/** 128 bytes of each of 64 rows that are stored of A, 256 bytes of each of N rows of B, in whatever order the swizzled descriptors read them. */
const wgmmaKernel = (s: WgmmaShape): string => {
  const count = registersOf(s)
  const type = resultOf(s) === 'f32' ? 'float' : 'u32'
  const a = s.fragments ? 'a[s]' : `descriptor(smem(image)) + ${s.transpose ? 128 : 2} * s`
  const b = `descriptor(smem(b)) + ${s.transpose ? '256 * s' : '4 * (s % 2) + 512 * (s / 2)'}`
  return `${prelude}${wgmmaPrelude}${wgmmaFunction('mma', s)}
extern "C" __global__ void __launch_bounds__(128) run(const u32* A, const u32* B, const ${type}* C, const u32* E, ${type}* D) {
  extern __shared__ __align__(1024) u32 image[]; int t = threadIdx.x; u32* b = image + 4096;
  for (int i = t; i < 4096; i += 128) { image[i] = A[blockIdx.x * 4096 + i]; b[i] = B[blockIdx.x * 4096 + i]; }
  proxyFence(); __syncthreads();
  ${type} d[${count}];
  for (int i = 0; i < ${count}; i++) { d[i] = C[(blockIdx.x * 128 + t) * ${count} + i]; pin(d[i]); }
  u32 a[${STEPS}][4]; for (int i = 0; i < ${4 * STEPS}; i++) { a[i / 4][i % 4] = image[t * 16 + i]; pin(a[i / 4][i % 4]); }
  u32 e[${STEPS}]; for (int s = 0; s < ${STEPS}; s++) { e[s] = E[(blockIdx.x * ${STEPS} + s) * 128 + t]; pin(e[s]); }
  wgFence();
#pragma unroll
  for (int s = 0; s < ${STEPS}; s++) mma(d, ${a}, ${b}, 1, e[s]);
  wgCommit(); wgWait<0>();
  for (int i = 0; i < ${count}; i++) { pin(d[i]); D[(blockIdx.x * 128 + t) * ${count} + i] = d[i]; }
}`
}

interface Mma {
  readonly k: number
  readonly a: string
  readonly b: string
  readonly d: 'f32' | 'f16' | 's32'
}
const BITS: Record<string, number> = { f16: 16, bf16: 16, tf32: 32, s4: 4, u4: 4 }
const bitsOf = (type: string) => BITS[type] ?? 8
const same = (k: number, a: string, d: Mma['d']): Mma => ({ k, a, b: a, d })
const MMA: Mma[] = [
  ...[16, 32].flatMap((k) => [
    same(k, 'f16', 'f32'), same(k, 'f16', 'f16'), same(k, 'bf16', 'f32'), same(k / 2, 'tf32', 'f32'),
    ...['s8', 'u8'].map((a): Mma => ({ k: 2 * k, a, b: 's8', d: 's32' })),
    ...['s4', 'u4'].map((a): Mma => ({ k: 4 * k, a, b: 's4', d: 's32' })),
  ]),
  ...FP8.map(({ a, b }): Mma => ({ k: 64, a, b, d: 'f32' })),
] // prettier-ignore
const selectorsOf = ({ k, a }: Mma) => 16 / (k / chunkOf(bitsOf(a)))

function mmaKernel({ k, a, b, d }: Mma, ordered: boolean, selector: number): string {
  const [ac, bc, dc] = [(16 * k * bitsOf(a)) / 2048, (8 * k * bitsOf(a)) / 1024, d === 'f16' ? 2 : 4]
  const list = (from: number, count: number) => `{${commas(count, (i) => `%${from + i}`)}}`
  return `typedef unsigned int u32;
extern "C" __global__ void __launch_bounds__(128) run(const u32* A, const u32* B, const u32* C, const u32* E, u32* D) {
  int t = blockIdx.x * 128 + threadIdx.x; u32 a[${ac}], b[${bc}], d[${dc}];
  for (int i = 0; i < ${ac}; i++) a[i] = A[t * ${ac} + i];
  for (int i = 0; i < ${bc}; i++) b[i] = B[t * ${bc} + i];
  for (int i = 0; i < ${dc}; i++) d[i] = C[t * ${dc} + i];
  for (int s = 0; s < 2; s++) { u32 e = E[s * ${BLOCKS * 128} + t]; asm volatile("mma.sp${ordered ? '::ordered_metadata' : ''}.sync.aligned.m16n8k${k}.row.col.${d}.${a}.${b}.${d} ${list(0, dc)}, ${list(dc, ac)}, ${list(dc + ac, bc)}, ${list(0, dc)}, %${dc + ac + bc}, ${selector};"
    : ${commas(dc, (i) => `"+r"(d[${i}])`)} : ${commas(ac, (i) => `"r"(a[${i}])`)}, ${commas(bc, (i) => `"r"(b[${i}])`)}, "r"(e)); }
  for (int i = 0; i < ${dc}; i++) D[t * ${dc} + i] = d[i];
}`
}

const ORDERED = [0x4, 0x8, 0x9, 0xc, 0xd, 0xe]
const ANY = [...ORDERED, 0x1, 0x2, 0x6, 0x3, 0x7, 0xb]
/** Words of metadata that are all valid, wherever they are read. */
function metadata(type: string, words: number, ordered: boolean, seed: number): Uint8Array {
  const random = randomNumbers(seed)
  const codes = bitsOf(type) === 32 ? [0x4, 0xe] : ordered ? ORDERED : ANY
  return Uint8Array.from({ length: 4 * words }, () => codes[random(codes.length)]! | (codes[random(codes.length)]! << 4))
} // prettier-ignore

const { record, report } = recorder(process.argv[2]!)
for (const kind of ['normal', 'wide', 'special'] as const) {
  for (const [i, s] of WGMMA.entries()) {
    const { a, b = a } = s
    if (kind === 'special' && isInteger(a)) continue
    const outBytes = BLOCKS * 128 * registersOf(s) * 4
    const inputs = [data(a, BLOCKS * 16384, 4 * i, kind === 'special' ? 'normal' : kind), data(b, BLOCKS * 16384, 4 * i + 1, kind), data(resultOf(s), outBytes, 4 * i + 2, 'normal'), metadata(a, BLOCKS * STEPS * 128, true, 4 * i + 3)]
    await record(`wgmma.sp ${a} ${b} ${resultOf(s)} selector ${s.sparse} ${s.fragments ? 'registers ' : ''}${s.transpose ? 'MN ' : ''}${kind}`, wgmmaKernel(s), inputs, outBytes, 32768)
  }
  for (const [i, m] of MMA.entries())
    for (const ordered of [true, false]) {
      if (kind === 'special' && (isInteger(m.a) || !ordered)) continue
      const size = BLOCKS * 128 * 4
      const [ac, bc, dc] = [(16 * m.k * bitsOf(m.a)) / 2048, (8 * m.k * bitsOf(m.a)) / 1024, m.d === 'f16' ? 2 : 4]
      const selector = (i + (ordered ? 0 : 1) + (kind === 'wide' ? 2 : 0)) % selectorsOf(m)
      const inputs = [data(m.a, size * ac, 500 + 4 * i, kind === 'special' ? 'normal' : kind), data(m.b, size * bc, 501 + 4 * i, kind), data(m.d, size * dc, 502 + 4 * i, 'normal'), metadata(m.a, 2 * BLOCKS * 128, ordered, 503 + 4 * i)]
      await record(`mma.sp m16n8k${m.k} ${m.a} ${m.b} ${m.d} selector ${selector} ${ordered ? 'ordered' : 'any order'} ${kind}`, mmaKernel(m, ordered, selector), inputs, size * dc, 0)
    }
} // prettier-ignore
report()
