import { expect, test } from 'vitest'
import type { NativeLaunch, NativeLaunchResult } from '../../runtime/addon/virtual.ts'
import { TestDevice, compileToPtx } from './device.ts'
import { ORDERS, describeOrder, encodeTensorMap, prelude } from './prelude.ts'

// Launches as wholes: threads, seeds, orders, several in flight, cancellation, progress, budgets.

const source =
  prelude +
  String.raw`
extern "C" __global__ void mixed(float* out, const float* in, const __grid_constant__ CUtensorMap map, int bug) {  // loads, shuffles, barriers, atomics of its own
  __shared__ __align__(1024) float tile[256]; __shared__ __align__(8) u64 bar; __shared__ float part[4]; int t = threadIdx.x;
  if (t == 0) { init(smem(&bar), 1); asm volatile("fence.mbarrier_init.release.cluster;"); }
  __syncthreads();
  if (t == 0) { expect(smem(&bar), 1024); load2(smem(tile), &map, 0, blockIdx.x * 8, smem(&bar)); }
  if (!(bug && blockIdx.x % 5 == 3)) wait(smem(&bar), 0);
  float s = tile[t] + tile[t + 128];
  for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
  if (t % 32 == 0) part[t / 32] = s;
  __syncthreads();
  if (t == 0) out[blockIdx.x] = part[0] + part[1] + part[2] + part[3] + in[blockIdx.x];
  if (bug == 2 && blockIdx.x == 11 && t == 40) out[gridDim.x + 100] = 1;
  wait(smem(&bar), 0);
}
extern "C" __global__ void ordered(int* counter, int* order) { if (threadIdx.x == 0) order[atomicAdd(counter, 1)] = blockIdx.x; }
extern "C" __global__ void race(int* out) {  // who is last wins
  __shared__ int last; int w = threadIdx.x / 32;
  for (int i = 0; i < 40 + w; i++) if (threadIdx.x % 32 == 0) *(volatile int*)&last = w;
  __syncthreads(); if (threadIdx.x == 0) out[blockIdx.x] = last;
}
extern "C" __global__ void long_loop(int* out, int n) { int s = 0; for (int i = 0; i < n; i++) s += i ^ out[0]; out[1 + blockIdx.x] = s; }
extern "C" __global__ void grid_barrier(int* count, int* out) {  // all CTAs are resident
  if (threadIdx.x == 0) { atomicAdd(count, 1); while (*(volatile int*)count < (int)gridDim.x) ; out[blockIdx.x] = *(volatile int*)count; }
}
extern "C" __global__ void dependent(int* out) {
  asm volatile("griddepcontrol.wait;" ::: "memory"); out[threadIdx.x] += 1; asm volatile("griddepcontrol.launch_dependents;");
}
extern "C" __global__ void __launch_bounds__(256) registers(int* out) {
  if (threadIdx.x < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); else asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  out[threadIdx.x] = threadIdx.x;
}
`
const gpu = new TestDevice(compileToPtx(source))
const range = (n: number) => Array.from({ length: n }, (_, i) => i)
const CTAS = 37

function problem() {
  const data = Float32Array.from({ length: 32 * 8 * CTAS }, (_, i) => (i * 7) % 23)
  const map = encodeTensorMap({ type: 'f32', address: gpu.upload(data), dims: [32, 8 * CTAS], box: [32, 8] })
  const input = gpu.upload(Float32Array.from({ length: CTAS }, (_, i) => i / 4))
  const out = gpu.allocate(CTAS * 4)
  const run = (bug: number, launch: Partial<NativeLaunch>) =>
    gpu.run('mixed', [out, input, map, bug], { grid: [CTAS, 1, 1], block: [128, 1, 1], ...launch })
  const expected = range(CTAS).map((c) => data.slice(c * 256, c * 256 + 256).reduce((x, y) => x + y) + c / 4)
  return { run, expected, read: () => [...gpu.read(out, CTAS, Float32Array)] }
}
/** What must not depend on how a launch was carried out. */
const essence = ({ findings, stats }: NativeLaunchResult) => ({
  findings,
  stats: { ...stats, milliseconds: 0 },
})

test.each(ORDERS.map((o) => [describeOrder(o), o] as const))(
  'results do not depend on the number of threads, %s',
  async (_, order) => {
    const { run, expected, read } = problem()
    for (const bug of [0, 1, 2]) {
      const results = []
      for (const threads of [1, 2, 4, 0]) {
        results.push(essence(await run(bug, { threads, ...order })))
        if (bug === 0) expect(read()).toEqual(expected)
      }
      for (const result of results.slice(1)) {
        expect(result.findings).toEqual(results[0]!.findings)
        // A launch that a fault ends early has run more or less of its other CTAs.
        if (bug !== 2) expect(result).toEqual(results[0])
      }
      expect(results[0]!.findings.map((f) => f.code)).toEqual([[], ['KTL5004'], ['KTL5004', 'KTL5001']][bug])
    }
  },
)

