/** What a correct program does not do with the data it is given; the values are defined all the same. */
export type EvaluationFinding =
  /** A looked-up position that is outside, and not -1: the read gave 0, the store wrote nothing. */
  | { readonly kind: 'outside'; readonly operand: string; readonly index: readonly number[] }
  /** Two stores of a scatter to one element: one of the values stays. */
  | { readonly kind: 'duplicate'; readonly operand: string; readonly index: readonly number[] }
  /** Offsets that decrease or exceed the axis, lengths that are negative or exceed it: taken at the nearest legal place. */
  | { readonly kind: 'groups'; readonly operand: string; readonly group: number; readonly value: number }

export type Report = (finding: EvaluationFinding) => void
