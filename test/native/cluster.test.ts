import { expect, test } from 'vitest'
import type { NativeLaunch } from '../../runtime/addon/virtual.ts'
import { TestDevice, compileToPtx } from './device.ts'
import { ORDERS, describeOrder, encodeTensorMap, prelude } from './prelude.ts'

// What the CTAs of a cluster do to each other: addresses, shared memory, mbarriers, copies, launch control.

const source =
  prelude +
  String.raw`
DEV u32 mapa(u32 a, u32 rank) { u32 r; asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank)); return r; }
DEV u64 mapaGeneric(const void* a, u32 rank) { u64 r; asm("mapa.u64 %0, %1, %2;" : "=l"(r) : "l"(a), "r"(rank)); return r; }
DEV void waitCluster(u32 b, int parity) {
  asm volatile("{\n.reg .pred P;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P, [%0], %1, 1000;\n@P bra DONE;\nbra AGAIN;\nDONE:\n}"
  :: "r"(b), "r"(parity) : "memory"); }
#define SPECIAL(name, i) { u32 r; asm volatile("mov.u32 %0, %" name ";" : "=r"(r)); out[i] = r; }
extern "C" __global__ void ids(u32* o) {
  u32* out = o + (blockIdx.z * gridDim.y * gridDim.x + blockIdx.y * gridDim.x + blockIdx.x) * 16;
  SPECIAL("%clusterid.x", 0) SPECIAL("%clusterid.y", 1) SPECIAL("%nclusterid.x", 2) SPECIAL("%nclusterid.y", 3) SPECIAL("%cluster_ctaid.x", 4)
    SPECIAL("%cluster_ctaid.y", 5)
  SPECIAL("%cluster_nctaid.x", 6) SPECIAL("%cluster_nctaid.y", 7) SPECIAL("%cluster_ctarank", 8) SPECIAL("%cluster_nctarank", 9) SPECIAL("%nclusterid.z", 10)
  u32 p; asm volatile("{.reg .pred q; mov.pred q, %%is_explicit_cluster; selp.u32 %0, 1, 0, q;}" : "=r"(p)); out[11] = p;
}
extern "C" __global__ void addresses(u32* out) {
  __shared__ int x; u32 own = smem(&x), r = rankOf(), other = mapa(own, r ^ 1), rank, a, b, c;
  asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(other));
  asm("{.reg .pred p; isspacep.shared::cta p, %1; selp.u32 %0, 1, 0, p;}" : "=r"(a) : "l"(mapaGeneric(&x, r ^ 1)));
  asm("{.reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p;}" : "=r"(b) : "l"(mapaGeneric(&x, r ^ 1)));
  asm("{.reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 0, p;}" : "=r"(c) : "l"(out));
  u32 v[6] = {own >> 24, other >> 24, (own ^ other) & 0xffffff, rank, a | b << 1 | c << 2, (u32)(mapaGeneric(&x, r ^ 1) == (mapaGeneric(&x, r) ^ 1 << 24))};
  for (int i = 0; i < 6; i++) out[r * 6 + i] = v[i];
}
extern "C" __global__ void remote(u32* out) {  // every way to touch the next CTA's memory
  __shared__ __align__(16) u32 x[32]; u32 r = rankOf(), n, t = threadIdx.x; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  x[t] = 0; clusterSync();
  u32 next = mapa(smem(x), (r + 1) % n); u32* generic = (u32*)mapaGeneric(x, (r + 1) % n);
  if (t == 0) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(next), "r"(100 + r) : "memory");
    asm volatile("st.shared::cluster.v2.u32 [%0], {%1, %2};" :: "r"(next + 8), "r"(200 + r), "r"(300 + r) : "memory");
    asm volatile("st.shared::cluster.u8 [%0], %1;" :: "r"(next + 17), "r"(7 + r) : "memory");
    generic[5] = 400 + r;
    asm volatile("red.relaxed.cluster.shared::cluster.max.u32 [%0], %1;" :: "r"(next + 24), "r"(9 + r) : "memory");
  }
  u32 old; asm volatile("atom.relaxed.cluster.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(old) : "r"(next + 28), "r"(t) : "memory");
  atomicOr(generic + 8, 1u << t);
  for (u32 k = 0; k < n; k++) asm volatile("red.shared::cluster.add.u32 [%0], %1;" :: "r"(mapa(smem(x + 9), k)), "r"(1) : "memory");
  clusterSync();
  u32 back; asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(back) : "r"(next));
  if (t == 10) x[10] = back; if (t == 11) x[11] = old < 32 * 31 / 2;
  __syncwarp(); out[r * 32 + t] = x[t]; clusterSync();
}
extern "C" __global__ void signals(u32* out) {  // remote arrivals and transactions, st.async, red.async, copies between CTAs
  __shared__ __align__(16) u32 x[64]; __shared__ __align__(8) u64 bar[2]; u32 r = rankOf(), peer = r ^ 1, t = threadIdx.x;
  for (int i = t; i < 64; i += 32) x[i] = i < 32 ? r * 1000 + i : i * 2;
  if (t == 0) { init(smem(bar), 3); init(smem(bar + 1), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  proxyFence(); clusterSync();
  u32 b = mapa(smem(bar), peer), b1 = mapa(smem(bar + 1), peer), to = mapa(smem(x), peer);
  if (t == 0) {
    expect(smem(bar + 1), 4 + 16 + 64 + 4 + 8 + 16);
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" :: "r"(to), "r"(77 + r), "r"(b1) : "memory");
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %1, %2, %2}, [%3];"
      :: "r"(to + 16), "r"(r + 5), "r"(r + 6), "r"(b1) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];" :: "r"(to + 48), "r"(smem(x + 32)), "r"(b1)
      : "memory");
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" :: "r"(to + 4), "r"(500), "r"(b1) : "memory");
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%0], %1, [%2];" :: "r"(to + 8), "l"(1ull << 32), "r"(b1)
      : "memory");
    asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.max.s32 [%0], [%1], 16, [%2];"
      :: "r"(to + 32), "r"(smem(x + 40)), "r"(b1) : "memory");
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(b) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], 64;" :: "r"(b) : "memory");
    asm volatile("mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%0], 16;" :: "r"(b) : "memory");
    asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 80;" :: "r"(b) : "memory");
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0], 1;" :: "r"(b) : "memory");
  }
  waitCluster(smem(bar), 0); waitCluster(smem(bar + 1), 0);
  for (int i = t; i < 64; i += 32) out[r * 64 + i] = x[i];
  clusterSync();
}
extern "C" __global__ void phases(u32* out, int mode) {  // relaxed and split cluster barriers; CTAs that leave early count as arrived
  __shared__ u32 x; u32 r = rankOf(); if (threadIdx.x == 0) x = r;
  if (mode == 1 && r == 3) return;
  for (int i = 0; i < 5; i++) {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory"); u32 work = r * i; asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    if (threadIdx.x == 0) asm volatile("red.shared::cluster.add.u32 [%0], %1;" :: "r"(mapa(smem(&x), (r + 1) % 3)), "r"(work) : "memory");
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  }
  if (threadIdx.x == 0) out[r] = x;
}
extern "C" __global__ void twice(u32* out) { asm volatile("barrier.cluster.arrive;\nbarrier.cluster.arrive;"); out[0] = 1; }
extern "C" __global__ void slices(float* out, const __grid_constant__ CUtensorMap map, int pair) {  // each CTA loads a quarter of the tile for all four
  __shared__ __align__(1024) float tile[4][256]; __shared__ __align__(8) u64 bar; u32 r = rankOf(); int t = threadIdx.x;
  if (t == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  clusterSync();
  if (t == 0) { if (!pair) expect(smem(&bar), 4096); else if (r % 2 == 0) expect(smem(&bar), 8192); }
  if (t == 0 && !pair) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {0, %2}], [%3], %4, %5;" :: "r"(smem(tile[r])), "l"(&map), "r"(r * 8), "r"(smem(&bar)), "h"((short)15), "l"(0x1000000000000000ull) : "memory");
  if (t == 0 && pair) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%0], [%1, {0, %2}], [%3], %4;" :: "r"(smem(tile[r])), "l"(&map), "r"(r * 8), "r"(smem(&bar) & 0xfeffffff), "h"((short)15) : "memory");
  if (!pair || r % 2 == 0) wait(smem(&bar), 0);
  clusterSync();
  for (int i = t; i < 1024; i += 32) out[r * 1024 + i] = tile[i / 256][i % 256];
  clusterSync();
}
extern "C" __global__ void bulk_multicast(u32* out, const u32* in, int mask) {
  __shared__ __align__(16) u32 x[64]; __shared__ __align__(8) u64 bar; u32 r = rankOf(); int t = threadIdx.x;
  x[t] = x[t + 32] = 0; if (t == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  proxyFence(); clusterSync();
  if (mask >> r & 1) if (t == 0) expect(smem(&bar), 256);
  if (t == 0 && r == 0) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"
    :: "r"(smem(x)), "l"(in), "r"(smem(&bar)), "h"((short)mask) : "memory");
  if (mask >> r & 1) wait(smem(&bar), 0);
  out[r * 64 + t] = x[t]; out[r * 64 + 32 + t] = x[t + 32]; clusterSync();
}
extern "C" __global__ void steal(u32* out) {  // cluster launch control, one answer for both CTAs
  __shared__ __align__(16) uint4 answer; __shared__ __align__(8) u64 bar; u32 r = rankOf(), x = blockIdx.x, y = blockIdx.y, phase = 0;
  if (threadIdx.x == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  clusterSync();
  for (;;) {
    if (threadIdx.x == 0) {
      atomicAdd(out + y * 8 + x, 1); expect(smem(&bar), 16);
      asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;");
      if (r == 0) asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];"
        :: "r"(smem(&answer)), "r"(smem(&bar)) : "memory");
    } else asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;");
    __syncwarp(); wait(smem(&bar), phase); phase ^= 1;
    u32 ok, nx, ny, nz;
    asm volatile("{.reg .b128 q; .reg .pred p; .reg .b32 w; ld.shared.b128 q, [%4]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, q; selp.u32 %0, 1, 0, p; clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, %3, w}, q;}" : "=r"(ok), "=r"(nx), "=r"(ny), "=r"(nz) : "r"(smem(&answer)) : "memory");
    proxyFence(); clusterSync();
    if (!ok) break;
    x = nx + r; y = ny;
  }
}
extern "C" __global__ void bad(u32* out, int mode) {
  __shared__ __align__(16) u32 x[4]; __shared__ __align__(8) u64 bar; u32 r = rankOf(); x[0] = r; if (threadIdx.x == 0) init(smem(&bar), 1); clusterSync();
  u32 v = 0;
  if (mode == 0) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(mapa(smem(x), 5)));
  if (mode == 1 && r == 0) asm volatile("ld.shared::cta.u32 %0, [%1];" : "=r"(v) : "r"(mapa(smem(x), 1)));
  if (mode == 2) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(mapa(smem(x), r ^ 1) + 0x100000));
  if (mode == 3 && r == 1) { asm volatile("nanosleep.u32 100;"); for (int i = 0; i < 2000; i++) asm volatile("nanosleep.u32 100;");
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(mapa(smem(x), 0)), "r"(1) : "memory"); }
  if (mode == 4 && r == 1) asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0], 2;" :: "r"(mapa(smem(&bar), 0)) : "memory");
  if (mode == 5 && r == 1 && threadIdx.x == 0) asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(mapa(smem(x), 0)) : "memory");
  out[r] = v;
}
`
const gpu = new TestDevice(compileToPtx(source, 'sm_100a', ['-w']))
const orders = ORDERS.map((o) => [describeOrder(o), o] as const)
const range = (n: number) => Array.from({ length: n }, (_, i) => i)
const clusterOf = (n: number): Partial<NativeLaunch> => ({ grid: [n, 1, 1], cluster: [n, 1, 1] })

