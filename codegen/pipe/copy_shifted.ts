/**
 * Tiles of operands whose rows begin anywhere, by asynchronous copies of 16 bytes from the last multiple of them before each row on. So some
 * of memory before a row is read, never more than its 16 bytes: allocations begin at multiples of them. Behind a row's end are zeros.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { CopyTile } from '../../compiler/ir/pipe_loads.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { shiftedPitch } from '../../compiler/space/layout.ts'
import { call, call0, note, slotAddress, type EmitContext } from './context.ts'
import { copyOf, elementAddress, threadOf } from './copy_address.ts'
import { depthOrigin, positionIn } from './depth.ts'

/** Rows that are so many apart are shifted alike. */
const ALIKE = 8

export function emitCopyShifted(op: CopyTile, c: EmitContext): void {
  const { tile, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const bytes = DTYPES[operand.dtype].storageBytes
  const chunks = (tile.span * bytes) / 16
  const rows = tile.major === 'k' ? tile.rows : tile.depth
  const threads = 32 * c.role!.warps
  const apart = threads / chunks
  const along = operand.axes.filter((axis) =>
    tile.major === 'k' ? positionIn(c, depth, axis, 'k_at', 'free_at') === 'free_at' : axis === depth.axis,
  )
  const isEven = apart % ALIKE === 0 && (rows % apart === 0 || rows < apart) && along.length === 1
  if (!isEven) return emitEach(op, `i / ${chunks + 1}`, `i % ${chunks + 1}`, rows * (chunks + 1), c)
  const where = note(c, `copy ${op.operand}`)
  const pitch = shiftedPitch(tile, bytes)
  const copy = (): void => {
    c.out.line(`const u32 to = ${slotAddress(c, op.buffer, op.ring)} + r * ${pitch} + c * 16;`)
    c.out.line(`const char* const from = reinterpret_cast<const char*>(row - shift) + c * 16;`)
    const further = `(i64)(i * ${apart}) * ${c.names.stride(operand.name, along[0]!)} * ${bytes}`
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${Math.max(1, rows / apart)}; ++i)`, () => {
      const address = `to + i * ${apart * pitch}, from + ${further}`
      c.out.line(call(c, copyOf(op), address, `i * ${apart} < rows ? bytes : 0`), where)
    })
  }
  c.out.block('', () => {
    c.out.line(`const u32 t = ${call0(c, 'anew', threadOf(c))}, r = t / ${chunks}, c = t % ${chunks};`, where)
    if (rows >= apart) emitChunk(op, copy, c)
    else c.out.block(`if (r < ${rows})`, () => emitChunk(op, copy, c))
  })
  // The last 16 bytes of rows that are shifted.
  emitEach(op, 'i', String(chunks), rows, c)
}

/** Declares where row `r` begins, how far it is shifted, what there is of its chunk `c`, and how many rows there are from it on. */
function emitChunk(op: CopyTile, then: () => void, c: EmitContext): void {
  const { tile, depth, free } = op
  const operand = operandNamed(c.program.source, op.operand)
  const bytes = DTYPES[operand.dtype].storageBytes
  const [kEnd, end] = [c.names.depthEnd(depth.axis), c.names.end(free)]
  const [k, f] = tile.major === 'k' ? ['', ' + r'] : [' + r', '']
  c.out.line(`const u32 k_at = ${depthOrigin(depth, c.program)}${k}, free_at = ${c.names.origin(free)}${f};`)
  const [inner, innerEnd, outer, outerEnd] =
    tile.major === 'k' ? ['k_at', kEnd, 'free_at', end] : ['free_at', end, 'k_at', kEnd]
  c.out.line(`const u64 row = reinterpret_cast<u64>(${elementAddress(c, operand, op)});`)
  c.out.line(
    `const u32 shift = static_cast<u32>(row) % 16, rows = ${outer} < ${outerEnd} ? ${outerEnd} - ${outer} : 0;`,
  )
  const left = `${inner} < ${innerEnd} ? min(${innerEnd} - ${inner}, ${tile.span}) * ${bytes} : 0`
  c.out.line(`const u32 bytes = ${call0(c, 'chunk_bytes', left, 'shift', 'c')};`)
  then()
}

/** A chunk at a time: `i` says which. */
function emitEach(op: CopyTile, row: string, chunk: string, count: number, c: EmitContext): void {
  const bytes = DTYPES[operandNamed(c.program.source, op.operand).dtype].storageBytes
  const threads = 32 * c.role!.warps
  const where = note(c, `copy ${op.operand}`)
  const body = (): void => {
    c.out.line(`const u32 r = ${row}, c = ${chunk};`, where)
    emitChunk(
      op,
      () => {
        const to = `${slotAddress(c, op.buffer, op.ring)} + r * ${shiftedPitch(op.tile, bytes)} + c * 16`
        const from = 'reinterpret_cast<const char*>(row - shift) + c * 16'
        c.out.line(call(c, copyOf(op), to, from, 'rows > 0 ? bytes : 0'), where)
      },
      c,
    )
  }
  const first = `u32 i = ${call0(c, 'anew', threadOf(c))}`
  if (count <= threads) return void c.out.block(`if (const ${first}; i < ${count})`, body)
  c.out.line('#pragma unroll 2')
  c.out.block(`for (${first}; i < ${count}; i += ${threads})`, body)
}
