/**
 * Plan → tile IR for SM100: a persistent, warp-specialised GEMM.
 *
 *   tma       one thread: fills the stage ring (full/empty mbarriers)
 *   mma       one thread: UMMAs of a stage, commits its slot back, commits the accumulator
 *   epilogue  4 warps, one TMEM lane quarter each: TMEM → registers → f32 math → smem → TMA store
 *
 * Two accumulators in TMEM let the epilogue of one tile run under the mainloop of the next.
 */
import type { Node } from '../tensor_ir.ts'
import type { Barrier, Ring, SmemBuffer, StoreOp, TileOp, TileProgram } from '../tile_ir.ts'
import { guardOf } from '../walk.ts'
import {
  ACCUMULATORS,
  EPILOGUE_WARPS,
  STAGING_SLOTS,
  SUBTILE_COLUMNS,
  type OperandPlan,
  type Sm100Plan,
} from './plan.ts'

export const TMA_WARP = EPILOGUE_WARPS
export const MMA_WARP = EPILOGUE_WARPS + 1

export function lowerSm100(plan: Sm100Plan): TileProgram {
  const rings: Ring[] = [
    { name: 'stage', slots: plan.stages },
    { name: 'acc', slots: ACCUMULATORS },
  ]
  const staged = plan.outputs.filter((o) => o.store === 'tma')
  if (staged.length > 0) rings.push({ name: 'staging', slots: STAGING_SLOTS })

  const buffers: SmemBuffer[] = []
  let offset = 0
  const place = (
    name: string,
    ring: string,
    slots: number,
    slotBytes: number,
    perWarp: number,
    holds: string,
  ): void => {
    buffers.push({ name, ring, slots, slotBytes, perWarp, offset, holds })
    offset += slots * slotBytes * perWarp
  }
  place('smem_a', 'stage', plan.stages, plan.a.tileBytes, 1, tileText(plan, plan.a, 0))
  place('smem_b', 'stage', plan.stages, plan.b.tileBytes, 1, tileText(plan, plan.b, 1))
  if (staged.length > 0)
    place(
      'smem_d',
      'staging',
      STAGING_SLOTS,
      plan.stagingSlotBytes,
      EPILOGUE_WARPS,
      'output sub-tiles on their way to TMA stores',
    )

  const barriers: Barrier[] = []
  const barrier = (
    name: string,
    ring: string,
    slots: number,
    arrivals: number,
    txBytes: number | null,
    meaning: string,
  ): void => {
    barriers.push({ name, ring, arrivals, txBytes, offset, meaning })
    offset += 8 * slots
  }
  barrier('full', 'stage', plan.stages, 1, plan.stageBytes, 'A and B of a stage have landed')
  barrier('empty', 'stage', plan.stages, 1, null, 'the MMAs that read a stage are done')
  barrier('acc_full', 'acc', ACCUMULATORS, 1, null, 'an accumulator is complete')
  barrier('acc_empty', 'acc', ACCUMULATORS, EPILOGUE_WARPS, null, 'all epilogue warps have read an accumulator')

  const maps = ['map_a', 'map_b', ...staged.map((_, i) => mapName(i))]
  return {
    kind: 'sm100',
    tensor: plan.program,
    threads: plan.threads,
    tile: plan.tile,
    subtileColumns: SUBTILE_COLUMNS,
    rowsPerWarp: plan.rowsPerWarp,
    rings,
    buffers,
    barriers,
    tmem: { columns: plan.tmemColumns, ring: 'acc', columnsPerAccumulator: plan.tile[1], slotOffset: offset },
    setup: [
      {
        warp: TMA_WARP,
        body: [
          {
            op: 'elected',
            body: [
              { op: 'prefetch_maps', maps },
              ...barriers.map((b): TileOp => ({ op: 'barrier_init', barrier: b.name })),
              { op: 'fence_barrier_init' },
            ],
          },
          { op: 'warp_sync' },
        ],
      },
      { warp: MMA_WARP, body: [{ op: 'tmem_alloc' }, { op: 'tmem_relinquish' }] },
      {
        warp: null,
        body: [
          { op: 'tcgen05_fence', when: 'before_thread_sync' },
          { op: 'cta_sync' },
          { op: 'tcgen05_fence', when: 'after_thread_sync' },
          { op: 'tmem_address' },
        ],
      },
    ],
    roles: [
      { name: 'epilogue', firstWarp: 0, warps: EPILOGUE_WARPS, does: 'TMEM to registers, f32 epilogue, stores', rings: ['acc', ...(staged.length > 0 ? ['staging'] : [])], body: epilogueRole(plan) }, // prettier-ignore
      { name: 'tma', firstWarp: TMA_WARP, warps: 1, does: 'loads A and B', rings: ['stage'], body: tmaRole(plan) },
      {
        name: 'mma',
        firstWarp: MMA_WARP,
        warps: 1,
        does: 'issues the MMAs',
        rings: ['stage', 'acc'],
        body: mmaRole(plan),
      },
    ],
    teardown: [
      {
        warp: null,
        body: [{ op: 'warp_sync' }, { op: 'tcgen05_fence', when: 'before_thread_sync' }, { op: 'cta_sync' }],
      },
      { warp: MMA_WARP, body: [{ op: 'tcgen05_fence', when: 'after_thread_sync' }, { op: 'tmem_dealloc' }] },
    ],
  }
}

