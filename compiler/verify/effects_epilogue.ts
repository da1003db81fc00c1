/** Effects of the epilogue: operands that it fetches, sub-tiles that it stages and stores. */
import { DTYPES } from '../dtypes.ts'
import type { TileOp } from '../ir/pipe.ts'
import type { OfStage } from '../ir/pipe_epilogue.ts'
import { operandNamed } from '../ir/walk.ts'
import type { Agent } from './agent.ts'
import { nothing, type Effects, type OpOf, type Steps } from './effect.ts'
import { copied } from './effects_loads.ts'
import { advance, waitFor, warpSync } from './effects_sync.ts'
import { byProxy, ofOwn, type Machine } from './machine.ts'
import { landing } from './tags.ts'

/** Of a sub-tile of an operand. */
const subtileTag = (agent: Agent, m: Machine, operand: string, block = agent.block, column = agent.column): number =>
  ((agent.tile * 64 + block) * 64 + column) * 64 + m.program.source.operands.findIndex(({ name }) => name === operand)

const elementBytes = (m: Machine, operand: string): number =>
  DTYPES[operandNamed(m.program.source, operand).dtype].storageBytes

function* fetch(
  op: OpOf<'fetch_first' | 'fetch_next'>,
  agent: Agent,
  m: Machine,
  subtile: number,
  slot: number,
): Steps {
  if (!agent.first) return
  const {
    fetch: { barrier: name, buffer, bytes },
    operand,
  } = op
  const barrier = m.barrierOf(agent, name, { slot })
  m.signal(agent, op, barrier, 1, bytes, agent.clock)
  const perBlock = m.subtileColumns.length
  const tag = subtileTag(agent, m, operand, Math.floor(subtile / perBlock), subtile % perBlock)
  const box = m.program.subtileColumns * m.program.layout.rowsPerWarp * elementBytes(m, operand)
  m.writeLater(agent, op, m.slotOf(agent, buffer, { slot }), landing(agent, barrier), tag, box)
  m.signal(agent, op, barrier, 0, -box)
}

/** Bytes of an operand's blocks in the slot of each buffer of a stage. */
function bytesOfStage({ operand, blocks, columns }: Omit<OfStage, 'guard'>, m: Machine): Map<string, number> {
  const bytes = m.program.domain.rows.extent * columns * elementBytes(m, operand)
  const byBuffer = new Map<string, number>()
  for (const { buffer } of blocks) byBuffer.set(buffer, (byBuffer.get(buffer) ?? 0) + bytes)
  return byBuffer
}

const stageTag = ({ operand, blocks }: Omit<OfStage, 'guard'>, agent: Agent, m: Machine): number =>
  subtileTag(agent, m, operand, 0, blocks[0]!.column / m.program.subtileColumns)

const readsSlot = (op: OpOf<'tma_store' | 'row_store'>, agent: Agent, m: Machine): void => {
  const slot = m.slotOf(agent, op.buffer)
  const tag = subtileTag(agent, m, op.operand)
  if (op.op === 'row_store') return m.read(agent, op, slot, tag, stagedBytes(m, op.buffer, op.operand))
  if (!agent.first) return m.problem(agent, op, 'is for one thread')
  agent.openStores++
  const done = { dimension: agent.dimension('bulk'), epoch: agent.bulkGroups + 1, view: byProxy(agent) }
  m.readLater(agent, op, slot, done, tag, stagedBytes(m, op.buffer, op.operand))
}

/** Of a sub-tile in a slot: rows of a warp, or of a warpgroup's four. */
const stagedBytes = (m: Machine, buffer: string, operand: string): number => {
  const warps = m.buffer(buffer).per?.owner === 'warpgroup' ? 4 : 1
  return warps * m.program.layout.rowsPerWarp * m.program.subtileColumns * elementBytes(m, operand)
}

