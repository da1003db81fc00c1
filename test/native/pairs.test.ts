import { expect, test } from 'vitest'
import type { NativeLaunch } from '../../runtime/addon/virtual.ts'
import { TestDevice, compileToPtx, differences } from './device.ts'
import { tmemPrelude } from './layouts.ts'
import { ORDERS, describeOrder, encodeTensorMap, prelude } from './prelude.ts'

// CTA pairs in clusters of up to 8: where multicast copies and commits signal, and a whole 2-CTA matrix product with the
// ways in which its hand-shakes go wrong.

const STAGES = 3
const source = String.raw`${prelude}${tmemPrelude}
DEV u32 mapa(u32 a, u32 rank) { u32 r; asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank)); return r; }
DEV void waitCluster(u32 b, int parity) {
  asm volatile("{\n.reg .pred P;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P, [%0], %1;\n@P bra DONE;\nbra AGAIN;\nDONE:\n}"
  :: "r"(b), "r"(parity) : "memory"); }
DEV void commit2(u32 b, u32 mask) { asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
  :: "r"(b), "h"((short)mask) : "memory"); }
DEV void multicast2(u32 to, const void* map, int x, int y, u32 b, u32 mask) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%0], [%1, {%2, %3}], [%4], %5;"
  :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(b), "h"((short)mask) : "memory"); }
// Every CTA sends its slice to the CTAs of its mask; the signals go to the CTAs of one parity.
extern "C" __global__ void slices(float* out, const __grid_constant__ CUtensorMap map, const u32* masks, const u32* bytes, u32 parity) {
  __shared__ __align__(1024) float tile[8][64]; __shared__ __align__(8) u64 bar; u32 r = rankOf(), n; int t = threadIdx.x;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  for (int i = t; i < 512; i += 32) tile[i / 64][i % 64] = -1;
  if (t == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  proxyFence(); clusterSync();
  if (t == 0 && bytes[r]) expect(smem(&bar), bytes[r]);
  if (t == 0) multicast2(smem(tile[r]), &map, 0, r * 2, mapa(smem(&bar), (r & ~1u) | parity), masks[r]);
  if (bytes[r]) wait(smem(&bar), 0);
  clusterSync();
  for (int i = t; i < 512; i += 32) out[r * 512 + i] = tile[i / 64][i % 64];
  clusterSync();
}
extern "C" __global__ void commits(const u32* masks, const u32* arrivals, u32* out) {  // leaders commit to the CTAs of their masks
  __shared__ __align__(8) u64 bar; u32 r = rankOf();
  if (threadIdx.x == 0) { init(smem(&bar), arrivals[r] ? arrivals[r] : 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  clusterSync();
  if (threadIdx.x == 0 && masks[r]) commit2(smem(&bar), masks[r]);
  if (arrivals[r]) wait(smem(&bar), 0);
  if (threadIdx.x == 0) out[r] = arrivals[r];
  clusterSync();
}
// D[256 x 64] = A B^T for each pair, k in steps of 64 bf16. In a cluster of 4 both pairs have the same B: each CTA loads half
// of its part and multicasts it to the CTA of its parity in the other pair.
enum { kPeerBytes = 1, kEarlyExit, kEarlyFree, kFreeUnderMma, kFreeUnallocated, kLatePeer, kAlone };
extern "C" __global__ void __launch_bounds__(192) product(float* D, const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap B, int steps,
  int bug) {
  extern __shared__ __align__(1024) uint8_t memory[]; __shared__ __align__(8) u64 full[${STAGES}], empty[${STAGES}], done, released; __shared__ u32 column;
  const u32 r = rankOf(), t = threadIdx.x, warp = t / 32, leader = r & ~1u, base = (smem(memory) + 1023) & ~1023u; u32 n;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  const u32 pairs = n / 2, stageBytes = 16384 + 4096;  // 128 rows of A, 32 of B
  if (t == 0) {
    for (int i = 0; i < ${STAGES}; i++) { init(smem(full + i), bug == kPeerBytes ? 1 : 2); init(smem(empty + i), pairs); }
    init(smem(&done), 1); init(smem(&released), 1); asm volatile("fence.mbarrier_init.release.cluster;");
  }
  clusterSync();
  if (bug == kFreeUnallocated && r == leader) for (int i = 0; i < 4000; i++) asm volatile("nanosleep.u32 20;");
  // The leader multiplies as soon as its own alloc has returned: that waits for the peer's.
  if (bug == kLatePeer && r & 1 && warp == 0) for (int i = 0; i < 4000; i++) asm volatile("nanosleep.u32 20;");
  if (warp == 0 && !(bug == kAlone && r & 1)) asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 64;" :: "r"(smem(&column)));
  if (bug == kFreeUnallocated && r & 1 && warp == 0) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" :: "r"(column));
  asm volatile("tcgen05.fence::before_thread_sync;");
  if (bug != kLatePeer) clusterSync(); else if (warp != 4) asm volatile("bar.sync 1, 160;" ::: "memory");
  asm volatile("tcgen05.fence::after_thread_sync;");
  const u32 tm = column;
  if (bug == kFreeUnderMma && r & 1 && warp == 0) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" :: "r"(tm));
  if (warp == 4 && elected()) {
    for (int k = 0; k < steps; k++) {
      const int s = k % ${STAGES}; const u32 a = base + s * stageBytes, bar = smem(full + s) & 0xfeffffff;
      wait(smem(empty + s), ((k / ${STAGES}) & 1) ^ 1);
      if (r == leader || bug != kPeerBytes) asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;"
        :: "r"(mapa(smem(full + s), leader)), "r"(stageBytes) : "memory");
      load2pair(a, &A, k * 64, blockIdx.x * 128, bar);
      if (pairs == 1) load2pair(a + 16384, &B, k * 64, (r & 1) * 32, bar);
      else multicast2(a + 16384 + (r >> 1) * 2048, &B, k * 64, (r & 1) * 32 + (r >> 1) * 16, bar, 5u << (r & 1));
    }
  } else if (warp == 5 && r == leader && elected()) {
    const u32 idesc = 1 << 4 | 1 << 7 | 1 << 10 | (64 >> 3) << 17 | (256 >> 4) << 24;
    for (int k = 0; k < steps; k++) {
      const int s = k % ${STAGES}; const u32 a = base + s * stageBytes;
      waitCluster(smem(full + s), (k / ${STAGES}) & 1);
      asm volatile("tcgen05.fence::after_thread_sync;");
      for (int i = 0; i < 4; i++)
        asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;}"
          :: "r"(tm), "l"(descriptor(a + i * 32)), "l"(descriptor(a + 16384 + i * 32)), "r"(idesc), "r"(k + i) : "memory");
      commit2(smem(empty + s), (1u << n) - 1);
    }
    commit2(smem(&done), 3u << leader);
  }
  if (bug == kEarlyExit && (r & 1)) return;
  __syncwarp();
  if (warp < 4) {
    wait(smem(&done), 0); asm volatile("tcgen05.fence::after_thread_sync;");
    if (bug == kEarlyFree && r & 1) for (int i = 0; i < 4000; i++) asm volatile("nanosleep.u32 20;");
    for (int c = 0; c < 64; c += 8) {
      u32 v[8]; LD8(v, tm + (warp << 21) + c); asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
      for (int i = 0; i < 8; i++) D[(blockIdx.x * 128 + t) * 64 + c + i] = __uint_as_float(v[i]);
    }
    asm volatile("tcgen05.fence::before_thread_sync;");
  }
  // The buffers that the last steps freed: nobody leaves before the commits of all pairs have landed.
  if (warp == 4) for (int k = steps; k < steps + ${STAGES}; k++) wait(smem(empty + k % ${STAGES}), ((k / ${STAGES}) & 1) ^ 1);
  __syncthreads(); if (bug != kEarlyFree) clusterSync(); asm volatile("tcgen05.fence::after_thread_sync;");
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" :: "r"(tm));
  if (bug == kEarlyFree) clusterSync();
}
`
const gpu = new TestDevice(compileToPtx(source, 'sm_100a', ['-w']))
const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const clusterOf = (n: number): Partial<NativeLaunch> => ({ grid: [n, 1, 1], cluster: [n, 1, 1] })
const CHECKS = ['default', 'full'] as const
const RUNS = ORDERS.flatMap((o) => CHECKS.map((checks) => [describeOrder(o), checks, { ...o, checks }] as const))
const bits = (mask: number): number[] => range(8).filter((r) => (mask >> r) & 1)

