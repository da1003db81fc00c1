/** What one random kernel of all forms is. */

/** What the inputs hold that they seldom hold. */
export type Hostile = 'floats' | 'absent' | 'indices' | 'groups'

export interface FormKernel {
  readonly seed: number
  readonly source: string
  /** Of axes that operands declare; an optional axis that nobody passes is missing. */
  readonly extents: Readonly<Record<string, number>>
  readonly scalars: Readonly<Record<string, number>>
  readonly hostile: readonly Hostile[]
  /** Tensors begin, and rows end, at 16 bytes where extents do; default: anywhere. */
  readonly aligned?: boolean
}
