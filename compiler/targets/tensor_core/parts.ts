/** Parts of a stage that MMAs sum by themselves: a chunk of k, for one product, one block of rows and some columns. */
import type { Part, PartRegisters } from '../../ir/pipe_mma.ts'
import type { ScalePlans } from './scales.ts'

/** Sums of parts in registers of their own. */
export interface PartPlan extends PartRegisters {
  readonly parts: readonly Part[]
}

/** Neighbouring columns of which a thread has one pair. */
export const PAIRS = 8

/** Are scales of columns loaded pair by pair, for several chunks? */
export const inPairs = ({ chunks, b }: ScalePlans): boolean =>
  chunks > 1 && b.some((plan) => plan !== null && plan.layout.group % PAIRS !== 0)

export interface PartShape {
  readonly chunks: number
  readonly products: number
  readonly rowBlocks: number
  readonly columns: number
}

/** All parts of a stage in the order in which they are added, those of all products of a block next to each other. `divisor`: of the columns; `pitch`: bytes from one column to the next in shared memory. */
export function partsOf({ chunks, products, rowBlocks, columns }: PartShape, divisor = 1, pitch = 0): Part[] {
  const of = chunks * products * rowBlocks * divisor
  return Array.from({ length: of }, (_, index): Part => {
    const rest = Math.floor(index / divisor)
    const column = ((index % divisor) * columns) / divisor
    return {
      index,
      of,
      chunk: Math.floor(rest / (products * rowBlocks)),
      product: rest % products,
      block: Math.floor(rest / products) % rowBlocks,
      column,
      columnBytes: column * pitch,
    }
  })
}
