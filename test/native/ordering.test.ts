import { describe, expect, test } from 'vitest'
import type { NativeLaunch, NativeLaunchResult } from '../../runtime/addon/virtual.ts'
import { TestDevice, compileToPtx } from './device.ts'

// What `checks: 'full'` adds: each kernel takes `bug`, the step that is left out or done otherwise; 0 is correct.

const common = String.raw`
#include <cstdint>
typedef uint32_t u32; typedef uint64_t u64;
#define DEV __device__ __forceinline__
DEV u32 smem(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEV void init(u32 b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(n) : "memory"); }
DEV void initFence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEV void arrive(u32 b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory"); }
DEV void expect(u32 b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(n) : "memory"); }
DEV void wait(u32 b, int parity) {
  asm volatile("{\n.reg .pred P;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n@P bra DONE;\nbra AGAIN;\nDONE:\n}" :: "r"(b), "r"(parity)
  : "memory"); }
DEV void proxyFence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEV void before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
DEV void after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
DEV void bulkStore(void* to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
  :: "l"(to), "r"(from), "r"(bytes) : "memory"); }
DEV u64 descriptor(u32 a) { return (u64)((a & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61; }
`

const proxySource =
  common +
  String.raw`
extern "C" __global__ void stage(u32* out, int bug) {
  __shared__ __align__(128) u32 tile[128]; int i = threadIdx.x;
  if (bug == 2) proxyFence();                                   // too early
  tile[i] = i;
  if (bug == 0) proxyFence();
  if (bug == 3) { proxyFence(); __syncwarp(); } else __syncthreads();
  if (bug == 4) { if (i == 64) proxyFence(); __syncthreads(); }  // by a third thread, on the path
  if (bug == 5 && i == 96) proxyFence();                         // by the issuer
  if (bug == 6 && i == 96) asm volatile("fence.proxy.async;" ::: "memory");
  if (bug == 7 && i == 96) asm volatile("fence.proxy.async.global;" ::: "memory");
  if (i == 96) bulkStore(out, smem(tile), 512);
}
// The slot is used twice; the second filling needs fences of its own.
extern "C" __global__ void again(u32* out, int bug) {
  __shared__ __align__(128) u32 tile[128]; int i = threadIdx.x;
  for (int round = 0; round < 3; round++) {
    tile[i] = i + round;
    if (!(bug == 1 && round == 2)) proxyFence();
    __syncthreads();
    if (i == 0) bulkStore(out + 128 * round, smem(tile), 512);
    __syncthreads();
  }
}
// The slot is filled again; the thread that stored it waits for the read, and for nothing else.
extern "C" __global__ void reuse(u32* out, int bug) {
  __shared__ __align__(128) u32 tile[256]; int i = threadIdx.x;
  for (int round = 0; round < 4; round++) {
    u32* slot = tile + 128 * (round % 2);
    // At most one group may stay: the other slot's.
    if (i == 0 && bug == 2) asm volatile("cp.async.bulk.wait_group.read 2;" ::: "memory");
    else if (i == 0 && bug != 1) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    if (bug != 3) __syncthreads();
    slot[i] = i + round; proxyFence(); __syncthreads();
    if (i == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;\ncp.async.bulk.commit_group;"
      :: "l"(out + 128 * round), "r"(smem(slot)) : "memory");
    }
  }
  if (i == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// A copy into the slot that a reduction reads.
extern "C" __global__ void reload(u32* out, int bug) {
  __shared__ __align__(128) u32 tile[128]; __shared__ __align__(8) u64 bar; int i = threadIdx.x; u32 b = smem(&bar);
  tile[i] = 1; if (i == 0) { init(b, 1); initFence(); } proxyFence(); __syncthreads();
  if (i == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 512;\ncp.async.bulk.commit_group;"
    :: "l"(out), "r"(smem(tile)) : "memory");
    if (bug != 1) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    expect(b, 512);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
    :: "r"(smem(tile)), "l"(out + 128), "r"(b) : "memory");
    wait(b, 0);
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
// Other threads' asynchronous writes over what a store reads.
extern "C" __global__ void overwrite(u32* out, int bug) {
  __shared__ __align__(128) u32 tile[128]; __shared__ __align__(8) u64 bar; int i = threadIdx.x; u32 b = smem(&bar), to = smem(tile + 5);
  tile[i] = 1; if (i == 0) { init(b, 1); initFence(); } proxyFence(); __syncthreads();
  if (i == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;\ncp.async.bulk.commit_group;" :: "l"(out), "r"(smem(tile)) : "memory");
    if (!bug) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncthreads();
  if (i == 64) {
    if (bug <= 1) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\ncp.async.wait_all;" :: "r"(to), "l"(out + 128) : "memory");
    else expect(b, 4);
    if (bug == 2) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" :: "r"(to), "r"(7), "r"(b) : "memory");
    if (bug == 3) asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" :: "r"(to), "r"(7), "r"(b) : "memory");
    if (bug > 1) wait(b, 0);
  }
  __syncthreads();
  if (i == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// A warp fills its own part; one lane stores it.
extern "C" __global__ void warps(u32* out, int bug) {
  __shared__ __align__(128) u32 tile[128]; int i = threadIdx.x;
  tile[i] = i; proxyFence();
  if (bug != 1) __syncwarp();
  if (i % 32 == 0) bulkStore(out + i, smem(tile + i), 128);
}
// Bytes that a copy overwrote are the async proxy's own: zeros by stores, data by a bulk copy, out by a bulk store.
extern "C" __global__ void refill(const u32* in, u32* out, int bug) {
  __shared__ __align__(128) u32 tile[128]; __shared__ __align__(8) u64 bar; int i = threadIdx.x; u32 b = smem(&bar);
  tile[i] = 0;
  if (i == 0) { init(b, 1); if (bug != 1) initFence(); }
  __syncthreads();
  if (i == 0) {
    if (bug == 2) proxyFence();  // covers the init as well
    expect(b, 512);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" :: "r"(smem(tile)), "l"(in), "r"(b) : "memory");
    wait(b, 0);
    bulkStore(out, smem(tile), 512);
  }
}
`

