/**
 * Values of a role: what an operation reads, one before it in the same body or around it has made, once; what is made for somebody is
 * used. The names are those of variables of the CUDA text, or of what stands for several.
 */
import { guardOf, operandsOf } from '../ir/walk.ts'
import type { Node } from '../ir/tensor.ts'
import { bodiesOf, opsOf, type TileOp, type TileProgram } from '../ir/pipe.ts'

interface Flow {
  readonly reads?: readonly string[]
  readonly makes?: readonly string[]
  /** In its body. */
  readonly around?: readonly string[]
}

const nothing: Flow = {}
/** Values that are made to be read: `acc`, `sum`, `v:C`, `out:D`, `ahead:bias`, `total:most`. */
const wanted = (name: string): boolean =>
  /^(acc$|parked$|sum|largest:|v:|out:|coded:|ahead:|rows:|total:|scales of)/.test(name)

const SHAPE_READS = { full: ['row', 'col'], row: ['col'], column: ['row'], uniform: [] } as const

/** What is stored of an output: its values, or what they are quantised to. */
const leaving = (operand: string, { source }: TileProgram): string =>
  `${source.operands.find(({ name }) => name === operand)?.stored ? 'coded' : 'out'}:${operand}`

/** Where a tile's sums are. */
const sumsOf = ({ tmem }: TileProgram): string[] =>
  tmem === null ? ['acc'] : ['tmem', ...(tmem.sums === null ? [] : ['parked'])]

