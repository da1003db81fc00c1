/** What the other checks take for granted: there are roles, loops and products, accumulators of one kind, and axes and operands that fit. */
import type { RaggedAxis } from '../ir/tensor.ts'
import { bodiesOf, opsOf, walkedOps, type Barrier, type TileOp, type TileProgram } from '../ir/pipe.ts'
import { sourceProblems } from '../ir/verify_tensor.ts'
import { axesWithin } from '../ir/walk.ts'

function* accumulatorProblems({ tmem, registers, layout }: TileProgram): Generator<string> {
  if ((tmem === null) === (registers === null)) yield 'accumulators are in tensor memory or in registers'
  if ((layout.held === 'row') !== (tmem !== null)) yield `accumulators are not held by ${layout.held}`
}

function* countProblems(program: TileProgram): Generator<string> {
  if (program.roles.length === 0) yield 'there are no roles'
  if (program.domain.loops.length < 1) yield 'there are no loops'
  for (const ring of program.rings) if (ring.slots < 1) yield `ring ${ring.name} has no slots`
  const loops: number = program.domain.loops.length
  for (const op of opsOf(program)) {
    if ((op.op === 'mma' || op.op === 'wgmma' || op.op === 'load_fragments') && op.products.length === 0)
      yield `${op.op}: there are no products`
    if (op.op === 'by_loop' && op.bodies.length !== loops)
      yield `by_loop: ${op.bodies.length} bodies for ${loops} loops`
    if (op.op === 'compute' && op.outputs.length === 0) yield 'compute: there are no outputs'
  }
}

function* axisProblems(program: TileProgram): Generator<string> {
  const { source, domain, reductions } = program
  yield* sourceProblems(source)
  const { rows, columns, batch, loops } = domain
  const plain = [rows.axis, columns.axis, ...loops.flatMap(({ axis, outer }) => [axis, ...outer])]
  const all = [
    ...plain,
    ...(batch === null ? [] : [batch]),
    ...(columns.interleaved === undefined ? [] : [columns.interleaved]),
  ]
  const scattered = [...opsOf(program)].flatMap((op) => (op.op === 'direct_store' && op.places ? [op.operand] : []))
  // Of what is looked up, and of outputs that are stored at looked-up places.
  const read = [
    ...axesWithin(source),
    ...source.operands.flatMap(({ name, axes }) => (scattered.includes(name) ? axes : [])),
  ]
  for (const axis of all)
    if (!source.axes.some(({ name }) => name === axis)) yield `the domain has an unknown axis ${axis}`
  for (const { name, optional } of source.axes) {
    if (optional && name !== batch) yield `axis ${name} is no batch that may be left out`
    if (!all.includes(name) && !read.includes(name)) yield `axis ${name} is not in the domain`
  }
  if (new Set([rows.axis, columns.axis, ...(batch === null ? [] : [batch])]).size !== (batch === null ? 2 : 3))
    yield 'axes of the tile are the same'
  for (const { operand } of reductions)
    if (!source.operands.some(({ name, role }) => name === operand && role === 'output'))
      yield `there is no output ${operand} to reduce to`
}