const tensorSource =
  common +
  String.raw`
// Two rounds of D = A B^T, 128x64x16 of ones: operands by generic stores, one accumulator, warps 0-3 read it, warp 4 multiplies.
extern "C" __global__ void __launch_bounds__(160) multiply(float* out, int bug) {
  extern __shared__ __align__(1024) uint8_t tiles[];
  __shared__ __align__(8) u64 full, empty; __shared__ u32 columns;
  int i = threadIdx.x, warp = i / 32; u32 base = (smem(tiles) + 1023) & ~1023u, f = smem(&full), e = smem(&empty);
  for (int k = i; k < 24576 / 4; k += 160) asm volatile("st.shared.b32 [%0], %1;" :: "r"(base + 4 * k), "r"(0x3f803f80) : "memory");
  if (bug != 1) proxyFence();
  if (i == 0) { init(f, 1); init(e, bug == 9 ? 4 : 128); if (bug != 8) initFence(); }
  if (warp == 4) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" :: "r"(smem(&columns)));
  if (bug != 10) before(); __syncthreads(); if (bug != 10) after();
  u32 tm = columns;
  for (int round = 0; round < 2; round++) {
    if (warp == 4) {
      if (i == 128) {
        wait(e, round ^ 1);
        if (bug != 5) after();
        asm volatile("{.reg .pred p; setp.ne.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;}"
          :: "r"(tm), "l"(descriptor(base)), "l"(descriptor(base + 16384)), "r"(0x490 | 64 >> 3 << 17 | 128 >> 4 << 24));
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(f));
      }
      __syncwarp();
    } else {
      wait(f, round);
      if (bug != 2) after();
      u32 r; asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(r) : "r"(tm + (warp << 21)));
      if (bug == 6) { before(); arrive(e); }
      if (bug == 11 && round == 0) { before(); arrive(e); wait(f, 1); }
      asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
      if (bug != 4) before();
      if (bug == 9) { if (i % 32 == 0) arrive(e); } else if (bug != 6 && (bug != 11 || round)) arrive(e);
      out[128 * round + i] = __uint_as_float(r);
    }
  }
  if (bug != 10) before(); __syncthreads(); if (bug != 10) after();
  if (warp == 4) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" :: "r"(tm));
}
// Accumulates on what tcgen05.st left in Tensor Memory.
extern "C" __global__ void __launch_bounds__(128) seed(float* out, int bug) {
  extern __shared__ __align__(1024) uint8_t tiles[];
  __shared__ __align__(8) u64 full; __shared__ u32 columns;
  int i = threadIdx.x, warp = i / 32; u32 base = (smem(tiles) + 1023) & ~1023u, f = smem(&full);
  for (int k = i; k < 24576 / 4; k += 128) asm volatile("st.shared.b32 [%0], %1;" :: "r"(base + 4 * k), "r"(0x3f803f80) : "memory");
  proxyFence();
  if (i == 0) { init(f, 1); initFence(); }
  if (warp == 0) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" :: "r"(smem(&columns)));
  __syncthreads();
  u32 tm = columns;
  for (int c = 0; c < 64; c++) asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(tm + (warp << 21) + c), "r"(__float_as_uint(2.0f)));
  if (bug != 1) asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  if (bug != 2) before(); __syncthreads(); if (bug != 3) after();
  if (i == 0) {
    asm volatile("{.reg .pred p; setp.eq.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;}"
      :: "r"(tm), "l"(descriptor(base)), "l"(descriptor(base + 16384)), "r"(0x490 | 64 >> 3 << 17 | 128 >> 4 << 24));
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(f));
  }
  wait(f, 0); after();
  u32 r; asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];\ntcgen05.wait::ld.sync.aligned;" : "=r"(r) : "r"(tm + (warp << 21)));
  out[i] = __uint_as_float(r);
  __syncthreads();
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" :: "r"(tm));
}
// A warp leaves words in Tensor Memory for the warp of another warpgroup that has the same lanes, which leaves some for it.
extern "C" __global__ void __launch_bounds__(256) exchange(float* out, int bug) {
  __shared__ __align__(8) u64 full, empty; __shared__ u32 columns;
  int i = threadIdx.x, warp = i / 32; u32 f = smem(&full), e = smem(&empty);
  if (i == 0) { init(f, 128); init(e, 128); initFence(); }
  if (warp == 0) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(smem(&columns)));
  __syncthreads();
  u32 at = columns + (warp % 4 << 21), x = i;
  for (int round = 0; round < 2; round++) {
    if (warp < 4) {
      if (round) { wait(e, 0); after(); }
      asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(at), "r"(x + round));
      if (bug != 1) asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
      if (bug != 2) before();
      arrive(f);
    } else {
      wait(f, round);
      if (bug != 3) after();
      u32 r; asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(r) : "r"(at));
      if (bug == 4) { before(); if (!round) arrive(e); }
      asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
      if (bug != 4) { before(); if (!round) arrive(e); }
      out[128 * round + i - 128] = r;
    }
  }
  __syncthreads();
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(columns));
}
`

