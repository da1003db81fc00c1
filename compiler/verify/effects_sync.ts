/** Effects of barriers, fences, meetings, and of what waits for groups of asynchronous operations. */
import { turnsOf, type TileOp } from '../ir/pipe.ts'
import type { Agent } from './agent.ts'
import { nothing, type Effects, type Steps } from './effect.ts'
import { inTensorMemory, type Machine } from './machine.ts'

/** Waits for so many phases, of which a wait sees the last bit, and learns what those knew who completed them. */
export function* waitFor(op: TileOp, agent: Agent, m: Machine, name: string, phases: number): Steps {
  const barrier = m.barrierOf(agent, name)
  if (!m.ready(agent, op, barrier)) return
  if (agent.clock[barrier.phases]! < phases - 1) m.problem(agent, op, `may pass two phases of ${barrier.name} early`)
  const parity = (phases & 1) ^ 1
  if (!barrier.passes(parity))
    yield {
      until: () => barrier.passes(parity),
      why: `waits for ${barrier.name}, which lacks ${barrier.pending} arrivals and ${barrier.bytes} bytes`,
    }
  m.space.join(agent.clock, barrier.done, m.barrier(name).scope === 'cluster' ? null : agent.cta)
}

function* meet(agent: Agent, m: Machine, key: string, threads: number, why: string, learn?: 'inits'): Steps {
  const meeting = m.meeting(key, threads)
  const met = meeting.come(agent.threads, agent.clock)
  if (!met()) yield { until: met, why }
  if (learn) m.space.joinInits(agent.clock, meeting.met)
  else m.space.join(agent.clock, meeting.met)
}

export function* warpSync(agent: Agent, m: Machine): Steps {
  yield* meet(agent, m, `warp ${agent.cta} ${agent.warp}`, 32, 'waits for its warp')
  m.diverged.delete(agent.cta * 64 + agent.warp)
}

/** Who meets: the role, or a warpgroup that has tiles of its own. */
const roleOf = ({ cta, role, warpgroup }: Agent, m: Machine): string =>
  `role ${cta}${turnsOf(m.program) > 1 && role === m.program.roles[0] ? ` ${warpgroup}` : ''}`

/** All lanes of a warp execute it at once. */
function aligned(op: TileOp, agent: Agent, m: Machine): void {
  if (m.diverged.has(agent.cta * 64 + agent.warp))
    m.problem(agent, op, 'follows work of one lane, for which the others have not waited')
}

export function advance(agent: Agent, m: Machine, ring: string, by = 1): void {
  const place = agent.ring(ring)
  const slots = m.ringSlots(ring)
  place.turns += by
  place.slot = place.turns % slots
  place.phase = Math.floor(place.turns / slots)
}

/** CTA of the pair that issues its MMAs. */
export const leaderOf = (m: Machine, cta: number): number => (m.program.cluster.pair > 1 ? cta & ~1 : cta)

const allOf = (m: Machine): number => m.program.launch.threads * m.cluster.size

/** The first lane is that of CTA 0, the others those of all others. */
export const ranksOf = (agent: Agent, m: Machine): number[] =>
  agent.first ? [0] : Array.from({ length: m.cluster.size - 1 }, (_, i) => i + 1)