/** Whom a barrier hears, and which rings of turns there are. */
function* signalProblems(program: TileProgram): Generator<string> {
  const { cluster, barriers, rings } = program
  const reached = new Set<string>()
  for (const op of opsOf(program)) {
    if (op.op === 'arrive' && op.at === 'leader' && cluster.pair === 1) yield 'arrive: there are no pairs'
    if (
      op.op === 'commit' &&
      (op.to === 'cta') !== (cluster.size === 1 || (cluster.pair === 1 && isOfAccumulators(program, op.barrier)))
    )
      yield `commit ${op.barrier}: is not for ${op.to}`
    if (op.op === 'commit' && op.to === 'pair' && cluster.pair === 1) yield 'commit: there are no pairs'
    if (
      (op.op === 'arrive' && op.at !== 'cta') ||
      op.op === 'arrive_all' ||
      op.op === 'send_sums' ||
      op.op === 'expect_work' ||
      op.op === 'request_work'
    )
      reached.add(op.barrier)
    if (op.op === 'wait_turn' || op.op === 'pass_turn') {
      const ring = rings.find(({ name }) => name === barriers.find(({ name: own }) => own === op.barrier)?.ring)
      const turns = [...opsOf(program)].find((one) => one.op === 'for_tiles' && one.turns !== undefined)
      if (ring?.startsAt !== 'warpgroup' || turns?.op !== 'for_tiles' || turns.turns !== ring.slots)
        yield `${op.op}: ring ${ring?.name} is not that of the warpgroups that take turns`
    }
  }
  const turned = new Set([...opsOf(program)].flatMap((op) => (op.op === 'wait_turn' ? [op.barrier] : [])))
  for (const { name, startsAt } of rings)
    if (startsAt && !barriers.some((b) => b.ring === name && turned.has(b.name)))
      yield `ring ${name} starts at the ${startsAt}'s slot, and nobody takes turns`
  for (const { name, scope, arrivals } of barriers) {
    const wanted: Barrier['scope'] = cluster.size > 1 && reached.has(name) ? 'cluster' : 'cta'
    if (scope !== wanted)
      yield `${name} is heard in the ${scope}, and waited for by what other ${wanted === 'cta' ? 'threads' : 'CTAs'} do`
    if (!cluster.fallback && arrivals.preferred !== arrivals.fallback)
      yield `${name} takes other arrivals in clusters that there are not`
  }
}

/** Only the CTA itself waits for accumulators. */
const isOfAccumulators = ({ barriers, tmem }: TileProgram, barrier: string): boolean =>
  barriers.find(({ name }) => name === barrier)?.ring === tmem?.ring

/** Groups are those of the axis of rows or columns, found by whole warps, or those of what is summed over; and checked once. */
function* groupProblems(program: TileProgram): Generator<string> {
  const { source, domain, cluster } = program
  const { rows, columns, loops, batch, groups, sums } = domain
  const raggedOf = (axis: string): RaggedAxis | null => source.axes.find(({ name }) => name === axis)?.ragged ?? null
  const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a ?? null) === JSON.stringify(b ?? null)
  const { axis } = groups?.along === 'n' ? columns : rows
  const ragged = raggedOf(axis)
  if (!isSame(groups, ragged && { ...ragged, along: groups?.along ?? 'm' })) yield `groups are not those of ${axis}`
  if (!isSame(sums, raggedOf(loops[0].axis))) yield 'sums are not of groups of their axis'
  const other = source.axes.find(({ name, ragged }) => ragged && name !== axis && name !== loops[0].axis)
  if (other) yield `nothing walks over the groups of ${other.name}`
  const checks = [...opsOf(program)].filter(({ op }) => op === 'check_groups').length
  if (program.teardown.some(({ warp, body }) => warp !== null && body.some(({ op }) => op === 'check_groups')))
    yield 'groups are checked by one warp'
  const walked = groups ?? sums
  if (checks !== (walked ? 1 : 0)) yield `groups are checked ${checks} times`
  if (walked && batch !== walked.group) yield `groups of ${walked.group} are not walked one by one`
  if (sums && (groups || loops.length > 1 || loops[0].outer.length > 0 || cluster.splits > 1))
    yield 'sums of groups are those of one loop'
  if (sums && domain.parts !== undefined) yield 'sums of groups are those of whole tiles'
  if (!groups) return
  if (cluster.splits > 1 || cluster.fallback) yield 'tiles of groups are found in rising order'
  for (const op of opsOf(program))
    if (op.op === 'one_thread' || (op.op === 'for_warpgroups' && !op.whole) || op.op === 'elected' || op.op === 'lane0')
      for (const inner of walkedOps(op.body))
        if (inner.op === 'for_tiles') yield `${op.op}: groups are found by whole warps`
}

/** What the last part asks for ahead of sums. */
const BEFORE_PARTS: readonly string[] = ['fetch_first', 'load_ahead', 'lane0']

