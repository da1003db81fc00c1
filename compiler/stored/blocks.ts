/** Blocks of positions that share a scale. */
import type { TensorOperand } from '../ir/tensor.ts'
import { inTiles } from './tiles.ts'

/** Positions of an axis that an element stands for; null: all. */
export function blockOf({ axes, blocks }: TensorOperand, axis: string): number | null {
  const at = axes.indexOf(axis)
  return at < 0 ? null : (blocks?.[at] ?? 1)
}

/** Do plain blocks along the summed axis end where MMAs of `step` elements do? */
export const endsSteps = (scale: TensorOperand, over: readonly string[], step: number): boolean =>
  over.length === 1 && !inTiles(scale.order) && (blockOf(scale, over[0]!) ?? step) % step === 0

/** Do MMAs whose scales are each for `block` elements of k take them: in tiles just those, else one for several blocks too? */
export function takesBlocks(scale: TensorOperand, k: string, block: number): boolean {
  const own = blockOf(scale, k)
  return own !== null && (inTiles(scale.order) ? own === block : own % block === 0)
}

/** Do blocks begin at all multiples of `step` along an axis? */
export const beginsBlocks = (scale: TensorOperand, axis: string, step: number): boolean =>
  !inTiles(scale.order) && step % (blockOf(scale, axis) ?? 1) === 0
