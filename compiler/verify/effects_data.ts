/** Effects of loads, MMAs and stores: which slots they write and read, and when they are done. */
import { DTYPES } from '../dtypes.ts'
import { operandNamed } from '../ir/walk.ts'
import { TILE_BYTES } from '../stored/tiles.ts'
import { ATOM_COLUMNS } from '../targets/tensor_core/scale_atoms.ts'
import { firstAlongK, type TileOp } from '../ir/pipe.ts'
import type { AtomLoad, Gather, CopyTile, ScaleLoad, TmaLoad } from '../ir/pipe_loads.ts'
import type { AddPart, CopyAtoms, Mma, Part, WarpgroupMma } from '../ir/pipe_mma.ts'
import type { Agent } from './agent.ts'
import type { BarrierState } from './barriers.ts'
import { nothing, type Effects, type OpOf, type Steps } from './effect.ts'
import { advance, leaderOf, ranksOf, usesTensorMemory, waitFor, warpSync } from './effects_sync.ts'
import { Slot } from './slots.ts'
import { byProxy, inTensorMemory, type Done, type Machine } from './machine.ts'

const depthTag = (agent: Agent, m: Machine): number => agent.tile * m.load.depth + agent.k
/** Of a sub-tile of an operand. */
const subtileTag = (agent: Agent, m: Machine, operand: string, block = agent.block, column = agent.column): number =>
  ((agent.tile * 64 + block) * 64 + column) * 64 + m.program.source.operands.findIndex(({ name }) => name === operand)

const elementBytes = (m: Machine, operand: string): number =>
  DTYPES[operandNamed(m.program.source, operand).dtype].storageBytes
/** Bytes of memory that a tile comes from. */
const copiedBytes = (m: Machine, { tile, operand }: TmaLoad | Gather | CopyTile): number =>
  (tile.rows * tile.depth * DTYPES[operandNamed(m.program.source, operand).dtype].bits) / 8
/** The same of shared memory: all of the slot, padding among them. */
const tileBytes = (m: Machine, { buffer }: TmaLoad | Gather | CopyTile): number => m.buffer(buffer).slotBytes

/** What counts on a barrier is over with the phase that it counts in. */
const landing = (agent: Agent, barrier: BarrierState): Done => ({
  dimension: barrier.phases,
  epoch: barrier.completed + 1,
  view: byProxy(agent),
})

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

/** A copy of this thread's open group. cp.async writes as the thread itself does, only later. */
function copied(agent: Agent): Done {
  agent.openCopies++
  return {
    dimension: agent.dimension('copies'),
    fence: agent.dimension('copied'),
    epoch: agent.copyGroups + 1,
    view: { clock: agent.clock, async: false, inOrder: false },
  }
}

function loadAtoms(op: AtomLoad, agent: Agent, m: Machine): void {
  if (!agent.first) return m.problem(agent, op, 'is for one thread')
  const barrier = m.barrierOf(agent, op.barrier, { cta: leaderOf(m, agent.cta) })
  const slot = m.slotOf(agent, op.buffer)
  const bytes = op.atoms.rows * op.atoms.steps * TILE_BYTES
  m.writeLater(agent, op, slot, landing(agent, barrier), depthTag(agent, m), bytes, op, 0)
  m.signal(agent, op, barrier, 0, -bytes)
}

/** CTAs that an MMA and what precedes it read and write. */
const pairOf = (agent: Agent, m: Machine): number[] =>
  m.program.cluster.pair > 1 ? [agent.cta, agent.cta ^ 1] : [agent.cta]

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

const atomColumns = ({ column, atoms }: Pick<CopyAtoms, 'column' | 'atoms'>): number[] =>
  Array.from({ length: atoms.rows * atoms.steps }, (_, i) => column + i * ATOM_COLUMNS)

const TMEM_LANES = 128
/** Tag of what is filled once for all tiles. */
const FILLED = -3

function fillColumns(op: OpOf<'fill_columns'>, agent: Agent, m: Machine): void {
  usesTensorMemory(op, agent, m, agent.cta)
  const done = { dimension: agent.dimension('tensor'), epoch: agent.event(), view: inTensorMemory(agent) }
  const known = m.scales[agent.cta]!.get(op.column)
  const slot = known instanceof Slot ? known : new Slot(`column ${op.column}`, TMEM_LANES)
  m.scales[agent.cta]!.set(op.column, slot)
  m.writeLater(agent, op, slot, done, FILLED, agent.threads, op.column, agent.id)
}

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

