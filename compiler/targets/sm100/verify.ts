/** What programs of SM100 have beside those of all targets: tcgen05.mma, its descriptors, instruction and scales. */
import { legalContraction } from '../../dtypes.ts'
import { takesBlocks } from '../../stored/blocks.ts'
import type { AtomLoad, AtomWrite } from '../../ir/pipe_loads.ts'
import type { AtomSource, Mma } from '../../ir/pipe_mma.ts'
import { inTiles, TILE_BYTES, TILE_INNER, TILE_OUTER, tilingOf } from '../../stored/tiles.ts'
import { freeSide } from '../../space/domain.ts'
import type { Tiles } from '../../verify/tiles.ts'
import { sumsInRegisters } from './parts.ts'
import { ATOM_COLUMNS, atomsAcross } from '../tensor_core/scale_atoms.ts'
import { verifyScaleLoads } from '../tensor_core/verify_scales.ts'
import {
  instructionDescriptor,
  instructionText,
  mmaKindOf,
  ONES,
  scaledKindOf,
  scalesOfStep,
  type KindRow,
} from './mma.ts'

type AtomsOp = AtomLoad | AtomWrite

export function verifySm100(tiles: Tiles): void {
  const { domain, cluster, target, tmem } = tiles.program
  if (tmem === null) tiles.problems.push('accumulators are not in tensor memory')
  const mmas = tiles.ops.filter((op) => op.op === 'mma')
  const chunks = verifyParts(tiles, mmas)
  const atoms = tiles.ops.filter((op) => op.op === 'load_atoms' || op.op === 'write_atoms')
  for (const op of mmas) {
    const loads = tiles.sources(
      'mma',
      op.a,
      op.products.map(({ b }) => b),
    )
    if (!loads) continue
    const [a, ...bs] = loads
    const [b] = bs
    tiles.descriptor('mma', a!, op.aDescriptor)
    for (const load of bs) tiles.descriptor('mma', load, op.bDescriptor)
    tiles.expect('mma: steps', op.steps * chunks, tiles.steps(a!.operand))
    const types = [tiles.operand(a!.operand).dtype, tiles.operand(b!.operand).dtype] as const
    const shape = {
      a: types[0],
      b: types[1],
      accumulator: op.chunk === null ? tiles.accumulator : legalContraction(...types)![0]!,
      aMajor: a!.tile.major,
      bMajor: b!.tile.major,
      m: domain.rows.extent * cluster.pair,
      n: freeSide(domain, 'n').extent,
    }
    const [scales] = atoms
    const formOf = scales ? scaledKindOf[tiles.operand(scales.operand).dtype] : mmaKindOf
    const kind = formOf?.(shape.a, shape.b, shape.accumulator) ?? null
    tiles.expect('mma: kind', op.kind, kind?.targets.includes(target) ? kind.kind : null)
    if (kind) {
      tiles.expect('mma: instruction', op.instruction, {
        descriptor: instructionDescriptor(kind, shape),
        text: instructionText(shape),
      })
      verifyScales(tiles, op, kind, atoms)
    }
  }
}

/** MMAs add to the accumulators, or each chunk of a stage is summed by itself and added once, in order. Chunks of a stage. */
function verifyParts(tiles: Tiles, mmas: readonly Mma[]): number {
  const adds = tiles.ops.filter((op) => op.op === 'add_part')
  const isParted = tiles.program.tmem?.sums !== null
  const wanted = isParted ? adds.map((_, chunk) => chunk) : [null]
  tiles.expect(
    'chunks that are summed',
    mmas.map(({ chunk }) => chunk),
    wanted,
  )
  tiles.expect(
    'parts that are added',
    adds.map(({ chunk, of }) => [chunk, of]),
    isParted ? wanted.map((chunk) => [chunk, wanted.length]) : [],
  )
  const { tmem, roles } = tiles.program
  const cells = tmem?.columnsPerAccumulator ?? 0
  const own = sumsInRegisters(
    cells,
    roles.some(({ name }) => name === 'gather'),
  )
  tiles.expect('sums in registers', tmem?.inRegisters, isParted && own < cells ? own : undefined)
  const columnsHeld = tiles.program.layout.columns * freeSide(tiles.program.domain, 'n').ways
  verifyScaleLoads(tiles, Math.max(1, adds.length), adds)
  const [a, b] = [mmas[0]?.a, mmas[0]?.products[0]?.b].map((buffer) => tiles.loadInto(buffer ?? '')?.operand)
  for (const { cells, b: columns } of adds) {
    const type = a && b && legalContraction(tiles.operand(a).dtype, tiles.operand(b).dtype)?.[0]
    tiles.expect('type of parts', cells, type === 'i32' ? 's32' : 'f32')
    tiles.expect('scales of products', columns.length, mmas[0]?.products.length)
    for (const source of columns)
      if (source && columnsHeld % source.layout.group !== 0)
        tiles.problems.push(`columns of a thread are no whole groups of ${source.layout.group}`)
  }
  return Math.max(1, adds.length)
}

