/** The epilogue warps' program: TMEM → registers → f32 math → shared memory → TMA store, sub-tile by sub-tile. */
import type { TileOp } from '../../ir/pipe.ts'
import { STAGING_SLOTS } from '../tensor_core/epilogue.ts'
import { auxLoads, compute, freeBehind, quantise, reduce, tmaStores, totalsOf } from '../tensor_core/lower_epilogue.ts'
import { forTiles } from './lower_roles.ts'
import type { Sm100Plan } from './plan.ts'

export function epilogueRole(plan: Sm100Plan): TileOp[] {
  const { epilogue } = plan
  const { outputs, reductions } = epilogue
  const subtile: TileOp[] = [
    ...auxLoads(epilogue, ['full', 'row']),
    { op: 'tmem_load', products: plan.gemm.accumulators.length },
    {
      op: 'last_subtile',
      body: [
        { op: 'tcgen05_fence', when: 'before_thread_sync' },
        { op: 'warp_sync' },
        { op: 'lane0', body: [{ op: 'arrive', barrier: 'acc_empty', at: plan.cluster.pair > 1 ? 'leader' : 'cta' }] },
      ],
    },
    compute(epilogue),
    ...quantise(epilogue),
    ...tmaStores(epilogue, { buffer: 'smem_d', ring: 'staging', free: freeBehind(STAGING_SLOTS - 1), issue: 'here' }),
    ...reduce('reduce_subtile', reductions),
  ]
  const staged = outputs.some((o) => o.store === 'tma')
  const lane =
    epilogue.aux.some((a) => a.shape === 'full' || a.shape === 'column') ||
    outputs.some((o) => o.store === 'direct' || o.block !== null) ||
    reductions.length > 0
  const tile: TileOp[] = [
    ...(lane || staged ? [{ op: 'own_row', lane } as const] : []),
    ...auxLoads(epilogue, ['column', 'uniform']),
    { op: 'wait', barrier: 'acc_full', parity: 'consumer' },
    { op: 'tcgen05_fence', when: 'after_thread_sync' },
    ...reduce('reduce_begin', totalsOf(epilogue)),
    { op: 'for_subtiles', body: subtile },
    ...reduce('reduce_end', totalsOf(epilogue)),
    { op: 'advance', ring: 'acc' },
  ]
  return [
    forTiles(plan, tile, true),
    ...(staged ? [{ op: 'lane0', body: [{ op: 'bulk_wait_read', pending: 0 }] } as const] : []),
  ]
}
