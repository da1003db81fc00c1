/**
 * Tile IR → CUDA statements: one emitter per operation. Here are those of all targets; the kernel around them is in kernel.ts.
 * Names: buffers and barriers of the program become constants (`SMEM_A`, `FULL`), rings become variables
 * (`stage`, `stage_phase`), operands are mangled (`op_C`).
 */
import {
  barrierAddress,
  barrierOf,
  call,
  call0,
  hasPhase,
  constant,
  emitOps,
  leaderAddress,
  note,
  ringOf,
  roleBarrier,
  type Emitters,
} from './context.ts'
import { emitCopyTile, emitFindRows } from './copies.ts'
import { EPILOGUE_EMITTERS } from './emit_epilogue.ts'
import { turnsOf } from '../../compiler/ir/pipe.ts'
import { tileIndex } from '../../compiler/targets/tensor_core/lower_loads.ts'
import { emitCheckGroups, emitDynamicTiles, emitNextOrigin, findNext, emitTiles } from './tiles.ts'
import { emitGather, emitTmaLoad, stageBytes } from './loads.ts'

export const COMMON_EMITTERS = {
  ...EPILOGUE_EMITTERS,
  for_tiles(op, c) {
    // Work is counted in CTAs: a work item is the first CTA tile of a cluster.
    if (c.program.domain.walk === 'dynamic') emitDynamicTiles(op, c)
    else emitTiles(op, c, 'first_work', 'gridDim.x', () => {})
  },
  next_origin: emitNextOrigin,
  origin_in_last_k: (_, c) => findNext('k + 1 == k_last', c),
  check_groups: emitCheckGroups,
  for_slots(op, c) {
    c.out.block(`for (u32 i = 0; i < ${ringOf(c.program, op.ring).slots - op.but}; ++i)`, () => emitOps(op.body, c))
  },
  first_cta(op, c) {
    if (c.program.cluster.size === 1) emitOps(op.body, c)
    else c.out.block('if (cluster_rank == 0)', () => emitOps(op.body, c))
  },
  for_k(op, c) {
    c.out.block('for (u32 k = k_first; k < k_last; ++k)', () => emitOps(op.body, c))
  },
  by_loop({ bodies }, c) {
    const last = bodies.length - 1
    for (const [i, body] of bodies.entries())
      c.out.block(i === 0 ? `if (k < k_end0)` : i < last ? `else if (k < k_end${i})` : 'else', () => {
        if (i > 0) c.out.line(`const u32 ${tileIndex(i)} = k - k_end${i - 1};`)
        emitOps(body, c)
      })
  },
  elected(op, c) {
    c.wrappers.add('elect_one')
    c.out.block('if (elect_one())', () => emitOps(op.body, c))
  },
  lane0(op, c) {
    c.out.block('if (lane == 0)', () => emitOps(op.body, c))
  },
  barrier_init(op, c) {
    const { ring, arrivals, meaning, per } = barrierOf(c.program, op.barrier)
    const { preferred, fallback } = arrivals
    const count = preferred === fallback ? preferred : `is_preferred ? ${preferred} : ${fallback}`
    const init = call(c, 'mbarrier_init', `smem + ${constant(op.barrier)} + 8 * i`, count)
    c.out.line(
      `for (u32 i = 0; i < ${ringOf(c.program, ring).slots * (per?.count ?? 1)}; ++i) ${init}  // ${meaning}`,
      note(c, op.barrier),
    )
  },
  fence_barrier_init: (_, c) =>
    c.out.line(call(c, 'fence_mbarrier_init'), note(c, 'barriers visible to the async proxy')),
  prefetch_maps(op, c) {
    for (const map of op.maps) c.out.line(call(c, 'prefetch_map', `&${map}`))
  },
  cta_sync: (_, c) => c.out.line('__syncthreads();', note(c, 'CTA barrier')),
  warp_sync: (_, c) => c.out.line('__syncwarp();'),
  cluster_start: (_, c) => c.out.line(call(c, 'cluster_start'), note(c, 'cluster barrier')),
  cluster_sync: (_, c) => c.out.line(call(c, 'cluster_sync'), note(c, 'cluster barrier')),
  wait(op, c) {
    const { ring, scope } = barrierOf(c.program, op.barrier)
    const parity = op.parity === 'consumer' ? `${ring}_phase` : `${ring}_phase ^ 1`
    const wait = scope === 'cluster' ? 'mbarrier_wait_cluster' : 'mbarrier_wait'
    c.out.line(call(c, wait, barrierAddress(c, op.barrier), parity), note(c, `wait ${op.barrier}`))
  },
  arrive(op, c) {
    const where = note(c, `arrive ${op.barrier}`)
    const address = barrierAddress(c, op.barrier, op.ring)
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
  arrive_expect_tx(op, c) {
    const stage = stageBytes(c.program)
    const stages = op.bytes / stage
    const bytes = Number.isInteger(stages) && stages > 0 ? `${stages > 1 ? `${stages} * ` : ''}TMA_BYTES` : op.bytes
    const where = note(c, `expect ${op.barrier}`)
    c.out.line(call(c, 'mbarrier_arrive_expect_tx', barrierAddress(c, op.barrier), bytes), where)
  },
  advance(op, c) {
    const { name, slots } = ringOf(c.program, op.ring)
    if (hasPhase(c.program, name)) c.out.line(`if (++${name} == ${slots}) { ${name} = 0; ${name}_phase ^= 1; }`)
    else if (Number.isInteger(Math.log2(slots))) c.out.line(`${name} = (${name} + 1) % ${slots};`)
    // Other remainders take a multiplication.
    else c.out.line(`if (++${name} == ${slots}) ${name} = 0;`)
  },
  find_rows: emitFindRows,
  copy_tile: emitCopyTile,
  copy_commit: (_, c) => c.out.line(call(c, 'cp_async_commit'), note(c, 'commit copies')),
  copy_wait(op, c) {
    c.wrappers.add('cp_async_wait')
    c.out.line(`cp_async_wait<${op.pending}>();`, note(c, 'copies of this thread have landed'))
  },
  role_sync({ threads }, c) {
    c.out.line(
      turnsOf(c.program) > 1 ? call(c, 'warpgroup_sync', roleBarrier(c), threads) : call(c, 'role_sync', threads),
      note(c, 'role barrier'),
    )
  },
  warpgroup_sync(_, c) {
    // Behind the barrier of a role that works together.
    const barrier = turnsOf(c.program) > 1 ? roleBarrier(c) : '2 + warpgroup'
    c.out.line(call(c, 'warpgroup_sync', barrier, 128), note(c, 'barrier of the warpgroup'))
  },
  tma_load: emitTmaLoad,
  gather: emitGather,
} satisfies Emitters
