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
  constant,
  hasPhase,
  ringOf,
  slotAddress,
  type EmitContext,
} from './context.ts'
import { emitAuxLoad, emitCompute, emitDirectStore, emitStageWrite } from './epilogue.ts'

type OpOf<K extends TileOp['op']> = Extract<TileOp, { op: K }>
type Emitters = { readonly [K in TileOp['op']]: (op: OpOf<K>, c: EmitContext) => void }

export function emitOps(ops: readonly TileOp[], c: EmitContext): void {
  for (const op of ops) (EMITTERS[op.op] as (op: TileOp, c: EmitContext) => void)(op, c)
}

const note = (c: EmitContext, text: string): { role: string | null; note: string } => ({
  role: c.role?.name ?? null,
  note: text,
})

const EMITTERS: Emitters = {
  for_tiles(op, c) {
    c.out.block('for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x)', () => {
      c.out.line('const TileOrigin at = tile_origin(tile, tiles_m, tiles_n, tile_group);')
      emitOps(op.body, c)
    })
  },
  for_k(op, c) {
    c.out.block('for (u32 k = k_first; k < k_last; ++k)', () => emitOps(op.body, c))
  },
  for_subtiles(op, c) {
    c.out.block(`for (u32 column = 0; column < TILE_N; column += ${c.program.subtileColumns})`, () => {
      c.out.line('const u32 col = at.n + column;')
      emitOps(op.body, c)
    })
  },
  elected(op, c) {
    c.wrappers.add('elect_one')
    c.out.block('if (elect_one())', () => emitOps(op.body, c))
  },
  lane0(op, c) {
    c.out.block('if (lane == 0)', () => emitOps(op.body, c))
  },
  last_subtile(op, c) {
    c.out.block(`if (column + ${c.program.subtileColumns} == TILE_N)`, () => emitOps(op.body, c))
  },
  barrier_init(op, c) {
    const { ring, arrivals, meaning } = barrierOf(c.program, op.barrier)
    const init = call(c, 'mbarrier_init', `smem + ${constant(op.barrier)} + 8 * i`, arrivals)
    c.out.line(`for (u32 i = 0; i < ${ringOf(c.program, ring).slots}; ++i) ${init}  // ${meaning}`, note(c, op.barrier))
  },
  fence_barrier_init: (_, c) =>
    c.out.line(call(c, 'fence_mbarrier_init'), note(c, 'barriers visible to the async proxy')),
  prefetch_maps(op, c) {
    for (const map of op.maps) c.out.line(call(c, 'prefetch_map', `&${map}`))
  },
  tmem_alloc: (_, c) => c.out.line(call(c, 'tcgen05_alloc', 'smem + TMEM_SLOT', 'TMEM_COLUMNS'), note(c, 'TMEM')),
  tmem_relinquish: (_, c) => c.out.line(call(c, 'tcgen05_relinquish')),
  tmem_dealloc: (_, c) => c.out.line(call(c, 'tcgen05_dealloc', 'tmem', 'TMEM_COLUMNS'), note(c, 'TMEM')),
  tmem_address(_, c) {
    c.wrappers.add('load_shared')
    c.out.line('const u32 tmem = load_shared(smem + TMEM_SLOT);')
  },
  cta_sync: (_, c) => c.out.line('__syncthreads();', note(c, 'CTA barrier')),
  warp_sync: (_, c) => c.out.line('__syncwarp();'),
  wait(op, c) {
    const { ring } = barrierOf(c.program, op.barrier)
    const parity = op.parity === 'consumer' ? `${ring}_phase` : `${ring}_phase ^ 1`
    c.out.line(call(c, 'mbarrier_wait', barrierAddress(c, op.barrier), parity), note(c, `wait ${op.barrier}`))
  },
  arrive: (op, c) =>
    c.out.line(call(c, 'mbarrier_arrive', barrierAddress(c, op.barrier)), note(c, `arrive ${op.barrier}`)),
  arrive_expect_tx: (op, c) =>
    c.out.line(call(c, 'mbarrier_arrive_expect_tx', barrierAddress(c, op.barrier), 'STAGE_BYTES'), note(c, `expect ${op.barrier}`)), // prettier-ignore
  advance(op, c) {
    const { name, slots } = ringOf(c.program, op.ring)
    if (hasPhase(c.program, name)) c.out.line(`if (++${name} == ${slots}) { ${name} = 0; ${name}_phase ^= 1; }`)
    else c.out.line(`${name} = (${name} + 1) % ${slots};`)
  },
  tma_load(op, c) {
    const free = op.coords.includes('m') ? 'm' : 'n'
    const batch = c.names.batchCoordinate(op.operand)
    const load = (dst: string, origin: string): string => {
      const coords = op.coords.map((x) => (x === 'k' ? 'k * TILE_K' : x === free ? origin : ''))
      const args = [dst, `&${op.map}`, barrierAddress(c, op.barrier), ...coords, ...(batch ? [batch] : [])]
      return call(c, batch ? 'tma_load_3d' : 'tma_load_2d', ...args)
    }
    const where = note(c, `TMA load ${op.operand}`)
    const dst = slotAddress(c, op.buffer)
    if (op.boxes === 1) return c.out.line(load(dst, `at.${free}`), where)
    c.out.line(`for (u32 i = 0; i < ${op.boxes}; ++i)`, where)
    c.out.line(`  ${load(`${dst} + i * ${op.boxBytes}`, `at.${free} + i * ${op.boxExtent}`)}`, where)
  },
  mma(op, c) {
    c.wrappers.add('smem_descriptor').add('tcgen05_mma_f16')
    const where = note(c, 'MMA')
    for (const [name, buffer, d] of [['a', op.a, op.aDescriptor], ['b', op.b, op.bDescriptor]] as const) // prettier-ignore
      c.out.line(`const u64 ${name} = smem_descriptor(${slotAddress(c, buffer)}, ${d.leadingBytes}, ${d.strideBytes});`, where) // prettier-ignore
    c.out.line('#pragma unroll')
    c.out.line(`for (u32 i = 0; i < ${op.steps}; ++i)  // 16 k each`, where)
    const step = (d: { stepBytes: number }): string => `i * (${d.stepBytes} >> 4)`
    c.out.line(`  tcgen05_mma_f16(tmem + acc * TILE_N, a + ${step(op.aDescriptor)}, b + ${step(op.bDescriptor)}, INSTRUCTION, k != k_first || i != 0);`, where) // prettier-ignore
  },
  commit: (op, c) => c.out.line(call(c, 'tcgen05_commit', barrierAddress(c, op.barrier)), note(c, `commit to ${op.barrier}`)), // prettier-ignore
  tcgen05_fence: (op, c) =>
    c.out.line(call(c, op.when === 'before_thread_sync' ? 'tcgen05_fence_before' : 'tcgen05_fence_after')),
  own_row(_, c) {
    const { rowsPerWarp } = c.program
    c.out.line('const u32 row = at.m + warp * ROWS_PER_WARP + lane;')
    c.out.line(`const bool row_in_bounds = ${rowsPerWarp < 32 ? 'lane < ROWS_PER_WARP && ' : ''}row < M;`)
  },
  tmem_load(_, c) {
    const n = c.program.subtileColumns
    c.out.line(`u32 sum[${n}];  // f32 bits of one row of the sub-tile`)
    // Bits 31:16 of a TMEM address are the lane: warp w of a warpgroup may read lanes 32w … 32w + 31 only.
    c.out.line(call(c, `tcgen05_ld_x${n}`, 'sum', 'tmem + (warp << 21) + acc * TILE_N + column'), note(c, 'TMEM load'))
  },
  aux_load: emitAuxLoad,
  compute: emitCompute,
  bulk_wait_read(op, c) {
    c.wrappers.add('bulk_wait_read')
    c.out.line(`bulk_wait_read<${op.pending}>();`, note(c, 'staging slot is free'))
  },
  stage_write: emitStageWrite,
  proxy_fence: (_, c) => c.out.line(call(c, 'fence_proxy_async'), note(c, 'sub-tile visible to TMA')),
  tma_store(op, c) {
    const [row, col] = ['at.m + warp * ROWS_PER_WARP', 'col']
    const coords = op.contiguous === 'n' ? [col, row] : [row, col]
    const batch = c.names.batchCoordinate(op.operand)
    const args = [`&${op.map}`, slotAddress(c, op.buffer), ...coords, ...(batch ? [batch] : [])]
    c.out.line(call(c, batch ? 'tma_store_3d' : 'tma_store_2d', ...args), note(c, `TMA store ${op.operand}`))
  },
  bulk_commit: (_, c) => c.out.line(call(c, 'bulk_commit')),
  bulk_wait: (_, c) => c.out.line(call(c, 'bulk_wait'), note(c, 'stores done')),
  direct_store: emitDirectStore,
}
