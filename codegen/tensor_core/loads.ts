/** How operands reach the stage ring: TMA loads (which slices this CTA loads, and for whom), or copies by warps. */
import { DTYPES } from '../../compiler/dtypes.ts'
import { GATHER_WARPS } from '../../compiler/tensor_core/plan.ts'
import type { OperandSwizzle } from '../../compiler/tensor_core/operands.ts'
import type { Gather, TmaLoad } from '../../compiler/tile_ir.ts'
import { barrierAddress, call, leaderAddress, note, slotAddress, type EmitContext } from './context.ts'

export function emitTmaLoad(op: TmaLoad, c: EmitContext): void {
  const { plan, free } = op
  const { cluster } = c.program
  const where = note(c, `TMA load ${op.operand}`)
  const batch = c.names.batchCoordinate(op.operand)
  const multicast = plan.slices > 1
  const barrier = leaderAddress(c, barrierAddress(c, op.barrier))
  const wrapper = `tma_load_${batch ? 3 : 2}d${cluster.pair > 1 ? '_pair' : ''}${multicast ? '_multicast' : ''}`
  // Both CTAs of a pair load half of the columns.
  const origin = free === 'm' ? 'at.m' : cluster.pair > 1 ? `at.n + cluster_rank % 2 * ${plan.rows}` : 'at.n'
  const [step, first] = free === 'm' ? ['row_sharers', 'row_index'] : ['column_sharers', 'column_index']

  const load = (slice: string | null, box: string | null): string => {
    const dst = [slotAddress(c, op.buffer), ...(slice ? [`${slice} * ${plan.sliceBytes}`] : []), ...(box ? [`${box} * ${plan.boxPitch}`] : [])]
    const part = slice ? ` + ${slice} * ${plan.sliceRows}` : ''
    const span = box ? ` + ${box} * ${plan.boxExtents[0]}` : ''
    const coords = plan.major === 'k' ? ['k * TILE_K', origin + part] : [origin + span, `k * TILE_K${part}`]
    const args = [dst.join(' + '), `&${op.map}`, barrier, ...coords, ...(batch ? [batch] : [])]
    return call(c, wrapper, ...args, ...(multicast ? [free === 'm' ? 'row_mask' : 'column_mask'] : []))
  }
  const boxes = (slice: string | null): void => {
    if (plan.boxes > 1) c.out.line(`for (u32 i = 0; i < ${plan.boxes}; ++i)`, where).line(`  ${load(slice, 'i')}`, where)
    else c.out.line(load(slice, null), where)
  }
  if (!multicast) boxes(null)
  else if (cluster.fallback === null) boxes(first)
  else c.out.block(`for (u32 slice = ${first}; slice < ${plan.slices}; slice += ${step})`, () => boxes('slice'))
} // prettier-ignore

/** The 16-byte chunk of a row that a pattern puts at chunk `c` of row `r` (PTX ISA 5.5.7). */
const SWIZZLED: Readonly<Record<OperandSwizzle, string>> = {
  '128B': 'c ^ r % 8',
  '64B': 'c ^ r / 2 % 4',
  '32B': 'c ^ r / 4 % 2',
  '128B_ATOM_32B': 'c ^ r % 4 * 2',
}

/** One 16-byte chunk of shared memory at a time, each from its elements, zeros outside the tensor: what TMA would leave there. */
export function emitGather(op: Gather, c: EmitContext): void {
  const { plan, free } = op
  const { names } = c
  const { operand } = plan
  const where = note(c, `gather ${op.operand}`)
  const bytes = DTYPES[operand.dtype].storageBytes
  const kRows = c.program.tile[2]
  const spanBytes = plan.major === 'k' ? 128 : plan.boxExtents[0] * bytes
  const chunks = spanBytes / 16
  const perBox = (plan.major === 'k' ? plan.rows : kRows) * chunks
  const boxes = plan.major === 'k' ? 1 : plan.boxes
  const raw = { 1: 'unsigned char', 2: 'u16', 4: 'u32' }[bytes as 1 | 2 | 4]
  const term = (axis: string): string => {
    const at = axis === names.gemm.k ? 'k_at' : axis === names.gemm.l ? 'at.l' : 'free_at'
    return `(i64)(${at}) * ${names.stride(operand.name, axis)}`
  }
  const base = `reinterpret_cast<const ${raw}*>(${names.operand(operand.name)})`
  c.wrappers.add('store_shared_v4')
  c.out.block(`for (u32 i = threadIdx.x % ${32 * GATHER_WARPS}; i < ${boxes * perBox}; i += ${32 * GATHER_WARPS})`, () => {
    const row = boxes > 1 ? `box = i / ${perBox}, r = i % ${perBox} / ${chunks}` : `r = i / ${chunks}`
    c.out.line(`const u32 ${row}, c = i % ${chunks};`, where)
    c.out.line('u32 words[4] = {0, 0, 0, 0};')
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 e = 0; e < ${16 / bytes}; ++e)`, () => {
      const [along, row] = [`c * ${16 / bytes} + e`, 'r']
      const [k, f] = plan.major === 'k' ? [along, row] : [row, boxes > 1 ? `box * ${plan.boxExtents[0]} + ${along}` : along]
      c.out.line(`const u32 k_at = k * TILE_K + ${k}, free_at = at.${free} + ${f};`)
      const extent = free === 'm' ? 'M' : 'N'
      c.out.line(`const u32 bits = k_at < K && free_at < ${extent} ? ${base}[${operand.axes.map(term).join(' + ')}] : 0;`, where)
      c.out.line(`words[e / ${4 / bytes}] |= bits << ${8 * bytes} * (e % ${4 / bytes});`)
    })
    const dst = `${slotAddress(c, op.buffer)}${boxes > 1 ? ` + box * ${plan.boxPitch}` : ''} + r * ${spanBytes} + (${SWIZZLED[plan.descriptor.swizzle]}) * 16`
    c.out.line(`store_shared_v4(${dst}, words[0], words[1], words[2], words[3]);`, where)
  })
} // prettier-ignore
