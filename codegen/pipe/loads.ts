/** How operands reach the stage ring: TMA loads (which slices this CTA loads, and for whom), or copies by warps. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { OperandSwizzle } from '../../compiler/targets/tensor_core/operands.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import type { Gather, TmaLoad } from '../../compiler/ir/pipe.ts'
import type { LineOrigin } from '../cuda/source_builder.ts'
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
export const SWIZZLED: Readonly<Record<OperandSwizzle, string>> = {
  '128B': 'c ^ r % 8',
  '64B': 'c ^ r / 2 % 4',
  '32B': 'c ^ r / 4 % 2',
  '128B_ATOM_32B': 'c ^ r % 4 * 2',
}

/** One 16-byte chunk of shared memory at a time, zeros outside the tensor: what TMA would leave there. */
export function emitGather(op: Gather, c: EmitContext): void {
  const { plan, free } = op
  const { names } = c
  const { operand, major } = plan
  const where = note(c, `gather ${op.operand}`)
  const bytes = DTYPES[operand.dtype].storageBytes
  const perChunk = 16 / bytes
  const kRows = c.program.tile[2]
  const spanBytes = plan.boxExtents[0] * bytes
  const threads = 32 * c.role!.warps
  const chunks = spanBytes / 16
  const perBox = (major === 'k' ? plan.rows : kRows) * chunks
  const boxes = major === 'k' ? 1 : plan.boxes
  // A chunk lies along k of K-major tiles, along m or n of others: so does memory, unless the tile is transposed.
  const inner = operand.order.at(-1)
  const transposes = (major === 'k') !== (inner === names.gemm.segments[0].k)
  const total = boxes * perBox
  // Loads of several chunks are under way at once, as registers allow: each element that is alone takes one.
  const room = c.program.kind === 'sm80' ? Math.min(4, 32 / perChunk) : transposes ? 1 : 2
  const batch = Math.max(1, Math.min(room, Math.floor(total / threads)))
  c.wrappers.add('store_shared_v4')
  const place = (): void => {
    c.out.line(`const u32 i = first + s * ${threads};`)
    if (transposes) {
      // Neighbours in memory are in neighbouring rows.
      c.out.line(`const u32 r = i % ${plan.rows}, c = i / ${plan.rows};`, where)
    } else {
      const row = boxes > 1 ? `box = i / ${perBox}, r = i % ${perBox} / ${chunks}` : `r = i / ${chunks}`
      c.out.line(`const u32 ${row}, c = i % ${chunks};`, where)
    }
  }
  c.out.block(`for (u32 first = threadIdx.x % ${threads}; first < ${total}; first += ${batch * threads})`, () => {
    c.out.line(`u32 chunks[${batch}][4] = {};`)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 s = 0; s < ${batch}; ++s)`, () => {
      place()
      const along = `${boxes > 1 ? `box * ${plan.boxExtents[0]} + ` : ''}c * ${perChunk}`
      const [k, f] = major === 'k' ? [along, 'r'] : ['r', along]
      c.out.line(`const u32 k_at = k * TILE_K + ${k}, free_at = at.${free} + ${f};`)
      c.out.line('u32* words = chunks[s];')
      if (transposes) gatherAcross(c, operand, free, bytes, where)
      else gatherAlong(c, operand, free, bytes, where)
    })
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 s = 0; s < ${batch}; ++s)`, () => {
      place()
      const dst = `${slotAddress(c, op.buffer, op.ring)}${boxes > 1 ? ` + box * ${plan.boxPitch}` : ''} + r * ${spanBytes} + (${SWIZZLED[plan.descriptor.swizzle]}) * 16`
      const store = `store_shared_v4(${dst}, chunks[s][0], chunks[s][1], chunks[s][2], chunks[s][3]);`
      c.out.line(total % (batch * threads) === 0 ? store : `if (i < ${total}) ${store}`, where)
    })
  })
} // prettier-ignore

const RAW = { 1: 'unsigned char', 2: 'u16', 4: 'u32' } as const
type Bytes = keyof typeof RAW

/** Offset of the element at `k` and `free_at`. `unit`: the axis whose stride is 1. */
function gatheredFrom(c: EmitContext, operand: TensorOperand, unit: string | null, k: string): string {
  const { names } = c
  const terms = operand.axes.map((axis) => {
    const at = axis === names.gemm.segments[0].k ? k : axis === names.gemm.l ? 'at.l' : 'free_at'
    return axis === unit ? at : `(i64)(${at}) * ${names.stride(operand.name, axis)}`
  })
  return terms.join(' + ')
}

/** Elements of a chunk one by one. */
function gatherAcross(c: EmitContext, operand: TensorOperand, free: 'm' | 'n', bytes: number, where: LineOrigin): void {
  const base = `reinterpret_cast<const ${RAW[bytes as Bytes]}*>(${c.names.operand(operand.name)})`
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 e = 0; e < ${16 / bytes}; ++e)`, () => {
    const inside = `k_at + e < K && free_at < ${free === 'm' ? 'M' : 'N'}`
    c.out.line(`const u32 bits = ${inside} ? ${base}[${gatheredFrom(c, operand, null, 'k_at + e')}] : 0;`, where)
    c.out.line(`words[e / ${4 / bytes}] |= bits << ${8 * bytes} * (e % ${4 / bytes});`)
  })
} // prettier-ignore

/** A chunk that lies in one piece, at any address: aligned words, shifted into place. Near an edge element by element. */
function gatherAlong(c: EmitContext, operand: TensorOperand, free: 'm' | 'n', bytes: number, where: LineOrigin): void {
  const extent = free === 'm' ? 'M' : 'N'
  const unit = operand.order.at(-1)!
  const [inner, end, outside] = unit === c.names.gemm.segments[0].k ? ['k_at', 'K', `free_at < ${extent}`] : ['free_at', extent, 'k_at < K']
  const raw = RAW[bytes as Bytes]
  const [perChunk, perWord] = [16 / bytes, 4 / bytes]
  c.out.block(`if (${outside} && ${inner} < ${end})`, () => {
    c.out.line(`const ${raw}* from = reinterpret_cast<const ${raw}*>(${c.names.operand(operand.name)}) + ${gatheredFrom(c, operand, unit, 'k_at')};`, where)
    const fits = bytes === 4 ? `${inner} + 4 <= ${end}` : `${inner} >= ${perWord} && ${inner} + ${perChunk + perWord} <= ${end}`
    c.out.block(`if (${fits})`, () => {
      if (bytes === 4) {
        c.out.line('#pragma unroll').line('for (u32 e = 0; e < 4; ++e) words[e] = from[e];', where)
        return
      }
      c.out.line('const u64 address = reinterpret_cast<u64>(from);')
      c.out.line('const u32* aligned = reinterpret_cast<const u32*>(address & ~3ull);')
      c.out.line('u32 low = aligned[0];', where)
      c.out.line('#pragma unroll')
      c.out.block('for (u32 e = 0; e < 4; ++e)', () => {
        c.out.line('const u32 high = aligned[e + 1];', where)
        c.out.line('words[e] = __funnelshift_r(low, high, static_cast<u32>(address) % 4 * 8);')
        c.out.line('low = high;')
      })
    })
    c.out.block('else', () => {
      c.out.line('#pragma unroll')
      const word = bytes === 4 ? 'words[e] = from[e]' : `words[e / ${perWord}] |= static_cast<u32>(from[e]) << ${8 * bytes} * (e % ${perWord})`
      c.out.line(`for (u32 e = 0; e < ${perChunk}; ++e) if (${inner} + e < ${end}) ${word};`, where)
    })
  })
} // prettier-ignore
