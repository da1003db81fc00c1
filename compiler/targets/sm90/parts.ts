/**
 * Scales in blocks of k on SM90: MMAs sum parts of a stage by themselves, in registers of their own, and each part is multiplied by its
 * scales and added to the accumulators, while the tensor cores sum parts of the other warpgroup. (A second buffer, in which the next part
 * is summed meanwhile, needs narrower MMAs, and is slower: measured.)
 */
import type { Rejection } from '../../instance.ts'
import type { TileOp } from '../../ir/pipe.ts'
import type { Part, PartRegisters, PartScales, WarpgroupMma } from '../../ir/pipe_mma.ts'
import { rejection } from '../../rejection.ts'
import { SWIZZLE_SPAN } from '../tensor_core/operands.ts'
import { inPairs, partsOf, type PartPlan } from '../tensor_core/parts.ts'
import { areCopied, partScales, type ScalePlans } from '../tensor_core/scales.ts'

/**
 * Accumulators and a part of a thread, by consumer warpgroups; those of the part are free again in the epilogue. `besideScales`: where scales of
 * columns are loaded pair by pair, in several chunks, or the producer needs more for its own. ptxas spills behind it: 192 x 160 at 160 took 2.5 times
 * as long, and mxfp8 of 192 x 128 spills 128 bytes as a whole and none as halves.
 */
const MAX_REGISTERS: Readonly<Record<number, { readonly most: number; readonly besideScales: number }>> = {
  1: { most: 192, besideScales: 176 },
  2: { most: 192, besideScales: 176 },
  3: { most: 128, besideScales: 112 },
}

export interface Shape {
  readonly products: number
  readonly rowBlocks: number
  /** Of the tile. */
  readonly columns: number
  /** Are they apart in shared memory: is B K-major? */
  readonly divisible: boolean
  /** Registers of a thread. */
  readonly accumulators: number
  /** That share the tile. */
  readonly warpgroups: number
}

/** Registers of the accumulators and of sums that are added to them, at most. */
function mostRegisters(scales: ScalePlans, warpgroups: number): number {
  const { most, besideScales } = MAX_REGISTERS[warpgroups]!
  return inPairs(scales) || !areCopied(scales) ? besideScales : most
}

/** Do registers allow sums of all products at once? */
export const sumsJointly = (scales: ScalePlans, { products, columns, accumulators, warpgroups }: Shape): boolean =>
  accumulators + (products * columns) / 2 <= mostRegisters(scales, warpgroups)

/** Of all columns where registers allow, else of half of them. KTL4521: not even those fit. */
export function planParts(
  scales: ScalePlans,
  { products, rowBlocks, columns, divisible, accumulators, warpgroups }: Shape,
  cells: PartRegisters['cells'],
): PartPlan | Rejection {
  const { chunks } = scales
  const limit = mostRegisters(scales, warpgroups)
  const divisors = divisible && (columns / 2) % (cells === 's32' ? 32 : 16) === 0 ? [1, 2] : [1]
  const registers = (divisor: number): number => accumulators + columns / divisor / 2
  const divisor = divisors.find((divisor) => registers(divisor) <= limit)
  if (divisor === undefined) return rejection('KTL4521', { cells: registers(divisors.at(-1)!), limit })
  const parts = partsOf({ chunks, products, rowBlocks, columns }, divisor, SWIZZLE_SPAN)
  return { cells, columns: columns / divisor, parts }
}

/** What the loop over k does with a stage. */
interface Stage {
  /** Until it is there. */
  readonly landed: readonly TileOp[]
  readonly multiply: (part: Part) => WarpgroupMma
  /** While the MMAs of the first part run. */
  readonly meanwhile: readonly TileOp[]
}

/** The loop over k. `together`: parts that an MMA sums. */
export function sumOfParts(
  { parts }: PartPlan,
  together: number,
  scales: ScalePlans,
  { landed, multiply, meanwhile }: Stage,
): TileOp[] {
  const sum = (summed: readonly Part[]): TileOp[] => {
    const [first] = summed
    const from = summed.map((part): PartScales => ({ part, ...partScales(scales, part.product) }))
    return [
      ...from.map((each) => ({ op: 'part_scales', ...each }) as const),
      multiply(first!),
      ...(first!.index === 0 ? meanwhile : []),
      { op: 'wgmma_wait', pending: 0 },
      ...from.map((each) => ({ op: 'promote', ...each }) as const),
    ]
  }
  const groups = parts.flatMap((_, i) => (i % together === 0 ? [parts.slice(i, i + together)] : []))
  const step: TileOp[] = [
    ...landed,
    ...groups.flatMap(sum),
    // Each warp has read its scales.
    { op: 'warp_sync' },
    { op: 'release', barrier: 'empty', ring: 'spent', eachWarp: true },
    { op: 'advance', ring: 'spent' },
    { op: 'advance', ring: 'stage' },
  ]
  return [{ op: 'zero_cells' }, { op: 'for_k', body: step }]
}
