import { expect, test } from 'vitest'
import { decodeOne, encodeOne } from '../../compiler/codec.ts'
import { TestDevice, compileToPtx } from './device.ts'
import { ORDERS, type TestMap, describeOrder, encodeTensorMap, prelude } from './prelude.ts'

// One-dimensional bulk copies and reductions, their groups, and maps edited by a kernel.

const source = `${prelude}
extern "C" __global__ void round_trip(u32* out, const u32* in, int words, int early) {  // 1-D copies in and out, two groups
  extern __shared__ __align__(1024) u32 image[]; __shared__ __align__(8) u64 bar;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], 256;" :: "l"(in));
  if (threadIdx.x == 0) { init(smem(&bar), 1); expect(smem(&bar), words * 4);
    asm volatile("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(smem(image)), "l"(in), "r"(words * 4), "r"(smem(&bar)) : "memory"); }
  __syncthreads(); wait(smem(&bar), 0);
  if (threadIdx.x == 0) for (int half = 0; half < 2; half++) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\\ncp.async.bulk.commit_group;"
      :: "l"(out + half * words), "r"(smem(image)), "r"(words * 4) : "memory");
    if (half == 0) { if (!early) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); for (int i = 0; i < words; i++) image[i] += 1; proxyFence(); }
  }
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
extern "C" __global__ void read_back(u32* out, int complete) {  // .read releases shared memory only
  __shared__ __align__(16) u32 image[4];
  if (threadIdx.x) return;
  for (int i = 0; i < 4; i++) image[i] = 7;
  proxyFence();
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;\\ncp.async.bulk.commit_group;\\ncp.async.bulk.wait_group.read 0;"
    :: "l"(out), "r"(smem(image)) : "memory");
  if (complete) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  out[4] = *(volatile u32*)out;
}
${(['f16', 'bf16'] as const).map((t) => reduceKernel(t, `add.noftz.${t}`)).join('')}
${['f32', 'f64', 'u32', 's32', 'u64', 's64'].map((t) => reduceKernel(t, `${t === 's64' ? 'min' : 'add'}.${t}`)).join('')}
extern "C" __global__ void edit(const __grid_constant__ CUtensorMap map, CUtensorMap* to, u64 address, u32 width, u64 pitch, float* out) {
  __shared__ __align__(128) CUtensorMap copy; __shared__ __align__(128) float tile[64]; __shared__ __align__(8) u64 bar; u32 m = smem(&copy);
  if (threadIdx.x < 32) ((u32*)&copy)[threadIdx.x] = ((const u32*)&map)[threadIdx.x];
  __syncwarp();
  if (threadIdx.x == 0) {
    init(smem(&bar), 1);
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "r"(m), "l"(address) : "memory");
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" :: "r"(m), "r"(width) : "memory");
    asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" :: "r"(m), "l"(pitch) : "memory");
    asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, 4;" :: "r"(m) : "memory");
    asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, 2;" :: "r"(m) : "memory");
    asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 7;" :: "r"(m) : "memory");
    asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 0;" :: "r"(m) : "memory");
    asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 1;" :: "r"(m) : "memory");
    asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;" :: "r"(m) : "memory");
  }
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" :: "l"(to), "r"(m) : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(to) : "memory");
  if (threadIdx.x == 0) { expect(smem(&bar), 64); load2(smem(tile), to, 0, 1, smem(&bar)); }
  wait(smem(&bar), 0);
  if (threadIdx.x < 16) out[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void masked(u32* out, int mask) {  // st.bulk, then every other byte of a copy
  __shared__ __align__(16) u32 image[64];
  if (threadIdx.x == 0) asm volatile("st.bulk.weak.shared::cta [%0], 256, 0;" :: "r"(smem(image)) : "memory");
  __syncwarp(); image[threadIdx.x] = 0x01010101 * threadIdx.x; proxyFence(); __syncwarp();
  if (threadIdx.x == 0) { asm volatile("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%0], [%1], 256, %2;"
    :: "l"(out), "r"(smem(image)), "h"((short)mask) : "memory"); storeDone(); }
}
`
function reduceKernel(type: string, op: string): string {
  return `extern "C" __global__ void bulk_${type}(u32* out, const u32* in, int words) {
  __shared__ __align__(16) u32 image[256];
  for (int i = threadIdx.x; i < words; i += 32) image[i] = in[i];
  proxyFence(); __syncthreads();
  if (threadIdx.x == 0) { asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.${op} [%0], [%1], %2;"
    :: "l"(out), "r"(smem(image)), "r"(words * 4) : "memory"); storeDone(); }
}\n`
}

