/**
 * A stage whose contractions go through shared memory: each CTA walks tiles of rows and columns. A thread owns one element of each, or a patch of
 * elements that lie as far apart as there are threads: neighbours load and store neighbours.
 */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../../compiler/dtypes.ts'
import { packedOf } from '../../../compiler/targets/simt/domain.ts'
import type { SimtTile, Stage, TileBuffer, TileLoop } from '../../../compiler/targets/simt/plan.ts'
import type { Node } from '../../../compiler/ir/tensor.ts'
import { children, operandNamed, topological } from '../../../compiler/ir/walk.ts'
import { literal } from '../../cuda/expression.ts'
import { offset, type SimtContext } from './context.ts'
import { emitBlock, emitPoints, emitPositions, type Points } from './domain.ts'
import { emitGuard } from './guard.ts'
import { accumulate, emitFactor, finishAccumulator } from './scope.ts'
import { emitCodes, emitCodeStores, emitStores, plainStores } from './stores.ts'

/** The rows, or the columns, of the current tile. */
interface Side {
  /** Is there a row `x` of the tile? */
  readonly exists: (x: string) => string
  /** The row `x`, or the last one where there is none. */
  readonly inside: (x: string) => string
  /** Are there all rows of the tile? */
  readonly whole: string
  /** Declares the positions of row `x`; returns further conditions under which it exists. */
  readonly emit: (x: string) => string[]
}

export function emitTileStage(context: SimtContext, stage: Stage, tile: SimtTile): void {
  const { out } = context
  const { split, extents, threads, buffers } = tile
  const [tileM, tileN, tileK] = extents
  const bufferNames = new Map(
    buffers.map((buffer, i) => [buffer, `${buffer.side === 'rows' ? 'row' : 'column'}_tile_${i}`]),
  )
  for (const buffer of buffers) {
    const [rows, columns] = buffer.side === 'rows' ? [tileM, tileK] : [tileK, tileN]
    out.line(`__shared__ ${CUDA_COMPUTE_TYPE[buffer.type]} ${bufferNames.get(buffer)!}[${rows}][${columns + 1}];`)
  }
  out.line(`const int row = threadIdx.x / ${threads[1]}, column = threadIdx.x % ${threads[1]};`)
  const batch = emitPoints(context, split.batch, new Set())
  out.line(
    `const long long tiles_m = ${tileCount(context, split.rows, tileM, batch)}, tiles_n = ${tileCount(context, split.columns, tileN, batch)};`,
  )
  out.line(`const long long tiles = tiles_m * tiles_n${batch.ranges.length > 0 ? ` * (${batch.count})` : ''};`)
  out.block('for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x)', () => {
    const isBatched = batch.ranges.length > 0
    out.line(`const long long line = tile / tiles_n, tile_n = tile - line * tiles_n;`)
    if (isBatched) out.line('long long rest = line / tiles_m;')
    out.line(`const long long tile_m = ${isBatched ? 'line - rest * tiles_m' : 'line % tiles_m'};`)
    const conditions = emitPositions(context, batch, 'rest')
    if (conditions.length > 0) out.line(`if (!(${conditions.join(' && ')})) continue;`)
    const known = new Set(batch.known)
    const sides = emitSides(context, tile, known)
    const patch = patchOf(tile)
    const sums = new Map<Node, string>()
    for (const node of stage.loops) {
      const name = `sum_${context.temporaries.count++}`
      const declared = patch.single ? `${name} = ${literal(node.type, 0).text}` : `${name}${patch.extents} = {}`
      out.line(`${CUDA_COMPUTE_TYPE[node.type]} ${declared};`, { ktl: node.span, note: 'accumulator' })
      sums.set(node, `${name}${patch.element}`)
    }
    for (const loop of tile.loops) {
      const guards = loop.products.map(({ node }) => emitGuard(context, node, true))
      const emit = (): void => emitLoop(context, loop, tile, { sides, known, bufferNames, sums })
      if (guards.length === 1 && guards[0]) out.block(`if (${guards[0]})`, emit)
      else emit()
    }
    const held = patch.single ? null : heldStores(context, stage)
    // Of tiles that are whole nothing is asked of an element, and none is looked for: that costs more than to compute it.
    const placed = placedStores(context, stage, tile)
    if (held) return emitHeld(context, held, stage.loops, { patch, sides, sums, placed })
    const finish = (): void => {
      for (const node of stage.loops) finishAccumulator(context, node, sums.get(node)!)
    }
    emitPatch(context, { patch, sides, placed }, finish, (own) => emitStores(own, stage.results, sums))
  })
}

