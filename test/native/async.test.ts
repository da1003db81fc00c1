import { expect, test } from 'vitest'
import type { NativeLaunch, NativeLaunchResult } from '../../runtime/addon/virtual.ts'
import { TestDevice, compileToPtx, f32Bits } from './device.ts'
import { ORDERS, describeOrder, encodeTensorMap, prelude } from './prelude.ts'

const gemmSource =
  prelude +
  String.raw`
// D = A B^T, bf16, 128x128 tiles, a ring of stages, three roles. bug: which step is left out.
constexpr int ST = 3, BK = 64;
extern "C" __global__ void __launch_bounds__(192) gemm(const __grid_constant__ CUtensorMap ta, const __grid_constant__ CUtensorMap tb, float* D, int N,
  int K, int bug) {
  extern __shared__ __align__(1024) uint8_t tiles[];
  __shared__ __align__(8) u64 full[ST], empty[ST], done; __shared__ u32 columns;
  int warp = threadIdx.x / 32; u32 base = (smem(tiles) + 1023) & ~1023u;
  if (threadIdx.x == 0) { for (int i = 0; i < ST; i++) { init(smem(&full[i]), 1); init(smem(&empty[i]), 1); } init(smem(&done), 1);
    asm volatile("fence.mbarrier_init.release.cluster;"); }
  if (warp == 1) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" :: "r"(smem(&columns)));
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); asm volatile("tcgen05.fence::after_thread_sync;");
  u32 tm = columns; int steps = K / BK;
  if (warp == 0) {
    if (elected()) for (int k = 0; k < steps; k++) {
      int s = k % ST; u32 f = smem(&full[s]), to = base + s * 32768;
      wait(smem(&empty[s]), (k / ST & 1) ^ 1);
      expect(f, bug == 1 ? 32768 + 16 : bug == 2 ? 16384 : 32768);
      load2(to, &ta, k * BK, blockIdx.y * 128, f); load2(to + 16384, &tb, k * BK, blockIdx.x * 128, f);
    }
  } else if (warp == 1) {
    if (elected()) {
      u32 idesc = 0x490 | 128 >> 3 << 17 | 128 >> 4 << 24;
      for (int k = 0; k < steps; k++) {
        int s = k % ST; if (bug != 3) wait(smem(&full[s]), k / ST & 1);
        for (int j = 0; j < 4; j++) {
          u64 a = descriptor(base + s * 32768 + j * 32), b = descriptor(base + s * 32768 + 16384 + j * 32); u32 acc = bug == 4 ? 1 : k | j;
          asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;}"
            :: "r"(tm), "l"(a), "l"(b), "r"(idesc), "r"(acc));
        }
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(smem(&empty[s])));
      }
      if (bug != 5) asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(smem(&done)));
    }
  } else {
    wait(smem(&done), 0);
    asm volatile("tcgen05.fence::after_thread_sync;");
    int q = warp % 4, row = blockIdx.y * 128 + q * 32 + threadIdx.x % 32;
    for (int c = 0; c < 128; c += 8) {
      u32 r[8]; LD8(r, tm + (q << 21) + c);
      if (bug != 6) asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
      for (int j = 0; j < 8; j++) D[(size_t)row * N + blockIdx.x * 128 + c + j] = __uint_as_float(r[j]);
    }
    asm volatile("tcgen05.fence::before_thread_sync;");
  }
  __syncthreads();
  if (warp == 1 && bug != 7) { asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" :: "r"(tm)); }
}

// The same with a pair of CTAs: 256x128 tiles, both CTAs load, the even one multiplies.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192) gemm_pair(const __grid_constant__ CUtensorMap ta,
  const __grid_constant__ CUtensorMap tb, float* D, int N, int K) {
  extern __shared__ __align__(1024) uint8_t tiles[];
  __shared__ __align__(8) u64 full[ST], empty[ST], done; __shared__ u32 columns;
  int warp = threadIdx.x / 32; u32 base = (smem(tiles) + 1023) & ~1023u, rank = rankOf();
  if (threadIdx.x == 0) { for (int i = 0; i < ST; i++) { init(smem(&full[i]), 1); init(smem(&empty[i]), 1); } init(smem(&done), 1);
    asm volatile("fence.mbarrier_init.release.cluster;"); }
  clusterSync();
  if (warp == 1) asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 128;" :: "r"(smem(&columns)));
  asm volatile("tcgen05.fence::before_thread_sync;"); __syncthreads(); clusterSync(); asm volatile("tcgen05.fence::after_thread_sync;");
  u32 tm = columns; int steps = K / BK;
  if (warp == 0) {
    if (elected()) for (int k = 0; k < steps; k++) {
      int s = k % ST; u32 f = smem(&full[s]), to = base + s * 24576;
      wait(smem(&empty[s]), (k / ST & 1) ^ 1);
      if (rank == 0) expect(f, 2 * 24576);
      load2pair(to, &ta, k * BK, blockIdx.x * 128, f & 0xfeffffff); load2pair(to + 16384, &tb, k * BK, blockIdx.y * 128 + rank * 64, f & 0xfeffffff);
    }
  } else if (warp == 1 && rank == 0) {
    if (elected()) {
      u32 idesc = 0x490 | 128 >> 3 << 17 | 256 >> 4 << 24;
      for (int k = 0; k < steps; k++) {
        int s = k % ST; wait(smem(&full[s]), k / ST & 1);
        for (int j = 0; j < 4; j++) {
          u64 a = descriptor(base + s * 24576 + j * 32), b = descriptor(base + s * 24576 + 16384 + j * 32); u32 acc = k | j;
          asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;}"
            :: "r"(tm), "l"(a), "l"(b), "r"(idesc), "r"(acc));
        }
        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
          :: "r"(smem(&empty[s])), "h"((short)3));
      }
      asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" :: "r"(smem(&done)), "h"((short)3));
    }
  } else if (warp >= 2) {
    wait(smem(&done), 0);
    asm volatile("tcgen05.fence::after_thread_sync;");
    int q = warp % 4, row = blockIdx.x * 128 + q * 32 + threadIdx.x % 32;
    for (int c = 0; c < 128; c += 8) {
      u32 r[8]; LD8(r, tm + (q << 21) + c); asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
      for (int j = 0; j < 8; j++) D[(size_t)row * N + blockIdx.y * 128 + c + j] = __uint_as_float(r[j]);
    }
    asm volatile("tcgen05.fence::before_thread_sync;");
  }
  __syncthreads(); clusterSync();
  if (warp == 1) asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\ntcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 128;" :: "r"(tm));
}
`

