/** Effects of loops and conditions: who executes their bodies, how often, and at which tile. */
import { firstAlongK, warpgroupsOf, type TileOp } from '../ir/pipe.ts'
import type { Agent } from './agent.ts'
import { nothing, type Effects, type Steps } from './effect.ts'
import type { Machine } from './machine.ts'

type Body = readonly TileOp[]

/** Only the first lane. */
function* alone(body: Body, agent: Agent, m: Machine): Steps {
  if (!agent.first) return
  m.diverged.add(agent.cta * 64 + agent.warp)
  yield* m.execute(body, agent)
}

function* when(condition: boolean, body: Body, agent: Agent, m: Machine): Steps {
  if (condition) yield* m.execute(body, agent)
}

/** With `k` at another k tile meanwhile, if there is one. */
function* atDepth(k: number, body: Body, agent: Agent, m: Machine): Steps {
  if (k >= m.load.depth) return
  const before = agent.k
  agent.k = k
  yield* m.execute(body, agent)
  agent.k = before
}

export const CONTROL = {
  *for_tiles(op, agent, m) {
    const dynamic = m.program.domain.walk === 'dynamic'
    const step = op.turns ?? 1
    agent.answers = 0
    for (agent.tile = op.turns === undefined ? 0 : agent.warpgroup; agent.tile < m.load.tiles;) {
      agent.next = undefined
      yield* m.execute(op.body, agent)
      if (!dynamic) agent.tile += step
      else if (agent.next === undefined) return m.problem(agent, op, 'never reads the next work item')
      else if (agent.next === null) return
      else agent.tile = agent.next
    }
  },
  next_origin: nothing,
  origin_in_last_k: nothing,
  *while_work(op, agent, m) {
    for (let turn = 0; ; turn++) {
      agent.next = undefined
      yield* m.execute(op.body, agent)
      if (agent.next === null) return
      if (agent.next === undefined || turn > m.load.tiles) return m.problem(agent, op, 'never reads the next work item')
    }
  },
  *for_slots({ ring, but, body }, agent, m) {
    for (let i = 0; i < m.ringSlots(ring) - but; i++) yield* m.execute(body, agent)
  },
  leader: ({ body }, agent, m) => when(agent.cta % 2 === 0, body, agent, m),
  first_cta: ({ body }, agent, m) => when(agent.cta === 0, body, agent, m),
  *for_k({ body }, agent, m) {
    for (agent.k = 0; agent.k < m.load.depth; agent.k++) yield* m.execute(body, agent)
  },
  *for_first_k({ count, body }, agent, m) {
    for (agent.k = 0; agent.k < count; agent.k++) yield* m.execute(body, agent)
  },
  ahead: ({ by, body }, agent, m) => atDepth(agent.k + by, body, agent, m),
  // Each loop of the domain has its share of the k tiles.
  by_loop: ({ bodies }, agent, m) => m.execute(bodies[Math.floor((agent.k * bodies.length) / m.load.depth)]!, agent),
  in_own_k: ({ body }, agent, m) => when(agent.k === 0, body, agent, m),
  after_first_k: ({ body }, agent, m) => when(agent.k > 0, body, agent, m),
  elected: ({ body }, agent, m) => alone(body, agent, m),
  lane0: ({ body }, agent, m) => alone(body, agent, m),
  *one_thread({ body }, agent, m) {
    if (agent.warp === agent.role!.firstWarp) yield* alone(body, agent, m)
  },
  first_warp: ({ body }, agent, m) => when(agent.warp === agent.role!.firstWarp, body, agent, m),
  *for_warpgroups({ whole, body }, agent, m) {
    const index = agent.warp - agent.role!.firstWarp - 1
    if (index < 0 || index >= warpgroupsOf(m.program)) return
    agent.warpgroup = index
    yield* whole ? m.execute(body, agent) : alone(body, agent, m)
  },
  first_along_k: ({ body }, agent, m) => when(agent.warp < firstAlongK(m.program), body, agent, m),
  *last_warp({ body }, agent, m) {
    const { firstWarp, warps } = agent.role!
    if (agent.warp === firstWarp + warps - 1) yield* m.execute(body, agent)
  },
  before_next_tile: ({ body }, agent, m) => when(agent.tile + 1 < m.load.tiles, body, agent, m),
  *for_row_blocks({ body }, agent, m) {
    for (agent.block = 0; agent.block < m.rowBlocks; agent.block++) yield* m.execute(body, agent)
  },
  *for_blocks(op, agent, m) {
    const each = op.columns / m.program.subtileColumns
    if (!Number.isInteger(each) || m.subtileColumns.length % each !== 0)
      return m.problem(agent, op, `blocks of ${op.columns} columns are no whole sub-tiles of the tile`)
    for (let first = 0; first < m.subtileColumns.length; first += each) {
      agent.wide = { columns: op.columns, subtiles: m.subtileColumns.slice(first, first + each) }
      yield* m.execute(op.body, agent)
    }
    agent.wide = null
  },
  *for_subtiles(op, agent, m) {
    const { of, body } = op
    if (of !== agent.wide?.columns) return m.problem(agent, op, 'walks over other sub-tiles than those around it')
    for (const column of agent.wide?.subtiles ?? m.subtileColumns) {
      agent.column = column
      yield* m.execute(body, agent)
    }
  },
  last_subtile: ({ body }, agent, m) => when(agent.column === m.subtileColumns.at(-1), body, agent, m),
  *for_staged({ body }, agent, m) {
    for (agent.block = 0; agent.block < m.rowBlocks; agent.block++)
      for (const column of m.subtileColumns) {
        agent.column = column
        yield* m.execute(body, agent)
      }
  },
  after_first_staged: ({ body }, agent, m) => when(agent.block + agent.column > 0, body, agent, m),
  stop_at_n: nothing,
  check_groups: nothing,
} satisfies Partial<Effects<TileOp['op'], Machine>>
