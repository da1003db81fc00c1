/** Effects of what takes the sums of a tile, and of what brings them to others that have parts of it. */
import { firstAlongK, type TileOp } from '../ir/pipe.ts'
import type { Agent } from './agent.ts'
import type { Effects, OpOf } from './effect.ts'
import { usesTensorMemory } from './effects_sync.ts'
import { inTensorMemory, ofOwn, type Done, type Machine } from './machine.ts'
import type { Slot } from './slots.ts'
import { landing } from './tags.ts'

/** Of a tile's accumulators: k tiles, or steps of MMAs that warps issue by themselves. */
const stepsOf = (m: Machine): number => m.load.depth * m.fragmentSteps

/** Cells of each thread lie beside one another. */
const CELLS = 'cells'

/** All MMAs of the tile are done, and these registers are its sums. */
function takesCells(op: TileOp, agent: Agent, m: Machine): void {
  const { cells } = agent
  if (!cells || cells.tile !== agent.tile || cells.steps !== stepsOf(m))
    m.problem(agent, op, `takes a sum of ${cells?.steps ?? 0} of ${stepsOf(m)} steps`)
  if (agent.issued > 0 && agent.clock[agent.mma]! < agent.issued)
    m.problem(agent, op, 'takes accumulators of MMAs that may still be under way')
}

/** The sums of a tile, in registers or in lanes of tensor memory. */
function takesSums(op: TileOp, agent: Agent, m: Machine): void {
  const { tmem } = m.program
  if (!tmem) return takesCells(op, agent, m)
  usesTensorMemory(op, agent, m, agent.cta)
  const { steps } = m.accumulators[agent.cta]![agent.ring(tmem.ring).slot]!
  if (tmem.sums === null && steps !== m.load.depth)
    m.problem(agent, op, `reads a sum of ${steps} of ${m.load.depth} k tiles`)
  m.readLater(agent, op, ...rowsOfSums(agent, m))
}

/** Those that this agent has of them: where, when it is done with them, and what they hold. */
function rowsOfSums(
  agent: Agent,
  m: Machine,
): readonly [slot: Slot, done: Done, tag: number, bytes: number, of: unknown, part: number] {
  const { sums, ring } = m.program.tmem!
  const done = { dimension: agent.dimension('tensor'), epoch: agent.event(), view: inTensorMemory(agent) }
  const [slot, bytes] =
    sums === null ? [m.accumulators[agent.cta]![agent.ring(ring).slot]!.slot, 0] : [m.parked[agent.cta]!, agent.threads]
  return [slot, done, agent.tile, bytes, CELLS, agent.id]
}

function sendSums(op: OpOf<'send_sums'>, agent: Agent, m: Machine): void {
  takesCells(op, agent, m)
  const sharers = m.cluster.sums[agent.cta]!
  const bytes = (m.buffer(op.buffer).slotBytes * agent.threads) / op.threads / sharers.length
  for (const cta of sharers) {
    const barrier = m.barrierOf(agent, op.barrier, { cta })
    const done = landing(agent, barrier, ofOwn(agent))
    m.writeLater(agent, op, m.slotOf(agent, op.buffer, { cta }), done, agent.tile, bytes, CELLS, agent.id)
    m.signal(agent, op, barrier, 0, -bytes)
  }
}

export const SUMS = {
  park_cells(op, agent, m) {
    takesCells(op, agent, m)
    usesTensorMemory(op, agent, m, agent.cta)
    const done = { dimension: agent.dimension('tensor'), epoch: agent.event(), view: inTensorMemory(agent) }
    m.writeLater(agent, op, m.parked[agent.cta]!, done, agent.tile, agent.threads, CELLS, agent.id)
  },
  park(op, agent, m) {
    takesCells(op, agent, m)
    const bytes = (m.buffer(op.buffer).slotBytes * agent.threads) / op.threads
    m.write(agent, op, m.slotOf(agent, op.buffer), agent.tile, bytes, CELLS, agent.id)
  },
  leave_cells(op, agent, m) {
    takesCells(op, agent, m)
    const slot = m.slotOf(agent, op.buffer)
    const first = firstAlongK(m.program)
    const bytes = (slot.bytes * agent.threads) / (32 * (agent.role!.warps - first))
    if (agent.warp >= first) m.write(agent, op, slot, agent.tile, bytes, CELLS, agent.id)
  },
  add_cells: (op, agent, m) => m.read(agent, op, m.slotOf(agent, op.buffer), agent.tile),
  send_sums: sendSums,
  add_sums: (op, agent, m) => m.read(agent, op, m.slotOf(agent, op.buffer), agent.tile),
  store_part: takesSums,
  add_parts(op, agent, m) {
    takesSums(op, agent, m)
    if (m.program.tmem) m.writeLater(agent, op, ...rowsOfSums(agent, m))
  },
  take_cells(op, agent, m) {
    if (op.from === null) return takesCells(op, agent, m)
    const slot = m.slotOf(agent, op.from.buffer)
    const { slotBytes } = m.buffer(op.from.buffer)
    if (m.program.cluster.splits > 1) m.read(agent, op, slot, agent.tile)
    else m.read(agent, op, slot, agent.tile, (slotBytes * agent.threads) / op.from.threads, CELLS, agent.id)
  },
  tmem_load: takesSums,
} satisfies Partial<Effects<TileOp['op'], Machine>>
