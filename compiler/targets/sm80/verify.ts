/** What programs of SM80 have beside those of all targets: fragments by ldmatrix, mma.sync. */
import type { Tiles } from '../../verify/tiles.ts'
import { splitFormOf, warpMmaFormOf } from './mma.ts'
import { SMEM_LIMIT } from './plan.ts'

export function verifySm80(tiles: Tiles): void {
  const { launch, registers } = tiles.program
  if (!registers?.warps) tiles.problems.push('accumulators are not in the registers of warps')
  if (launch.sharedMemBytes > SMEM_LIMIT)
    tiles.problems.push(`${launch.sharedMemBytes} bytes of shared memory: there are ${SMEM_LIMIT}`)
  if (!tiles.ops.some(({ op }) => op === 'mma_sync')) tiles.problems.push('no operation multiplies')
  for (const op of tiles.ops) {
    if (op.op !== 'load_fragments') continue
    const loads = tiles.sources(
      op.op,
      op.a.buffer,
      op.products.map(({ buffer }) => buffer),
    )
    if (!loads) continue
    for (const [i, source] of [op.a, ...op.products].entries()) {
      const { major, span, pitch, swizzle } = loads[i]!.tile
      tiles.expect(`load_fragments ${source.operand}: tile`, source.tile, { major, span, pitch, swizzle })
      const held = tiles.loads.filter((load) => load.buffer === source.buffer).map(({ operand }) => operand)
      if (!held.includes(source.operand))
        tiles.problems.push(`load_fragments ${source.operand}: ${source.buffer} holds ${held.join(', ')}`)
    }
    tiles.expect('load_fragments: products', op.products.length, registers?.products)
    const [a, b] = loads.map(({ operand }) => tiles.operand(operand).dtype)
    for (const mma of tiles.ops) {
      if (mma.op !== 'mma_sync') continue
      const form = (mma.kind.split ? splitFormOf : warpMmaFormOf)(a!, b!, tiles.accumulator)
      const { split } = mma.kind
      const kind = form && { d: form.d, a: form.a, b: form.b, k: form.k, ...(split && { split }) }
      tiles.expect('mma_sync: kind', mma.kind, kind)
    }
  }
}