test('cluster registers', async () => {
  const out = gpu.allocate(8 * 6 * 2 * 64)
  expect((await gpu.run('ids', [out], { grid: [8, 6, 2], cluster: [4, 2, 1] })).findings).toEqual([])
  const got = gpu.read(out, 8 * 6 * 2 * 16, Uint32Array)
  for (const i of range(96)) {
    const [x, y] = [i % 8, Math.floor(i / 8) % 6]
    const expected = [x >> 2, y >> 1, 2, 3, x % 4, y % 2, 4, 2, (x % 4) + 4 * (y % 2), 8, 2, 1]
    expect([...got.slice(i * 16, i * 16 + 12)]).toEqual(expected)
  }
})

test('addresses of other CTAs', async () => {
  const out = gpu.allocate(48)
  expect((await gpu.run('addresses', [out], clusterOf(2))).findings).toEqual([])
  expect([...gpu.read(out, 12, Uint32Array)]).toEqual([0, 1, 0, 1, 0b110, 1, 1, 0, 0, 0, 0b110, 1])
})

test.each(orders)('remote loads, stores and atomics, %s', async (_, order) => {
  for (const n of [2, 4, 8]) {
    const out = gpu.allocate(n * 128)
    expect((await gpu.run('remote', [out], { ...clusterOf(n), ...order })).findings).toEqual([])
    const got = gpu.read(out, n * 32, Uint32Array)
    for (const r of range(n)) {
      const from = (r + n - 1) % n
      const expected = [
        100 + from,
        0,
        200 + from,
        300 + from,
        (7 + from) << 8,
        400 + from,
        9 + from,
        (31 * 32) / 2,
        0xffffffff,
        32 * n,
        100 + r,
        1,
      ]
      expect([n, r, ...got.slice(r * 32, r * 32 + 12)]).toEqual([n, r, ...expected])
    }
  }
})

