/**
 * Planning the operands of mma.sync: how a stage holds their tiles, so that ldmatrix reads 8 rows of 16 bytes from 8 different
 * groups of banks, and how the threads of a CTA bring them there.
 */
import { DTYPES } from '../../dtypes.ts'
import type { OperandPlan, OperandSwizzle } from '../tensor_core/operands.ts'
import type { TensorOperand } from '../../ir/tensor.ts'

/** Bytes of one row of an ldmatrix matrix, and of a wide copy. */
const CHUNK = 16

/** Of rows of these bytes: which 16-byte chunk of a row stands where (PTX ISA 5.5.7 names the same patterns). */
const SWIZZLES: Readonly<Record<number, OperandSwizzle>> = { 32: '32B', 64: '64B', 128: '128B' }

/**
 * `copy`: cp.async, of 16 bytes where rows are aligned to them, else of elements of 4 or 8. 8-bit operands that are not contiguous along k, and
 * elements of less than 4 bytes that are not aligned, are gathered through registers.
 *
 * `rows`: of the CTA's tile along `free`, a multiple of 16; `kExtent`: elements of a stage along k; `anywhere`: the axis along
 * which tiles begin at any position, and not at one that is aligned; `stepBytes`: of k, that one step of the MMAs reads.
 */
export function planSm80Operand(
  operand: TensorOperand,
  free: string,
  k: string,
  rows: number,
  kExtent: number,
  anywhere: string | null,
  stepBytes: number,
): OperandPlan {
  const { storageBytes: bytes } = DTYPES[operand.dtype]
  const inner = operand.order.at(-1)
  const vector = operand.divisibility === 'vector'
  // ldmatrix transposes 16-bit elements.
  const major = inner === free && bytes === 2 ? 'mn' : 'k'
  const wide = vector && inner !== anywhere && (major === 'mn' || inner === k)
  const source = !operand.computed && (wide || bytes >= 4) ? 'copy' : 'gather'
  const span = major === 'k' ? kExtent * bytes : Math.max(...[32, 64, 128].filter((s) => (rows * bytes) % s === 0))
  const spanElements = span / bytes
  const sliceRows = major === 'k' ? rows : kExtent
  const boxes = major === 'k' ? 1 : rows / spanElements
  return {
    operand,
    major,
    source,
    copyBytes: wide ? CHUNK : bytes === 8 ? 8 : 4,
    rows,
    slices: 1,
    sliceRows,
    sliceBytes: sliceRows * span,
    boxes,
    boxExtents: [spanElements, sliceRows, 1],
    boxBytes: sliceRows * span,
    boxPitch: sliceRows * span,
    tileBytes: rows * kExtent * bytes,
    descriptor: { leadingBytes: 0, strideBytes: 8 * span, swizzle: SWIZZLES[span]!, stepBytes },
  }
}
