/** What programs of SM90 have beside those of all targets: wgmma and its descriptors. */
import { legalContraction } from '../../dtypes.ts'
import { productsOfMma, registersSet } from '../../ir/pipe.ts'
import { freeSide, isPlain } from '../../space/domain.ts'
import type { Tiles } from '../../verify/tiles.ts'
import { verifyScaleLoads } from '../tensor_core/verify_scales.ts'
import { multipliesColumns, wgmmaFormOf } from './mma.ts'

/** 32-bit registers of an SM. */
const REGISTER_FILE = 65_536

/** Parts of a stage: chunks of k times all that is in the accumulators. */
function verifyParts(tiles: Tiles): number {
  const { domain, registers } = tiles.program
  const products = registers ? productsOfMma(registers) : 1
  const mmas = tiles.ops.flatMap((op) => {
    const part = op.op === 'wgmma' ? op.part : null
    if (!part) return []
    return Array.from({ length: products }, (_, i) => ({ ...part, index: part.index + i, product: part.product + i }))
  })
  if (!registers?.parts) return (tiles.expect('parts', mmas.length, 0), 1)
  const { columns } = registers.parts
  const places = new Set(mmas.map(({ chunk, product, block, column }) => [chunk, product, block, column].join()))
  tiles.expect('places of parts', places.size, mmas.length)
  tiles.expect(
    'columns of parts',
    mmas.every(({ column }) => column % columns === 0 && column + columns <= freeSide(domain, 'n').extent),
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
  const each = registers.products * registers.rowBlocks * (freeSide(domain, 'n').extent / columns)
  tiles.expect('parts', mmas.length, chunks * each)
  tiles.expect(
    'products and blocks of parts',
    mmas.every(({ product, block }) => product < registers.products && block < registers.rowBlocks),
    true,
  )
  return chunks
}

/** Registers that warpgroups take are those that the others have given back: PTX ISA, setmaxnreg. */
function verifyRegisters(tiles: Tiles): void {
  const { roles, launch } = tiles.program
  const launched = Math.floor(REGISTER_FILE / launch.threads / 8) * 8
  let total = 0
  for (const role of roles) total += 32 * role.warps * (registersSet(role) ?? launched)
  if (total > launched * launch.threads)
    tiles.problems.push(`set_registers: ${total} registers, and ${launched * launch.threads} are there`)
}

/** What an MMA takes as one tile: each slot begins where the one before ends. */
function verifySideBySide(tiles: Tiles, names: readonly string[]): void {
  const [first] = names
  for (const [i, name] of names.entries()) {
    const { offset, slotBytes, pitch } = tiles.buffer(name)
    const start = tiles.buffer(first!).offset + i * slotBytes
    tiles.expect(`${name}: place beside ${first}`, [offset, pitch], [start, names.length * slotBytes])
  }
}

export function verifySm90(tiles: Tiles): void {
  verifyRegisters(tiles)
  const { domain, registers } = tiles.program
  if (!registers || registers.warps) tiles.problems.push('accumulators are not in the registers of warpgroups')
  const chunks = verifyParts(tiles)
  const users = tiles.ops.flatMap((op) => (op.op === 'part_scales' || op.op === 'promote' ? [op] : []))
  verifyScaleLoads(
    tiles,
    chunks,
    users.map(({ a, b }) => ({ a, b: [b] })),
  )
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
    const products = registers ? productsOfMma(registers) : 1
    tiles.expect('wgmma: columns', op.n, products * (registers?.parts?.columns ?? freeSide(domain, 'n').extent))
    if (registers?.joint)
      verifySideBySide(
        tiles,
        op.products.map(({ b }) => b),
      )
    const majors = [a!.tile.major, b!.tile.major]
    tiles.expect('wgmma: majors', [op.aMajor, op.bMajor], majors)
    const types = [tiles.operand(a!.operand).dtype, tiles.operand(b!.operand).dtype] as const
    const form = wgmmaFormOf(...types, registers?.parts ? legalContraction(...types)![0]! : tiles.accumulator)
    tiles.expect('type of parts', registers?.parts?.cells, registers?.parts && form?.d)
    tiles.expect('wgmma: kind', op.kind, form && { d: form.d, a: form.a, b: form.b, k: form.k })
    if (!multipliesColumns(op.kind, op.n)) tiles.problems.push(`wgmma: ${op.n} columns of ${op.kind.d}`)
    if (!form?.transposes) tiles.expect('wgmma: K-major operands', majors, ['k', 'k'])
    if (op.stopsAtK && !isPlain(domain)) tiles.problems.push('wgmma: a sum of several loops has no one end')
  }
}