const piecesSource =
  prelude +
  String.raw`
extern "C" __global__ void tile_copy(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, int x, int y, int skipWait) {
  __shared__ __align__(1024) float tile[16][32]; __shared__ __align__(8) u64 bar;
  if (threadIdx.x == 0) init(smem(&bar), 1);
  __syncthreads();
  if (threadIdx.x == 0) { expect(smem(&bar), sizeof tile); load2(smem(tile), &from, x, y, smem(&bar)); }
  if (!skipWait) wait(smem(&bar), 0);
  for (int i = threadIdx.x; i < 512; i += 32) (&tile[0][0])[i] += 1;
  proxyFence(); __syncthreads();
  if (threadIdx.x == 0) { store2(&to, x, y, smem(tile)); storeDone(); add2(&to, x, y, smem(tile)); storeDone(); }
}
extern "C" __global__ void store_garbage(const __grid_constant__ CUtensorMap to) {
  __shared__ __align__(1024) float tile[16][32];
  if (threadIdx.x < 31) for (int i = 0; i < 16; i++) tile[i][threadIdx.x] = i;
  proxyFence(); __syncthreads();
  if (threadIdx.x == 0) { store2(&to, 0, 0, smem(tile)); storeDone(); }
}
extern "C" __global__ void load_and_leave(const __grid_constant__ CUtensorMap from) {
  __shared__ __align__(1024) float tile[16][32]; __shared__ __align__(8) u64 bar;
  if (threadIdx.x == 0) { init(smem(&bar), 1); expect(smem(&bar), sizeof tile); load2(smem(tile), &from, 0, 0, smem(&bar)); }
}
// x was asked for 24 loads of y before it is read, but nothing has waited for it.
extern "C" __global__ void overtaken(int* out, const int* in) {
  __shared__ __align__(128) int x[4], y[4]; __shared__ __align__(8) u64 bars[2];
  if (threadIdx.x == 0) {
    init(smem(&bars[0]), 1); init(smem(&bars[1]), 1); asm volatile("fence.mbarrier_init.release.cluster;");
    for (int i = 0; i < 25; i++) {
      u32 bar = smem(&bars[i > 0]); expect(bar, 16);
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" :: "r"(smem(i > 0 ? y
        : x)), "l"(in + 4 * i), "r"(bar) : "memory");
      if (i > 0) wait(bar, i - 1 & 1);
    }
    out[0] = x[0]; wait(smem(&bars[0]), 0);
  }
}
extern "C" __global__ void bulk(int* out, const int* in) {
  __shared__ __align__(128) int x[256]; __shared__ __align__(8) u64 bar;
  if (threadIdx.x == 0) { init(smem(&bar), 1); expect(smem(&bar), 1024);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" :: "r"(smem(x)), "l"(in), "r"(smem(&bar))
    : "memory"); }
  __syncthreads(); wait(smem(&bar), 0);
  for (int i = threadIdx.x; i < 256; i += 32) x[i] = x[i] * 2 + 1;
  proxyFence(); __syncthreads();
  if (threadIdx.x == 0) { asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" :: "l"(out), "r"(smem(x)) : "memory"); storeDone();
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], 512;" :: "l"(out), "r"(smem(x)) : "memory"); storeDone(); }
}
extern "C" __global__ void store_and_leave(int* out, int read) {
  __shared__ __align__(128) int x[256]; int i = threadIdx.x;
  for (int k = i; k < 256; k += 32) x[k] = blockIdx.x * 256 + k;
  proxyFence(); __syncwarp();
  if (i == 0) { asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;\ncp.async.bulk.commit_group;" :: "l"(out + blockIdx.x * 256), "r"(smem(x)) : "memory");
    if (read) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
}
extern "C" __global__ void copies(int* out, const int* in, int forget) {
  __shared__ __align__(16) int x[3][32]; __shared__ __align__(8) u64 bar; int i = threadIdx.x;
  if (i == 0) init(smem(&bar), 32);
  __syncthreads();
  for (int s = 0; s < 2; s++) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(smem(&x[s][i])), "l"(in + s * 32 + i) : "memory");
    asm volatile("cp.async.commit_group;"); }
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(smem(&x[2][i])), "l"(in + 64 + i), "r"(i < 16 ? 4 : 0) : "memory");
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(smem(&bar)) : "memory");
  if (!forget) asm volatile("cp.async.wait_group 1;" ::: "memory");
  out[i] = x[0][i];
  wait(smem(&bar), 0);
  out[32 + i] = x[1][i]; out[64 + i] = x[2][i];
}
extern "C" __global__ void tail(int* out, const int* in, int last) {  // 10 ints in chunks of 4
  __shared__ __align__(16) int x[3][4]; int i = threadIdx.x;
  if (i < 3) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(smem(x[i])), "l"(in + 4 * i), "r"(i < 2 ? 16 : last) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory"); __syncwarp();
  if (i < 12) out[i] = x[i / 4][i % 4];
}
extern "C" __global__ void states(u64* out) {
  __shared__ __align__(8) u64 bar; u64 t; u32 p, *o = (u32*)(out + 8); int i = 0;
  init(smem(&bar), 3);
  #define TOKEN { asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(t) : "r"(smem(&bar))); out[i++] = t; }
  #define TEST(q) { asm volatile("{.reg .pred z; mbarrier.test_wait.parity.shared::cta.b64 z, [%1], %2; selp.b32 %0, 1, 0, z;}" : "=r"(p) : "r"(smem(&bar)), "r"(q)); *o++ = p; }
  TEST(1) TEST(0) TOKEN TOKEN TEST(0) TOKEN TEST(0) TEST(1)
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 4096;" :: "r"(smem(&bar)));
  TOKEN TOKEN TOKEN TEST(1)
  asm volatile("{.reg .pred z; mbarrier.test_wait.shared::cta.b64 z, [%1], %2; selp.b32 %0, 1, 0, z;}" : "=r"(p) : "r"(smem(&bar)), "l"(out[0])); *o++ = p;
}
extern "C" __global__ void over_arrival() { __shared__ __align__(8) u64 bar; if (threadIdx.x == 0) { init(smem(&bar), 2); expect(smem(&bar), 16); }
  __syncwarp(); arrive(smem(&bar)); }
extern "C" __global__ void __cluster_dims__(4, 1, 1) ring(int* out) {
  __shared__ int box; __shared__ __align__(8) u64 bar; u32 r = rankOf(), to, toBar;
  if (threadIdx.x == 0) { init(smem(&bar), 1); box = -1; }
  clusterSync();
  if (threadIdx.x == 0) {
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(smem(&box)), "r"((r + 1) % 4));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(toBar) : "r"(smem(&bar)), "r"((r + 1) % 4));
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(to), "r"(100 + r) : "memory");
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(toBar) : "memory");
    wait(smem(&bar), 0);
    out[blockIdx.x] = box;
  }
  clusterSync();
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) multicast(float* out, const __grid_constant__ CUtensorMap from) {
  __shared__ __align__(1024) float tile[2][512]; __shared__ __align__(8) u64 bar; u32 r = rankOf();
  if (threadIdx.x == 0) { init(smem(&bar), 1); expect(smem(&bar), 4096); asm volatile("fence.mbarrier_init.release.cluster;"); }
  clusterSync();
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" :: "r"(smem(tile[r])), "l"(&from), "r"(smem(&bar)), "r"(0), "r"((int)r * 16), "h"((short)3) : "memory");
  wait(smem(&bar), 0);
  for (int i = threadIdx.x; i < 1024; i += 32) out[r * 1024 + i] = tile[0][i];
  clusterSync();
}
extern "C" __global__ void persistent(int* out) {
  __shared__ __align__(16) uint4 answer; __shared__ __align__(8) u64 bar;
  if (threadIdx.x == 0) init(smem(&bar), 1);
  __syncthreads();
  int tile = blockIdx.x, parity = 0;
  for (;;) {
    if (threadIdx.x == 0) { atomicAdd(&out[tile], 1 + tile); expect(smem(&bar), 16);
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" :: "r"(smem(&answer)), "r"(smem(&bar))
        : "memory"); }
    wait(smem(&bar), parity); parity ^= 1;
    u32 ok, x; asm volatile("{.reg .pred p; .reg .b128 q; ld.shared.b128 q, [%2]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, q; selp.u32 %0, 1, 0, p; mov.u32 %1, 0; @p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, q;}" : "=r"(ok), "=r"(x) : "r"(smem(&answer)) : "memory");
    if (!ok) break;
    tile = x; __syncthreads();
  }
}
extern "C" __global__ void fragments(float* out, const uint16_t* a, const uint16_t* b) {
  __shared__ __align__(16) uint16_t A[16][16], B[8][16]; int t = threadIdx.x;
  for (int i = t; i < 256; i += 32) (&A[0][0])[i] = a[i];
  for (int i = t; i < 128; i += 32) (&B[0][0])[i] = b[i];
  __syncwarp();
  u32 fa[4], fb[2]; float d[4] = {1, 2, 3, 4};
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
    : "r"(smem(&A[t % 16][t / 16 * 8])));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(smem(&B[t % 8][t / 8 % 2 * 8])));
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
  for (int i = 0; i < 4; i++) out[(t / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = d[i];
}
extern "C" __global__ void tmem_round_trip(u32* out) {
  __shared__ u32 columns; int t = threadIdx.x;
  if (t < 32) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(smem(&columns)));
  __syncthreads(); u32 tm = columns, r[8];
  asm volatile("tcgen05.st.sync.aligned.32x32b.x2.b32 [%0], {%1, %2};" :: "r"(tm + (t / 32 << 21) + 4), "r"(t * 3), "r"(t * 5));
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(tm + (t / 32 << 21) + 4));
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  out[t] = r[0]; out[128 + t] = r[1];
  __syncthreads();
  if (t < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(tm));
}
`

