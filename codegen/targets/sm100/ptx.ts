/** PTX wrappers of the SM100 kernels: tcgen05 and cluster launch control beside the common ones. */
import {
  asm,
  COPY_WRAPPERS,
  DESCRIPTOR_WRAPPERS,
  EXCHANGE_WRAPPERS,
  inline,
  ROLE_WRAPPERS,
  SYNC_WRAPPERS,
  VECTOR_LOADS,
} from '../../pipe/ptx.ts'
import { EPILOGUE_WRAPPERS } from './ptx_epilogue.ts'

const mmaWrapper = (kind: string, group: number): string =>
  '// D[tmem] = A * B + (accumulate ? D : 0), one thread issues it.\n' +
  inline(
    `void tcgen05_mma_${kind}_cg${group}(u32 d, u64 a, u64 b, u32 idesc, bool accumulate)`,
    `  asm volatile("{\\n\\t.reg .pred p;\\n\\tsetp.ne.u32 p, %4, 0;\\n\\ttcgen05.mma.cta_group::${group}.kind::` +
      `${kind} [%0], %1, %2, %3, p;\\n\\t}"\n` +
      '    ::"r"(d), "l"(a), "l"(b), "r"(idesc), "r"(static_cast<u32>(accumulate)) : "memory");',
  )

/** Modifier of the instruction: how many scales a row has in it. */
const SCALED_KINDS = { mxf8f6f4: '1X', mxf4: '2X', mxf4nvf4: '4X' }

const scaledMmaWrapper = (kind: keyof typeof SCALED_KINDS, group: number): string =>
  '// D[tmem] = (A * scales of A) * (B * scales of B) + (accumulate ? D : 0), scales in tensor memory.\n' +
  inline(
    `void tcgen05_mma_${kind}_cg${group}(u32 d, u64 a, u64 b, u32 idesc, u32 scales_a, u32 scales_b, bool accumulate)`,
    `  asm volatile("{\\n\\t.reg .pred p;\\n\\tsetp.ne.u32 p, %6, 0;\\n\\ttcgen05.mma.cta_group::${group}.kind::` +
      `${kind}.block_scale.scale_vec::${SCALED_KINDS[kind]} [%0], %1, %2, %3, [%4], [%5], p;\\n\\t}"\n` +
      '    ::"r"(d), "l"(a), "l"(b), "r"(idesc), "r"(scales_a), "r"(scales_b), "r"(static_cast<u32>(accumulate)) : "memory");',
  )

/** The forms of tcgen05 for one CTA and for a pair. */
const grouped = (group: 1 | 2): Record<string, string> => ({
  [`tcgen05_alloc_cg${group}`]: asm(
    `void tcgen05_alloc_cg${group}(u32 slot, u32 columns)`,
    `tcgen05.alloc.cta_group::${group}.sync.aligned.shared::cta.b32 [%0], %1;`,
    '"r"(slot), "r"(columns)',
  ),
  [`tcgen05_relinquish_cg${group}`]: asm(
    `void tcgen05_relinquish_cg${group}()`,
    `tcgen05.relinquish_alloc_permit.cta_group::${group}.sync.aligned;`,
    '',
  ),
  [`tcgen05_dealloc_cg${group}`]: asm(
    `void tcgen05_dealloc_cg${group}(u32 taddr, u32 columns)`,
    `tcgen05.dealloc.cta_group::${group}.sync.aligned.b32 %0, %1;`,
    '"r"(taddr), "r"(columns)',
  ),
  [`tcgen05_commit_cg${group}`]:
    '// Arrives on the barrier once every MMA that this thread issued before is done.\n' +
    asm(
      `void tcgen05_commit_cg${group}(u32 barrier)`,
      `tcgen05.commit.cta_group::${group}.mbarrier::arrive::one.shared::cluster.b64 [%0];`,
      '"r"(barrier)',
    ),
  [`tcgen05_commit_multicast_cg${group}`]:
    '// The same, on the barrier at this place in every CTA of the mask.\n' +
    asm(
      `void tcgen05_commit_multicast_cg${group}(u32 barrier, u16 mask)`,
      `tcgen05.commit.cta_group::${group}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;`,
      '"r"(barrier), "h"(mask)',
    ),
  [`tcgen05_copy_scales_cg${group}`]:
    '// 512 bytes to four columns, 16 of each to lane l of every 32 (PTX ISA 9.7.16.8.2). MMAs that this thread issues next see them.\n' +
    asm(
      `void tcgen05_copy_scales_cg${group}(u32 columns, u64 from)`,
      `tcgen05.cp.cta_group::${group}.32x128b.warpx4 [%0], %1;`,
      '"r"(columns), "l"(from)',
    ),
  ...Object.fromEntries(
    (['mxf8f6f4', 'mxf4', 'mxf4nvf4'] as const).map((kind) => [
      `tcgen05_mma_${kind}_cg${group}`,
      scaledMmaWrapper(kind, group),
    ]),
  ),
  ...Object.fromEntries(
    ['f16', 'tf32', 'f8f6f4', 'i8'].map((kind) => [`tcgen05_mma_${kind}_cg${group}`, mmaWrapper(kind, group)]),
  ),
})

export const SM100_WRAPPERS: Readonly<Record<string, string>> = {
  ...SYNC_WRAPPERS,
  clc_try_cancel: asm(
    'void clc_try_cancel(u32 response, u32 barrier)',
    'clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];',
    '"r"(response), "r"(barrier)',
  ),
  clc_try_cancel_multicast: asm(
    'void clc_try_cancel_multicast(u32 response, u32 barrier)',
    'clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];',
    '"r"(response), "r"(barrier)',
  ),
  clc_first_cta:
    '// First CTA of the cluster that will not start because this one does its work; ~0: all have started.\n' +
    inline(
      'u32 clc_first_cta(u32 response)',
      '  u32 cta;\n  asm volatile("{\\n\\t.reg .pred p;\\n\\t.reg .b128 answer;\\n\\tld.shared.b128 answer, [%1];\\n\\t"\n' +
        '    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\\n\\tmov.u32 %0, 0xffffffff;\\n\\t"\n' +
        '    "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, answer;\\n\\t}"\n' +
        '    : "=r"(cta) : "r"(response) : "memory");\n' +
        '  return cta;',
    ),
  ...COPY_WRAPPERS,
  ...VECTOR_LOADS,
  ...ROLE_WRAPPERS,
  ...EXCHANGE_WRAPPERS,
  ...grouped(1),
  ...grouped(2),
  tcgen05_fence_before: asm('void tcgen05_fence_before()', 'tcgen05.fence::before_thread_sync;', ''),
  tcgen05_fence_after: asm('void tcgen05_fence_after()', 'tcgen05.fence::after_thread_sync;', ''),
  ...DESCRIPTOR_WRAPPERS,
  ...EPILOGUE_WRAPPERS,
}