function flowOf(op: TileOp, program: TileProgram): Flow {
  const fragments = program.layout.held === 'fragment'
  switch (op.op) {
    case 'for_tiles':
      return {
        around: [
          'at',
          ...(op.accumulators ? ['acc'] : []),
          ...(program.domain.walk === 'dynamic' ? ['next work'] : []),
        ],
      }
    case 'while_work':
      return { around: ['next work'] }
    case 'for_k':
    case 'for_first_k':
      return { around: ['k'] }
    case 'ahead':
    case 'by_loop':
    case 'in_own_k':
    case 'after_first_k':
      return { reads: ['k'] }
    case 'origin_in_last_k':
      return { reads: ['k', 'next'] }
    case 'next_origin':
      return { reads: ['at'], makes: ['next'] }
    case 'first_along_k':
    case 'before_next_tile':
    case 'last_part':
    case 'meet_parts':
      return { reads: ['at'] }
    case 'read_work':
      return { reads: ['next work'] }
    case 'find_rows':
      return { reads: ['at'], makes: [`rows:${op.operand}`] }
    case 'copy_tile': {
      const { computed } = program.source.operands.find(({ name }) => name === op.operand)!
      return { reads: ['at', 'k', ...(computed ? [`rows:${op.operand}`] : [])] }
    }
    case 'tma_load':
    case 'gather':
      return { reads: ['at', 'k'] }
    case 'load_scales': {
      const { computed } = program.source.operands.find(({ name }) => name === op.operand)!
      return { reads: ['at', 'k', ...(computed ? [`rows:${op.operand}`] : [])] }
    }
    case 'load_atoms':
    case 'write_atoms':
      return { reads: ['at', 'k'] }
    case 'copy_atoms':
      return { reads: ['k', 'tmem'] }
    case 'fill_columns':
      return { reads: ['tmem'] }
    case 'mma':
      return {
        reads: ['k', 'tmem', ...(op.scales ? ['at'] : [])],
        ...(op.chunk === null && { makes: ['descriptors'] }),
      }
    case 'wgmma':
      if (op.part) return { reads: ['k', 'parts'] }
      return { reads: ['k', 'acc'], makes: ['descriptors'] }
    case 'part_scales':
      return { makes: [`scales of part ${op.part.index}`] }
    case 'promote':
      return { reads: ['acc', 'parts', `scales of part ${op.part.index}`] }
    case 'park':
    case 'send_sums':
    case 'add_sums':
    case 'leave_cells':
    case 'add_cells':
      return { reads: ['acc'] }
    case 'store_part':
    case 'add_parts':
      return { reads: ['at', ...sumsOf(program)] }
    case 'zero_cells':
      if (program.registers?.warps)
        return { makes: ['acc', 'fragments', ...(program.registers.parts ? ['parts'] : [])] }
      return program.registers?.parts ? { reads: ['acc'], makes: ['parts'] } : { makes: ['acc'] }
    case 'add_part':
      return { reads: ['k', 'tmem', 'acc'] }
    case 'park_cells':
      return { reads: ['tmem', 'acc'], makes: ['parked'] }
    case 'settle_rows':
    case 'load_fragments':
      return { reads: ['fragments'] }
    case 'mma_sync':
      return { reads: [op.chunk ? 'parts' : 'acc', 'fragments'] }
    case 'tmem_address':
      return { makes: ['tmem'] }
    case 'tmem_dealloc':
      return { reads: ['tmem'] }
    case 'fetch_first':
      return { reads: ['at'] }
    case 'fetch_next':
      return { reads: ['at', 'block', 'col'] }
    case 'for_row_blocks':
      return { reads: ['at'], around: ['block'] }
    case 'for_blocks':
      return { reads: ['at'], around: ['wide block'] }
    case 'for_subtiles':
      return { reads: ['at', ...(op.of === undefined ? [] : ['wide block'])], around: ['col'] }
    case 'measure_begin':
      return { makes: [`largest:${op.operand}`] }
    case 'measure':
      return { reads: [`out:${op.operand}`, 'col', `largest:${op.operand}`] }
    case 'for_warpgroups':
      return { around: ['warpgroup'] }
    case 'for_staged':
      return { reads: ['at', 'warpgroup'], around: ['block', 'col', 'warpgroup row'] }
    case 'after_first_staged':
      return { reads: ['block', 'col'] }
    case 'last_subtile':
    case 'stop_at_n':
      return { reads: ['col'] }
    case 'own_row':
      return {
        reads: ['at', ...(fragments ? ['block'] : [])],
        makes: ['warp row', ...(op.lane || fragments ? ['row'] : [])],
      }
    case 'tmem_load':
      return { reads: ['col', ...sumsOf(program)], makes: ['sum'] }
    case 'take_cells':
      return { reads: ['block', 'col', ...(op.from ? [] : ['acc'])], makes: ['sum'] }
    case 'prefetch_stage':
      return { reads: ['at', 'k'] }
    case 'fetch_stage':
      return { reads: ['at'] }
    case 'hold_stage':
      return { makes: [`held:${op.operand}.${op.part}`] }
    case 'take_stage':
      // The first one declares them.
      return op.blocks.some(({ column }) => column === 0)
        ? { makes: [`ahead:${op.operand}`] }
        : { reads: [`ahead:${op.operand}`] }
    case 'load_ahead':
      return { reads: ['at'], makes: op.shape === 'full' && !op.elements ? [] : [`ahead:${op.operand}`] }
    case 'load_next':
      return { reads: ['at', 'row', 'col', `ahead:${op.operand}`] }
    case 'aux_load':
      return {
        reads: [
          'at',
          ...SHAPE_READS[op.shape],
          ...(op.ahead ? [`ahead:${op.operand}`] : []),
          ...(op.stage?.parts.map((_, part) => `held:${op.operand}.${part}`) ?? []),
        ],
        makes: [`v:${op.operand}`],
      }
    case 'copy_rows':
      return { reads: ['warpgroup row', 'col'] }
    case 'compute': {
      const values = op.outputs.map(({ value }) => value)
      const scalars = program.source.scalars.filter(({ pointer }) => pointer).map(({ name }) => `v:${name}`)
      return {
        reads: ['sum', ...operandsOf(values).map((name) => `v:${name}`), ...scalars],
        makes: op.outputs.map(({ operand }) => `out:${operand}`),
      }
    }
    case 'quantise':
      return {
        reads: [
          `out:${op.operand}`,
          'row',
          'col',
          ...(op.shared === null && !op.measured ? [] : [`largest:${op.operand}`]),
        ],
        makes: [`coded:${op.operand}`],
      }
    case 'share_largest':
      return { reads: [`out:${op.operand}`, 'row', 'col'], makes: [`largest:${op.operand}`] }
    case 'stage_write':
      return { reads: [leaving(op.operand, program)] }
    case 'direct_store': {
      const places = (op.places ?? []).filter((place) => program.source.operands.some(({ name }) => name === place))
      return { reads: [leaving(op.operand, program), 'row', 'col', ...places.map((place) => `v:${place}`)] }
    }
    case 'row_store':
      return { reads: ['warp row', 'col'] }
    case 'tma_store': {
      const shared = program.buffers.find(({ name }) => name === op.buffer)?.per?.owner === 'warpgroup'
      return { reads: [shared ? 'warpgroup row' : 'warp row', 'col'] }
    }
    case 'reduce_begin':
      return { makes: [`total:${op.operand}`] }
    case 'reduce_subtile': {
      const keepsN = program.reductions.find(({ operand }) => operand === op.operand)?.keepsN
      return { reads: [`out:${op.operand}`, 'row', 'col', ...(keepsN ? [] : [`total:${op.operand}`])] }
    }
    case 'reduce_end':
      return { reads: [`total:${op.operand}`, 'row'] }
    default:
      return nothing
  }
}

interface Made {
  readonly name: string
  /** Operations that read it. */
  readonly readers: string[]
}

class Scope {
  readonly #made = new Map<string, Made>()
  readonly #around: Scope | null

  constructor(around: Scope | null) {
    this.#around = around
  }

