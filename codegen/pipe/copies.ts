/** Tiles of operands by asynchronous copies of all threads of a role, to the ring of stages. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { CopyTile, FindRows } from '../../compiler/ir/pipe_loads.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { operandNamed, rowsRead } from '../../compiler/ir/walk.ts'
import { mul, name, printIx } from '../../compiler/space/ix.ts'
import { swizzleXor } from '../../compiler/space/layout.ts'
import { emitLookedUp } from './computed.ts'
import { call, note, slotAddress, type EmitContext } from './context.ts'
import { depthOrigin, positionIn } from './depth.ts'
import { elementAddress, emitCopyElements, threadOf } from './copy_elements.ts'
import { emitCopyShifted } from './copy_shifted.ts'
import { chunkPlace } from './loads.ts'

/** Address of the element at `k_at` in a row that was looked up. */
function rowAddress(c: EmitContext, operand: TensorOperand): string {
  const rows = rowsName(c, operand.name)
  return `${c.names.operand(rowsRead(operand)!.operand)} + (${rows}[i] != NOWHERE ? ${rows}[i] + k_at : 0)`
}

/** Threads take chunks along the contiguous axis in turn; what is outside the tensor is zero. */
export function emitCopyTile(op: CopyTile, c: EmitContext): void {
  if (op.tile.shifted) emitCopyShifted(op, c)
  else if (c.whole === op) copyWhole(op, c)
  else if (op.bytes === 16) copyChunks(op, c)
  else emitCopyElements(op, c)
}

