/**
 * Products of a few rows with a matrix, which is read once and as fast as memory allows: pieces of 16 bytes of rows that begin anywhere.
 * Along k, where that is contiguous, warps share the rows of the matrix and k; on tensor cores where they take the operands as they lie.
 * Else threads have neighbouring columns, and the others share k. Tiles are few, so that several CTAs share the k of one. What threads,
 * warps and CTAs have summed meets in a fixed order, which follows from extents (and how rows lie in 16 bytes) alone.
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
/** Of the matrix: rows that a warp reads at once, where k is contiguous; on tensor cores those of an MMA. */
const ROWS_AT_ONCE = { fma: 4, mma: 16 } as const
/** Of the few: those of an MMA. */
const MMA_FEW = 8
/** Lanes that have a piece of a row each, where k is not contiguous. */
const LANES = 32
/** SMs that CTAs at once are counted for. */
const SMS = 128
/** CTAs that share the k of a tile, at most: one of them adds up what all have. */
export const MAX_PARTS = 64
/** Where there are more tiles than CTAs at once, parts even out the last turn: so many turns at most. */
const TURNS = 3

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
export const eachOf = ({ along, multiply, matrix }: Pick<SimtVector, 'along' | 'multiply' | 'matrix'>): number =>
  along === 'over' ? ROWS_AT_ONCE[multiply] : pieceOf(matrix)

/**
 * Across k: lanes with pieces of one row. Threads have rows so far apart that all of them begin at the same byte of 16: what is loaded
 * are aligned vectors, whatever the rows are.
 */
export const lanesOf = ({ threads, matrix }: Pick<SimtVector, 'threads' | 'matrix'>): number =>
  Math.min(LANES, threads / pieceOf(matrix))

/** Warps of a CTA that share k, at most. More of the few are read by fewer: the others have other rows of the matrix, and find them in L1. */
export function slotsOf({ along, multiply, extents: [few], threads }: SimtVector): number {
  if (along === 'many') return threads / 32
  return multiply === 'fma' || few === 1 ? threads / 32 : few < MMA_FEW ? 4 : 2
}

/** Pieces that a thread has under way of aligned rows, and of others. */
export function underWay({ along, multiply, extents: [few] }: SimtVector): readonly [number, number] {
  if (along === 'many') return few === 1 ? [8, 8] : few < 8 ? [4, 4] : [2, 2]
  return multiply === 'mma' ? [8, 4] : [4, 4]
}

/** Steps of k, pieces or rows, that a CTA makes at once if so many of its warps share them. */
export function stepsAtOnce(form: SimtVector, slots: number): number {
  const [aligned] = underWay(form)
  if (form.along === 'many') return (form.threads / lanesOf(form)) * aligned
  return slots * (form.multiply === 'mma' ? 2 * aligned : 32)
}

/** CTAs at once. */
export const slotsAtOnce = ({ perSm }: Pick<SimtVector, 'perSm'>): number => SMS * perSm

/** Parts of k of each tile: so many CTAs as are at once, or turns of them. `text`: the same as CUDA. */
export function partsOf(form: SimtVector, tiles: number, steps: number, slots: number): number {
  const at = slotsAtOnce(form)
  const wanted = Math.floor((tiles > at ? TURNS * at : at) / Math.max(tiles, 1))
  return Math.max(1, Math.min(MAX_PARTS, wanted, Math.floor(steps / (2 * stepsAtOnce(form, slots)))))
}

export function partsText(form: SimtVector, [tiles, steps, slots]: readonly [string, string, string]): string {
  const at = slotsAtOnce(form)
  const wanted = `(${tiles} > ${at} ? ${TURNS * at} : ${at}) / max(${tiles}, 1LL)`
  return `(int)max(1LL, min(min(${MAX_PARTS}LL, ${wanted}), (long long)(${steps} / (${2 * stepsAtOnce(form, 1)} * ${form.along === 'many' ? 1 : slots}))))`
}

/** Of the workspace: sums of all parts, and a count for each tile that has parts. */
export const SUMS = 'vector_sums'
export const COUNTS = 'vector_counts'
export function vectorRegions(form: SimtVector): { readonly sums: number; readonly counts: number } {
  const most = TURNS * slotsAtOnce(form)
  return { sums: most * form.extents[0] * widthOf(form) * DTYPES[form.node.type].storageBytes, counts: 4 * most }
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
  const each = eachOf({ along, multiply, matrix })
  if (multiply === 'fma' && (rows > MAX_FEW || rows * each > MAX_SUMS)) return null
  // And elements of the few: of some rows of k at once.
  const registers = multiply === 'mma' ? 0 : (rows * (each + 4) * DTYPES[node!.type].storageBytes) / 4
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
    perSm: threads === THREADS ? 2 : 3,
  } as const satisfies SimtVector
  // Rows that begin anywhere: the first or last piece of a CTA has some columns of its neighbour.
  const least = along === 'many' ? (lanesOf(form) - 1) * each : widthOf(form)
  return { ...form, extents: [rows, least] }
}
