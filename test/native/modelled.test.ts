/** What accesses of threads take in modelled cycles: their proportions, since rates are those of timing.h. */
import { expect, test } from 'vitest'
import { TestDevice, compileToPtx } from './device.ts'
import { prelude } from './prelude.ts'

const source = String.raw`${prelude}
DEV u32 mapa(u32 a, u32 rank) { u32 r; asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank)); return r; }
// 64 words of each thread, those of a warp side by side (stride 1) or in lines of their own.
extern "C" __global__ void stores(u32* out, u32 stride) {
  for (int i = 0; i < 64; i++) out[(i * 128 + threadIdx.x) * stride] = i;
}
extern "C" __global__ void loads(u32* out, const u32* in) {
  u32 sum = 0, at = threadIdx.x;
  #pragma unroll 1
  for (int i = 0; i < 8; i++) {
    u32 x[4];
    for (int j = 0; j < 4; j++) x[j] = in[at + j * 128];
    for (int j = 0; j < 4; j++) sum += x[j];
    at += 512 + sum;  // of zeros
  }
  out[threadIdx.x] = sum;
}
extern "C" __global__ void none(u32* out) { out[threadIdx.x] = 1; }
// Sums of 16 bytes to every CTA of the cluster, from 128 threads, so many times.
extern "C" __global__ void __launch_bounds__(128) exchange(u32* out, int turns, u32 span) {
  extern __shared__ __align__(16) u32 slots[]; __shared__ __align__(8) u64 bar; u32 r = rankOf(), n; int t = threadIdx.x;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  if (t == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); expect(smem(&bar), turns * 128 * 16); }
  clusterSync();
  for (int i = 0; i < turns; i++) {
    const u32 to = mapa(smem(slots + t * 4), (r + span) % n);
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %1, %1, %1}, [%2];"
      :: "r"(to), "r"(i), "r"(mapa(smem(&bar), (r + span) % n)) : "memory");
  }
  wait(smem(&bar), 0);
  out[r * 128 + t] = slots[t * 4];
  clusterSync();
}
`
const gpu = new TestDevice(compileToPtx(source, 'sm_90a'), 'sm_90a')
const out = gpu.allocate(64 * 128 * 32 * 4)

async function cycles(entry: string, params: Parameters<typeof gpu.run>[1], launch = {}): Promise<number> {
  const { findings, stats } = await gpu.run(entry, params, { block: [128, 1, 1], ...launch })
  expect(findings).toEqual([])
  return stats.modelledCycles
}

test('stores of a warp to lines of their own take longer than those side by side', async () => {
  const [none, together, apart] = [
    await cycles('none', [out]),
    await cycles('stores', [out, 1]),
    await cycles('stores', [out, 32]),
  ]
  // 256 stores of a warp: 4 sectors of 32 bytes each, or 32 lines.
  expect(together - none).toBeLessThan(256 * 16)
  expect(apart - none).toBeGreaterThan(250 * 32)
})

test('loads are waited for where they are used: eight rounds of four at once', async () => {
  const zeros = gpu.upload(new Uint32Array(8 * 512))
  const chain = await cycles('loads', [out, zeros])
  const none = await cycles('none', [out])
  expect(chain - none).toBeGreaterThan(8 * 500)
  expect(chain - none).toBeLessThan(8 * 1200)
})

test('what CTAs send each other takes its way: of many no less than of two, and nothing to oneself', async () => {
  const at = (size: number, span: number, turns: number): Promise<number> =>
    cycles('exchange', [out, turns, span], { grid: [size, 1, 1], cluster: [size, 1, 1], sharedMemBytes: 4096 })
  const [own, pair, four] = [await at(2, 0, 32), await at(2, 1, 32), await at(4, 1, 32)]
  // 64 KiB leave each CTA.
  expect(pair).toBeGreaterThan(own + 1000)
  expect(four).toBeGreaterThan(pair)
})
