/**
 * Products of a few rows with a matrix, which is read once and as fast as memory allows: CUDA cores, pieces of 16 bytes of rows that
 * begin anywhere. Where k is contiguous the threads of a CTA take turns along it, with several rows of the matrix under way; else
 * neighbours lie along the rows of the matrix, and the others share k. What threads have summed meets in a fixed order.
 */
import { DTYPES } from '../../dtypes.ts'
import type { ContractNode, ReduceNode, TensorOperand, TensorProgram } from '../../ir/tensor.ts'
import { isPlainInput, operandNamed } from '../../ir/walk.ts'
import type { SimtDesign } from './design.ts'
import { ownAxes } from './domain.ts'

/** Threads of a CTA; of one whose sums take so many registers of a thread. */
const THREADS = 256
const FEWER_THREADS = { threads: 128, from: 64 } as const
/** Sums that a thread may have. */
const MAX_SUMS = 64
/** CTAs that share an SM at least. */
export const VECTOR_CTAS = 2
/** Of the matrix: rows that a CTA reads at once, where k is contiguous. */
const ROWS_AT_ONCE = 4
/** Neighbouring threads with pieces of one row, else. */
const LANES = 4

export interface SimtVector {
  readonly kind: 'vector'
  readonly node: ContractNode
  readonly batch: readonly string[]
  /** The axis of the few; null: there is one. */
  readonly few: string | null
  readonly many: string
  readonly over: string
  /** What is contiguous in the matrix. */
  readonly along: 'over' | 'many'
  readonly matrix: TensorOperand
  readonly vectors: TensorOperand
  /** Results of a CTA: of the few, and of the many. */
  readonly extents: readonly [number, number]
  readonly threads: number
}

/** Threads that have pieces of one row where `many` is contiguous. */
export const lanesOf = ({ along }: SimtVector): number => (along === 'many' ? LANES : 1)
/** Elements of a piece. */
export const pieceOf = ({ dtype }: TensorOperand): number => 16 / DTYPES[dtype].storageBytes

/** A sum for each warp and result. */
export const vectorBytes = ({ extents: [few, many], node, threads }: SimtVector): number =>
  (threads / 32) * few * many * DTYPES[node.type].storageBytes

/** The product of a stage with these loops; null: it is none. */
export function vectorOf(
  program: TensorProgram,
  loops: readonly (ContractNode | ReduceNode)[],
  { side, count }: NonNullable<SimtDesign['vector']>,
): SimtVector | null {
  const [node] = loops
  if (loops.length !== 1 || node!.kind !== 'contract' || node!.terms.length !== 1) return null
  if (program.axes.some(({ ragged }) => ragged)) return null
  const [{ a, b, over }] = node!.terms
  if (!isPlainInput(a) || !isPlainInput(b) || a.operand === b.operand) return null
  const operands = [a, b].map(({ operand }) => operandNamed(program, operand)) as [TensorOperand, TensorOperand]
  const [vectors, matrix] = side === 'rows' ? operands : [operands[1], operands[0]]
  const isPlain = ({ dtype, stored, partOf, blocks, computed }: TensorOperand): boolean =>
    DTYPES[dtype].bits >= 8 && DTYPES[dtype].class !== 'bool' && !stored && !partOf && !blocks && !computed
  const kept = ownAxes(program, node!.axes)
  const free = (x: TensorOperand, y: TensorOperand): string[] =>
    kept.filter((axis) => x.axes.includes(axis) && !y.axes.includes(axis))
  const [few, many] = [free(vectors, matrix), free(matrix, vectors)]
  const contiguous = matrix.order.at(-1)
  const along = contiguous === over[0] ? 'over' : contiguous === many[0] ? 'many' : null
  if (!operands.every(isPlain) || few.length > 1 || many.length !== 1 || over.length !== 1 || along === null)
    return null
  const rows = few.length === 0 ? 1 : count
  const each = along === 'over' ? ROWS_AT_ONCE : pieceOf(matrix)
  if (rows * each > MAX_SUMS) return null
  // And elements of the few: of some rows of k at once.
  const registers = (rows * (each + 4) * DTYPES[node!.type].storageBytes) / 4
  return {
    kind: 'vector',
    node: node!,
    batch: kept.filter((axis) => axis !== few[0] && axis !== many[0]),
    few: few[0] ?? null,
    many: many[0]!,
    over: over[0]!,
    along,
    matrix,
    vectors,
    extents: [rows, along === 'over' ? each : LANES * each],
    threads: registers >= FEWER_THREADS.from ? FEWER_THREADS.threads : THREADS,
  }
}