/** Name of the tensor map of a staged output: the first is `map_d`, more are numbered. */
export function mapName(index: number): string {
  return index === 0 ? 'map_d' : `map_d${index}`
}

function tileText(plan: Sm100Plan, operand: OperandPlan, which: 0 | 1): string {
  const [k, free] = [plan.tile[2], plan.tile[which]]
  return `${operand.operand.dtype} ${free} x ${k} tile, ${operand.major === 'k' ? 'K-major' : which ? 'N-major' : 'M-major'}, 128-byte swizzle`
}

function tmaRole(plan: Sm100Plan): TileOp[] {
  const load = (operand: OperandPlan, map: string, buffer: string, free: 'm' | 'n'): TileOp => ({
    op: 'tma_load',
    operand: operand.operand.name,
    map,
    buffer,
    barrier: 'full',
    boxes: operand.boxes,
    boxBytes: operand.boxBytes,
    boxExtent: operand.boxExtents[0],
    coords: operand.major === 'k' ? ['k', free] : [free, 'k'],
  })
  const fill: TileOp[] = [
    { op: 'wait', barrier: 'empty', parity: 'producer' },
    { op: 'arrive_expect_tx', barrier: 'full', bytes: plan.stageBytes },
    load(plan.a, 'map_a', 'smem_a', 'm'),
    load(plan.b, 'map_b', 'smem_b', 'n'),
    { op: 'advance', ring: 'stage' },
  ]
  return [{ op: 'elected', body: [{ op: 'for_tiles', body: [{ op: 'for_k', body: fill }] }] }]
}

function mmaRole(plan: Sm100Plan): TileOp[] {
  const consume: TileOp[] = [
    { op: 'wait', barrier: 'full', parity: 'consumer' },
    {
      op: 'mma',
      kind: 'f16',
      a: 'smem_a',
      b: 'smem_b',
      instructionDescriptor: plan.instructionDescriptor,
      aDescriptor: plan.a.descriptor,
      bDescriptor: plan.b.descriptor,
      steps: plan.tile[2] / plan.mmaK,
    },
    { op: 'commit', barrier: 'empty' },
    { op: 'advance', ring: 'stage' },
  ]
  const tile: TileOp[] = [
    { op: 'wait', barrier: 'acc_empty', parity: 'producer' },
    { op: 'tcgen05_fence', when: 'after_thread_sync' },
    { op: 'for_k', body: consume },
    { op: 'commit', barrier: 'acc_full' },
    { op: 'advance', ring: 'acc' },
  ]
  return [{ op: 'elected', body: [{ op: 'for_tiles', body: tile }] }]
}

function epilogueRole(plan: Sm100Plan): TileOp[] {
  const values = plan.outputs.map((o) => o.value)
  const aux = (shapes: readonly string[]): TileOp[] =>
    plan.aux
      .filter((a) => shapes.includes(a.shape))
      .map((a): TileOp => ({ op: 'aux_load', operand: a.operand.name, shape: a.shape, vector: a.vector, guard: guardOf(values, a.operand.name) })) // prettier-ignore
  const subtile: TileOp[] = [
    ...aux(['full', 'row']),
    { op: 'tmem_load' },
    {
      op: 'last_subtile',
      body: [
        { op: 'tcgen05_fence', when: 'before_thread_sync' },
        { op: 'warp_sync' },
        { op: 'lane0', body: [{ op: 'arrive', barrier: 'acc_empty' }] },
      ],
    },
    { op: 'compute', outputs: plan.outputs.map((o): { operand: string; value: Node } => ({ operand: o.operand.name, value: o.value })) }, // prettier-ignore
    ...storeOps(plan),
  ]
  const usesRow = plan.aux.some((a) => a.shape === 'full' || a.shape === 'column') || plan.outputs.some((o) => o.store === 'direct') // prettier-ignore
  const tile: TileOp[] = [
    ...(usesRow ? [{ op: 'own_row' } as const] : []),
    ...aux(['column', 'uniform']),
    { op: 'wait', barrier: 'acc_full', parity: 'consumer' },
    { op: 'tcgen05_fence', when: 'after_thread_sync' },
    { op: 'for_subtiles', body: subtile },
    { op: 'advance', ring: 'acc' },
  ]
  const staged = plan.outputs.some((o) => o.store === 'tma')
  return [{ op: 'for_tiles', body: tile }, ...(staged ? [{ op: 'lane0', body: [{ op: 'bulk_wait' }] } as const] : [])]
}

/** A staging slot is free once the store issued STAGING_SLOTS before has read it. */
function storeOps(plan: Sm100Plan): TileOp[] {
  let staged = 0
  return plan.outputs.flatMap((output): TileOp[] => {
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
