/** What programs of SM90 have beside those of all targets: wgmma and its descriptors. */
import { isPlain } from '../../space/domain.ts'
import type { Tiles } from '../../verify/tiles.ts'
import { wgmmaFormOf } from './mma.ts'

export function verifySm90(tiles: Tiles): void {
  const { domain, registers } = tiles.program
  if (!registers || registers.warps) tiles.problems.push('accumulators are not in the registers of warpgroups')
  const mmas = tiles.ops.filter((op) => op.op === 'wgmma')
  if (mmas.length !== 1) tiles.problems.push(`${mmas.length} operations multiply, not one`)
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
    tiles.expect('wgmma: steps', op.steps, tiles.steps(a!.operand))
    tiles.expect('wgmma: columns', op.n, domain.columns.extent)
    const majors = [a!.tile.major, b!.tile.major]
    tiles.expect('wgmma: majors', [op.aMajor, op.bMajor], majors)
    const form = wgmmaFormOf(tiles.operand(a!.operand).dtype, tiles.operand(b!.operand).dtype, tiles.accumulator)
    tiles.expect('wgmma: kind', op.kind, form && { d: form.d, a: form.a, b: form.b, k: form.k })
    if (!form?.transposes) tiles.expect('wgmma: K-major operands', majors, ['k', 'k'])
    if (op.stopsAtK && !isPlain(domain)) tiles.problems.push('wgmma: a sum of several loops has no one end')
  }
}