const raceSource =
  common +
  String.raw`
#define SHARED(size) __shared__ int x[size]; int i = threadIdx.x
extern "C" __global__ void cta(int* o, int bug) { SHARED(64); x[i] = i; if (bug != 1) __syncthreads(); o[i] = x[63 - i]; }
extern "C" __global__ void warp(int* o, int bug) {
  SHARED(64); x[i] = i;
  if (bug != 1 && bug != 2) __syncwarp();
  int y = bug == 2 ? __shfl_sync(~0u, i, 0) * 0 : 0;  // exchanges registers, orders no memory
  o[i] = x[i ^ 1] + y;
}
// Fast warps arrive at the next barrier before slow ones have left this one.
extern "C" __global__ void rounds(int* o, int bug) {
  SHARED(64); int sum = 0;
  for (int k = 0; k < 8; k++) { x[i] = i + k; __syncthreads(); sum += x[63 - i]; if (bug != 1) __syncthreads(); }
  o[i] = sum;
}
extern "C" __global__ void named(int* o, int bug) {
  SHARED(32);
  if (i < 32) { if (bug != 1) x[i] = i; asm volatile("bar.arrive 1, 64;" ::: "memory"); if (bug == 1) x[i] = i; o[i] = i; }
  else { asm volatile("bar.sync 1, 64;" ::: "memory"); o[i] = x[i - 32]; }
}
extern "C" __global__ void ring(int* o, int bug) {
  SHARED(32); __shared__ __align__(8) u64 full, empty; u32 f = smem(&full), e = smem(&empty);
  if (i == 0) { init(f, 32); init(e, 32); }
  __syncthreads();
  for (int k = 0; k < 4; k++)
    if (i < 32) { wait(e, k & 1 ^ 1); if (bug != 1) x[i] = i + k; arrive(f); if (bug == 1) x[i] = i + k; }
    else { wait(f, k & 1); o[32 * k + i - 32] = x[63 - i]; arrive(e); }
}
// Of two words one is copied and one stored: the arrival of copies tells of the first alone.
extern "C" __global__ void copied(int* o, int bug) {
  __shared__ int x[64]; __shared__ __align__(8) u64 full; int i = threadIdx.x; u32 f = smem(&full);
  if (i == 0) init(f, bug == 1 ? 32 : 64);
  __syncthreads();
  if (i < 32) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(smem(x + i)), "l"(o + 64 + i) : "memory");
    x[32 + i] = i;
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(f) : "memory");
    if (bug != 1) arrive(f);
  } else { wait(f, 0); o[i - 32] = x[i - 32]; o[i] = x[i]; }
}
extern "C" __global__ void flag(int* o, int bug) {
  SHARED(32); __shared__ int ready; if (i == 0) ready = 0; __syncthreads();
  if (i == 0) { for (int k = 0; k < 32; k++) x[k] = o[k + 1]; __threadfence_block(); *(volatile int*)&ready = 1; }
  if (i == 32) { while (bug != 1 && *(volatile int*)&ready == 0); __threadfence_block(); o[0] = x[o[40]]; }
}
extern "C" __global__ void count(int* o, int bug) {
  __shared__ int total, any; int i = threadIdx.x;
  if (i == 0) { total = 0; any = 0; }
  __syncthreads();
  atomicAdd(&total, i); if (i % 5 == 0) any = 1;
  if (bug != 1) __syncthreads();
  o[i] = total + any;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) pair(int* o, int bug) {
  SHARED(32); u32 rank; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  u32 peer; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(smem(&x[i])), "r"(rank ^ 1));
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("st.shared::cluster.b32 [%0], %1;" :: "r"(peer), "r"(i) : "memory");
  if (bug == 1) __syncthreads();
  else if (bug == 2) asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  else if (bug == 3) asm volatile("fence.acq_rel.cluster;\nbarrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  else asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  o[32 * rank + i] = x[i];
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) remote(int* o, int bug) {  // a relaxed start, as CUTLASS has it
  __shared__ __align__(8) u64 bar; int i = threadIdx.x; u32 b = smem(&bar), rank; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (i == 0) { init(b, 1); if (bug != 1) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  u32 peer; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(b), "r"(rank ^ 1));
  if (i == 32) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(peer) : "memory");
  wait(b, 0); o[64 * rank + i] = i;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
`

