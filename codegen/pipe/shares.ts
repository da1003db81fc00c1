/** Parts of k that wait for each other, each of which finishes a share of the tile: every so many of a warp's sub-tiles, in the order of their numbers. */
import { opsOf } from '../../compiler/ir/pipe.ts'
import type { EmitContext } from './context.ts'
import { registersOf } from './fragments.ts'

/** Does each part that waits for the others finish its share? Else whoever goes on finishes all. */
export const finishesShares = ({ program }: EmitContext): boolean =>
  [...opsOf(program)].some((op) => op.op === 'meet_parts' && op.finishes === 'each')

/** Sub-tiles side by side. */
export const acrossOf = ({ program: { layout, subtileColumns } }: EmitContext): number =>
  layout.columns / subtileColumns

/** Of a warp in its part of the tile. */
export const subtilesOf = (c: EmitContext): number => registersOf(c).rowBlocks * acrossOf(c)

/** Is sub-tile `number` (CUDA) this part's? */
export const isOwnSubtile = (number: string): string => `(!meets || ${number} % PARTS == own_part)`

/** The first sub-tile of this part, and the one after one of its. */
export const OWN_SUBTILES = { first: '(meets ? own_part : 0)', step: '(meets ? PARTS : 1)' } as const
