/**
 * Reductions that are outputs of an SM100 kernel, e.g. `amax[m] = max[n](abs(D))`. The epilogue warps leave partial results in a
 * workspace, one for each part of the reduced axes; a second kernel combines the parts in a fixed order.
 */
import type { GemmShape } from '../../classify.ts'
import type { Node, ReduceNode, TensorOperand } from '../../ir/tensor.ts'

export interface ReductionPlan {
  readonly operand: TensorOperand
  readonly node: ReduceNode
  /** What is reduced, elementwise over the tile. */
  readonly value: Node
  /** Axes of the tile that the output keeps: its workspace has each of their elements, else one for each part. */
  readonly keepsM: boolean
  readonly keepsN: boolean
}

/** Null: the output is no reduction of the whole tile. */
export function planReduction(operand: TensorOperand, value: Node, gemm: GemmShape): ReductionPlan | null {
  if (value.kind !== 'reduce') return null
  const tile = [gemm.m, gemm.n, ...(gemm.l ? [gemm.l] : [])]
  const whole = tile.every((axis) => value.value.axes.includes(axis)) && value.value.axes.length === tile.length
  const kept = tile.filter((axis) => !value.over.includes(axis))
  if (!whole || kept.length !== operand.axes.length || kept.some((axis) => !operand.axes.includes(axis))) return null
  return {
    operand,
    node: value,
    value: value.value,
    keepsM: kept.includes(gemm.m),
    keepsN: kept.includes(gemm.n),
  }
}
