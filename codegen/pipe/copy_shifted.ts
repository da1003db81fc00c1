/**
 * Tiles of operands whose rows begin anywhere, by asynchronous copies of 16 bytes from the last multiple of them before each row on. So some
 * of memory before a row is read, never more than its 16 bytes: allocations begin at multiples of them. Behind a row's end are zeros.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import { opsOf } from '../../compiler/ir/pipe.ts'
import type { CopyTile } from '../../compiler/ir/pipe_loads.ts'
import { operandNamed } from '../../compiler/ir/walk.ts'
import { shiftedPitch } from '../../compiler/space/layout.ts'
import { call, call0, note, slotAddress, type EmitContext } from './context.ts'
import { copyOf, elementAddress, threadOf, unrolled } from './copy_address.ts'
import { depthOrigin, positionIn } from './depth.ts'

/** What copies the tiles of an operand. */
export const tileCopy = (operand: string, c: EmitContext): CopyTile =>
  [...opsOf(c.program)].find((op): op is CopyTile => op.op === 'copy_tile' && op.operand === operand)!

/** Bytes of memory before the row at `k_at`, `free_at`, from the last multiple of 16 on. */
export const rowShift = (copy: CopyTile, c: EmitContext): string =>
  `static_cast<u32>(reinterpret_cast<u64>(${elementAddress(c, operandNamed(c.program.source, copy.operand), copy)})) % 16`

/** Rows that are so many apart are shifted alike. */
export const ALIKE = 8

/** How warps share the rows of a shifted tile: each has all of a row. */
export interface RowShares {
  /** Of the tile, each of so many chunks of 16 bytes, and one more. */
  readonly rows: number
  readonly chunks: number
  /** Lanes of a row. */
  readonly lanes: number
  /** Rows of a warp in a round, and of all warps: row `r` of the first round is thread `r * lanes`'s and the next ones'. */
  readonly ofWarp: number
  readonly apart: number
  readonly rounds: number
}

export function sharesOf({ tile, operand }: Pick<CopyTile, 'tile' | 'operand'>, c: EmitContext): RowShares {
  const chunks = (tile.span * DTYPES[operandNamed(c.program.source, operand).dtype].storageBytes) / 16
  const rows = tile.major === 'k' ? tile.rows : tile.depth
  const lanes = 2 ** Math.ceil(Math.log2(chunks))
  const ofWarp = 32 / lanes
  const apart = ofWarp * c.role!.warps
  return { rows, chunks, lanes, ofWarp, apart, rounds: Math.ceil(rows / apart) }
}

export function emitCopyShifted(op: CopyTile, c: EmitContext): void {
  const { tile, depth } = op
  const operand = operandNamed(c.program.source, op.operand)
  const bytes = DTYPES[operand.dtype].storageBytes
  const { rows, chunks, lanes, ofWarp, apart, rounds } = sharesOf(op, c)
  const along = operand.axes.filter((axis) =>
    tile.major === 'k' ? positionIn(c, depth, axis, 'k_at', 'free_at') === 'free_at' : axis === depth.axis,
  )
  const where = note(c, `copy ${op.operand}`)
  const pitch = shiftedPitch(tile, bytes)
  const copy = (): void => {
    const to = `${slotAddress(c, op.buffer, op.ring)} + r * ${pitch} + c * 16`
    const from = 'reinterpret_cast<const char*>(row - shift) + c * 16'
    c.out.line(call(c, copyOf(op), to, from, 'rows > 0 ? bytes : 0'), where)
  }
  // Rows that are shifted alike, with one address.
  const copyAlike = (): void => {
    c.out.line(`const u32 to = ${slotAddress(c, op.buffer, op.ring)} + r * ${pitch} + c * 16;`)
    c.out.line(`const char* const from = reinterpret_cast<const char*>(row - shift) + c * 16;`)
    const further = `(i64)(i * ${apart}) * ${c.names.stride(operand.name, along[0]!)} * ${bytes}`
    unrolled('i', rounds, c, () => {
      const text = call(
        c,
        copyOf(op),
        `to + i * ${apart * pitch}, from + ${further}`,
        `i * ${apart} < rows ? bytes : 0`,
      )
      c.out.line(rows > apart && rows % apart > 0 ? `if (r + i * ${apart} < ${rows}) ${text}` : text, where)
    })
  }
  c.out.block('', () => {
    c.out.line(`const u32 t = ${call0(c, 'anew', threadOf(c))}, c = t % ${lanes};`, where)
    const own = [...(lanes > chunks ? [`c < ${chunks}`] : []), ...(rows < apart ? [`t / ${lanes} < ${rows}`] : [])]
    c.out.block(own.length > 0 ? `if (${own.join(' && ')})` : '', () => {
      if (apart % ALIKE === 0 && along.length === 1) {
        c.out.line(`const u32 r = t / ${lanes};`)
        return emitChunk(op, copyAlike, c)
      }
      unrolled('i', rounds, c, () => {
        c.out.line(`const u32 r = t / ${lanes} + i * ${apart};`)
        emitChunk(op, copy, c)
      })
    })
  })
  // The last 16 bytes of rows that are shifted.
  const held = ofWarp * rounds
  const first = `u32 t = ${call0(c, 'anew', threadOf(c))}, i = t % 32; i < ${held}`
  if (held > 32) c.out.line('#pragma unroll')
  c.out.block(held > 32 ? `for (${first}; i += 32)` : `if (const ${first})`, () => {
    c.out.line(`const u32 r = t / 32 * ${ofWarp} + i % ${ofWarp} + i / ${ofWarp} * ${apart}, c = ${chunks};`, where)
    c.out.block(rows % apart > 0 ? `if (r < ${rows})` : '', () => emitChunk(op, copy, c))
  })
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
