import { describe, expect, test } from 'vitest'
import { compileToPtx, TestDevice } from './device.ts'
import { ORDERS } from './prelude.ts'

const ptx = compileToPtx(String.raw`
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void rotate(unsigned* p, unsigned* q, int rounds) {
  cg::grid_group grid = cg::this_grid();
  unsigned rank = grid.thread_rank(), size = grid.size();
  p[rank] = rank;
  for (int i = 0; i < rounds; ++i) {
    grid.sync();
    q[rank] = p[(rank + 1) % size] + 1;
    grid.sync();
    p[rank] = q[rank];
  }
}
extern "C" __global__ void valid(int* out) { out[blockIdx.x] = cg::this_grid().is_valid(); }
`)
const COUNT = 16 * 64
const ROUNDS = 3

describe.each(ORDERS)('$order $seed', (order) => {
  test.each([1, 4])('grid.sync() of clusters of %i', async (cluster) => {
    const gpu = new TestDevice(ptx)
    const [p, q] = [gpu.allocate(4 * COUNT), gpu.allocate(4 * COUNT)]
    const { findings } = await gpu.run('rotate', [p, q, ROUNDS], {
      ...order, grid: [16, 1, 1], block: [64, 1, 1], cluster: [cluster, 1, 1], checks: 'full', cooperative: true,
    }) // prettier-ignore
    expect(findings).toEqual([])
    expect([...gpu.read(p, COUNT, Uint32Array)]).toEqual(
      Array.from({ length: COUNT }, (_, i) => ((i + ROUNDS) % COUNT) + ROUNDS),
    )
  })
})

test('a grid knows whether it was launched so', async () => {
  for (const cooperative of [false, true]) {
    const gpu = new TestDevice(ptx)
    const out = gpu.allocate(8)
    await gpu.run('valid', [out], { grid: [2, 1, 1], block: [1, 1, 1], cooperative })
    expect([...gpu.read(out, 2, Int32Array)]).toEqual(Array(2).fill(Number(cooperative)))
  }
})

test('grid.sync() of a launch that is not cooperative is a trap', async () => {
  const gpu = new TestDevice(ptx)
  const { findings } = await gpu.run('rotate', [gpu.allocate(512), gpu.allocate(512), 1], { grid: [2, 1, 1] })
  expect(findings).toMatchObject([{ code: 'KTL5016' }])
})

test('more CTAs than are resident at one time are refused', async () => {
  const gpu = new TestDevice(ptx)
  const launch = { block: [1024, 1, 1], cooperative: true } as const
  const out = gpu.allocate(64)
  expect((await gpu.run('valid', [out], { ...launch, grid: [8, 1, 1] })).findings).toEqual([])
  const { findings } = await gpu.run('valid', [out], { ...launch, grid: [9, 1, 1] })
  expect(findings).toMatchObject([{ code: 'KTL5020' }])
  expect(findings[0]!.message).toBe(
    'a cooperative launch of 9 CTAs: only 8 are resident at one time (2 on each of 4 SMs)',
  )
})