/** Elements of a patch: those of whole tiles are stored where `placed` says. `before`: of each, whether it exists or not. */
function emitPatch(
  context: SimtContext,
  { patch, sides: { rows, columns }, placed }: { patch: Patch; placed: PlacedStores } & Pick<Tiling, 'sides'>,
  before: () => void,
  store: (context: SimtContext) => void,
): void {
  const { out } = context
  const storeAt = (own: SimtContext, isFound: boolean): void => {
    const more = isFound ? [] : [...rows.emit(patch.row), ...columns.emit(patch.column)]
    if (more.length > 0) out.block(`if (${more.join(' && ')})`, () => store(own))
    else store(own)
  }
  const emitElements = (element: () => void): void =>
    forPatch(context, patch, () => {
      before()
      element()
    })
  const asked = (): void =>
    emitElements(() =>
      out.block(`if (${rows.exists(patch.row)} && ${columns.exists(patch.column)})`, () => storeAt(context, false)),
    )
  if (patch.single) return asked()
  out.block(`if (${[rows.whole, columns.whole, ...placed.conditions].join(' && ')})`, () => {
    placed.declare()
    emitElements(() => storeAt({ ...context, placed: placed.elements }, !placed.needsPositions))
  })
  out.block('else', asked)
}

/** Where the elements of a whole patch go, by output: so far from its first one. */
interface PlacedStores {
  readonly conditions: readonly string[]
  /** Other outputs, or values, ask where an element is. */
  readonly needsPositions: boolean
  readonly declare: () => void
  readonly elements: ReadonlyMap<string, string>
}

/** Outputs of rows of one axis and columns of another, contiguous along these; others are found element by element. */
function placedStores(context: SimtContext, { results }: Stage, { split, extents, threads }: SimtTile): PlacedStores {
  const { names, out, program } = context
  const stores = plainStores(results) ?? []
  const [row, column] = [split.rows[0]!, split.columns[0]!]
  const isPlain = split.rows.length === 1 && split.columns.length === 1 && !program.axes.some(({ ragged }) => ragged)
  const placed = stores
    .map(({ output }) => operandNamed(program, output.operand))
    .filter(
      ({ axes, order, dtype }) => isPlain && axes.includes(row) && order.at(-1) === column && DTYPES[dtype].bits >= 8,
    )
  const name = (operand: string): string => `to_${names.operand(operand)}`
  const asks = ({ output }: (typeof stores)[number]): boolean =>
    topological([output.value]).some(({ kind }) => kind === 'axis')
  return {
    needsPositions: placed.length < results.length || stores.some(asks),
    conditions: placed.map((operand) => `${names.stride(operand.name, column)} == 1`),
    declare: () => {
      for (const operand of placed) {
        const first = { [row]: `(first_m + row)`, [column]: `(first_n + column)` }
        const positions = operand.axes.map((axis) => first[axis] ?? names.index(axis))
        const address = `${names.operand(operand.name)} + (${offset(context, operand.name, positions)})`
        out.line(`${DTYPES[operand.dtype].cudaStorage}* const ${name(operand.name)} = ${address};`)
      }
    },
    elements: new Map(
      placed.map((operand) => [
        operand.name,
        `${name(operand.name)}[i * ${threads[0]} * ${names.stride(operand.name, row)} + j * ${threads[1]}]`,
      ]),
    ),
  }
}

/**
 * Stores that wait until all elements of a patch are computed, for kernels that read operands behind their sums: no load moves up over a store of what
 * might be the same memory. null: there are no such operands, or points that must not be read.
 */
function heldStores({ program }: SimtContext, { results, loops }: Stage): ReturnType<typeof plainStores> {
  const stores = plainStores(results)
  if (!stores || program.axes.some(({ ragged }) => ragged)) return null
  const reads = (node: Node): boolean =>
    node.kind === 'input' ? node.axes.length > 0 : !loops.some((loop) => loop === node) && children(node).some(reads)
  return stores.some(({ output }) => reads(output.value)) ? stores : null
}

