/** Shared memory, tensor memory, registers and warps: regions do not overlap and end within what is launched, budgets hold. */
import { DTYPES } from '../dtypes.ts'
import { firstAlongK, opsOf, turnsOf, warpgroupsOf, type Copies, type Role, type TileProgram } from '../ir/pipe.ts'
import { ALIGNMENT_SLACK, SMEM_LIMIT } from '../targets/tensor_core/plan.ts'
import { freeSide } from '../space/domain.ts'
import type { Swizzle } from '../space/layout.ts'
import { placesOf, referencesOf } from './references.ts'

/** Of a CTA. */
const REGISTERS = 65_536
const MOST_REGISTERS = 255
/** What a thread needs beside accumulators. */
const FEWEST_SPARE = 24
/** Of any swizzle pattern, and of what MMAs and TMA address. */
const ATOM_BYTES = 1024

/** PTX ISA 5.5.7: 8 rows. */
const PATTERN_BYTES: Readonly<Record<Swizzle, number>> = {
  none: 1, '32B': 256, '64B': 512, '128B': 1024, '128B_ATOM_32B': 512,
} // prettier-ignore

/** What warpgroups do each by itself that take turns over the tiles. */
const IN_TURNS: readonly string[] = ['role_sync', 'meet_parts', 'last_part']

const copies = (per: Copies | undefined): number => per?.count ?? 1

function* regionProblems(program: TileProgram): Generator<string> {
  const slots = (ring: string): number => program.rings.find(({ name }) => name === ring)!.slots
  const regions = [
    ...program.buffers.flatMap((b) => {
      const slots = b.slots * copies(b.per)
      const [count, bytes, pitch] = b.pitch === undefined ? [1, slots * b.slotBytes, 0] : [slots, b.slotBytes, b.pitch]
      return Array.from({ length: count }, (_, i) => ({
        name: b.name,
        start: b.offset + i * pitch,
        bytes,
        align: b.align,
        over: b.over,
      }))
    }),
    ...program.barriers.map((b) => ({
      name: b.name,
      start: b.offset,
      bytes: 8 * slots(b.ring) * copies(b.per),
      align: 8,
      over: undefined,
    })),
    ...(program.tmem
      ? [{ name: 'the address of tensor memory', start: program.tmem.slotOffset, bytes: 4, align: 4, over: undefined }]
      : []),
  ]
  for (const { name, start, bytes, align, over } of regions) {
    if (start % align !== 0) yield `${name} at ${start} is not ${align}-byte aligned`
    if (bytes <= 0) yield `${name} has no bytes`
    const end = start + bytes
    if (end + ALIGNMENT_SLACK > program.launch.sharedMemBytes)
      yield `${name} ends at ${end}, behind the ${program.launch.sharedMemBytes - ALIGNMENT_SLACK} bytes that are launched`
    if (over !== undefined && !regions.some((other) => other.name === over && other.start <= start))
      yield `${name} does not lie over ${over}`
    for (const other of regions)
      if (
        other.name > name &&
        start < other.start + other.bytes &&
        other.start < end &&
        over === undefined &&
        other.over === undefined
      )
        yield `${name} overlaps ${other.name}`
  }
  if (program.launch.sharedMemBytes > SMEM_LIMIT)
    yield `${program.launch.sharedMemBytes} bytes of shared memory: there are ${SMEM_LIMIT}`
  for (const b of program.buffers) {
    const needed = alignmentOf(program, b.name)
    if (b.align % needed !== 0) yield `${b.name} is aligned to ${b.align}, and what accesses it needs ${needed}`
    const pattern = patternOf(program, b.name)
    if (b.offset % pattern !== 0 || (b.pitch ?? b.slotBytes) % pattern !== 0)
      yield `${b.name} at ${b.offset} does not begin with a swizzle pattern of ${pattern} bytes`
    const pitch = b.pitch ?? b.slotBytes
    if (pitch % needed !== 0 && b.slots * copies(b.per) > 1) yield `slots of ${b.name} are not ${needed}-byte aligned`
    if (pitch < b.slotBytes) yield `slots of ${b.name} overlap`
  }
}