/** One mask per CTA: of the own parity in all pairs, everybody, pairs, and irregular ones. */
const MASKS: readonly (readonly number[])[] = [
  range(4).map((r) => 0b0101 << (r & 1)),
  range(4).map(() => 0b1111),
  range(8).map((r) => 0b01010101 << (r & 1)),
  range(8).map((r) => 3 << (r & ~1)),
  [0x81, 0x3c, 0xff, 0x10, 0x42, 0x01, 0xe7, 0x18],
]

test.each(RUNS)(
  'multicast to pairs signals the CTA of the given parity in each pair: %s, checks %s',
  async (_, __, run) => {
    const data = Float32Array.from({ length: 512 }, (_, i) => i)
    const map = encodeTensorMap({ type: 'f32', address: gpu.upload(data), dims: [32, 16], box: [32, 2] })
    for (const masks of MASKS)
      for (const parity of [0, 1]) {
        const n = masks.length
        const bytes = new Uint32Array(n)
        masks.forEach((mask) => bits(mask).forEach((to) => (bytes[(to & ~1) | parity]! += 256)))
        const out = gpu.allocate(n * 2048)
        const params = [out, map, gpu.upload(Uint32Array.from(masks)), gpu.upload(bytes), parity]
        expect((await gpu.run('slices', params, { ...clusterOf(n), ...run })).findings).toEqual([])
        const expected = range(n).flatMap((to) =>
          range(8).flatMap((from) => range(64).map((i) => (((masks[from] ?? 0) >> to) & 1 ? from * 64 + i : -1))),
        )
        expect([...gpu.read(out, n * 512, Float32Array)]).toEqual(expected)
      }
  },
)

