/** What programs of SM90 have beside those of all targets: wgmma and its descriptors. */
import { legalContraction } from '../../dtypes.ts'
import { isPlain } from '../../space/domain.ts'
import { checkDepth } from '../../verify/operands.ts'
import type { Tiles } from '../../verify/tiles.ts'
import { wgmmaFormOf } from './mma.ts'

/** Parts of a stage: chunks of k times all that is in the accumulators. */
function verifyParts(tiles: Tiles): number {
  const { domain, registers } = tiles.program
  const mmas = tiles.ops.flatMap((op) => (op.op === 'wgmma' && op.part ? [op.part] : []))
  if (!registers?.parts) return (tiles.expect('parts', mmas.length, 0), 1)
  const { columns } = registers.parts
  const places = new Set(mmas.map(({ chunk, product, block, column }) => [chunk, product, block, column].join()))
  tiles.expect('places of parts', places.size, mmas.length)
  tiles.expect(
    'columns of parts',
    mmas.every(({ column }) => column % columns === 0 && column + columns <= domain.columns.extent),
    true,
  )
  tiles.expect(
    'places of columns',
    mmas.every(({ column, columnBytes }) => columnBytes === column * 128),
    true,
  )
  for (const op of tiles.ops)
    if (op.op === 'part_scales' || op.op === 'promote')
      tiles.expect(
        `${op.op}: part`,
        op.part,
        mmas.find(({ index }) => index === op.part.index),
      )
  const chunks = 1 + Math.max(...mmas.map(({ chunk }) => chunk))
  const each = registers.products * registers.rowBlocks * (domain.columns.extent / columns)
  tiles.expect('parts', mmas.length, chunks * each)
  tiles.expect(
    'products and blocks of parts',
    mmas.every(({ product, block }) => product < registers.products && block < registers.rowBlocks),
    true,
  )
  return chunks
}

/** Scales are those of the operands, each of a group of rows or columns and a chunk of k that lie in one block. */
function verifyScales(tiles: Tiles, chunks: number): void {
  const { domain } = tiles.program
  const loads = tiles.ops.filter((op) => op.op === 'load_scales')
  const users = tiles.ops.filter((op) => op.op === 'part_scales' || op.op === 'promote')
  for (const { operand: name, buffer, free, layout, depth, copies } of loads) {
    const what = `load_scales ${name}`
    const operand = tiles.operand(name)
    const { axes, blocks, dtype } = operand
    const along = free === 'm' ? domain.rows : domain.columns
    const block = (axis: string): number => (axes.includes(axis) ? (blocks?.[axes.indexOf(axis)] ?? 1) : layout.group)
    if (copies) tiles.expect(`${what}: copies of`, dtype, 'f32')
    checkDepth(tiles, what, depth, operand, along.axis)
    tiles.expect(`${what}: rows`, layout.group * layout.count, along.extent)
    tiles.expect(`${what}: groups in blocks`, block(along.axis) % layout.group, 0)
    tiles.expect(`${what}: depth`, [layout.chunk * layout.chunks, layout.chunks], [domain.depth, chunks])
    tiles.expect(`${what}: chunks in blocks`, block(depth.axis) % layout.chunk, 0)
    tiles.expect(
      `${what}: bytes of a slot`,
      tiles.buffer(buffer).slotBytes,
      Math.ceil((layout.count * layout.chunks) / 4) * 16,
    )
    for (const { a, b } of users)
      for (const [source, side] of [
        [a, 'm'],
        [b, 'n'],
      ] as const)
        if (source?.buffer === buffer) {
          tiles.expect(`${what}: layout`, source.layout, layout)
          tiles.expect(`${what}: side`, side, free)
        }
  }
  for (const { a, b } of users)
    for (const source of [a, b])
      if (source && !loads.some(({ buffer }) => buffer === source.buffer))
        tiles.problems.push(`nothing loads ${source.buffer}`)
}

export function verifySm90(tiles: Tiles): void {
  const { domain, registers } = tiles.program
  if (!registers || registers.warps) tiles.problems.push('accumulators are not in the registers of warpgroups')
  const chunks = verifyParts(tiles)
  verifyScales(tiles, chunks)
  const mmas = tiles.ops.filter((op) => op.op === 'wgmma')
  if (mmas.length !== 1 && !registers?.parts) tiles.problems.push(`${mmas.length} operations multiply, not one`)
  for (const op of mmas) {
    const loads = tiles.sources(
      'wgmma',
      op.a,
      op.products.map(({ b }) => b),
    )
    if (!loads) continue
    const [a, ...bs] = loads
    const [b] = bs
    tiles.descriptor('wgmma', a!, op.aDescriptor, op.blockBytes)
    for (const load of bs) tiles.descriptor('wgmma', load, op.bDescriptor)
    tiles.expect('wgmma: steps', op.steps * chunks, tiles.steps(a!.operand))
    tiles.expect('wgmma: columns', op.n, registers?.parts?.columns ?? domain.columns.extent)
    const majors = [a!.tile.major, b!.tile.major]
    tiles.expect('wgmma: majors', [op.aMajor, op.bMajor], majors)
    const types = [tiles.operand(a!.operand).dtype, tiles.operand(b!.operand).dtype] as const
    const form = wgmmaFormOf(...types, registers?.parts ? legalContraction(...types)![0]! : tiles.accumulator)
    tiles.expect('type of parts', registers?.parts?.cells, registers?.parts && form?.d)
    tiles.expect('wgmma: kind', op.kind, form && { d: form.d, a: form.a, b: form.b, k: form.k })
    if (!form?.transposes) tiles.expect('wgmma: K-major operands', majors, ['k', 'k'])
    if (op.stopsAtK && !isPlain(domain)) tiles.problems.push('wgmma: a sum of several loops has no one end')
  }
}
