import { expect, test } from 'vitest'
import { decode, encode } from '../../compiler/codec.ts'
import { TestDevice, compileToPtx, differences, f32Bits, f32Of } from './device.ts'
import { type Layout, tmemPrelude } from './layouts.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'
import { chunkOf, randomNumbers, sparseMatrix } from './sparse.ts'
import { TYPES, type Kind, image, laneOf, metadataOf, rowOf, valueOf } from './umma_operands.ts'

// tcgen05.mma.sp (PTX ISA 9.7.16.10.9.2): A half stored, in shared or Tensor Memory, its metadata in Tensor Memory.

const A_COLUMN = 400
const METADATA = 480
const kernelName = (kind: Kind, group: number, tmem: boolean) => `sp_${kind}_${group}_${tmem ? 't' : 's'}`
const kernel = (kind: Kind, group: number, tmem: boolean) => `
extern "C" __global__ void ${group === 2 ? '__cluster_dims__(2, 1, 1)' : ''} __launch_bounds__(128) ${kernelName(kind, group, tmem)}(const u32* A,
  const u32* B, const u32* E, u64 aDesc, u64 bDesc, u32 idesc, int enable, const u32* D, int columns, u32 lane, u32* out) {
  extern __shared__ __align__(1024) u32 image[]; __shared__ __align__(8) u64 bar; __shared__ u32 columnsAt; int t = threadIdx.x, warp = t / 32;
  u32 rank = rankOf(), *b = image + 4096;
  for (int i = t; i < 4096; i += 128) image[i] = A[rank * 4096 + i];
  for (int i = t; i < 8192; i += 128) b[i] = B[rank * 8192 + i];
  if (t == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  proxyFence(); __syncthreads(); ${group === 2 ? 'clusterSync();' : ''}
  if (warp == 0) asm volatile("tcgen05.alloc.cta_group::${group}.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(smem(&columnsAt)));
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); asm volatile("tcgen05.fence::after_thread_sync;");
  u32 tm = columnsAt;
  for (int c = 0; c < columns; c++) ST1(tm + (warp << 21) + c, D[(rank * columns + c) * 128 + t]);
  for (int c = 0; c < 2; c++) ST1(tm + (warp << 21) + ${METADATA} + c, E[(rank * 2 + c) * 128 + t]);
  ${tmem ? `for (int c = 0; c < 8; c++) ST1(tm + (warp << 21) + ${A_COLUMN} + c, A[(rank * 8 + c) * 128 + t]);` : ''}
  asm volatile("tcgen05.wait::st.sync.aligned;\\ntcgen05.fence::before_thread_sync;" ::: "memory"); __syncthreads(); ${group === 2 ? 'clusterSync();' : ''}
  asm volatile("tcgen05.fence::after_thread_sync;");
  if (t == 0 && rank == 0) {
    u64 ad = aDesc + ((smem(image) & 0x3ffff) >> 4), bd = bDesc + ((smem(b) & 0x3ffff) >> 4); (void)ad;
    asm volatile("{.reg .pred p; setp.ne.b32 p, %5, 0; tcgen05.mma.sp.cta_group::${group}.kind::${kind} [%0], ${tmem ? '[%1]' : '%1'}, %2, [%3], %4, p;}"
      :: "r"(tm + (lane << 16)), ${tmem ? `"r"(tm + ${A_COLUMN} + (lane << 16))` : '"l"(ad)'}, "l"(bd), "r"(tm + ${METADATA} + (lane << 16)), "r"(idesc), "r"(enable));
    ${group === 2 ? 'asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" :: "r"(smem(&bar)), "h"((short)3));' : 'asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(smem(&bar)));'}
  }
  wait(smem(&bar), 0); asm volatile("tcgen05.fence::after_thread_sync;");
  dump(tm, out + rank * columns * 128, columns);
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); ${group === 2 ? 'clusterSync();' : ''}
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::${group}.sync.aligned.b32 %0, 512;" :: "r"(tm));
}`
const KERNELS = (['f16', 'tf32', 'f8f6f4', 'i8'] as const).flatMap((kind) => [1, 2].flatMap((group) => [false, true].map((tmem) => [kind, group, tmem] as const))) // prettier-ignore
const ptx = compileToPtx(`${prelude}${tmemPrelude}${KERNELS.map((args) => kernel(...args)).join('')}`)
const gpu = new TestDevice(ptx)

