/** What slots hold, by number, and when asynchronous operations on them are done. */
import type { CopyAtoms } from '../ir/pipe_mma.ts'
import { ATOM_COLUMNS } from '../targets/tensor_core/scale_atoms.ts'
import type { Agent } from './agent.ts'
import type { BarrierState } from './barriers.ts'
import { byProxy, type Done, type Machine } from './machine.ts'

/** Of a k tile. */
export const depthTag = (agent: Agent, m: Machine): number => agent.tile * m.load.depth + agent.k

/** What counts on a barrier is over with the phase that it counts in. */
export const landing = (agent: Agent, barrier: BarrierState, view = byProxy(agent)): Done => ({
  dimension: barrier.phases,
  epoch: barrier.completed + 1,
  view,
})

/** CTAs that an MMA and what precedes it read and write. */
export const pairOf = (agent: Agent, m: Machine): number[] =>
  m.program.cluster.pair > 1 ? [agent.cta, agent.cta ^ 1] : [agent.cta]

/** Columns of tensor memory that scales are copied to. */
export const atomColumns = ({ column, atoms }: Pick<CopyAtoms, 'column' | 'atoms'>): number[] =>
  Array.from({ length: atoms.rows * atoms.steps }, (_, i) => column + i * ATOM_COLUMNS)

export const TMEM_LANES = 128
/** Tag of what is filled once for all tiles. */
export const FILLED = -3
