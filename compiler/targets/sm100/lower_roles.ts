/** Programs of the roles that feed the epilogue: loads, MMAs, and the scheduler of dynamic work. */
import type { TileOp } from '../../ir/pipe.ts'
import { WORK_RESPONSE_BYTES, type Sm100Plan } from './plan.ts'
import type { OperandPlan } from '../tensor_core/operands.ts'

/** What every role does at the end of a tile under dynamic scheduling; `warp`: by a whole warp, else by one thread. */
export function nextWork(plan: Sm100Plan, warp: boolean): TileOp[] {
  if (plan.design.scheduler !== 'clc') return []
  const arrive: TileOp = { op: 'arrive', barrier: 'work_empty', at: 'first' }
  return [
    { op: 'wait', barrier: 'work_full', parity: 'consumer' },
    { op: 'read_work', buffer: 'work_response' },
    // The next response is written by the async proxy: these reads come before it.
    { op: 'proxy_fence' },
    ...(warp ? [{ op: 'warp_sync' } as const, { op: 'lane0', body: [arrive] } as const] : [arrive]),
    { op: 'advance', ring: 'work' },
  ]
}

/** Loops over tiles with what the scheduling needs. */
export function forTiles(plan: Sm100Plan, body: readonly TileOp[], warp: boolean): TileOp {
  return { op: 'for_tiles', dynamic: plan.design.scheduler === 'clc', body: [...body, ...nextWork(plan, warp)] }
}

export function tmaRole(plan: Sm100Plan): TileOp[] {
  const load = (operand: OperandPlan, index: string, free: 'm' | 'n'): TileOp => ({
    op: 'tma_load', operand: operand.operand.name, map: `map_${index}`, buffer: `smem_${index}`, barrier: 'full', free, plan: operand,
  }) // prettier-ignore
  // The loads of both CTAs of a pair signal the leader's barrier.
  const bytes = [plan.a, ...plan.b].reduce((sum, { source, tileBytes }) => sum + (source === 'tma' ? tileBytes : 0), 0)
  const expect: TileOp = { op: 'arrive_expect_tx', barrier: 'full', bytes: plan.cluster.pair * bytes }
  const fill: TileOp[] = [
    { op: 'wait', barrier: 'empty', parity: 'producer' },
    plan.cluster.pair > 1 ? { op: 'leader', body: [expect] } : expect,
    ...stageOperands(plan, 'tma').map(([operand, index, free]) => load(operand, index, free)),
    { op: 'advance', ring: 'stage' },
  ]
  // Signals of other CTAs' MMAs are still under way when the last load is issued.
  const drain: TileOp[] = [
    { op: 'wait', barrier: 'empty', parity: 'producer' },
    { op: 'advance', ring: 'stage' },
  ]
  const tiles = forTiles(plan, [{ op: 'for_k', body: fill }], false)
  const cluster = plan.cluster.size > 1
  return [
    { op: 'elected', body: [tiles, ...(cluster ? [{ op: 'for_slots', ring: 'stage', body: drain } as const] : [])] },
  ]
}

function stageOperands(plan: Sm100Plan, source: OperandPlan['source']): (readonly [OperandPlan, string, 'm' | 'n'])[] {
  const all = [[plan.a, 'a', 'm'] as const, ...plan.b.map((b, i) => [b, i === 0 ? 'b' : `b${i}`, 'n'] as const)]
  return all.filter(([operand]) => operand.source === source)
}

/** Warps that fill the ring as TMA would, 16 bytes of shared memory at a time. */
export function gatherRole(plan: Sm100Plan): TileOp[] {
  const copies = stageOperands(plan, 'gather').map(([operand, index, free]): TileOp => ({
    op: 'gather',
    operand: operand.operand.name,
    buffer: `smem_${index}`,
    free,
    plan: operand,
  }))
  const fill: TileOp[] = [
    { op: 'wait', barrier: 'empty', parity: 'producer' },
    ...copies,
    // The MMA reads shared memory through the async proxy.
    { op: 'proxy_fence' },
    { op: 'warp_sync' },
    { op: 'lane0', body: [{ op: 'arrive', barrier: 'full', at: 'cta' }] },
    { op: 'advance', ring: 'stage' },
  ]
  return [forTiles(plan, [{ op: 'for_k', body: fill }], true)]
}

export function mmaRole(plan: Sm100Plan): TileOp[] {
  const { layout } = plan.epilogue
  const several = plan.cluster.size > 1
  const consume: TileOp[] = [
    { op: 'wait', barrier: 'full', parity: 'consumer' },
    {
      op: 'mma',
      kind: plan.mma,
      a: 'smem_a',
      products: plan.b.map((_, i) => ({ b: i === 0 ? 'smem_b' : `smem_b${i}`, column: i * layout.columns })),
      instructionDescriptor: plan.instructionDescriptor,
      aDescriptor: plan.a.descriptor,
      bDescriptor: plan.b[0]!.descriptor,
      steps: plan.mmaSteps,
    },
    { op: 'commit', barrier: 'empty', to: several ? 'producers' : 'cta' },
    { op: 'advance', ring: 'stage' },
  ]
  const tile: TileOp[] = [
    { op: 'wait', barrier: 'acc_empty', parity: 'producer' },
    { op: 'tcgen05_fence', when: 'after_thread_sync' },
    { op: 'for_k', body: consume },
    { op: 'commit', barrier: 'acc_full', to: plan.cluster.pair > 1 ? 'pair' : 'cta' },
    { op: 'advance', ring: 'acc' },
  ]
  const issue: TileOp = { op: 'elected', body: [forTiles(plan, tile, false)] }
  return plan.cluster.pair === 1 ? [issue] : [{ op: 'leader', body: [issue] }]
}

/** One warp of the cluster. A request is made only after the one before was answered with work (PTX ISA 9.7.13.17). */
export function schedulerRole(plan: Sm100Plan): TileOp[] {
  if (plan.design.scheduler !== 'clc') return []
  const body: TileOp[] = [
    { op: 'wait', barrier: 'work_empty', parity: 'producer' },
    { op: 'expect_work', barrier: 'work_full', bytes: WORK_RESPONSE_BYTES },
    { op: 'warp_sync' },
    { op: 'lane0', body: [{ op: 'request_work', barrier: 'work_full', buffer: 'work_response' }] },
    ...nextWork(plan, true),
  ]
  return [{ op: 'first_cta', body: [{ op: 'while_work', body }] }]
}
