/**
 * Copies of operands whose rows TMA cannot address: a kernel of its own writes them to the workspace before the others read them there.
 * Rows of a copy lie one after another, each at a multiple of 128 bytes, so that boxes of 128 bytes are whole lines of L2.
 */
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { DTYPES } from '../dtypes.ts'
import type { CopiedRows, WorkspaceRegion } from './launch.ts'
import type { TensorOperand } from './tensor.ts'

/** Rows of copies begin at multiples of so many bytes. */
export const ROW_BYTES = 128
/** Of the kernel that copies. */
export const REPACK_THREADS = 256
/** Pieces of 16 bytes that a thread has under way: a power of two. */
export const REPACK_BATCH = 4
/** CTAs that share an SM, and CTAs at most. */
export const REPACK_SHARE = 4
export const REPACK_CTAS = 1056

/** Lanes that share a row of so many pieces, up to a warp. */
const lanesOfRow = (pieces: number): number => Math.min(32, 2 ** Math.ceil(Math.log2(Math.max(1, pieces))))

/** Threads that copy a row of so many pieces, each `REPACK_BATCH` of them at most. */
export function threadsOfRow(pieces: number): number {
  const lanes = lanesOfRow(pieces)
  return lanes * Math.ceil(pieces / (lanes * REPACK_BATCH))
}

interface WithOperands {
  readonly operands: readonly TensorOperand[]
}

export const repackedOf = ({ operands }: WithOperands): TensorOperand[] =>
  operands.filter(({ divisibility, half }) => divisibility === 'repacked' && half === undefined)

/** Axes of a copy, innermost first. */
export const copyAxes = ({ order }: Pick<TensorOperand, 'order'>): string[] => [...order].reverse()

const perRow = (dtype: DTypeName): number => ROW_BYTES / DTYPES[dtype].storageBytes

/** How its rows are copied, for the grid. */
export const copiedRows = (operand: TensorOperand): CopiedRows => ({
  operand: operand.name,
  inner: copyAxes(operand)[0]!,
  piece: 16 / DTYPES[operand.dtype].storageBytes,
})

/** Elements from one position to the next along each of `axes`, innermost first. */
export function copyPitches(axes: readonly string[], dtype: DTypeName, extent: (axis: string) => number): number[] {
  let pitch = 1
  return axes.map((axis, i) => {
    const own = pitch
    pitch = i === 0 ? Math.ceil(extent(axis) / perRow(dtype)) * perRow(dtype) : pitch * extent(axis)
    return own
  })
}

export function copyRegion(operand: TensorOperand): WorkspaceRegion {
  const [inner, ...others] = copyAxes(operand)
  return {
    name: operand.name,
    elementBytes: ROW_BYTES,
    extents: [{ axis: inner!, per: perRow(operand.dtype) }, ...others.map((axis) => ({ axis, per: 1 }))],
  }
}
