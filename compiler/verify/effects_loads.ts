/** Effects of loads: which slots they write, and when they are done. */
import { DTYPES } from '../dtypes.ts'
import type { TileOp } from '../ir/pipe.ts'
import type { AtomLoad, CopyTile, Gather, ScaleLoad, TmaLoad } from '../ir/pipe_loads.ts'
import type { CopyAtoms } from '../ir/pipe_mma.ts'
import { operandNamed } from '../ir/walk.ts'
import { TILE_BYTES } from '../stored/tiles.ts'
import type { Agent } from './agent.ts'
import type { Effects, OpOf } from './effect.ts'
import { leaderOf, ranksOf, usesTensorMemory } from './effects_sync.ts'
import { byProxy, inTensorMemory, ofOwn, type Done, type Machine } from './machine.ts'
import { Slot } from './slots.ts'
import { atomColumns, depthTag, FILLED, landing, pairOf, TMEM_LANES } from './tags.ts'

/** Bytes of memory that a tile comes from. */
const copiedBytes = (m: Machine, { tile, operand }: TmaLoad | Gather | CopyTile): number =>
  (tile.rows * tile.depth * DTYPES[operandNamed(m.program.source, operand).dtype].bits) / 8

/** The same of shared memory: all of the slot, padding among them. */
const tileBytes = (m: Machine, { buffer }: TmaLoad | Gather | CopyTile): number => m.buffer(buffer).slotBytes

/** A copy of this thread's open group. cp.async writes as the thread itself does, only later. */
export function copied(agent: Agent): Done {
  agent.openCopies++
  return {
    dimension: agent.dimension('copies'),
    fence: agent.dimension('copied'),
    epoch: agent.copyGroups + 1,
    view: ofOwn(agent),
  }
}

function tmaLoad(op: TmaLoad, agent: Agent, m: Machine): void {
  if (!agent.first) return m.problem(agent, op, 'is for one thread')
  const sharing = (op.free === 'm' ? m.cluster.rows : m.cluster.columns)[agent.cta]!
  const index = sharing.indexOf(agent.cta)
  const load = (slice: number, bytes: number, targets: readonly number[]): void => {
    for (const cta of targets) {
      const barrier = m.barrierOf(agent, op.barrier, { cta: leaderOf(m, cta) })
      const slot = m.slotOf(agent, op.buffer, { cta })
      m.writeLater(agent, op, slot, landing(agent, barrier), depthTag(agent, m), bytes, op, slice)
      m.signal(agent, op, barrier, 0, (-bytes * copiedBytes(m, op)) / tileBytes(m, op))
    }
  }
  const { slices } = op
  if (!slices) return load(0, tileBytes(m, op), [agent.cta])
  // Of each box.
  const bytes = slices.bytes * op.tile.boxes
  if (m.program.cluster.fallback === null) return load(index, bytes, sharing)
  for (let slice = index; slice < slices.count; slice += sharing.length) load(slice, bytes, sharing)
}

function gather(op: Gather | CopyTile, agent: Agent, m: Machine): void {
  const bytes = (tileBytes(m, op) * agent.threads) / (32 * agent.role!.warps)
  const slot = m.slotOf(agent, op.buffer, { ring: op.ring })
  if (op.op === 'gather') return m.write(agent, op, slot, depthTag(agent, m), bytes, op, agent.id)
  m.writeLater(agent, op, slot, copied(agent), depthTag(agent, m), bytes, op, agent.id)
}

function loadAtoms(op: AtomLoad, agent: Agent, m: Machine): void {
  if (!agent.first) return m.problem(agent, op, 'is for one thread')
  const barrier = m.barrierOf(agent, op.barrier, { cta: leaderOf(m, agent.cta) })
  const slot = m.slotOf(agent, op.buffer)
  const bytes = op.atoms.rows * op.atoms.steps * TILE_BYTES
  m.writeLater(agent, op, slot, landing(agent, barrier), depthTag(agent, m), bytes, op, 0)
  m.signal(agent, op, barrier, 0, -bytes)
}

