/** Tiles that share columns of each row, so that each stores whole sectors of memory alone, wherever rows begin. */
import type { Matmul } from '../../classes/matmul.ts'
import { DTYPES } from '../../dtypes.ts'
import type { TensorOperand } from '../../ir/tensor.ts'
import { operandNamed } from '../../ir/walk.ts'
import type { Rejection } from '../../instance.ts'
import { rejection } from '../../rejection.ts'
import { PIECE_BYTES, SECTOR_BYTES } from '../../space/layout.ts'
import { beginsBlocks } from '../../stored/blocks.ts'
import { isShifted, type EpiloguePlan } from './epilogue.ts'

/**
 * Columns that tiles of `columns` share: a sector of each output, and whole pieces of operands that have columns side by side, which are loaded in such.
 * KTL2904: of outputs whose rows are aligned, or of what each element, or each tile, is for once.
 */
export function overlapOf(
  { outputs, aux, reductions, layout }: EpiloguePlan,
  { graph: { program }, n, groups, sums, interleaved, segments }: Matmul,
  columns: number,
): { readonly overlap: number } | Rejection {
  const form = (what: string): Rejection => rejection('KTL2904', { form: `tiles that overlap, ${what},` })
  if (groups || sums || interleaved !== null) return form('of ragged or gated products')
  if (reductions.length > 0) return form('of outputs that are summed')
  if (aux.some(({ shape }) => shape === 'full')) return form('with operands of each element')
  if (layout.columns !== columns) return form('whose rows are shared by warps')
  if (!outputs.every((output) => isShifted(output) && output.block === null))
    return form('of outputs whose rows are aligned')
  const named = (names: readonly (string | null)[]): TensorOperand[] =>
    names.flatMap((name) => (name === null ? [] : operandNamed(program, name)))
  const across = named(segments.flatMap(({ b }) => b)).filter(({ order }) => order.at(-1) === n)
  const overlap = Math.max(
    ...outputs.map(({ elementBytes }) => SECTOR_BYTES / elementBytes),
    ...across.map(({ dtype }) => (8 * PIECE_BYTES) / DTYPES[dtype].bits),
  )
  if (overlap >= columns || columns % overlap !== 0) return form(`${columns} columns of them`)
  const scales = named(segments.flatMap((segment) => segment.scales.b))
  if (!scales.every((scale) => beginsBlocks(scale, n, columns - overlap)))
    return form('with scales that columns of both share')
  return { overlap }
}
