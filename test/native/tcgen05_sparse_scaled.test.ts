import { expect, test } from 'vitest'
import { encode } from '../../compiler/codec.ts'
import { TestDevice, compileToPtx, differences, f32Of } from './device.ts'
import { type Layout, tmemPrelude } from './layouts.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'
import { chunkOf, randomNumbers, sparseMatrix } from './sparse.ts'
import { image, valueOf } from './umma_operands.ts'

// tcgen05.mma.sp with block scales: k is twice that of a dense A, and so is what a scale is for (PTX ISA 9.7.16.10.7, table 56).

const METADATA = 480
const SCALES = 484
const KINDS = {
  mxf8f6f4: { name: 'kind::mxf8f6f4.block_scale', type: 'e4m3', k: 64, scales: 1 },
  mxf4: { name: 'kind::mxf4.block_scale', type: 'e2m1', k: 128, scales: 2 },
  mxf4nvf4: { name: 'kind::mxf4nvf4.block_scale.scale_vec::4X', type: 'e2m1', k: 128, scales: 4 },
} as const
type Kind = keyof typeof KINDS
const N = 64
// 128 rows; scales of A in 4 columns, of B in 2.
const kernel = (kind: Kind) => `
extern "C" __global__ void __launch_bounds__(128) ${kind}(const u32* A, const u32* B, const u32* E, const u32* S, u64 aDesc, u64 bDesc, u32 idesc, u32* out) {
  extern __shared__ __align__(1024) u32 image[]; __shared__ __align__(8) u64 bar; __shared__ u32 columnsAt; int t = threadIdx.x, warp = t / 32;
  u32 *b = image + 4096;
  for (int i = t; i < 4096; i += 128) { image[i] = A[i]; b[i] = B[i]; }
  if (t == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  proxyFence(); __syncthreads();
  if (warp == 0) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(smem(&columnsAt)));
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); asm volatile("tcgen05.fence::after_thread_sync;");
  u32 tm = columnsAt;
  for (int c = 0; c < 2; c++) ST1(tm + (warp << 21) + ${METADATA} + c, E[c * 128 + t]);
  for (int c = 0; c < 6; c++) ST1(tm + (warp << 21) + ${SCALES} + c, S[c * 128 + t]);
  asm volatile("tcgen05.wait::st.sync.aligned;\\ntcgen05.fence::before_thread_sync;" ::: "memory"); __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync;");
  if (t == 0) {
    u64 ad = aDesc + ((smem(image) & 0x3ffff) >> 4), bd = bDesc + ((smem(b) & 0x3ffff) >> 4);
    asm volatile("{.reg .pred p; setp.ne.b32 p, 0, 0; tcgen05.mma.sp.cta_group::1.${KINDS[kind].name} [%0], %1, %2, [%3], %4, [%5], [%6], p;}"
      :: "r"(tm), "l"(ad), "l"(bd), "r"(tm + ${METADATA}), "r"(idesc), "r"(tm + ${SCALES}), "r"(tm + ${SCALES + 4}));
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(smem(&bar)));
  }
  wait(smem(&bar), 0); asm volatile("tcgen05.fence::after_thread_sync;");
  dump(tm, out, ${N});
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads();
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;" :: "r"(tm));
}`
const gpu = new TestDevice(
  compileToPtx(`${prelude}${tmemPrelude}${(Object.keys(KINDS) as Kind[]).map(kernel).join('')}`),
)

const random = randomNumbers(21)
const K: Layout = { swizzle: '128B', mnMajor: false }
/** Packed e2m1: pairs of codes as bytes, which lie like elements of 8 bits. */
const packedPairs = (rows: readonly (readonly number[])[]) =>
  rows.map((values) => {
    const codes = encode('e2m1', Float64Array.from(values))
    return Array.from({ length: values.length / 2 }, (_, i) => Number(codes[2 * i]) | (Number(codes[2 * i + 1]) << 4))
  })
const pack = (bits: readonly number[]) => bits.reduce((word, x, i) => word + x * 2 ** (4 * i), 0) >>> 0

test.each(Object.keys(KINDS) as Kind[])('%s', async (kind) => {
  const { type, k, scales } = KINDS[kind]
  const packed = type === 'e2m1'
  const scale = kind === 'mxf4nvf4' ? 'ue4m3' : 'ue8m0'
  for (const order of ORDERS)
    for (const tensorCores of ['exact', 'silicon'] as const) {
      const A = sparseMatrix(128, k, chunkOf(packed ? 4 : 8), true, () => valueOf(type, random), random)
      const B = Array.from({ length: N }, () => Array.from({ length: k }, () => valueOf(type, random)))
      const factors = Array.from({ length: 128 + N }, () => Array.from({ length: scales }, () => 2 ** (random(3) - 1)))
      const S = new Uint32Array(6 * 128)
      factors.forEach((own, i) => {
        const row = i < 128 ? i : i - 128
        const word = own.reduce((sum, x, at) => sum + (scale === 'ue8m0' ? 127 + Math.log2(x) : (7 + Math.log2(x)) << 3) * 256 ** at, 0)
        for (let quarter = 0; quarter < 4; quarter++) S[((i < 128 ? 0 : 4) + (row >> 5)) * 128 + 32 * quarter + (row & 31)] = word
      })
      const E = new Uint32Array(256)
      A.bits.forEach((own, row) => ((E[row] = pack(own.slice(0, 8))), (E[128 + row] = pack(own.slice(8)))))
      const left = packed ? image('u8', packedPairs(A.stored), K, 16384) : image(type, A.stored, K, 16384)
      const right = packed ? image('u8', packedPairs(B), K, 16384) : image(type, B, K, 16384)
      const code = packed ? 1 : 0
      const idesc = 4 | (code << 7) | (code << 10) | ((N >> 3) << 17) | ((scale === 'ue8m0' ? 1 : 0) << 23) | (1 << 27)
      const out = gpu.allocate(N * 512)
      const params = [...[left.bytes, right.bytes, E, S].map((x) => gpu.upload(x)), left.descriptor, right.descriptor, idesc, out]
      const { findings, stats } = await gpu.run(kind, params, { block: [128, 1, 1], sharedMemBytes: 32768 + 1024, checks: 'full', tensorCores, ...order })
      expect(findings, describeOrder(order)).toEqual([])
      expect(stats.tensorMacs).toBe(128 * N * (k / 2))
      const block = k / scales
      const expected = Array.from({ length: N * 128 }, (_, at) => {
        const [row, column] = [at % 128, Math.floor(at / 128)]
        return A.dense[row]!.reduce((sum, x, i) => sum + x * factors[row]![Math.floor(i / block)]! * B[column]![i]! * factors[128 + column]![Math.floor(i / block)]!, 0)
      })
      const got = Array.from(gpu.read(out, N * 128, Uint32Array), f32Of)
      expect(differences(got, expected.map((x) => x || 0)), `${describeOrder(order)} ${tensorCores}`).toEqual([])
    }
}) // prettier-ignore
