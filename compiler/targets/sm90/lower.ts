/**
 * Plan → tile IR for SM90: a persistent, warp-specialised GEMM over clusters of CTAs.
 *
 *   consumer   1 or 2 warpgroups: wgmma on accumulators in registers, then f32 math → smem → TMA store; together on one tile
 *              (cooperative), or each on its own, so that one's epilogue runs under the other's MMAs (ping-pong)
 *   producer   1 warpgroup with few registers: one thread fills the stage ring by TMA, multicasting what other CTAs of the
 *              cluster need too; all of its warps copy what TMA cannot bring, or two of them issue the consumers' stores
 *
 * Where a cluster splits k, its CTAs leave their sums in shared memory, and each finishes a part of the columns.
 */
import type { Barrier, Copies, Ring, Role, SetupStep, SmemBuffer, TileOp, TileProgram } from '../../ir/pipe.ts'
import { consumersOf, type PerCluster } from '../tensor_core/cluster.ts'
import { tmaOutputs } from '../tensor_core/epilogue.ts'
import { always, commonParts } from '../tensor_core/lower_program.ts'
import type { OperandPlan } from '../tensor_core/operands.ts'
import { bufferOfB, fetchMaps, GATHER_WARPS, inputMaps, mapName, tmaStageBytes } from '../tensor_core/plan.ts'
import { consumerRole, fetchRing } from './lower_consumer.ts'
import { producerRole, SENT } from './lower_producer.ts'
import type { Sm90Plan } from './plan.ts'

export function lowerSm90(plan: Sm90Plan): TileProgram {
  const staged = tmaOutputs(plan.epilogue)
  const rings: Ring[] = [
    { name: 'stage', slots: plan.stages },
    { name: 'spent', slots: plan.stages },
    ...(plan.stagingSlots > 0 ? [{ name: 'staging', slots: plan.stagingSlots }] : []),
    ...(plan.storeWarps ? [{ name: SENT, slots: plan.stagingSlots }] : []),
    ...fetchMaps(plan).map((_, i) => ({ name: fetchRing(i), slots: plan.fetchSlots })),
    ...(plan.splits > 1 ? [{ name: 'partials', slots: 1 }] : []),
    // A slot for each of the warpgroups that take turns.
    ...(plan.design.consumers === 'pingpong' ? [{ name: 'turn', slots: plan.warpgroups, startsAt: 'warpgroup' as const }] : []),
  ]
  const { buffers, barriers } = sharedMemory(plan)
  const maps = [...inputMaps(plan).map(({ map }) => map), ...fetchMaps(plan).map(({ map }) => map), ...staged.map((_, i) => mapName(i))]
  const consumers = 4 * plan.warpgroups
  const { rowsPerWarp } = plan.epilogue.layout
  const common = commonParts(plan, { threads: plan.threads, storedRows: plan.storeWarps ? 4 * rowsPerWarp : rowsPerWarp, dynamic: false })
  const kept = rings.map(({ name }) => name).filter((name) => name !== SENT)
  const roles: Role[] = [
    { name: 'consumer', firstWarp: 0, warps: consumers, does: `MMAs, then the epilogue${plan.storeWarps ? '' : ' and stores'}`, rings: kept, body: consumerRole(plan) },
    { name: 'producer', firstWarp: consumers, warps: 4, does: `loads A and B${plan.storeWarps ? ', issues the stores' : ''}`, rings: ['stage', ...(plan.storeWarps ? ['staging', SENT] : [])], body: producerRole(plan, common.domain) },
  ]
  const init: TileOp[] = [
    { op: 'prefetch_maps', maps },
    ...barriers.map((b): TileOp => ({ op: 'barrier_init', barrier: b.name })),
    { op: 'fence_barrier_init' },
  ]
  const setup: SetupStep[] = [
    { warp: consumers, body: [{ op: 'elected', body: init }, { op: 'warp_sync' }] },
    { warp: null, body: [{ op: plan.cluster.size > 1 ? 'cluster_start' : 'cta_sync' }] },
  ]
  return {
    kind: 'sm90',
    ...common,
    rings,
    buffers,
    barriers,
    tmem: null,
    registers: {
      products: plan.b.length,
      rowBlocks: plan.rowBlocks,
      columns: plan.tile[1],
      ...(plan.parks && { parked: true }),
      cells: plan.accumulator === 'f16' ? 'f16' : plan.accumulator === 'i32' ? 'i32' : 'f32',
      together: plan.design.consumers === 'pingpong' ? 1 : plan.warpgroups,
    },
    setup,
    roles,
    teardown: [],
  }
} // prettier-ignore

