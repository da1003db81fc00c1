/** Effects of MMAs: which tiles and scales they read, and what is in a sum behind them. */
import { productsOfMma, type TileOp } from '../ir/pipe.ts'
import type { AddPart, Mma, Part, WarpgroupMma } from '../ir/pipe_mma.ts'
import type { Agent } from './agent.ts'
import type { Effects, OpOf } from './effect.ts'
import { usesTensorMemory } from './effects_sync.ts'
import { byProxy, inTensorMemory, type Machine } from './machine.ts'
import { Slot } from './slots.ts'
import { atomColumns, depthTag, FILLED, pairOf, TMEM_LANES } from './tags.ts'

/** Scales of its k tile, which this thread has copied. */
function readsAtoms(op: Mma, cta: number, agent: Agent, m: Machine): void {
  for (const { column, atoms } of op.scales ? [op.scales.a, ...op.scales.b] : [])
    if (atoms) readsCopies(op, atomColumns({ column, atoms }), cta, agent, m)
    else readsFilled(op, column, cta, agent, m)
}

function readsCopies(op: Mma, columns: readonly number[], cta: number, agent: Agent, m: Machine): void {
  for (const column of columns) {
    const scales = m.scales[cta]!.get(column)
    if (!scales || scales instanceof Slot || scales.tag !== depthTag(agent, m) || scales.agent !== agent)
      m.problem(agent, op, `multiplies by scales in column ${column}, which are not those of its k tile`)
  }
}

function readsFilled(op: Mma, column: number, cta: number, agent: Agent, m: Machine): void {
  const filled = m.scales[cta]!.get(column)
  if (!(filled instanceof Slot))
    return m.problem(agent, op, `multiplies by scales in column ${column}, which nobody fills`)
  const done = { dimension: agent.mma, epoch: agent.issued, view: inTensorMemory(agent) }
  m.readLater(agent, op, filled, done, FILLED, TMEM_LANES)
}

/** Of a part of a k tile in tensor memory. */
const partTag = (agent: Agent, m: Machine, chunk: number): number => depthTag(agent, m) * 16 + chunk

/** Adds the next part to the cells, from tensor memory. */
function addPart(op: AddPart, agent: Agent, m: Machine): void {
  usesTensorMemory(op, agent, m, agent.cta)
  const { cells } = agent
  if (!cells || cells.tile !== agent.tile || cells.steps !== agent.k || agent.added !== op.chunk)
    return m.problem(
      agent,
      op,
      `adds part ${op.chunk} of k tile ${agent.k} behind ${agent.added} of ${cells?.steps ?? 'no tile'}`,
    )
  for (const source of [op.a, ...op.b])
    if (source) m.read(agent, op, m.slotOf(agent, source.buffer), depthTag(agent, m))
  const { slot } = m.accumulators[agent.cta]![agent.ring(m.program.tmem!.ring).slot]!
  const done = { dimension: agent.dimension('tensor'), epoch: agent.event(), view: inTensorMemory(agent) }
  m.readLater(agent, op, slot, done, partTag(agent, m, op.chunk), 0)
  agent.added = (op.chunk + 1) % op.of
  if (agent.added === 0) cells.steps++
}

function mma(op: Mma, agent: Agent, m: Machine): void {
  if (!agent.first) return m.problem(agent, op, 'is for one thread')
  const ctas = pairOf(agent, m)
  agent.issued++
  const ring = agent.ring(m.program.tmem!.ring).slot
  for (const cta of ctas) {
    usesTensorMemory(op, agent, m, cta)
    if (cta !== agent.cta) m.reaches(agent, cta, agent.mma, agent.issued, 'an MMA', true)
    for (const buffer of [op.a, ...op.products.map(({ b }) => b)])
      m.readLater(
        agent,
        op,
        m.slotOf(agent, buffer, { cta }),
        { dimension: agent.mma, epoch: agent.issued, view: byProxy(agent) },
        depthTag(agent, m),
      )
    readsAtoms(op, cta, agent, m)
    const accumulator = m.accumulators[cta]![ring]!
    const done = { dimension: agent.mma, epoch: agent.issued, view: inTensorMemory(agent) }
    if (op.chunk !== null) {
      m.writeLater(agent, op, accumulator.slot, done, partTag(agent, m, op.chunk), 0)
      continue
    }
    if (agent.k === 0) accumulator.steps = 0
    if (accumulator.steps !== agent.k) m.problem(agent, op, `adds k tile ${agent.k} to a sum of ${accumulator.steps}`)
    accumulator.steps++
    m.writeLater(agent, op, accumulator.slot, done, agent.tile, 0)
  }
}

/** Of the k tile whose parts are being added. */
function readsScales(op: OpOf<'part_scales' | 'promote'>, sources: 'all' | 'columns', agent: Agent, m: Machine): void {
  const tag = agent.tile * m.load.depth + Math.floor((agent.cells?.steps ?? 0) / m.fragmentSteps)
  for (const source of sources === 'all' ? [op.a, op.b] : [op.b])
    if (source) m.read(agent, op, m.slotOf(agent, source.buffer), tag)
}

