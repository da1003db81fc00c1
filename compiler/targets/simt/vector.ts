/**
 * Products of a few rows with a matrix, which is read once and as fast as memory allows: pieces of 16 bytes of rows that begin anywhere.
 * Along k, where that is contiguous, warps share the rows of the matrix and k; on tensor cores where they take the operands as they lie.
 * Rows of a tile are so far apart that all of them begin at the same byte of 16: what is loaded are aligned vectors, and the few are those
 * that are shifted. Else threads have neighbouring columns, and the others share k. All CTAs have the same share of the work: each a run of
 * chunks of k, tile after tile, so that those beside each other share one. What threads, warps and CTAs have summed meets in a fixed order,
 * which follows from extents and where rows begin within 16 bytes alone.
 */
import { DTYPES } from '../../dtypes.ts'
import type { ContractNode, ReduceNode, TensorOperand, TensorProgram } from '../../ir/tensor.ts'
import { isPlainInput, operandNamed } from '../../ir/walk.ts'
import type { SimtDesign } from './design.ts'
import { ownAxes } from './domain.ts'

/** Threads of a CTA; of one whose sums take so many registers of a thread. */
const THREADS = 256
const FEWER_THREADS = { threads: 128, from: 64 } as const
/** Sums that a thread may have, and of the few those that it has beside elements of as many. */
const MAX_SUMS = 64
const MAX_FEW = 8
/** Of the matrix: rows that a warp reads at once, where k is contiguous; on tensor cores those of an MMA, or of two that share more of the few. */
const ROWS_AT_ONCE = { fma: 4, mma: 16 } as const
/** Of the few: those of an MMA. */
const MMA_FEW = 8
/** Lanes that have a piece of a row each, where k is not contiguous. */
const LANES = 32
/** SMs whose CTAs share the work: of those that have kernels of no other kind for it (H100, H200). */
const SMS = 132
/** CTAs that share a tile at most: one of them adds up what all have. */
export const MAX_PARTS = 64
/** Chunks of a CTA at least: those across k are short. */
const leastOf = ({ along }: SimtVector): number => (along === 'many' ? 2 : 1)
/** From so many on, all tiles have equally many: fewer CTAs than there might be are no loss then. */
const EVEN = 4

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
  readonly multiply: 'fma' | 'mma'
  readonly matrix: TensorOperand
  readonly vectors: TensorOperand
  /** Results of a CTA: of the few, and of the many at least. */
  readonly extents: readonly [number, number]
  readonly threads: number
  /** CTAs that share an SM. */
  readonly perSm: number
}

/** Elements of a piece. */
export const pieceOf = ({ dtype }: TensorOperand): number => 16 / DTYPES[dtype].storageBytes

/** Rows of the matrix that a warp has at once, or columns of a thread. */
export const eachOf = ({
  along,
  multiply,
  matrix,
  extents: [few],
}: Pick<SimtVector, 'along' | 'multiply' | 'matrix' | 'extents'>): number =>
  along === 'many' ? pieceOf(matrix) : ROWS_AT_ONCE[multiply] * (multiply === 'mma' && few >= MMA_FEW ? 2 : 1)

/**
 * Across k: lanes with pieces of one row. Threads have rows so far apart that all of them begin at the same byte of 16: what is loaded
 * are aligned vectors, whatever the rows are.
 */
export const lanesOf = ({ threads, matrix }: Pick<SimtVector, 'threads' | 'matrix'>): number =>
  Math.min(LANES, threads / pieceOf(matrix))

/** Warps of a CTA that share k, at most. More of the few are read by fewer: the others have other rows of the matrix, and find them in L1. */
export function slotsOf({ along, multiply, extents: [few], threads }: SimtVector): number {
  return along === 'over' && multiply === 'mma' && few >= MMA_FEW ? 4 : threads / 32
}

/** How many of them, for so many pieces of k: each has as many as it has under way, where there are. */
export function sharingWarps(form: SimtVector, steps: number): number {
  let slots = form.along === 'over' ? 1 : slotsOf(form)
  while (slots < slotsOf(form) && slots * stepsOfWarp(form) < steps) slots *= 2
  return slots
}

/** Across k: pieces that a thread has under way. */
export const underWay = ({ extents: [few] }: SimtVector): number => (few < MMA_FEW ? 4 : 2)

/** On tensor cores: steps of a warp, of four pieces of each of its rows, under way at once: as many as registers hold. */
export const mmaSteps = (form: SimtVector): number => 64 / eachOf(form)

/** Pieces of k that a warp has at once. */
export const stepsOfWarp = (form: SimtVector): number => (form.multiply === 'mma' ? 4 * mmaSteps(form) : 32)

