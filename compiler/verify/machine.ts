/** The CTAs of a cluster with their shared memory, barriers and agents; every problem that a run of a program shows. */
import {
  opsOf,
  type Barrier,
  type Copies,
  type Role,
  type SmemBuffer,
  type TileOp,
  type TileProgram,
} from '../ir/pipe.ts'
import { Agent } from './agent.ts'
import { BarrierState, Meeting } from './barriers.ts'
import { ClockSpace, type Clock } from './clocks.ts'
import type { ClusterMap } from './cluster.ts'
import type { Effects, Steps } from './effect.ts'
import { Slot, type Access, type View } from './slots.ts'

/** How much work there is: tiles of each CTA, and k tiles of each. */
export interface Load {
  readonly tiles: number
  readonly depth: number
}

/** One problem breeds others: more than these say nothing. */
const ENOUGH_PROBLEMS = 6
export class EnoughProblems extends Error {}

type AnyEffect = (op: TileOp, agent: Agent, m: Machine) => Steps | void

interface Remote {
  readonly agent: Agent
  readonly epoch: number
  readonly target: number
  readonly dimension: number
  readonly until: number
  readonly what: string
}

export class Machine {
  readonly program: TileProgram
  readonly cluster: ClusterMap
  readonly load: Load
  readonly space: ClockSpace
  readonly agents: Agent[] = []
  readonly problems = new Set<string>()
  readonly subtileColumns: readonly number[]
  readonly rowBlocks: number
  /** MMAs of a k tile that warps issue one by one. */
  readonly fragmentSteps: number
  readonly #effects: Readonly<Record<TileOp['op'], AnyEffect>>
  readonly #buffers = new Map<string, SmemBuffer>()
  readonly #barriers = new Map<string, Barrier>()
  readonly #ringSlots = new Map<string, number>()
  readonly #slots: Map<string, Slot[]>[] = []
  readonly #states: Map<string, BarrierState[]>[] = []
  readonly #meetings = new Map<string, Meeting>()
  /** Accumulators in tensor memory, by CTA and slot, with the steps that they have had. */
  readonly accumulators: { readonly slot: Slot; steps: number }[][] = []
  /** Sums of parts in tensor memory, by CTA. */
  readonly parked: Slot[] = []
  /** By CTA and column of tensor memory: the k tile whose scales lie there, and whose copies brought them; or what was filled. */
  readonly scales: Map<number, { readonly tag: number; readonly agent: Agent } | Slot>[] = []
  /** By CTA: who allocated tensor memory, and whether it is there still. */
  readonly tensorMemory: ({
    readonly agent: Agent
    readonly epoch: number
    state: 'held' | 'relinquished' | 'freed'
  } | null)[] = []
  readonly diverged = new Set<number>()
  readonly #remote = new Map<string, Remote>()
  /** Rings of roles that have ended. */
  readonly ended: { readonly agent: Agent; readonly role: Role; readonly ring: string; readonly turns: number }[] = []
  #sequence = 0

  constructor(program: TileProgram, cluster: ClusterMap, load: Load, effects: Effects<TileOp['op'], Machine>) {
    this.program = program
    this.#effects = effects as Record<TileOp['op'], AnyEffect>
    this.cluster = cluster
    this.load = load
    const warps = program.launch.threads / 32
    for (const ring of program.rings) this.#ringSlots.set(ring.name, ring.slots)
    const barrierCount = program.barriers.reduce((sum, b) => sum + this.ringSlots(b.ring) * (b.per?.count ?? 1), 0)
    this.space = new ClockSpace(cluster.size * (warps * 21 + barrierCount))
    for (const b of program.buffers) this.#buffers.set(b.name, b)
    for (const b of program.barriers) this.#barriers.set(b.name, b)
    for (let cta = 0; cta < cluster.size; cta++) {
      this.#slots.push(this.#makeSlots())
      this.#states.push(
        new Map(
          program.barriers.map((b) => [
            b.name,
            Array.from(
              { length: this.ringSlots(b.ring) * (b.per?.count ?? 1) },
              (_, i) => new BarrierState(`${b.name}[${i}]`, cta, this.space),
            ),
          ]),
        ),
      )
      const { tmem } = program
      this.accumulators.push(
        Array.from({ length: tmem ? this.ringSlots(tmem.ring) : 0 }, (_, i) => ({
          slot: new Slot(`accumulator ${i}`, 0),
          steps: 0,
        })),
      )
      this.parked.push(new Slot('sums of parts', 0))
      this.scales.push(new Map())
      this.tensorMemory.push(null)
      for (let warp = 0; warp < warps; warp++)
        for (const threads of [1, 31]) this.agents.push(new Agent(this.agents.length, cta, warp, threads, this.space))
      const own = this.agents.slice(-2 * warps)
      const groups = Array.from({ length: Math.ceil(warps / 4) }, () => this.space.dimension('mma', cta))
      for (const agent of own) agent.mma = groups[Math.floor(agent.warp / 4)]!
    }
    const { columns } = program.layout
    const fetched = program.buffers.some((b) => b.per?.owner === 'warp' && b.ring !== null && this.#isFetched(b.ring))
    // The sub-tiles of a tile are alike: a few show how their slots are used again.
    // But for those that are walked twice, and what lies in stages for all of them.
    const isWhole = [...opsOf(program)].some(({ op }) => op === 'for_blocks' || op === 'hold_stage')
    const most =
      fetched || isWhole ? Infinity : Math.max(3, ...program.buffers.filter((b) => b.per).map((b) => b.slots + 1))
    const count = Math.min(columns / program.subtileColumns, most)
    this.subtileColumns = Array.from({ length: count }, (_, i) => i)
    this.rowBlocks = program.registers?.rowBlocks ?? 1
    this.fragmentSteps = 1
    for (const op of opsOf(program))
      if (op.op === 'mma_sync') this.fragmentSteps = program.domain.depth / op.kind.k / (program.registers?.deep ?? 1)
  }

