/** Names: everything that an operation speaks of is declared, and its role keeps the rings that it turns. */
import { bodiesOf, type Role, type TileOp, type TileProgram } from '../ir/pipe.ts'

/** What an operation names. */
export interface References {
  readonly barriers?: readonly string[]
  readonly buffers?: readonly string[]
  readonly rings?: readonly string[]
  readonly maps?: readonly string[]
  readonly operands?: readonly string[]
}

export function referencesOf(op: TileOp): References {
  switch (op.op) {
    case 'barrier_init':
    case 'wait':
    case 'wait_turn':
    case 'pass_turn':
    case 'arrive_expect_tx':
    case 'arrive_all':
    case 'arrive_copied':
    case 'commit':
    case 'expect_work':
      return { barriers: [op.barrier] }
    case 'arrive':
      return { barriers: [op.barrier], ...(op.ring !== undefined && { rings: [op.ring] }) }
    case 'release':
      return { barriers: [op.barrier], rings: [op.ring] }
    case 'advance':
    case 'for_slots':
      return { rings: [op.ring] }
    case 'skip_tile':
      return { rings: op.rings }
    case 'prefetch_maps':
      return { maps: op.maps }
    case 'tma_load':
      return { barriers: [op.barrier], buffers: [op.buffer], maps: [op.map], operands: [op.operand] }
    case 'gather':
      return { buffers: [op.buffer], operands: [op.operand], ...(op.ring !== undefined && { rings: [op.ring] }) }
    case 'copy_tile':
      return { buffers: [op.buffer], operands: [op.operand], rings: [op.ring] }
    case 'load_atoms':
      return { barriers: [op.barrier], buffers: [op.buffer], maps: [op.map], operands: [op.operand] }
    case 'write_atoms':
      return { buffers: [op.buffer], operands: [op.operand] }
    case 'copy_atoms':
      return { buffers: [op.buffer] }
    case 'load_scales':
      return {
        buffers: [op.buffer],
        operands: [op.operand],
        ...(op.barrier !== null && { barriers: [op.barrier] }),
        ...(op.ring !== undefined && { rings: [op.ring] }),
      }
    case 'part_scales':
    case 'promote':
      return { buffers: [op.a, op.b].flatMap((source) => source?.buffer ?? []) }
    case 'add_part':
      return { buffers: [op.a, ...op.b].flatMap((source) => source?.buffer ?? []) }
    case 'mma':
    case 'wgmma':
      return { buffers: [op.a, ...op.products.map(({ b }) => b)] }
    case 'load_fragments': {
      const sources = [op.a, ...op.products]
      return { buffers: sources.map(({ buffer }) => buffer), operands: sources.map(({ operand }) => operand) }
    }
    case 'settle_rows':
      return { buffers: [op.buffer], operands: [op.operand] }
    case 'park':
    case 'add_sums':
    case 'leave_cells':
    case 'add_cells':
      return { buffers: [op.buffer] }
    case 'send_sums':
    case 'request_work':
      return { barriers: [op.barrier], buffers: [op.buffer] }
    case 'read_work':
      return { buffers: [op.buffer] }
    case 'take_cells':
      return op.from ? { buffers: [op.from.buffer] } : {}
    case 'fetch_first':
    case 'fetch_next': {
      const { ring, buffer, barrier, map } = op.fetch
      return { rings: [ring], buffers: [buffer], barriers: [barrier], maps: [map], operands: [op.operand] }
    }
    case 'fetch_stage':
      return {
        buffers: op.blocks.map(({ buffer }) => buffer),
        barriers: [op.barrier],
        maps: [op.map],
        operands: [op.operand],
      }
    case 'prefetch_stage':
      return { maps: [op.map], operands: [op.operand] }
    case 'hold_stage':
      return { operands: [op.operand], rings: [op.ring] }
    case 'take_stage':
      return {
        buffers: op.blocks.map(({ buffer }) => buffer),
        operands: [op.operand],
      }
    case 'aux_load': {
      if (op.stage)
        return {
          buffers: op.stage.parts.flatMap((blocks) => blocks.map(({ buffer }) => buffer)),
          operands: [op.operand],
        }
      if (!op.fetched) return { operands: [op.operand], ...(op.rows && { buffers: [op.rows.buffer] }) }
      const { ring, buffer, barrier } = op.fetched
      return { rings: [ring], buffers: [buffer], barriers: [barrier], operands: [op.operand] }
    }
    case 'copy_rows':
      return { buffers: [op.buffer], operands: [op.operand] }
    case 'tma_store':
      return { buffers: [op.buffer], maps: [op.map], operands: [op.operand] }
    case 'quantise': {
      const { scale, global, norm } = op.form
      const operands = [op.operand, scale, global, norm].filter((name) => name !== null)
      return { operands, ...(op.shared !== null && { buffers: [op.shared] }) }
    }
    case 'measure_begin':
    case 'measure':
      return { operands: [op.operand] }
    case 'share_largest':
    case 'stage_write':
    case 'row_store':
      return { buffers: [op.buffer], operands: [op.operand] }
    case 'find_rows':
    case 'load_ahead':
    case 'load_next':
    case 'direct_store':
    case 'reduce_begin':
    case 'reduce_subtile':
    case 'reduce_end':
      return { operands: [op.operand] }
    case 'compute':
      return { operands: op.outputs.map(({ operand }) => operand) }
    default:
      return {}
  }
}