const gemms = new TestDevice(compileToPtx(gemmSource))
const pieces = new TestDevice(compileToPtx(piecesSource))
const codes = (result: NativeLaunchResult) => result.findings.map((f) => f.code).sort()

/** A two-dimensional map: bf16 with 128-byte swizzle, or plain f32. */
const tensorMap = (
  type: 'bf16' | 'f32',
  address: bigint,
  rows: number,
  columns: number,
  boxRows: number,
  boxColumns: number,
) =>
  encodeTensorMap({
    type,
    address,
    dims: [columns, rows],
    box: [boxColumns, boxRows],
    swizzle: type === 'bf16' ? '128B' : 'none',
  })
const brain = (values: ArrayLike<number>) => Uint16Array.from(values, (x) => f32Bits(x) >>> 16)

function gemmProblem(M: number, N: number, K: number, boxB: number) {
  const A = Float32Array.from({ length: M * K }, (_, i) => ((Math.imul(i, 2654435761) >>> 7) % 7) - 3)
  const B = Float32Array.from({ length: N * K }, (_, i) => ((Math.imul(i, 40503) >>> 5) % 5) - 2)
  const D = gemms.allocate(M * N * 4)
  const params = [
    tensorMap('bf16', gemms.upload(brain(A)), M, K, 128, 64),
    tensorMap('bf16', gemms.upload(brain(B)), N, K, boxB, 64),
    D,
    N,
    K,
  ]
  const wrong = () => {
    const got = gemms.read(D, M * N, Float32Array)
    let count = 0
    for (let i = 0; i < M; i += 3)
      for (let j = 0; j < N; j += 7) {
        let sum = 0
        for (let k = 0; k < K; ++k) sum += A[i * K + k]! * B[j * K + k]!
        if (got[i * N + j] !== sum) ++count
      }
    return count
  }
  return { params, wrong }
}
const gemmShape: Partial<NativeLaunch> = { grid: [2, 2, 1], block: [192, 1, 1], sharedMemBytes: 3 * 32768 + 1024 }