function sharedMemory(plan: Sm90Plan): { buffers: SmemBuffer[]; barriers: Barrier[] } {
  const buffers: SmemBuffer[] = []
  const barriers: Barrier[] = []
  const { cluster, stages, epilogue, warpgroups } = plan
  let offset = 0
  const place = (name: string, ring: string | null, slots: number, slotBytes: number, align: number, holds: string, per?: Copies): void => {
    buffers.push({ name, ring, slots, slotBytes, ...(per && { per }), offset, align, holds })
    offset += slots * slotBytes * (per?.count ?? 1)
  }
  const barrier = (name: string, ring: string, slots: number, arrivals: PerCluster, meaning: string, per?: Copies, scope: Barrier['scope'] = 'cta'): void => {
    barriers.push({ name, ring, arrivals, ...(per && { per }), scope, offset, meaning })
    offset += 8 * slots * (per?.count ?? 1)
  }
  const text = ({ operand, major, rows, descriptor }: OperandPlan, free: 'M' | 'N'): string =>
    `${operand.dtype} ${rows} x ${plan.tile[2]} tile, ${major === 'k' ? 'K' : free}-major, ${descriptor.swizzle} swizzle`
  place('smem_a', 'stage', stages, plan.a.tileBytes, 1024, text(plan.a, 'M'))
  plan.b.forEach((b, i) => place(bufferOfB(i), 'stage', stages, b.tileBytes, 1024, text(b, 'N')))
  const eachWarp: Copies = { owner: 'warp', count: 4 * warpgroups }
  const eachWarpgroup: Copies = { owner: 'warpgroup', count: warpgroups }
  const [slotBytes, owners] = plan.storeWarps ? [4 * epilogue.stagingSlotBytes, eachWarpgroup] : [epilogue.stagingSlotBytes, eachWarp]
  if (plan.stagingSlots > 0) place('smem_d', 'staging', plan.stagingSlots, slotBytes, 128, 'output sub-tiles on their way to TMA stores', owners)
  fetchMaps(plan).forEach(({ aux }, i) => place(`smem_${fetchRing(i)}`, fetchRing(i), plan.fetchSlots, aux.fetch!.bytes, 128, 'sub-tiles of an epilogue operand', eachWarp))
  if (plan.partialBytes > 0) place('smem_partials', null, 1, plan.partialBytes, 16, plan.parks ? 'accumulators' : 'sums of each CTA of the cluster over its share of k')
  const copied = tmaStageBytes(plan)
  const together = plan.design.consumers === 'pingpong' ? 1 : warpgroups
  const { preferred } = consumersOf(cluster)
  barrier('full', 'stage', stages, always(+(copied > 0) + (copied < plan.stageBytes ? GATHER_WARPS : 0)), 'A and B of a stage have landed')
  barrier('empty', 'stage', stages, always(preferred * together), 'the MMAs that read a stage are done')
  fetchMaps(plan).forEach(({ aux }, i) => barrier(`${fetchRing(i)}_full`, fetchRing(i), plan.fetchSlots, always(1), 'a sub-tile of an epilogue operand has landed', eachWarp))
  if (plan.storeWarps) {
    barrier('staged', 'staging', plan.stagingSlots, always(4), 'all warps of the warpgroup have staged a sub-tile', eachWarpgroup)
    barrier('stored', 'staging', plan.stagingSlots, always(1), 'TMA has read it', eachWarpgroup)
  }
  if (plan.design.consumers === 'pingpong') barrier('turn', 'turn', warpgroups, always(4), 'the other warpgroup has seen all stages of its tile')
  if (plan.splits > 1) {
    barrier('partials_full', 'partials', 1, always(1), 'sums of all CTAs of the cluster have landed', undefined, 'cluster')
    barrier('partials_empty', 'partials', 1, always(plan.splits), 'all CTAs of the cluster have read theirs', undefined, 'cluster')
  }
  return { buffers, barriers }
} // prettier-ignore
