// The operand forms of the asynchronous and tensor-core instructions of sm_100a.
#include <cstdint>

extern "C" __global__ void tcgen05_forms(uint32_t smem, uint32_t taddr, uint64_t a, uint64_t b, uint32_t idesc, uint32_t p,
                                         uint32_t *out) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;" ::"r"(smem));
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n"
      "tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [%0+16], [%5], %2, %3, {%4, %4, %4, %4}, !p;\n"
      "tcgen05.mma.cta_group::1.kind::tf32 [%0], %1, %2, %3, 1, 3;\n"
      "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%5], [%5+4], p;\n"
      "}" ::"r"(taddr), "l"(a), "l"(b), "r"(idesc), "r"(p), "r"(taddr));
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(smem));
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(smem), "h"((short)3));
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(taddr), "l"(a));
  asm volatile("tcgen05.cp.cta_group::1.64x128b.warpx2::02_13.b8x16.b4x16_p64 [%0], %1;" ::"r"(taddr), "l"(a));
  asm volatile("tcgen05.shift.cta_group::1.down [%0];" ::"r"(taddr));
  uint32_t r[4];
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(r[0]) : "r"(taddr));
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {%0, %1, %2, %3}, [%4+32];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(taddr));
  asm volatile("tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%0, %1}, [%2], 8;" : "=r"(r[2]), "=r"(r[3]) : "r"(taddr));
  asm volatile("tcgen05.wait::ld.sync.aligned;");
  asm volatile("tcgen05.st.sync.aligned.16x64b.x4.b32 [%0], {%1, %2, %3, %4};" ::"r"(taddr), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
  asm volatile("tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\ntcgen05.fence::after_thread_sync;");
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;\ntcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(taddr));
  out[0] = r[0] + r[1] + r[2] + r[3];
}

struct alignas(64) Map {
  char bytes[128];
};
extern "C" __global__ void copies(const __grid_constant__ Map map, uint32_t smem, uint32_t bar, const void *global, int x, int y) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map));
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(smem), "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
  asm volatile("cp.async.bulk.tensor.3d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, 7}], [%4], %5, %6;" ::"r"(smem), "l"(&map), "r"(x), "r"(y), "r"(bar), "h"((short)3), "l"(0x12F0000000000000ull) : "memory");
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %3}], [%4], {%5};" ::"r"(smem), "l"(&map), "r"(x), "r"(y), "r"(bar), "h"((short)1) : "memory");
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x), "r"(y), "r"(smem) : "memory");
  asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%1}], [%2];" ::"l"(&map), "r"(x), "r"(smem) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem), "l"(global), "r"(x), "r"(bar) : "memory");
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}

extern "C" __global__ void synchronisation(uint32_t bar, uint32_t *out) {
  uint32_t leader, lane;
  uint64_t state;
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(bar));
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %0, [%1], 128;" : "=l"(state) : "r"(bar));
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0+-8];" ::"r"(bar));
  asm volatile("{\n.reg .pred p;\nelect.sync %1|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(leader), "=r"(lane));
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\n@!p bra SKIP;\nst.global.b32 [%0], 1;\nSKIP:\n}" ::"l"(out));
  asm volatile("{\n.reg .b128 q;\n.reg .pred p;\nclusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%3], [%3];\n"
               "ld.shared.b128 q, [%3];\nclusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, q;\n"
               "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, %1, %2, _}, q;\n}"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]) : "r"(bar));
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;");
  float2 f = {1.f, 2.f};
  asm volatile("{\n.reg .b64 t;\nmov.b64 t, {%0, %1};\nfma.rn.f32x2 t, t, t, t;\nmov.b64 {_, %0}, t;\n}" : "+f"(f.x), "+f"(f.y));
  out[leader] = lane + state + f.x;
}