test.each(ORDERS.map((o) => [describeOrder(o), o] as const))(
  'warp-specialised TMA and tcgen05 GEMM, %s',
  async (_, order) => {
    const { params, wrong } = gemmProblem(256, 256, 512, 128)
    const result = await gemms.run('gemm', [...params, 0], { ...gemmShape, ...order })
    expect(result.findings).toEqual([])
    expect(wrong()).toBe(0)
    expect(result.stats).toMatchObject({
      tensorMacs: 256 * 256 * 512,
      tmaBytesLoaded: 4 * 8 * 32768,
      tmemColumns: 128,
      ctas: 4,
    })
  },
)

test.each(ORDERS.map((o) => [describeOrder(o), o] as const))('GEMM on CTA pairs, %s', async (_, order) => {
  const { params, wrong } = gemmProblem(512, 256, 256, 64)
  const result = await gemms.run('gemm_pair', params, {
    grid: [4, 2, 1],
    block: [192, 1, 1],
    cluster: [2, 1, 1],
    sharedMemBytes: 3 * 24576 + 1024,
    ...order,
  })
  expect(result.findings).toEqual([])
  expect(wrong()).toBe(0)
  expect(result.stats.tensorMacs).toBe(512 * 256 * 256)
})

const bugs: [string, number, string[]][] = [
  ['expects more bytes than arrive', 1, ['KTL5005', 'KTL5007']],
  ['expects fewer bytes than arrive', 2, ['KTL5004']],
  ['multiplies before the operands are there', 3, ['KTL5004']],
  ['accumulates onto whatever Tensor Memory holds', 4, ['KTL5004']],
  ['never commits to the epilogue barrier', 5, ['KTL5005']],
  ['leaks its Tensor Memory', 7, ['KTL5008']],
]
test.each(bugs)('a GEMM that %s', async (_, bug, expected) => {
  const { params } = gemmProblem(128, 128, 128, 128)
  const result = await gemms.run('gemm', [...params, bug], { ...gemmShape, grid: [1, 1, 1] })
  expect(codes(result)).toEqual(expect.arrayContaining(expected))
})

