/** The epilogue warps' program: TMEM → registers → f32 math → shared memory → TMA store, sub-tile by sub-tile. */
import type { Node } from '../tensor_ir.ts'
import type { TileOp } from '../tile_ir.ts'
import type { StoreOp } from '../tile_ir_epilogue.ts'
import { guardOf } from '../walk.ts'
import { STAGING_SLOTS } from '../tensor_core/epilogue.ts'
import { forTiles } from './lower_roles.ts'
import { mapName } from '../tensor_core/plan.ts'
import type { Sm100Plan } from './plan.ts'
import type { ReductionPlan } from '../tensor_core/reduction.ts'

export function epilogueRole(plan: Sm100Plan): TileOp[] {
  const { outputs, reductions } = plan.epilogue
  const results = [...outputs, ...reductions]
  const values = results.map(({ value }) => value)
  const aux = (shapes: readonly string[]): TileOp[] =>
    plan.epilogue.aux
      .filter((a) => shapes.includes(a.shape))
      .map((a): TileOp => ({ op: 'aux_load', operand: a.operand.name, shape: a.shape, vector: a.vector, guard: guardOf(values, a.operand.name) })) // prettier-ignore
  const totals = reductions.filter((reduction) => !reduction.keepsN)
  const subtile: TileOp[] = [
    ...aux(['full', 'row']),
    { op: 'tmem_load', products: plan.gemm.products.length },
    {
      op: 'last_subtile',
      body: [
        { op: 'tcgen05_fence', when: 'before_thread_sync' },
        { op: 'warp_sync' },
        { op: 'lane0', body: [{ op: 'arrive', barrier: 'acc_empty', at: plan.cluster.pair > 1 ? 'leader' : 'cta' }] },
      ],
    },
    { op: 'compute', outputs: results.map((o): { operand: string; value: Node } => ({ operand: o.operand.name, value: o.value })) }, // prettier-ignore
    ...storeOps(plan),
    ...reduce('reduce_subtile', reductions),
  ]
  const staged = outputs.some((o) => o.store === 'tma')
  const lane = plan.epilogue.aux.some((a) => a.shape === 'full' || a.shape === 'column') || outputs.some((o) => o.store === 'direct') || reductions.length > 0 // prettier-ignore
  const tile: TileOp[] = [
    ...(lane || staged ? [{ op: 'own_row', lane } as const] : []),
    ...aux(['column', 'uniform']),
    { op: 'wait', barrier: 'acc_full', parity: 'consumer' },
    { op: 'tcgen05_fence', when: 'after_thread_sync' },
    ...reduce('reduce_begin', totals),
    { op: 'for_subtiles', body: subtile },
    ...reduce('reduce_end', totals),
    { op: 'advance', ring: 'acc' },
  ]
  return [
    forTiles(plan, tile, true),
    ...(staged ? [{ op: 'lane0', body: [{ op: 'bulk_wait_read', pending: 0 }] } as const] : []),
  ]
}

const reduce = (op: 'reduce_begin' | 'reduce_subtile' | 'reduce_end', reductions: readonly ReductionPlan[]): TileOp[] =>
  reductions.map(({ operand, node, keepsM, keepsN }) => ({ op, operand: operand.name, node, keepsM, keepsN }))

/** A staging slot is free once the store issued STAGING_SLOTS before has read it. */
function storeOps(plan: Sm100Plan): TileOp[] {
  let staged = 0
  return plan.epilogue.outputs.flatMap((output): TileOp[] => {
    const store: StoreOp = { operand: output.operand.name, bytes: output.elementBytes, contiguous: output.contiguous }
    if (output.store === 'direct') return [{ op: 'direct_store', ...store }]
    const map = mapName(staged++)
    return [
      { op: 'lane0', body: [{ op: 'bulk_wait_read', pending: STAGING_SLOTS - 1 }] },
      { op: 'warp_sync' },
      { op: 'stage_write', buffer: 'smem_d', swizzle: output.swizzle, ...store },
      { op: 'proxy_fence' },
      { op: 'warp_sync' },
      { op: 'lane0', body: [{ op: 'tma_store', map, buffer: 'smem_d', ...store }, { op: 'bulk_commit' }] },
      { op: 'advance', ring: 'staging' },
    ]
  })
}
