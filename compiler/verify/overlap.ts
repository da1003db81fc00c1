/** Tiles that overlap: each sector of an output is one's own, and what a tile loads of columns begins where it may. */
import { DTYPES } from '../dtypes.ts'
import { opsOf, type TileProgram } from '../ir/pipe.ts'
import { PIECE_BYTES, SECTOR_BYTES } from '../space/layout.ts'
import { beginsBlocks } from '../stored/blocks.ts'

export function* overlapProblems(program: TileProgram): Generator<string> {
  const { step } = program.domain.columns
  if (step === undefined) return
  yield* storeProblems(program, step)
  yield* loadProblems(program, step)
}

/** Warps have whole rows, which leave in pieces, and each of a tile's steps is whole sectors. */
function* storeProblems(program: TileProgram, step: number): Generator<string> {
  const { extent } = program.domain.columns
  if (program.reductions.length > 0) yield 'tiles overlap, and reductions have columns twice'
  if (program.layout.columns !== extent)
    yield `tiles of ${extent} columns overlap, of which warps have ${program.layout.columns}`
  for (const op of opsOf(program)) {
    if (op.op === 'direct_store' || op.op === 'tma_store' || (op.op === 'row_store' && op.carry === undefined))
      yield `${op.op} ${op.operand}: tiles overlap, and elements would be stored twice`
    else if (
      op.op === 'row_store' &&
      ((step * op.bytes) % SECTOR_BYTES !== 0 || (extent - step) * op.bytes < SECTOR_BYTES)
    )
      yield `tiles of ${extent} columns of ${op.operand} that are ${step} apart do not hold all sectors`
  }
}

/** Columns that lie side by side are loaded in pieces, and scales of several of them for a tile's own. */
function* loadProblems(program: TileProgram, step: number): Generator<string> {
  const { axis } = program.domain.columns
  for (const op of opsOf(program)) {
    if (!('free' in op) || op.free !== 'n') continue
    const operand = program.source.operands.find(({ name }) => name === op.operand)
    if (!operand) continue
    if (!beginsBlocks(operand, axis, step)) yield `${op.op} ${op.operand}: tiles that are ${step} apart cut its blocks`
    const isAcross = 'tile' in op && operand.order.at(-1) === axis
    if (isAcross && (step * DTYPES[operand.dtype].bits) % (8 * PIECE_BYTES) !== 0)
      yield `${op.op} ${op.operand}: tiles that are ${step} apart begin within pieces of its rows`
  }
}
