/** Parts of k that wait for each other, each of which finishes a share of the tile: every so many of a warp's sub-tiles, in the order of their numbers. */
import { opsOf, type Meeting } from '../../compiler/ir/pipe.ts'
import type { EmitContext } from './context.ts'
import { registersOf } from './fragments.ts'

/** Who finishes a tile whose parts wait for each other where all run at once; null: parts do not wait. */
export function meetingOf({ program }: EmitContext): Meeting | null {
  if (program.domain.parts === undefined) return null
  for (const op of opsOf(program)) if (op.op === 'meet_parts') return op.finishes
  return null
}

/** Does each part that waits for the others finish its share? Else whoever goes on finishes all. */
export const finishesShares = (c: EmitContext): boolean => meetingOf(c) === 'each'

/** Sub-tiles side by side. */
export const acrossOf = ({ program: { layout, subtileColumns } }: EmitContext): number =>
  layout.columns / subtileColumns

/** Of a warp in its part of the tile. */
export const subtilesOf = (c: EmitContext): number => registersOf(c).rowBlocks * acrossOf(c)

/** Is sub-tile `number` (CUDA) this part's? */
export const isOwnSubtile = (number: string): string => `(!meets || ${number} % PARTS == own_part)`

/** The first sub-tile of this part, and the one after one of its. */
export const OWN_SUBTILES = { first: '(meets ? own_part : 0)', step: '(meets ? PARTS : 1)' } as const