/** Bytes that what accesses a buffer needs it to be aligned to. */
function alignmentOf(program: TileProgram, buffer: string): number {
  let bytes = 16
  for (const op of opsOf(program)) {
    if (!referencesOf(op).buffers?.includes(buffer)) continue
    if (op.op === 'tma_load' || op.op === 'mma' || op.op === 'wgmma') return ATOM_BYTES
    const isSwizzled = (op.op === 'gather' || op.op === 'copy_tile') && op.tile.swizzle !== 'none'
    const ofRows = op.op === 'load_atoms' || op.op === 'tma_store' || op.op === 'fetch_first' || op.op === 'stage_write'
    if (isSwizzled || ofRows) bytes = 128
  }
  return bytes
}

/** Bytes of the swizzle pattern that TMA moves a buffer in: by addresses, so that slots begin at multiples of it. */
function patternOf(program: TileProgram, buffer: string): number {
  let bytes = 1
  for (const op of opsOf(program)) {
    const { buffers, maps } = referencesOf(op)
    if (!buffers?.includes(buffer)) continue
    for (const rule of program.launch.params)
      if (rule.kind === 'tensorMap' && maps?.includes(rule.name)) bytes = Math.max(bytes, PATTERN_BYTES[rule.swizzle])
  }
  return bytes
}

/** There is one of each copy for whoever uses it. */
function* copyProblems(program: TileProgram): Generator<string> {
  for (const one of [...program.buffers, ...program.barriers]) {
    const { name, per } = one
    if (!per) continue
    let needed = 0
    for (const role of program.roles)
      for (const [op] of placesOf(role.body, '')) {
        const { buffers = [], barriers = [] } = referencesOf(op)
        if (!buffers.includes(name) && !barriers.includes(name)) continue
        needed = Math.max(needed, copiesFor(program, role, per))
      }
    if (per.count !== needed) yield `${name} has a copy for each of ${per.count} ${per.owner}s; ${needed} use it`
  }
}

function copiesFor(program: TileProgram, { firstWarp, warps }: Role, { owner }: Copies): number {
  const last = firstWarp + warps
  if (owner === 'warp') return program.registers?.deep === undefined ? last : firstAlongK(program)
  // Behind the consumers, each of these warps serves one of them.
  return firstWarp > 0 ? warpgroupsOf(program) : Math.ceil(last / 4)
}

function* tensorMemoryProblems({ tmem, rings }: TileProgram): Generator<string> {
  if (!tmem) return
  const { columns, columnsPerAccumulator, ring, sums } = tmem
  const slots = rings.find(({ name }) => name === ring)!.slots
  if (columns < 32 || columns > 512 || (columns & (columns - 1)) !== 0)
    yield `${columns} TMEM columns: not a power of two from 32 to 512`
  if (slots * columnsPerAccumulator > columns) yield 'accumulators do not fit the TMEM columns'
  if (sums !== null && (sums < slots * columnsPerAccumulator || sums + columnsPerAccumulator > columns))
    yield `sums of parts from TMEM column ${sums} on do not lie behind the accumulators`
}

function* roleProblems({ roles, launch, setup, teardown }: TileProgram): Generator<string> {
  const warps = launch.threads / 32
  const owned = new Set<number>()
  for (const { name, firstWarp, warps: count } of roles) {
    if (count < 1) yield `${name} has no warps`
    for (let w = firstWarp; w < firstWarp + count; w++) {
      if (owned.has(w)) yield `warp ${w} has two roles`
      owned.add(w)
    }
  }
  if (!Number.isInteger(warps) || Math.max(...owned) + 1 !== warps)
    yield `${launch.threads} threads; the roles have warps 0 to ${Math.max(...owned)}`
  if (!owned.has(0)) yield 'warp 0 has no role'
  for (const { warp } of [...setup, ...teardown])
    if (warp !== null && warp >= warps) yield `a step of warp ${warp}, which is not launched`
}