interface Case {
  readonly a: string
  readonly b?: string
  readonly m: number
  readonly n: number
  readonly group?: 1 | 2
  readonly A?: Layout | 'tmem'
  readonly B?: Layout
  readonly d?: 'f32' | 'f16' | 's32'
  readonly selector?: 0 | 1
  readonly fresh?: boolean
  readonly lane?: 0 | 16
}
const K = (swizzle: Layout['swizzle']): Layout => ({ swizzle, mnMajor: false })
const MN = (swizzle: Layout['swizzle']): Layout => ({ swizzle, mnMajor: true })
const CASES: Case[] = [
  { a: 'f16', m: 128, n: 64 },
  { a: 'bf16', m: 128, n: 32, selector: 1, A: K('32B'), B: K('64B') },
  { a: 'f16', d: 'f16', m: 64, n: 16, lane: 16, A: K('none'), B: K('none') },
  { a: 'bf16', m: 64, n: 24, fresh: true, selector: 1 },
  { a: 'f16', m: 128, n: 64, A: MN('128B'), B: MN('128B') },
  { a: 'tf32', m: 128, n: 48 },
  { a: 'tf32', m: 64, n: 8, selector: 1, A: K('64B') },
  { a: 'e4m3', b: 'e5m2', m: 128, n: 32 },
  { a: 'e2m1', b: 'e3m2', m: 128, n: 32, B: K('64B') },
  { a: 'e5m2', b: 'e2m1', d: 'f16', m: 64, n: 64, lane: 16 },
  { a: 'i8', b: 'u8', m: 128, n: 32, B: K('none') },
  { a: 'u8', b: 'i8', m: 64, n: 48, fresh: true },
  ...(['f16', 'tf32', 'e4m3', 'i8'] as const).map((a): Case => ({ a, m: 128, n: 32, A: 'tmem', selector: a === 'f16' ? 1 : 0 })),
  { a: 'bf16', m: 64, n: 16, A: 'tmem', lane: 16 },
  { a: 'f16', m: 256, n: 64, group: 2 },
  { a: 'i8', m: 256, n: 32, group: 2, A: 'tmem' },
  { a: 'tf32', m: 128, n: 32, group: 2, selector: 1 },
  { a: 'e4m3', m: 128, n: 48, group: 2, lane: 16, A: 'tmem' },
] // prettier-ignore

const random = randomNumbers(3)

const codeOf = (x: number) => Number(encode('f16', Float64Array.of(x))[0])
async function launch(c: Case, order: object, change: { E?: (e: Uint32Array) => void; idesc?: number; device?: TestDevice } = {}) {
  const { device = gpu } = change
  const { a, b = a, m, n, group = 1, A = K('128B'), B = K('128B'), selector = 0, fresh = false, lane = 0 } = c
  const [left, right] = [TYPES[a]!, TYPES[b]!]
  const d = c.d ?? (left.kind === 'i8' ? 's32' : 'f32')
  const [k, rows] = [64 / left.bytes, m / group]
  const matrix = sparseMatrix(m, k, chunkOf(left.bytes * 8), true, () => valueOf(a, random), random)
  const other = Array.from({ length: n }, () => Array.from({ length: k }, () => valueOf(b, random)))
  const initial = Array.from({ length: group * n * 128 }, () => random(64) - 32)
  const encoded = (x: number) => (d === 's32' ? x >>> 0 : d === 'f32' ? f32Bits(x) : codeOf(x))
  const expected = Uint32Array.from(initial, encoded)
  for (let row = 0; row < m; row++)
    for (let column = 0; column < n; column++) {
      const at = (Math.floor(row / rows) * n + column) * 128 + laneOf(rows, lane, row % rows)
      expected[at] = encoded(matrix.dense[row]!.reduce((sum, x, i) => sum + x * other[column]![i]!, fresh ? 0 : initial[at]!) || 0)
    }
  const [inA, inB, E] = [new Uint8Array(group * 16384), new Uint8Array(group * 32768), new Uint32Array(group * 256)]
  let [aDescriptor, bDescriptor] = [0n, 0n]
  for (let cta = 0; cta < group; cta++) {
    const own = matrix.stored.slice(cta * rows, (cta + 1) * rows)
    if (A === 'tmem') {
      const words = new Uint32Array(8 * 128)
      own.forEach((values, row) => new Uint32Array(rowOf(a, values).slice().buffer).forEach((word, i) => (words[i * 128 + laneOf(rows, lane, row)] = word)))
      inA.set(new Uint8Array(words.buffer), cta * 4096)
    } else {
      const { bytes, descriptor } = image(a, own, A, 16384)
      inA.set(bytes, cta * 16384)
      aDescriptor = descriptor
    }
    const { bytes, descriptor } = image(b, other.slice((cta * n) / group, ((cta + 1) * n) / group), B, 32768)
    inB.set(bytes, cta * 32768)
    bDescriptor = descriptor
    E.set(metadataOf(matrix.bits.slice(cta * rows, (cta + 1) * rows), left.bytes === 1, selector, (row) => laneOf(rows, lane, row)), cta * 256)
  }
  change.E?.(E)
  const mn = (layout: Layout | 'tmem') => Number(layout !== 'tmem' && layout.mnMajor)
  const idesc = change.idesc ?? (selector | 4 | ({ f16: 0, f32: 1, s32: 2 }[d] << 4) | (left.code << 7) | (right.code << 10) | (mn(A) << 15) | (mn(B) << 16) | ((n >> 3) << 17) | ((m >> 4) << 24))
  const out = device.allocate(group * n * 512)
  const params = [inA, inB, E].map((x) => device.upload(x))
  const result = await device.run(kernelName(left.kind, group, A === 'tmem'), [...params, aDescriptor, bDescriptor, idesc, fresh ? 0 : 1, device.upload(Uint32Array.from(initial, encoded)), n, lane, out], {
    grid: [group, 1, 1], block: [128, 1, 1], cluster: [group, 1, 1], sharedMemBytes: 16384 + 32768 + 1024, checks: 'full', ...order,
  })
  const shown = (words: Iterable<number>) => Array.from(words, (w) => (d === 'f32' ? f32Of(w) : d === 's32' ? w | 0 : Number(decode('f16', Uint16Array.of(w & 0xffff))[0])))
  return { result, got: shown(device.read(out, group * n * 128, Uint32Array)), expected: shown(expected), macs: m * n * (k / 2) }
} // prettier-ignore

