// Instructions of the device's table, each operand at its extremes.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <sstream>
#include "../src/virtual/decode_table.h"
#include "fuzz.h"

namespace ktl::fuzz {
namespace {

// What the kernel's registers hold: %r0 shared data, %r1 an mbarrier, %r2 Tensor Memory, %r3 the thread, %r4 1, %r5 16,
// %r6 an instruction descriptor, %r7 -1, %r8 0, %r9 128; %rd0 the buffer, %rd1 a tensor map, %rd2 shared data and %rd6
// local data by generic address, %rd3 and %rd4 matrix descriptors, %rd5 1, %rd7 16; %p0 true, %p1 half the lanes.
// Forms of one line; those of sm_90 and sm_100 are marked.
constexpr const char* kForms[] = {
    "ld.global.u32 %r10, [%rd0];",
    "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd0+16];",
    "ld.u8 %r10, [%rd0+3];",
    "ld.shared.u32 %r10, [%r0];",
    "ld.shared.v2.u64 {%rd10, %rd11}, [%r0+16];",
    "ld.volatile.shared.u32 %r10, [%rd2];",
    "ld.acquire.gpu.global.u32 %r10, [%rd0];",
    "ld.local.u32 %r10, [%rd8];",
    "ld.local.u32 %r10, [local+4];",
    "ld.param.u64 %rd10, [p0];",
    "ld.param.u32 %r10, [p4+120];",
    "ld.shared::cluster.u32 %r10, [%r0+0x1000000];",
    "ld.const.u32 %r10, [table+4];",
    "ld.u32 %r10, [%rd2];",
    "ld.u32 %r10, [%rd6];",
    "ld.shared.b128 %q0, [%r0];",
    "ldu.global.u32 %r10, [%rd0];",
    "st.global.u32 [%rd0+512], %r3;",
    "st.global.v4.u32 [%rd0+1024], {%r3, %r4, %r5, %r7};",
    "st.shared.u32 [%r0], %r3;",
    "st.shared.v4.u32 [%r0+16], {%r3, %r4, %r5, %r7};",
    "st.u32 [%rd6], %r3;",
    "st.u64 [%rd2+8], %rd0;",
    "st.local.u16 [%rd8+2], %h0;",
    "st.shared::cluster.u32 [%r0], %r3;",
    "st.volatile.global.u32 [%rd0+600], %r3;",
    "st.bulk.weak.shared::cta [%r0], 64, 0;",
    "st.bulk.weak.shared::cta [%r0], %rd7, 0;",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r0], %r3, [%r1];",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r0], {%r3, %r4, %r5, %r7}, [%r1];",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r0], %r3, [%r1];",
    "atom.global.add.u32 %r10, [%rd0+512], %r3;",
    "atom.shared.cas.b64 %rd10, [%r0], %rd5, %rd7;",
    "atom.global.exch.b128 %q0, [%rd0+512], %q1;",
    "atom.add.noftz.v2.f16x2 {%r10, %r11}, [%rd0+512], {%r3, %r4};",
    "red.global.add.v4.f32 [%rd0+512], {%r3, %r4, %r5, %r7};",
    "red.shared.max.s32 [%r0], %r3;",
    "atom.shared::cluster.inc.u32 %r10, [%r0], %r3;",
    "cvta.to.shared.u64 %rd10, %rd2;",
    "cvta.local.u64 %rd10, %rd8;",
    "isspacep.shared %p2, %rd2;",
    "mapa.shared::cluster.u32 %r10, %r0, %r4;",
    "mapa.u64 %rd10, %rd2, %r4;",
    "getctarank.shared::cluster.u32 %r10, %r0;",
    "getctarank.u64 %r10, %rd2;",
    "prefetch.global.L1 [%rd0];",
    "prefetch.tensormap [%rd1];",
    "prefetchu.L1 [%rd0];",
    "applypriority.global.L2::evict_normal [%rd0], 128;",
    "discard.global.L2 [%rd0], 128;",
    "createpolicy.fractional.L2::evict_first.b64 %rd10, 1.0;",
    "cp.async.ca.shared.global [%r0], [%rd0], 16;",
    "cp.async.cg.shared.global [%r0], [%rd0], 16, %r5;",
    "cp.async.ca.shared.global [%r0], [%rd0], 4, %r4;",
    "cp.async.ca.shared.global [%r0], [%rd0], 8, %p1;",
    "cp.async.commit_group;",
    "cp.async.wait_group 1;",
    "cp.async.wait_all;",
    "cp.async.mbarrier.arrive.shared.b64 [%r1];",
    "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd0], %r5, [%r1];",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r0], [%rd0], %r5, [%r1], %h1;",
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r0], [%r0+64], %r5, [%r1];",
    "cp.async.bulk.global.shared::cta.bulk_group [%rd0+512], [%r0], %r5;",
    "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0+512], [%r0], %r5, %h1;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0+512], [%r0], %r5;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.noftz.f16 [%rd0+512], [%r0], %r9;",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u64 [%r0], [%r0+64], %r5, [%r1];",
    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd1, {%r8}], [%r1];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r0], [%rd1, {%r8, %r8}], [%r1], %h1;",
    "cp.async.bulk.tensor.3d.shared::cta.global.mbarrier::complete_tx::bytes [%r0], [%rd1, {%r8, %r4, %r8}], [%r1];",
    "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 [%r0], [%rd1, {%r8, %r4, %r8, %r8, %r8}], [%r1];",
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r8, %r8}], [%r0];",
    "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%rd1, {%r8, %r8, %r4}], [%r0];",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd1, {%r8, %r8}], [%r0];",
    "cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {%r8, %r8}];",
    "cp.async.bulk.prefetch.L2.global [%rd0], %r5;",
    "cp.async.bulk.commit_group;",
    "cp.async.bulk.wait_group 0;",
    "cp.async.bulk.wait_group.read 1;",
    "mbarrier.init.shared::cta.b64 [%r1+8], 1;",
    "mbarrier.init.shared.b64 [%r1+8], %r4;",
    "mbarrier.inval.shared.b64 [%r1];",
    "mbarrier.arrive.shared::cta.b64 %rd10, [%r1];",
    "mbarrier.arrive.shared::cta.b64 %rd10, [%r1], 2;",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1], %r4;",
    "mbarrier.arrive.expect_tx.shared::cta.b64 %rd10, [%r1], 16;",
    "mbarrier.arrive_drop.shared::cta.b64 %rd10, [%r1], 1;",
    "mbarrier.arrive.noComplete.shared::cta.b64 %rd10, [%r1], %r4;",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], %r5;",
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 16;",
    "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], %r8;",
    "mbarrier.try_wait.shared::cta.b64 %p2, [%r1], %rd10;",
    "mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r1], 0;",
    "mbarrier.pending_count.b64 %r10, %rd10;",
    "bar.sync 0;",
    "bar.sync %r4;",
    "bar.sync 1, 32;",
    "bar.arrive 2, %r9;",
    "barrier.sync.aligned 3, 64;",
    "barrier.sync 4, %r9;",
    "barrier.arrive 5, 64;",
    "bar.red.popc.u32 %r10, 6, %p1;",
    "bar.red.and.pred %p2, 7, 32, %p1;",
    "barrier.red.or.pred %p2, %r4, %p1;",
    "barrier.cluster.arrive.aligned;",
    "barrier.cluster.arrive.relaxed;",
    "barrier.cluster.wait.aligned;",
    "barrier.cluster.wait;",
    "bar.warp.sync %r7;",
    "shfl.sync.up.b32 %r10|%p2, %r3, %r4, 0, -1;",
    "shfl.sync.idx.b32 %r10, %r3, %r4, 31, %r7;",
    "shfl.sync.bfly.b32 %r10, %r3, 1, 0x1f1f, -1;",
    "vote.sync.ballot.b32 %r10, %p1, %r7;",
    "vote.sync.any.pred %p2, %p1, -1;",
    "match.any.sync.b32 %r10, %r3, %r7;",
    "match.all.sync.b64 %r10|%p2, %rd0, %r7;",
    "redux.sync.add.s32 %r10, %r3, %r7;",
    "elect.sync %r10|%p2, %r7;",
    "activemask.b32 %r10;",
    "bra END;",
    "@%p1 bra HERE;",
    "@%p2 bra HERE;",
    "bra.uni HERE;",
    "brx.idx %r4, targets;",
    "call.uni (result), callee, (argument);",
    "@%p1 ret;",
    "@%p1 exit;",
    "ret;",
    "exit;",
    "@%p1 trap;",
    "brkpt;",
    "pmevent 1;",
    "pmevent 6;",
    "nanosleep.u32 %r5;",
    "membar.gl;",
    "fence.proxy.async.shared::cta;",
    "fence.acq_rel.cluster;",
    "fence.mbarrier_init.release.cluster;",
    "griddepcontrol.wait;",
    "setmaxnreg.inc.sync.aligned.u32 240;",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r0];",
    "ldmatrix.sync.aligned.m8n8.x1.trans.b16 {%r10}, [%rd2];",
    "ldmatrix.sync.aligned.m8n8.x2.b16 {%r10, %r11}, [%rd0];",
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r0], {%r3, %r4};",
    "movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r3;",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r10, %r11, %r12, %r13}, {%r3, %r4, %r5, %r7}, {%r3, %r4}, {%r10, %r11, %r12, %r13};",
    "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%rd10, %rd11, %rd12, %rd13}, {%rd0, %rd1, %rd2, %rd3}, {%rd4, %rd5}, {%rd10, %rd11, %rd12, %rd13};",
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%r10, %r11, %r12, %r13}, {%r3, %r4, %r5, %r7}, {%r3, %r4}, {%r10, %r11, %r12, %r13};",
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%r10, %r11, %r12, %r13}, {%r3, %r4, %r5, %r7}, {%r3, %r4}, {%r10, %r11, %r12, %r13};",
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, {%r3, %r4}, {%r5, %r7}, {%r0, %r1, %r3, %r4, %r5, %r6, %r7, %r8};",
    "mma.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.u4.s32 {%r10, %r11, %r12, %r13}, {%r3, %r4, %r5, %r7}, {%r3, %r4}, {%r10, %r11, %r12, %r13};",
    "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%r10, %r11, %r12, %r13}, {%r3, %r4, %r5, %r7}, {%r3, %r4}, {%r10, %r11, %r12, %r13};",
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%r0], %r5;",
    "wmma.load.b.sync.aligned.col.m32n8k16.global.s8 {%r10}, [%rd0], %r5;",
    "wmma.load.c.sync.aligned.col.m16n16k16.f32 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%rd2], %r9;",
    "wmma.store.d.sync.aligned.row.m8n32k16.shared.f32 [%r0], {%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r0}, %r5;",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32 {%r10, %r11, %r12, %r13}, {%r0, %r1, %r3, %r4, %r5, %r6, %r7, %r8}, {%r0, %r1, %r3, %r4, %r5, %r6, %r7, %r8}, {%r0, %r1, %r3, %r4, %r5, %r6, %r7, %r8};",
    "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 {%rd10, %rd11}, {%rd0}, {%rd1}, {%rd2, %rd3};",
    "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%r10, %r11}, {%r3}, {%r4}, {%r5, %r7};",
    "vadd4.u32.s32.u32.sat %r10, %r3, %r7, %r4;",
    "vset2.s32.u32.lt.add %r10, %r3, %r7, %r4;",
    "mov.b64 {%r10, %r11}, %rd0;",
    "mov.b64 %rd10, {%r3, %r4};",
    "mov.u32 %r10, %clock;",
    "mov.u64 %rd10, %globaltimer;",
    "mov.u32 %r10, data+8;",
    "mov.b128 %q0, {%rd0, %rd1};",
    "mov.b32 {%h0, %h1}, %r3;",
    "mov.u64 %rd10, callee;",
    "mov.u64 %rd10, p4;",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r0], [%r1];",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%r0], [%r1];",
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q0;",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r10, %r11, %r12, _}, %q0;",
    "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd0;",
    "tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 2;",
    "tensormap.replace.tile.box_dim.global.b1024.b32 [%rd1], 1, %r5;",
    "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r0], 3, %rd7;",
    "tensormap.replace.tile.element_stride.global.b1024.b32 [%rd1], 4, %r4;",
    "tensormap.replace.tile.global_dim.global.b1024.b32 [%rd1], 0, %r9;",
    "tensormap.replace.tile.elemtype.global.b1024.b32 [%rd1], 6;",
    "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%rd1], 3;",
    "tensormap.replace.tile.fill_mode.global.b1024.b32 [%rd1], 1;",
    "tensormap.replace.tile.interleave_layout.global.b1024.b32 [%rd1], 0;",
    "tensormap.replace.tile.swizzle_atomicity.global.b1024.b32 [%rd1], 1;",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r0], 128;",
    "lop3.b32 %r10, %r3, %r4, %r5, 0x96;",
    "lop3.or.b32 %r10|%p2, %r3, %r4, %r5, 0x3c, %p1;",
    "prmt.b32 %r10, %r3, %r4, 0x7531;",
    "prmt.f4e.b32 %r10, %r3, %r4, %r5;",
    "bfe.u32 %r10, %r3, %r4, %r5;",
    "bfe.s64 %rd10, %rd0, 63, 64;",
    "bfi.b64 %rd10, %rd0, %rd1, %r4, %r5;",
    "shf.l.wrap.b32 %r10, %r3, %r4, %r5;",
    "fns.b32 %r10, %r7, %r4, %r5;",
    "setp.lt.and.s32 %p2|%p3, %r3, %r4, %p1;",
    "setp.ltu.f16x2 %p2|%p3, %r3, %r4;",
    "set.lt.u32.f32 %r10, %r3, %r4;",
    "selp.b32 %r10, %r3, %r4, %p1;",
    "slct.s32.f32 %r10, %r3, %r4, %r5;",
    "slct.u64.s32 %rd10, %rd0, %rd1, %r3;",
    "testp.finite.f32 %p2, %r3;",
    "cvt.rni.s32.f32 %r10, %r3;",
    "cvt.rn.satfinite.e4m3x2.f32 %h0, %r3, %r4;",
    "cvt.rn.f16x2.e4m3x2 %r10, %h0;",
    "cvt.rzi.u64.f64 %rd10, %rd0;",
    "cvt.u8.s64 %h0, %rd0;",
    "cvt.rn.bf16x2.f32 %r10, %r3, %r4;",
    "cvt.sat.f32.f64 %r10, %rd0;",
    "mad.wide.s32 %rd10, %r3, %r4, %rd0;",
    "mad.hi.s64 %rd10, %rd0, %rd1, %rd2;",
    "mad24.hi.u32 %r10, %r3, %r4, %r5;",
    "mul.wide.u16 %r10, %h0, %h1;",
    "madc.lo.cc.u32 %r10, %r3, %r4, %r5;",
    "add.cc.u32 %r10, %r3, %r4;",
    "addc.cc.u64 %rd10, %rd0, %rd1;",
    "subc.u32 %r10, %r3, %r4;",
    "sad.s32 %r10, %r3, %r4, %r5;",
    "div.s64 %rd10, %rd0, %rd1;",
    "rem.s32 %r10, %r3, %r4;",
    "dp4a.s32.u32 %r10, %r3, %r4, %r5;",
    "dp2a.lo.u32.s32 %r10, %r3, %r4, %r5;",
    "min.s32 %r10, %r3, %r4;",
    "neg.s32 %r10, %r3;",
    "abs.s64 %rd10, %rd0;",
    "shl.b64 %rd10, %rd0, %r4;",
    "shr.s16 %h0, %h1, %r4;",
    "bmsk.clamp.b32 %r10, %r3, %r4;",
    "szext.clamp.s32 %r10, %r3, %r4;",
    "bfind.shiftamt.s64 %r10, %rd0;",
    "popc.b64 %r10, %rd0;",
    "brev.b64 %rd10, %rd0;",
    "clz.b32 %r10, %r3;",
    "fma.rn.f32x2 %rd10, %rd0, %rd1, %rd2;",
    "fma.rn.ftz.f16x2 %r10, %r3, %r4, %r5;",
    "div.rn.f32 %r10, %r3, %r4;",
    "sqrt.rn.f64 %rd10, %rd0;",
    "ex2.approx.f32 %r10, %r3;",
    "tanh.approx.bf16x2 %r10, %r3;",
    // sm_100a
    "stmatrix.sync.aligned.m16n8.x2.trans.shared.b8 [%r0], {%r3, %r4};",
    "ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64 {%r10, %r11}, [%r0];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r0], [%rd1, {%r8, %r3, %r4, %r7, %r5}], [%r1];",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {%r8, %r3, %r4, %r7, %r5}], [%r0];",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0+64], 32;",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0+64], %r9;",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;",
    "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r2, %r9;",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r10, %r11, %r12, %r13}, [%r2];",
    "tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {%r10, %r11}, [%r2];",
    "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r10, %r11}, [%r2], 8;",
    "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r10, %r11, %r12, %r13}, [%r2+0x100000];",
    "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r2], {%r3, %r4};",
    "tcgen05.st.sync.aligned.16x64b.x1.b32 [%r2], {%r3};",
    "tcgen05.st.sync.aligned.16x32bx2.x1.unpack::16b.b32 [%r2], 4, {%r3};",
    "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.wait::st.sync.aligned;",
    "tcgen05.cp.cta_group::1.128x256b [%r2], %rd3;",
    "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r2], %rd4;",
    "tcgen05.cp.cta_group::1.64x128b.warpx2::02_13.b8x16.b4x16_p64 [%r2], %rd3;",
    "tcgen05.cp.cta_group::2.4x256b [%r2], %rd3;",
    "tcgen05.shift.cta_group::1.down [%r2];",
    "tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd3, %rd4, %r6, %p0;",
    "tcgen05.mma.cta_group::1.kind::tf32 [%r2], %rd3, %rd4, %r6, %p2, 1;",
    "tcgen05.mma.cta_group::1.kind::i8 [%r2], [%r2+16], %rd4, %r6, %p1;",
    "tcgen05.mma.cta_group::2.kind::f8f6f4 [%r2], %rd3, %rd4, %r6, %p0;",
    "tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd3, %rd4, %r6, {%r3, %r4, %r5, %r7}, !%p1;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];",
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r1], %h1;",
    "tcgen05.fence::before_thread_sync;",
    "tcgen05.fence::after_thread_sync;",
    // sm_90a
    "wgmma.fence.sync.aligned;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
    "wgmma.wait_group.sync.aligned 1;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd3, %rd4, %p0, 1, 1, 0, 0;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd3, %rd4, 1, -1, 1, 1, 1;",
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, {%r3, %r4, %r5, %r7}, %rd4, %p1, 1, 1, 1;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r10, %r11}, %rd3, %rd4, %p0, 1, 1, 0, 0;",
    "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%r10, %r11, %r12, %r13}, %rd3, %rd4, %p0;",
    "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%f0, %f1, %f2, %f3}, %rd3, %rd4, %p0, 1, 1;",
    "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f0, %f1, %f2, %f3}, %rd3, %rd4, %p0, 1, 1;",
    "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r10, %r11, %r12, %r13}, %rd3, %rd4, %p0;",
    "mov.b32 %f4, %f0;",
    "add.f32 %f5, %f1, %f2;",
};

