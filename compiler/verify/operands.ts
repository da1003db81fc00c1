/** Tiles of operands: what brings them, and how they lie in shared memory. */
import { copyAxes } from '../ir/repack.ts'
import { DTYPES } from '../dtypes.ts'
import type { DepthView } from '../ir/pipe_loads.ts'
import type { TensorOperand } from '../ir/tensor.ts'
import { rowsRead } from '../ir/walk.ts'
import { expressionProblems } from '../ir/verify_tensor.ts'
import { DEALS, shiftedPitch, SWIZZLE_OF_ROW, type SharedTile, type Swizzle } from '../space/layout.ts'
import { axisTexts, freeSide } from '../space/domain.ts'
import { evaluateIx } from '../space/ix.ts'
import { stepCount, tileIndex } from '../targets/tensor_core/lower_loads.ts'
import type { Load, Tiles } from './tiles.ts'

export function checkLoads(tiles: Tiles): void {
  for (const load of tiles.loads) checkLoad(tiles, load)
  checkRows(tiles)
}

/** Rows that are looked up are those of the tile that is copied. */
function checkRows(tiles: Tiles): void {
  for (const { op, operand, ...found } of tiles.ops.filter((one) => one.op === 'find_rows')) {
    const scales = tiles.ops.find((load) => load.op === 'load_scales' && load.operand === operand)
    const copied = tiles.loads.find((load) => load.op === 'copy_tile' && load.operand === operand)
    const { free, tile, depth } = copied ?? {}
    const chunks = ((tile?.span ?? 0) * tiles.bytes(operand)) / 16
    const wanted =
      scales?.op === 'load_scales'
        ? { free: scales.free, rows: scales.layout.count, chunks: 1, along: scales.depth.axis }
        : { free, rows: tile?.rows, chunks, along: depth?.axis }
    tiles.expect(`${op} ${operand}: its tile`, found, wanted)
    if (!rowsRead(tiles.operand(operand))) tiles.problems.push(`${op}: rows of ${operand} are not looked up`)
  }
}

function checkLoad(tiles: Tiles, op: Load): void {
  const { domain, cluster } = tiles.program
  const { tile, free, depth, operand: name } = op
  const what = `${op.op} ${name}`
  const bytes = tiles.bytes(name)
  const operand = tiles.operand(name)
  const along = freeSide(domain, free)
  tiles.expect(`${what}: role`, operand.role, 'input')
  tiles.expect(`${what}: rows`, tile.rows, free === 'm' ? along.extent : along.extent / cluster.pair)
  tiles.expect(`${what}: depth`, tile.depth, domain.depth)
  const boxRows = tile.major === 'k' ? tile.rows : tile.depth
  const slotBytes = tile.shifted || tile.dealt ? boxRows * shiftedPitch(tile, bytes) : tile.rows * tile.depth * bytes
  tiles.expect(`${what}: bytes of a slot`, tiles.buffer(op.buffer).slotBytes, slotBytes)
  if (tile.shifted) checkShifted(tiles, what, op, operand)
  if (tile.dealt) checkDealt(tiles, what, op, operand)
  checkDepth(tiles, what, depth, operand, along.axis)
  if (![along.axis, depth.axis, ...depth.outer.map(({ axis }) => axis)].every((axis) => operand.axes.includes(axis)))
    tiles.problems.push(`${what}: lacks an axis of its tile`)
  const spans = tile.major === 'k' ? tile.depth : tile.rows
  tiles.expect(`${what}: span times boxes`, tile.span * tile.boxes, spans)
  tiles.expect(`${what}: pitch`, tile.pitch, tile.boxes > 1 ? boxRows * tile.span * bytes : 0)
  tiles.expect(`${what}: swizzle`, tile.swizzle, swizzleOf(op, tile, bytes))
  if (operand.computed) {
    tiles.expect(`${what}: who computes it`, op.op, op.op === 'copy_tile' && rowsRead(operand) ? 'copy_tile' : 'gather')
    for (const problem of expressionProblems([operand.computed], tiles.program.source))
      tiles.problems.push(`${what}: ${problem}`)
  }
  const inner = operand.order.at(-1)
  if (op.op === 'gather') {
    if (op.batch < 1) tiles.problems.push(`${what}: ${op.batch} chunks at once`)
    return
  }
  if (op.op === 'copy_tile') {
    const read = rowsRead(operand)
    const source = read ? tiles.operand(read.operand) : operand
    tiles.expect(`${what}: type`, source.dtype, operand.dtype)
    const inOrder = tile.major === 'mn' || inner === depth.axis
    const aligned = inOrder ? { vector: 16, word: 4, element: bytes, repacked: bytes }[source.divisibility] : bytes
    tiles.expect(`${what}: bytes of a copy`, op.bytes, tile.shifted ? 16 : tile.dealt ? bytes : aligned)
    if (tile.major === 'mn' && !tile.dealt) tiles.expect(`${what}: contiguous axis`, inner, along.axis)
    if (op.bytes < 4) tiles.problems.push(`${what}: copies of ${bytes} bytes`)
    return
  }
  const copy = operand.divisibility === 'repacked' ? { region: name, axes: copyAxes(operand) } : undefined
  tiles.expect(`${what}: rows at multiples of 16 bytes`, operand.divisibility !== 'element', true)
  tiles.expect(`${what}: copy that ${op.map} is of`, tiles.map(op.map).copy, copy)
  const { slices } = op
  const sharers = slices ? (free === 'm' ? cluster.shape[1] : cluster.shape[0] / cluster.pair) : 1
  tiles.expect(`${what}: slices`, slices?.count ?? 1, free === 'm' ? cluster.shape[1] : cluster.shape[0] / cluster.pair)
  if (slices)
    tiles.expect(
      `${what}: rows and bytes of a slice`,
      [slices.rows, slices.bytes],
      [boxRows / sharers, (boxRows / sharers) * tile.span * bytes],
    )
  const axes = [tile.major === 'k' ? depth.axis : along.axis, tile.major === 'k' ? along.axis : depth.axis]
  const batch = domain.batch !== null && operand.axes.includes(domain.batch) ? [domain.batch] : []
  tiles.expectMap(
    what,
    op.map,
    name,
    [...axes, ...batch, ...depth.outer.map(({ axis }) => axis)],
    [tile.span, boxRows / sharers],
    tile.swizzle,
    domain.sums && { rows: domain.depth, cut: 'before' },
  )
  if (domain.sums) tiles.expect(`${what}: contiguous with groups of k`, tile.major, 'mn')
  tiles.expect(`${what}: contiguous axis`, inner, axes[0])
  const { bits } = DTYPES[operand.dtype]
  tiles.expect(`${what}: padding of ${op.map}`, tiles.map(op.map).padded === true, bits < 8 && bytes === 1)
}

