/**
 * Tiles of operands whose rows lie across those of memory, by asynchronous copies of elements of 4 or 8 bytes. Each thread has one address,
 * from which the others are a number of elements or of strides away.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { CopyTile } from '../../compiler/ir/pipe_loads.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { elementAddress, freeAxisOf, threadOf, timesStride, unrolled } from './copy_address.ts'
import { call, call0, note, slotAddress, type EmitContext } from './context.ts'
import { depthOrigin } from './depth.ts'
import { chunkPlace } from './loads.ts'

/** Which elements of a tile a thread copies: its first one, as CUDA of `t`, and how often others follow, so many rows or elements of k further. */
interface Share {
  readonly row: string
  readonly element: string
  readonly rows: Steps
  readonly elements: Steps
}

interface Steps {
  readonly count: number
  readonly by: number
}

/** Rows in whose chunks the swizzle puts an element to different banks. */
const ROWS = 8

/** Each 8 rows by the elements of a chunk: from 32 bytes of memory or more to all banks. Further threads have further rows, then chunks. */
function across(rows: number, span: number, perChunk: number, threads: number): Share {
  const each = ROWS * perChunk
  const groups = Math.min(threads / each, rows / ROWS)
  const chunks = threads / each / groups
  return {
    row: `t % ${ROWS} + t / ${each} % ${groups} * ${ROWS}`,
    element: `t / ${ROWS} % ${perChunk} + t / ${each * groups} * ${perChunk}`,
    rows: { count: rows / ROWS / groups, by: ROWS * groups },
    elements: { count: span / perChunk / chunks, by: perChunk * chunks },
  }
}

const isWhole = ({ rows, elements }: Share): boolean =>
  [rows.count, rows.by, elements.count, elements.by].every((n) => Number.isInteger(n))

export function emitTransposed(op: CopyTile, c: EmitContext): void {
  const { tile, depth, bytes } = op
  const operand = operandNamed(c.program.source, op.operand)
  const { span, rows } = tile
  const threads = 32 * c.role!.warps
  const share = across(rows, span, 16 / bytes, threads)
  const free = freeAxisOf(op, operand, c)
  if (!isWhole(share) || free === undefined) return emitOneByOne(op, c)
  const where = note(c, `copy ${op.operand}`)
  const [kEnd, end] = [c.names.depthEnd(depth.axis), c.names.end(op.free)]
  c.out.block('', () => {
    c.out.line(`const u32 t = ${call0(c, 'anew', threadOf(c))}, first = ${share.row}, e = ${share.element};`, where)
    c.out.line(`const u32 k_at = ${depthOrigin(depth, c.program)} + e, free_at = ${c.names.origin(op.free)} + first;`)
    c.out.line(`const u32 deep = k_at < ${kEnd} ? ${kEnd} - k_at : 0, rows = free_at < ${end} ? ${end} - free_at : 0;`)
    c.out.line(`const auto* from = ${elementAddress(c, operand, op)};`)
    unrolled('j', share.elements.count, c, () => {
      unrolled('i', share.rows.count, c, () => {
        const [row, element] = [`i * ${share.rows.by}`, `j * ${share.elements.by}`]
        c.out.line(`const u32 r = first + ${row}, c = (e + ${element}) / ${16 / bytes};`)
        const address = `from + (i64)(${row})${timesStride(c, operand, free)}`
        const inside = `${row} < rows && ${element} < deep`
        c.out.line(call(c, `cp_async_${bytes}_if`, placeOf(op, operand, c), address, inside), where)
      })
      if (share.elements.count > 1)
        c.out.line(`from += (i64)${share.elements.by}${timesStride(c, operand, depth.axis)};`)
    })
  })
}

/** Where element `e` of chunk `c` of row `r` stands. */
function placeOf(op: CopyTile, { dtype }: TensorOperand, c: EmitContext): string {
  const pitch = op.tile.span * DTYPES[dtype].storageBytes
  const inside = `e % ${16 / op.bytes} * ${op.bytes}`
  return `${slotAddress(c, op.buffer, op.ring)} + r * ${pitch} + ${chunkPlace(op.tile.swizzle)} * 16 + ${inside}`
}

/** Of tiles that threads do not share evenly. */
function emitOneByOne(op: CopyTile, c: EmitContext): void {
  const { tile, free, depth, bytes } = op
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const { span, rows } = tile
  const threads = 32 * c.role!.warps
  c.out.line('#pragma unroll 4')
  c.out.block(`for (u32 i = ${threadOf(c)}; i < ${rows * span}; i += ${threads})`, () => {
    c.out.line(`const u32 r = i % ${rows}, e = i / ${rows}, c = e / ${16 / bytes};`, where)
    c.out.line(`const u32 k_at = ${depthOrigin(depth, c.program)} + e, free_at = ${c.names.origin(free)} + r;`)
    const inside = `k_at < ${c.names.depthEnd(depth.axis)} && free_at < ${c.names.end(free)}`
    const address = elementAddress(c, operand, op)
    c.out.line(call(c, `cp_async_${bytes}_if`, placeOf(op, operand, c), address, inside), where)
  })
}
