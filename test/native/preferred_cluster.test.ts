import { expect, test } from 'vitest'
import type { NativeLaunch } from '../../runtime/addon/virtual.ts'
import { TestDevice, compileToPtx } from './device.ts'
import { ORDERS, describeOrder, prelude } from './prelude.ts'

// Launches whose grid mixes preferred and fallback clusters.

const source =
  prelude +
  String.raw`
DEV u32 mapa(u32 a, u32 rank) { u32 r; asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank)); return r; }
#define SPECIAL(name, i) { u32 r; asm volatile("mov.u32 %0, %" name ";" : "=r"(r)); out[i] = r; }
extern "C" __global__ void ids(u32* o) {  // registers, and CTAs counted through the memory of rank 0
  __shared__ u32 count; if (threadIdx.x == 0) count = 0; clusterSync();
  u32* out = o + (blockIdx.y * gridDim.x + blockIdx.x) * 10;
  if (threadIdx.x == 0) asm volatile("red.shared::cluster.add.u32 [%0], 1;" :: "r"(mapa(smem(&count), 0)) : "memory");
  clusterSync();
  u32 all; asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(all) : "r"(mapa(smem(&count), 0)));
  SPECIAL("%cluster_nctarank", 0) SPECIAL("%cluster_ctarank", 1) SPECIAL("%cluster_nctaid.x", 2) SPECIAL("%cluster_nctaid.y", 3) SPECIAL("%cluster_ctaid.x", 4)
  SPECIAL("%clusterid.x", 5) SPECIAL("%nclusterid.x", 6) SPECIAL("%nctaid.x", 7)
  u32 p; asm volatile("{.reg .pred q; mov.pred q, %%is_explicit_cluster; selp.u32 %0, 1, 0, q;}" : "=r"(p)); out[8] = p; out[9] = all;
  clusterSync();
}
extern "C" __global__ void steal(u32* out, u32* sizes) {  // the leader expects the answer's bytes for all CTAs, by remote arrivals
  __shared__ __align__(16) uint4 answer; __shared__ __align__(8) u64 bar; u32 r = rankOf(), x = blockIdx.x, phase = 0, n;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  if (threadIdx.x == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  clusterSync();
  for (;;) {
    if (threadIdx.x == 0) { atomicAdd(out + x, 1); atomicAdd(sizes + x, n); }
    if (threadIdx.x == 0 && r == 0) {
      for (u32 k = 0; k < n; k++) asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], 16;" :: "r"(mapa(smem(&bar), k))
        : "memory");
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];"
        :: "r"(smem(&answer)), "r"(smem(&bar)) : "memory");
    }
    __syncwarp(); wait(smem(&bar), phase); phase ^= 1;
    u32 ok, nx;
    asm volatile("{.reg .b128 q; .reg .pred p; ld.shared.b128 q, [%2]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, q; selp.u32 %0, 1, 0, p; clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, q;}" : "=r"(ok), "=r"(nx) : "r"(smem(&answer)) : "memory");
    proxyFence(); clusterSync();
    if (!ok) break;
    x = nx + r;
  }
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) fixed_cluster(u32* out) { out[0] = 1; }
`
const gpu = new TestDevice(compileToPtx(source, 'sm_100a', ['-w']))
const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const CHECKS = ['default', 'full'] as const

/** Sizes of the clusters that the CTAs of a row belong to; each CTA's registers must agree with its place. */
async function sizes(launch: Partial<NativeLaunch>, rows = 1): Promise<number[]> {
  const [width] = launch.grid!
  const out = gpu.allocate(width * rows * 40)
  const result = await gpu.run('ids', [out], launch)
  expect(result.findings).toEqual([])
  const got = range(width * rows).map((i) => [...gpu.read(out + BigInt(i * 40), 10, Uint32Array)])
  let clusters = 0
  got.forEach((registers, i) => {
    const [size, rank, nx, , cx, id, count, ctas, explicit, met] = registers
    const x = i % width
    clusters += 1 / size!
    expect([met, explicit, ctas, cx, id, count]).toEqual([size, 1, width, x % nx!, Math.floor(x / nx!), width / nx!])
    expect(rank).toBe(rows > 1 ? (x % nx!) + nx! * (Math.floor(i / width) % 2) : x % nx!)
  })
  expect(result.stats.clusters).toBeCloseTo(clusters, 6)
  expect(result.stats.ctas).toBe(width * rows)
  return got.map(([size]) => size!)
}

