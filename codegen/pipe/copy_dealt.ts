/**
 * Tiles of operands whose rows stand in the order in which lanes multiply them, by asynchronous copies of single elements, from rows along k or along m
 * and n alike. A thread has one address of either memory, from which the others are constants or strides away: where rows stand is a permutation of the
 * bits of their numbers.
 */
import type { CopyTile } from '../../compiler/ir/pipe_loads.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { add, constant, div, mod, mul, name, printIx, type Ix } from '../../compiler/space/ix.ts'
import { DEALS, shiftedPitch } from '../../compiler/space/layout.ts'
import { elementAddress, freeAxisOf, threadOf, timesStride, unrolled } from './copy_address.ts'
import { call, note, slotAddress, type EmitContext } from './context.ts'
import { depthOrigin } from './depth.ts'

const BYTES = 4
/** Lanes of a warp, and warps. */
const LANE = mod(name('t'), 32)
const WARP = div(name('t'), 32)

/** What the lanes of a warp copy at once. */
interface Batches {
  /** Along the rows of a tile, and along k. */
  readonly count: readonly [number, number]
  /** The row of a lane, of zero by itself: of the batch alone. */
  readonly row: (batch: Ix, lane: Ix) => Ix
  readonly k: (batch: Ix, lane: Ix) => Ix
}

/** Along k, 32 bytes of memory of four rows that stand side by side; along m or n, rows that are neighbours in memory and stand in all banks. */
function batchesOf({ rows, depth, dealt }: CopyTile['tile'], alongK: boolean): Batches {
  const [each, deep] = alongK ? [4, 8] : [Math.min(32, rows), 32 / Math.min(32, rows)]
  return {
    count: [rows / each, depth / deep],
    row: (batch, lane) =>
      alongK ? DEALS[dealt!].rowOf(batch, div(lane, deep)) : add(mul(batch, each), mod(lane, each)),
    k: (batch, lane) => add(mul(batch, deep), alongK ? mod(lane, deep) : div(lane, each)),
  }
}

/** Warps share batches of rows, then of k; `first`: a warp's own, `others`: so many further ones, each so many batches further. */
interface Share {
  readonly first: Ix
  readonly others: number
  readonly by: number
}

function shareOf([rows, depth]: Batches['count'], warps: number): { readonly rows: Share; readonly depth: Share } {
  const across = Math.min(warps, rows)
  const along = Math.min(warps / across, depth)
  return {
    rows: { first: mod(WARP, across), others: rows / across, by: across },
    depth: { first: along > 1 ? div(WARP, across) : constant(0), others: depth / along, by: along },
  }
}

export function emitCopyDealt(op: CopyTile, c: EmitContext): void {
  const { tile, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const free = freeAxisOf(op, operand, c)!
  const where = note(c, `copy ${op.operand}`)
  const warps = c.role!.warps
  const batches = batchesOf(tile, operand.order.at(-1) === depth.axis)
  const share = shareOf(batches.count, warps)
  const { placeOf } = DEALS[tile.dealt!]
  const pitch = shiftedPitch(tile, BYTES)
  const [kEnd, end] = [c.names.depthEnd(depth.axis), c.names.end(op.free)]
  const stride = (axis: string): string => timesStride(c, operand, axis)
  const copies = (): void => {
    const [row, k] = [batches.row(share.rows.first, LANE), batches.k(share.depth.first, LANE)]
    c.out.line(`const u32 first = ${printIx(row)}, e = ${printIx(k)};`, where)
    c.out.line(`const u32 k_at = ${depthOrigin(depth, c.program)} + e, free_at = ${c.names.origin(op.free)} + first;`)
    c.out.line(`const u32 deep = k_at < ${kEnd} ? ${kEnd} - k_at : 0, rows = free_at < ${end} ? ${end} - free_at : 0;`)
    c.out.line(`const auto* const from = ${elementAddress(c, operand, op)};`)
    c.out.line(`const u32 to = ${slotAddress(c, op.buffer, op.ring)} + e * ${pitch} + (${printIx(placeOf(name('first')))}) * ${BYTES};`)
    const [i, j] = [mul(name('i'), share.rows.by), mul(name('j'), share.depth.by)]
    const [further, deeper] = [batches.row(i, constant(0)), batches.k(j, constant(0))]
    unrolled('j', share.depth.others, c, () => {
      c.out.line(`const u32 k = ${printIx(deeper)};`)
      unrolled('i', share.rows.others, c, () => {
        c.out.line(`const u32 row = ${printIx(further)};`)
        const target = `to + k * ${pitch} + (${printIx(placeOf(name('row')))}) * ${BYTES}`
        const source = `from + (i64)row${stride(free)} + (i64)k${stride(depth.axis)}`
        c.out.line(call(c, 'cp_async_4_if', target, source, 'row < rows && k < deep'), where)
      })
    })
  }
  c.out.block('', () => {
    c.out.line(`const u32 t = ${threadOf(c)};`, where)
    const busy = share.rows.by * share.depth.by
    if (busy < warps) c.out.block(`if (t < ${32 * busy})`, copies)
    else copies()
  })
} // prettier-ignore