function loadScales(op: ScaleLoad, agent: Agent, m: Machine): void {
  const slot = m.slotOf(agent, op.buffer, { ring: op.ring })
  const bytes = (slot.bytes * agent.threads) / (32 * op.warps)
  if (!op.copies) return m.write(agent, op, slot, depthTag(agent, m), bytes, op, agent.id)
  if (op.barrier === null) return m.writeLater(agent, op, slot, copied(agent), depthTag(agent, m), bytes, op, agent.id)
  const barrier = m.barrierOf(agent, op.barrier)
  const view = { clock: agent.clock, async: false, inOrder: false }
  const done = { dimension: barrier.phases, epoch: barrier.completed + 1, view }
  m.writeLater(agent, op, slot, done, depthTag(agent, m), bytes, op, agent.id)
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
  agent.part = null
  agent.added++
  if (agent.added < part.of) return
  agent.added = 0
  cells.steps++
}

/** A part begins from nothing, in registers from which the one before has been added. */
function wgmmaOfPart(op: WarpgroupMma, { index }: Part, agent: Agent, m: Machine): void {
  if (agent.part) m.problem(agent, op, `overwrites part ${agent.part.index}, which nobody has added`)
  agent.issued++
  agent.part = { k: agent.k, index, issued: agent.issued }
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

/** Of a tile's accumulators: k tiles, or steps of MMAs that warps issue by themselves. */
const stepsOf = (m: Machine): number => m.load.depth * m.fragmentSteps

/** Cells of each thread lie beside one another. */
const CELLS = 'cells'

function sendSums(op: OpOf<'send_sums'>, agent: Agent, m: Machine): void {
  takesCells(op, agent, m)
  const sharers = m.cluster.sums[agent.cta]!
  const bytes = (m.buffer(op.buffer).slotBytes * agent.threads) / op.threads / sharers.length
  for (const cta of sharers) {
    const barrier = m.barrierOf(agent, op.barrier, { cta })
    const view = { clock: agent.clock, async: false, inOrder: false }
    const done = { dimension: barrier.phases, epoch: barrier.completed + 1, view }
    m.writeLater(agent, op, m.slotOf(agent, op.buffer, { cta }), done, agent.tile, bytes, CELLS, agent.id)
    m.signal(agent, op, barrier, 0, -bytes)
  }
}

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

export const DATA = {
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
  mma,
  wgmma,
  load_scales: loadScales,
  part_scales(op, agent, m) {
    readsScales(op, 'all', agent, m)
  },
  promote,
  add_part: addPart,
  park_cells(op, agent, m) {
    takesCells(op, agent, m)
    usesTensorMemory(op, agent, m, agent.cta)
    const done = { dimension: agent.dimension('tensor'), epoch: agent.event(), view: inTensorMemory(agent) }
    m.writeLater(agent, op, m.parked[agent.cta]!, done, agent.tile, agent.threads, CELLS, agent.id)
  },
  zero_cells(op, agent, m) {
    if (m.program.tmem?.inRegisters !== undefined) usesTensorMemory(op, agent, m, agent.cta)
    agent.cells = { tile: agent.tile, steps: 0 }
  },
  settle_rows(op, agent, m) {
    const slot = m.slotOf(agent, op.buffer)
    const own = slot.writes.find((write) => write.agent === agent && write.op.op === 'copy_tile')
    // Behind the last k tile there is none, and nobody multiplies what is loaded from there.
    if (own) m.write(agent, op, slot, own.tag, own.bytes, own.of, own.part)
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
  *aux_load(op, agent, m) {
    const { fetched, operand, rows } = op
    if (rows) {
      const slot = m.slotOf(agent, rows.buffer)
      const tag = subtileTag(agent, m, operand)
      const bytes = stagedBytes(m, rows.buffer, operand)
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
  stage_write(op, agent, m) {
    const bytes = (m.program.layout.rowsPerWarp * m.program.subtileColumns * op.bytes * agent.threads) / 32
    m.write(agent, op, m.slotOf(agent, op.buffer), subtileTag(agent, m, op.operand), bytes, op, agent.id)
  },
  tma_store: readsSlot,
  row_store: readsSlot,
  own_row: nothing,
  find_rows: nothing,
  load_ahead: nothing,
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
