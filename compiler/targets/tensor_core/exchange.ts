/**
 * Parts of k as work items of their own: of the tiles that whole waves leave, or where tiles come in groups of all. Each leaves its sums in
 * the workspace and counts itself; the one that comes last adds all of them in the order of the parts, and goes on with the epilogue. So
 * nobody waits, whatever is resident, and results are the same every time. Where many parts of large tiles run at once, in a launch that makes
 * sure of it, they do wait for each other: each sums a share of the tile, in the same order, and finishes its sub-tiles, or leaves totals for
 * the last one.
 *
 * Each thread exchanges its own registers with the same thread of the other parts, so that the memory has the order of registers and threads.
 */
import { ARCHS } from '../../archs.ts'
import type { TargetArch } from '../../instance.ts'
import { cutOf, type GridRule, type ParamRule, type WorkspaceRegion } from '../../ir/launch.ts'
import type { Meeting, TileOp } from '../../ir/pipe.ts'
import type { Domain } from '../../space/domain.ts'
import { quantisedOutputs, type EpiloguePlan } from './epilogue.ts'
import type { ExchangePlan, TensorCorePlan } from './plan.ts'

/** Regions of the workspace; no operands are called so. */
export const EXCHANGE = { sums: 'k parts', counts: 'k counts' } as const

/** Loads of 16 bytes that a thread has under way, at most: L2 answers after many hundred cycles, and more would not find registers. */
export const UNDER_WAY = 16

/** Parts that a thread with so many `vectors` of 16 bytes of each adds in one go: few are loaded together, as each alone would wait for L2. */
export const partsAtOnce = (parts: number, vectors: number, most = UNDER_WAY): number =>
  divisorOf(parts, Math.floor(most / vectors))

/** Bytes that the last of all parts would read by itself beyond what waiting for each other costs (4 us on an H200: two more barriers of the parts). */
const MEETING_BYTES = 96 * 1024

/** Can sub-tiles be finished by whoever has them? Those that know nothing of each other. */
export const finishesAlone = (epilogue: EpiloguePlan): boolean =>
  epilogue.reductions.length === 0 &&
  quantisedOutputs(epilogue).length === 0 &&
  epilogue.outputs.every(({ dense }) => !dense)

/** Of `parts`, which may wait for each other where tiles are handed out in a fixed order: `finishes` says who goes on then. */
export function planExchange(
  parts: number,
  threads: number,
  cells: number,
  inOrder: boolean,
  share?: number,
  finishes: Meeting = 'last',
): ExchangePlan | null {
  if (parts === 1) return null
  // Who has parts of two tiles would hold up the second one.
  if (share !== undefined) return { parts, threads, cells, share }
  const meets = inOrder && (parts - 2) * threads * cells * 4 > MEETING_BYTES
  return { parts, threads, cells, ...(meets && { meets: finishes }) }
}

/** The largest divisor that is at most so large. */
export function divisorOf(count: number, most: number): number {
  let divisor = Math.max(1, Math.min(count, most))
  while (count % divisor > 0) --divisor
  return divisor
}

/** Parameters through which a kernel reaches them. */
export const exchangeParams = ({ parts }: Domain): ParamRule[] =>
  parts === undefined
    ? []
    : [
        { kind: 'workspace', region: EXCHANGE.sums, storage: 'uint4' },
        { kind: 'workspace', region: EXCHANGE.counts, storage: 'u32' },
      ]

/** SMs of the chips that a target's waves are made for: the number of parts is the instance's, whatever device it runs on. */
const SMS: Readonly<Record<number, number>> = { 80: 108, 90: 132, 100: 148, 103: 148 }

/** Clusters of a wave. GPCs have SMs left over by clusters of 4 and more: of 33 such on an H200 30 run at once. */
export function waveOf(target: TargetArch, cluster: number, perSm = 1): number {
  const sms = SMS[ARCHS[target].cc]!
  return Math.max(2, Math.floor((sms * perSm * (cluster < 4 ? 1 : 0.91)) / cluster))
}

/** Blocks of tiles of a wave that is not cut; null: all tiles are cut into parts. */
export const waveBlocks = ({ cluster, gemm, instance, perSm }: TensorCorePlan): number | null =>
  gemm.groups ? null : waveOf(instance.target, cluster.size, perSm)

/** Of so many blocks of tiles, those that are cut into parts of k. */
export const cutTiles = (plan: TensorCorePlan, blocks: number): number =>
  plan.exchange ? cutOf(blocks, waveBlocks(plan)) : 0

/** Bytes that the CTAs of a cluster exchange for one block of tiles. */
export const exchangedBytes = ({ parts, threads, cells }: ExchangePlan, ctas: number): number =>
  ctas * parts * threads * cells * 4

/** `tiles`: the blocks of the grid. */
export function exchangeRegions(
  plan: TensorCorePlan,
  tiles: Extract<GridRule, { kind: 'persistent' }>['tiles'],
): WorkspaceRegion[] {
  const { exchange, cluster } = plan
  if (!exchange) return []
  const wave = waveBlocks(plan)
  const extents = tiles.map(({ axis, extent, ...counted }) => ({ axis, per: extent, ...counted }))
  const most = wave === null ? {} : { most: wave - 1 }
  return [
    { name: EXCHANGE.sums, elementBytes: exchangedBytes(exchange, cluster.size), extents, ...most },
    { name: EXCHANGE.counts, elementBytes: cluster.size * 4, extents, ...most, zeroed: true },
  ]
}

/** Of one tile: `then` begins with accumulators that are whole; `loads`: operands that who goes on asks for before all parts are added. */
export const exchangeParts = (
  { threads, meets }: ExchangePlan,
  then: readonly TileOp[],
  loads: readonly TileOp[] = [],
): TileOp[] => [
  { op: 'store_part' },
  { op: 'role_sync', threads },
  ...(meets ? [{ op: 'meet_parts', threads, finishes: meets } as const] : []),
  { op: 'last_part', threads, body: [...loads, { op: 'add_parts' }, ...then] },
]