/** Fragments find the shift of a row by its number among 8: it is the same in all k tiles, of one loop. */
function checkShifted(tiles: Tiles, what: string, { op, tile, depth }: Load, operand: TensorOperand): void {
  tiles.expect(`${what}: shifted by`, op, 'copy_tile')
  tiles.expect(`${what}: bytes of shifted elements`, tiles.bytes(operand.name), 2)
  tiles.expect(`${what}: boxes of shifted rows`, tile.boxes, 1)
  tiles.expect(`${what}: loops of shifted rows`, [tiles.program.domain.loops.length, depth.outer.length], [1, 0])
  if (operand.computed) tiles.problems.push(`${what}: shifted rows are computed`)
  if (tile.major === 'k') tiles.expect(`${what}: contiguous axis`, operand.order.at(-1), depth.axis)
}

/** Lanes multiply rows of their own: f32, by any loops. */
function checkDealt(tiles: Tiles, what: string, { op, tile }: Load, operand: TensorOperand): void {
  tiles.expect(`${what}: dealt by`, op, 'copy_tile')
  tiles.expect(`${what}: bytes of dealt elements`, tiles.bytes(operand.name), 4)
  tiles.expect(`${what}: boxes of dealt rows`, [tile.major, tile.boxes], ['mn', 1])
  tiles.expect(`${what}: rows dealt by ${tile.dealt}`, tile.rows % DEALS[tile.dealt!].among, 0)
  // Warps share them by the bits of their numbers.
  if (!Number.isInteger(Math.log2(tile.rows))) tiles.problems.push(`${what}: ${tile.rows} dealt rows, no power of two`)
  if (operand.computed) tiles.problems.push(`${what}: dealt rows are computed`)
}

/** Rows of shared memory are spans of a pattern. */
function swizzleOf(op: Load, { major, span, shifted, dealt }: SharedTile, bytes: number): Swizzle {
  if (shifted || dealt) return 'none'
  // MMAs read transposed operands of 32 bits in one pattern only.
  if (bytes === 4 && major === 'mn' && op.op !== 'copy_tile') return '128B_ATOM_32B'
  // Lanes read an f64 each, of four neighbours along k at once: 32 bytes of a row, or of four rows.
  if (bytes === 8 && span * bytes === 128) return '128B_ATOM_32B'
  return SWIZZLE_OF_ROW[span * bytes] ?? 'none'
}

/** All positions along k are reached, once, in a loop that goes there. */
export function checkDepth(tiles: Tiles, what: string, depth: DepthView, operand: TensorOperand, free: string): void {
  const { axis, outer } = depth
  const { domain } = tiles.program
  const loops = [...domain.loops.keys()].filter(
    (i) => domain.loops[i]!.axis === axis && domain.loops[i]!.outer.join() === outer.map((o) => o.axis).join(),
  )
  if (loops.length === 0)
    tiles.problems.push(`${what}: no loop of the domain goes along ${[...outer.map((o) => o.axis), axis].join(', ')}`)
  const named = [axis, free, ...outer.map((o) => o.axis), ...(domain.batch === null ? [] : [domain.batch])]
  const missing = operand.axes.filter((one) => !named.includes(one))
  if (missing.length > 0) tiles.problems.push(`${what}: nothing says where along ${missing.join(', ')} it is`)
  if (!loops.some((loop) => reachesAll(tiles, depth, loop)))
    tiles.problems.push(`${what}: its k tiles are not those of the loop`)
}

/** With 5 for extents and steps: 25 k tiles of two axes, 125 of three. */
function reachesAll({ program: { domain } }: Tiles, { tile, outer }: DepthView, loop: number): boolean {
  const texts = axisTexts(domain)
  const known = new Set([stepCount(loop), ...outer.flatMap(({ axis }) => texts.get(axis)?.extent ?? [])])
  const names =
    (counter: number) =>
    (name: string): number =>
      name === tileIndex(loop) ? counter : known.has(name) ? 5 : NaN
  const count = 5 ** (outer.length + 1)
  const seen = new Set<string>()
  for (let k = 0; k < count; k++) {
    const at = [...outer.map((o) => evaluateIx(o.at, names(k))), evaluateIx(tile, names(k))]
    if (at.every((x) => x >= 0 && x < 5)) seen.add(at.join())
  }
  return seen.size === count
}