  /** False: this body has it already. */
  make(name: string): boolean {
    if (this.#made.has(name)) return false
    this.#made.set(name, { name, readers: [] })
    return true
  }

  find(name: string): Made | null {
    return this.#made.get(name) ?? this.#around?.find(name) ?? null
  }

  get all(): Iterable<Made> {
    return this.#made.values()
  }
}

class Walk {
  readonly problems: string[] = []
  readonly #program: TileProgram

  constructor(program: TileProgram) {
    this.#program = program
  }

  body(ops: readonly TileOp[], scope: Scope, path: string): void {
    for (const [i, op] of ops.entries()) {
      const at = `${path}${path.includes(' ') ? '.' : ' '}${i}`
      const { reads = [], makes = [], around = [] } = flowOf(op, this.#program)
      for (const name of reads) {
        const made = scope.find(name)
        if (made) made.readers.push(op.op)
        else this.problems.push(`${at} ${op.op}: reads ${name}, which nothing has made`)
      }
      for (const name of makes)
        if (!scope.make(name)) this.problems.push(`${at} ${op.op}: makes ${name}, which is there already`)
      for (const [b, inner] of bodiesOf(op).entries()) {
        const own = new Scope(scope)
        for (const name of around) own.make(name)
        this.body(inner, own, op.op === 'by_loop' ? `${at}.${b}` : at)
      }
    }
    for (const { name, readers } of scope.all) {
      if (wanted(name) && readers.length === 0) this.problems.push(`${path}: ${name} is made for nobody`)
      if (/^(out|coded):/.test(name) && readers.filter((reader) => reader !== 'share_largest').length > 1)
        this.problems.push(`${path}: ${name} leaves more than once`)
      if (name.startsWith('total:') && readers.filter((reader) => reader === 'reduce_end').length > 1)
        this.problems.push(`${path}: ${name} leaves more than once`)
      if (name.startsWith('total:') && readers.at(-1) !== 'reduce_end')
        this.problems.push(`${path}: ${name} does not leave`)
      if (name.startsWith('total:') && !readers.includes('reduce_subtile'))
        this.problems.push(`${path}: ${name} is a total of nothing`)
    }
  }
}

/** The origin of the next tile is made once, in the body of the loop over tiles itself. */
function* originProblems(program: TileProgram): Generator<string> {
  const ops = [...opsOf(program)]
  const promised = ops.filter((op) => op.op === 'next_origin' && op.underMmas).length
  const kept = ops.filter((op) => op.op === 'origin_in_last_k').length
  if (promised !== kept) yield `the origin of the next tile is found ${kept} times under MMAs, not ${promised}`
  for (const op of opsOf(program))
    for (const body of bodiesOf(op))
      if (body.some((inner) => inner.op === 'next_origin') && (op.op !== 'for_tiles' || op.turns !== undefined))
        yield `${op.op}: the origin of the next tile is not for here`
}

const sameGuard = (a: Node | null, b: Node | null): boolean =>
  a === b || (a !== null && b !== null && text(a) === text(b))
const text = (node: Node): string => JSON.stringify(node, (key, value: unknown) => (key === 'span' ? undefined : value))

/** Loads are left out just where their values are. */
function* guardProblems(program: TileProgram): Generator<string> {
  const ops = [...opsOf(program)]
  const values = ops.flatMap((op) => (op.op === 'compute' ? op.outputs.map(({ value }) => value) : []))
  for (const op of ops)
    if (
      op.op === 'aux_load' ||
      op.op === 'load_ahead' ||
      op.op === 'load_next' ||
      op.op === 'fetch_first' ||
      op.op === 'fetch_next' ||
      op.op === 'prefetch_stage' ||
      op.op === 'fetch_stage' ||
      op.op === 'take_stage' ||
      op.op === 'copy_rows'
    )
      if (!sameGuard(op.guard, guardOf(values, op.operand)))
        yield `${op.op} ${op.operand}: its guard is not that of its uses`
}

/** Problems in words. */
export function valueProblems(program: TileProgram): string[] {
  const walk = new Walk(program)
  const kernel = new Scope(null)
  for (const { warp, body } of program.setup) walk.body(body, warp === null ? kernel : new Scope(kernel), 'setup')
  for (const role of program.roles) walk.body(role.body, new Scope(kernel), role.name)
  for (const { warp, body } of program.teardown) walk.body(body, warp === null ? kernel : new Scope(kernel), 'teardown')
  const computed = new Set<string>()
  for (const op of opsOf(program)) if (op.op === 'compute') for (const { operand } of op.outputs) computed.add(operand)
  for (const { name, role, partOf } of program.source.operands)
    if (partOf === undefined && (role === 'output') !== computed.has(name))
      walk.problems.push(`${name} ${role === 'output' ? 'is never computed' : 'is computed, but no output'}`)
  return [...walk.problems, ...originProblems(program), ...guardProblems(program)]
}