  *execute(ops: readonly TileOp[], agent: Agent): Steps {
    const depth = agent.path.length
    for (let i = 0; i < ops.length; i++) {
      agent.path[depth] = i
      const op = ops[i]!
      const steps = this.#effects[op.op](op, agent, this)
      if (steps) yield* steps
    }
    agent.path.length = depth
  }

  #isFetched(ring: string): boolean {
    return this.program.barriers.some((b) => b.ring === ring && b.per?.owner === 'warp')
  }

  #makeSlots(): Map<string, Slot[]> {
    const placed: { slot: Slot; from: number; to: number }[] = []
    const slots = new Map<string, Slot[]>()
    for (const { name, slots: count, slotBytes, pitch = slotBytes, per, offset } of this.program.buffers) {
      const all = Array.from({ length: count * (per?.count ?? 1) }, (_, i) => new Slot(`${name}[${i}]`, slotBytes))
      slots.set(name, all)
      all.forEach((slot, i) => placed.push({ slot, from: offset + i * pitch, to: offset + i * pitch + slotBytes }))
    }
    if (this.program.buffers.some((b) => b.over !== undefined))
      for (const a of placed)
        for (const b of placed) if (a !== b && a.from < b.to && b.from < a.to) a.slot.overlapping.push(b.slot)
    return slots
  }

  problem(agent: Agent, op: TileOp, text: string | null): void {
    if (text === null) return
    this.problems.add(`${agent.at(op)}: ${text}`)
    if (this.problems.size >= ENOUGH_PROBLEMS) throw new EnoughProblems()
  }

  ringSlots(name: string): number {
    return this.#ringSlots.get(name)!
  }

  barrier(name: string): Barrier {
    return this.#barriers.get(name)!
  }

  buffer(name: string): SmemBuffer {
    return this.#buffers.get(name)!
  }

  #index(agent: Agent, per: Copies | undefined, slots: number, slot: number): number {
    if (!per) return slot
    return (per.owner === 'warp' ? agent.warp : agent.warpgroup) * slots + slot
  }

  /** The slot of a buffer that the agent's ring points at. */
  slotOf(
    agent: Agent,
    name: string,
    { ring, cta = agent.cta, slot }: { ring?: string | undefined; cta?: number; slot?: number } = {},
  ): Slot {
    const buffer = this.buffer(name)
    const turn = ring ?? buffer.ring
    const place = slot ?? (turn === null ? 0 : agent.ring(turn).slot)
    return this.#slots[cta]!.get(name)![this.#index(agent, buffer.per, buffer.slots, place)]!
  }

  allSlots(cta: number): Iterable<Slot> {
    return [...this.#slots[cta]!.values()].flat()
  }

  allBarriers(): BarrierState[] {
    return this.#states.flatMap((states) => [...states.values()].flat())
  }

  barriersNamed(cta: number, name: string): readonly BarrierState[] {
    return this.#states[cta]!.get(name)!
  }

  /** The barrier of the slot that the agent's ring points at, of a CTA. */
  barrierOf(
    agent: Agent,
    name: string,
    { ring, cta = agent.cta, slot }: { ring?: string | undefined; cta?: number; slot?: number } = {},
  ): BarrierState {
    const { ring: own, per } = this.barrier(name)
    const place = slot ?? agent.ring(ring ?? own).slot
    return this.#states[cta]!.get(name)![this.#index(agent, per, this.ringSlots(own), place)]!
  }

  /** Is the barrier there for the agent? */
  ready(agent: Agent, op: TileOp, barrier: BarrierState): boolean {
    const { init, name } = barrier
    if (init === null) this.problem(agent, op, `uses ${name} before it is initialised`)
    else if (init.agent !== agent && agent.clock[init.agent.dimension('inits')]! < init.epoch)
      this.problem(agent, op, `uses ${name}, whose initialisation it may not see`)
    return init !== null
  }

  /** Arrivals, bytes that are announced (positive) or have come (negative). `by`: what is known then. */
  signal(
    agent: Agent,
    op: TileOp,
    barrier: BarrierState,
    arrivals: number,
    bytes: number,
    by: Clock = agent.clock,
  ): void {
    if (!this.ready(agent, op, barrier)) return
    if (arrivals > 0) {
      let counts = agent.arrivals.get(barrier)
      if (!counts) agent.arrivals.set(barrier, (counts = {}))
      const before = counts[op.op] ?? 0
      if (agent.clock[barrier.phases]! < before)
        this.problem(agent, op, `arrives on ${barrier.name}, whose phase before may not be complete`)
      counts[op.op] = before + 1
    }
    if (barrier.cta !== agent.cta)
      this.reaches(
        agent,
        barrier.cta,
        barrier.phases,
        barrier.completed + 1,
        `a signal for ${barrier.name}`,
        op.op === 'commit' || arrivals === 0,
      )
    this.problem(agent, op, barrier.signal(arrivals, bytes, by))
  }

  /**
   * Something of this agent that reaches another CTA, which must be there still: it has seen `until` of a dimension or, unless it comes
   * asynchronously, the agent itself.
   */
  reaches(agent: Agent, target: number, dimension: number, until: number, what: string, asynchronous: boolean): void {
    this.#remote.set(`${target} ${dimension}`, {
      agent,
      epoch: asynchronous ? Infinity : agent.event(),
      target,
      dimension,
      until,
      what,
    })
  }

  /** What may come for CTAs that have left. */
  leavings(): string[] {
    const last = Array.from({ length: this.cluster.size }, () => this.space.clock())
    for (const agent of this.agents) this.space.join(last[agent.cta]!, agent.clock)
    return [...this.#remote.values()]
      .filter(
        ({ agent, epoch, target, dimension, until }) =>
          last[target]![dimension]! < until && last[target]![agent.own]! < epoch,
      )
      .map(({ agent, what }) => `${agent.role?.name ?? 'teardown'}: ${what} of another CTA may come when that has left`)
  }

  meeting(key: string, threads: number): Meeting {
    let meeting = this.#meetings.get(key)
    if (!meeting) this.#meetings.set(key, (meeting = new Meeting(threads, this.space)))
    return meeting
  }

  /** By an access of the agent's own, complete when it returns. `of`, `part`: of the slot. */
  write(agent: Agent, op: TileOp, slot: Slot, tag: number, bytes: number, of: unknown = null, part = 0): void {
    const at = { ...now(agent), fence: agent.dimension('proxy'), sequence: this.#sequence++ }
    this.problem(agent, op, slot.write(accessOf(agent, op, at, tag, bytes, of, part), ofOwn(agent)))
  }

  /** By one that is done when a dimension has come to `epoch`. */
  writeLater(
    agent: Agent,
    op: TileOp,
    slot: Slot,
    { view, ...done }: Done,
    tag: number,
    bytes: number,
    of: unknown = null,
    part = 0,
  ): void {
    const at = { fence: -1, ...done, sequence: this.#sequence++ }
    this.problem(agent, op, slot.write(accessOf(agent, op, at, tag, bytes, of, part), view))
  }

  /**
   * `tag` null: whatever there is. What asynchronous writes overwrite needs no fence behind the reads: only answers to requests for work
   * have one (PTX ISA 9.7.13.17).
   */
  read(
    agent: Agent,
    op: TileOp,
    slot: Slot,
    tag: number | null,
    bytes = slot.bytes,
    of: unknown = null,
    part = 0,
  ): void {
    const at = { ...now(agent), fence: op.op === 'read_work' ? agent.dimension('proxy') : -1, sequence: 0 }
    this.problem(agent, op, slot.read(accessOf(agent, op, at, tag ?? -1, bytes, of, part), ofOwn(agent), tag !== null))
  }

  readLater(
    agent: Agent,
    op: TileOp,
    slot: Slot,
    { view, ...done }: Done,
    tag: number,
    bytes = slot.bytes,
    of: unknown = null,
    part = 0,
  ): void {
    const at = { fence: -1, ...done, sequence: 0 }
    this.problem(agent, op, slot.read(accessOf(agent, op, at, tag, bytes, of, part), view, true))
  }
}

/** When, and in what order, an access is one. */
type When = Pick<Access, 'dimension' | 'epoch' | 'fence' | 'sequence'>

const now = (agent: Agent): Pick<When, 'dimension' | 'epoch'> => ({ dimension: agent.own, epoch: agent.event() })

/** Of the thread itself. */
export const ofOwn = (agent: Agent): View => ({ clock: agent.clock, async: false, inOrder: false })

const accessOf = (
  agent: Agent,
  op: TileOp,
  when: When,
  tag: number,
  bytes: number,
  of: unknown,
  part: number,
): Access => ({ agent, op, ...when, tag, bytes, of, part, used: false })

/** When an asynchronous access is over, and what it knows as it begins. */
export interface Done {
  readonly dimension: number
  readonly epoch: number
  /** Where a fence shows that the async proxy may follow; absent: it wrote itself. */
  readonly fence?: number
  readonly view: View
}

/** Through the async proxy. */
export const byProxy = (agent: Agent): View => ({ clock: agent.clock, async: true, inOrder: false })
/** Of tensor memory. */
export const inTensorMemory = (agent: Agent): View => ({ clock: agent.tensorView, async: false, inOrder: true })