test('registers of tcgen05.ld that are read before tcgen05.wait::ld hold its data; a remark names the load', async () => {
  const { params, wrong } = gemmProblem(128, 128, 128, 128)
  for (const order of ORDERS) {
    const { findings } = await gemms.run('gemm', [...params, 6], { ...gemmShape, grid: [1, 1, 1], ...order })
    expect(findings.map(({ code, fatal, remark }) => [code, fatal, remark])).toEqual(
      findings.map(() => ['KTL5019', false, true]),
    )
    expect(findings[0]!.message).toMatch(
      /reads a register of the tcgen05\.ld at ptx line \d+ \(cuda line \d+\) before tcgen05\.wait::ld/,
    )
    expect(findings.every(({ count }) => count === 1)).toBe(true)
    expect(wrong()).toBe(0)
  }
})

test('a hang names barrier, parity and missing bytes', async () => {
  const { params } = gemmProblem(128, 128, 256, 128)
  const { findings } = await gemms.run('gemm', [...params, 1], { ...gemmShape, grid: [1, 1, 1] })
  const hang = findings.find((f) => f.code === 'KTL5005')!
  expect(hang.notes).toContainEqual(
    expect.stringMatching(
      /^warp 1 \(ptx line \d+, cuda line \d+\) waits on mbarrier 0x[0-9a-f]+ for parity 0: phase 0, pending 0 of 1, tx 16$/,
    ),
  )
  expect(findings.find((f) => f.code === 'KTL5007')!.message).toMatch(/16 expected bytes were never delivered/)
})

