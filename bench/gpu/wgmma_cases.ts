/**
 * Tensor-core arithmetic of the virtual SM90, recorded for a GPU: every kind of wgmma, mma.sync and wmma on normal random
 * numbers, where nearly every sum is truncated, and on numbers of many sizes.
 *
 *   npx tsx bench/gpu/wgmma_cases.ts FOLDER
 */
import { prelude } from '../../test/native/prelude.ts'
import { type WgmmaShape, resultOf, wgmmaFunction, wgmmaPrelude } from '../../test/native/wgmma_prelude.ts'
import { BLOCKS, bytesOf, data, recorder } from './instruction_cases.ts'

const N = 64
const STEPS = 4

const WGMMA: WgmmaShape[] = [
  ...(['f16', 'bf16', 'tf32', 's8'] as const).map((a) => ({ a, n: N })),
  { a: 'f16', d: 'f16', n: N },
  { a: 'u8', b: 's8', n: N, saturate: true },
  ...['e4m3', 'e5m2'].flatMap((a) => ['e4m3', 'e5m2'].flatMap((b) => (['f32', 'f16'] as const).map((d) => ({ a, b, d, n: N })))),
  ...['bf16', 'tf32', 'e4m3', 's8'].map((a) => ({ a, n: N, fragments: true })),
  { a: 'bf16', n: N, transpose: [true, true], negate: [true, false] },
] // prettier-ignore

/** 64 rows of A and N of B, 128 bytes of k each, in whatever order the swizzled descriptors read them. */
const wgmmaKernel = (s: WgmmaShape): string => {
  const [type, count] = resultOf(s) === 'f32' ? ['float', N / 2] : ['u32', N / (resultOf(s) === 'f16' ? 4 : 2)]
  return `${prelude}${wgmmaPrelude}${wgmmaFunction('mma', s)}
extern "C" __global__ void __launch_bounds__(128) run(const u32* A, const u32* B, const ${type}* C, ${type}* D) {
  extern __shared__ __align__(1024) u32 image[]; int t = threadIdx.x; u32* b = image + 4096;
  for (int i = t; i < 4096; i += 128) { image[i] = A[blockIdx.x * 4096 + i]; b[i] = B[blockIdx.x * 4096 + i]; }
  proxyFence(); __syncthreads();
  ${type} d[${count}];
  for (int i = 0; i < ${count}; i++) { d[i] = C[(blockIdx.x * 128 + t) * ${count} + i]; pin(d[i]); }
  u32 a[${STEPS}][4]; for (int i = 0; i < ${4 * STEPS}; i++) { a[i / 4][i % 4] = image[t * 16 + i]; pin(a[i / 4][i % 4]); }
  wgFence();
#pragma unroll
  for (int s = 0; s < ${STEPS}; s++) mma(d, ${s.fragments ? 'a[s]' : `descriptor(smem(image)) + ${s.transpose ? 128 : 2} * s`}, descriptor(smem(b)) + ${s.transpose ? 128 : 2} * s, 1);
  wgCommit(); wgWait<0>();
  for (int i = 0; i < ${count}; i++) { pin(d[i]); D[(blockIdx.x * 128 + t) * ${count} + i] = d[i]; }
}`
}

