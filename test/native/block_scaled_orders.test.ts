import { describe, expect, test } from 'vitest'
import { scaledPrelude } from './block_scaled.ts'
import { TestDevice, compileToPtx } from './device.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'

// Scales in Tensor Memory: by tcgen05.st, by tcgen05.cp of another thread, split over a pair; what `checks: 'full'` says of wrong orders.

const source =
  prelude +
  scaledPrelude +
  String.raw`
DEV void store4(u32 to, u32 x) { asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1, %1, %1, %1};" :: "r"(to), "r"(x) : "memory"); }
DEV void commit(u32 b) { asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(b) : "memory"); }
DEV void multiply(u32 d, u64 a, u64 b, u32 sa, u32 sb) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%0], %1, %2, %3, [%4], [%5], p;}"
  :: "r"(d), "l"(a), "l"(b), "r"(64 >> 3 << 17 | 1 << 23 | 128 >> 4 << 24), "r"(sa), "r"(sb) : "memory"); }
#define OPEN(group) extern __shared__ __align__(1024) uint8_t tiles[]; __shared__ __align__(8) u64 bars[2]; __shared__ u32 columns; \
  int i = threadIdx.x, warp = i / 32; u32 data = (smem(tiles) + 1023) & ~1023u, f = smem(&bars[0]), ready = smem(&bars[1]); \
  for (int k = i; k < 28672 / 4; k += 128) asm volatile("st.shared.b32 [%0], %1;" :: "r"(data + 4 * k), "r"(k < 6144 ? 0x38383838 : 0x80808080) : "memory"); \
  proxyFence(); if (i == 0) { init(f, 1); init(ready, 1); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); } \
  if (warp == 0) asm volatile("tcgen05.alloc.cta_group::" #group ".sync.aligned.shared::cta.b32 [%0], 256;" :: "r"(smem(&columns)) : "memory"); \
  before(); __syncthreads(); after(); u32 tm = columns; u64 a = descriptor(data), b = descriptor(data + 16384), scales = atom(data + 24576)
#define CLOSE(group) before(); __syncthreads(); after(); \
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::" #group ".sync.aligned.b32 %0, 256;" :: "r"(tm))
DEV float first(u32 tm, int warp) { u32 r;
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];\ntcgen05.wait::ld.sync.aligned;" : "=r"(r) : "r"(tm + (warp << 21)) : "memory");
  return __uint_as_float(r); }

// 32 ones times 2 times 2, scales by tcgen05.st.
extern "C" __global__ void __launch_bounds__(128) stored(float* out, int bug) {
  OPEN(1);
  if (bug != 5 || warp != 2) { store4(tm + (warp << 21) + 64, 0x80808080); store4(tm + (warp << 21) + 68, bug == 6 && warp == 1 ? 0x81818181 : 0x80808080); }
  if (bug != 1 && (bug != 7 || warp)) asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  if (bug != 2) before(); if (bug != 4) __syncthreads(); if (bug != 3) after();
  if (i == 0) { multiply(tm, a, b, tm + 64, tm + 68); commit(f); }
  wait(f, 0); after();
  out[i] = first(tm, warp);
  CLOSE(1);
}
// Thread 0 copies the scales, thread 32 multiplies.
extern "C" __global__ void __launch_bounds__(128) handed(float* out, int bug) {
  OPEN(1);
  if (bug == 3) { store4(tm + (warp << 21) + 64, 0); asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
  if (i == 0) { copy1(tm + 64, scales); copy1(tm + 68, scales); before(); arrive(ready); }
  if (i == 32) { if (bug != 1) wait(ready, 0); after(); multiply(tm, a, b, tm + 64, tm + 68); commit(f); }
  if (bug == 2) out[i] = first(tm + 64, warp);
  wait(f, 0); after();
  out[i] = first(tm, warp);
  CLOSE(1);
}
// 128 rows on a pair: N is split over the lane halves, and the scales of B with it.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) halves(float* out, int bug) {
  OPEN(2);
  u32 rank = rankOf();
  // Scales of A: 4 for even rows and 1 for odd ones; of B: 1 for the first 64 columns and 4 behind them.
  if (i < 64) for (int c = 0; c < 4; c++) {
    asm volatile("st.shared.b32 [%0], %1;" :: "r"(data + 24576 + 16 * (i % 32) + 4 * c), "r"(i % 2 ? 0x7f7f7f7f : 0x81818181) : "memory");
    asm volatile("st.shared.b32 [%0], %1;" :: "r"(data + 25600 + 16 * i + 4 * c), "r"(i < 32 ? 0x7f7f7f7f : 0x81818181) : "memory"); }
  proxyFence(); __syncthreads(); clusterSync();
  if (rank == 0 && i == 0) {
    copy2(tm + 64, scales);
    if (bug == 1) copy2(tm + 68, atom(data + 25600));
    else asm volatile("tcgen05.cp.cta_group::2.64x128b.warpx2::01_23 [%0], %1;" :: "r"(tm + 68), "l"(atom(data + 25600)) : "memory");
    asm volatile("{.reg .pred p; setp.ne.b32 p, 0, 0; tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale [%0], %1, %2, %3, [%4], [%5], p;}"
    :: "r"(tm), "l"(a), "l"(b), "r"(128 >> 3 << 17 | 1 << 23 | 128 >> 4 << 24), "r"(tm + 64), "r"(tm + 68) : "memory");
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" :: "r"(f), "h"((short)3) : "memory");
  }
  wait(f, 0); after();
  out[rank * 128 + i] = first(tm, warp);
  before(); clusterSync(); CLOSE(2);
}
`
const gpu = new TestDevice(compileToPtx(source))
const launch = { block: [128, 1, 1] as const, sharedMemBytes: 30720, checks: 'full' as const }