test.each(orders)('remote arrivals and transactions, %s', async (_, order) => {
  const out = gpu.allocate(512)
  expect((await gpu.run('signals', [out], { ...clusterOf(2), ...order })).findings).toEqual([])
  const got = gpu.read(out, 128, Uint32Array)
  for (const r of [0, 1]) {
    const own = (i: number) => r * 1000 + i
    const peer = r ^ 1
    const expected = range(64).map((i) => {
      if (i === 0) return 77 + peer
      if (i === 1) return own(1) + 500
      if (i === 3) return own(3) + 1
      if (i >= 4 && i < 8) return peer + (i < 6 ? 5 : 6)
      if (i >= 8 && i < 12) return Math.max(own(i), (i + 32) * 2)
      if (i >= 12 && i < 28) return (i + 20) * 2
      return i < 32 ? own(i) : i * 2
    })
    expect([...got.slice(r * 64, r * 64 + 64)]).toEqual(expected)
  }
})

test('cluster barriers: split, relaxed, and with a CTA that has left', async () => {
  for (const mode of [0, 1]) {
    const out = gpu.allocate(16)
    expect((await gpu.run('phases', [out, mode], { ...clusterOf(4), block: [64, 1, 1] })).findings).toEqual([])
    const sums = [0, 1, 2, 3].map((r) => 10 * r)
    const got = [...gpu.read(out, 3, Uint32Array)]
    // CTAs 2 and (unless it left) ... send to (rank + 1) % 3.
    expect(got).toEqual([0 + sums[2]!, 1 + sums[0]! + (mode ? 0 : sums[3]!), 2 + sums[1]!])
  }
})

