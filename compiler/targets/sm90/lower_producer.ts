/** Program of the producer's warpgroup: loads of A and B, and of cooperative kernels the stores of what the consumers have staged. */
import type { TileOp } from '../../ir/pipe.ts'
import type { Domain } from '../../space/domain.ts'
import { tmaOutputs } from '../tensor_core/epilogue.ts'
import { depthView, gathers, tmaLoads } from '../tensor_core/lower_loads.ts'
import { GATHER_WARPS, mapName, tmaStageBytes } from '../tensor_core/plan.ts'
import { scalesOf } from '../tensor_core/scales.ts'
import type { Sm90Plan } from './plan.ts'

/** Ring of the sub-tiles that TMA is asked to store, one behind: the slot before is free when TMA has read it. */
export const SENT = 'sent'

/**
 * No CTA leaves while another may still signal its barriers or multicast into it. Its consumers have waited for all that was
 * multicast, so the signals remain: the producer waits for them, and the epilogue for nobody.
 */
const drains = ({ cluster, splits }: Sm90Plan): boolean => cluster.size > 1 && splits === 1

export function producerRole(plan: Sm90Plan, domain: Domain): TileOp[] {
  const loads = tmaLoads(plan, domain, 'full')
  const copies = gathers(plan, domain, 32 * GATHER_WARPS)
  const bytes = tmaStageBytes(plan)
  const wait: TileOp = { op: 'wait', barrier: 'empty', parity: 'producer' }
  const request: TileOp[] = loads.length > 0 ? [{ op: 'arrive_expect_tx', barrier: 'full', bytes }, ...loads] : []
  const advance: TileOp = { op: 'advance', ring: 'stage' }
  const tiles = (body: readonly TileOp[]): TileOp => ({ op: 'for_tiles', body: [{ op: 'for_k', body }] })
  const registers: TileOp[] =
    plan.registers.producer === null ? [] : [{ op: 'set_registers', count: plan.registers.producer, change: 'fewer' }]
  // Consumers of other CTAs may still be about to signal these barriers when the last load is issued.
  const drain: TileOp[] = drains(plan) ? [{ op: 'for_slots', ring: 'stage', body: [wait, advance] }] : []
  if (copies.length === 0)
    return [
      ...registers,
      { op: 'one_thread', body: [tiles([wait, ...request, advance]), ...drain] },
      ...storeWarps(plan),
      ...(plan.scales
        ? [{ op: 'last_warp', body: [tiles([wait, ...scaleLoads(plan, domain), advance])] } as const]
        : []),
    ]
  const publish: TileOp[] = [
    // wgmma reads shared memory through the async proxy.
    { op: 'proxy_fence' },
    { op: 'warp_sync' },
    { op: 'lane0', body: [{ op: 'arrive', barrier: 'full', at: 'cta' }] },
  ]
  const mine: TileOp[] = request.length > 0 ? [{ op: 'one_thread', body: request }] : []
  const scales = scaleLoads(plan, domain, 'through registers')
  return [...registers, tiles([wait, ...mine, ...copies, ...scales, ...publish, advance]), ...drain]
}

/**
 * Scales of a stage. A warp by itself tells the consumers of those of 4 bytes when they have landed; `through registers`: whoever copies
 * the operands does.
 */
function scaleLoads({ scales }: Sm90Plan, domain: Domain, how?: 'through registers'): TileOp[] {
  const plans = scalesOf(scales)
  const depth = depthView(domain, 0)
  const loads = plans.map(({ operand, buffer, free, layout, copies }): TileOp => ({
    op: 'load_scales',
    operand: operand.name,
    buffer,
    barrier: 'full',
    free,
    layout,
    depth,
    copies: copies && !how,
    warps: how ? GATHER_WARPS : 1,
  }))
  if (how) return loads
  if (plans.some(({ copies }) => copies)) return [...loads, { op: 'arrive_copied', barrier: 'full' }]
  return [...loads, { op: 'warp_sync' }, { op: 'lane0', body: [{ op: 'arrive', barrier: 'full', at: 'cta' }] }]
}

/**
 * A warp for each consumer warpgroup issues its stores, 64 rows at a time, so that no consumer waits for the queue of the TMA unit:
 * there an instruction keeps its warp for 135 to 690 cycles when all consumer warps issue (measured).
 */
function storeWarps(plan: Sm90Plan): TileOp[] {
  if (!plan.storeWarps) return []
  const free = (pending: number): TileOp[] => [
    { op: 'bulk_wait_read', pending },
    { op: 'arrive', barrier: 'stored', at: 'cta', ring: SENT },
    { op: 'advance', ring: SENT },
  ]
  const send = tmaOutputs(plan.epilogue).flatMap((output, i): TileOp[] => [
    { op: 'wait', barrier: 'staged', parity: 'consumer' },
    { op: 'tma_store', map: mapName(i), buffer: 'smem_d', operand: output.operand.name, contiguous: output.contiguous },
    { op: 'bulk_commit' },
    ...(i === 0 ? [{ op: 'after_first_staged', body: free(1) } as const] : free(1)),
    { op: 'advance', ring: 'staging' },
  ])
  const tile: TileOp[] = [{ op: 'for_staged', body: send }, ...free(0)]
  return [{ op: 'for_warpgroups', body: [{ op: 'for_tiles', body: tile }] }]
}
