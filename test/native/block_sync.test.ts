import { describe, expect, test } from 'vitest'
import { TestDevice, compileToPtx } from './device.ts'
import { ORDERS } from './prelude.ts'

// Barriers without .aligned: lanes of a warp that drift apart arrive and go on at their own times.

const source = String.raw`
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void sums(int* out, int rounds) {
  __shared__ int x[2][96]; int i = threadIdx.x, sum = 0;
  auto block = cg::this_thread_block();
  for (int k = 0; k < rounds; k++) {
    x[k % 2][i] = i * k; block.sync();
    if (i % 3 == k % 3) sum += x[k % 2][95 - i]; else sum += 2 * x[k % 2][(i + 7 * k) % 96];
  }
  out[blockIdx.x * 96 + i] = sum;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster(int* out, int rounds) {
  __shared__ int x; int i = threadIdx.x, sum = 0;
  auto cluster = cg::this_cluster(); int rank = cluster.block_rank(); int* other = cluster.map_shared_rank(&x, rank ^ 1);
  for (int k = 0; k < rounds; k++) {
    if (i == k % 64) x = rank + 10 * k;
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    sum += *other;
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
  }
  out[rank * 64 + i] = sum;
}
extern "C" __global__ void counted(int* out, int rounds) {
  int i = threadIdx.x, sum = 0;
  for (int k = 0; k < rounds; k++) {
    int n;
    asm volatile("{.reg .pred p; setp.eq.s32 p, %1, 0; barrier.red.popc.u32 %0, 0, p;}" : "=r"(n) : "r"((i + k) % 4) : "memory");
    sum += n * k;
  }
  out[i] = sum;
}
// Lanes that have exited, some of them late, are not waited for.
extern "C" __global__ void leavers(int* out, int mode) {
  __shared__ int x[80]; int i = threadIdx.x; x[i] = i + 1;
  if (i % 7 == 3) { for (int k = 0; k < i; k++) __nanosleep(20); return; }
  int n = 69;
  if (mode == 0) asm volatile("barrier.sync 0;" ::: "memory");
  if (mode == 1) asm volatile("barrier.sync 0, 96;" ::: "memory");
  if (mode == 2) asm volatile("bar.sync 0;" ::: "memory");
  if (mode == 3) asm volatile("{.reg .pred p; setp.ge.s32 p, %1, 0; barrier.red.popc.u32 %0, 0, p;}" : "=r"(n) : "r"(i) : "memory");
  if (mode == 4) { if (i % 2) asm volatile("barrier.sync 0;" ::: "memory"); else asm volatile("barrier.sync 0;" ::: "memory"); }
  out[i] = x[79 - i] * n;
}
`
const gpu = new TestDevice(compileToPtx(source))
// A loop so short that lanes come back to the barrier before those that they left there have gone on.
const loop = new TestDevice(`.version 9.0
.target sm_100a
.address_size 64
.visible .entry loop(.param .u64 out, .param .u32 rounds) {
.reg .b64 %rd<2>; .reg .b32 %r<4>; .reg .pred %p<2>;
ld.param.u32 %r0, [rounds];
mov.u32 %r1, 0;
L: barrier.sync 0;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p0, %r1, %r0;
@%p0 bra L;
mov.u32 %r2, %tid.x;
ld.param.u64 %rd0, [out];
mad.wide.u32 %rd0, %r2, 4, %rd0;
st.global.u32 [%rd0], %r1;
ret;
}`)
const ROUNDS = 24
const rounds = Array.from({ length: ROUNDS }, (_, k) => k)
const total = (f: (k: number) => number) => rounds.reduce((sum, k) => sum + f(k), 0)

test.each(
  ['barrier.sync', 'with a count', 'bar.sync', 'barrier.red', 'in two branches'].map(
    (how, mode) => [how, mode] as const,
  ),
)('lanes of warps leave before a barrier: %s', async (_, mode) => {
  for (const order of ORDERS) {
    const out = gpu.allocate(4 * 80)
    const { findings } = await gpu.run('leavers', [out, mode], { ...order, checks: 'full', block: [80, 1, 1] })
    expect(findings).toEqual([])
    // As an H100 does: 11 of 80 have left.
    expect([...gpu.read(out, 80, Int32Array)]).toEqual(
      Array.from({ length: 80 }, (_, i) => (i % 7 === 3 ? 0 : (80 - i) * 69)),
    )
  }
})

describe.each(Array.from({ length: 12 }, (_, seed) => [seed + 1] as const))('random order, seed %i', (seed) => {
  const launch = { order: 'random', seed, checks: 'full' } as const
  test('block.sync()', async () => {
    const out = gpu.allocate(4 * 96)
    const { findings } = await gpu.run('sums', [out, ROUNDS], { ...launch, block: [96, 1, 1] })
    expect(findings).toEqual([])
    const value = (i: number, k: number) => (i % 3 === k % 3 ? (95 - i) * k : 2 * ((i + 7 * k) % 96) * k)
    expect([...gpu.read(out, 96, Int32Array)]).toEqual(Array.from({ length: 96 }, (_, i) => total((k) => value(i, k))))
  })
  test('a short loop', async () => {
    const out = loop.allocate(4 * 64)
    const { findings } = await loop.run('loop', [out, 300], { ...launch, block: [64, 1, 1] })
    expect(findings).toEqual([])
    expect(new Set(loop.read(out, 64, Uint32Array))).toEqual(new Set([300]))
  })
  test('barrier.cluster', async () => {
    const out = gpu.allocate(4 * 128)
    const shape = { grid: [2, 1, 1], cluster: [2, 1, 1], block: [64, 1, 1] } as const
    const { findings } = await gpu.run('cluster', [out, ROUNDS], { ...launch, ...shape })
    expect(findings).toEqual([])
    const sums = [0, 1].map((rank) => total((k) => (rank ^ 1) + 10 * k))
    expect([...gpu.read(out, 128, Int32Array)]).toEqual(Array.from({ length: 128 }, (_, i) => sums[i >> 6]))
  })
  test('barrier.red', async () => {
    const out = gpu.allocate(4 * 64)
    const { findings } = await gpu.run('counted', [out, ROUNDS], { ...launch, block: [64, 1, 1] })
    expect(findings).toEqual([])
    expect(new Set(gpu.read(out, 64, Int32Array))).toEqual(new Set([total((k) => 16 * k)]))
  })
})
