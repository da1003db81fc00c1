/**
 * Plan → tile IR for SM100: a persistent, warp-specialised GEMM over clusters of CTAs.
 *
 *   tma        one thread: fills the stage ring (full/empty mbarriers); multicasts what other CTAs of the cluster need too
 *   mma        one thread (of the even CTA of a pair): UMMAs of a stage, commits its slot back, commits the accumulator
 *   gather     (operands that TMA cannot address) 4 warps copy them into the same ring
 *   scheduler  (dynamic scheduling) one warp of the cluster: asks for work ahead and hands it to all roles of all CTAs
 *   epilogue   4 warps, one TMEM lane quarter each: TMEM → registers → f32 math → smem → TMA store
 *
 * Two accumulators in TMEM let the epilogue of one tile run under the mainloop of the next.
 */
import type { Barrier, Copies, Ring, Role, SetupStep, SmemBuffer, TileOp, TileProgram } from '../../ir/pipe.ts'
import { consumersOf, perCluster, type PerCluster } from '../tensor_core/cluster.ts'
import { EPILOGUE_WARPS, STAGING_SLOTS, tmaOutputs } from '../tensor_core/epilogue.ts'
import { always, commonParts } from '../tensor_core/lower_program.ts'
import { bufferOfB, GATHER_WARPS, inputMaps, mapName, tmaStageBytes } from '../tensor_core/plan.ts'
import type { OperandPlan } from '../tensor_core/operands.ts'
import { epilogueRole } from './lower_epilogue.ts'
import { gatherRole, mmaRole, schedulerRole, tmaRole } from './lower_roles.ts'
import { WORK_RESPONSE_BYTES, WORK_SLOTS, type Sm100Plan } from './plan.ts'

export const TMA_WARP = EPILOGUE_WARPS
export const MMA_WARP = EPILOGUE_WARPS + 1
export const SCHEDULER_WARP = EPILOGUE_WARPS + 2

export function lowerSm100(plan: Sm100Plan): TileProgram {
  const staged = tmaOutputs(plan.epilogue)
  const dynamic = plan.design.scheduler === 'clc'
  const rings: Ring[] = [
    { name: 'stage', slots: plan.stages },
    { name: 'acc', slots: plan.accumulators },
    ...(staged.length > 0 ? [{ name: 'staging', slots: STAGING_SLOTS }] : []),
    ...(dynamic ? [{ name: 'work', slots: WORK_SLOTS }] : []),
  ]
  const { buffers, barriers, end } = sharedMemory(plan, staged.length > 0, dynamic)
  const [byTma, byGather] = (['tma', 'gather'] as const).map((source) => [plan.a, ...plan.b].some((operand) => operand.source === source))
  const common = commonParts(plan, { threads: plan.threads, storedRows: plan.epilogue.layout.rowsPerWarp, dynamic })
  const { domain } = common
  const maps = [...inputMaps(plan).map(({ map }) => map), ...staged.map((_, i) => mapName(i))]
  const work = dynamic ? ['work'] : []
  const roles: Role[] = [
    { name: 'epilogue', firstWarp: 0, warps: EPILOGUE_WARPS, does: 'TMEM to registers, f32 epilogue, stores', rings: ['acc', ...(staged.length > 0 ? ['staging'] : []), ...work], body: epilogueRole(plan) },
    ...(byTma ? [{ name: 'tma', firstWarp: TMA_WARP, warps: 1, does: 'loads A and B', rings: ['stage', ...work], body: tmaRole(plan, domain) }] : []),
    { name: 'mma', firstWarp: MMA_WARP, warps: 1, does: 'issues the MMAs', rings: ['stage', 'acc', ...work], body: mmaRole(plan) },
    ...(dynamic ? [{ name: 'scheduler', firstWarp: SCHEDULER_WARP, warps: 1, does: 'asks for work', rings: work, body: schedulerRole(plan) }] : []),
    ...(byGather ? [{ name: 'gather', firstWarp: SCHEDULER_WARP + +dynamic, warps: GATHER_WARPS, does: 'copies what TMA cannot address', rings: ['stage', ...work], body: gatherRole(plan, domain) }] : []),
  ]
  return {
    kind: 'sm100',
    ...common,
    rings,
    buffers,
    barriers,
    tmem: { columns: plan.tmemColumns, ring: 'acc', columnsPerAccumulator: plan.b.length * plan.epilogue.layout.columns, slotOffset: end },
    registers: null,
    setup: setupSteps(plan, barriers, maps),
    roles,
    teardown: teardownSteps(plan),
  }
} // prettier-ignore

interface SharedMemory {
  readonly buffers: SmemBuffer[]
  readonly barriers: Barrier[]
  readonly end: number
}

