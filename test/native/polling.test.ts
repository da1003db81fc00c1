import { describe, expect, test } from 'vitest'
import { TestDevice, compileToPtx } from './device.ts'
import { ORDERS, describeOrder } from './prelude.ts'

// Lanes that poll global memory while the rest of their warp waits at a barrier.

const source = String.raw`
#include <cstdint>
typedef uint32_t u32;
__device__ __forceinline__ u32 acquire(const u32* p) { u32 v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ u32 relaxed(const u32* p) { u32 v; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
extern "C" __global__ void gridSync(u32* flag, u32* out, int mode, int spins) {
  int t = threadIdx.x;
  if (blockIdx.x == gridDim.x - 1) { u32 x = t; for (int i = 0; i < spins; i++) x = x * 1664525u + 1013904223u; out[1000 + t] = x; }
  __syncthreads();
  if (t == 0) {
    __threadfence(); atomicAdd(flag, 1);
    if (mode == 0) while (acquire(flag) < gridDim.x);
    if (mode == 1) while (*(volatile u32*)flag < gridDim.x);
    if (mode == 2) while (atomicAdd(flag, 0) < gridDim.x);
    if (mode == 3) while (relaxed(flag) < gridDim.x) __nanosleep(20);
    if (mode == 5) while (acquire(flag) != 0);
    if (mode == 4) { u32 seen = 0; do { seen = acquire(flag); out[2000 + blockIdx.x] = seen; } while (seen < gridDim.x); }
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + t] = acquire(flag);
}
// One lane of the warp waits for a warp of the same CTA.
extern "C" __global__ void ownWarp(u32* flag, u32* out, int mode, int spins) {
  int t = threadIdx.x;
  if (t < 32) {
    if (t == 7) { while (acquire(flag) == 0); }
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[t] = acquire(flag);
  } else if (t < 64) {
    u32 x = t; for (int i = 0; i < spins; i++) x = x * 1664525u + 1013904223u; out[1000 + t] = x;
    if (t == 40) { __threadfence(); atomicAdd(flag, 5); }
    asm volatile("bar.sync 1, 64;" ::: "memory");
  }
}
`
const gpu = new TestDevice(compileToPtx(source))

describe.each(ORDERS.map((o) => [describeOrder(o), o] as const))('%s', (_, order) => {
  test.each(
    ['ld.acquire', 'a volatile load', 'an atomic', 'ld.relaxed and nanosleep', 'a loop that stores'].map(
      (how, mode) => [how, mode] as const,
    ),
  )('one lane of each CTA polls what the others add to: %s', async (_, mode) => {
    for (const [grid, spins, threads] of [
      [1, 0, 1],
      [4, 0, 1],
      [4, 100, 2],
      [9, 20_000, 2],
      [70, 100, 1],
    ] as const) {
      const out = gpu.allocate(1 << 16)
      const launch = { grid: [grid, 1, 1], block: [96, 1, 1], threads, ...order } as const
      const { findings } = await gpu.run('gridSync', [gpu.allocate(4), out, mode, spins], launch)
      expect([grid, findings.map(({ message, notes }) => [message, ...notes])]).toEqual([grid, []])
      expect(new Set(gpu.read(out, 96, Uint32Array))).toEqual(new Set([grid]))
    }
  })
  test('a lane polls what another warp of its CTA stores', async () => {
    for (const spins of [0, 1000, 100_000]) {
      const out = gpu.allocate(1 << 16)
      const { findings } = await gpu.run('ownWarp', [gpu.allocate(4), out, 0, spins], { block: [64, 1, 1], ...order })
      expect(findings).toEqual([])
      expect(new Set(gpu.read(out, 32, Uint32Array))).toEqual(new Set([5]))
    }
  })
})

test('a lane that polls what nobody stores is a hang, with the lanes that wait for it', async () => {
  const { findings } = await gpu.run(
    'gridSync',
    [gpu.upload(Uint32Array.of(0x80000000)), gpu.allocate(1 << 16), 5, 0],
    { block: [96, 1, 1] },
  )
  expect(findings.map((f) => f.code)).toEqual(['KTL5005'])
  expect(findings[0]!.notes.join('\n')).toMatch(/waits for the other lanes of its warp: 31 of 32 are here/)
})
