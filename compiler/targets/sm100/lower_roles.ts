/** Programs of the roles that feed the epilogue: loads, MMAs, and the scheduler of dynamic work. */
import { waysOf } from '../../classes/matmul.ts'
import type { TileOp } from '../../ir/pipe.ts'
import type { AtomSource, Mma, MmaScales } from '../../ir/pipe_mma.ts'
import type { Domain } from '../../space/domain.ts'
import { depthView, gathers, scaleFinders, tmaLoads } from '../tensor_core/lower_loads.ts'
import { atomsBy, atomsOf, type AtomPlan, type OnesPlan } from '../tensor_core/scale_atoms.ts'
import { bufferOfB, GATHER_WARPS, tmaStageBytes } from '../tensor_core/plan.ts'
import { WORK_RESPONSE_BYTES } from './memory.ts'
import { multiplyParts, scaleRole } from './parts.ts'
import type { Sm100Plan } from './plan.ts'

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
  return { op: 'for_tiles', body: [...body, ...nextWork(plan, warp)] }
}

/** By one thread of the role's warp, which finds groups all together. */
function electedOnTiles(plan: Sm100Plan, body: readonly TileOp[], then: readonly TileOp[] = []): TileOp[] {
  if (!plan.gemm.groups) return [{ op: 'elected', body: [forTiles(plan, body, false), ...then] }]
  return [
    forTiles(plan, [{ op: 'elected', body }], true),
    ...(then.length > 0 ? [{ op: 'elected', body: then } as const] : []),
  ]
}

export function tmaRole(plan: Sm100Plan, domain: Domain): TileOp[] {
  // The loads of both CTAs of a pair signal the leader's barrier.
  const expect: TileOp = { op: 'arrive_expect_tx', barrier: 'full', bytes: plan.cluster.pair * tmaStageBytes(plan) }
  const fill: TileOp[] = [
    { op: 'wait', barrier: 'empty', parity: 'producer' },
    plan.cluster.pair > 1 ? { op: 'leader', body: [expect] } : expect,
    ...tmaLoads(plan, domain, 'full'),
    ...atomsBy(plan.atoms, 'tma').map(({ operand, map, buffer, free, atoms }): TileOp => {
      const depth = depthView(domain, 0)
      return { op: 'load_atoms', operand: operand.name, map, buffer, barrier: 'full', free, atoms, depth }
    }),
    { op: 'advance', ring: 'stage' },
  ]
  // Signals of other CTAs' MMAs are still under way when the last load is issued.
  const drain: TileOp[] = [
    { op: 'wait', barrier: 'empty', parity: 'producer' },
    { op: 'advance', ring: 'stage' },
  ]
  const cluster = plan.cluster.size > 1
  const drains: TileOp[] = cluster ? [{ op: 'for_slots', ring: 'stage', but: 0, body: drain }] : []
  return electedOnTiles(plan, [{ op: 'for_k', body: fill }], drains)
}

/** Warps that fill the ring as TMA would, 16 bytes of shared memory at a time. */
export function gatherRole(plan: Sm100Plan, domain: Domain): TileOp[] {
  const copies = gathers(plan, domain, 32 * GATHER_WARPS)
  const fill: TileOp[] = [
    { op: 'wait', barrier: 'empty', parity: 'producer' },
    ...copies,
    ...atomsBy(plan.atoms, 'warps').map(({ operand, buffer, free, atoms, block }): TileOp => {
      return { op: 'write_atoms', operand: operand.name, buffer, free, atoms, block, depth: depthView(domain, 0) }
    }),
    // The MMA reads shared memory through the async proxy.
    { op: 'proxy_fence' },
    { op: 'warp_sync' },
    { op: 'lane0', body: [{ op: 'arrive', barrier: 'full', at: plan.cluster.pair > 1 ? 'leader' : 'cta' }] },
    { op: 'advance', ring: 'stage' },
  ]
  return [forTiles(plan, [{ op: 'for_k', body: fill }], true)]
}

/** A warp that loads scales of partial sums. */
export const partScalesRole = (plan: Sm100Plan, domain: Domain): TileOp[] => [
  forTiles(plan, [...scaleFinders(plan.scales, domain), { op: 'for_k', body: scaleRole(plan.parts!, domain) }], true),
]

export function mmaRole(plan: Sm100Plan): TileOp[] {
  const { layout } = plan.epilogue
  const { parts, mmaSteps } = plan
  const several = plan.cluster.size > 1
  const multiply = (chunk: number | null): Mma => ({
    op: 'mma',
    kind: plan.mma,
    a: 'smem_a',
    products: plan.b.map((_, i) => ({ b: bufferOfB(i), column: i * waysOf(plan.gemm) * layout.columns })),
    instruction: plan.instruction,
    aDescriptor: plan.a.descriptor,
    bDescriptor: plan.b[0]!.descriptor,
    steps: mmaSteps / (parts?.scales.chunks ?? 1),
    chunk,
    scales: mmaScales(plan),
  })
  const complete: TileOp = { op: 'commit', barrier: 'acc_full', to: plan.cluster.pair > 1 ? 'pair' : 'cta' }
  const spent: TileOp = { op: 'commit', barrier: 'empty', to: several ? 'producers' : 'cta' }
  const consume: TileOp[] = [
    { op: 'wait', barrier: 'full', parity: 'consumer' },
    ...atomsOf(plan.atoms).map(({ buffer, column, atoms }): TileOp => ({
      op: 'copy_atoms',
      buffer,
      column: scaleColumn(plan, column),
      atoms,
    })),
    ...(parts ? multiplyParts(parts, multiply, complete, spent) : [multiply(null), spent]),
    { op: 'advance', ring: 'stage' },
  ]
  const loop: TileOp = { op: 'for_k', body: consume }
  const tile: TileOp[] = parts
    ? [loop]
    : [
        { op: 'wait', barrier: 'acc_empty', parity: 'producer' },
        { op: 'tcgen05_fence', when: 'after_thread_sync' },
        loop,
        complete,
        { op: 'advance', ring: 'acc' },
      ]
  const issue = electedOnTiles(plan, tile)
  return plan.cluster.pair === 1 ? issue : [{ op: 'leader', body: issue }]
}

/** Behind the accumulators. */
export const scaleColumn = ({ accumulators, gemm, epilogue }: Sm100Plan, column: number): number =>
  accumulators * gemm.accumulators.length * epilogue.layout.columns + column

function mmaScales(plan: Sm100Plan): MmaScales | null {
  const { atoms, scalesPerStep } = plan
  const source = (from: AtomPlan | OnesPlan): AtomSource => ({
    column: scaleColumn(plan, from.column),
    atoms: from.source === 'ones' ? null : from.atoms,
  })
  return atoms && { perStep: scalesPerStep, a: source(atoms.a), b: atoms.b.map(source) }
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