/** Along k: rows so far apart begin at the same byte of 16, where so many bytes lie between one and the next. */
export const rowsApart = (bytes: number): number => 16 / ((bytes | 16) & -(bytes | 16))

/** Rows that a CTA has at once across k. */
export const rowsAtOnce = (form: SimtVector): number => (form.threads / lanesOf(form)) * underWay(form)

/**
 * CTAs that share all tiles, of so many chunks of k each. Where each tile has several, their shares are alike, and
 * those of neighbours are at the same k at the same time: what they read lies side by side.
 */
export function sharersOf(form: SimtVector, tiles: number, chunks: number): number {
  const most = SMS * form.perSm
  const each = Math.floor(most / Math.max(tiles, 1))
  return Math.min(
    each < EVEN ? most : each * tiles,
    tiles * Math.min(MAX_PARTS, Math.max(1, Math.floor(chunks / leastOf(form)))),
  )
}

/** The same as CUDA. */
export function sharersText(form: SimtVector, tiles: string, chunks: string): string {
  const most = SMS * form.perSm
  const even = `${tiles} * ${EVEN} > ${most} ? ${most}LL : ${most} / max(${tiles}, 1LL) * ${tiles}`
  return `(int)min(${even}, ${tiles} * min(${MAX_PARTS}, max(1, ${chunks} / ${leastOf(form)})))`
}

/** Of the workspace: sums of tiles that are shared, two for each CTA, and counts of the CTAs that have left theirs, for each. */
export const SUMS = 'vector_sums'
export const COUNTS = 'vector_counts'
export function vectorRegions(form: SimtVector): { readonly sums: number; readonly counts: number } {
  const ctas = SMS * form.perSm
  return { sums: 2 * ctas * form.extents[0] * widthOf(form) * DTYPES[form.node.type].storageBytes, counts: 4 * ctas }
}

/** Columns of the sums of a CTA where k is shared. */
export function widthOf(form: SimtVector): number {
  const { along, threads } = form
  return along === 'many' ? lanesOf(form) * eachOf(form) : (threads / 32 / slotsOf(form)) * eachOf(form)
}

/** Columns of a CTA at most: warps that do not share k have others. */
export const widest = (form: SimtVector): number =>
  form.along === 'many' ? widthOf(form) : (form.threads / 32) * eachOf(form)

/** What warps, or threads, have summed, and the results. Across k one of the few after the other. */
export function vectorBytes(form: SimtVector): number {
  const { along, extents, node, threads } = form
  const [few] = extents
  const sums = along === 'many' ? (threads / lanesOf(form)) * widthOf(form) : (threads / 32) * few * eachOf(form)
  return (sums + few * widest(form)) * DTYPES[node.type].storageBytes + 64
}

/** A row or two across k take few registers; fewest in 16 bits. */
const perSmOf = (rows: number, along: SimtVector['along'], { dtype }: TensorOperand): number =>
  along === 'over' || rows > 2 ? 2 : (DTYPES[dtype].storageBytes === 2 ? 5 : 4) - rows

/** Do tensor cores take both as they lie? */
const onTensorCores = (node: ContractNode, a: TensorOperand, b: TensorOperand): boolean =>
  (a.dtype === 'f16' || a.dtype === 'bf16') && a.dtype === b.dtype && node.type === 'f32' && node.accumulator === 'f32'

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
  const multiply = along === 'over' && onTensorCores(node!, ...operands) ? 'mma' : 'fma'
  const rows = few.length === 0 ? 1 : count
  const each = eachOf({ along, multiply, matrix, extents: [rows, 0] })
  if (multiply === 'fma' && (rows > MAX_FEW || rows * each > MAX_SUMS)) return null
  // And elements of the few: of some rows of k at once, or of a piece.
  const sums = (rows * (each + 4) * DTYPES[node!.type].storageBytes) / 4
  const registers = multiply === 'mma' ? 0 : sums + (along === 'over' ? 2 * pieceOf(matrix) : 0)
  const threads = registers >= FEWER_THREADS.from ? FEWER_THREADS.threads : THREADS
  const form = {
    kind: 'vector',
    node: node!,
    batch: kept.filter((axis) => axis !== few[0] && axis !== many[0]),
    few: few[0] ?? null,
    many: many[0]!,
    over: over[0]!,
    along,
    multiply,
    matrix,
    vectors,
    extents: [rows, each],
    threads,
    perSm: perSmOf(rows, along, matrix),
  } as const satisfies SimtVector
  // Rows that begin anywhere: the first or last piece of a CTA has some columns of its neighbour.
  const least = along === 'many' ? (lanesOf(form) - 1) * each : widthOf(form)
  return { ...form, extents: [rows, least] }
}