std::string opcodeOf(const std::string& line) {
  const size_t at = line[0] == '@' ? line.find(' ') + 1 : 0;
  return line.substr(at, line.find_first_of(". ;", at) - at);
}

bool belongsTo(const std::string& opcode, bool sm100) {
  if (opcode == "wgmma" || opcode == "setmaxnreg") return !sm100 || opcode == "setmaxnreg";
  return opcode != "tcgen05" || sm100;
}

// Operands that can be replaced: registers with values and numbers. Positions in the line.
struct Spot {
  size_t at, length;
  bool isRegister, isWide, isHalf;
};
std::vector<Spot> spotsOf(const std::string& line) {
  std::vector<Spot> spots;
  size_t i = line[0] == '@' ? line.find(' ') : 0;
  i = line.find(' ', i + 1);  // the opcode has none
  if (line[0] != '@') i = line.find(' ');
  while (i < line.size()) {
    if (line[i] == '%') {
      size_t end = i + 1;
      while (std::isalnum(static_cast<unsigned char>(line[end]))) ++end;
      const std::string name = line.substr(i + 1, end - i - 1);
      if (name[0] == 'r' || name[0] == 'h')
        spots.push_back({i, end - i, true, name.size() > 1 && name[1] == 'd', name[0] == 'h'});
      i = end;
    } else if (std::isdigit(static_cast<unsigned char>(line[i])) || (line[i] == '-' && std::isdigit(static_cast<unsigned char>(line[i + 1])))) {
      size_t end = i + 1;
      while (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '.') ++end;
      spots.push_back({i, end - i, false, false, false});
      i = end;
    } else if (std::isalpha(static_cast<unsigned char>(line[i])) || line[i] == '_') {
      while (std::isalnum(static_cast<unsigned char>(line[i])) || line[i] == '_') ++i;
    } else {
      ++i;
    }
  }
  return spots;
}