function emitHeld(
  context: SimtContext,
  stores: NonNullable<ReturnType<typeof plainStores>>,
  loops: Stage['loops'],
  { patch, sides, sums, placed }: { patch: Patch; placed: PlacedStores } & Pick<Tiling, 'sides' | 'sums'>,
): void {
  const { out, program } = context
  const codes = stores.map(({ output }) => {
    const name = `codes_${context.temporaries.count++}`
    out.line(`${DTYPES[operandNamed(program, output.operand).dtype].cudaStorage} ${name}${patch.extents};`)
    return `${name}${patch.element}`
  })
  const { rows, columns } = sides
  forPatch(context, patch, () => {
    for (const node of loops) finishAccumulator(context, node, sums.get(node)!)
    // Elements outside are those at the edge once more.
    rows.emit(rows.inside(patch.row))
    columns.emit(columns.inside(patch.column))
    emitCodes(context, stores, sums, codes)
  })
  // An operand may be the very tensor that is stored to, and elements of the edge are read by several threads.
  out.line('__syncthreads();')
  emitPatch(
    context,
    { patch, sides, placed },
    () => {},
    (own) => emitCodeStores(own, stores, codes),
  )
}

/** What a thread has of a tile, as CUDA. */
interface Patch {
  readonly single: boolean
  readonly counts: readonly [number, number]
  /** `[8][4]` */
  readonly extents: string
  /** Behind the name of its sums: `[i][j]`. */
  readonly element: string
  /** Where the element is in the tile. */
  readonly row: string
  readonly column: string
}

function patchOf({ extents: [rows, columns], threads: [m, n] }: SimtTile): Patch {
  const counts = [rows / m, columns / n] as const
  if (counts[0] * counts[1] === 1)
    return { single: true, counts, extents: '', element: '', row: 'row', column: 'column' }
  const [row, column] = [`(row + i * ${m})`, `(column + j * ${n})`]
  return { single: false, counts, extents: `[${counts.join('][')}]`, element: '[i][j]', row, column }
}

/** For each element of a patch, which has its sums in registers: all indices are known. */
function forPatch({ out }: SimtContext, { single, counts: [rows, columns] }: Patch, body: () => void): void {
  if (single) return body()
  out.line('#pragma unroll')
  out.block(`for (int i = 0; i < ${rows}; ++i)`, () => {
    out.line('#pragma unroll')
    out.block(`for (int j = 0; j < ${columns}; ++j)`, body)
  })
}

/** The packed axis whose groups tiles begin with: it says what group the tile is in. */
const leadingGroups = (
  { program }: SimtContext,
  axes: readonly string[],
  known: ReadonlySet<string>,
): string | null => {
  const packed = axes.find((axis) => packedOf(program, axis))
  return packed !== undefined && !known.has(packedOf(program, packed)!.group) ? packed : null
}

/** At most so many tiles: each group may end with one that is not full. Without groups there is no end to read. */
function tileCount(context: SimtContext, axes: readonly string[], extent: number, batch: Points): string {
  const { names, program } = context
  const count = axes.map((axis) => names.extent(axis)).join(' * ')
  const leading = leadingGroups(context, axes, batch.known)
  const tiles = `(${axes.length > 1 ? '1LL * ' : ''}${count} + ${extent - 1}LL) / ${extent}`
  if (leading === null) return tiles
  const groups = names.extent(packedOf(program, leading)!.group)
  return `(${groups} == 0 ? 0 : ${tiles} + ${groups})`
}

function emitSides(
  context: SimtContext,
  { split, extents }: SimtTile,
  known: Set<string>,
): { rows: Side; columns: Side } {
  const make = {
    rows: () => emitSide(context, split.rows, 'm', extents[0], known),
    columns: () => emitSide(context, split.columns, 'n', extents[1], known),
  }
  // Whoever says the group comes first.
  if (leadingGroups(context, split.rows, known) === null && leadingGroups(context, split.columns, known) !== null) {
    const columns = make.columns()
    return { rows: make.rows(), columns }
  }
  return { rows: make.rows(), columns: make.columns() }
}