test('a trace has the roles, copies and multiplications', async () => {
  const { params } = gemmProblem(128, 128, 256, 128)
  const { trace } = await gemms.run('gemm', [...params, 0], { ...gemmShape, grid: [1, 1, 1], trace: true })
  const names = new Set(
    (JSON.parse(trace!) as { traceEvents: { name: string }[] }).traceEvents.map((e) =>
      e.name.split(' ').slice(0, 2).join(' '),
    ),
  )
  for (const name of ['run', 'wait', 'TMA load', 'tcgen05.mma']) expect(names).toContain(name)
})

test.each(ORDERS.map((o) => [describeOrder(o), o] as const))(
  'TMA box with out-of-bounds parts: load, store, reduce, %s',
  async (_, order) => {
    const [rows, columns] = [20, 40]
    const data = Float32Array.from({ length: rows * columns }, (_, i) => i)
    const out = pieces.upload(new Float32Array(rows * columns).fill(-1))
    const maps = [pieces.upload(data), out].map((address) => tensorMap('f32', address, rows, columns, 16, 32))
    expect((await pieces.run('tile_copy', [...maps, 16, 8, 0], order)).findings).toEqual([])
    const got = pieces.read(out, rows * columns, Float32Array)
    for (let r = 0; r < rows; ++r)
      for (let c = 0; c < columns; ++c)
        expect(got[r * columns + c]).toBe(r >= 8 && c >= 16 ? 2 * (data[r * columns + c]! + 1) : -1)
  },
)