// A register becomes another one that holds the value; what sets it goes to `before`.
void replaceSpot(Random& random, std::string& line, const Spot& spot, uint64_t value, std::string& before) {
  if (!spot.isRegister || chance(random, 8)) {
    line.replace(spot.at, spot.length, literal(random, value));
    return;
  }
  const std::string name = std::string(spot.isWide ? "%rd" : spot.isHalf ? "%h" : "%r") + (spot.isHalf ? "3" : "15");
  before += std::string("mov.b") + (spot.isWide ? "64 " : spot.isHalf ? "16 " : "32 ") + name + ", " +
            std::to_string(spot.isWide ? value : spot.isHalf ? value & 0xffff : value & 0xffffffff) + ";\n";
  line.replace(spot.at, spot.length, name);
}

// The modifiers of a row of the table, one choice of each group.
std::string modifiersOf(Random& random, const Row& row) {
  std::istringstream groups(row.pattern);
  std::string text, group;
  while (groups >> group) {
    if (group.back() == '?') {
      if (!chance(random, 3)) continue;
      group.pop_back();
    }
    std::vector<std::string> choices;
    std::istringstream alternatives(group);
    for (std::string choice; std::getline(alternatives, choice, '|');) choices.push_back(choice);
    std::string choice = pick(random, choices);
    if (!choice.empty() && choice.back() == '*') {
      static constexpr const char* kEvictions[] = {"evict_first", "evict_last", "128B"};
      static constexpr const char* kShapes[] = {"8k16", "8k32", "16k16", "24k8", "256k16", "4k16", "8k", "999999999999k16", "0k0"};
      choice.pop_back();
      choice += choice.rfind("m64n", 0) == 0 ? pick(random, kShapes) : pick(random, kEvictions);
    }
    text += "." + choice;
  }
  return text;
}

