/** What programs of SM100 have beside those of all targets: tcgen05.mma, its descriptors and instruction. */
import type { Tiles } from '../../verify/tiles.ts'
import { instructionDescriptor, instructionText, mmaKindOf } from './mma.ts'

export function verifySm100(tiles: Tiles): void {
  const { domain, cluster, target, tmem } = tiles.program
  if (tmem === null) tiles.problems.push('accumulators are not in tensor memory')
  const mmas = tiles.ops.filter((op) => op.op === 'mma')
  if (mmas.length !== 1) tiles.problems.push(`${mmas.length} operations multiply, not one`)
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
    tiles.expect('mma: steps', op.steps, tiles.steps(a!.operand))
    const shape = {
      a: tiles.operand(a!.operand).dtype,
      b: tiles.operand(b!.operand).dtype,
      accumulator: tiles.accumulator,
      aMajor: a!.tile.major,
      bMajor: b!.tile.major,
      m: domain.rows.extent * cluster.pair,
      n: domain.columns.extent,
    }
    const kind = mmaKindOf(shape.a, shape.b, shape.accumulator)
    tiles.expect('mma: kind', op.kind, kind?.targets.includes(target) ? kind.kind : null)
    if (kind)
      tiles.expect('mma: instruction', op.instruction, {
        descriptor: instructionDescriptor(kind, shape),
        text: instructionText(shape),
      })
  }
}
