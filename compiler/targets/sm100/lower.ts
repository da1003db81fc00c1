/**
 * Plan → pipeline program for SM100: a persistent, warp-specialised GEMM over clusters of CTAs.
 *
 *   tma        one thread: fills the stage ring (full/empty mbarriers); multicasts what other CTAs of the cluster need too
 *   mma        one thread (of the even CTA of a pair): UMMAs of a stage, commits its slot back, commits the accumulator
 *   scales     (scales that multiply partial sums) one warp loads them, through a ring of their own
 *   gather     (operands that TMA cannot address) 4 warps copy them into the same ring
 *   scheduler  (dynamic scheduling) one warp of the cluster: asks for work ahead and hands it to all roles of all CTAs
 *   epilogue   4 warps, one TMEM lane quarter each: TMEM → registers → f32 math → smem → TMA store
 *
 * Two accumulators in TMEM let the epilogue of one tile run under the mainloop of the next.
 */
import type { Barrier, Ring, Role, SetupStep, TileOp, TileProgram } from '../../ir/pipe.ts'
import { EPILOGUE_WARPS, stagingSlots, tmaOutputs } from '../tensor_core/epilogue.ts'
import { SHARED, sharesBlocks } from '../tensor_core/lower_epilogue.ts'
import { commonParts, groupChecks } from '../tensor_core/lower_program.ts'
import { atomsBy, onesOf } from '../tensor_core/scale_atoms.ts'
import { GATHER_WARPS, inputMaps, mapName, tmaStageBytes } from '../tensor_core/plan.ts'
import { gathersAny } from '../tensor_core/operands.ts'
import { epilogueRole } from './lower_epilogue.ts'
import { gatherRole, mmaRole, partScalesRole, scaleColumn, schedulerRole, tmaRole } from './lower_roles.ts'
import { sm100Memory, WORK_SLOTS } from './memory.ts'
import { ONES } from './mma.ts'
import { SCALE_SLOTS } from './parts.ts'
import type { Sm100Plan } from './plan.ts'

export const TMA_WARP = EPILOGUE_WARPS
export const MMA_WARP = EPILOGUE_WARPS + 1
export const SCHEDULER_WARP = EPILOGUE_WARPS + 2

export function lowerSm100(plan: Sm100Plan): TileProgram {
  const staged = tmaOutputs(plan.epilogue)
  const slots = stagingSlots(plan.epilogue)
  const dynamic = plan.design.scheduler === 'clc'
  const shares = sharesBlocks(plan.epilogue)
  const rings: Ring[] = [
    { name: 'stage', slots: plan.stages },
    { name: 'acc', slots: plan.accumulators },
    ...(slots > 0 ? [{ name: 'staging', slots }] : []),
    ...(plan.parts ? [{ name: 'scales', slots: SCALE_SLOTS }] : []),
    ...(shares ? [{ name: SHARED.ring, slots: SHARED.slots }] : []),
    ...(dynamic ? [{ name: 'work', slots: WORK_SLOTS }] : []),
  ]
  const { map, tmemSlot } = sm100Memory(plan, plan.stages, 'regions')
  const { barriers } = map
  const byTma = tmaStageBytes(plan) > 0
  const byGather = gathersAny(plan)
  const byWarps = byGather || atomsBy(plan.atoms, 'warps').length > 0
  const common = commonParts(plan, { threads: plan.threads, storedRows: plan.epilogue.layout.rowsPerWarp, dynamic })
  const { domain } = common
  const maps = [
    ...[...inputMaps(plan), ...atomsBy(plan.atoms, 'tma')].map(({ map }) => map),
    ...staged.map((_, i) => mapName(i)),
  ]
  const work = dynamic ? ['work'] : []
  const cells = plan.gemm.accumulators.length * plan.epilogue.layout.columns
  const roles: Role[] = [
    {
      name: 'epilogue',
      firstWarp: 0,
      warps: EPILOGUE_WARPS,
      does: 'TMEM to registers, f32 epilogue, stores',
      rings: [
        'acc',
        ...(plan.parts ? ['scales'] : []),
        ...(shares ? [SHARED.ring] : []),
        ...(slots > 0 ? ['staging'] : []),
        ...work,
      ],
      body: epilogueRole(plan),
    },
    ...(byTma
      ? [
          {
            name: 'tma',
            firstWarp: TMA_WARP,
            warps: 1,
            does: 'loads A and B',
            rings: ['stage', ...work],
            body: tmaRole(plan, domain),
          },
        ]
      : []),
    {
      name: 'mma',
      firstWarp: MMA_WARP,
      warps: 1,
      does: 'issues the MMAs',
      rings: ['stage', 'acc', ...work],
      body: mmaRole(plan),
    },
    ...(dynamic
      ? [
          {
            name: 'scheduler',
            firstWarp: SCHEDULER_WARP,
            warps: 1,
            does: 'asks for work',
            rings: work,
            body: schedulerRole(plan),
          },
        ]
      : []),
    ...(byWarps
      ? [
          {
            name: 'gather',
            firstWarp: SCHEDULER_WARP + +dynamic,
            warps: GATHER_WARPS,
            does: byGather ? 'copies what TMA cannot address' : 'writes scales in the order of tensor memory',
            rings: ['stage', ...work],
            body: gatherRole(plan, domain),
          },
        ]
      : []),
    ...(plan.parts
      ? [
          {
            name: 'scales',
            firstWarp: SCHEDULER_WARP + +dynamic + (byWarps ? GATHER_WARPS : 0),
            warps: 1,
            does: 'loads scales of partial sums',
            rings: ['scales', ...work],
            body: partScalesRole(plan, domain),
          },
        ]
      : []),
  ]
  return {
    kind: 'sm100',
    ...common,
    rings,
    buffers: map.buffers,
    barriers,
    tmem: {
      columns: plan.tmemColumns,
      ring: 'acc',
      columnsPerAccumulator: cells,
      sums: plan.parts?.column ?? null,
      ...(plan.parts && plan.parts.inRegisters < cells && { inRegisters: plan.parts.inRegisters }),
      slotOffset: tmemSlot,
    },
    registers: null,
    setup: setupSteps(plan, barriers, maps),
    roles,
    teardown: [...groupChecks(domain), ...teardownSteps(plan)],
  }
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
    ...onesSteps(plan),
  ]
}

/** Scales of operands without any, which MMAs of the other CTA of a pair read too. */
function onesSteps(plan: Sm100Plan): SetupStep[] {
  const fills = onesOf(plan.atoms).map(({ column, columns, dtype }): TileOp => ({
    op: 'fill_columns',
    column: scaleColumn(plan, column),
    columns,
    word: ONES[dtype]!,
  }))
  if (fills.length === 0) return []
  const sync: TileOp = { op: plan.cluster.pair > 1 ? 'cluster_sync' : 'cta_sync' }
  return [
    ...Array.from({ length: EPILOGUE_WARPS }, (_, warp) => ({ warp, body: fills })),
    {
      warp: null,
      body: [
        { op: 'tcgen05_fence', when: 'before_thread_sync' },
        sync,
        { op: 'tcgen05_fence', when: 'after_thread_sync' },
      ],
    },
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