const ORDERS: Partial<NativeLaunch>[] = [
  { order: 'lazy' },
  { order: 'eager' },
  ...[1, 2, 3].map((seed) => ({ order: 'random' as const, seed })),
]

/** Under every order: nothing but orders decides what overlaps, so a missing fence must show in each. */
async function everyOrder(
  gpu: TestDevice,
  kernel: string,
  bug: number,
  launch: Partial<NativeLaunch>,
  buffers = 1,
): Promise<NativeLaunchResult[]> {
  const results: NativeLaunchResult[] = []
  for (const order of ORDERS) {
    const pointers = Array.from({ length: buffers }, () => gpu.allocate(4096))
    results.push(await gpu.run(kernel, [...pointers, bug], { checks: 'full', ...order, ...launch }))
  }
  return results
}

async function expectClean(...args: Parameters<typeof everyOrder>): Promise<void> {
  for (const { findings } of await everyOrder(...args)) expect(findings).toEqual([])
}

/** KTL5019 that does not stop the launch and says what `text` says, in every order. */
async function expectRace(text: RegExp, ...args: Parameters<typeof everyOrder>): Promise<void> {
  for (const { findings } of await everyOrder(...args)) {
    const races = findings.filter(({ code }) => code === 'KTL5019')
    expect(races.map(({ message }) => message).join('\n')).toMatch(text)
    expect(races.every(({ fatal }) => !fatal)).toBe(true)
  }
}

