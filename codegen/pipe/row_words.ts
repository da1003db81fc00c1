/** Rows that are words of memory, out of the slots of a warp. */
import type { EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import { name } from '../../compiler/space/ix.ts'
import { PIECE_BYTES, swizzled } from '../../compiler/space/layout.ts'
import { call0, slotAddress, type EmitContext } from './context.ts'

export type RowStore = Extract<EpilogueOp, { op: 'row_store' }>

/**
 * Whole sub-tiles: a lane has one word of a row, or two where rows are made of such, and so many rows of a warp are under way at once. Neighbouring lanes have
 * neighbours in memory, so that a warp writes whole lines of L2. `first`: where the first row begins, `pitch` elements before the next.
 */
export function storeWords(op: RowStore, c: EmitContext, where: object): void {
  const inTwos = `(reinterpret_cast<u64>(first) | static_cast<u64>(pitch) * ${op.bytes}) % 8 == 0`
  c.out.block(`if (${inTwos})`, () => storeUnits(op, 8, c, where))
  c.out.block('else', () => storeUnits(op, 4, c, where))
}

function storeUnits(op: RowStore, unit: 4 | 8, c: EmitContext, where: object): void {
  const { subtileColumns: columns, layout } = c.program
  const [type, loads] = unit === 4 ? ['u32', 'load_shared_b32'] : ['uint2', 'load_shared_v2']
  const units = (columns * op.bytes) / unit
  const step = Math.max(1, 32 / units)
  const own = step === 1 ? '' : `lane / ${units}`
  c.out.line(`const u32 w = lane % ${units};`, where)
  c.out.line(`i64 next = pitch * ${step * op.bytes};`)
  c.out.line('asm volatile("" : "+l"(next));  // added up: products of each row take three times the instructions')
  c.out.line(`char* to = reinterpret_cast<char*>(first${own && ` + ${own} * pitch`}) + w * ${unit};`)
  c.out.line(`#pragma unroll ${layout.held === 'row' ? 4 : 8}`)
  c.out.block(`for (u32 i = 0; i < ${layout.rowsPerWarp / step}; ++i, to += next)`, () => {
    c.out.line(`const u32 r = ${own ? `${own} + i * ${step}` : 'i'};`)
    const perChunk = PIECE_BYTES / unit
    const place = `r * ${columns * op.bytes} + ${swizzled(op.swizzle, `(w / ${perChunk})`, name('r'))} * ${PIECE_BYTES} + w % ${perChunk} * ${unit}`
    c.out.line(
      `*reinterpret_cast<${type}*>(to) = ${call0(c, loads, `${slotAddress(c, op.buffer)} + ${place}`)};`,
      where,
    )
  })
}
