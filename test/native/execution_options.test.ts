import { afterAll, expect, test } from 'vitest'
import type { Device } from '../../runtime/devices/device.ts'
import { openDevice } from '../../runtime/devices/open.ts'
import type { ExecutionOptions } from '../../runtime/devices/execution.ts'
import type { KernelSources } from '../../runtime/addon/findings.ts'
import { prelude } from './prelude.ts'
import { tmemPrelude } from './layouts.ts'

// What launches of a module offer beside their shape: preferred clusters, tensor cores as silicon has them, traces.

/** One tcgen05.mma, f16, 128 x 16 x 16: row 0 of A and of B come from memory, all else is zero. */
const source = String.raw`${prelude}${tmemPrelude}
extern "C" __global__ void dot(const uint16_t* a, const uint16_t* b, float c, u32* out) {
  __shared__ __align__(1024) uint16_t A[8192], B[8192]; __shared__ __align__(8) u64 bar; __shared__ u32 column; int t = threadIdx.x, warp = t / 32;
  for (int i = t; i < 8192; i += 128) { A[i] = i < 16 ? a[i] : 0; B[i] = i < 16 ? b[i] : 0; }
  if (t == 0) init(smem(&bar), 1);
  proxyFence();
  if (warp == 0) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(smem(&column)));
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); asm volatile("tcgen05.fence::after_thread_sync;");
  u32 tm = column;
  for (int i = 0; i < 16; i++) ST1(tm + (warp << 21) + i, __float_as_uint(c));
  asm volatile("tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;" ::: "memory"); __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;");
  if (t == 0) {
    asm volatile("{.reg .pred p; setp.eq.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;}"
      :: "r"(tm), "l"(descriptor(smem(A))), "l"(descriptor(smem(B))), "r"(1 << 4 | (16 >> 3) << 17 | (128 >> 4) << 24) : "memory");
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(smem(&bar)));
  }
  wait(smem(&bar), 0); asm volatile("tcgen05.fence::after_thread_sync;");
  dump(tm, out, 8);
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads();
  if (warp == 0) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(tm));
}
extern "C" __global__ void roles(u32* out) {
  clusterSync(); u32 x = threadIdx.x;
  if (threadIdx.x < 32) {
    for (int i = 0; i < 100; i++) asm volatile("add.u32 %0, %0, 1;" : "+r"(x));
  } else {
    for (int i = 0; i < 100; i++) asm volatile("add.u32 %0, %0, 3;" : "+r"(x));
  }
  out[blockIdx.x * 64 + threadIdx.x] = x; clusterSync();
}
`
const lineOf = (text: string): number => source.slice(0, source.indexOf(text)).split('\n').length
const sources: KernelSources = {
  ktl: null,
  map: [
    { cudaLine: 1, role: null, note: null, ktl: null },
    { cudaLine: lineOf('add.u32 %0, %0, 1'), role: 'first', note: null, ktl: null },
    { cudaLine: lineOf('} else {'), role: 'second', note: null, ktl: null },
    { cudaLine: lineOf('out[blockIdx.x * 64'), role: null, note: null, ktl: null },
  ] as unknown as KernelSources['map'],
}
const device = await openDevice('virtual-sm100')
afterAll(() => device.close())
const module = await device.compileCuda(source, { sources })

// In order: 2^24 + 1 rounds to 2^24 (ties to even), and so does every term until the last cancels it. Truncated to 25
// fraction bits below 2^24, in units of 1/2, the 1 survives and the quarters do not.
const [FUSED, SILICON] = [0, 1]

async function sum(on: Device, options: ExecutionOptions = {}): Promise<number> {
  const word = (sign: number) =>
    on.tensor('f16', [16], [4096, 0.5, 0.25, sign * 4096, ...new Array<number>(12).fill(0)])
  const out = on.empty('f32', [8, 128])
  const loaded = on === device ? module : await on.compileCuda(source)
  const { findings } = await loaded
    .function('dot')
    .launch({ grid: 1, block: 128, params: [word(1), word(-1), { f32: 1 }, out], ...options })
  expect(findings).toEqual([])
  return (await out.toArray())[0]!
}

test('sums of tcgen05.mma: f32 fused multiply-adds, or truncated as on silicon', async () => {
  expect(await sum(device)).toBe(FUSED)
  expect(await sum(device, { tensorCores: 'exact' })).toBe(FUSED)
  expect(await sum(device, { tensorCores: 'silicon' })).toBe(SILICON)
  const silicon = await openDevice('virtual-sm100', { tensorCores: 'silicon' })
  expect(await sum(silicon)).toBe(SILICON)
  expect(await sum(silicon, { tensorCores: 'exact' })).toBe(FUSED)
  await silicon.close()
  await expect(async () => openDevice('virtual-sm100', { tensorCores: 'real' as never })).rejects.toThrow(
    /exact, silicon/,
  )
})

test('preferred clusters through a module, and what is refused', async () => {
  const out = device.empty('u32', [8 * 64])
  const launch = (preferredCluster: readonly number[], order: 'lazy' | 'eager') =>
    module.function('roles').launch({ grid: 8, block: 64, cluster: 2, preferredCluster, params: [out], order })
  expect((await launch([4], 'lazy')).stats.clusters).toBe(2)
  expect((await launch([4], 'eager')).stats.clusters).toBe(4)
  await expect(launch([3], 'lazy')).rejects.toThrow(/multiple of cluster/)
  await expect(launch([16], 'lazy')).rejects.toThrow(/multiple of preferred cluster/)
  await expect(launch([32], 'lazy')).rejects.toThrow(/preferredCluster/)
})

test('a trace is Chrome trace JSON with a process per CTA and warps named by role', async () => {
  const out = device.empty('u32', [4 * 64])
  const result = await module.function('roles').launch({ grid: 4, block: 64, cluster: 2, params: [out], trace: true })
  const { traceEvents } = JSON.parse(result.trace!) as { traceEvents: Record<string, unknown>[] }
  const named = (what: string) => traceEvents.filter(({ ph, name }) => ph === 'M' && name === what)
  const label = (event: Record<string, unknown>) => (event.args as { name: string }).name
  expect(named('process_name').map(label)).toEqual([0, 1, 2, 3].map((i) => `CTA ${i} (rank ${i % 2} of 2)`))
  for (const pid of [0, 1, 2, 3]) {
    const rows = named('thread_name').filter((event) => event.pid === pid)
    expect(rows.filter(({ tid }) => (tid as number) < 1000).map(label)).toEqual(['warp 0 (first)', 'warp 1 (second)'])
    expect(rows.map(label)).toContain('tensor core')
  }
  for (const { ph, ts, dur, pid } of traceEvents) {
    expect(['X', 'i', 'M']).toContain(ph)
    expect([0, 1, 2, 3]).toContain(pid)
    if (ph === 'X') expect([typeof ts, (dur as number) > 0]).toEqual(['number', true])
  }
})
