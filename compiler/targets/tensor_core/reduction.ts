/**
 * Reductions that are outputs of a tensor-core kernel, e.g. `amax[m] = max[n](abs(D))`. The warps that store a tile leave its partial
 * results in a workspace; a second kernel combines those of all tiles in a fixed order.
 */
import type { Matmul, StoredValue } from '../../classes/matmul.ts'
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
export function planReduction({ operand, value, reduction }: StoredValue, { l, m, n }: Matmul): ReductionPlan | null {
  if (reduction === null) return null
  const tile = [m, n, ...(l ? [l] : [])]
  const whole = tile.every((axis) => value.axes.includes(axis)) && value.axes.length === tile.length
  const kept = tile.filter((axis) => !reduction.over.includes(axis))
  if (!whole || kept.length !== operand.axes.length || kept.some((axis) => !operand.axes.includes(axis))) return null
  return { operand, node: reduction, value, keepsM: kept.includes(m), keepsN: kept.includes(n) }
}