test('lazy delivery exposes a missing wait', async () => {
  const maps = [pieces.allocate(3200), pieces.allocate(3200)].map((address) =>
    tensorMap('f32', address, 20, 40, 16, 32),
  )
  expect(codes(await pieces.run('tile_copy', [...maps, 0, 0, 1]))).toContain('KTL5004')
})

test('random orders with odd seeds let a load come after what was asked for long after it', async () => {
  const input = pieces.upload(new Int32Array(100))
  const seen = async (seed: number): Promise<boolean> =>
    codes(await pieces.run('overtaken', [pieces.allocate(4), input], { order: 'random', seed })).includes('KTL5004')
  const seeds = Array.from({ length: 64 }, (_, i) => i)
  const late: number[] = []
  for (const seed of seeds) if (await seen(seed)) late.push(seed)
  expect(late.length).toBeGreaterThan(0)
  expect(late.filter((seed) => seed % 2 === 0)).toEqual([])
})

test('a store of shared memory that nobody wrote', async () => {
  const result = await pieces.run('store_garbage', [tensorMap('f32', pieces.allocate(2048), 16, 32, 16, 32)])
  expect(codes(result)).toEqual(['KTL5004'])
  expect(result.findings[0]!.message).toMatch(/64 bytes/)
})

test('a load that nobody waits for', async () => {
  expect(codes(await pieces.run('load_and_leave', [tensorMap('f32', pieces.allocate(2048), 16, 32, 16, 32)]))).toEqual([
    'KTL5023',
  ])
})

test('a store that has not read shared memory when the CTA exits is a remark, once for its place', async () => {
  for (const order of ORDERS)
    for (const read of [0, 1]) {
      const out = pieces.allocate(64 * 1024)
      const { findings } = await pieces.run('store_and_leave', [out, read], {
        grid: [64, 1, 1],
        checks: 'full',
        ...order,
      })
      const said = findings.map(({ code, fatal, remark, count }) => [code, fatal, remark, count])
      if (read || order.order === 'eager') expect(said).toEqual([])
      else expect(said).toEqual([['KTL5023', false, true, 1]])
      expect(pieces.read(out, 64 * 256, Int32Array).every((value, i) => value === i)).toBe(true)
    }
})

test.each(ORDERS.map((o) => [describeOrder(o), o] as const))('bulk copies and reductions, %s', async (_, order) => {
  const out = pieces.allocate(1024)
  const input = pieces.upload(Int32Array.from({ length: 256 }, (_, i) => i))
  expect((await pieces.run('bulk', [out, input], order)).findings).toEqual([])
  expect([...pieces.read(out, 256, Int32Array)]).toEqual(
    Array.from({ length: 256 }, (_, i) => (2 * i + 1) * (i < 128 ? 2 : 1)),
  )
})

test.each(ORDERS.map((o) => [describeOrder(o), o] as const))('cp.async groups and barriers, %s', async (_, order) => {
  const out = pieces.allocate(384)
  const input = pieces.upload(Int32Array.from({ length: 96 }, (_, i) => i + 5))
  expect((await pieces.run('copies', [out, input, 0], order)).findings).toEqual([])
  expect([...pieces.read(out, 96, Int32Array)]).toEqual(Array.from({ length: 96 }, (_, i) => (i < 80 ? i + 5 : 0)))
  expect(codes(await pieces.run('copies', [out, input, 1], { order: 'lazy' }))).toEqual(['KTL5004'])
})

test('an asynchronous copy reads as many bytes as its size says', async () => {
  const values = Int32Array.from({ length: 10 }, (_, i) => i + 1)
  const [input, out] = [pieces.upload(values), pieces.allocate(48)]
  expect((await pieces.run('tail', [out, input, 8])).findings).toEqual([])
  expect([...pieces.read(out, 12, Int32Array)]).toEqual([...values, 0, 0])
  expect(codes(await pieces.run('tail', [out, input, 16]))).toEqual(['KTL5001'])
})

