/** Tiles of operands by asynchronous copies of all threads of a role, to the ring of stages. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { CopyTile, FindRows } from '../../compiler/ir/pipe_loads.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { operandNamed, rowsRead } from '../../compiler/ir/walk.ts'
import { mul, name, printIx } from '../../compiler/space/ix.ts'
import { swizzleXor } from '../../compiler/space/layout.ts'
import { emitLookedUp } from './computed.ts'
import { call, call0, note, slotAddress, type EmitContext } from './context.ts'
import { allCells } from './fragments.ts'
import { depthOrigin, positionIn } from './depth.ts'
import { copyOf, elementAddress, threadOf } from './copy_address.ts'
import { emitCopyDealt } from './copy_dealt.ts'
import { emitCopyShifted } from './copy_shifted.ts'
import { emitTransposed } from './copy_transposed.ts'
import { chunkPlace } from './loads.ts'

/** Address of the element at `k_at` in a row that was looked up. */
function rowAddress(c: EmitContext, operand: TensorOperand): string {
  const rows = rowsName(c, operand.name)
  return `${c.names.operand(rowsRead(operand)!.operand)} + (${rows}[i] != NOWHERE ? ${rows}[i] + k_at : 0)`
}

/** Threads take chunks along the contiguous axis in turn; what is outside the tensor is zero. */
export function emitCopyTile(op: CopyTile, c: EmitContext): void {
  if (op.tile.dealt) emitCopyDealt(op, c)
  else if (op.tile.shifted) emitCopyShifted(op, c)
  else if (!isInOrder(op, c)) emitTransposed(op, c)
  else {
    const shared = rowsApart(op, c)
    if (shared) copyRows(op, shared, c)
    else copyPieces(op, c)
  }
}

/** Rows of the tile lie in memory as they do in the tile. */
const isInOrder = ({ tile, depth, operand }: CopyTile, c: EmitContext): boolean =>
  tile.major === 'mn' || operandNamed(c.program.source, operand).order.at(-1) === depth.axis

function copyPieces(op: CopyTile, c: EmitContext): void {
  const { tile, free, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const bytes = DTYPES[operand.dtype].storageBytes
  const perPiece = op.bytes / bytes
  const kMajor = tile.major === 'k'
  const rows = kMajor ? tile.rows : tile.depth
  const span = tile.span * bytes
  const kEnd = c.names.depthEnd(depth.axis)
  const spanPieces = span / op.bytes
  const rowPieces = spanPieces * tile.boxes
  const total = rows * rowPieces
  const threads = 32 * c.role!.warps
  const thread = threadOf(c)
  const extent = c.names.end(free)
  const wrapper = copyOf(op)
  c.wrappers.add(wrapper)
  c.out.line(op.bytes < 16 ? '#pragma unroll 4' : '#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${Math.ceil(total / threads)}; ++i)`, () => {
    const [row, piece] =
      threads % rowPieces === 0
        ? [`${thread} / ${rowPieces} + i * ${threads / rowPieces}`, `${thread} % ${rowPieces}`]
        : [`(${thread} + i * ${threads}) / ${rowPieces}`, `(${thread} + i * ${threads}) % ${rowPieces}`]
    const { chunk, box, inChunk } = placeInRow(op, spanPieces)
    c.out.line(`const u32 r = ${row}, x = ${piece}, c = ${chunk};`, where)
    const [k, f] = kMajor ? [`x * ${perPiece}`, 'r'] : ['r', `x * ${perPiece}`]
    c.out.line(`const u32 k_at = ${depthOrigin(depth, c.program)} + ${k}, free_at = ${c.names.origin(free)} + ${f};`)
    const [inner, innerEnd, outer, outerEnd] = kMajor
      ? ['k_at', kEnd, 'free_at', extent]
      : ['free_at', extent, 'k_at', kEnd]
    c.out.line(
      `const u32 bytes = ${outer} < ${outerEnd} && ${inner} < ${innerEnd} ? min((${innerEnd} - ${inner}) * ${bytes}, ${op.bytes}) : 0;`,
    )
    const dst = `${slotAddress(c, op.buffer, op.ring)}${box} + r * ${span} + ${chunkPlace(tile.swizzle)} * 16${inChunk}`
    const copy = operand.computed
      ? `${wrapper}(${dst}, ${rowAddress(c, operand)}, ${rowsName(c, operand.name)}[i] != NOWHERE ? bytes : 0);`
      : `${wrapper}(${dst}, ${elementAddress(c, operand, op)}, bytes);`
    c.out.line(total % threads === 0 ? copy : `if (r < ${rows}) ${copy}`, where)
  })
}