const gpu = new TestDevice(compileToPtx(source))
let state = 5
const random = (n: number) => (
  (state = (Math.imul(state, 1664525) + 1013904223) >>> 0),
  Math.floor((state / 2 ** 32) * n)
)
const randomBytes = (n: number) => Uint8Array.from({ length: n }, () => random(256))
type Reduce = (a: number, b: number) => number
const sum: Reduce = (a, b) => a + b
const sumOf = (dtype: 'f16' | 'bf16', a: number, b: number) =>
  encodeOne(dtype, decodeOne(dtype, a) + decodeOne(dtype, b))

test.each([
  ['f16', Uint16Array, (a: number, b: number) => sumOf('f16', a, b)],
  ['bf16', Uint16Array, (a: number, b: number) => sumOf('bf16', a, b)],
  ['f32', Float32Array, sum],
  ['f64', Float64Array, sum],
  ['u32', Uint32Array, sum],
  ['s32', Int32Array, sum],
  ['u64', BigUint64Array, (a: never, b: never) => a + b],
  ['s64', BigInt64Array, (a: bigint, b: bigint) => (a < b ? a : b)],
] as const)('bulk reduction %s', async (type, array, f) => {
  const bytes = randomBytes(1024)
  if (type === 'f32' || type === 'f64')
    bytes.forEach((_, i) => (bytes[i] = i % (type === 'f32' ? 4 : 8) > 3 ? 63 : i % 4 === 3 ? 64 : bytes[i]!))
  const [a, b] = [new array(bytes.slice().buffer), new array(bytes.slice().reverse().buffer)] as unknown as [
    Uint32Array,
    Uint32Array,
  ]
  if (type[0] === 'f') for (const x of [a, b]) x.forEach((v, i) => v !== v && (x[i] = 1))
  const out = gpu.upload(a)
  expect((await gpu.run(`bulk_${type}`, [out, gpu.upload(b), 256])).findings).toEqual([])
  const expected = a.map((x, i) => (f as unknown as Reduce)(x, b[i]!))
  expect(new Uint8Array(gpu.read(out, 1024, Uint8Array))).toEqual(new Uint8Array(expected.buffer))
})

test.each(ORDERS.map((o) => [describeOrder(o), o] as const))('bulk groups, %s', async (_, order) => {
  const words = 96
  const input = gpu.upload(Uint32Array.from({ length: words }, (_, i) => i))
  const out = gpu.allocate(words * 8)
  const run = (early: number) =>
    gpu.run('round_trip', [out, input, words, early], { sharedMemBytes: words * 4, ...order })
  expect((await run(0)).findings).toEqual([])
  expect([...gpu.read(out, 2 * words, Uint32Array)]).toEqual(
    Array.from({ length: 2 * words }, (_, i) => (i < words ? i : i - words + 1)),
  )
  if (order.order !== 'lazy') return
  await run(1)
  expect(gpu.read(out, 1, Uint32Array)[0]).toBe(1)
})

test('wait_group.read does not wait for the writes', async () => {
  for (const [order, complete, seen] of [
    ['lazy', 1, 7],
    ['lazy', 0, 0],
    ['eager', 0, 7],
  ] as const) {
    const out = gpu.allocate(20)
    expect((await gpu.run('read_back', [out, complete], { order })).findings).toEqual([])
    expect([order, complete, ...gpu.read(out, 5, Uint32Array)]).toEqual([order, complete, 7, 7, 7, 7, seen])
  }
})

test('a map edited by the kernel', async () => {
  const data = Float32Array.from({ length: 40 }, (_, i) => i)
  const map: TestMap = { type: 'u8', address: gpu.allocate(16), dims: [16, 4], box: [8, 2], strides: [16] }
  const out = gpu.allocate(64)
  const to = gpu.allocate(128)
  const params = [encodeTensorMap(map), to, gpu.upload(data), 5, 32n, out]
  expect((await gpu.run('edit', params)).findings).toEqual([])
  const got = gpu.read(out, 16, Float32Array)
  // Rows 1 and 3 of a pitch of 8 floats, 5 of 8 columns; the rest is NaN.
  expect([...got]).toEqual([1, 3].flatMap((r) => [0, 1, 2, 3, 4, 5, 6, 7].map((c) => (c < 5 ? r * 8 + c : NaN))))
})

test('st.bulk and a copy with a byte mask', async () => {
  const before = randomBytes(256)
  const out = gpu.upload(before)
  expect((await gpu.run('masked', [out, 0x5a0f])).findings).toEqual([])
  const expected = before.map((x, i) => ((0x5a0f >> (i % 16)) & 1 ? (i < 128 ? i >> 2 : 0) : x))
  expect([...gpu.read(out, 256, Uint8Array)]).toEqual([...expected])
})