test('lazy runs every block as the preferred cluster, eager none', async () => {
  const shape = { grid: [16, 1, 1], cluster: [2, 1, 1], preferredCluster: [4, 1, 1] } as const
  expect(await sizes({ ...shape, order: 'lazy' })).toEqual(range(16).map(() => 4))
  expect(await sizes({ ...shape, order: 'eager' })).toEqual(range(16).map(() => 2))
  const single = { grid: [16, 1, 1], cluster: [1, 1, 1], preferredCluster: [8, 1, 1] } as const
  expect(await sizes({ ...single, order: 'eager' })).toEqual(range(16).map(() => 1))
  const plane = { grid: [4, 2, 1], cluster: [1, 2, 1], preferredCluster: [2, 2, 1] } as const
  expect(await sizes({ ...plane, order: 'lazy' }, 2)).toEqual(range(8).map(() => 4))
  expect(await sizes({ ...plane, order: 'eager' }, 2)).toEqual(range(8).map(() => 2))
})

test('random mixes both, by blocks, and repeats', async () => {
  const launch = (seed: number): Partial<NativeLaunch> => ({
    grid: [64, 1, 1],
    cluster: [2, 1, 1],
    preferredCluster: [4, 1, 1],
    order: 'random',
    seed,
  })
  const first = await sizes(launch(1))
  expect(new Set(first)).toEqual(new Set([2, 4]))
  for (let block = 0; block < 16; ++block) expect(new Set(first.slice(block * 4, block * 4 + 4)).size).toBe(1)
  expect(await sizes(launch(1))).toEqual(first)
  expect(await sizes(launch(2))).not.toEqual(first)
})

test.each(ORDERS.flatMap((o) => CHECKS.map((checks) => [describeOrder(o), checks, o] as const)))(
  'launch control cancels clusters of the own size: %s, checks %s',
  async (_, checks, order) => {
    for (const [cluster, preferred] of [
      [2, 4],
      [1, 2],
      [4, 8],
      [2, 0],
      [4, 0],
    ] as const)
      for (const seed of order.order === 'random' ? [order.seed!, 10 + order.seed!] : [0]) {
        const [out, sizesOut] = [gpu.allocate(256 * 4), gpu.allocate(256 * 4)]
        const result = await gpu.run('steal', [out, sizesOut], {
          grid: [256, 1, 1],
          cluster: [cluster, 1, 1],
          ...(preferred && { preferredCluster: [preferred, 1, 1] }),
          checks,
          ...order,
          seed,
        })
        expect(result.findings).toEqual([])
        expect([...gpu.read(out, 256, Uint32Array)]).toEqual(range(256).map(() => 1))
        const ran = [...gpu.read(sizesOut, 256, Uint32Array)]
        // Whichever cluster took a block over, it has the size that the block was cut into.
        const expected =
          !preferred || order.order === 'eager'
            ? [cluster]
            : order.order === 'lazy'
              ? [preferred]
              : [cluster, preferred]
        expect(new Set(ran)).toEqual(new Set(expected))
        const block = preferred || cluster
        for (let at = 0; at < 256; at += block) expect(new Set(ran.slice(at, at + block)).size).toBe(1)
        expect(result.stats.ctas).toBe(256)
      }
  },
)

const REFUSED: [string, string, Partial<NativeLaunch>, RegExp][] = [
  [
    'not a multiple of the cluster',
    'ids',
    { grid: [12, 1, 1], cluster: [2, 1, 1], preferredCluster: [3, 1, 1] },
    /3x1x1 is not a multiple of cluster 2x1x1/,
  ],
  [
    'a grid that it does not divide',
    'ids',
    { grid: [6, 1, 1], cluster: [2, 1, 1], preferredCluster: [4, 1, 1] },
    /does not divide grid 6x1x1/,
  ],
  ['too large', 'ids', { grid: [32, 1, 1], preferredCluster: [32, 1, 1] }, /more than 16 CTAs/],
  ['an extent of 0', 'ids', { grid: [4, 1, 1], preferredCluster: [0, 1, 1] }, /0x1x1/],
  [
    'a cluster fixed by the kernel',
    'fixed_cluster',
    { grid: [4, 1, 1], cluster: [2, 1, 1], preferredCluster: [4, 1, 1] },
    /__cluster_dims__/,
  ],
]
test.each(REFUSED)('refused: %s', async (_, name, launch, message) => {
  await expect(async () => gpu.run(name, [gpu.allocate(1024)], launch)).rejects.toMatchObject({
    code: 'KTL5020',
    message: expect.stringMatching(message),
  })
})

test('compute capability 9.0 has none', async () => {
  const old = new TestDevice(compileToPtx('extern "C" __global__ void k() {}', 'sm_90a'), 'sm_90a')
  await expect(async () => old.run('k', [], { grid: [4, 1, 1], preferredCluster: [2, 1, 1] })).rejects.toThrow(/10\.0/)
})

test("the kernel's own cluster may be the preferred one too", async () => {
  const out = gpu.allocate(4)
  const launch = { grid: [4, 1, 1], cluster: [2, 1, 1], preferredCluster: [2, 1, 1] } as const
  expect((await gpu.run('fixed_cluster', [out], launch)).findings).toEqual([])
  expect(gpu.read(out, 1, Uint32Array)[0]).toBe(1)
})
