/**
 * Runs a pipeline program abstractly: every agent of every CTA of a cluster, on a few tiles, with barriers as the hardware has them.
 * What goes wrong in some order of agents shows in any order, since accesses are compared by what their agents have seen.
 */
import { opsOf, walkedOps, type Role, type TileOp, type TileProgram } from '../ir/pipe.ts'
import type { Agent } from './agent.ts'
import { clusterMaps } from './cluster.ts'
import type { Blocked, Effects, Steps } from './effect.ts'
import { CONTROL } from './effects_control.ts'
import { EPILOGUE } from './effects_epilogue.ts'
import { LOADS } from './effects_loads.ts'
import { MMAS } from './effects_mma.ts'
import { SUMS } from './effects_sums.ts'
import { SYNC } from './effects_sync.ts'
import { EnoughProblems, Machine, type Load } from './machine.ts'
import { referencesOf } from './references.ts'

/** What each operation does. */
const EFFECTS: Effects<TileOp['op'], Machine> = { ...CONTROL, ...SYNC, ...LOADS, ...MMAS, ...SUMS, ...EPILOGUE }

function* lifeOf(agent: Agent, m: Machine): Steps {
  const { setup, roles, teardown } = m.program
  for (const { warp, body } of setup) if (warp === null || warp === agent.warp) yield* m.execute(body, agent)
  const role = roles.find(({ firstWarp, warps }) => agent.warp >= firstWarp && agent.warp < firstWarp + warps)
  if (role) {
    agent.role = role
    for (const name of role.rings) {
      const starts = m.program.rings.find((ring) => ring.name === name)?.startsAt
      agent.rings.set(name, { turns: 0, slot: starts === 'warpgroup' ? agent.warpgroup : 0, phase: 0 })
    }
    yield* m.execute(role.body, agent)
    leavesNothing(agent, m)
    for (const [name, { turns }] of agent.rings) if (turns > 0) m.ended.push({ agent, role, ring: name, turns })
    agent.role = null
  }
  for (const { warp, body } of teardown) if (warp === null || warp === agent.warp) yield* m.execute(body, agent)
}

/** What an agent has begun is done before it leaves. */
function leavesNothing(agent: Agent, m: Machine): void {
  const name = agent.role!.name
  const report = (what: string): void => void m.problems.add(`${name}: ${what}`)
  if (agent.openStores > 0) report('stores are never committed')
  if (agent.bulkGroups > agent.clock[agent.dimension('bulk')]!)
    report('leaves while its stores may still read shared memory')
  if (agent.openCopies > 0) report('copies are never committed')
}

function runOn(machine: Machine): string[] {
  const waiting: { agent: Agent; steps: Steps; blocked: Blocked | null }[] = machine.agents.map((agent) => ({
    agent,
    steps: lifeOf(agent, machine),
    blocked: null,
  }))
  let left = waiting
  try {
    for (let progress = true; progress && left.length > 0;) {
      progress = false
      const still: typeof waiting = []
      for (const one of left) {
        if (one.blocked && !one.blocked.until()) {
          still.push(one)
          continue
        }
        progress = true
        const { done, value } = one.steps.next()
        if (done) continue
        one.blocked = value
        still.push(one)
      }
      left = still
    }
  } catch (error) {
    if (!(error instanceof EnoughProblems)) throw error
    return [...machine.problems]
  }
  const { problems } = machine
  if (problems.size === 0)
    for (const { agent, blocked } of left) problems.add(`${agent.at(null)}: for ever ${blocked!.why}`)
  if (problems.size === 0) atTheEnd(machine)
  return [...problems]
}

/** Those that warpgroups turn in the tiles that are theirs. */
const ringsInTurns = ({ body }: Role): Set<string> =>
  new Set(
    walkedOps(body)
      .flatMap((op) => (op.op === 'for_tiles' && op.turns !== undefined ? walkedOps(op.body) : []))
      .flatMap((op) => referencesOf(op).rings ?? []),
  )

/** Who goes through the same slots comes to the same one, but for warpgroups that have left out the last turns. */
function ringProblems(m: Machine): string[] {
  const over = new Map<string, string>()
  for (const op of opsOf(m.program)) {
    if ((op.op === 'release' || op.op === 'arrive') && op.ring !== undefined)
      over.set(op.ring, m.barrier(op.barrier).ring)
    if ((op.op === 'copy_tile' || op.op === 'gather') && op.ring !== undefined)
      over.set(op.ring, m.buffer(op.buffer).ring!)
  }
  const inTurns = new Map(m.program.roles.map((role) => [role, ringsInTurns(role)]))
  const problems = new Set<string>()
  const first = new Map<string, { place: number; role: string }>()
  for (const { agent, role, ring, turns } of m.ended) {
    const slots = over.get(ring) ?? ring
    const key = inTurns.get(role)!.has(ring) ? `${slots} ${agent.cta} ${agent.warpgroup}` : slots
    const place = turns % m.ringSlots(ring)
    const other = first.get(key)
    if (!other) first.set(key, { place, role: role.name })
    else if (other.place !== place)
      problems.add(`${role.name} leaves ring ${ring} at slot ${place}, ${other.role} at ${other.place}`)
  }
  return [...problems]
}

function atTheEnd(m: Machine): void {
  for (const problem of ringProblems(m)) m.problems.add(problem)
  for (const problem of m.leavings()) m.problems.add(problem)
  for (const barrier of m.allBarriers())
    if (barrier.bytes !== 0) m.problems.add(`${barrier.bytes} bytes that ${barrier.name} awaits never come`)
  for (let cta = 0; cta < m.cluster.size; cta++) {
    if (m.tensorMemory[cta] && m.tensorMemory[cta]!.state !== 'freed') m.problems.add('tensor memory is never freed')
    for (const slot of m.allSlots(cta)) if (slot.unread) m.problems.add(`what ${slot.name} holds is never read`)
  }
}

/** Tiles with more k tiles than there are stages, and more tiles than accumulators with one. */
function loadsOf({ rings, domain, roles }: TileProgram): Load[] {
  const stages = Math.max(...rings.map(({ slots }) => slots))
  const turns = roles.some(({ body }) => body.some((op) => op.op === 'for_tiles' && op.turns !== undefined))
  const least = domain.loops.length
  return [
    { tiles: turns ? 4 : 3, depth: Math.max(stages + 1, least) },
    { tiles: turns ? 5 : 4, depth: least },
  ]
}

/** Problems of a run in words; names of the program must be declared. */
export function runProblems(program: TileProgram): string[] {
  const problems = new Set<string>()
  for (const cluster of clusterMaps(program.cluster))
    for (const load of loadsOf(program)) {
      for (const problem of runOn(new Machine(program, cluster, load, EFFECTS))) problems.add(problem)
      if (problems.size > 0) return [...problems]
    }
  return [...problems]
}
