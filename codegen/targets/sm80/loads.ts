/** Operands on their way to the MMAs of SM80: ldmatrix out of the stage ring. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { TileOp, TileProgram } from '../../../compiler/ir/pipe.ts'
import type { TileSource } from '../../../compiler/ir/pipe_mma.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import { mod, name } from '../../../compiler/space/ix.ts'
import { swizzled } from '../../../compiler/space/layout.ts'
import { call, note, slotAddress, type EmitContext } from '../../pipe/context.ts'

type LoadFragments = Extract<TileOp, { op: 'load_fragments' }>

/**
 * Where a lane reads, the same in all steps. Of A, matrices are rows 0-7 and 8-15 of the first chunk of k, then of the second;
 * of B, both chunks of 8 columns, then of the next 8.
 */
export function laneOffset(side: 'a' | 'b', { operand, tile }: TileSource, { source }: TileProgram): string {
  const span = tile.span * DTYPES[operandNamed(source, operand).dtype].storageBytes
  const [byHalf, byQuarter] = ['lane / 16', 'lane / 8 % 2']
  // Which of the two selects 8 further rows of shared memory, and which the next chunk of them.
  const [row, chunk] = (side === 'a') === (tile.major === 'k') ? [byQuarter, byHalf] : [byHalf, byQuarter]
  const first = tile.major === 'mn' ? '' : side === 'a' ? 'warp_m * WARP_M + ' : 'warp_n * WARP_N + '
  return `(${first}lane % 8 + ${row} * 8) * ${span} + ${swizzled(tile.swizzle, chunk, mod(name('lane', 32), 8))} * 16`
}

/** Name of the variable of `laneOffset`: one for A, one for each way that operands B lie. */
export const lanesName = (side: 'a' | 'b', { tile }: TileSource): string =>
  `${side}_lane${side === 'b' && tile.major === 'mn' ? '_mn' : ''}`

export function emitLoadFragments({ a, products, step, set }: LoadFragments, c: EmitContext): void {
  const load = (side: 'a' | 'b', source: TileSource, count: string, target: string): void => {
    const { tile, buffer, operand } = source
    const where = note(c, `fragments of ${operand}`)
    const span = tile.span * DTYPES[operandNamed(c.program.source, operand).dtype].storageBytes
    const wrapper = tile.major === 'k' ? 'ldmatrix_x4' : 'ldmatrix_x4_trans'
    const lanes = lanesName(side, source)
    const slot = slotAddress(c, buffer)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
      if (tile.major === 'k') {
        const along = step > 0 ? `(${lanes} ^ ${32 * step})` : lanes
        return c.out.line(call(c, wrapper, target, `${slot} + ${along} + i * ${16 * span}`), where)
      }
      // 16 elements along the free axis are two chunks of a span.
      const perSpan = span / 32
      if (perSpan > 1 || tile.pitch > 0)
        c.out.line(`const u32 part = ${side === 'a' ? 'warp_m * (WARP_M / 16)' : 'warp_n * (WARP_N / 16)'} + i;`)
      const along = perSpan > 1 ? `(${lanes} ^ part % ${perSpan} * 32)` : lanes
      const box = tile.pitch > 0 ? ` + part / ${perSpan} * ${tile.pitch}` : ''
      c.out.line(call(c, wrapper, target, `${slot} + ${along}${box} + ${step * 16 * span}`), where)
    })
  }
  load('a', a, 'ROW_BLOCKS', `a_fragments[${set}][i]`)
  products.forEach((b, p) =>
    load('b', b, 'COLUMN_BLOCKS / 2', `b_fragments[${set}][${p > 0 ? `${p} * COLUMN_BLOCKS + ` : ''}2 * i]`),
  )
}