export const EPILOGUE = {
  *fetch_first(op, agent, m) {
    yield* warpSync(agent, m)
    const { ring, subtiles } = op.fetch
    const slots = m.ringSlots(ring)
    for (let i = 0; i < slots; i++)
      yield* fetch(op, agent, m, i, subtiles % slots === 0 ? i : (agent.ring(ring).slot + i) % slots)
  },
  *fetch_next(op, agent, m) {
    const { ring, subtiles } = op.fetch
    const subtile = agent.block * m.subtileColumns.length + agent.column + m.ringSlots(ring)
    if (subtile < subtiles) {
      yield* warpSync(agent, m)
      yield* fetch(op, agent, m, subtile, agent.ring(ring).slot)
    }
    advance(agent, m, ring)
  },
  fetch_stage(op, agent, m) {
    if (!agent.first) return m.problem(agent, op, 'is for one thread')
    const barrier = m.barrierOf(agent, op.barrier)
    m.signal(agent, op, barrier, 1, op.bytes, agent.clock)
    for (const [buffer, bytes] of bytesOfStage(op, m))
      m.writeLater(agent, op, m.slotOf(agent, buffer), landing(agent, barrier), stageTag(op, agent, m), bytes)
    m.signal(agent, op, barrier, 0, -op.bytes)
  },
  hold_stage(op, agent) {
    agent.held[op.part] = agent.ring(op.ring).slot
  },
  take_stage(op, agent, m) {
    const done = { dimension: agent.dimension('reads'), epoch: ++agent.reads, view: ofOwn(agent) }
    for (const [buffer, bytes] of bytesOfStage(op, m))
      m.readLater(agent, op, m.slotOf(agent, buffer), done, stageTag(op, agent, m), bytes)
  },
  *aux_load(op, agent, m) {
    const { fetched, stage, operand, rows } = op
    if (stage) {
      const done = { dimension: agent.dimension('reads'), epoch: ++agent.reads, view: ofOwn(agent) }
      const first = agent.column * m.program.subtileColumns
      for (const [part, blocks] of stage.parts.entries())
        for (const { buffer, column } of blocks) {
          if (first < column || first >= column + stage.columns) continue
          const place = { operand, blocks, columns: stage.columns }
          const slot = m.slotOf(agent, buffer, { slot: agent.held[part] })
          m.readLater(agent, op, slot, done, stageTag(place, agent, m), bytesOfStage(place, m).get(buffer))
        }
    }
    if (rows) {
      const slot = m.slotOf(agent, rows.buffer)
      const tag = subtileTag(agent, m, operand)
      const bytes = stagedBytes(m, rows.buffer, operand)
      if (rows.copied) return m.read(agent, op, slot, tag, bytes)
      m.write(agent, op, slot, tag, (bytes * agent.threads) / 32, op, agent.id)
      yield* warpSync(agent, m)
      m.read(agent, op, slot, tag, bytes)
      yield* warpSync(agent, m)
    }
    if (!fetched) return
    yield* waitFor(op, agent, m, fetched.barrier, agent.ring(fetched.ring).phase + 1)
    const slot = m.slotOf(agent, fetched.buffer)
    m.read(agent, op, slot, subtileTag(agent, m, operand))
  },
  copy_rows(op, agent, m) {
    const bytes = (stagedBytes(m, op.buffer, op.operand) * agent.threads) / 32
    const slot = m.slotOf(agent, op.buffer)
    const tag = subtileTag(agent, m, op.operand)
    m.writeLater(agent, op, slot, copied(agent), tag, bytes, op, agent.id)
    // Elements that are less than a word.
    m.write(agent, op, slot, tag, 0, op, agent.id + m.agents.length)
  },
  stage_write(op, agent, m) {
    const bytes = (m.program.layout.rowsPerWarp * m.program.subtileColumns * op.bytes * agent.threads) / 32
    m.write(agent, op, m.slotOf(agent, op.buffer), subtileTag(agent, m, op.operand), bytes, op, agent.id)
  },
  tma_store: readsSlot,
  row_store: readsSlot,
  own_row: nothing,
  find_rows: nothing,
  prefetch_stage: nothing,
  load_ahead: nothing,
  load_next: nothing,
  compute: nothing,
  share_largest(op, agent, m) {
    const slot = m.slotOf(agent, op.buffer)
    const bytes = (slot.bytes * agent.threads) / (32 * agent.role!.warps)
    m.write(agent, op, slot, subtileTag(agent, m, op.operand), bytes, op, agent.id)
  },
  measure_begin({ operand }, agent) {
    agent.measured.set(operand, [])
  },
  measure({ operand }, agent) {
    agent.measured.get(operand)?.push(agent.column)
  },
  quantise(op, agent, m) {
    if (op.measured && agent.measured.get(op.operand)?.join() !== agent.wide?.subtiles.join())
      m.problem(agent, op, `${op.operand} is not measured in all sub-tiles of the block`)
    if (op.shared !== null) m.read(agent, op, m.slotOf(agent, op.shared), subtileTag(agent, m, op.operand))
  },
  set_registers: nothing,
  direct_store: nothing,
  reduce_begin: nothing,
  reduce_subtile: nothing,
  reduce_end: nothing,
} satisfies Partial<Effects<TileOp['op'], Machine>>
