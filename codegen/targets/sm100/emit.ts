/** Tile IR → CUDA statements, operations that SM100 alone has: tensor memory, tcgen05, cluster launch control. */
import { barrierAddress, call, call0, note, slotAddress, type EmitContext } from '../../pipe/context.ts'
import { COMMON_EMITTERS } from '../../pipe/emit.ts'
import { emitOps, type Emitters } from '../../pipe/context.ts'

/** The wrapper for the CTAs of one MMA. */
const grouped = (c: EmitContext, wrapper: string): string => `${wrapper}_cg${c.program.cluster.pair}`

export const SM100_EMITTERS: Emitters = {
  ...COMMON_EMITTERS,
  while_work(op, c) {
    c.out.block('for (u32 next_work = first_work; next_work < works;)', () => emitOps(op.body, c))
  },
  leader(op, c) {
    c.out.block('if (cluster_rank % 2 == 0)', () => emitOps(op.body, c))
  },
  tmem_alloc: (_, c) =>
    c.out.line(call(c, grouped(c, 'tcgen05_alloc'), 'smem + TMEM_SLOT', 'TMEM_COLUMNS'), note(c, 'TMEM')),
  tmem_relinquish: (_, c) => c.out.line(call(c, grouped(c, 'tcgen05_relinquish'))),
  tmem_dealloc: (_, c) => c.out.line(call(c, grouped(c, 'tcgen05_dealloc'), 'tmem', 'TMEM_COLUMNS'), note(c, 'TMEM')),
  tmem_address(_, c) {
    c.wrappers.add('load_shared')
    c.out.line('const u32 tmem = load_shared(smem + TMEM_SLOT);')
  },
  expect_work(op, c) {
    const where = note(c, `expect ${op.barrier}`)
    const address = barrierAddress(c, op.barrier)
    if (c.program.cluster.size === 1)
      c.out.line(`if (lane == 0) ${call(c, 'mbarrier_arrive_expect_tx', address, op.bytes)}`, where)
    else
      c.out.line(
        `if (lane < cluster_size) ${call(c, 'mbarrier_arrive_expect_tx_remote', call0(c, 'remote_address', address, 'lane'), op.bytes)}`,
        where,
      )
  },
  request_work(op, c) {
    const request = c.program.cluster.size === 1 ? 'clc_try_cancel' : 'clc_try_cancel_multicast'
    c.out.line(call(c, request, slotAddress(c, op.buffer), barrierAddress(c, op.barrier)), note(c, 'request work'))
  },
  read_work(op, c) {
    c.out.line(`next_work = ${call(c, 'clc_first_cta', slotAddress(c, op.buffer))}`, note(c, 'next work item'))
  },
  mma(op, c) {
    const wrapper = `tcgen05_mma_${op.kind}_cg${c.program.cluster.pair}`
    c.wrappers.add('smem_descriptor').add(wrapper)
    const where = note(c, 'MMA')
    c.out.line(`const u64 a = smem_descriptor(${slotAddress(c, op.a)}, A_LAYOUT);`, where)
    op.products.forEach(({ b }, p) =>
      c.out.line(`const u64 b${p} = smem_descriptor(${slotAddress(c, b)}, B_LAYOUT);`, where),
    )
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${op.steps}; ++i)`, () => {
      const step = (d: { stepBytes: number }): string => `i * (${d.stepBytes} >> 4)`
      for (const [p, { column }] of op.products.entries()) {
        const d = `tmem + acc * ACC_COLUMNS${column ? ` + ${column}` : ''}`
        c.out.line(
          `${wrapper}(${d}, a + ${step(op.aDescriptor)}, b${p} + ${step(op.bDescriptor)}, INSTRUCTION, k != k_first || i != 0);`,
          where,
        )
      }
    })
  },
  commit(op, c) {
    const where = note(c, `commit to ${op.barrier}`)
    const address = barrierAddress(c, op.barrier)
    if (op.to === 'cta') return c.out.line(call(c, grouped(c, 'tcgen05_commit'), address), where)
    const mask = op.to === 'pair' ? 'u16(3 << (cluster_rank & ~1u))' : 'producers_mask'
    c.out.line(call(c, grouped(c, 'tcgen05_commit_multicast'), address, mask), where)
  },
  tcgen05_fence: (op, c) =>
    c.out.line(call(c, op.when === 'before_thread_sync' ? 'tcgen05_fence_before' : 'tcgen05_fence_after')),
}
