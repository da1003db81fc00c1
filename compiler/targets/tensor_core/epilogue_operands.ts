/** Operands of the epilogue: how each reaches the registers of those who compute it. */
import { DTYPES } from '../../dtypes.ts'
import type { Matmul } from '../../classes/matmul.ts'
import type { Rejection } from '../../instance.ts'
import { rejection } from '../../rejection.ts'
import { inBlocks, isDense, type ScalarOperand, type TensorOperand } from '../../ir/tensor.ts'
import { SWIZZLE_OF_ROW, type Swizzle } from '../../space/layout.ts'
import type { AccumulatorLayout } from './accumulators.ts'

export interface AuxPlan {
  readonly operand: TensorOperand
  readonly shape: 'full' | 'row' | 'column' | 'uniform'
  readonly vector: boolean
  /** How a sub-tile of it lies in shared memory, where TMA brings it; null: it is loaded to registers. */
  readonly fetch: FetchLayout | null
  /** Rows that TMA cannot address: the warp copies them to its slot. */
  readonly rows: boolean
}

export interface FetchLayout {
  readonly bytes: number
  readonly contiguous: 'n' | 'm'
  readonly swizzle: Swizzle
}

/** What TMA can bring; along m for fragments alone, in rows of whole sectors. */
export function isFetchable(
  { operand, shape, vector }: AuxPlan,
  gemm: Matmul,
  { held }: AccumulatorLayout,
  columns: number,
): boolean {
  if (shape !== 'full') return false
  if (vector) return fits(operand, columns)
  const { storageBytes } = DTYPES[operand.dtype]
  return (
    held === 'fragment' &&
    operand.order.at(-1) === gemm.m &&
    operand.divisibility === 'vector' &&
    isDense(operand) &&
    (storageBytes === 4 || (storageBytes === 2 && columns >= 16))
  )
}

/** Rows of a sub-tile are swizzle spans; rows of an odd multiple of 8 columns are in all banks without one, of 16 two of eight in one. */
function fits({ dtype }: TensorOperand, columns: number): boolean {
  const rowBytes = columns * DTYPES[dtype].storageBytes
  return rowBytes % 16 === 0 && (rowBytes <= 128 || columns % 32 !== 0)
}

/** Has it an element for each of the tile's, as it is, in rows of columns? */
export const hasRows = (operand: TensorOperand, { m, n }: Matmul): boolean =>
  operand.axes.includes(m) && operand.order.at(-1) === n && isDense(operand)

/** Rows that begin anywhere; where outputs leave through slots of the warp, it passes there before. */
export function isCopiedByRows(
  { operand, vector, fetch }: AuxPlan,
  gemm: Matmul,
  layout: AccumulatorLayout,
  columns: number,
): boolean {
  return layout.held === 'fragment' && !vector && fetch === null && hasRows(operand, gemm) && fits(operand, columns)
}

/** How a sub-tile lies in shared memory that TMA brings. */
export function fetchLayout(
  { operand, vector }: AuxPlan,
  { rowsPerWarp }: AccumulatorLayout,
  columns: number,
): FetchLayout {
  const { storageBytes } = DTYPES[operand.dtype]
  const rowBytes = (vector ? columns : rowsPerWarp) * storageBytes
  const bytes = rowsPerWarp * columns * storageBytes
  return { bytes, contiguous: vector ? 'n' : 'm', swizzle: SWIZZLE_OF_ROW[rowBytes] ?? 'none' }
}

/** A scalar that the kernel reads through a pointer: an operand without axes. */
export function pointerOperand(scalar: ScalarOperand): TensorOperand {
  const { name, dtype, fromEpilogue } = scalar
  return { name, role: 'input', dtype, axes: [], order: [], divisibility: 'element', fromEpilogue }
}

/** KTL2927: elements of less than a byte. */
export function planAux(operand: TensorOperand, gemm: Matmul): AuxPlan | Rejection {
  const info = DTYPES[operand.dtype]
  if (info.bits < 8) return rejection('KTL2927', { operand: operand.name, dtype: operand.dtype })
  const alongM = operand.axes.includes(gemm.m)
  const alongN = operand.axes.includes(gemm.n)
  const shape = alongM && alongN ? 'full' : alongN ? 'row' : alongM ? 'column' : 'uniform'
  const contiguousN = operand.order.at(-1) === gemm.n
  return {
    operand,
    shape,
    vector:
      shape === 'full' &&
      contiguousN &&
      operand.divisibility === 'vector' &&
      info.storageBytes <= 4 &&
      !inBlocks(operand),
    fetch: null,
    rows: false,
  }
}