/** Registers of a thread that hold accumulators. */
export function accumulatorsOf({ registers, tmem }: TileProgram): number {
  if (tmem && tmem.sums !== null) return tmem.inRegisters ?? tmem.columnsPerAccumulator
  if (!registers) return 0
  const { products, rowBlocks, columns, cells } = registers
  return (products * rowBlocks * columns) / { f16: 4, f32: 2, i32: 2, f64: 1 }[cells]
}

function* registerProblems(program: TileProgram): Generator<string> {
  const { roles, launch, registers } = program
  const launched = Math.min(MOST_REGISTERS, Math.floor(REGISTERS / launch.threads / 8) * 8)
  const counts = roles.map(({ name, body }) => {
    const changes = [...placesOf(body, '')].flatMap(([op]) => (op.op === 'set_registers' ? [op] : []))
    return { name, changes, first: body[0]?.op === 'set_registers' }
  })
  if (counts.some(({ changes }) => changes.length > 0)) {
    if (registers?.perSm !== undefined) yield `roles set registers, of which ${registers.perSm} CTAs share an SM`
    let total = 0
    for (const [i, { name, changes, first }] of counts.entries()) {
      const [change] = changes
      if (!change || changes.length > 1 || !first) {
        yield `${name} sets its registers ${changes.length} times, not once before all else`
        continue
      }
      const { firstWarp, warps } = roles[i]!
      if (firstWarp % 4 !== 0 || warps % 4 !== 0) yield `${name} is no whole warpgroups, which set registers`
      if (change.count % 8 !== 0 || change.count < 24 || change.count > 256)
        yield `${name} sets ${change.count} registers`
      if (change.change === 'more' ? change.count < launched : change.count > launched)
        yield `${name}: ${change.count} registers are not ${change.change} than the ${launched} of the launch`
      total += 32 * warps * change.count
    }
    if (total > REGISTERS) yield `${total} registers of all roles: there are ${REGISTERS}`
  }
  const own = counts[0]?.changes[0]?.count ?? launched
  const cells = accumulatorsOf(program)
  if (cells + FEWEST_SPARE > own) yield `${cells} accumulators in ${own} registers`
  if (registers && cells < 1) yield 'there are no accumulators'
}

/** Of the accumulators of all warps but the first along k. */
const leftBytes = (program: TileProgram): number =>
  accumulatorsOf(program) * 4 * 32 * (program.roles[0]!.warps - firstAlongK(program))