const nameOf = ({ a, b = a, m, n, group = 1, A, B, lane = 0, selector = 0 }: Case) =>
  `${a} × ${b}, m ${m} n ${n} of ${group} CTA, lane ${lane}, selector ${selector}, A ${A === 'tmem' ? A : JSON.stringify(A ?? '')} B ${JSON.stringify(B ?? '')}`
test.each(CASES.map((c) => [nameOf(c), c] as const))('%s', async (_, c) => {
  for (const order of ORDERS) {
    const { result, got, expected, macs } = await launch(c, order)
    expect(result.findings, describeOrder(order)).toEqual([])
    expect(result.stats.tensorMacs).toBe(macs)
    expect(differences(got, expected), describeOrder(order)).toEqual([])
  }
})

const said = async (c: Case, change: Parameters<typeof launch>[2]) =>
  (await launch(c, {}, change)).result.findings.map(({ code, message }) => `${code} ${message}`)
test('metadata that name no places and descriptors that do not fit are findings', async () => {
  const c: Case = { a: 'f16', m: 128, n: 16 }
  const set = (lane: number, shift: number, bits: number) => ({
    E: (e: Uint32Array) => void (e[lane] = ((e[lane]! & ~(15 << shift)) | (bits << shift)) >>> 0),
  })
  expect(await said(c, set(27, 20, 0b0001))).toEqual([expect.stringMatching(/5027 .*row 27 of A, columns 20 to 23, is 0b0001/)])
  expect(await said(c, set(27, 20, 0b0110))).toEqual([])
  expect(await said(c, set(128, 0, 0))).toEqual([])
  const shape = (1 << 4) | (2 << 17) | (8 << 24)
  expect(await said(c, { idesc: shape })).toEqual([expect.stringMatching(/5010 .*the sparsity bit \(bit 2\) is 0/)])
  expect(await said(c, { idesc: shape | 4 | 2 })).toEqual([expect.stringMatching(/5010 .*the sparsity selector \(bits 0-1\) is 2, expected 0 or 1/)]) // prettier-ignore
  const e4m3: Case = { a: 'e4m3', m: 128, n: 16 }
  expect(await said(e4m3, { idesc: shape | 4 | 1 })).toEqual([expect.stringMatching(/selector \(bits 0-1\) is 1, expected 0/)])
}) // prettier-ignore

test('metadata that are stored and not waited for are a race', async () => {
  const device = new TestDevice(ptx.replaceAll('tcgen05.wait::st.sync.aligned;', ''))
  const messages = await said({ a: 'f16', m: 128, n: 16, fresh: true }, { device })
  expect(messages).toContainEqual(expect.stringMatching(/5019 tcgen05.mma reads metadata of A in Tensor Memory column 480, which warp \d .* stored, and nothing orders the two/))
}) // prettier-ignore