/** Every operation with the path that leads to it. */
export function* placesOf(ops: readonly TileOp[], path: string): Generator<readonly [TileOp, string]> {
  for (const [i, op] of ops.entries()) {
    const here = path === '' ? `${i}` : `${path}.${i}`
    yield [op, `${here} ${op.op}`]
    for (const [b, body] of bodiesOf(op).entries()) yield* placesOf(body, op.op === 'by_loop' ? `${here}.${b}` : here)
  }
}

/** Does it speak of the slot of tensor memory that its role is at? */
const turnsAccumulators = ({ op }: TileOp, { tmem }: TileProgram): boolean =>
  op === 'mma' || op === 'add_part' || (op === 'tmem_load' && tmem?.sums === null)

const repeated = (names: readonly string[]): string[] => names.filter((name, i) => names.indexOf(name) !== i)

/** Null: outside of the roles, where nobody keeps rings. */
function* opProblems(program: TileProgram, ops: readonly TileOp[], role: Role | null): Generator<string> {
  const declared = {
    barriers: new Set(program.barriers.map(({ name }) => name)),
    buffers: new Set(program.buffers.map(({ name }) => name)),
    rings: new Set(program.rings.map(({ name }) => name)),
    maps: new Set(program.launch.params.flatMap((p) => (p.kind === 'tensorMap' ? [p.name] : []))),
    operands: new Set([...program.source.operands, ...program.source.scalars].map(({ name }) => name)),
  }
  const ringOfBarrier = new Map(program.barriers.map(({ name, ring }) => [name, ring]))
  const ringOfBuffer = new Map(program.buffers.map(({ name, ring }) => [name, ring]))
  for (const [op, where] of placesOf(ops, '')) {
    const at = `${role?.name ?? 'setup or teardown'} ${where}`
    const named = referencesOf(op)
    for (const kind of ['barriers', 'buffers', 'rings', 'maps', 'operands'] as const)
      for (const name of named[kind] ?? [])
        if (!declared[kind].has(name)) yield `${at}: there is no ${kind.slice(0, -1)} ${name}`
    if (op.op === 'barrier_init') continue
    const over =
      op.op === 'release' ||
      op.op === 'arrive' ||
      op.op === 'copy_tile' ||
      (op.op === 'gather' && op.ring !== undefined)
    const turned = [
      ...(named.rings ?? []),
      ...(over && op.op !== 'arrive'
        ? []
        : op.op === 'arrive' && op.ring !== undefined
          ? []
          : (named.barriers ?? []).map((name) => ringOfBarrier.get(name))),
      ...(over ? [] : (named.buffers ?? []).map((name) => ringOfBuffer.get(name))),
      ...(turnsAccumulators(op, program) ? [program.tmem?.ring] : []),
    ].filter((ring) => ring !== undefined && ring !== null)
    for (const ring of new Set(turned)) if (!role?.rings.includes(ring)) yield `${at}: nobody keeps ring ${ring} here`
    // Another ring over the same slots has as many.
    const slots = (ring: string | null | undefined): number | undefined =>
      program.rings.find(({ name }) => name === ring)?.slots
    const own = [
      ...(named.barriers ?? []).map((name) => ringOfBarrier.get(name)),
      ...(named.buffers ?? []).map((name) => ringOfBuffer.get(name)),
    ]
    for (const ring of over ? [] : (named.rings ?? []))
      for (const name of named.buffers ?? [])
        if (ringOfBuffer.get(name) === null) yield `${at}: ${name} has no slots that ring ${ring} could turn`
    for (const ring of named.rings ?? [])
      if (own.some((other) => other !== undefined && other !== null && slots(other) !== slots(ring)))
        yield `${at}: ring ${ring} has other slots than what it turns`
  }
}