interface Mma {
  readonly shape: string
  readonly a: string
  readonly b: string
  readonly d: 'f32' | 'f16' | 's32' | 'f64'
  /** Of single bits. */
  readonly operation?: 'and' | 'xor'
  /** Registers of A, B and D. */
  readonly counts: readonly [number, number, number]
}
const MMA: Mma[] = [
  ...(['f16', 'bf16'] as const).flatMap((a): Mma[] => [
    { shape: 'm16n8k16', a, b: a, d: 'f32', counts: [4, 2, 4] },
    { shape: 'm16n8k8', a, b: a, d: 'f32', counts: [2, 1, 4] },
  ]),
  { shape: 'm16n8k16', a: 'f16', b: 'f16', d: 'f16', counts: [4, 2, 2] },
  { shape: 'm16n8k8', a: 'tf32', b: 'tf32', d: 'f32', counts: [4, 2, 4] },
  { shape: 'm16n8k4', a: 'tf32', b: 'tf32', d: 'f32', counts: [2, 1, 4] },
  { shape: 'm16n8k32', a: 's8', b: 'u8', d: 's32', counts: [4, 2, 4] },
  { shape: 'm16n8k16', a: 's8', b: 's8', d: 's32', counts: [2, 1, 4] },
  ...['e4m3', 'e5m2'].flatMap((a) => ['e4m3', 'e5m2'].map((b): Mma => ({ shape: 'm16n8k32', a, b, d: 'f32', counts: [4, 2, 4] }))),
  { shape: 'm16n8k32', a: 'e4m3', b: 'e5m2', d: 'f16', counts: [4, 2, 2] },
  { shape: 'm16n8k16', a: 'f64', b: 'f64', d: 'f64', counts: [8, 4, 4] },
  { shape: 'm16n8k8', a: 'f64', b: 'f64', d: 'f64', counts: [4, 2, 4] },
  { shape: 'm8n8k4', a: 'f64', b: 'f64', d: 'f64', counts: [1, 1, 2] },
  { shape: 'm8n8k16', a: 's8', b: 'u8', d: 's32', counts: [1, 1, 2] },
  { shape: 'm8n8k32', a: 's4', b: 'u4', d: 's32', counts: [1, 1, 2] },
  { shape: 'm16n8k32', a: 's4', b: 's4', d: 's32', counts: [2, 1, 4] },
  { shape: 'm16n8k64', a: 'u4', b: 's4', d: 's32', counts: [4, 2, 4] },
  { shape: 'm8n8k128', a: 'b1', b: 'b1', d: 's32', counts: [1, 1, 2], operation: 'xor' },
  { shape: 'm16n8k128', a: 'b1', b: 'b1', d: 's32', counts: [2, 1, 4], operation: 'and' },
  { shape: 'm16n8k256', a: 'b1', b: 'b1', d: 's32', counts: [4, 2, 4], operation: 'and' },
  { shape: 'm8n8k4', a: 'f16', b: 'f16', d: 'f32', counts: [2, 2, 8] },
  { shape: 'm8n8k4', a: 'f16', b: 'f16', d: 'f16', counts: [2, 2, 4] },
] // prettier-ignore

const list = (from: number, count: number) => `{${Array.from({ length: count }, (_, i) => `%${from + i}`).join(', ')}}`
function mmaKernel({ shape, a, b, d, operation, counts: [ac, bc, dc] }: Mma): string {
  const [word, letter] = d === 'f64' ? ['double', 'd'] : ['u32', 'r']
  const [type, inout] = d === 'f32' ? ['float', 'f'] : [word, letter]
  const operands = (name: string, count: number) => Array.from({ length: count }, (_, i) => `"${letter}"(${name}[${i}])`).join(', ') // prettier-ignore
  return `typedef unsigned int u32;
extern "C" __global__ void __launch_bounds__(128) run(const ${word}* A, const ${word}* B, const ${type}* C, ${type}* D) {
  int t = blockIdx.x * 128 + threadIdx.x; ${word} a[${ac}], b[${bc}]; ${type} d[${dc}];
  for (int i = 0; i < ${ac}; i++) a[i] = A[t * ${ac} + i];
  for (int i = 0; i < ${bc}; i++) b[i] = B[t * ${bc} + i];
  for (int i = 0; i < ${dc}; i++) d[i] = C[t * ${dc} + i];
  for (int s = 0; s < 2; s++) asm volatile("mma.sync.aligned.${shape}.row.col.${d}.${a}.${b}.${d}${operation ? `.${operation}.popc` : ''} ${list(0, dc)}, ${list(dc, ac)}, ${list(dc + ac, bc)}, ${list(0, dc)};"
    : ${Array.from({ length: dc }, (_, i) => `"+${inout}"(d[${i}])`).join(', ')} : ${operands('a', ac)}, ${operands('b', bc)});
  for (int i = 0; i < ${dc}; i++) D[t * ${dc} + i] = d[i];
}`
}

