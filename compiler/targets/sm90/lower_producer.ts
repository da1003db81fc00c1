/** Program of the producer's warpgroup: loads of A and B, and of cooperative kernels the stores of what the consumers have staged. */
import type { TileOp } from '../../ir/pipe.ts'
import type { Domain } from '../../space/domain.ts'
import { guardOf } from '../../ir/walk.ts'
import { tmaOutputs, valuesOf } from '../tensor_core/epilogue.ts'
import { stopsAtN } from '../tensor_core/lower_epilogue.ts'
import { copiesOfRows, gathers, rowFinders, scaleFinders, scaleLoads, tmaLoads } from '../tensor_core/lower_loads.ts'
import { GATHER_WARPS, mapName, tmaStageBytes } from '../tensor_core/plan.ts'
import { fetchBehind, prefetchBehind, unreleased } from './lower_behind.ts'
import { copiedRows, rowRing, writesScales } from './memory.ts'
import type { Sm90Plan } from './plan.ts'

/** Ring of the sub-tiles that TMA is asked to store, one behind: the slot before is free when TMA has read it. */
export const SENT = 'sent'

/**
 * No CTA leaves while another may still signal its barriers or multicast into it. Its consumers have waited for all that was
 * multicast, so the signals remain: the producer waits for them, and the epilogue for nobody.
 */
const drains = ({ cluster, splits }: Sm90Plan): boolean => cluster.size > splits

export function producerRole(plan: Sm90Plan, domain: Domain): TileOp[] {
  const loads = tmaLoads(plan, domain, 'full')
  const copies = gathers(plan, domain, 32 * GATHER_WARPS)
  const rows = copiesOfRows(plan, domain)
  const bytes = tmaStageBytes(plan)
  const wait: TileOp = { op: 'wait', barrier: 'empty', parity: 'producer' }
  const request: TileOp[] = loads.length > 0 ? [{ op: 'arrive_expect_tx', barrier: 'full', bytes }, ...loads] : []
  const advance: TileOp = { op: 'advance', ring: 'stage' }
  const steps = (body: readonly TileOp[]): TileOp[] => [
    { op: 'for_k', body: [...body, ...prefetchBehind(plan)] },
    ...fetchBehind(plan),
  ]
  // Groups are found by whole warps.
  const alone = (body: readonly TileOp[], then: readonly TileOp[]): TileOp =>
    domain.groups
      ? {
          op: 'first_warp',
          body: [
            { op: 'for_tiles', body: [{ op: 'elected', body: steps(body) }] },
            ...(then.length > 0 ? [{ op: 'elected', body: then } as const] : []),
          ],
        }
      : { op: 'one_thread', body: [{ op: 'for_tiles', body: steps(body) }, ...then] }
  const registers: TileOp[] =
    plan.registers.producer === null ? [] : [{ op: 'set_registers', count: plan.registers.producer, change: 'fewer' }]
  // Consumers of other CTAs may still be about to signal these barriers when the last load is issued.
  const but = unreleased(plan)
  const drain: TileOp[] = drains(plan)
    ? [{ op: 'for_slots', ring: 'stage', but, body: [wait, advance] }, ...Array.from({ length: but }, () => advance)]
    : []
  if (copies.length === 0 && rows.length === 0)
    return [
      ...registers,
      alone([wait, ...request, advance], drain),
      ...storeWarps(plan, domain),
      ...rowWarps(plan),
      ...(plan.scales
        ? [
            {
              op: 'last_warp',
              body: [
                {
                  op: 'for_tiles',
                  body: [
                    ...scaleFinders(plan.scales, domain),
                    { op: 'for_k', body: [wait, ...scaleLoads(plan.scales, domain, 'full'), advance] },
                  ],
                },
              ],
            } as const,
          ]
        : []),
    ]
  const publish: TileOp[] = [
    // wgmma reads shared memory through the async proxy.
    { op: 'proxy_fence' },
    { op: 'warp_sync' },
    { op: 'lane0', body: [{ op: 'arrive', barrier: 'full', at: 'cta' }] },
  ]
  const mine: TileOp[] = request.length > 0 ? [{ op: 'one_thread', body: request }] : []
  if (rows.length > 0) {
    const scales = scaleLoads(plan.scales, domain, 'full', 'copied')
    // Nobody waits for copies here: each thread's arrival does, and who reads them through the async proxy has the fence.
    const landed: TileOp = { op: 'arrive_copied', barrier: 'full' }
    const written: TileOp[] = writesScales(plan) ? publish : []
    return [
      ...registers,
      {
        op: 'for_tiles',
        body: [
          ...rowFinders(plan, domain),
          ...scaleFinders(plan.scales, domain),
          { op: 'for_k', body: [wait, ...mine, ...rows, ...scales, landed, ...written, advance] },
        ],
      },
      ...drain,
    ]
  }
  const scales = scaleLoads(plan.scales, domain, 'full', 'through registers')
  const found = scaleFinders(plan.scales, domain)
  const stage: TileOp = { op: 'for_k', body: [wait, ...mine, ...copies, ...scales, ...publish, advance] }
  return [...registers, { op: 'for_tiles', body: [...found, stage] }, ...drain]
}

/**
 * A warp for each consumer warpgroup issues its stores, 64 rows at a time, so that no consumer waits for the queue of the TMA unit:
 * there an instruction keeps its warp for 135 to 690 cycles when all consumer warps issue (measured).
 */
function storeWarps(plan: Sm90Plan, { groups }: Domain): TileOp[] {
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
  if (!groups) return [{ op: 'for_warpgroups', body: [{ op: 'for_tiles', body: tile }] }]
  return [{ op: 'for_warpgroups', whole: true, body: [{ op: 'for_tiles', body: [{ op: 'elected', body: tile }] }] }]
}

/**
 * A warp for each consumer warpgroup, of those that take turns, copies the rows that TMA cannot bring, sub-tile by sub-tile ahead of the epilogue: the consumers' copies would each
 * wait for L2, and take as many instructions as their stores (measured).
 */
function rowWarps(plan: Sm90Plan): TileOp[] {
  const copied = copiedRows(plan, plan)
  if (copied.length === 0) return []
  const values = valuesOf(plan.epilogue)
  const copies = copied.flatMap(({ operand: { name } }, i): TileOp[] => {
    const ring = rowRing(i)
    return [
      { op: 'wait', barrier: `${ring}_empty`, parity: 'producer' },
      { op: 'copy_rows', operand: name, buffer: `smem_${ring}`, guard: guardOf(values, name) },
      { op: 'warp_sync' },
      { op: 'lane0', body: [{ op: 'arrive', barrier: `${ring}_full`, at: 'cta' }] },
      { op: 'arrive_copied', barrier: `${ring}_full` },
      { op: 'advance', ring },
    ]
  })
  const subtile: TileOp[] = [...(stopsAtN(plan.epilogue) ? [{ op: 'stop_at_n' } as const] : []), ...copies]
  const tiles: TileOp = { op: 'for_tiles', turns: plan.warpgroups, body: [{ op: 'for_staged', body: subtile }] }
  return [{ op: 'for_warpgroups', whole: true, body: [tiles] }]
}
