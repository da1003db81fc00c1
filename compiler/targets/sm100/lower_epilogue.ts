/** The epilogue warps' program: TMEM → registers → f32 math → shared memory → TMA store, sub-tile by sub-tile. */
import type { TileOp } from '../../ir/pipe.ts'
import { EPILOGUE_WARPS, STAGING_SLOTS } from '../tensor_core/epilogue.ts'
import { exchangeParts } from '../tensor_core/exchange.ts'
import {
  auxLoads,
  freeBehind,
  overSubtiles,
  quantise,
  reduce,
  tmaStores,
  totalsOf,
  type Subtile,
} from '../tensor_core/lower_epilogue.ts'
import { forTiles } from './lower_roles.ts'
import { addParts } from './parts.ts'
import type { Sm100Plan } from './plan.ts'

export function epilogueRole(plan: Sm100Plan): TileOp[] {
  const { epilogue, parts, exchange } = plan
  const { outputs, reductions } = epilogue
  const release: TileOp[] = [
    { op: 'tcgen05_fence', when: 'before_thread_sync' },
    { op: 'warp_sync' },
    { op: 'lane0', body: [{ op: 'arrive', barrier: 'acc_empty', at: plan.cluster.pair > 1 ? 'leader' : 'cta' }] },
  ]
  // Sums of parts that come last go back to where they were, and stay there for the whole tile.
  const releasesEarly = !parts && !exchange
  const staging = { buffer: 'smem_d', ring: 'staging', free: freeBehind(STAGING_SLOTS - 1), issue: 'here' } as const
  const subtile: Subtile = {
    loads: auxLoads(epilogue, ['full', 'row']),
    take: { op: 'tmem_load', products: plan.gemm.accumulators.length },
    taken: releasesEarly ? [{ op: 'last_subtile', body: release }] : [],
    then: [
      ...quantise(epilogue, 32 * EPILOGUE_WARPS),
      ...tmaStores(epilogue, staging),
      ...reduce('reduce_subtile', reductions),
    ],
  }
  const staged = outputs.some((o) => o.store === 'tma')
  const lane =
    epilogue.aux.some((a) => a.shape === 'full' || a.shape === 'column') ||
    outputs.some((o) => o.store === 'direct' || o.block !== null) ||
    reductions.length > 0
  const sums: TileOp[] = parts
    ? addParts(parts, release)
    : [
        { op: 'wait', barrier: 'acc_full', parity: 'consumer' },
        { op: 'tcgen05_fence', when: 'after_thread_sync' },
      ]
  const finish: TileOp[] = [
    ...(lane || staged || outputs.some((o) => o.store === 'rows') ? [{ op: 'own_row', lane } as const] : []),
    ...auxLoads(epilogue, ['column', 'uniform']),
    ...(exchange ? [] : sums),
    ...reduce('reduce_begin', totalsOf(epilogue)),
    ...overSubtiles(epilogue, subtile),
    ...reduce('reduce_end', totalsOf(epilogue)),
  ]
  const tile: TileOp[] = [
    ...(exchange ? [...sums, ...exchangeParts(exchange, finish)] : finish),
    ...(exchange && !parts ? release : []),
    ...(parts ? [] : [{ op: 'advance', ring: 'acc' } as const]),
  ]
  return [
    forTiles(plan, tile, true),
    ...(staged ? [{ op: 'lane0', body: [{ op: 'bulk_wait_read', pending: 0 }] } as const] : []),
  ]
}