/** Scales of A, and of the B of each product, from the operand through a buffer to columns of tensor memory that only they have. */
function verifyScales(tiles: Tiles, { scales, products }: Mma, kind: KindRow, loads: readonly AtomsOp[]): void {
  const copies = tiles.ops.filter((op) => op.op === 'copy_atoms')
  const fills = tiles.ops.filter((op) => op.op === 'fill_columns')
  tiles.expect('mma: scales of a step', scales?.perStep ?? 0, scalesOfStep(kind))
  const { domain } = tiles.program
  const { columns: all, ring, columnsPerAccumulator } = tiles.program.tmem!
  const sources: AtomSource[] = scales ? [scales.a, ...scales.b] : []
  const count = sources.filter(({ atoms }) => atoms !== null).length
  tiles.expect('scales that are loaded, and copied', [loads.length, copies.length], [count, count])
  if (!scales) return
  let end = tiles.program.rings.find(({ name }) => name === ring)!.slots * columnsPerAccumulator
  for (const [i, { column, atoms }] of sources.entries()) {
    tiles.expect('mma: column of scales', column, end)
    if (!atoms) {
      const { extent } = freeSide(domain, i === 0 ? 'm' : 'n')
      const columns = Math.ceil(extent / TILE_OUTER) * ATOM_COLUMNS
      end += columns
      const filled = fills.filter((op) => op.column === column)
      const wanted = { op: 'fill_columns', column, columns, word: ONES[kind.scale!.dtype] }
      tiles.expect(`columns of ones from ${column} on`, filled, filled.length > 0 ? filled.map(() => wanted) : [wanted])
      continue
    }
    end += atoms.rows * atoms.steps * ATOM_COLUMNS
    const copy = copies.find((op) => op.column === column)
    const load = loads.find(({ buffer }) => buffer === copy?.buffer)
    if (!copy || !load) tiles.problems.push(`mma: nobody brings the scales in column ${column}`)
    else {
      tiles.expect('mma: atoms of scales', [copy.atoms, load.atoms], [atoms, atoms])
      tiles.expect('mma: side of scales', load.free, i === 0 ? 'm' : 'n')
      verifyLoad(tiles, load, kind)
    }
  }
  if (end > all) tiles.problems.push(`scales end at column ${end} of ${all}`)
}

function verifyLoad(tiles: Tiles, op: AtomsOp, kind: KindRow): void {
  const { operand: name, buffer, free, atoms, depth } = op
  const block = kind.scale?.block ?? 0
  const { domain } = tiles.program
  const what = `${op.op} ${name}`
  const operand = tiles.operand(name)
  const along = freeSide(domain, free)
  const isMapped = op.op === 'load_atoms'
  const rows = isMapped ? atomsAcross(along.extent) : Math.ceil(along.extent / TILE_OUTER)
  tiles.expect(`${what}: type`, operand.dtype, kind.scale?.dtype)
  tiles.expect(`${what}: tiles`, [inTiles(operand.order), atoms.from], isMapped ? [true, 'memory'] : [false, 'tile'])
  if (op.op === 'write_atoms') tiles.expect(`${what}: block`, op.block, block)
  tiles.expect(`${what}: blocks`, takesBlocks(operand, depth.axis, block), true)
  tiles.expect(`${what}: rows`, atoms.rows, rows)
  tiles.expect(`${what}: depth`, atoms.steps * TILE_INNER * block, domain.depth)
  tiles.expect(`${what}: bytes of a slot`, tiles.buffer(buffer).slotBytes, atoms.rows * atoms.steps * TILE_BYTES)
  if (!isMapped) return
  tiles.expect(`${what}: alignment`, operand.divisibility, 'vector')
  const tiling = tilingOf(operand)
  tiles.expect(`${what}: sides of tiles`, [tiling?.outer, tiling?.inner], [along.axis, depth.axis])
  const batch = domain.batch !== null && operand.axes.includes(domain.batch) ? [domain.batch] : []
  const axes = [along.axis, depth.axis, ...batch]
  const rule = tiles.map(op.map)
  tiles.expect(
    `${what}: ${op.map}`,
    [rule.operand, rule.dtype, rule.axes, rule.swizzle],
    [name, operand.dtype, axes, 'none'],
  )
  tiles.expect(`${what}: box of ${op.map}`, rule.box, [TILE_BYTES / 4, atoms.rows, atoms.steps, ...batch.map(() => 1)])
  const { groups } = domain
  tiles.expect(`${what}: groups of ${op.map}`, rule.groups, groups?.along === free ? groups.group : undefined)
  tiles.expect(`${what}: tiles of ${op.map}`, rule.tiles, [TILE_OUTER, TILE_INNER * block, ...batch.map(() => 1)])
}
