/** Operands of the epilogue along n or m alone, whose values are loaded before the MMAs and stay in registers for the whole tile. */
import { DTYPES } from '../../dtypes.ts'
import type { TileOp } from '../../ir/pipe.ts'
import type { Matmul } from '../../classes/matmul.ts'
import { inBlocks, isDense } from '../../ir/tensor.ts'
import { guardOf } from '../../ir/walk.ts'
import { valuesOf, type EpiloguePlan } from './epilogue.ts'
import type { AuxPlan } from './epilogue_operands.ts'

/** Columns of a sub-tile whose values take the place of their accumulators. */
export const IN_PLACE = 64

/**
 * As many as registers allow: loaded where they are used, each sub-tile would wait for L2. Columns are spread over the lanes of a warp, in
 * pairs; a lane has two rows of each block.
 */
export function loadedAhead(epilogue: EpiloguePlan, rowBlocks: number, spare: number, most: number): string[] {
  const { aux, layout, subtileColumns } = epilogue
  const values = valuesOf(epilogue).length + aux.filter(({ shape }) => shape === 'full').length
  const beside = values - +(subtileColumns >= IN_PLACE)
  let left = Math.min(most, spare - (beside * subtileColumns) / 2)
  return aux.flatMap(({ shape, operand }) => {
    const { name, dtype } = operand
    const { storageBytes } = DTYPES[dtype]
    const words = shape === 'row' ? Math.ceil(layout.columns / 64) * (storageBytes === 4 ? 2 : 1) : 2 * rowBlocks
    const isSpread = shape === 'row' && !inBlocks(operand) && !operand.computed
    if (!(isSpread || (shape === 'column' && !inBlocks(operand))) || storageBytes > 4 || words > left) return []
    left -= words
    return [name]
  })
}

/** Elements of a lane that are few enough to wait in registers. */
const FEW = 8

/**
 * Operands of each element, where a warp has one sub-tile of few columns, as those of clusters that share k: of their lines L2 would be asked when all
 * else is done.
 */
export const elementsAhead = ({ aux, subtileColumns }: EpiloguePlan): string[] =>
  subtileColumns / 2 > FEW
    ? []
    : aux.flatMap(({ operand, shape, fetch }) =>
        shape === 'full' && fetch === null && isDense(operand) && !operand.computed ? [operand.name] : [],
      )

/** Operands along n or m, under the MMAs; lines of memory of those along both that no copy brings. */
export const loadsAhead = ({
  ahead,
  epilogue,
  gemm,
  copied = [],
}: {
  readonly ahead: readonly string[]
  readonly epilogue: EpiloguePlan
  readonly gemm: Pick<Matmul, 'm'>
  /** Other warps bring them. */
  readonly copied?: readonly AuxPlan[]
}): TileOp[] =>
  epilogue.aux.flatMap((plan): TileOp[] => {
    const { operand, shape, rows, vector, fetch } = plan
    const { name } = operand
    // Along m each column has lines of its own.
    const inLines = vector || rows || (isDense(operand) && operand.order.at(-1) === gemm.m)
    const isAhead = ahead.includes(name) || (shape === 'full' && fetch === null && inLines && !copied.includes(plan))
    if (!isAhead || shape === 'uniform') return []
    const elements = shape === 'full' && ahead.includes(name)
    const guard = guardOf(valuesOf(epilogue), name)
    return [{ op: 'load_ahead', operand: name, shape, ...(elements && { elements }), guard }]
  })