test('a seed repeats a run exactly, other seeds differ', async () => {
  const out = gpu.allocate(64 * 4)
  const runs: string[] = []
  const run = async (seed: number, threads: number) => {
    const { stats, trace } = await gpu.run('race', [out], {
      grid: [64, 1, 1],
      block: [256, 1, 1],
      order: 'random',
      seed,
      threads,
      trace: true,
    })
    return JSON.stringify([[...gpu.read(out, 64, Int32Array)], stats.warpInstructions, trace])
  }
  for (const seed of [1, 2, 3, 4]) {
    const once = await run(seed, 1)
    expect(await run(seed, 2)).toBe(once)
    runs.push(once)
  }
  expect(new Set(runs).size).toBe(4)
})

test('atomics see the CTAs in the same order, whatever the number of threads', async () => {
  const orders = []
  for (const threads of [1, 2, 4]) {
    const order = gpu.allocate(400)
    expect((await gpu.run('ordered', [gpu.allocate(4), order], { grid: [100, 1, 1], threads })).findings).toEqual([])
    orders.push([...gpu.read(order, 100, Int32Array)])
  }
  expect(orders[1]).toEqual(orders[0])
  expect(orders[2]).toEqual(orders[0])
  expect([...orders[0]!].sort((a, b) => a - b)).toEqual(range(100))
})

test('many launches in flight do not meet', async () => {
  const problems = range(12).map(problem)
  const results = await Promise.all(
    problems.map((p, i) => p.run(i % 3 === 2 ? 1 : 0, { ...ORDERS[i % 4], threads: 1 + (i % 2) })),
  )
  problems.forEach(({ expected, read }, i) => {
    if (i % 3 === 2) return
    expect(results[i]!.findings).toEqual([])
    expect(read()).toEqual(expected)
  })
  expect(results.map((r) => r.stats.ctas)).toEqual(range(12).map(() => CTAS))
})

test('CTAs of a grid barrier are resident together', async () => {
  const out = gpu.allocate(64 * 4)
  expect((await gpu.run('grid_barrier', [gpu.allocate(4), out], { grid: [64, 1, 1] })).findings).toEqual([])
  expect(new Set(gpu.read(out, 64, Int32Array))).toEqual(new Set([64]))
})

test('cancelling ends one of several launches', async () => {
  const cancel = new Int32Array(new SharedArrayBuffer(4))
  const out = gpu.allocate(64)
  const long = gpu.run('long_loop', [out, 2 ** 30], { instructionBudget: 0, cancel })
  const { run, expected, read } = problem()
  expect((await run(0, {})).findings).toEqual([])
  Atomics.store(cancel, 0, 1)
  const { findings } = await long
  expect(findings).toMatchObject([{ code: 'KTL5018', fatal: true }])
  expect(findings[0]!.message).toMatch(/cancelled/)
  expect(read()).toEqual(expected)
})

test('progress counts CTAs up to the total', async () => {
  const seen: [number, number][] = []
  const out = gpu.allocate(4 * 300)
  const onProgress = (done: number, total: number) => void seen.push([done, total])
  await gpu.run('long_loop', [out, 20_000], { grid: [256, 1, 1], instructionBudget: 0, onProgress })
  expect(seen.length).toBeGreaterThan(0)
  expect(seen.every(([done, total], i) => total === 256 && done <= 256 && (i === 0 || done > seen[i - 1]![0]))).toBe(
    true,
  )
})

test('the budget counts the warp-instructions of the whole launch', async () => {
  const out = gpu.allocate(4 * 64)
  const launch: Partial<NativeLaunch> = { grid: [16, 1, 1] }
  const { stats } = await gpu.run('long_loop', [out, 100], launch)
  const within = await gpu.run('long_loop', [out, 100], { ...launch, instructionBudget: stats.warpInstructions })
  expect(within.findings).toEqual([])
  for (const threads of [1, 2]) {
    const { findings } = await gpu.run('long_loop', [out, 100], {
      ...launch,
      threads,
      instructionBudget: stats.warpInstructions - 1,
    })
    expect(findings.map((f) => f.code)).toEqual(['KTL5014'])
  }
})

test('griddepcontrol and setmaxnreg let kernels run on', async () => {
  const out = gpu.allocate(1024)
  expect((await gpu.run('dependent', [out])).findings).toEqual([])
  expect([...gpu.read(out, 32, Int32Array)]).toEqual(range(32).map(() => 1))
  expect((await gpu.run('registers', [out], { block: [256, 1, 1] })).findings).toEqual([])
  expect([...gpu.read(out, 256, Int32Array)]).toEqual(range(256))
})

test('global memory and the windows of generic addresses never meet', async () => {
  // Where addresses end up after gigabytes of allocations.
  for (const at of [0x7f0100000000n, 0x7f0200000000n, 0x7f0300000000n]) {
    const address = gpu.device.malloc(128, at, 256)
    const { findings } = await gpu.run('dependent', [address])
    expect(findings).toEqual([])
    expect(gpu.read(address, 1, Int32Array)[0]).toBe(1)
    gpu.device.free(address)
  }
})