// A form whose modifiers are those of any row with its opcode; arithmetic on registers of any width.
std::string rowInstruction(Random& random, const Row& row) {
  std::vector<const char*> same;
  for (const char* form : kForms)
    if (opcodeOf(form) == row.opcode) same.push_back(form);
  std::string operands;
  if (!same.empty()) {
    const std::string form = pick(random, same);
    const size_t begin = form[0] == '@' ? form.find(' ') + 1 : 0, blank = form.find(' ', begin);
    operands = blank == std::string::npos ? ";" : form.substr(blank);
  } else {
    static constexpr const char* kRegisters[] = {"%r3", "%r4", "%rd0", "%rd5", "%h0", "%r7", "%f0", "%p1", "1"};
    static constexpr const char* kDestinations[] = {"%r10", "%r10", "%rd10", "%h0", "%p2", "%f0"};
    operands = std::string(" ") + pick(random, kDestinations);
    for (uint32_t count = 1 + random.below(3); count > 0; --count) operands += std::string(", ") + pick(random, kRegisters);
    operands += ";";
  }
  return row.opcode + modifiersOf(random, row) + operands;
}

std::string preamble(Random& random, bool sm100, bool prepared) {
  std::ostringstream out;
  out << ".version 9.0\n.target " << (sm100 ? "sm_100a" : "sm_90a") << "\n.address_size 64\n"
      << ".global .align 16 .b32 cell[4];\n.const .align 16 .b32 table[4] = {1, 2, 3, 4};\n"
      << ".func (.param .b32 out) callee (.param .b32 in) {\n.reg .b32 %x;\nld.param.b32 %x, [in];\nst.param.b32 [out], %x;\nret;\n}\n"
      << ".visible .entry kernel (.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .align 64 .b8 p4[128]) {\n"
      << ".reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n.reg .b16 %h<6>;\n.reg .pred %p<6>;\n.reg .f32 %f<8>;\n.reg .b128 %q<2>;\n"
      << ".shared .align 1024 .b8 data[" << (chance(random, 2) ? 8192 : 1024) << "];\n.shared .align 8 .b8 bars[32];\n"
      << ".local .align 16 .b8 local[64];\n.param .b32 argument;\n.param .b32 result;\ntargets: .branchtargets END, HERE;\n"
      << "mov.u32 %r0, data;\nmov.u32 %r1, bars;\nmov.u32 %r2, 0;\nmov.u32 %r3, %tid.x;\nmov.u32 %r4, 1;\nmov.u32 %r5, 16;\n"
      << "mov.u32 %r6, " << instructionDescriptor(random) << ";\nmov.u32 %r7, -1;\nmov.u32 %r8, 0;\nmov.u32 %r9, 128;\n"
      << "ld.param.u64 %rd0, [p0];\nld.param.u64 %rd1, [p1];\ncvt.u64.u32 %rd2, %r0;\ncvta.shared.u64 %rd2, %rd2;\n"
      << "mov.u64 %rd3, " << sharedDescriptor(random, sm100) << ";\nmov.u64 %rd4, " << sharedDescriptor(random, sm100) << ";\n"
      << "mov.u64 %rd5, 1;\nmov.u64 %rd8, local;\ncvta.local.u64 %rd6, %rd8;\nmov.u64 %rd7, 16;\nmov.b16 %h0, 1;\nmov.b16 %h1, 1;\n"
      << "setp.eq.u32 %p0, %r4, 1;\nsetp.lt.u32 %p1, %r3, 16;\nst.param.b32 [argument], %r3;\n";
  if (prepared) {
    out << "setp.eq.u32 %p3, %r3, 0;\n@%p3 mbarrier.init.shared::cta.b64 [%r1], " << 1 + random.below(2) << ";\n"
        << "st.bulk.weak.shared::cta [%r0], 1024, 0;\n";
    if (sm100) out << "setp.lt.u32 %p3, %r3, 32;\n@%p3 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1+16], 64;\n";
    out << "bar.sync 0;\n";
    if (chance(random, 2)) out << "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 16;\n";
  }
  return out.str();
}

}  // namespace