/** Accumulators of a thread, and sums of chunks, beside which there are no registers for what loops could keep. */
const MANY_CELLS = 128

/** The thread of the role, in loops over k: what depends on it is found again in each, where registers are few. */
function threadInLoop(c: EmitContext): string {
  const { registers } = c.program
  const isTight = allCells(c) * (registers!.parts ? 2 : 1) >= MANY_CELLS
  return isTight ? call0(c, 'anew', threadOf(c)) : threadOf(c)
}

/** Where piece `x` of a row stands, of so many in a row of a box: its chunk of 16 bytes, and what is added for its box and its place in the chunk. */
function placeInRow({ tile, bytes }: CopyTile, spanPieces: number): Record<'chunk' | 'box' | 'inChunk', string> {
  const inBox = tile.boxes > 1 ? `x % ${spanPieces}` : 'x'
  const perChunk = 16 / bytes
  return {
    chunk: perChunk > 1 ? `${inBox} / ${perChunk}` : inBox,
    box: tile.boxes > 1 ? ` + x / ${spanPieces} * ${tile.pitch}` : '',
    inChunk: perChunk > 1 ? ` + x % ${perChunk} * ${bytes}` : '',
  }
}

/** How the threads of a role share rows of a tile of which each copies the same piece: so many apart. */
interface RowsApart {
  readonly apart: number
  /** Rows of the tile in all. */
  readonly rows: number
  /** Pieces of a row, those of all boxes. */
  readonly pieces: number
  /** Elements of a piece. */
  readonly perPiece: number
  /** CUDA of the elements from one row to the next. */
  readonly stride: string
}

/** null: threads do not share rows evenly, or rows do not lie evenly in memory. */
function rowsApart(op: CopyTile, c: EmitContext): RowsApart | null {
  const { bytes, tile, operand, depth } = op
  const { axes, computed, dtype } = operandNamed(c.program.source, operand)
  const kMajor = tile.major === 'k'
  const along = axes.filter((axis) => positionIn(c, depth, axis, 'k_at', 'free_at') === (kMajor ? 'free_at' : 'k_at'))
  const pieces = ((tile.span * DTYPES[dtype].storageBytes) / bytes) * tile.boxes
  const rows = kMajor ? tile.rows : tile.depth
  const apart = (32 * c.role!.warps) / pieces
  const isEven = Number.isInteger(apart) && rows % apart === 0 && isPowerOf2(apart)
  return isInOrder(op, c) && !tile.shifted && !tile.dealt && !computed && isEven && along.length === 1
    ? { apart, rows, pieces, perPiece: bytes / DTYPES[dtype].storageBytes, stride: c.names.stride(operand, along[0]!) }
    : null
}

/** Whether threads have rows of a tile that are evenly apart: few addresses, and instructions. */
export const isSharedEvenly = (op: CopyTile, c: EmitContext): boolean =>
  op.tile.dealt !== undefined || rowsApart(op, c) !== null

/** Chunks of rows so far apart stand in the same places, whatever the swizzle. */
const SWIZZLED_ROWS = 8

const isPowerOf2 = (n: number): boolean => n > 0 && (n & (n - 1)) === 0

/**
 * Pieces in turn, with one address that moves on. Along k, chunks that a row ends in are left to `emitCutChunks`: their size would take as long as the rest.
 * Along m or n a thread's pieces are all of one size, and rows that are copied by words are whole words.
 */