test('bytes expected by the destination, where the leader of its pair gets them, are a finding', async () => {
  const map = encodeTensorMap({ type: 'f32', address: gpu.allocate(2048), dims: [32, 16], box: [32, 2] })
  const masks = MASKS[0]!
  const own = masks.map(() => 512) // as without .cta_group::2
  const params = [gpu.allocate(8192), map, gpu.upload(Uint32Array.from(masks)), gpu.upload(Uint32Array.from(own)), 0]
  const { findings } = await gpu.run('slices', params, clusterOf(4))
  expect(findings.map(({ code }) => code)).toEqual(expect.arrayContaining(['KTL5007', 'KTL5005']))
})

test.each(RUNS)('commits of pairs arrive once at each CTA of their masks: %s, checks %s', async (_, __, run) => {
  for (const masks of [
    [3, 0],
    [3, 0, 12, 0],
    [15, 0, 15, 0],
    [10, 0, 6, 0],
    [0xff, 0, 0x0f, 0, 0xf0, 0, 0xa1, 0],
  ]) {
    const n = masks.length
    const arrivals = range(n).map((r) => masks.filter((mask) => (mask >> r) & 1).length)
    const out = gpu.allocate(n * 4)
    const params = [gpu.upload(Uint32Array.from(masks)), gpu.upload(Uint32Array.from(arrivals)), out]
    expect((await gpu.run('commits', params, { ...clusterOf(n), ...run })).findings).toEqual([])
    expect([...gpu.read(out, n, Uint32Array)]).toEqual(arrivals)
  }
})

// --- a whole product

const bf16 = (x: number): number => new Uint32Array(Float32Array.of(x).buffer)[0]! >>> 16
/** Operands of small integers and their product, by clusters and steps of k. */
function operands(cluster: number, steps: number) {
  const [m, n, k] = [cluster * 128, 64, steps * 64]
  const value = (i: number, by: number): number => ((Math.imul(i + 1, by) >>> 16) % 7) - 3
  const a = Float32Array.from({ length: m * k }, (_, i) => value(i, 0x9e3779b1))
  const b = Float32Array.from({ length: n * k }, (_, i) => value(i, 0x85ebca77))
  const d = Float32Array.from({ length: m * n }, (_, i) => {
    const [row, column] = [Math.floor(i / n) * k, (i % n) * k]
    let sum = 0
    for (let j = 0; j < k; ++j) sum += a[row + j]! * b[column + j]!
    return sum
  })
  return { m, n, k, a, b, d }
}
type Operands = ReturnType<typeof operands>