describe('generic stores read by the async proxy', () => {
  const gpu = new TestDevice(compileToPtx(proxySource))
  const block: Partial<NativeLaunch> = { block: [128, 1, 1] }

  test.each([
    ['the writers fence', 'stage', 0],
    ['a third thread fences', 'stage', 4],
    ['the issuer fences', 'stage', 5],
    ['a fence of all spaces', 'stage', 6],
    ['a slot filled three times', 'again', 0],
    ['each warp for itself', 'warps', 0],
    ['two slots in turn', 'reuse', 0],
    ['a slot loaded again', 'reload', 0],
    ['a copy behind the read', 'overwrite', 0],
  ])('clean: %s', (_, kernel, bug) => expectClean(gpu, kernel, bug, block))
  test('clean: bytes that a copy has overwritten', () => expectClean(gpu, 'refill', 0, block, 2))

  test.each([
    [
      'no fence',
      'stage',
      1,
      /this bulk store reads shared memory at 0x\w+ that lane \d+ of warp \d \(ptx line \d+, cuda line \d+\) stored .* needs fence\.proxy\.async/,
    ],
    ['a fence before the stores', 'stage', 2, /without fence\.proxy\.async between/],
    ['a fence of global memory', 'stage', 7, /without fence\.proxy\.async between/],
    ['no fence the last time', 'again', 1, /without fence\.proxy\.async between/],
    ['no __syncwarp', 'warps', 1, /and fenced, with nothing that orders its fence/],
    [
      'a slot filled before it was read',
      'reuse',
      1,
      /overwrites shared memory at 0x\w+, which the store to global memory of lane 0 of warp 0 .* may not have read yet: that thread needs cp\.async\.bulk\.wait_group\.read/,
    ],
    [
      'one group too many in flight',
      'reuse',
      2,
      /may not have read yet: that thread needs cp\.async\.bulk\.wait_group\.read/,
    ],
    ['no barrier behind the wait', 'reuse', 3, /may not have read yet/],
    [
      'a copy over what a reduction reads',
      'reload',
      1,
      /this bulk copy overwrites shared memory .* may not have read yet/,
    ],
    [
      'a cp.async over what a store reads',
      'overwrite',
      1,
      /this cp\.async overwrites shared memory .* may not have read yet/,
    ],
    [
      'a st.async over what a store reads',
      'overwrite',
      2,
      /this st\.async overwrites shared memory .* may not have read yet/,
    ],
    [
      'a red.async over what a store reads',
      'overwrite',
      3,
      /this red\.async overwrites shared memory .* may not have read yet/,
    ],
  ])('reported: %s', (_, kernel, bug, text) => expectRace(text, gpu, kernel, bug, block))

  test('an mbarrier.init that the async proxy may not see', async () => {
    await expectRace(
      /will signal mbarrier 0x\w+, whose mbarrier\.init by warp 0 .* needs fence\.mbarrier_init/,
      gpu,
      'refill',
      1,
      block,
      2,
    )
    await expectClean(gpu, 'refill', 2, block, 2)
  })

  test('a fence and no barrier: reported where the stores come first', async () => {
    const { findings } = await gpu.run('stage', [gpu.allocate(512), 3], { ...block, checks: 'full' })
    expect(findings.map(({ message }) => message).join('\n')).toMatch(/and fenced, with nothing that orders its fence/)
  })

  test('only full checks', async () => {
    const { findings } = await gpu.run('stage', [gpu.allocate(512), 1], block)
    expect(findings).toEqual([])
  })
})