function emitSide(
  context: SimtContext,
  axes: readonly string[],
  suffix: 'm' | 'n',
  extent: number,
  known: Set<string>,
): Side {
  const { out, names, program } = context
  const leading = leadingGroups(context, axes, known)
  const [first, count] = [`first_${suffix}`, `count_${suffix}`]
  const within = {
    exists: (x: string): string => `${x} < ${count}`,
    inside: (x: string): string => `min(${x}, ${count} - 1)`,
    whole: `${count} == ${extent}`,
  }
  if (leading !== null) {
    emitBlock(context, leading, extent, `tile_${suffix}`, false, [first, count])
    out.line(`if (${count} <= 0) continue;`)
    known.add(packedOf(program, leading)!.group)
    known.add(leading)
    const emit = (x: string): string[] => {
      out.line(`const int ${names.index(leading)} = ${first} + ${x};`)
      return []
    }
    return { ...within, emit }
  }
  const points = emitPoints(context, axes, known)
  axes.forEach((axis) => known.add(axis))
  out.line(`const long long ${first} = tile_${suffix} * ${extent};`)
  out.line(`const int ${count} = (int)min(${points.count} - ${first}, ${extent}LL);`)
  if (points.ranges.some(({ axis, extent: text }) => text !== names.extent(axis)))
    out.line(`if (${count} <= 0) continue;`)
  const emit = (x: string): string[] => {
    out.line(`long long rest_${suffix} = ${first} + ${x};`)
    return emitPositions(context, points, `rest_${suffix}`)
  }
  return { ...within, emit }
}

interface Tiling {
  readonly sides: { readonly rows: Side; readonly columns: Side }
  readonly known: ReadonlySet<string>
  readonly bufferNames: ReadonlyMap<TileBuffer, string>
  readonly sums: ReadonlyMap<Node, string>
}

function emitLoop(
  context: SimtContext,
  loop: TileLoop,
  tile: SimtTile,
  { sides, known, bufferNames, sums }: Tiling,
): void {
  const { out } = context
  const tileK = tile.extents[2]
  const points = emitPoints(context, loop.over, known)
  const count = `count_${context.temporaries.count++}`
  out.line(`const long long ${count} = ${points.count};`)
  out.block(`for (long long first_k = 0; first_k < ${count}; first_k += ${tileK})`, () => {
    const buffers = new Set(loop.products.flatMap(({ rows, columns }) => [rows, columns]))
    const patch = patchOf(tile)
    // A short sum ends within its first step.
    if (!patch.single) out.line(`const int depth = (int)min(${count} - first_k, ${tileK}LL);`)
    for (const buffer of buffers)
      emitLoad(context, tile, buffer, bufferNames.get(buffer)!, sides[buffer.side], points, count)
    out.line('__syncthreads();')
    out.line('#pragma unroll 8')
    out.block(`for (int k = 0; k < ${tileK}; ++k)`, () => {
      if (!patch.single) out.line('if (k >= depth) break;')
      forPatch(context, patch, () => {
        for (const { node, rows, columns } of loop.products) {
          const [a, b] = [
            `${bufferNames.get(rows)!}[${patch.row}][k]`,
            `${bufferNames.get(columns)!}[k][${patch.column}]`,
          ]
          out.line(accumulate(context, node.type, sums.get(node)!, a, b), { ktl: node.span, note: 'contraction' })
        }
      })
    })
    out.line('__syncthreads();')
  })
}

/** All threads compute one factor's tile, neighbours along what is contiguous in memory; 0 outside. */
function emitLoad(
  context: SimtContext,
  tile: SimtTile,
  buffer: TileBuffer,
  name: string,
  side: Side,
  points: Points,
  count: string,
): void {
  const { out } = context
  const [tileM, tileN, tileK] = tile.extents
  const extent = buffer.side === 'rows' ? tileM : tileN
  const isPatch = !patchOf(tile).single
  const [x, k] = buffer.alongK && !isPatch ? [`i / ${tileK}`, `i % ${tileK}`] : [`i % ${extent}`, `i / ${extent}`]
  const elements = isPatch ? `${extent} * depth` : extent * tileK
  out.block(`for (int i = threadIdx.x; i < ${elements}; i += ${tile.threads[0] * tile.threads[1]})`, () => {
    out.line(`const int x = ${x}, k = ${k};`)
    out.line(`${CUDA_COMPUTE_TYPE[buffer.type]} value = ${literal(buffer.type, 0).text};`)
    out.block(`if (${side.exists('x')}${isPatch ? '' : ` && first_k + k < ${count}`})`, () => {
      const conditions = side.emit('x')
      out.line('long long rest_k = first_k + k;')
      conditions.push(...emitPositions(context, points, 'rest_k'))
      const emit = (): void =>
        void out.line(`value = ${emitFactor(context, buffer.factor, buffer.type)};`, { note: `tile ${name}` })
      if (conditions.length > 0) out.block(`if (${conditions.join(' && ')})`, emit)
      else emit()
    })
    out.line(`${name}${buffer.side === 'rows' ? '[x][k]' : '[k][x]'} = value;`)
  })
}
