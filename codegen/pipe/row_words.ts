/** Rows that are words of memory, out of the slots of a warp. */
import type { EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import { name } from '../../compiler/space/ix.ts'
import { swizzled } from '../../compiler/space/layout.ts'
import { call0, slotAddress, type EmitContext } from './context.ts'

export type RowStore = Extract<EpilogueOp, { op: 'row_store' }>

/**
 * Whole sub-tiles: a lane has one word of a row, and so many rows of a warp are under way at once. Neighbouring lanes have neighbours in memory, so that
 * a warp writes whole lines of L2. `first`: where the first row begins, `pitch` elements before the next.
 */
export function storeWords(op: RowStore, c: EmitContext, where: object): void {
  const { subtileColumns: columns, layout } = c.program
  const words = (columns * op.bytes) / 4
  const step = Math.max(1, 32 / words)
  const own = step === 1 ? '' : `lane / ${words}`
  c.out.line(`const u32 w = lane % ${words};`, where)
  c.out.line(`i64 next = pitch * ${step * op.bytes};`)
  c.out.line('asm volatile("" : "+l"(next));  // added up: products of each row take three times the instructions')
  c.out.line(`char* to = reinterpret_cast<char*>(first${own && ` + ${own} * pitch`}) + w * 4;`)
  c.out.line(`#pragma unroll ${layout.held === 'row' ? 4 : 8}`)
  c.out.block(`for (u32 i = 0; i < ${layout.rowsPerWarp / step}; ++i, to += next)`, () => {
    c.out.line(`const u32 r = ${own ? `${own} + i * ${step}` : 'i'};`)
    const place = `r * ${columns * op.bytes} + ${swizzled(op.swizzle, '(w / 4)', name('r'))} * 16 + w % 4 * 4`
    const word = call0(c, 'load_shared_b32', `${slotAddress(c, op.buffer)} + ${place}`)
    c.out.line(`*reinterpret_cast<u32*>(to) = ${word};`, where)
  })
}