describe('Tensor Memory', () => {
  const gpu = new TestDevice(compileToPtx(tensorSource))
  const launch: Partial<NativeLaunch> = { block: [160, 1, 1], sharedMemBytes: 25600 }
  const seeded: Partial<NativeLaunch> = { ...launch, block: [128, 1, 1] }

  test('clean: the canonical handshakes', async () => {
    const out = gpu.allocate(1024)
    const { findings } = await gpu.run('multiply', [out, 0], { ...launch, checks: 'full' })
    expect(findings).toEqual([])
    expect([...gpu.read(out, 256, Float32Array)]).toEqual(Array.from({ length: 256 }, () => 16))
    await expectClean(gpu, 'multiply', 0, launch)
  })
  test('under default checks: a product over what is loaded, and nobody has waited', async () => {
    for (const order of ORDERS) {
      const { findings } = await gpu.run('multiply', [gpu.allocate(1024), 11], { ...launch, ...order })
      expect(findings.map(({ code, fatal, remark }) => [code, fatal, remark])).toEqual([['KTL5019', false, false]])
      expect(findings[0]!.message).toMatch(
        /tcgen05\.mma overwrites Tensor Memory column 0, which warp \d .* loads and has not waited for: that warp needs tcgen05\.wait::ld/,
      )
    }
  })
  test('clean: one lane of each warp arrives', () => expectClean(gpu, 'multiply', 9, launch))
  test('clean: alloc and dealloc without fences around their barriers', () => expectClean(gpu, 'multiply', 10, launch))
  test('clean: words for another warp', () => expectClean(gpu, 'exchange', 0, { block: [256, 1, 1] }))
  test('clean: an accumulator from tcgen05.st', () => expectClean(gpu, 'seed', 0, seeded))

  test.each([
    ['operands without a proxy fence', 'multiply', 1, /an operand of tcgen05\.mma reads shared memory/],
    [
      'ld without fence::after_thread_sync',
      'multiply',
      2,
      /tcgen05\.ld reads Tensor Memory column 0.* behind the wait for its commit/,
    ],
    [
      'arrive without fence::before_thread_sync',
      'multiply',
      4,
      /tcgen05\.mma overwrites Tensor Memory column 0, which warp \d .* loaded.*that warp needs tcgen05\.fence::before_thread_sync/,
    ],
    [
      'mma without fence::after_thread_sync',
      'multiply',
      5,
      /tcgen05\.mma overwrites .*this thread needs tcgen05\.fence::after_thread_sync/,
    ],
    ['arrive before wait::ld', 'multiply', 6, /tcgen05\.mma overwrites Tensor Memory column 0/],
    ['init without its fence', 'multiply', 8, /this tcgen05\.commit will signal mbarrier/],
    ['st without wait::st', 'seed', 1, /tcgen05\.mma .*which warp \d .* stored.*that warp needs tcgen05\.wait::st/],
    ['st without fence::before_thread_sync', 'seed', 2, /stored.*that warp needs tcgen05\.fence::before_thread_sync/],
    [
      'mma on st without fence::after_thread_sync',
      'seed',
      3,
      /stored.*this thread needs tcgen05\.fence::after_thread_sync/,
    ],
    [
      'st for another warp without wait::st',
      'exchange',
      1,
      /tcgen05\.ld reads .*which warp \d .* stored, and nothing.*tcgen05\.wait::st/,
    ],
    ['st for another warp without fence::before', 'exchange', 2, /tcgen05\.ld reads .* stored, and no fence/],
    [
      "ld of another warp's st without fence::after",
      'exchange',
      3,
      /tcgen05\.ld reads .* this thread needs tcgen05\.fence::after/,
    ],
    [
      'arrive before wait::ld, then st',
      'exchange',
      4,
      /tcgen05\.st overwrites .*which warp \d .* loaded, and nothing orders the two/,
    ],
  ] as const)('reported: %s', (_, kernel, bug, text) =>
    expectRace(
      text,
      gpu,
      kernel,
      bug,
      kernel === 'seed' ? seeded : kernel === 'exchange' ? { block: [256, 1, 1] } : launch,
    ),
  )
})

