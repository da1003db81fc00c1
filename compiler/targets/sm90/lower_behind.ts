/** Operations of the operand that comes through the ring of stages (behind.ts), of the producer and of the consumers. */
import type { TileOp } from '../../ir/pipe.ts'
import type { StageBlock } from '../../ir/pipe_epilogue.ts'
import { guardOf } from '../../ir/walk.ts'
import { valuesOf } from '../tensor_core/epilogue.ts'
import type { Brought } from '../tensor_core/lower_epilogue.ts'
import { fetchMaps } from '../tensor_core/plan.ts'
import type { BehindPlan } from './behind.ts'
import type { Sm90Plan } from './plan.ts'

const guardIn = (plan: Sm90Plan, { aux }: BehindPlan) => guardOf(valuesOf(plan.epilogue), aux.operand.name)

/** What it asks for in L2 under the steps of k. */
export function prefetchBehind(plan: Sm90Plan): TileOp[] {
  const { behind } = plan
  if (behind === null) return []
  const { map } = fetchMaps(plan)[0]!
  const { aux, columns } = behind
  return [{ op: 'prefetch_stage', operand: aux.operand.name, map, columns, guard: guardIn(plan, behind) }]
}

/** What the producer asks for behind the steps of k. */
export function fetchBehind(plan: Sm90Plan): TileOp[] {
  const { behind } = plan
  if (behind === null) return []
  const { map } = fetchMaps(plan)[0]!
  return behind.parts.flatMap((blocks): TileOp[] => [
    { op: 'wait', barrier: 'empty', parity: 'producer' },
    { op: 'fetch_stage', map, barrier: 'full', bytes: behind.bytes * blocks.length, ...blocksOf(plan, behind, blocks) },
    { op: 'advance', ring: 'stage' },
  ])
}

/** It has landed: its elements are taken to registers, or wait for the epilogue. */
export const takeBehind = (plan: Sm90Plan): TileOp[] =>
  (plan.behind?.parts ?? []).flatMap((blocks, part): TileOp[] => {
    const { swizzle, held, aux } = plan.behind!
    return [
      { op: 'wait', barrier: 'full', parity: 'consumer' },
      held === 'stages'
        ? { op: 'hold_stage', operand: aux.operand.name, part, ring: 'stage' }
        : { op: 'take_stage', swizzle, ...blocksOf(plan, plan.behind!, blocks) },
      { op: 'advance', ring: 'stage' },
    ]
  })

/** Where the epilogue has it from. */
export const broughtBehind = ({ behind }: Sm90Plan): [string, Brought][] => {
  if (behind === null) return []
  const { aux, parts, columns, swizzle, held } = behind
  const stage = { parts: parts.map(copiesOf), columns, swizzle }
  return [[aux.operand.name, { before: [], from: held === 'stages' ? { stage } : { ahead: 'tile' }, then: [] }]]
}

/**
 * The stages are free when all warps of a warpgroup have read them. Other CTAs have no part in what landed there: that they are done with what these slots held
 * before is known when the first step of the next tile has landed, to which all have contributed. Behind the last tile nobody waits for them.
 */
export function releaseBehind(plan: Sm90Plan): TileOp[] {
  if (plan.behind === null) return []
  const release: TileOp = { op: 'release', barrier: 'empty', ring: 'spent', eachWarp: false }
  const landed: TileOp = { op: 'wait', barrier: 'full', parity: 'consumer' }
  return [
    { op: 'warpgroup_sync' },
    ...plan.behind.parts.flatMap((_, i): TileOp[] => [
      isAlone(plan) ? release : { op: 'before_next_tile', body: i === 0 ? [landed, release] : [release] },
      { op: 'advance', ring: 'spent' },
    ]),
  ]
}

const isAlone = ({ cluster }: Sm90Plan): boolean => cluster.size === 1

/** Behind the epilogue, which reads it in its stages; those who take turns would hold up each other. */
export const releasesLate = ({ behind }: Sm90Plan): boolean => behind?.held === 'stages'

/** Slots that nobody releases behind the last tile. */
export const unreleased = (plan: Sm90Plan): number => (isAlone(plan) ? 0 : (plan.behind?.parts.length ?? 0))

/** Each operation has its own. */
const copiesOf = (blocks: readonly StageBlock[]): StageBlock[] => blocks.map((block) => ({ ...block }))

const blocksOf = (plan: Sm90Plan, behind: BehindPlan, blocks: readonly StageBlock[]) => ({
  operand: behind.aux.operand.name,
  blocks: copiesOf(blocks),
  columns: behind.columns,
  guard: guardIn(plan, behind),
})