/** Parts of k meet once in each tile, before its epilogue. */
function* partProblems(program: TileProgram): Generator<string> {
  const { parts } = program.domain
  if (parts !== undefined && !(Number.isInteger(parts) && parts > 1)) yield `${parts} parts of k`
  const count = (ops: Iterable<TileOp>, kind: TileOp['op']): number => [...ops].filter(({ op }) => op === kind).length
  const wanted = parts === undefined ? 0 : 1
  for (const kind of ['store_part', 'last_part', 'add_parts'] as const)
    if (count(opsOf(program), kind) !== wanted) yield `${kind}: ${count(opsOf(program), kind)} times in a tile`
  const { share, groups, sums } = program.domain
  if (share !== undefined && (!(Number.isInteger(share) && share > 1) || parts === undefined || groups || sums))
    yield `${share} tiles do not share work items`
  const { grid } = program.launch
  const meets = grid.kind === 'persistent' && grid.meets === true
  if (count(opsOf(program), 'meet_parts') !== (meets ? 1 : 0))
    yield `meet_parts: the launch ${meets ? 'has parts that wait for each other' : 'has none'}`
  if (meets && (groups || share !== undefined || grid.dynamic))
    yield 'meet_parts: tiles are not handed out in a fixed order'
  for (const op of opsOf(program)) if (op.op === 'meet_parts' && op.finishes === 'each') yield* shareProblems(program)
  if (parts === undefined) return
  for (const op of opsOf(program)) {
    for (const body of bodiesOf(op)) {
      const store = body.findIndex(({ op }) => op === 'store_part')
      const wanted = ['role_sync', ...(meets ? ['meet_parts'] : []), 'last_part']
      const isBehind = wanted.every((kind, i) => body[store + 1 + i]?.op === kind)
      if (store >= 0 && !(isBehind && op.op === 'for_tiles'))
        yield 'store_part: is not counted when all threads have stored'
    }
    if (op.op !== 'last_part') continue
    const first = op.body.find(({ op }) => !BEFORE_PARTS.includes(op))
    if (first?.op !== 'add_parts') yield 'last_part: does not begin with all parts'
    for (const inner of walkedOps(op.body)) if (inner.op === 'for_k') yield 'last_part: sums are not complete'
  }
  const inside = [...opsOf(program)].flatMap((op) => (op.op === 'last_part' ? walkedOps(op.body) : []))
  for (const kind of ['compute', 'for_subtiles'] as const)
    if (count(inside, kind) !== count(opsOf(program), kind)) yield `${kind}: is not behind all parts of k`
}

/** Sub-tiles that parts finish know nothing of each other. */
function* shareProblems(program: TileProgram): Generator<string> {
  for (const { op } of opsOf(program)) {
    if (op === 'reduce_subtile' || op === 'quantise' || op === 'for_blocks')
      yield `${op}: sub-tiles of other parts belong to it`
    if (op === 'tma_store' || op === 'fetch_first') yield `${op}: each part has sub-tiles of its own`
  }
}

/** TMA's maps are asked for once, before anyone waits for them. */
function* prefetchProblems(program: TileProgram): Generator<string> {
  const maps = program.launch.params.flatMap((rule) => (rule.kind === 'tensorMap' ? [rule.name] : []))
  const prefetched = [...opsOf(program)].flatMap((op) => (op.op === 'prefetch_maps' ? op.maps : []))
  for (const map of maps)
    if (prefetched.filter((name) => name === map).length !== 1) yield `${map} is not prefetched once`
}

/** Who works on sub-tiles for others comes to the same ones as they. */
function* stopProblems(program: TileProgram): Generator<string> {
  const walks = [...opsOf(program)].filter(({ op }) => op === 'for_subtiles' || op === 'for_staged')
  const stops = walks.map((walk) => bodiesOf(walk).some((body) => body.some(({ op }) => op === 'stop_at_n')))
  if (new Set(stops).size > 1) yield 'some walks over sub-tiles stop at n, and others do not'
}

/** Problems in words. */
export const formProblems = (program: TileProgram): string[] => [
  ...accumulatorProblems(program),
  ...countProblems(program),
  ...axisProblems(program),
  ...signalProblems(program),
  ...groupProblems(program),
  ...partProblems(program),
  ...prefetchProblems(program),
  ...stopProblems(program),
]