async function run(kernel: string, bug: number, order = {}, ctas = 1) {
  const out = gpu.allocate(512 * ctas)
  const { findings } = await gpu.run(kernel, [out, bug], {
    ...launch,
    grid: [ctas, 1, 1],
    cluster: [ctas, 1, 1],
    ...order,
  })
  return { findings, got: [...gpu.read(out, 128 * ctas, Float32Array)] }
}

describe.each(ORDERS.map((o) => [describeOrder(o), o] as const))('clean, %s', (_, order) => {
  test.each(['stored', 'handed'])('%s', async (kernel) => {
    const { findings, got } = await run(kernel, 0, order)
    expect(findings).toEqual([])
    expect(got).toEqual(Array.from({ length: 128 }, () => 128))
  })
  test('a pair of 64 rows each', async () => {
    const { findings, got } = await run('halves', 0, order, 2)
    expect(findings).toEqual([])
    // Lanes from 64 on hold column 64.
    expect(got).toEqual(Array.from({ length: 256 }, (_, i) => 32 * (i % 2 ? 1 : 4) * (i % 128 < 64 ? 1 : 4)))
  })
})

test.each<[string, string, number, string, RegExp]>([
  [
    'scales stored and not waited for',
    'stored',
    1,
    'KTL5019',
    /tcgen05\.mma reads scales of A in Tensor Memory column 64, which warp \d .* stored.*that warp needs tcgen05\.wait::st/,
  ],
  [
    'no fence::before_thread_sync',
    'stored',
    2,
    'KTL5019',
    /reads scales of A .*that warp needs tcgen05\.fence::before_thread_sync/,
  ],
  [
    'no fence::after_thread_sync',
    'stored',
    3,
    'KTL5019',
    /reads scales of A .*this thread needs tcgen05\.fence::after_thread_sync/,
  ],
  [
    'its own scales not waited for',
    'stored',
    7,
    'KTL5019',
    /reads scales of A .*warp 0 .* stored.*that warp needs tcgen05\.wait::st before it/,
  ],
  ['no barrier', 'stored', 4, 'KTL5019', /reads scales of A .*nothing orders the two/],
  ['a quarter without scales', 'stored', 5, 'KTL5004', /uninitialised/],
  [
    'a quarter with other scales',
    'stored',
    6,
    'KTL5009',
    /the scales of row 0 of B differ between lanes 0 and 32 of column 68/,
  ],
  [
    'a copy by another thread, and no wait',
    'handed',
    1,
    'KTL5019',
    /reads scales of A in Tensor Memory column 64, which tcgen05\.cp of warp 0 .* writes, and nothing orders the two/,
  ],
  [
    'a load of copied scales without a commit',
    'handed',
    2,
    'KTL5019',
    /tcgen05\.ld reads Tensor Memory column 64, which tcgen05\.cp of CTA rank 0/,
  ],
  [
    'a copy over what other warps stored',
    'handed',
    3,
    'KTL5019',
    /tcgen05\.cp overwrites Tensor Memory column 64, which warp \d .* stored/,
  ],
])('reported: %s', async (_, kernel, bug, code, message) => {
  const { findings } = await run(kernel, bug)
  expect(findings.map((f) => f.code)).toContain(code)
  expect(
    findings
      .filter((f) => f.code === code)
      .map((f) => f.message)
      .join('\n'),
  ).toMatch(message)
})

test.each([
  [1, false],
  [2, true],
  [3, true],
  [4, false],
])('what lacks a fence alone is a remark, once for each place: bug %i', async (bug, remark) => {
  const { findings } = await run('stored', bug)
  // Bug 1 also frees what nobody has waited for.
  const races = findings.filter((f) => f.code === 'KTL5019' && !f.message.includes('dealloc'))
  expect(races.map((f) => [f.fatal, f.remark])).toEqual([[false, remark]])
  if (remark) expect(races[0]!.count).toBe(1)
})

test('scales stored and not waited for, under default checks', async () => {
  for (const order of ORDERS) {
    const { findings } = await run('stored', 1, { checks: 'default', ...order })
    const race = findings.find((f) => f.code === 'KTL5019')!
    expect(race.message).toMatch(
      /tcgen05\.mma uses Tensor Memory column 64, which warp \d .* stores and has not waited for/,
    )
    expect([race.fatal, race.remark]).toEqual([false, false])
  }
})

test('a pair of 64 rows each: with the scales of B in four equal quarters, the first half serves both', async () => {
  const { got } = await run('halves', 1, {}, 2)
  expect(got.slice(64, 66)).toEqual([128, 32])
})
