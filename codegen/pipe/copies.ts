/** Tiles of operands by asynchronous copies of all threads of a role, to the ring of stages. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { CopyTile, FindRows } from '../../compiler/ir/pipe_loads.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { operandNamed, rowsRead } from '../../compiler/ir/walk.ts'
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

/** Rows along k of which a thread copies the same chunk: so many apart. null: they are others, or none that lie evenly in memory. */
function rowsApart({ bytes, tile, operand, depth }: CopyTile, c: EmitContext): RowsApart | null {
  const { axes, computed, dtype } = operandNamed(c.program.source, operand)
  const free = axes.filter((axis) => positionIn(c, depth, axis, 'k_at', 'free_at') === 'free_at')
  const chunks = (tile.span * DTYPES[dtype].storageBytes) / 16
  const apart = (32 * c.role!.warps) / chunks
  const isEven = apart % SWIZZLED_ROWS === 0 && tile.rows % apart === 0
  return bytes === 16 && tile.major === 'k' && !tile.shifted && !computed && isEven && free.length === 1
    ? { apart, chunks, perChunk: 16 / DTYPES[dtype].storageBytes, stride: c.names.stride(operand, free[0]!) }
    : null
}

interface RowsApart {
  readonly apart: number
  readonly chunks: number
  /** Elements of a chunk. */
  readonly perChunk: number
  readonly stride: string
}

/** Chunks of further rows stand in the same places. */
const SWIZZLED_ROWS = 8

/** Whether `copyWhole` and `emitCutChunks` can copy a tile together. */
export const hasCutChunks = (op: CopyTile, c: EmitContext): boolean => rowsApart(op, c) !== null

/** Chunks in turn, with one address that moves on. Those that a row ends in are left to `emitCutChunks`: their size would take as long as the rest. */
function copyWhole(op: CopyTile, c: EmitContext): void {
  const { tile, free, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const { apart, chunks, perChunk, stride } = rowsApart(op, c)!
  const [kEnd, end, thread] = [c.names.depthEnd(depth.axis), c.names.end(free), threadOf(c)]
  const span = chunks * 16
  c.out.block('', () => {
    c.out.line(`const u32 r = ${thread} / ${chunks}, c = ${thread} % ${chunks};`, where)
    c.out.line(
      `const u32 k_at = ${depthOrigin(depth, c.program)} + c * ${perChunk}, free_at = ${c.names.origin(free)} + r;`,
    )
    c.out.line(`const u32 rows = k_at < ${kEnd} && free_at < ${end} ? ${end} - free_at : 0;`)
    c.out.line(`const u32 to = ${slotAddress(c, op.buffer, op.ring)} + r * ${span} + ${chunkPlace(tile.swizzle)} * 16;`)
    c.out.line(`const auto* from = ${elementAddress(c, operand, op)};`)
    c.out.line('#pragma unroll')
    const chunk = `to + i * ${apart * span}, from + (i64)(i * ${apart}) * ${stride}, i * ${apart} < rows`
    const whole = perChunk > 1 ? `${kEnd} - k_at - 1 >= ${perChunk - 1}` : 'true'
    c.out.line(`for (u32 i = 0; i < ${tile.rows / apart}; ++i) ${call(c, 'cp_async_16_if', chunk, whole)}`, where)
  })
}

/** What `copyWhole` leaves, of the tile of k that is `ahead`: one chunk of each row, in one tile if at all. */
export function emitCutChunks(op: CopyTile, c: EmitContext): void {
  const { tile, free, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const { apart, chunks, perChunk } = rowsApart(op, c)!
  const [kEnd, thread] = [c.names.depthEnd(depth.axis), threadOf(c)]
  c.out.block(`if (${kEnd} % ${perChunk} > 0 && ahead < k_last)`, () => {
    c.out.line('const u32 k = ahead;')
    c.out.line(`const u32 c = ${thread} % ${chunks}, k_at = ${depthOrigin(depth, c.program)} + c * ${perChunk};`)
    c.out.line('#pragma unroll 1')
    c.out.block(`for (u32 i = 0; i < ${tile.rows / apart} && ${kEnd} - k_at - 1 < ${perChunk - 1}; ++i)`, () => {
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
