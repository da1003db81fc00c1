import { expect, test } from 'vitest'
import { encode } from '../../compiler/codec.ts'
import type { NativeLaunch } from '../../runtime/addon/virtual.ts'
import { TestDevice, compileToPtx, differences } from './device.ts'
import { ORDERS, describeOrder, encodeTensorMap, prelude } from './prelude.ts'
import { wgmmaFunction, wgmmaPrelude } from './wgmma_prelude.ts'

// A warp-specialised GEMM with wgmma: a producer warp that loads 128×64 and 128×64 tiles by TMA into a ring of four
// stages, two consumer warpgroups with 64 rows each, stmatrix and TMA stores. And what is found when one step of its
// protocol is left out.

const STEPS = ['nothing', 'fullWait', 'emptyWait', 'lastWait', 'stageWait', 'fence', 'storeFence', 'commit'] as const
type Step = (typeof STEPS)[number]

const source = `${prelude}${wgmmaPrelude}
${wgmmaFunction('mma', { a: 'bf16', n: 128 })}
DEV void matrices(u32 to, u32 a, u32 b, u32 c, u32 d) { asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
  :: "r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
DEV u32 pack(float low, float high) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
DEV void remoteArrive(u32 b, u32 rank) {
  asm volatile("{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];}" :: "r"(b), "r"(rank)
  : "memory"); }
DEV void load2multicast(u32 to, const void* map, int x, int y, u32 b, u32 mask) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
  :: "r"(to), "l"(map), "r"(b), "r"(x), "r"(y), "h"((short)mask) : "memory"); }
constexpr int STAGES = 4, TILE = 128 * 128, STAGE = 2 * TILE;
// CLUSTER CTAs along M share their tile of B, half of which each loads for both.
template <int OMIT, int CLUSTER> DEV void gemm(const CUtensorMap* A, const CUtensorMap* B, const CUtensorMap* D, int steps) {
  extern __shared__ __align__(1024) char image[]; __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
  int t = threadIdx.x, group = t / 128; u32 rank = CLUSTER > 1 ? rankOf() : 0;
  if (t == 0) {
    for (int s = 0; s < STAGES; s++) { init(smem(&full[s]), 1); init(smem(&empty[s]), 2 * CLUSTER); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (CLUSTER > 1) clusterSync(); else __syncthreads();
  int row = blockIdx.x * 128, column = blockIdx.y * 128;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (t == 0)
      for (int k = 0; k < steps; k++) {
        int s = k % STAGES; u32 at = smem(image) + s * STAGE;
        if (OMIT != 2) wait(smem(&empty[s]), (k / STAGES & 1) ^ 1);
        expect(smem(&full[s]), STAGE);
        load2(at, A, k * 64, row, smem(&full[s]));
        if (CLUSTER == 1) load2(at + TILE, B, k * 64, column, smem(&full[s]));
        else load2multicast(at + TILE + rank * TILE / 2, B, k * 64, column + rank * 64, smem(&full[s]), 3);
      }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[64];
    for (int k = 0; k < steps; k++) {
      int s = k % STAGES; u32 at = smem(image) + s * STAGE;
      if (OMIT != 1) wait(smem(&full[s]), k / STAGES & 1);
      u64 a = descriptor(at + (group - 1) * TILE / 2) ^ 1ull << 46, b = descriptor(at + TILE) ^ 1ull << 46;
      if (OMIT != 5) wgFence();
      for (int i = 0; i < 4; i++) mma(d, a + 2 * i, b + 2 * i, k || i);
      if (OMIT != 7) wgCommit();
      if (OMIT != 4) wgWait<1>();
      // The stage before this one has been read.
      if (k > 0 && t % 128 == 0) for (int r = 0; r < CLUSTER; r++) if (CLUSTER > 1) remoteArrive(smem(&empty[(k - 1) % STAGES]), r);
        else arrive(smem(&empty[(k - 1) % STAGES]));
    }
    if (OMIT != 3) wgWait<0>();
    for (int i = 0; i < 64; i++) pin(d[i]);
    if (t % 128 == 0) for (int r = 0; r < CLUSTER; r++) if (CLUSTER > 1) remoteArrive(smem(&empty[(steps - 1) % STAGES]), r);
      else arrive(smem(&empty[(steps - 1) % STAGES]));
    // 64 rows of 128 columns behind the ring, as two boxes of 64 columns in 128-byte rows.
    u32 out = smem(image) + STAGES * STAGE + (group - 1) * TILE;
    int lane = t % 32, warp = t / 32 % 4;
    for (int j = 0; j < 16; j += 2) {
      u32 r = warp * 16 + lane % 16, chunk = (j + lane / 16) % 8, to = out + j / 8 * 8192 + r * 128;
      matrices(to + ((chunk ^ (r % 8)) << 4), pack(d[4 * j], d[4 * j + 1]), pack(d[4 * j + 2], d[4 * j + 3]), pack(d[4 * j + 4], d[4 * j + 5]),
        pack(d[4 * j + 6], d[4 * j + 7]));
    }
    if (OMIT != 6) proxyFence();
    asm volatile("bar.sync %0, 128;" :: "r"(group));
    if (t % 128 == 0) {
      for (int i = 0; i < 2; i++) store2(D, column + i * 64, row + (group - 1) * 64, out + i * 8192);
      storeDone();
    }
  }
  if (CLUSTER > 1) clusterSync();
}
${STEPS.map(
  (step, i) => `