/** Shape, type of A and B, of C and D. */
const WMMA = [[16, 16, 16], [8, 32, 16], [32, 8, 16]].flatMap((shape) =>
  ([['f16', 'f32'], ['f16', 'f16'], ['bf16', 'f32'], ['s8', 's32'], ['u8', 's32']] as const).map(([a, d]) => ({ shape, a, d })),
) // prettier-ignore
const CPP: Record<string, string> = { f16: '__half', bf16: '__nv_bfloat16', s8: 'signed char', u8: 'unsigned char', f32: 'float', s32: 'int' } // prettier-ignore
const wmmaKernel = ({ shape: [m, n, k], a, d }: (typeof WMMA)[number]): string => `#include <mma.h>
#include <cuda_bf16.h>
using namespace nvcuda::wmma;
extern "C" __global__ void __launch_bounds__(128) run(const ${CPP[a]}* A, const ${CPP[a]}* B, const ${CPP[d]}* C, ${CPP[d]}* D) {
  int w = blockIdx.x * 4 + threadIdx.x / 32;
  fragment<matrix_a, ${m}, ${n}, ${k}, ${CPP[a]}, row_major> fa; fragment<matrix_b, ${m}, ${n}, ${k}, ${CPP[a]}, row_major> fb;
  fragment<accumulator, ${m}, ${n}, ${k}, ${CPP[d]}> fc;
  load_matrix_sync(fa, A + w * ${m! * k!}, ${k}); load_matrix_sync(fb, B + w * ${k! * n!}, ${n}); load_matrix_sync(fc, C + w * ${m! * n!}, ${m}, mem_col_major);
  mma_sync(fc, fa, fb, fc); mma_sync(fc, fa, fb, fc);
  store_matrix_sync(D + w * ${m! * n!}, fc, ${n}, mem_row_major);
}`

const { record, report } = recorder(process.argv[2]!)
for (const kind of ['normal', 'wide'] as const) {
  for (const [i, s] of WGMMA.entries()) {
    const { a, b = a } = s
    const outBytes = BLOCKS * 128 * (N / (resultOf(s) === 'f16' ? 4 : 2)) * 4
    const inputs = [data(a, BLOCKS * 16384, 3 * i, kind), data(b, BLOCKS * 16384, 3 * i + 1, kind), data(resultOf(s), outBytes, 3 * i + 2, kind)] // prettier-ignore
    await record(`wgmma ${a} ${b} ${resultOf(s)} ${s.fragments ? 'registers ' : ''}${s.transpose ? 'MN ' : ''}${kind}`, wgmmaKernel(s), inputs, outBytes, 32768) // prettier-ignore
  }
  for (const [i, m] of MMA.entries()) {
    const [ac, bc, dc] = m.counts
    const size = BLOCKS * 128 * (m.d === 'f64' ? 8 : 4)
    const inputs = [data(m.a, size * ac, 500 + 3 * i, kind), data(m.b, size * bc, 501 + 3 * i, kind), data(m.d, size * dc, 502 + 3 * i, kind)] // prettier-ignore
    await record(`mma ${m.shape} ${m.a} ${m.b} ${m.d} ${kind}`, mmaKernel(m), inputs, size * dc, 0)
  }
  for (const [i, w] of WMMA.entries()) {
    const [m, n, k] = w.shape as [number, number, number]
    const bytes = (type: string, elements: number) => BLOCKS * 4 * elements * bytesOf(type)
    const inputs = [data(w.a, bytes(w.a, m * k), 700 + 3 * i, kind), data(w.a, bytes(w.a, k * n), 701 + 3 * i, kind), data(w.d, bytes(w.d, m * n), 702 + 3 * i, kind)] // prettier-ignore
    await record(`wmma ${w.shape.join('x')} ${w.a} ${w.d} ${kind}`, wmmaKernel(w), inputs, bytes(w.d, m * n), 0)
  }
}
report()