async function product({ m, n, k, a, b }: Operands, bug = 0, launch: Partial<NativeLaunch> = {}) {
  const cluster = m / 128
  const map = (values: Float32Array, rows: number, box: number): Uint8Array =>
    encodeTensorMap({
      type: 'bf16',
      address: gpu.upload(Uint16Array.from(values, bf16)),
      dims: [k, rows],
      box: [64, box],
      swizzle: '128B',
    })
  const out = gpu.allocate(m * n * 4)
  const params = [out, map(a, m, 128), map(b, n, cluster === 2 ? 32 : 16), k / 64, bug]
  const shape = { ...clusterOf(cluster), block: [192, 1, 1] as const, sharedMemBytes: STAGES * 20480 + 1024 }
  const result = await gpu.run('product', params, { ...shape, ...launch })
  return { ...result, codes: result.findings.map(({ code }) => code), d: gpu.read(out, m * n, Float32Array) }
}

const SHORT = operands(2, 4)
const PRODUCTS = [2, 4].flatMap((cluster) => [1, 5].map((steps) => operands(cluster, steps)))
test.each(RUNS)('product of pairs, alone and with B multicast between two: %s, checks %s', async (_, __, run) => {
  for (const given of PRODUCTS) {
    const { findings, d } = await product(given, 0, run)
    expect(findings).toEqual([])
    expect(differences(d, given.d)).toEqual([])
  }
})

// `bug` in the kernel; the commit, the copy or the load that comes too late depends on the order.
const HAZARDS: [string, number, Partial<NativeLaunch>, string, RegExp][] = [
  ['the peer expects no bytes', 1, { order: 'eager' }, 'KTL5007', /(20480|40960) more bytes were delivered than expected/],
  ['the peer expects no bytes', 1, { order: 'lazy' }, 'KTL5004', /uninitialised/],
  ['the peer exits before the last commits', 2, { order: 'lazy' }, 'KTL5023', /commit.*CTA of rank 1 has exited/],
  ['the peer exits before its last loads', 2, { order: 'random', seed: 2 }, 'KTL5023', /TMA load.*CTA of rank 1 has exited/],
  ['the leader deallocates while the peer reads', 3, { order: 'lazy' }, 'KTL5009', /rank 0 deallocated the Tensor Memory of the pair/],
  ['the peer deallocates while the leader multiplies', 4, { order: 'lazy' }, 'KTL5009', /allocated: none/],
  ['one deallocates what the other has not allocated', 5, { order: 'lazy' }, 'KTL5009', /before the CTA of rank 0 has allocated/],
] // prettier-ignore
test.each(HAZARDS.flatMap((h) => CHECKS.map((checks) => [...h, checks] as const)))(
  'hazard: %s (bug %i, %o, %s %s), checks %s',
  async (_, bug, order, code, message, checks) => {
    const { findings } = await product(SHORT, bug, { ...order, checks })
    expect(findings.map((f) => f.code)).toContain(code)
    expect(findings.find((f) => f.code === code)!.message).toMatch(message)
  },
)

test('what a CTA of a pair reads behind the dealloc of its peer is still there: a warning', async () => {
  for (const order of ORDERS) {
    const { findings, d } = await product(SHORT, 3, order)
    expect(findings.length).toBeGreaterThan(0)
    expect(findings.filter(({ code, fatal, remark }) => code !== 'KTL5009' || fatal || remark)).toEqual([])
    expect(differences(d, SHORT.d)).toEqual([])
  }
})

test.each(RUNS)('the alloc of a pair waits for the peer: %s, checks %s', async (_, __, run) => {
  const { findings, d } = await product(SHORT, 6, run)
  expect(findings).toEqual([])
  expect(differences(d, SHORT.d)).toEqual([])
})

test('an alloc of a pair that the peer never joins is a hang', async () => {
  const { codes, findings } = await product(SHORT, 7)
  expect(codes).toContain('KTL5005')
  expect(findings.flatMap(({ notes }) => notes).join('\n')).toMatch(
    /rank 0 warp 0 .* waits for the tcgen05\.alloc\.cta_group::2 of its peer CTA/,
  )
})

// --- modelled cycles

test('modelled cycles tell schedules apart', async () => {
  const cycles = async (given: Operands) => (await product(given, 0, { order: 'lazy' })).stats.modelledCycles
  const [one, five, oneOfBoth, both] = await Promise.all(PRODUCTS.map(cycles))
  // A step brings 20480 bytes to each CTA, at 64 bytes a cycle; the two steps that find no free stage wait for a load each.
  expect(five! - one!).toBeGreaterThan(4 * 320)
  expect(five! - one!).toBeLessThan(4 * 320 + 2 * 1500)
  // Sharing B costs both pairs nothing and saves reads.
  expect(both! - oneOfBoth!).toBeLessThan((five! - one!) * 1.1)
})