extern "C" __global__ void __launch_bounds__(384) ${step}(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap B, const __grid_constant__ CUtensorMap D, int steps) { gemm<${i}, 1>(&A, &B, &D, steps); }`,
).join('')}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384) pair(const __grid_constant__ CUtensorMap A,
  const __grid_constant__ CUtensorMap B, const __grid_constant__ CUtensorMap D, int steps) { gemm<0, 2>(&A, &B, &D, steps); }
`
const gpu = new TestDevice(compileToPtx(source, 'sm_90a'), 'sm_90a')

let state = 3
const random = (n: number) => (
  (state = (Math.imul(state, 1664525) + 1013904223) >>> 0),
  Math.floor((state / 2 ** 32) * n)
)
const [M, N, DEPTH] = [256, 256, 640]
const numbers = (count: number) => Float32Array.from({ length: count }, () => random(5) - 2)
const [a, b] = [numbers(M * DEPTH), numbers(N * DEPTH)]
const upload = (x: Float32Array) => gpu.upload(encode('bf16', x))
const [aAddress, bAddress] = [upload(a), upload(b)]
const expected = new Float32Array(M * N)
for (let m = 0; m < M; ++m)
  for (let n = 0; n < N; ++n) {
    let sum = 0
    for (let k = 0; k < DEPTH; ++k) sum += a[m * DEPTH + k]! * b[n * DEPTH + k]!
    expected[m * N + n] = sum
  }
const codes = encode('bf16', expected) as Uint16Array

async function multiply(kernel: Step | 'pair', launch: Partial<NativeLaunch>) {
  const out = gpu.allocate(2 * M * N)
  const map = (address: bigint, rows: number, columns: number, box: [number, number]) =>
    encodeTensorMap({ type: 'bf16', address, dims: [columns, rows], box, swizzle: '128B' })
  const rowsOfB = kernel === 'pair' ? 64 : 128
  const maps = [map(aAddress, M, DEPTH, [64, 128]), map(bAddress, N, DEPTH, [64, rowsOfB]), map(out, M, N, [64, 64])]
  const result = await gpu.run(kernel, [...maps, DEPTH / 64], {
    grid: [M / 128, N / 128, 1],
    block: [384, 1, 1],
    sharedMemBytes: 4 * 32768 + 32768 + 1024,
    checks: 'full',
    ...launch,
  })
  return { ...result, wrong: differences(gpu.read(out, M * N, Uint16Array), codes) }
}

test.each(ORDERS.map((order) => [describeOrder(order), order] as const))('the GEMM, %s', async (_, order) => {
  for (const kernel of ['nothing', 'pair'] as const) {
    const { findings, wrong, stats } = await multiply(kernel, order)
    expect(findings).toEqual([])
    expect(wrong).toEqual([])
    expect(stats.tensorMacs).toBe(M * N * DEPTH)
  }
})

test.each([
  ['fullWait', 'wrong'],
  ['emptyWait', 'wrong'],
  ['lastWait', /uses an accumulator register of a wgmma.mma_async that was not waited for/],
  ['stageWait', 'wrong'],
  ['fence', /without a wgmma.fence before it/],
  ['storeFence', /without fence.proxy.async between/],
  ['commit', /uses an accumulator register of a wgmma.mma_async that was not waited for/],
] as const)('without its %s', async (step, found) => {
  const { findings, wrong } = await multiply(step, { order: 'lazy' })
  if (found === 'wrong') expect([...wrong, ...findings.map((f) => f.message)]).not.toEqual([])
  else expect(findings.map((f) => f.message).join('\n')).toMatch(found)
})