export const SYNC = {
  barrier_init(op, agent, m) {
    const { preferred, fallback } = m.barrier(op.barrier).arrivals
    for (const barrier of m.barriersNamed(agent.cta, op.barrier)) {
      if (barrier.init) return m.problem(agent, op, `initialises ${barrier.name} again`)
      barrier.initialise(agent, agent.event(), m.cluster.preferred ? preferred : fallback)
    }
  },
  fence_barrier_init: (_, agent) => agent.fence('inits'),
  prefetch_maps: nothing,
  *cta_sync(op, agent, m) {
    aligned(op, agent, m)
    yield* meet(agent, m, `cta ${agent.cta}`, m.program.launch.threads, 'waits for its CTA')
  },
  *cluster_start(op, agent, m) {
    aligned(op, agent, m)
    yield* meet(agent, m, 'start', allOf(m), 'waits for its cluster to start', 'inits')
    agent.started = true
  },
  *cluster_sync(op, agent, m) {
    aligned(op, agent, m)
    yield* meet(agent, m, 'cluster', allOf(m), 'waits for its cluster')
    agent.started = true
  },
  warp_sync: (_, agent, m) => warpSync(agent, m),
  *role_sync({ threads }, agent, m) {
    yield* meet(agent, m, roleOf(agent, m), threads, 'waits for its role')
  },
  *warpgroup_sync(_, agent, m) {
    agent.clock[agent.dimension('reads')] = agent.reads
    const key = `warpgroup ${agent.cta} ${agent.role?.name} ${agent.warp >> 2}`
    yield* meet(agent, m, key, 128, 'waits for its warpgroup')
  },
  *meet_parts({ threads, finishes }, agent, m) {
    // `last_part` is behind it, where they meet.
    if (finishes === 'each') return
    // What other CTAs store is not known here: that all threads have come, and go on together, is.
    yield* meet(agent, m, roleOf(agent, m), threads, 'waits for its role')
    yield* meet(agent, m, roleOf(agent, m), threads, 'waits for its role')
  },
  *last_part({ threads, body }, agent, m) {
    yield* meet(agent, m, roleOf(agent, m), threads, 'waits for its role')
    // When other parts come is not known here: every other tile's is taken for the last.
    if (agent.tile % 2 === 0) yield* m.execute(body, agent)
  },
  *wait(op, agent, m) {
    const { phase } = agent.ring(m.barrier(op.barrier).ring)
    yield* waitFor(op, agent, m, op.barrier, op.parity === 'consumer' ? phase + 1 : phase)
  },
  arrive(op, agent, m) {
    const target = op.at === 'cta' ? agent.cta : op.at === 'leader' ? leaderOf(m, agent.cta) : 0
    m.signal(agent, op, m.barrierOf(agent, op.barrier, { ring: op.ring, cta: target }), agent.threads, 0, agent.clock)
  },
  arrive_expect_tx(op, agent, m) {
    m.signal(agent, op, m.barrierOf(agent, op.barrier), agent.threads, op.bytes * agent.threads, agent.clock)
  },
  arrive_copied(op, agent, m) {
    if (agent.openCopies > 0) agent.copyGroups++
    agent.openCopies = 0
    // What the thread has written itself is not ordered before it.
    const landed = m.space.copy(agent.clock)
    landed[agent.own] = 0
    landed[agent.dimension('copies')] = agent.copyGroups
    m.signal(agent, op, m.barrierOf(agent, op.barrier), agent.threads, 0, landed)
  },
  arrive_all(op, agent, m) {
    if (agent.warp !== 0) return
    // Its lane tells the i-th of them.
    for (const i of ranksOf(agent, m)) {
      const cta = m.cluster.sums[agent.cta]![i]
      if (cta !== undefined) m.signal(agent, op, m.barrierOf(agent, op.barrier, { cta }), 1, 0, agent.clock)
    }
  },
  release(op, agent, m) {
    // Its warp has met at the wait for the MMAs: the first lane stands for those that tell other CTAs, too.
    if (!agent.first || (!op.eachWarp && agent.warp % 4 !== 0)) return
    const { slot } = agent.ring(op.ring)
    const targets = m.cluster.producers[agent.cta]!
    for (const cta of targets) m.signal(agent, op, m.barrierOf(agent, op.barrier, { cta, slot }), 1, 0)
  },
  commit(op, agent, m) {
    if (!agent.first) return m.problem(agent, op, 'is for one thread')
    const done = m.space.copy(agent.clock)
    done[agent.mma] = agent.issued
    const leader = leaderOf(m, agent.cta)
    const targets =
      op.to === 'cta' ? [agent.cta] : op.to === 'pair' ? [leader, leader ^ 1] : m.cluster.producers[agent.cta]!
    for (const cta of targets) {
      if (cta >= m.cluster.size) return m.problem(agent, op, `signals CTA ${cta}, which the cluster does not have`)
      m.signal(agent, op, m.barrierOf(agent, op.barrier, { cta }), 1, 0, done)
    }
  },
  advance: ({ ring }, agent, m) => advance(agent, m, ring),
  skip_tile({ rings, unless, behind }, agent, m) {
    if (unless === 'first' && agent.warpgroup === 0) return
    for (const ring of rings) advance(agent, m, ring, m.load.depth + behind)
  },
  *wait_turn(op, agent, m) {
    const { slot, phase } = agent.ring(m.barrier(op.barrier).ring)
    yield* waitFor(op, agent, m, op.barrier, slot === 0 ? phase : phase + 1)
  },
  pass_turn(op, agent, m) {
    const place = agent.ring(m.barrier(op.barrier).ring)
    const other = { slot: place.slot ^ 1 }
    if (agent.first) m.signal(agent, op, m.barrierOf(agent, op.barrier, other), 1, 0, agent.clock)
    place.phase++
  },
  /** Of all that this agent has seen: a fence may lie anywhere on the way from a write to a read. */
  proxy_fence(_, agent, m) {
    const { clock } = agent
    for (const other of m.agents)
      for (const [of, to] of [
        ['events', 'proxy'],
        ['copies', 'copied'],
      ] as const)
        clock[other.dimension(to)] = Math.max(clock[other.dimension(to)]!, clock[other.dimension(of)]!)
  },
  tcgen05_fence({ when }, agent, m) {
    if (when === 'before_thread_sync') agent.fence('tensor')
    else agent.tensorView = m.space.copy(agent.clock)
  },
  tmem_alloc(op, agent, m) {
    aligned(op, agent, m)
    if (m.program.cluster.pair > 1 && !agent.started)
      m.problem(agent, op, 'allocates for a pair whose other CTA may not run')
    if (!agent.first) return
    if (m.tensorMemory[agent.cta]) m.problem(agent, op, 'allocates again')
    m.tensorMemory[agent.cta] = { agent, epoch: agent.event(), state: 'held' }
  },
  tmem_relinquish(op, agent, m) {
    aligned(op, agent, m)
    if (!agent.first) return
    const held = m.tensorMemory[agent.cta]
    if (held?.state !== 'held' || held.agent !== agent)
      m.problem(agent, op, 'relinquishes a permit that it does not have')
    else held.state = 'relinquished'
  },
  tmem_address(op, agent, m) {
    usesTensorMemory(op, agent, m, agent.cta)
  },
  tmem_dealloc(op, agent, m) {
    aligned(op, agent, m)
    if (!agent.first) return
    const held = usesTensorMemory(op, agent, m, agent.cta)
    if (held && held.agent !== agent) m.problem(agent, op, 'frees what another warp has allocated')
    if (held?.state === 'held') m.problem(agent, op, 'frees tensor memory whose permit it has kept from other CTAs')
    if (held) held.state = 'freed'
    for (const slot of [...m.accumulators[agent.cta]!.map(({ slot }) => slot), m.parked[agent.cta]!])
      m.writeLater(agent, op, slot, { dimension: agent.own, epoch: agent.event(), view: inTensorMemory(agent) }, -2, 0)
  },
  wgmma_wait({ pending }, agent) {
    agent.clock[agent.mma] = Math.max(agent.clock[agent.mma]!, agent.issued - pending)
  },
  copy_commit(_, agent) {
    agent.copyGroups++
    agent.openCopies = 0
  },
  copy_wait({ pending }, agent) {
    const copies = agent.dimension('copies')
    agent.clock[copies] = Math.max(agent.clock[copies]!, agent.copyGroups - pending)
  },
  bulk_commit(op, agent, m) {
    if (agent.openStores === 0 && agent.first) m.problem(agent, op, 'commits no store')
    agent.bulkGroups++
    agent.openStores = 0
  },
  bulk_wait_read({ pending }, agent) {
    const bulk = agent.dimension('bulk')
    agent.clock[bulk] = Math.max(agent.clock[bulk]!, agent.bulkGroups - pending)
  },
} satisfies Partial<Effects<TileOp['op'], Machine>>

/** Tensor memory that this CTA has, where the agent can see that. */
export function usesTensorMemory(op: TileOp, agent: Agent, m: Machine, cta: number): Machine['tensorMemory'][number] {
  const held = m.tensorMemory[cta]
  if (!held || held.state === 'freed')
    m.problem(agent, op, `uses tensor memory that ${held ? 'is freed' : 'nobody has allocated'}`)
  else if (
    held.agent.cta === agent.cta &&
    agent.tensorView[held.agent.dimension('tensor')]! < held.epoch &&
    held.agent !== agent
  )
    m.problem(agent, op, 'uses tensor memory, whose allocation it may not see')
  return held ?? null
}
