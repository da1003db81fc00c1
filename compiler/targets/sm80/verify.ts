/** What programs of SM80 have beside those of all targets: fragments by ldmatrix, mma.sync. */
import { legalContraction } from '../../dtypes.ts'
import type { Tiles } from '../../verify/tiles.ts'
import { sourceTile } from '../tensor_core/lower_loads.ts'
import { partsOf } from '../tensor_core/parts.ts'
import { verifyScaleLoads } from '../tensor_core/verify_scales.ts'
import { splitFormOf, warpMmaFormOf } from './mma.ts'
import { dealtOf } from './operands.ts'
import { MMA_ROWS, SMEM_LIMIT } from './plan.ts'

/** Chunks of k that MMAs sum by themselves: those of a stage one after the other, of each all parts that are in the accumulators. */
function verifySums(tiles: Tiles): void {
  const { registers } = tiles.program
  const mmas = tiles.ops.filter((op) => op.op === 'mma_sync')
  const users = tiles.ops.filter((op) => op.op === 'part_scales' || op.op === 'promote')
  if (!registers?.parts) {
    tiles.expect('parts', users.length, 0)
    tiles.expect(
      'mma_sync: chunks',
      mmas.every(({ chunk }) => chunk === null),
      true,
    )
    return
  }
  const chunks = mmas.filter(({ chunk }) => chunk === 'begins').length
  const { products, rowBlocks, columns } = registers
  tiles.expect('columns of parts', registers.parts.columns, columns)
  for (const kind of ['part_scales', 'promote'] as const)
    tiles.expect(
      `${kind}: parts`,
      users.flatMap(({ op, part }) => (op === kind ? [part] : [])),
      partsOf({ chunks, products, rowBlocks, columns }),
    )
  verifyScaleLoads(
    tiles,
    chunks,
    users.map(({ a, b }) => ({ a, b: [b] })),
  )
}

const rowsOfWarp = (registers: Tiles['program']['registers']): number => MMA_ROWS * (registers?.rowBlocks ?? 0)

export function verifySm80(tiles: Tiles): void {
  verifySums(tiles)
  const { launch, registers } = tiles.program
  if (!registers?.warps) tiles.problems.push('accumulators are not in the registers of warps')
  if (launch.sharedMemBytes > SMEM_LIMIT)
    tiles.problems.push(`${launch.sharedMemBytes} bytes of shared memory: there are ${SMEM_LIMIT}`)
  const { grid } = launch
  if (registers?.perSm !== undefined && grid.kind === 'persistent' && registers.perSm !== (grid.perSm ?? 1))
    tiles.problems.push(`registers for ${registers.perSm} CTAs of an SM, and ${grid.perSm ?? 1} are launched`)
  if (registers?.perSm === undefined && grid.kind === 'persistent' && grid.meets && grid.perSm !== undefined)
    tiles.problems.push(`parts wait for each other, and registers may leave no room for ${grid.perSm} CTAs of an SM`)
  if (!tiles.ops.some(({ op }) => op === 'mma_sync')) tiles.problems.push('no operation multiplies')
  for (const op of tiles.ops) {
    if (op.op === 'settle_rows') {
      const copied = tiles.loads.find(({ buffer, operand }) => buffer === op.buffer && operand === op.operand)
      tiles.expect(`settle_rows ${op.operand}: rows`, [copied?.tile.major, copied?.tile.shifted], ['k', true])
    }
    if (op.op !== 'load_fragments') continue
    const loads = tiles.sources(
      op.op,
      op.a.buffer,
      op.products.map(({ buffer }) => buffer),
    )
    if (!loads) continue
    for (const [i, source] of [op.a, ...op.products].entries()) {
      const { dealt } = loads[i]!.tile
      if (dealt)
        tiles.expect(
          `load_fragments ${source.operand}: rows of lanes`,
          dealt,
          dealtOf(i === 0 ? 'a' : 'b', rowsOfWarp(registers)),
        )
      const settled = tiles.ops.some((other) => other.op === 'settle_rows' && other.buffer === source.buffer)
      tiles.expect(`load_fragments ${source.operand}: tile`, source.tile, sourceTile(loads[i]!.tile, settled))
      const held = tiles.loads.filter((load) => load.buffer === source.buffer).map(({ operand }) => operand)
      if (!held.includes(source.operand))
        tiles.problems.push(`load_fragments ${source.operand}: ${source.buffer} holds ${held.join(', ')}`)
    }
    tiles.expect('load_fragments: products', op.products.length, registers?.products)
    const [a, b] = loads.map(({ operand }) => tiles.operand(operand).dtype)
    for (const mma of tiles.ops) {
      if (mma.op !== 'mma_sync') continue
      const sum = registers?.parts ? legalContraction(a!, b!)![0]! : tiles.accumulator
      const form = (mma.kind.split ? splitFormOf : warpMmaFormOf)(a!, b!, sum)
      tiles.expect('type of parts', registers?.parts?.cells, registers?.parts && form?.d)
      const { split } = mma.kind
      const kind = form && { d: form.d, a: form.a, b: form.b, k: form.k, ...(split && { split }) }
      tiles.expect('mma_sync: kind', mma.kind, kind)
    }
  }
}