/** Adds a part of a chunk that has all of its steps; with the last of them, these are in the sum. */
function promoteChunk(op: OpOf<'promote'>, agent: Agent, m: Machine): void {
  const { part } = op
  const { cells, chunk } = agent
  const { products, rowBlocks } = m.program.registers!
  const perChunk = products * rowBlocks
  const steps = (m.fragmentSteps * perChunk) / part.of
  if (!cells || chunk?.steps !== steps)
    return m.problem(agent, op, `adds a chunk that has ${chunk?.steps ?? 0} of ${steps} steps`)
  if (part.index !== agent.added) m.problem(agent, op, `adds part ${part.index} behind ${agent.added} of ${part.of}`)
  agent.added = (agent.added + 1) % part.of
  if (agent.added % perChunk > 0) return
  agent.chunk = null
  cells.steps += steps
}

/** Adds a part, the next one; with the last, a k tile is in the sum. */
function promote(op: OpOf<'promote'>, agent: Agent, m: Machine): void {
  readsScales(op, 'columns', agent, m)
  if (m.program.registers?.warps) return promoteChunk(op, agent, m)
  const { part } = op
  const { cells, part: sum } = agent
  if (!cells || !sum || cells.tile !== agent.tile || sum.k !== cells.steps || sum.index !== part.index)
    return m.problem(
      agent,
      op,
      `adds part ${part.index}, where there is ${sum ? `part ${sum.index} of k tile ${sum.k}` : 'none'}`,
    )
  if (part.index !== agent.added) m.problem(agent, op, `adds part ${part.index} behind ${agent.added} of ${part.of}`)
  if (agent.clock[agent.mma]! < sum.issued) m.problem(agent, op, 'adds a part whose MMAs may still be under way')
  if (sum.index === sum.last) agent.part = null
  else sum.index++
  agent.added++
  if (agent.added < part.of) return
  agent.added = 0
  cells.steps++
}

/** A part begins from nothing, in registers from which the one before has been added. */
function wgmmaOfPart(op: WarpgroupMma, { index }: Part, agent: Agent, m: Machine): void {
  if (agent.part) m.problem(agent, op, `overwrites part ${agent.part.index}, which nobody has added`)
  agent.issued++
  const last = index + productsOfMma(m.program.registers!) - 1
  agent.part = { k: agent.k, index, last, issued: agent.issued }
  if (agent.first && agent.warp % 4 === 0) readsTiles(op, agent, m)
}

function readsTiles(op: WarpgroupMma, agent: Agent, m: Machine): void {
  for (const buffer of [op.a, ...op.products.map(({ b }) => b)])
    m.readLater(
      agent,
      op,
      m.slotOf(agent, buffer),
      { dimension: agent.mma, epoch: agent.issued, view: byProxy(agent) },
      depthTag(agent, m),
    )
}

function wgmma(op: WarpgroupMma, agent: Agent, m: Machine): void {
  if (op.part) return wgmmaOfPart(op, op.part, agent, m)
  agent.issued++
  const cells = (agent.cells ??= { tile: agent.tile, steps: 0 })
  if (agent.k === 0) Object.assign(cells, { tile: agent.tile, steps: 0 })
  if (cells.steps !== agent.k || cells.tile !== agent.tile)
    m.problem(agent, op, `adds k tile ${agent.k} to a sum of ${cells.steps}`)
  cells.steps++
  // The warps of a warpgroup multiply together.
  if (agent.first && agent.warp % 4 === 0) readsTiles(op, agent, m)
}

export const MMAS = {
  mma,
  wgmma,
  part_scales(op, agent, m) {
    readsScales(op, 'all', agent, m)
  },
  promote,
  add_part: addPart,
  zero_cells(op, agent, m) {
    if (m.program.tmem?.inRegisters !== undefined) usesTensorMemory(op, agent, m, agent.cta)
    agent.cells = { tile: agent.tile, steps: 0 }
  },
  load_fragments(op, agent, m) {
    for (const { buffer, tile } of [op.a, ...op.products]) {
      const slot = m.slotOf(agent, buffer)
      if (slot.writes.some((write) => (write.op.op === 'settle_rows') !== (tile.settled === true)))
        m.problem(agent, op, `reads rows of ${slot.name} that ${tile.settled ? 'nobody has' : 'somebody has'} settled`)
      m.read(agent, op, slot, null)
      const tag = slot.writes[0]?.tag ?? -1
      agent.fragments[op.set] = slot.writes.every((write) => write.tag === tag) ? tag * 64 + op.step : null
    }
  },
  mma_sync(op, agent, m) {
    const { cells } = agent
    if (!cells) return m.problem(agent, op, 'adds to no accumulators')
    if (op.chunk === 'begins') {
      if (agent.chunk) m.problem(agent, op, 'overwrites a chunk that nobody has added')
      agent.chunk = { steps: 0 }
    }
    if (op.chunk && !agent.chunk) return m.problem(agent, op, 'goes on with a chunk that was added')
    const step = cells.steps + (agent.chunk?.steps ?? 0)
    const expected = (agent.tile * m.load.depth + Math.floor(step / m.fragmentSteps)) * 64 + (step % m.fragmentSteps)
    if (agent.fragments[op.set] !== expected)
      m.problem(agent, op, `multiplies other fragments than those of step ${step} of its tile`)
    if (op.chunk) agent.chunk!.steps++
    else cells.steps++
  },
} satisfies Partial<Effects<TileOp['op'], Machine>>
