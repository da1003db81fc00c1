/**
 * Plan → pipeline program for SM90: a persistent, warp-specialised GEMM over clusters of CTAs.
 *
 *   consumer   1 to 3 warpgroups: wgmma on accumulators in registers, then f32 math → smem → TMA store; together on one tile
 *              (cooperative), or each on its own, so that one's epilogue runs under the other's MMAs (ping-pong)
 *   producer   1 warpgroup with few registers: one thread fills the stage ring by TMA, multicasting what other CTAs of the
 *              cluster need too, and C behind the last step of a tile; all of its warps copy what TMA cannot bring, or one for each warpgroup issues its stores, or copies its rows of C
 *
 * Where a cluster splits k, its CTAs leave their sums in shared memory, and each finishes a part of the columns.
 */
import type { Ring, Role, SetupStep, TileOp, TileProgram } from '../../ir/pipe.ts'
import { waysOf } from '../../classes/matmul.ts'
import type { PartRegisters } from '../../ir/pipe_mma.ts'
import { tmaOutputs } from '../tensor_core/epilogue.ts'
import { SHARED, sharesBlocks } from '../tensor_core/lower_epilogue.ts'
import { commonParts, groupChecks } from '../tensor_core/lower_program.ts'
import { fetchMaps, inputMaps, mapName } from '../tensor_core/plan.ts'
import { consumerRole } from './lower_consumer.ts'
import { producerRole, SENT } from './lower_producer.ts'
import { copiedRows, fetchRing, rowRing, slotMaps, sm90Memory } from './memory.ts'
import type { PartPlan } from '../tensor_core/parts.ts'
import type { Sm90Plan } from './plan.ts'

const registersOf = ({ cells, columns }: PartPlan): PartRegisters => ({ cells, columns })

export function lowerSm90(plan: Sm90Plan): TileProgram {
  const staged = tmaOutputs(plan.epilogue)
  const copied = copiedRows(plan, plan)
  const rings: Ring[] = [
    { name: 'stage', slots: plan.stages },
    { name: 'spent', slots: plan.stages },
    ...(plan.stagingSlots > 0 ? [{ name: 'staging', slots: plan.stagingSlots }] : []),
    ...(plan.storeWarps ? [{ name: SENT, slots: plan.stagingSlots }] : []),
    ...slotMaps(plan, plan).map((_, i) => ({ name: fetchRing(i), slots: plan.fetchSlots })),
    ...copied.map((_, i) => ({ name: rowRing(i), slots: plan.rowSlots })),
    ...(plan.splits > 1 ? [{ name: 'partials', slots: 1 }] : []),
    ...(sharesBlocks(plan.epilogue) ? [{ name: SHARED.ring, slots: SHARED.slots }] : []),
    // A slot for each of the warpgroups that take turns.
    ...(plan.design.consumers === 'pingpong'
      ? [{ name: 'turn', slots: plan.warpgroups, startsAt: 'warpgroup' as const }]
      : []),
  ]
  const { buffers, barriers } = sm90Memory(plan, plan, 'regions')
  const maps = [
    ...inputMaps(plan).map(({ map }) => map),
    ...fetchMaps(plan).map(({ map }) => map),
    ...staged.map((_, i) => mapName(i)),
  ]
  const consumers = 4 * plan.warpgroups
  const { rowsPerWarp } = plan.epilogue.layout
  const common = commonParts(plan, {
    threads: plan.threads,
    storedRows: plan.storeWarps ? 4 * rowsPerWarp : rowsPerWarp,
    dynamic: false,
  })
  const kept = rings.map(({ name }) => name).filter((name) => name !== SENT)
  const roles: Role[] = [
    {
      name: 'consumer',
      firstWarp: 0,
      warps: consumers,
      does: `MMAs, then the epilogue${plan.storeWarps ? '' : ' and stores'}`,
      rings: kept,
      body: consumerRole(plan),
    },
    {
      name: 'producer',
      firstWarp: consumers,
      warps: 4,
      does: `loads A and B${plan.behind ? `, and ${plan.behind.aux.operand.name} behind them` : ''}${plan.storeWarps ? ', issues the stores' : ''}${copied.length > 0 ? ', copies rows for the epilogue' : ''}`,
      rings: ['stage', ...(plan.storeWarps ? ['staging', SENT] : []), ...copied.map((_, i) => rowRing(i))],
      body: producerRole(plan, common.domain),
    },
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
      columns: plan.tile[1] * waysOf(plan.gemm),
      ...(plan.parks && plan.splits === 1 && { parked: true }),
      cells: plan.accumulator === 'f16' ? 'f16' : plan.accumulator === 'i32' ? 'i32' : 'f32',
      ...(plan.joint && { joint: true }),
      ...(plan.parts && { parts: registersOf(plan.parts) }),
      together: plan.design.consumers === 'pingpong' ? 1 : plan.warpgroups,
    },
    setup,
    roles,
    teardown: groupChecks(common.domain),
  }
}
