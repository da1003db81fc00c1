/** Shared memory of a CTA on SM80. */
import type { OperandPlan } from '../tensor_core/operands.ts'
import { MemoryMap, tileText, type Wanted } from '../tensor_core/memory.ts'
import { bufferOfB } from '../tensor_core/plan.ts'
import { scalesOf } from '../tensor_core/scales.ts'
import type { Sm80Plan } from './plan.ts'

type Sm80Shape = Pick<Sm80Plan, 'tile' | 'a' | 'b' | 'scales' | 'epilogue' | 'warps' | 'leftBytes'>

/** The longest row of a swizzle pattern: threads find chunks within it. */
const SWIZZLED_BYTES = 128

/** Name of the buffer through which warps that share k meet. */
export const LEFT = 'smem_left'

export function sm80Memory(
  { a, b, tile, scales, epilogue, warps, leftBytes }: Sm80Shape,
  stages: number,
  wanted: Wanted,
): MemoryMap {
  const map = new MemoryMap(wanted)
  // Chunks of a row change places by bits of their addresses.
  const align = ({ shifted, dealt, descriptor }: OperandPlan): number =>
    shifted || dealt || descriptor.swizzle === 'none' ? 16 : SWIZZLED_BYTES
  map.buffer('smem_a', 'stage', stages, a.tileBytes, align(a), () => tileText(a, 'M', tile[2]))
  b.forEach((operand, i) =>
    map.buffer(bufferOfB(i), 'stage', stages, operand.tileBytes, align(operand), () => tileText(operand, 'N', tile[2])),
  )
  for (const { buffer, slotBytes, operand } of scalesOf(scales))
    map.buffer(buffer, 'stage', stages, slotBytes, 16, () => `scales of a stage: ${operand.name}`)
  if (leftBytes > 0) map.buffer(LEFT, null, 1, leftBytes, 16, () => 'accumulators of warps that share k')
  if (epilogue.stagingSlotBytes > 0) {
    // The epilogue finds the stages empty.
    const holds = () => 'output sub-tiles, over the stages'
    map.overlay(
      'smem_d',
      'staging',
      1,
      epilogue.stagingSlotBytes,
      128,
      holds,
      { owner: 'warp', count: warps[0] * warps[1] },
      'smem_a',
    )
  }
  return map
}
