/** Operands of the epilogue along n or m alone, whose values are loaded before the MMAs and stay in registers for the whole tile. */
import { DTYPES } from '../../dtypes.ts'
import type { TileOp } from '../../ir/pipe.ts'
import type { Ahead } from '../../ir/pipe_epilogue.ts'
import type { Matmul } from '../../classes/matmul.ts'
import { inBlocks, isDense, type TensorOperand } from '../../ir/tensor.ts'
import { guardOf } from '../../ir/walk.ts'
import { valuesOf, type EpiloguePlan } from './epilogue.ts'
import type { AuxPlan } from './epilogue_operands.ts'
import { stopsAtN, type Brought } from './lower_epilogue.ts'

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

/** Has it an element for each of the tile's, as it is in memory, that nobody else brings? */
const isOfElements = ({ operand, shape, fetch }: AuxPlan): boolean =>
  shape === 'full' && fetch === null && isDense(operand)

/** Operands of each element, where a warp has one sub-tile of few columns, as those of clusters that share k. */
export const fewElements = ({ aux, subtileColumns }: EpiloguePlan): string[] =>
  subtileColumns / 2 > FEW ? [] : aux.filter(isOfElements).map(({ operand }) => operand.name)

/** Are two columns of a row of it in one word of memory? */
export const inPairs = ({ dtype, divisibility, order }: TensorOperand, n: string): boolean =>
  DTYPES[dtype].storageBytes <= 2 && divisibility !== 'element' && order.at(-1) === n

/** An operand of each element, by name, and of what its elements are in registers ahead of their use. */
export interface ElementsAhead {
  readonly operand: string
  readonly of: Ahead
}

/**
 * Operands of each element, as long as there are registers for those that a lane has of the tile, `count`, or else of a sub-tile: of their lines L2 would be
 * asked when all else is done, sub-tile by sub-tile, and rows that begin anywhere take several times as many instructions through shared memory (measured).
 * `spare`: registers, while sums of other parts are loaded and in the epilogue.
 */
export function elementsAhead(
  { aux, subtileColumns, measured }: EpiloguePlan,
  { n }: Pick<Matmul, 'n'>,
  count: number,
  spare: Readonly<Record<Ahead, number>>,
): ElementsAhead[] {
  const left = { ...spare }
  return aux.filter(isOfElements).flatMap(({ operand }): ElementsAhead[] => {
    const perWord = inPairs(operand, n) ? 2 : 1
    const words = { tile: count / perWord, subtile: subtileColumns / 2 / perWord }
    // Sub-tiles that are measured first come twice.
    const of = (measured === null ? (['tile', 'subtile'] as const) : (['tile'] as const)).find(
      (of) => words[of] <= left[of],
    )
    if (of === undefined) return []
    for (const held of ['tile', 'subtile'] as const) left[held] -= words[of]
    return [{ operand: operand.name, of }]
  })
}

/** Of those the loads. */
export const elementLoads = (epilogue: EpiloguePlan, elements: readonly ElementsAhead[]): TileOp[] =>
  elements.map(({ operand, of }) => {
    const guard = guardOf(valuesOf(epilogue), operand)
    return { op: 'load_ahead', operand, shape: 'full', elements: of, guard }
  })

/** Where their values come from. */
export const elementsBrought = (
  epilogue: EpiloguePlan,
  elements: readonly ElementsAhead[],
): ReadonlyMap<string, Brought> =>
  new Map(
    elements.map(({ operand, of }) => {
      const guard = guardOf(valuesOf(epilogue), operand)
      const next: TileOp = { op: 'load_next', operand, stops: stopsAtN(epilogue), guard }
      return [operand, { before: [], from: { ahead: of }, then: of === 'subtile' ? [next] : [] }]
    }),
  )

/** Operands along n or m, under the MMAs; lines of memory of those along both that no copy brings, or one that has no slots for all of them. */
export const loadsAhead = ({
  ahead,
  epilogue,
  gemm,
  copied = [],
  linesAhead = false,
}: {
  readonly ahead: readonly string[]
  readonly epilogue: EpiloguePlan
  readonly gemm: Pick<Matmul, 'm'>
  /** Other warps bring them. */
  readonly copied?: readonly AuxPlan[]
  readonly linesAhead?: boolean
}): TileOp[] =>
  epilogue.aux.flatMap((plan): TileOp[] => {
    const { operand, shape, rows, vector, fetch } = plan
    const { name } = operand
    // Along m each column has lines of its own.
    const inLines = vector || rows || (isDense(operand) && operand.order.at(-1) === gemm.m)
    const isAhead =
      ahead.includes(name) || (shape === 'full' && (fetch === null || linesAhead) && inLines && !copied.includes(plan))
    if (!isAhead || shape === 'uniform') return []
    const elements = shape === 'full' && ahead.includes(name)
    const guard = guardOf(valuesOf(epilogue), name)
    return [{ op: 'load_ahead', operand: name, shape, ...(elements && { elements: 'tile' }), guard }]
  })
