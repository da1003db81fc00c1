/**
 * What every tile program must satisfy. Runs after lowering in tests and in `ktl inspect`: a broken schedule is a
 * compiler bug (KTL90xx), found here rather than as a hang on a device.
 */
import { walkTileOps, type TileOp, type TileProgram } from './pipe.ts'

/** Problems in words; empty: the program is well formed. */
export function verifyTileProgram(program: TileProgram): string[] {
  const problems: string[] = []
  const rings = new Map(program.rings.map((r) => [r.name, r]))
  const barriers = new Map(program.barriers.map((b) => [b.name, b]))
  const buffers = new Map(program.buffers.map((b) => [b.name, b]))

  const regions = [
    ...program.buffers.filter((b) => b.over === undefined).map((b) => ({ name: b.name, start: b.offset, end: b.offset + b.slots * b.slotBytes * (b.per?.count ?? 1), align: b.align })),
    ...program.barriers.map((b) => ({ name: b.name, start: b.offset, end: b.offset + 8 * (rings.get(b.ring)?.slots ?? 0) * (b.per?.count ?? 1), align: 8 })),
  ].sort((x, y) => x.start - y.start) // prettier-ignore
  for (const [i, region] of regions.entries()) {
    if (region.start % region.align !== 0)
      problems.push(`${region.name} at ${region.start} is not ${region.align}-byte aligned`)
    const next = regions[i + 1]
    if (next && region.end > next.start) problems.push(`${region.name} overlaps ${next.name}`)
  }
  for (const b of program.barriers)
    if (!rings.has(b.ring)) problems.push(`barrier ${b.name} is indexed by unknown ring ${b.ring}`)

  if (program.tmem) {
    const { columns, columnsPerAccumulator, ring } = program.tmem
    const accumulators = rings.get(ring)?.slots ?? 0
    if (columns < 32 || columns > 512 || (columns & (columns - 1)) !== 0) problems.push(`${columns} TMEM columns: not a power of two from 32 to 512`) // prettier-ignore
    if (accumulators * columnsPerAccumulator > columns) problems.push('accumulators do not fit the TMEM columns')
  }

  const owned = new Set<number>()
  for (const role of program.roles)
    for (let w = role.firstWarp; w < role.firstWarp + role.warps; w++) {
      if (owned.has(w)) problems.push(`warp ${w} has two roles`)
      owned.add(w)
    }
  if (Math.max(...owned) >= program.launch.threads / 32) problems.push('a role has more warps than the CTA')

  const initialised = new Set<string>()
  const signalled = new Set<string>()
  const waited = new Set<string>()
  const setup = program.setup.flatMap((s) => s.body)
  for (const [op] of walkTileOps(setup)) if (op.op === 'barrier_init') initialised.add(op.barrier)
  for (const role of program.roles) {
    const kept = new Set(role.rings)
    for (const [op] of walkTileOps(role.body)) {
      for (const name of barriersOf(op)) {
        const barrier = barriers.get(name)
        if (!barrier) problems.push(`${role.name}: unknown barrier ${name}`)
        else if (!kept.has(barrier.ring))
          problems.push(`${role.name}: uses ${name} but does not keep ring ${barrier.ring}`)
        ;(op.op === 'wait' || op.op === 'wait_turn' || op.op === 'aux_load' ? waited : signalled).add(name)
      }
      if (op.op === 'advance' && !kept.has(op.ring))
        problems.push(`${role.name}: advances ring ${op.ring} it does not keep`)
      if ((op.op === 'tma_load' || op.op === 'tma_store' || op.op === 'stage_write') && !buffers.has(op.buffer))
        problems.push(`${role.name}: unknown buffer ${op.buffer}`)
    }
  }
  for (const { name } of program.barriers) {
    if (!initialised.has(name)) problems.push(`barrier ${name} is never initialised`)
    if (!signalled.has(name)) problems.push(`nothing ever arrives on ${name}`)
    if (!waited.has(name)) problems.push(`nobody waits for ${name}`)
  }
  return problems
}

function barriersOf(op: TileOp): string[] {
  switch (op.op) {
    case 'fetch_first':
    case 'fetch_next':
      return [op.fetch.barrier]
    case 'aux_load':
      return op.fetched ? [op.fetched.barrier] : []
    case 'wait':
    case 'arrive':
    case 'arrive_all':
    case 'release':
    case 'wait_turn':
    case 'pass_turn':
    case 'arrive_expect_tx':
    case 'commit':
    case 'tma_load':
    case 'send_sums':
    case 'expect_work':
    case 'request_work':
      return [op.barrier]
    default:
      return []
  }
}