test.each(orders)('sliced multicast loads, also to the barriers of pair leaders, %s', async (_, order) => {
  const data = Float32Array.from({ length: 1024 }, (_, i) => i)
  const map = encodeTensorMap({ type: 'f32', address: gpu.upload(data), dims: [32, 32], box: [32, 8] })
  for (const pair of [0, 1]) {
    const out = gpu.allocate(4 * 4096)
    expect((await gpu.run('slices', [out, map, pair], { ...clusterOf(4), ...order })).findings).toEqual([])
    expect([...gpu.read(out, 4096, Float32Array)]).toEqual(range(4096).map((i) => i % 1024))
  }
})

test('bulk multicast to some CTAs', async () => {
  const input = gpu.upload(Uint32Array.from(range(64), (i) => i + 1))
  const out = gpu.allocate(1024)
  expect((await gpu.run('bulk_multicast', [out, input, 0b1010], clusterOf(4))).findings).toEqual([])
  expect([...gpu.read(out, 256, Uint32Array)]).toEqual(range(256).map((i) => ((i >> 6) % 2 ? (i % 64) + 1 : 0)))
})

test.each(orders)('cluster launch control for pairs of CTAs, %s', async (_, order) => {
  const out = gpu.allocate(8 * 30 * 4)
  const result = await gpu.run('steal', [out], { grid: [8, 30, 1], cluster: [2, 1, 1], ...order })
  expect(result.findings).toEqual([])
  expect(new Set(gpu.read(out, 240, Uint32Array))).toEqual(new Set([1]))
  expect(result.stats.ctas).toBe(240)
})

const BAD: [string, string, number, string, RegExp][] = [
  ['a rank that the cluster does not have', 'bad', 0, 'KTL5002', /rank 5 of a cluster of 2/],
  ['another CTA through shared::cta', 'bad', 1, 'KTL5002', /carries CTA rank 1/],
  ['a remote address behind the window', 'bad', 2, 'KTL5002', /end behind/],
  ['a store to a CTA that has exited', 'bad', 3, 'KTL5002', /has exited/],
  ['a remote over-arrival', 'bad', 4, 'KTL5006', /over-arrival/],
  ['an arrival where no mbarrier is', 'bad', 5, 'KTL5006', /no mbarrier/],
  ['two arrivals without a wait', 'twice', 0, 'KTL5006', /twice/],
]
test.each(BAD)('finding: %s', async (_, name, mode, code, message) => {
  const params = name === 'bad' ? [gpu.allocate(8), mode] : [gpu.allocate(8)]
  const { findings } = await gpu.run(name, params, clusterOf(2))
  expect(findings.map((f) => f.code)).toContain(code)
  expect(findings.find((f) => f.code === code)!.message).toMatch(message)
})