function copyRows(op: CopyTile, shared: RowsApart, c: EmitContext): void {
  const { tile, free, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const { apart, rows, pieces, perPiece, stride } = shared
  const [kEnd, end] = [c.names.depthEnd(depth.axis), c.names.end(free)]
  const spanPieces = pieces / tile.boxes
  const span = spanPieces * op.bytes
  const kMajor = tile.major === 'k'
  const [k, f] = kMajor ? [`x * ${perPiece}`, 'r'] : ['r', `x * ${perPiece}`]
  const [inner, innerEnd, outer, outerEnd] = kMajor ? ['k_at', kEnd, 'free_at', end] : ['free_at', end, 'k_at', kEnd]
  c.out.block('', () => {
    const { chunk, box, inChunk } = placeInRow(op, spanPieces)
    c.out.line(`const u32 t = ${threadInLoop(c)}, r = t / ${pieces}, x = t % ${pieces}, c = ${chunk};`, where)
    c.out.line(`const u32 k_at = ${depthOrigin(depth, c.program)} + ${k}, free_at = ${c.names.origin(free)} + ${f};`)
    c.out.line(`const u32 rows = ${inner} < ${innerEnd} && ${outer} < ${outerEnd} ? ${outerEnd} - ${outer} : 0;`)
    const isChunk = op.bytes === 16
    const isCut = isChunk && perPiece > 1
    const left = `${innerEnd} - ${inner}`
    if (!kMajor && isCut) c.out.line(`const u32 bytes = min(${left}, ${perPiece}) * ${16 / perPiece};`)
    c.out.line(`const u32 to = ${slotAddress(c, op.buffer, op.ring)}${box} + r * ${span} + ${chunkPlace(tile.swizzle)} * 16${inChunk};`)
    c.out.line(`const auto* from = ${elementAddress(c, operand, op)};`)
    c.out.line('#pragma unroll')
    // Rows that are fewer apart than a swizzle has are moved otherwise; the bits of `r` and of what is added are others.
    const pattern = apart % SWIZZLED_ROWS === 0 ? null : swizzleXor(tile.swizzle, mul(name('i'), apart))
    const place = `${pattern === null ? 'to' : `(to ^ ${printIx(pattern)} * 16)`} + i * ${apart * span}`
    const text = kMajor || !isChunk
      ? call(c, `${copyOf(op)}_if`, place, 'from', `i * ${apart} < rows`, ...(isChunk ? [isCut ? `${left} - 1 >= ${perPiece - 1}` : 'true'] : []))
      : call(c, copyOf(op), place, 'from', `i * ${apart} < rows ? ${isCut ? 'bytes' : 16} : 0`)
    c.out.line(`for (u32 i = 0; i < ${rows / apart}; ++i, from += (i64)${apart} * ${stride}) ${text}`, where)
  })
} // prettier-ignore

/** What `emitCopyTile` leaves: one chunk of each row, in one tile of k if at all. */
export function emitCutChunks(op: CopyTile, c: EmitContext): void {
  const { tile, free, depth } = op
  const shared = rowsApart(op, c)
  if (shared === null || op.bytes < 16 || shared.perPiece === 1 || tile.major === 'mn') return
  const { apart, rows, pieces: chunks, perPiece: perChunk } = shared
  const operand = operandNamed(c.program.source, op.operand)
  const where = note(c, `copy ${op.operand}`)
  const kEnd = c.names.depthEnd(depth.axis)
  c.out.block(`if (${kEnd} % ${perChunk} > 0)`, () => {
    c.out.line(
      `const u32 t = ${threadInLoop(c)}, c = t % ${chunks}, k_at = ${depthOrigin(depth, c.program)} + c * ${perChunk};`,
    )
    c.out.line('#pragma unroll 1')
    c.out.block(`for (u32 i = 0; i < ${rows / apart} && ${kEnd} - k_at - 1 < ${perChunk - 1}; ++i)`, () => {
      c.out.line(`const u32 r = t / ${chunks} + i * ${apart}, free_at = ${c.names.origin(free)} + r;`)
      const to = `${slotAddress(c, op.buffer, op.ring)} + r * ${chunks * 16} + ${chunkPlace(tile.swizzle)} * 16`
      const bytes = `free_at < ${c.names.end(free)} ? (${kEnd} - k_at) * ${16 / perChunk} : 0`
      c.out.line(call(c, copyOf(op), to, elementAddress(c, operand, op), bytes), where)
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
