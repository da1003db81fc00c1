/**
 * Tile IR → CUDA statements: one emitter per operation. The kernel around them is in kernel.ts.
 * Names: buffers and barriers of the program become constants (`SMEM_A`, `FULL`), rings become variables
 * (`stage`, `stage_phase`), operands are mangled (`op_C`).
 */
import type { TileOp } from '../../compiler/tile_ir.ts'
import {
  barrierAddress,
  barrierOf,
  call,
  call0,
  constant,
  hasPhase,
  leaderAddress,
  note,
  ringOf,
  slotAddress,
  type EmitContext,
} from './context.ts'
import { EPILOGUE_EMITTERS } from './emit_epilogue.ts'
import { emitGather, emitTmaLoad } from './loads.ts'

type OpOf<K extends TileOp['op']> = Extract<TileOp, { op: K }>
type Emitters = { readonly [K in TileOp['op']]: (op: OpOf<K>, c: EmitContext, emit: typeof emitOps) => void }

export function emitOps(ops: readonly TileOp[], c: EmitContext): void {
  for (const op of ops) (EMITTERS[op.op] as (op: TileOp, c: EmitContext, emit: typeof emitOps) => void)(op, c, emitOps)
}

/** The wrapper for the CTAs of one MMA. */
const grouped = (c: EmitContext, wrapper: string): string => `${wrapper}_cg${c.program.cluster.pair}`

const EMITTERS: Emitters = {
  ...EPILOGUE_EMITTERS,
  for_tiles(op, c, emit) {
    // Work is counted in CTAs: a work item is the first CTA tile of a cluster.
    const loop = op.dynamic
      ? 'u32 cta = first_work, next_work = 0; cta < works; cta = next_work'
      : 'u32 cta = first_work; cta < works; cta += gridDim.x'
    c.out.block(`for (${loop})`, () => {
      c.out.line(
        `const TileOrigin at = tile_origin(cta${c.program.cluster.size > 1 ? ' + cluster_rank' : ''}, units_m, units_n, tile_group);`,
      )
      emit(op.body, c)
    })
  },
  while_work(op, c, emit) {
    c.out.block('for (u32 next_work = first_work; next_work < works;)', () => emit(op.body, c))
  },
  for_slots(op, c, emit) {
    c.out.block(`for (u32 i = 0; i < ${ringOf(c.program, op.ring).slots}; ++i)`, () => emit(op.body, c))
  },
  leader(op, c, emit) {
    c.out.block('if (cluster_rank % 2 == 0)', () => emit(op.body, c))
  },
  first_cta(op, c, emit) {
    if (c.program.cluster.size === 1) emit(op.body, c)
    else c.out.block('if (cluster_rank == 0)', () => emit(op.body, c))
  },
  for_k(op, c) {
    c.out.block('for (u32 k = k_first; k < k_last; ++k)', () => emitOps(op.body, c))
  },
  elected(op, c) {
    c.wrappers.add('elect_one')
    c.out.block('if (elect_one())', () => emitOps(op.body, c))
  },
  lane0(op, c) {
    c.out.block('if (lane == 0)', () => emitOps(op.body, c))
  },
  barrier_init(op, c) {
    const { ring, arrivals, meaning } = barrierOf(c.program, op.barrier)
    const { preferred, fallback } = arrivals
    const count = preferred === fallback ? preferred : `is_preferred ? ${preferred} : ${fallback}`
    const init = call(c, 'mbarrier_init', `smem + ${constant(op.barrier)} + 8 * i`, count)
    c.out.line(`for (u32 i = 0; i < ${ringOf(c.program, ring).slots}; ++i) ${init}  // ${meaning}`, note(c, op.barrier))
  },
  fence_barrier_init: (_, c) =>
    c.out.line(call(c, 'fence_mbarrier_init'), note(c, 'barriers visible to the async proxy')),
  prefetch_maps(op, c) {
    for (const map of op.maps) c.out.line(call(c, 'prefetch_map', `&${map}`))
  },
  tmem_alloc: (_, c) =>
    c.out.line(call(c, grouped(c, 'tcgen05_alloc'), 'smem + TMEM_SLOT', 'TMEM_COLUMNS'), note(c, 'TMEM')),
  tmem_relinquish: (_, c) => c.out.line(call(c, grouped(c, 'tcgen05_relinquish'))),
  tmem_dealloc: (_, c) => c.out.line(call(c, grouped(c, 'tcgen05_dealloc'), 'tmem', 'TMEM_COLUMNS'), note(c, 'TMEM')),
  tmem_address(_, c) {
    c.wrappers.add('load_shared')
    c.out.line('const u32 tmem = load_shared(smem + TMEM_SLOT);')
  },
  cta_sync: (_, c) => c.out.line('__syncthreads();', note(c, 'CTA barrier')),
  warp_sync: (_, c) => c.out.line('__syncwarp();'),
  cluster_sync: (_, c) => c.out.line(call(c, 'cluster_sync'), note(c, 'cluster barrier')),
  wait(op, c) {
    const { ring, scope } = barrierOf(c.program, op.barrier)
    const parity = op.parity === 'consumer' ? `${ring}_phase` : `${ring}_phase ^ 1`
    const wait = scope === 'cluster' ? 'mbarrier_wait_cluster' : 'mbarrier_wait'
    c.out.line(call(c, wait, barrierAddress(c, op.barrier), parity), note(c, `wait ${op.barrier}`))
  },
  arrive(op, c) {
    const where = note(c, `arrive ${op.barrier}`)
    const address = barrierAddress(c, op.barrier)
    if (op.at === 'cta' || c.program.cluster.size === 1) c.out.line(call(c, 'mbarrier_arrive', address), where)
    else
      c.out.line(
        call(
          c,
          'mbarrier_arrive_remote',
          op.at === 'leader' ? leaderAddress(c, address) : call0(c, 'remote_address', address, 0),
        ),
        where,
      )
  },
  arrive_expect_tx: (op, c) =>
    c.out.line(
      call(
        c,
        'mbarrier_arrive_expect_tx',
        barrierAddress(c, op.barrier),
        c.program.cluster.pair > 1 ? '2 * TMA_BYTES' : 'TMA_BYTES',
      ),
      note(c, `expect ${op.barrier}`),
    ),
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
  advance(op, c) {
    const { name, slots } = ringOf(c.program, op.ring)
    if (hasPhase(c.program, name)) c.out.line(`if (++${name} == ${slots}) { ${name} = 0; ${name}_phase ^= 1; }`)
    else c.out.line(`${name} = (${name} + 1) % ${slots};`)
  },
  tma_load: emitTmaLoad,
  gather: emitGather,
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
