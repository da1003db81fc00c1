/** What tells the programs of a family apart. */
import type { OrderChoice, TypeChoice } from '../../../compiler/family.ts'
import type { Divisibility } from '../../../compiler/ir/tensor.ts'

export type Alignment = Readonly<Record<string, Divisibility>>

export interface Choice {
  readonly types: TypeChoice
  readonly orders: OrderChoice
  readonly alignment: Alignment
}