function copyChunks(op: CopyTile, c: EmitContext): void {
  const { tile, free, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const bytes = DTYPES[operand.dtype].storageBytes
  const perChunk = 16 / bytes
  const kMajor = tile.major === 'k'
  const rows = kMajor ? tile.rows : tile.depth
  const span = tile.span * bytes
  const kEnd = c.names.depthEnd(depth.axis)
  const spanChunks = span / 16
  const rowChunks = spanChunks * tile.boxes
  const total = rows * rowChunks
  const threads = 32 * c.role!.warps
  const thread = threadOf(c)
  const extent = c.names.end(free)
  c.wrappers.add('cp_async_16')
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${Math.ceil(total / threads)}; ++i)`, () => {
    const [row, chunk] =
      threads % rowChunks === 0
        ? [`${thread} / ${rowChunks} + i * ${threads / rowChunks}`, `${thread} % ${rowChunks}`]
        : [`(${thread} + i * ${threads}) / ${rowChunks}`, `(${thread} + i * ${threads}) % ${rowChunks}`]
    c.out.line(`const u32 r = ${row}, x = ${chunk}${tile.boxes > 1 ? `, c = x % ${spanChunks}` : ', c = x'};`, where)
    const [k, f] = kMajor ? [`x * ${perChunk}`, 'r'] : ['r', `x * ${perChunk}`]
    c.out.line(`const u32 k_at = ${depthOrigin(depth, c.program)} + ${k}, free_at = ${c.names.origin(free)} + ${f};`)
    const [inner, innerEnd, outer, outerEnd] = kMajor
      ? ['k_at', kEnd, 'free_at', extent]
      : ['free_at', extent, 'k_at', kEnd]
    c.out.line(
      `const u32 bytes = ${outer} < ${outerEnd} && ${inner} < ${innerEnd} ? min((${innerEnd} - ${inner}) * ${bytes}, 16) : 0;`,
    )
    const box = tile.boxes > 1 ? ` + x / ${spanChunks} * ${tile.pitch}` : ''
    const dst = `${slotAddress(c, op.buffer, op.ring)}${box} + r * ${span} + ${chunkPlace(tile.swizzle)} * 16`
    const copy = operand.computed
      ? `cp_async_16(${dst}, ${rowAddress(c, operand)}, ${rowsName(c, operand.name)}[i] != NOWHERE ? bytes : 0);`
      : `cp_async_16(${dst}, ${elementAddress(c, operand, op)}, bytes);`
    c.out.line(total % threads === 0 ? copy : `if (r < ${rows}) ${copy}`, where)
  })
}

/** How the threads of a role share rows of a tile of which each copies the same chunk: so many apart. */
interface RowsApart {
  readonly apart: number
  /** Rows of the tile in all. */
  readonly rows: number
  /** Chunks of a row, those of all boxes. */
  readonly chunks: number
  /** Elements of a chunk. */
  readonly perChunk: number
  /** CUDA of the elements from one row to the next. */
  readonly stride: string
}

/** null: threads do not share rows evenly, or rows do not lie evenly in memory. */
function rowsApart({ bytes, tile, operand, depth }: CopyTile, c: EmitContext): RowsApart | null {
  const { axes, computed, dtype } = operandNamed(c.program.source, operand)
  const kMajor = tile.major === 'k'
  const along = axes.filter((axis) => positionIn(c, depth, axis, 'k_at', 'free_at') === (kMajor ? 'free_at' : 'k_at'))
  const chunks = ((tile.span * DTYPES[dtype].storageBytes) / 16) * tile.boxes
  const rows = kMajor ? tile.rows : tile.depth
  const apart = (32 * c.role!.warps) / chunks
  const isEven = Number.isInteger(apart) && rows % apart === 0 && isPowerOf2(apart)
  return bytes === 16 && !tile.shifted && !computed && isEven && along.length === 1
    ? { apart, rows, chunks, perChunk: 16 / DTYPES[dtype].storageBytes, stride: c.names.stride(operand, along[0]!) }
    : null
}

/** Chunks of rows so far apart stand in the same places, whatever the swizzle. */
const SWIZZLED_ROWS = 8

const isPowerOf2 = (n: number): boolean => n > 0 && (n & (n - 1)) === 0

/** Whether `copyWhole` can copy a tile, for `emitCutChunks` to copy the rest. */
export const isSharedEvenly = (op: CopyTile, c: EmitContext): boolean => rowsApart(op, c) !== null

/**
 * Chunks in turn, with one address that moves on. Along k, chunks that a row ends in are left to `emitCutChunks`: their size would take as long as
 * the rest. Along m or n a thread's chunks are all of one size.
 */
function copyWhole(op: CopyTile, c: EmitContext): void {
  const { tile, free, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const { apart, rows, chunks, perChunk, stride } = rowsApart(op, c)!
  const [kEnd, end, thread] = [c.names.depthEnd(depth.axis), c.names.end(free), threadOf(c)]
  const spanChunks = chunks / tile.boxes
  const span = spanChunks * 16
  const kMajor = tile.major === 'k'
  const [k, f] = kMajor ? [`x * ${perChunk}`, 'r'] : ['r', `x * ${perChunk}`]
  const [inner, innerEnd, outer, outerEnd] = kMajor ? ['k_at', kEnd, 'free_at', end] : ['free_at', end, 'k_at', kEnd]
  c.out.block('', () => {
    const [inBox, box] = tile.boxes > 1 ? [` % ${spanChunks}`, ` + x / ${spanChunks} * ${tile.pitch}`] : ['', '']
    c.out.line(`const u32 r = ${thread} / ${chunks}, x = ${thread} % ${chunks}, c = x${inBox};`, where)
    c.out.line(`const u32 k_at = ${depthOrigin(depth, c.program)} + ${k}, free_at = ${c.names.origin(free)} + ${f};`)
    c.out.line(`const u32 rows = ${inner} < ${innerEnd} && ${outer} < ${outerEnd} ? ${outerEnd} - ${outer} : 0;`)
    const left = `${innerEnd} - ${inner}`
    if (!kMajor && perChunk > 1) c.out.line(`const u32 bytes = min(${left}, ${perChunk}) * ${16 / perChunk};`)
    c.out.line(`const u32 to = ${slotAddress(c, op.buffer, op.ring)}${box} + r * ${span} + ${chunkPlace(tile.swizzle)} * 16;`)
    c.out.line(`const auto* from = ${elementAddress(c, operand, op)};`)
    c.out.line('#pragma unroll')
    const source = `from + (i64)(i * ${apart}) * ${stride}`
    const fills = c.fills ?? 'true'
    // Rows that are fewer apart than a swizzle has are moved otherwise; the bits of `r` and of what is added are others.
    const pattern = apart % SWIZZLED_ROWS === 0 ? null : swizzleXor(tile.swizzle, mul(name('i'), apart))
    const place = `${pattern === null ? 'to' : `(to ^ ${printIx(pattern)} * 16)`} + i * ${apart * span}`
    const text = kMajor
      ? call(c, 'cp_async_16_if', place, source, `i * ${apart} < rows`, perChunk > 1 ? `${fills} && ${left} - 1 >= ${perChunk - 1}` : fills)
      : call(c, 'cp_async_16_of', place, source, `i * ${apart} < rows ? ${perChunk > 1 ? 'bytes' : 16} : 0`, fills)
    c.out.line(`for (u32 i = 0; i < ${rows / apart}; ++i) ${text}`, where)
  })
} // prettier-ignore

/** What `copyWhole` leaves, of the tile of k that is `ahead`: one chunk of each row, in one tile if at all. */
export function emitCutChunks(op: CopyTile, c: EmitContext): void {
  const { tile, free, depth } = op
  if (tile.major === 'mn') return
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const { apart, rows, chunks, perChunk } = rowsApart(op, c)!
  const [kEnd, thread] = [c.names.depthEnd(depth.axis), threadOf(c)]
  c.out.block(`if (${kEnd} % ${perChunk} > 0 && ahead < k_last)`, () => {
    c.out.line('const u32 k = ahead;')
    c.out.line(`const u32 c = ${thread} % ${chunks}, k_at = ${depthOrigin(depth, c.program)} + c * ${perChunk};`)
    c.out.line('#pragma unroll 1')
    c.out.block(`for (u32 i = 0; i < ${rows / apart} && ${kEnd} - k_at - 1 < ${perChunk - 1}; ++i)`, () => {
      c.out.line(`const u32 r = ${thread} / ${chunks} + i * ${apart}, free_at = ${c.names.origin(free)} + r;`)
      const to = `${slotAddress(c, op.buffer, op.ring)} + r * ${chunks * 16} + ${chunkPlace(tile.swizzle)} * 16`
      const bytes = `free_at < ${c.names.end(free)} ? (${kEnd} - k_at) * ${16 / perChunk} : 0`
      c.out.line(call(c, 'cp_async_16', to, elementAddress(c, operand, op), bytes), where)
    })
  })
}

/** Where rows that are looked up begin. */
export const rowsName = (c: EmitContext, operand: string): string => `rows_${c.names.value(operand)}`

/** The row of a thread's chunk `i`. */
function rowOf(c: EmitContext, rowChunks: number): string {
  const threads = 32 * c.role!.warps
  return threads % rowChunks === 0
    ? `${threadOf(c)} / ${rowChunks} + i * ${threads / rowChunks}`
    : `(${threadOf(c)} + i * ${threads}) / ${rowChunks}`
}

export function emitFindRows(op: FindRows, c: EmitContext): void {
  const { free, chunks } = op
  const operand = operandNamed(c.program.source, op.operand)
  const count = Math.ceil((op.rows * chunks) / (32 * c.role!.warps))
  const rows = rowsName(c, op.operand)
  const where = note(c, `look up rows of ${op.operand}`)
  c.out.line(`i64 ${rows}[${count}];  // where the rows of this thread begin; the least number: nowhere`, where)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
    c.out.line(`const u32 free_at = ${c.names.origin(free)} + ${rowOf(c, chunks)};`)
    c.out.line(`${rows}[i] = NOWHERE;`)
    c.out.block(`if (free_at < ${c.names.end(free)})`, () => {
      const { offset, inside } = emitLookedUp(c, operand, op.along)
      c.out.line(`if (${inside}) ${rows}[i] = ${offset};`, where)
    })
  })
}
