/** What operands and outputs cost in DRAM and L2: bytes, ends of rows, rows far apart, and lines that all CTAs ask for at once. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import { copiedRows, repackedOf, threadsOfRow } from '../../../compiler/ir/repack.ts'
import type { TensorOperand, TensorProgram } from '../../../compiler/ir/tensor.ts'
import type { Machine } from './machine.ts'
import type { Extents } from './rank.ts'

/** Bytes of a line of L2, and of its sectors. */
export const LINE_BYTES = 128
export const SECTOR_BYTES = 32

/** Bytes that have to cross DRAM once: every operand, read or written. */
export function trafficBytes(program: TensorProgram, extents: Extents): number {
  return program.operands.reduce((sum, operand) => {
    return operand.computed || operand.half ? sum : sum + bytesOf(operand, extents)
  }, 0)
}

/** The same, and what earlier work has left in L2, which goes to DRAM to make room. */
export const movedBytes = (program: TensorProgram, extents: Extents, machine: Machine): number =>
  withDirty(trafficBytes(program, extents), machine)

export const withDirty = (bytes: number, { dirtyBytes }: Machine): number => bytes + Math.min(bytes, dirtyBytes)

/**
 * Lines of L2 that hold the end of one tile's row and the beginning of the next one's are written by two SMs: of outputs that L2 does not hold, each end
 * costs what DRAM could have written of so many bytes. To 6 times on an H100: 49488x7410x2 takes 585 us in rows of 128 columns, 478 of 256, 424 of 512.
 */
const ROW_END_BYTES = 217

const bytesBeyondL2 = (output: TensorOperand, extents: Extents, { dirtyBytes }: Machine): number =>
  Math.max(0, bytesOf(output, extents) - dirtyBytes)

/** Of outputs whose rows begin anywhere, in tiles of so many columns along `inner`. */
export function rowEndBytes(
  outputs: readonly TensorOperand[],
  inner: string,
  columns: number,
  extents: Extents,
  machine: Machine,
): number {
  const tiles = tilesAlong(extents, inner, columns)
  return tiles <= 1 ? 0 : tiles * tileEndBytes(outputs, inner, extents, machine)
}

/** Of the ends that all rows have in one of several tiles along `inner`. */
export function tileEndBytes(
  outputs: readonly TensorOperand[],
  inner: string,
  extents: Extents,
  machine: Machine,
): number {
  return outputs.reduce((sum, operand) => {
    if (operand.divisibility !== 'element' || operand.order.at(-1) !== inner) return sum
    const rowBytes = ((extents[inner] ?? 1) * DTYPES[operand.dtype].bits) / 8
    return sum + (ROW_END_BYTES * bytesBeyondL2(operand, extents, machine)) / rowBytes
  }, 0)
}

/**
 * The same of outputs whose rows begin at multiples of 16 bytes, within a sector: `each` for an end; `run`: elements of a row that are written at once. Not to
 * be added to `rowEndBytes`, which is of rows that begin anywhere.
 */
export function sectorEndBytes(
  outputs: readonly TensorOperand[],
  run: Readonly<Record<string, number>>,
  each: number,
  extents: Extents,
  machine: Machine,
): number {
  return outputs.reduce((sum, operand) => {
    const inner = operand.order.at(-1)!
    const rowBytes = rowBytesOf(operand, extents)
    if (operand.divisibility === 'element' || rowBytes % SECTOR_BYTES === 0) return sum
    const ends = tilesAlong(extents, inner, run[inner] ?? Infinity)
    return ends <= 1 ? sum : sum + (ends * each * bytesBeyondL2(operand, extents, machine)) / rowBytes
  }, 0)
}

/** Of all elements of an operand: of scales, one for each block. */
export function bytesOf({ axes, blocks, dtype }: TensorOperand, extents: Extents): number {
  const count = (axis: string, i: number): number => Math.ceil((extents[axis] ?? 1) / (blocks?.[i] ?? 1))
  return (axes.reduce((product, axis, i) => product * count(axis, i), 1) * DTYPES[dtype].bits) / 8
}

export const rowBytesOf = ({ order, dtype }: TensorOperand, extents: Extents): number =>
  extents[order.at(-1)!]! * DTYPES[dtype].storageBytes

export const tilesAlong = (extents: Extents, axis: string, tile: number): number =>
  Math.ceil((extents[axis] ?? 1) / tile)

/**
 * Bytes that DRAM could have moved while it goes from one row of a tile to the next: `page` for each row; `along`: elements of a row in a tile, of axes that
 * are not read on and on.
 */
export function pagedBytes(
  operands: readonly TensorOperand[],
  along: Readonly<Record<string, number>>,
  page: number,
  extents: Extents,
): number {
  return operands.reduce((sum, operand) => {
    const axis = operand.order.at(-1)!
    const run = along[axis]
    if (run === undefined) return sum
    const rowBytes = DTYPES[operand.dtype].storageBytes * Math.min(run, extents[axis]!)
    return sum + (bytesOf(operand, extents) * page) / rowBytes
  }, 0)
}

/** Rows along `inner`. */
const rowsOf = ({ axes }: TensorOperand, inner: string, extents: Extents): number =>
  axes.reduce((product, axis) => product * (axis === inner ? 1 : (extents[axis] ?? 1)), 1)

/** As the loads of a tile have it: `boxExtents`, the innermost first. */
interface Boxes {
  readonly operand: TensorOperand
  readonly boxExtents: readonly [number, ...number[]]
}

/**
 * Requests for rows that are cut, over the square root of the lines that they lie in: the fewer these are, the less evenly L2 is asked. `others`: CTAs, or
 * clusters, that ask for the same rows; `whole`: what counts a request for whole sectors.
 */
export function crowdOf({ operand, boxExtents }: Boxes, others: number, extents: Extents, whole: number): number {
  const inner = operand.order.at(-1)!
  const exact = rowBytesOf(operand, extents)
  // What is repacked begins at multiples of 16 bytes.
  const rowBytes = operand.divisibility === 'repacked' ? Math.ceil(exact / 16) * 16 : exact
  const cut = rowBytes % (boxExtents[0] * DTYPES[operand.dtype].storageBytes)
  if (cut === 0) return 0
  const rows = rowsOf(operand, inner, extents)
  const lines = Math.max(1, rows * Math.min(1, rowBytes / LINE_BYTES))
  return ((rows * others) / Math.sqrt(lines)) * (cut % SECTOR_BYTES === 0 ? whole : 1)
}

/** Of a launch before another one on a stream: modelled, not measured. */
const LAUNCH_MICROSECONDS = 2.5
/** Of all threads that copy rows: of short ones many have few elements. To ragged and drawn products on an H200. */
const THREAD_MICROSECONDS = 15e-6

/** Microseconds for copies of operands with aligned rows, made by a launch of its own: each is read and written once. */
export function repackTime(program: TensorProgram, extents: Extents, { dramBytes, clock }: Machine): number {
  const repacked = repackedOf(program)
  if (repacked.length === 0) return 0
  const bytes = repacked.reduce((sum, operand) => sum + bytesOf(operand, extents), 0)
  const threads = repacked.reduce((sum, operand) => {
    const { inner, piece } = copiedRows(operand)
    return sum + rowsOf(operand, inner, extents) * threadsOfRow(Math.ceil((extents[inner] ?? 1) / piece))
  }, 0)
  return LAUNCH_MICROSECONDS + Math.max(((2 * bytes) / (dramBytes * clock)) * 1e6, threads * THREAD_MICROSECONDS)
}