test('mbarrier state words and phases', async () => {
  const out = pieces.allocate(128)
  expect((await pieces.run('states', [out], { block: [1, 1, 1] })).findings).toEqual([])
  const words = [...pieces.read(out, 6, BigUint64Array)]
  // Pending counts and phases of the tokens; the third token of each round completes the phase, unless bytes are missing.
  expect(words.map((w) => [Number(w >> 63n), (1 << 20) - Number((w >> 43n) & 0xfffffn)])).toEqual([
    [0, 3],
    [0, 2],
    [0, 1],
    [1, 3],
    [1, 2],
    [1, 1],
  ])
  expect([...pieces.read(out + 64n, 7, Int32Array)]).toEqual([1, 0, 0, 1, 0, 0, 1])
})

test('over-arrival', async () => {
  const { findings } = await pieces.run('over_arrival', [])
  expect(findings.map((f) => f.code)).toEqual(['KTL5006'])
  expect(findings[0]!.message).toMatch(/over-arrival/)
})

test('distributed shared memory and remote arrivals', async () => {
  const out = pieces.allocate(32)
  expect((await pieces.run('ring', [out], { grid: [8, 1, 1], cluster: [4, 1, 1] })).findings).toEqual([])
  expect([...pieces.read(out, 8, Int32Array)]).toEqual([103, 100, 101, 102, 103, 100, 101, 102])
})

test.each(ORDERS.map((o) => [describeOrder(o), o] as const))('multicast loads, %s', async (_, order) => {
  const data = Float32Array.from({ length: 1024 }, (_, i) => i * 2)
  const out = pieces.allocate(8192)
  const map = tensorMap('f32', pieces.upload(data), 32, 32, 16, 32)
  expect(
    (await pieces.run('multicast', [out, map], { grid: [2, 1, 1], cluster: [2, 1, 1], ...order })).findings,
  ).toEqual([])
  expect([...pieces.read(out, 2048, Float32Array)]).toEqual([...data, ...data])
})

test('cluster launch control runs every tile once', async () => {
  const out = pieces.allocate(4 * 500)
  const result = await pieces.run('persistent', [out], { grid: [500, 1, 1] })
  expect(result.findings).toEqual([])
  expect([...pieces.read(out, 500, Int32Array)]).toEqual(Array.from({ length: 500 }, (_, i) => i + 1))
  expect(result.stats.ctas).toBe(500)
})

test('ldmatrix and mma.sync', async () => {
  const a = Array.from({ length: 256 }, (_, i) => ((i * 5) % 9) - 4)
  const b = Array.from({ length: 128 }, (_, i) => ((i * 3) % 7) - 3)
  const out = pieces.allocate(512)
  expect((await pieces.run('fragments', [out, pieces.upload(brain(a)), pieces.upload(brain(b))])).findings).toEqual([])
  const got = pieces.read(out, 128, Float32Array)
  for (let r = 0; r < 16; ++r)
    for (let c = 0; c < 8; ++c) {
      let sum = 1 + (c % 2) + (r >= 8 ? 2 : 0)
      for (let k = 0; k < 16; ++k) sum += a[r * 16 + k]! * b[c * 16 + k]!
      expect(got[r * 8 + c]).toBe(sum)
    }
})

test.each(ORDERS.map((o) => [describeOrder(o), o] as const))('tcgen05.st and ld round trip, %s', async (_, order) => {
  const out = pieces.allocate(1024)
  expect((await pieces.run('tmem_round_trip', [out], { block: [128, 1, 1], ...order })).findings).toEqual([])
  expect([...pieces.read(out, 256, Uint32Array)]).toEqual(
    Array.from({ length: 256 }, (_, i) => (i < 128 ? i * 3 : (i - 128) * 5)),
  )
})
