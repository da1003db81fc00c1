/**
 * Planning the operands of mma.sync: how a stage holds their tiles, so that ldmatrix reads 8 rows of 16 bytes from 8 different
 * groups of banks, and how the threads of a CTA bring them there.
 */
import { DTYPES } from '../../dtypes.ts'
import { DEALS, shiftedRowBytes, type Dealt } from '../../space/layout.ts'
import type { OperandPlan, OperandSwizzle } from '../tensor_core/operands.ts'
import type { TensorOperand } from '../../ir/tensor.ts'
import type { Rejection } from '../../instance.ts'
import { rejection } from '../../rejection.ts'

/** Bytes of one row of an ldmatrix matrix, and of a wide copy. */
const CHUNK = 16

/** Bytes that cp.async copies at least. */
const WORD = 4

/** Of rows of these bytes: which 16-byte chunk of a row stands where (PTX ISA 5.5.7 names the same patterns). */
const SWIZZLES: Readonly<Record<number, OperandSwizzle>> = { 32: '32B', 64: '64B', 128: '128B' }

/** 16 lanes read an f64 each: of four rows, two chunks of each. */
const swizzleOf = (span: number, bytes: number): OperandSwizzle =>
  bytes === 8 ? '128B_ATOM_32B' : (SWIZZLES[span] ?? '128B')

interface Where {
  readonly free: string
  readonly k: string
  /** Of the CTA's tile along `free`, a multiple of 16. */
  readonly rows: number
  /** Elements of a stage along k. */
  readonly depth: number
  /** The axis along which tiles begin at any position, and not at one that is aligned. */
  readonly anywhere: string | null
  /** Of k, that one step of the MMAs reads. */
  readonly stepBytes: number
  /** All k tiles are those of one loop along one axis. */
  readonly oneLoop: boolean
  /**
   * Lanes read elements of shared memory by themselves, and may as well in this order; else ldmatrix does, which transposes 16-bit elements alone.
   */
  readonly eitherOrder: boolean
  /** Lanes multiply rows of their own, of which they load several at once: how these stand. null: as they lie in memory. */
  readonly dealt: Dealt | null
}

/** How rows of A and of B stand that lanes multiply, of so many rows of a warp. */
export const dealtOf = (side: 'a' | 'b', rowsOfWarp: number): Dealt =>
  side === 'b' ? 'pairs' : rowsOfWarp % DEALS.fours.among === 0 ? 'fours' : 'twos'

/** By elements, whatever their order in memory. */
function planDealt(operand: TensorOperand, { rows, depth, stepBytes }: Where, dealt: Dealt): OperandPlan {
  const pitch = shiftedRowBytes(rows, WORD)
  const bytes = depth * pitch
  return {
    operand,
    major: 'mn',
    source: 'copy',
    copyBytes: WORD,
    rows,
    slices: 1,
    sliceRows: depth,
    sliceBytes: bytes,
    boxes: 1,
    boxExtents: [rows, depth, 1],
    boxBytes: bytes,
    boxPitch: bytes,
    tileBytes: bytes,
    dealt,
    descriptor: { leadingBytes: 0, strideBytes: 0, swizzle: 'none', stepBytes },
  }
}

/**
 * `copy`: cp.async, of 16 bytes where rows are aligned to them, else of words or of elements of 4 or 8. Rows of 2-byte elements that begin
 * anywhere are copied as they lie in memory, by 16 bytes too: fragments are shifted on their way to registers, each row of 8 by an amount of its
 * own. Other rows of bytes, what is computed or has to be transposed, and where shifts would change from loop to loop, go through registers.
 */
export function planSm80Operand(operand: TensorOperand, where: Where): OperandPlan | Rejection {
  const { free, k, rows, depth, anywhere, stepBytes, oneLoop, eitherOrder, dealt } = where
  // Warps share dealt rows by the bits of their numbers.
  if (dealt && !Number.isInteger(Math.log2(rows)))
    return rejection('KTL2904', { form: `a tile of ${rows} rows or columns of f32` })
  if (dealt) return planDealt(operand, where, dealt)
  const { storageBytes: bytes } = DTYPES[operand.dtype]
  const inner = operand.order.at(-1)
  const aligned = { vector: CHUNK, word: WORD, element: 0, repacked: 0 }[operand.divisibility]
  // Through copies of 16 bytes alone: what is copied by elements may as well be transposed.
  const read = eitherOrder && aligned === CHUNK && inner !== anywhere && !operand.computed
  const major = inner === free && (bytes === 2 || read) ? 'mn' : 'k'
  const inOrder = major === 'mn' || inner === k
  const wide = inner !== anywhere && inOrder ? aligned : 0
  const shifted = wide === 0 && inOrder && bytes === 2 && oneLoop && !operand.computed
  const source = !operand.computed && (wide > 0 || shifted || bytes >= 4) ? 'copy' : 'gather'
  const row = major === 'k' ? depth * bytes : rows * bytes
  const span = major === 'k' || shifted ? row : Math.max(...[32, 64, 128].filter((s) => row % s === 0))
  const sliceRows = major === 'k' ? rows : depth
  const boxes = row / span
  const pitch = shifted ? span + CHUNK : span
  return {
    operand,
    major,
    source,
    copyBytes: shifted || wide === CHUNK ? CHUNK : bytes === 8 ? 8 : WORD,
    rows,
    slices: 1,
    sliceRows,
    sliceBytes: sliceRows * pitch,
    boxes,
    boxExtents: [span / bytes, sliceRows, 1],
    boxBytes: sliceRows * pitch,
    boxPitch: sliceRows * pitch,
    tileBytes: sliceRows * pitch * boxes,
    ...(shifted && { shifted }),
    descriptor: { leadingBytes: 0, strideBytes: 8 * span, swizzle: swizzleOf(span, bytes), stepBytes },
  }
}