std::vector<std::string> tableOpcodes() {
  std::set<std::string> opcodes;
  for (const Row& row : instructionTable()) opcodes.insert(row.opcode);
  return {opcodes.begin(), opcodes.end()};
}

Mutant opcodeMutant(Random& random, const std::string& opcode) {
  Mutant mutant;
  surround(random, mutant, true);
  fillParameters(random, mutant, {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {64, 128}});
  const bool sm100 = belongsTo(opcode, true);
  mutant.target = sm100 ? "sm_100a" : "sm_90a";
  std::vector<const Row*> rows;
  for (const Row& row : instructionTable())
    if (row.opcode == opcode) rows.push_back(&row);
  mutant.ptx = preamble(random, sm100, true) + rowInstruction(random, *pick(random, rows)) + "\nHERE:\nEND:\nret;\n}\n";
  return mutant;
}

Mutant formMutant(Random& random, uint64_t number) {
  Mutant mutant;
  surround(random, mutant, true);
  fillParameters(random, mutant, {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {64, 128}});
  const uint64_t buffer = kBuffer, map = kBuffer + 128 * random.below(kMaps);
  if (mutant.config.params.size() >= 16) {
    std::memcpy(mutant.config.params.data(), &buffer, 8);
    std::memcpy(mutant.config.params.data() + 8, &map, 8);
  }
  // The first instruction counts through everything; the others are any.
  const std::string first = kForms[number % std::size(kForms)];
  const std::string opcode = opcodeOf(first);
  const bool sm100 = opcode == "tcgen05" || (belongsTo(opcode, false) ? chance(random, 2) && belongsTo(opcode, true) : true);
  mutant.target = sm100 ? "sm_100a" : "sm_90a";
  if ((opcode == "wgmma" || opcode == "tcgen05") && !chance(random, 4)) mutant.config.block = {128, 1, 1};
  std::string body;
  const uint32_t count = 1 + random.below(6), systematic = random.below(count);
  const Table& table = instructionTable();
  for (uint32_t i = 0; i < count; ++i) {
    std::string line;
    if (i == systematic) {
      line = first;
    } else if (chance(random, 3)) {
      line = rowInstruction(random, table[random.below(static_cast<uint32_t>(table.size()))]);
    } else {
      line = pick(random, kForms);
      // Mostly of the same family, so that they meet.
      for (uint32_t tries = 0; tries < 8 && opcodeOf(line) != opcode && !chance(random, 4); ++tries) line = pick(random, kForms);
    }
    if (!belongsTo(opcodeOf(line), sm100)) continue;
    std::string before;
    const std::vector<Spot> spots = spotsOf(line);
    if (!spots.empty()) {
      if (i == systematic) {
        const uint64_t turn = number / std::size(kForms);
        replaceSpot(random, line, spots[turn % spots.size()], extreme(turn / spots.size() % extremes()), before);
      } else if (chance(random, 2)) {
        replaceSpot(random, line, pick(random, spots), wild(random), before);
      }
    }
    if (line[0] != '@' && chance(random, 6)) line = "@%p1 " + line;
    body += before + line + "\n";
    if (chance(random, 12)) body += before + line + "\n";
  }
  const bool again = chance(random, 8);
  mutant.ptx = preamble(random, sm100, !chance(random, 6)) + (again ? "AGAIN:\n" : "") + body + "HERE:\n";
  if (again) mutant.ptx += "add.u32 %r8, %r8, 1;\nsetp.lt.u32 %p3, %r8, " + std::to_string(1 + random.below(40)) + ";\n@%p3 bra AGAIN;\n";
  if (chance(random, 2)) mutant.ptx += "bar.sync 0;\n";
  if (chance(random, 3)) mutant.ptx += "st.global.u32 [%rd0+2048], %r10;\n";
  mutant.ptx += "END:\nret;\n}\n";
  return mutant;
}

}  // namespace ktl::fuzz