/** Tiles, warps and sub-tiles cover one another. */
function* coverProblems(program: TileProgram): Generator<string> {
  const { domain, layout, registers, subtileColumns, cluster, roles } = program
  const { rowsPerWarp, columnHalves, columns } = layout
  const [rows, across] = [domain.rows.extent, domain.columns.extent]
  const { ways } = freeSide(domain, 'n')
  if (layout.held === 'row') {
    if (
      (roles[0]!.warps * rowsPerWarp) / columnHalves !== rows ||
      columns * columnHalves !== across ||
      rowsPerWarp > 32
    )
      yield `${roles[0]!.warps} warps of ${rowsPerWarp} rows and ${columns} columns do not make a tile of ${rows} x ${across}`
  } else if (registers) {
    const { warps, rowBlocks, together, columns: held } = registers
    const [down, side] = warps ? [16 * warps[0], warps[1]] : [64 * together, 1]
    if (
      rowsPerWarp !== 16 ||
      columnHalves !== 1 ||
      down * rowBlocks !== rows ||
      held * side !== across * ways ||
      columns * cluster.splits * ways !== held
    )
      yield `${rowBlocks} blocks of rows and ${columns} columns do not make a tile of ${rows} x ${across}`
    if (warps && warps[0] * warps[1] * (registers.deep ?? 1) !== roles[0]!.warps)
      yield `${[...warps, registers.deep ?? 1].join(' x ')} warps are not the ${roles[0]!.warps} of ${roles[0]!.name}`
    if (warps && together !== 1) yield 'warps have no warpgroups'
    const turns = roles[0]!.body.find((op) => op.op === 'for_tiles')?.turns
    if (!warps && (turns ?? together) * 4 !== roles[0]!.warps)
      yield `${together} warpgroups on a tile are not those of ${roles[0]!.name}`
    if (turns !== undefined && together !== 1) yield 'warpgroups that take turns do not work together'
    const parks = [...opsOf(program)].some(({ op }) => op === 'park')
    if (parks !== (registers.parked === true))
      yield `accumulators are ${parks ? 'parked, but' : 'not parked, and'} registers say otherwise`
  }
  // Of fragments odd multiples of 8 and of 16 too.
  const isOdd = layout.held === 'fragment' && subtileColumns % 8 === 0 && subtileColumns % 32 !== 0
  if (!(isOdd || [8, 16, 32, 64, 128].includes(subtileColumns)) || columns % subtileColumns !== 0)
    yield `sub-tiles of ${subtileColumns} columns do not make ${columns}`
  for (const op of opsOf(program)) {
    const threads = op.op === 'take_cells' ? op.from?.threads : 'threads' in op ? op.threads : undefined
    const inTurns = IN_TURNS.includes(op.op) ? turnsOf(program) : 1
    if (threads !== undefined && threads * inTurns !== 32 * roles[0]!.warps)
      yield `${op.op}: ${threads} threads are not those of ${roles[0]!.name}`
    const parked =
      op.op === 'take_cells'
        ? op.from?.buffer
        : op.op === 'park' || op.op === 'send_sums' || op.op === 'add_sums'
          ? op.buffer
          : undefined
    if (
      parked !== undefined &&
      accumulatorsOf(program) * 4 * 32 * roles[0]!.warps !==
        program.buffers.find(({ name }) => name === parked)!.slotBytes
    )
      yield `${parked} does not hold the accumulators`
    if (
      (op.op === 'leave_cells' || op.op === 'add_cells') &&
      leftBytes(program) !== program.buffers.find(({ name }) => name === op.buffer)!.slotBytes
    )
      yield `${op.buffer} does not hold what warps along k leave`
    if (op.op === 'tmem_load' && op.products * layout.columns !== program.tmem?.columnsPerAccumulator)
      yield 'tmem_load: the products do not make an accumulator'
    if (
      (op.op === 'mma' || op.op === 'wgmma') &&
      op.products.length !== (registers?.products ?? program.tmem!.columnsPerAccumulator / columns / ways)
    )
      yield `${op.op}: ${op.products.length} products`
    if (op.op === 'mma' && op.products.some(({ column }, i) => column !== i * columns * ways))
      yield 'mma: accumulators of products overlap'
    if (op.op === 'fetch_first' || op.op === 'fetch_next') {
      const subtiles = (registers!.rowBlocks * columns) / subtileColumns
      if (op.fetch.subtiles !== subtiles) yield `${op.op} ${op.operand}: ${op.fetch.subtiles} sub-tiles of ${subtiles}`
    }
    if (
      op.op === 'stage_write' &&
      op.bytes !== DTYPES[program.source.operands.find(({ name }) => name === op.operand)!.dtype].storageBytes
    )
      yield `stage_write ${op.operand}: elements of ${op.bytes} bytes`
  }
}

/** Problems in words. */
export const memoryProblems = (program: TileProgram): string[] => [
  ...regionProblems(program),
  ...copyProblems(program),
  ...tensorMemoryProblems(program),
  ...roleProblems(program),
  ...registerProblems(program),
  ...coverProblems(program),
]
