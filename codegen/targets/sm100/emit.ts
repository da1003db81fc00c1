/** Tile IR → CUDA statements, operations that SM100 alone has: tensor memory, tcgen05, cluster launch control. */
import { freeSide } from '../../../compiler/space/domain.ts'
import type { AtomSource, Mma } from '../../../compiler/ir/pipe_mma.ts'
import { mul, printIx } from '../../../compiler/space/ix.ts'
import { TILE_BYTES, TILE_INNER, TILE_OUTER } from '../../../compiler/stored/tiles.ts'
import { emitAtoms } from './atoms.ts'
import { PART_EMITTERS } from './parts.ts'
import { ATOM_COLUMNS } from '../../../compiler/targets/tensor_core/scale_atoms.ts'
import {
  barrierAddress,
  call,
  call0,
  leaderAddress,
  note,
  slotAddress,
  slotDescriptor,
  type EmitContext,
} from '../../pipe/context.ts'
import { blockAt } from '../../pipe/depth.ts'
import { COMMON_EMITTERS } from '../../pipe/emit.ts'
import { EXCHANGE_EMITTERS } from '../../pipe/exchange.ts'
import { SCALE_EMITTERS } from '../../pipe/scales.ts'
import { dynamicTile } from '../../pipe/tiles.ts'
import { emitOps, type Emitters } from '../../pipe/context.ts'

/** The wrapper for the CTAs of one MMA. */
const grouped = (c: EmitContext, wrapper: string): string => `${wrapper}_cg${c.program.cluster.pair}`

const times = (text: string, factor: number): string => (factor === 1 ? text : `${text} * ${factor}`)

/** The first column of the scales of step `i`: rows of a tile that is no whole atoms begin within one. */
function scalesAt({ column, atoms }: AtomSource, perStep: number, free: 'm' | 'n', c: EmitContext): string {
  if (atoms === null) return `tmem + ${column}`
  const steps = atoms.steps > 1 ? ` + ${times('i', perStep)} / ${TILE_INNER} * ${atoms.rows * ATOM_COLUMNS}` : ''
  const { extent } = freeSide(c.program.domain, free)
  const within =
    atoms.from === 'tile' || extent % TILE_OUTER === 0
      ? ''
      : ` + ${c.names.origin(free)} / ${TILE_OUTER / ATOM_COLUMNS} % ${ATOM_COLUMNS}`
  return `tmem + ${column}${steps}${within}`
}

function emitMma(op: Mma, c: EmitContext): void {
  const wrapper = `tcgen05_mma_${op.kind}_cg${c.program.cluster.pair}`
  c.wrappers.add(wrapper)
  const where = note(c, 'MMA')
  c.out.line(`const u64 a = ${slotDescriptor(c, op.a, 'A_LAYOUT')};`, where)
  op.products.forEach(({ b }, p) => c.out.line(`const u64 b${p} = ${slotDescriptor(c, b, 'B_LAYOUT')};`, where))
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${op.steps}; ++i)`, () => {
    if (op.scales) {
      // Tiles may hold anything behind the last scale of a row, NaN too.
      const { depth, loops, sums } = c.program.domain
      const end = c.names.depthEnd(loops[0].axis)
      c.out.line(`if (i > 0 && ${sums ? 'at.k + ' : ''}k * TILE_K + i * ${depth / op.steps} >= ${end}) break;`, where)
    }
    const at = op.chunk ? `(${op.chunk * op.steps} + i)` : 'i'
    const step = (d: { stepBytes: number }): string => `${at} * (${d.stepBytes} >> 4)`
    const perStep = op.scales?.perStep ?? TILE_INNER
    // Scales of a row lie side by side in a cell of tensor memory.
    const instruction =
      perStep < TILE_INNER ? `INSTRUCTION + ${times('i', perStep)} % ${TILE_INNER} * SCALE_ID` : 'INSTRUCTION'
    for (const [p, { column }] of op.products.entries()) {
      const d = `tmem + acc * ACC_COLUMNS${column ? ` + ${column}` : ''}`
      const scales = op.scales
        ? [scalesAt(op.scales.a, perStep, 'm', c), scalesAt(op.scales.b[p]!, perStep, 'n', c)]
        : []
      const operands = [d, `a + ${step(op.aDescriptor)}`, `b${p} + ${step(op.bDescriptor)}`, instruction, ...scales]
      c.out.line(`${wrapper}(${operands.join(', ')}, ${op.chunk === null ? 'k != k_first || ' : ''}i != 0);`, where)
    }
  })
}

export const SM100_EMITTERS: Emitters = {
  ...COMMON_EMITTERS,
  while_work(op, c) {
    const more = dynamicTile(c, 'next_work')
    c.out.block(`for (u32 next_work = first_work; ${more};)`, () => emitOps(op.body, c))
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
  load_atoms(op, c) {
    const batch = c.names.batchCoordinate(op.operand)
    const wrapper = `tma_load_${batch ? 4 : 3}d${c.program.cluster.pair > 1 ? '_pair' : ''}`
    const barrier = leaderAddress(c, barrierAddress(c, op.barrier))
    const at = [
      blockAt(c, freeSide(c.program.domain, op.free).axis, TILE_OUTER, c.names.origin(op.free)),
      printIx(mul(op.depth.tile, op.atoms.steps)),
      ...(batch ? [batch] : []),
    ]
    const load = call(c, wrapper, slotAddress(c, op.buffer), `&${op.map}`, barrier, 0, ...at)
    c.out.line(load, note(c, `TMA load ${op.operand}`))
  },
  write_atoms: emitAtoms,
  fill_columns({ column, columns, word }, c) {
    c.wrappers.add('tcgen05_fill_x4')
    c.out.line('#pragma unroll')
    c.out.line(
      `for (u32 i = 0; i < ${columns}; i += 4) tcgen05_fill_x4(tmem + (warp << 21) + ${column} + i, 0x${word.toString(16)});`,
      note(c, 'scales of 1'),
    )
  },
  copy_atoms({ buffer, column, atoms }, c) {
    const where = note(c, `scales of ${buffer}`)
    const copy = grouped(c, 'tcgen05_copy_scales')
    c.wrappers.add(copy)
    c.out.block('', () => {
      c.out.line(`const u64 scales = ${slotDescriptor(c, buffer, 'SCALES_LAYOUT')};`, where)
      c.out.line('#pragma unroll')
      c.out.line(`for (u32 i = 0; i < ${atoms.rows * atoms.steps}; ++i)`)
      c.out.line(`  ${copy}(tmem + ${column} + i * ${ATOM_COLUMNS}, scales + i * (${TILE_BYTES} >> 4));`, where)
    })
  },
  mma(op, c) {
    // The chunks of a stage have their descriptors each.
    if (op.chunk !== null) c.out.block('', () => emitMma(op, c))
    else emitMma(op, c)
  },
  ...SCALE_EMITTERS,
  ...EXCHANGE_EMITTERS,
  ...PART_EMITTERS,
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