function sharedMemory(plan: Sm100Plan, staged: boolean, dynamic: boolean): SharedMemory {
  const buffers: SmemBuffer[] = []
  const barriers: Barrier[] = []
  let offset = 0
  const place = (name: string, ring: string, slots: number, slotBytes: number, align: number, holds: string, per?: Copies): void => {
    buffers.push({ name, ring, slots, slotBytes, ...(per && { per }), offset, align, holds })
    offset += slots * slotBytes * (per?.count ?? 1)
  }
  const barrier = (name: string, ring: string, slots: number, arrivals: PerCluster, scope: 'cta' | 'cluster', meaning: string): void => {
    barriers.push({ name, ring, arrivals, scope, offset, meaning })
    offset += 8 * slots
  }
  const { cluster, stages, accumulators } = plan
  const { pair } = cluster
  const copied = tmaStageBytes(plan)
  place('smem_a', 'stage', stages, plan.a.tileBytes, 1024, tileText(plan, plan.a, 'M'))
  plan.b.forEach((b, i) => place(bufferOfB(i), 'stage', stages, b.tileBytes, 1024, tileText(plan, b, 'N')))
  if (staged) place('smem_d', 'staging', STAGING_SLOTS, plan.epilogue.stagingSlotBytes, 128, 'output sub-tiles on their way to TMA stores', { owner: 'warp', count: EPILOGUE_WARPS })
  if (dynamic) place('work_response', 'work', WORK_SLOTS, WORK_RESPONSE_BYTES, 16, 'answers of cluster launch control')
  barrier('full', 'stage', stages, always(+(copied > 0) + (copied < plan.stageBytes ? GATHER_WARPS : 0)), 'cta', 'A and B of a stage have landed')
  barrier('empty', 'stage', stages, consumersOf(cluster), 'cta', 'the MMAs that read a stage are done')
  barrier('acc_full', 'acc', accumulators, always(1), 'cta', 'an accumulator is complete')
  barrier('acc_empty', 'acc', accumulators, always(pair * EPILOGUE_WARPS), pair > 1 ? 'cluster' : 'cta', 'all epilogue warps have read an accumulator')
  if (dynamic) {
    const shared = cluster.size > 1 ? 'cluster' : 'cta'
    barrier('work_full', 'work', WORK_SLOTS, always(1), shared, 'the next work item is known')
    // Every epilogue warp, the tma thread, gathering warps, the mma thread of each pair; and the scheduler itself.
    const producers = +(copied > 0) + (copied < plan.stageBytes ? GATHER_WARPS : 0)
    const readers = perCluster(cluster, ([m, n]) => m * n * (EPILOGUE_WARPS + producers) + (m * n) / pair + 1)
    barrier('work_empty', 'work', WORK_SLOTS, readers, shared, 'all roles of the cluster have read a work item')
  }
  return { buffers, barriers, end: offset }
} // prettier-ignore

const SWIZZLE_TEXT = { '32B': '32-byte', '64B': '64-byte', '128B': '128-byte', '128B_ATOM_32B': '128-byte' } as const

function tileText(plan: Sm100Plan, { operand, major, rows, descriptor }: OperandPlan, free: 'M' | 'N'): string {
  return `${operand.dtype} ${rows} x ${plan.tile[2]} tile, ${major === 'k' ? 'K' : free}-major, ${SWIZZLE_TEXT[descriptor.swizzle]} swizzle`
}

/** Barriers of the whole cluster exist before anyone signals them, and both CTAs of a pair run before they allocate. */
function setupSteps(plan: Sm100Plan, barriers: readonly Barrier[], maps: readonly string[]): SetupStep[] {
  const init: TileOp[] = [
    { op: 'prefetch_maps', maps },
    ...barriers.map((b): TileOp => ({ op: 'barrier_init', barrier: b.name })),
    { op: 'fence_barrier_init' },
  ]
  const publish: TileOp[] = [
    { op: 'tcgen05_fence', when: 'before_thread_sync' },
    { op: 'cta_sync' },
    { op: 'tcgen05_fence', when: 'after_thread_sync' },
    { op: 'tmem_address' },
  ]
  return [
    { warp: TMA_WARP, body: [{ op: 'elected', body: init }, { op: 'warp_sync' }] },
    ...(plan.cluster.size > 1 ? [{ warp: null, body: [{ op: 'cluster_start' }] } as const] : []),
    { warp: MMA_WARP, body: [{ op: 'tmem_alloc' }, { op: 'tmem_relinquish' }] },
    { warp: null, body: publish },
  ]
}

/** No CTA leaves while another may still signal its barriers, multicast into it or use its TMEM. */
function teardownSteps(plan: Sm100Plan): SetupStep[] {
  const sync: TileOp = { op: plan.cluster.size > 1 ? 'cluster_sync' : 'cta_sync' }
  return [
    { warp: null, body: [{ op: 'warp_sync' }, { op: 'tcgen05_fence', when: 'before_thread_sync' }, sync] },
    { warp: MMA_WARP, body: [{ op: 'tcgen05_fence', when: 'after_thread_sync' }, { op: 'tmem_dealloc' }] },
  ]
}