/** In the order of the MMAs of this thread: behind those that read what it overwrites, before those that read what it brings. */
function copyAtoms(op: CopyAtoms, agent: Agent, m: Machine): void {
  if (!agent.first) return m.problem(agent, op, 'is for one thread')
  agent.issued++
  const tag = depthTag(agent, m)
  for (const cta of pairOf(agent, m)) {
    usesTensorMemory(op, agent, m, cta)
    if (cta !== agent.cta) m.reaches(agent, cta, agent.mma, agent.issued, 'a copy of scales', true)
    const done = { dimension: agent.mma, epoch: agent.issued, view: byProxy(agent) }
    m.readLater(agent, op, m.slotOf(agent, op.buffer, { cta }), done, tag)
    for (const column of atomColumns(op)) m.scales[cta]!.set(column, { tag, agent })
  }
}

function fillColumns(op: OpOf<'fill_columns'>, agent: Agent, m: Machine): void {
  usesTensorMemory(op, agent, m, agent.cta)
  const done = { dimension: agent.dimension('tensor'), epoch: agent.event(), view: inTensorMemory(agent) }
  const known = m.scales[agent.cta]!.get(op.column)
  const slot = known instanceof Slot ? known : new Slot(`column ${op.column}`, TMEM_LANES)
  m.scales[agent.cta]!.set(op.column, slot)
  m.writeLater(agent, op, slot, done, FILLED, agent.threads, op.column, agent.id)
}

function loadScales(op: ScaleLoad, agent: Agent, m: Machine): void {
  const slot = m.slotOf(agent, op.buffer, { ring: op.ring })
  const bytes = (slot.bytes * agent.threads) / (32 * op.warps)
  if (!op.copies) return m.write(agent, op, slot, depthTag(agent, m), bytes, op, agent.id)
  if (op.barrier === null) return m.writeLater(agent, op, slot, copied(agent), depthTag(agent, m), bytes, op, agent.id)
  const done = landing(agent, m.barrierOf(agent, op.barrier), ofOwn(agent))
  m.writeLater(agent, op, slot, done, depthTag(agent, m), bytes, op, agent.id)
}

export const LOADS = {
  tma_load: tmaLoad,
  gather,
  copy_tile: gather,
  load_atoms: loadAtoms,
  write_atoms(op, agent, m) {
    const slot = m.slotOf(agent, op.buffer)
    m.write(agent, op, slot, depthTag(agent, m), (slot.bytes * agent.threads) / (32 * agent.role!.warps), op, agent.id)
  },
  copy_atoms: copyAtoms,
  fill_columns: fillColumns,
  load_scales: loadScales,
  settle_rows(op, agent, m) {
    const slot = m.slotOf(agent, op.buffer)
    const own = slot.writes.find((write) => write.agent === agent && write.op.op === 'copy_tile')
    // Behind the last k tile there is none, and nobody multiplies what is loaded from there.
    if (own) m.write(agent, op, slot, own.tag, own.bytes, own.of, own.part)
  },
  expect_work(op, agent, m) {
    for (const cta of ranksOf(agent, m))
      m.signal(agent, op, m.barrierOf(agent, op.barrier, { cta }), 1, op.bytes, agent.clock)
  },
  request_work(op, agent, m) {
    if (!agent.first) return m.problem(agent, op, 'is for one thread')
    agent.requests++
    for (let cta = 0; cta < m.cluster.size; cta++) {
      const barrier = m.barrierOf(agent, op.barrier, { cta })
      const slot = m.slotOf(agent, op.buffer, { cta })
      m.writeLater(agent, op, slot, landing(agent, barrier), agent.requests, slot.bytes)
      m.signal(agent, op, barrier, 0, -16)
    }
  },
  read_work(op, agent, m) {
    agent.answers++
    m.read(agent, op, m.slotOf(agent, op.buffer), agent.answers)
    agent.next = agent.answers < m.load.tiles ? agent.answers : null
  },
} satisfies Partial<Effects<TileOp['op'], Machine>>
