/** What tells kernels of tensor cores, and the problems that they solve, apart: for what their cost models leave out (`correction.ts`). */
import { depthOf, freeAxis, tilesOf } from '../../../compiler/classes/matmul.ts'
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { TensorCorePlan } from '../../../compiler/targets/tensor_core/plan.ts'
import type { OperandPlan } from '../../../compiler/targets/tensor_core/operands.ts'
import type { Machine } from '../../discovery/ranking/machine.ts'
import { SECTOR_BYTES } from '../../discovery/ranking/memory.ts'
import { arithmeticCycles, type Extents } from '../../discovery/ranking/rank.ts'

const isIn = (condition: boolean): number => (condition ? 1 : 0)

/** Loaded in less than 16 bytes at once. */
const inPieces = ({ source, copyBytes }: OperandPlan): boolean =>
  source === 'gather' || (source === 'copy' && copyBytes !== 16)

export type Features = Readonly<Record<string, number>>

/** A plan of tensor cores, as targets have them; `splits`: CTAs of a cluster that share the k of a tile. */
export type FeaturedPlan = TensorCorePlan & {
  readonly design: { readonly kind: string; readonly consumers?: string }
  readonly splits?: number
  readonly behind?: object | null
}

/**
 * By names, as numbers of about one size: extents and sizes as logarithms to base 2, what is or is not as 1 and 0. `turns`: warpgroups take turns; `behind`: an
 * operand of the epilogue comes through the ring of stages. null: of another class than products of one pair of operands of 16 bits, which nothing was learned of.
 */
export function featuresOf(plan: FeaturedPlan, extents: Extents, { sms }: Machine): Features | null {
  const { gemm, tile, cluster, epilogue, program, exchange, scales, overlap = 0, perSm = 1, splits = 1, a } = plan
  const [b] = plan.b as readonly [OperandPlan, ...OperandPlan[]]
  const [m, n] = [extents[gemm.m], extents[freeAxis(gemm, 'n')]]
  const isPlain = gemm.segments.length === 1 && gemm.accumulators.length === 1 && !gemm.groups && !gemm.sums && !scales
  const is16 = DTYPES[a.operand.dtype].bits === 16
  const [output] = epilogue.outputs
  if (!isPlain || !is16 || !output || !m || !n) return null
  const [tileM, tileN, tileK] = tile
  const k = Math.max(1, depthOf(gemm, extents, tileK))
  const [rows, columns] = [Math.ceil(m / tileM), Math.ceil(n / (tileN - overlap))]
  const parts = exchange?.parts ?? 1
  const load = (tilesOf(gemm, extents, [tileM, tileN - overlap]) * parts * splits) / (sms * perSm)
  return {
    m: Math.log2(m),
    n: Math.log2(n),
    k: Math.log2(k),
    tileM: Math.log2(tileM),
    tileN: Math.log2(tileN),
    tileK: Math.log2(tileK),
    clusterM: Math.log2(cluster.shape[0]),
    clusterN: Math.log2(cluster.shape[1]),
    splits: Math.log2(splits),
    parts: Math.log2(parts),
    turns: isIn(plan.design.consumers === 'pingpong'),
    overlap: isIn(overlap > 0),
    copied: isIn([a, b].some(({ operand }) => operand.divisibility === 'repacked')),
    acrossA: isIn(a.major === 'mn'),
    acrossB: isIn(b.major === 'mn'),
    piecesA: isIn(inPieces(a)),
    piecesB: isIn(inPieces(b)),
    direct: isIn(output.store === 'direct'),
    turned: isIn(output.contiguous === 'm'),
    behind: isIn(Boolean(plan.behind)),
    full: isIn(epilogue.aux.some(({ shape }) => shape === 'full')),
    arithmetic: Math.log2(1 + arithmeticCycles(program)),
    load: Math.log2(load),
    filled: load / Math.ceil(load),
    steps: Math.log2(Math.max(1, k / tileK / parts / splits)),
    rowsUsed: m / (rows * tileM),
    columnsUsed: n / (columns * (tileN - overlap)),
    sectors: isIn((n * DTYPES[output.operand.dtype].bits) % (8 * SECTOR_BYTES) === 0),
    perSm,
  }
}