describe('generic accesses of two threads', () => {
  const gpu = new TestDevice(compileToPtx(raceSource))
  const launchOf = (kernel: string): Partial<NativeLaunch> =>
    kernel === 'pair'
      ? { grid: [2, 1, 1], block: [32, 1, 1] }
      : { grid: kernel === 'remote' ? [2, 1, 1] : [1, 1, 1], block: [64, 1, 1] }

  test.each(['cta', 'warp', 'rounds', 'named', 'ring', 'copied', 'flag', 'count', 'pair', 'remote'])(
    'clean: %s',
    (kernel) => expectClean(gpu, kernel, 0, launchOf(kernel)),
  )
  test('clean: a relaxed arrival behind a fence', () => expectClean(gpu, 'pair', 3, launchOf('pair')))
  // Which of the two accesses is reported depends on who runs first.
  test.each([
    ['cta', 1, /load of shared memory at 0x\w+ that warp 1 .* stored, with nothing between that orders the two/],
    ['warp', 1, /that lane \d+ of warp \d .* stored.*__syncwarp/],
    ['warp', 2, /that lane \d+ of warp \d .* stored.*__syncwarp/],
    ['rounds', 1, /store over shared memory at 0x\w+ that warp \d .* loaded/],
    ['named', 1, /shared memory at 0x\w+ that warp \d .* (stored|loaded)/],
    ['ring', 1, /load of shared memory at 0x\w+ that warp 0/],
    ['copied', 1, /load of shared memory at 0x\w+ that warp 0/],
    ['flag', 1, /shared memory at 0x\w+ that warp \d .* (stored|loaded)/],
    ['count', 1, /shared memory at 0x\w+ that .*warp \d .* (stored|loaded)/],
    ['pair', 1, /that CTA rank \d warp 0/],
    ['pair', 2, /that CTA rank \d warp 0/],
    [
      'remote',
      1,
      /this arrives on mbarrier 0x\w+, with no fence\.mbarrier_init\.release\.cluster behind the mbarrier.init by CTA rank \d warp 0/,
    ],
  ])('reported: %s %i', async (kernel, bug, text) => {
    const results = await everyOrder(gpu, kernel, bug, launchOf(kernel))
    const races = results.flatMap(({ findings }) => findings.filter(({ code }) => code === 'KTL5019'))
    expect(races.map(({ message }) => message).join('\n')).toMatch(text)
  })
  test('an mbarrier.init behind which a relaxed arrival alone lacks its fence is a remark', async () => {
    for (const { findings } of await everyOrder(gpu, 'remote', 1, launchOf('remote')))
      // Of the arrival of the peer, and of the threads that wait.
      expect(findings.map(({ code, fatal, remark, count }) => [code, fatal, remark, count])).toEqual(
        [1, 2].map(() => ['KTL5019', false, true, 1]),
      )
  })
})
