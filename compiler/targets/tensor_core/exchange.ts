/**
 * Parts of k as work items of their own. Each leaves its sums in the workspace and counts itself; the one that comes last adds all of them
 * in the order of the parts, and goes on with the epilogue. So nobody waits, whatever is resident, and results are the same every time.
 *
 * Each thread exchanges its own registers with the same thread of the other parts, so that the memory has the order of registers and threads.
 */
import type { GridRule, ParamRule, WorkspaceRegion } from '../../ir/launch.ts'
import type { TileOp } from '../../ir/pipe.ts'
import type { Domain } from '../../space/domain.ts'
import type { ExchangePlan, TensorCorePlan } from './plan.ts'

/** Regions of the workspace; no operands are called so. */
export const EXCHANGE = { sums: 'k parts', counts: 'k counts' } as const

/** Parameters through which a kernel reaches them. */
export const exchangeParams = ({ parts }: Domain): ParamRule[] =>
  parts === undefined
    ? []
    : [
        { kind: 'workspace', region: EXCHANGE.sums, storage: 'uint4' },
        { kind: 'workspace', region: EXCHANGE.counts, storage: 'u32' },
      ]

/** Bytes that the CTAs of a cluster exchange for one block of tiles. */
export const exchangedBytes = ({ parts, threads, cells }: ExchangePlan, ctas: number): number =>
  ctas * parts * threads * cells * 4

/** `tiles`: the blocks of the grid. */
export function exchangeRegions(
  { exchange, cluster }: TensorCorePlan,
  tiles: Extract<GridRule, { kind: 'persistent' }>['tiles'],
): WorkspaceRegion[] {
  if (!exchange) return []
  const extents = tiles.map(({ axis, extent, ...counted }) => ({ axis, per: extent, ...counted }))
  return [
    { name: EXCHANGE.sums, elementBytes: exchangedBytes(exchange, cluster.size), extents },
    { name: EXCHANGE.counts, elementBytes: cluster.size * 4, extents, zeroed: true },
  ]
}

/** Of one tile: `then` begins with accumulators that are whole. */
export const exchangeParts = ({ threads }: ExchangePlan, then: readonly TileOp[]): TileOp[] => [
  { op: 'store_part' },
  { op: 'role_sync', threads },
  { op: 'last_part', threads, body: [{ op: 'add_parts' }, ...then] },
]