/** Problems in words. */
export function referenceProblems(program: TileProgram): string[] {
  const { rings, barriers, buffers, roles, tmem } = program
  const problems: string[] = []
  for (const [what, names] of Object.entries({
    ring: rings.map(({ name }) => name),
    name: [...barriers, ...buffers].map(({ name }) => name),
    role: roles.map(({ name }) => name),
  }))
    for (const name of repeated(names)) problems.push(`${what} ${name} is declared twice`)
  const known = new Set(rings.map(({ name }) => name))
  const indexed = [
    ...barriers.map(({ name, ring }) => [name, ring]),
    ...buffers.map(({ name, ring }) => [name, ring]),
    ...(tmem ? [['tensor memory', tmem.ring]] : []),
    ...roles.flatMap(({ name, rings: kept }) => kept.map((ring) => [name, ring])),
  ]
  for (const [name, ring] of indexed)
    if (ring !== null && !known.has(ring!)) problems.push(`${name} is indexed by unknown ring ${ring}`)
  for (const { name, ring, slots, per } of buffers) {
    if (per && ring === null) problems.push(`${name} has a copy for each ${per.owner}, which only a ring addresses`)
    const turns = rings.find((r) => r.name === ring)?.slots ?? 1
    if (slots !== turns) problems.push(`${name} has ${slots} slots, and its ring ${turns}`)
  }
  for (const { body } of [...program.setup, ...program.teardown]) problems.push(...opProblems(program, body, null))
  for (const role of roles) {
    problems.push(...opProblems(program, role.body, role))
    const used = new Set<string>()
    for (const [op] of placesOf(role.body, '')) {
      const named = referencesOf(op)
      for (const ring of named.rings ?? []) used.add(ring)
      for (const name of [...(named.barriers ?? []), ...(named.buffers ?? [])])
        for (const one of [...barriers, ...buffers]) if (one.name === name && one.ring !== null) used.add(one.ring)
      if (tmem && turnsAccumulators(op, program)) used.add(tmem.ring)
    }
    for (const ring of role.rings) if (!used.has(ring)) problems.push(`${role.name} keeps ring ${ring} for nothing`)
  }
  const initialised = new Set<string>()
  for (const { body } of program.setup)
    for (const [op] of placesOf(body, '')) if (op.op === 'barrier_init') initialised.add(op.barrier)
  for (const { name } of barriers) if (!initialised.has(name)) problems.push(`barrier ${name} is never initialised`)
  return problems
}
