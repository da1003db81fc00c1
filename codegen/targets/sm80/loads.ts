/** Operands on their way to the MMAs of SM80, out of the stage ring: by ldmatrix, or by lanes of rows and columns of their own. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import { opsOf, type TileOp, type TileProgram } from '../../../compiler/ir/pipe.ts'
import type { TileSource } from '../../../compiler/ir/pipe_mma.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import { add, div, mod, mul, name, printIx, type Ix } from '../../../compiler/space/ix.ts'
import { DEALS, shiftedPitch, swizzled } from '../../../compiler/space/layout.ts'
import { atomOf, type WarpAtom } from '../../../compiler/targets/sm80/mma.ts'
import { call, note, slotAddress, type EmitContext } from '../../pipe/context.ts'
import { emitShiftedFragments } from './shifted.ts'

type LoadFragments = Extract<TileOp, { op: 'load_fragments' }>

/** What the MMAs of a program are. */
export function atomIn(program: TileProgram): WarpAtom {
  for (const op of opsOf(program)) if (op.op === 'mma_sync') return atomOf(op.kind)
  throw new Error('no operation multiplies')
}

/** What fragments are loaded from: A, and the B of each product. */
export function sourcesOf(program: TileProgram): readonly (readonly ['a' | 'b', TileSource])[] {
  for (const op of opsOf(program))
    if (op.op === 'load_fragments') return [['a', op.a], ...op.products.map((b) => ['b', b] as const)]
  return []
}

/**
 * Lanes that multiply f32 for others, where sums of a chunk do not depend on the lane: shared memory answers a warp's loads of 16 bytes in two
 * cycles where all neighbours l and l ^ 1, or all l and l ^ 2, ask for the same, else in four. Of rows of lane / 4, pairs do; of columns of
 * lane % 4 none do. So lanes have the rows of bits 3:1 and the columns of bits 4 and 0.
 */
export const crossesLanes = (program: TileProgram): boolean =>
  atomIn(program).type === 'float' && !program.registers!.parts

/** The lane whose sums are a lane's own. */
export const CROSSED_LANE = 'lane % 2 + lane / 2 % 2 * 16 + lane / 4 * 2'

/** Row of 8, and pair of columns of 4, that a lane multiplies. */
function multiplied(program: TileProgram): { readonly row: Ix; readonly pair: Ix } {
  const lane = name('lane', 32)
  return crossesLanes(program)
    ? { row: mod(div(lane, 2), 8), pair: add(mod(lane, 2), mul(div(lane, 16), 2)) }
    : { row: div(lane, 4), pair: mod(lane, 4) }
}

/** Rows or columns that lie side by side in a box of an operand along m or n: fragments are 8 of them, or twice 8. */
const EIGHT = 8
const [FLOAT_BYTES, DOUBLE_BYTES] = [4, 8]

/** Bytes from one row of a box to the next. */
const spanBytes = ({ operand, tile }: TileSource, program: TileProgram): number => {
  const { storageBytes } = DTYPES[operandNamed(program.source, operand).dtype]
  return tile.dealt || tile.settled ? shiftedPitch(tile, storageBytes) : tile.span * storageBytes
}

/**
 * Where a lane reads by itself. Of f64, a lane of four has one k of each four. Of f32 all have the same k: of dealt rows several at once, of rows along k
 * one after the other.
 */
function ownOffset(side: 'a' | 'b', from: TileSource, program: TileProgram): string {
  const { tile } = from
  const { row, pair } = multiplied(program)
  const span = spanBytes(from, program)
  if (tile.dealt) {
    const first = side === 'a' ? 'warp_m * WARP_M' : 'warp_n * WARP_N'
    const place = DEALS[tile.dealt].placeOf(side === 'a' ? row : mul(pair, 2))
    return `(${first} + ${printIx(place)}) * ${FLOAT_BYTES}`
  }
  const isDouble = atomIn(program).type === 'double'
  if (tile.major === 'mn')
    return `${printIx(pair)} * ${span} + ${swizzled(tile.swizzle, 'lane / 8', pair)} * 16 + lane / 4 % 2 * 8`
  const first = side === 'a' ? 'warp_m * WARP_M' : 'warp_n * WARP_N'
  const at = (row: Ix, chunk: string, half: string): string =>
    `(${first} + ${printIx(row)}) * ${span} + ${swizzled(tile.swizzle, chunk, row)} * 16${half}`
  if (isDouble) return at(row, 'lane / 2 % 2', ' + lane % 2 * 8')
  return `${first} + ${printIx(side === 'a' ? row : mul(pair, 2))}`
}

/**
 * Where a lane reads, the same in all steps. Of A, matrices are rows 0-7 and 8-15 of the first chunk of k, then of the second;
 * of B, both chunks of 8 columns, then of the next 8.
 */
export function laneOffset(side: 'a' | 'b', from: TileSource, program: TileProgram): string {
  const { tile } = from
  const span = spanBytes(from, program)
  const atom = atomIn(program)
  if (atom.reads === 'lanes') return ownOffset(side, from, program)
  const [byHalf, byQuarter] = ['lane / 16', 'lane / 8 % 2']
  // Which of the two selects 8 further rows of shared memory, and which the next chunk of them.
  const [row, chunk] = (side === 'a') === (tile.major === 'k') ? [byQuarter, byHalf] : [byHalf, byQuarter]
  const first = tile.major === 'mn' ? '' : side === 'a' ? 'warp_m * WARP_M + ' : 'warp_n * WARP_N + '
  // Of warps that share k each begins with a step of its own.
  const [ofRows, ofChunks] =
    program.registers!.deep === undefined
      ? ['', '']
      : tile.major === 'mn'
        ? ['warp_k * 16 + ', '']
        : ['', 'warp_k * 2 + ']
  const at = ofChunks ? `(${ofChunks}${chunk})` : chunk
  return `(${first}${ofRows}lane % 8 + ${row} * 8) * ${span} + ${swizzled(tile.swizzle, at, mod(name('lane', 32), 8))} * 16`
}

/** Name of the variable of `laneOffset`: one for A, one for each way that operands B lie. */
export const lanesName = (side: 'a' | 'b', { tile }: TileSource): string =>
  `${side}_lane${side === 'b' && tile.major === 'mn' ? '_mn' : ''}${side === 'b' && tile.settled ? '_settled' : ''}`

/** What a lane loads at once of a block of 16 rows of A or 8 columns of B: f64. */
interface Piece {
  /** Its first register of the fragment. */
  readonly to: number
  /** Rows behind the first. */
  readonly rows: number
  /** Chunks of k behind those of the step. */
  readonly k: number
}

/** Of two rows of A for each block, and of B of a column. */
function piecesOf(side: 'a' | 'b'): readonly Piece[] {
  const rows = side === 'a' ? [0, EIGHT] : [0]
  return [0, 1].flatMap((k) => rows.map((row, i) => ({ to: k * rows.length + i, rows: row, k })))
}

/** Loads of a lane's own rows or columns. */
function emitLoadOwn(op: LoadFragments, c: EmitContext, load: LoadOwn): void {
  const { a, products, set } = op
  const blocks = (side: 'a' | 'b', source: TileSource, count: string, target: string, product = 0): void => {
    const where = note(c, `fragments of ${source.operand}`)
    const slot = slotAddress(c, source.buffer)
    const block = product > 0 ? `${product} * COLUMN_BLOCKS + i` : 'i'
    load({ side, source, step: op.step, count, target, block, c }, (wrapper, to, address) =>
      c.out.line(call(c, wrapper, to, `${slot} + ${address}`), where),
    )
  }
  blocks('a', a, 'ROW_BLOCKS', `a_fragments[${set}]`)
  products.forEach((b, p) => blocks('b', b, 'COLUMN_BLOCKS', `b_fragments[${set}]`, p))
}

interface Own {
  readonly side: 'a' | 'b'
  readonly source: TileSource
  readonly step: number
  readonly count: string
  readonly target: string
  /** Of the target: that of block `i`. */
  readonly block: string
  readonly c: EmitContext
}

type LoadOwn = (own: Own, print: (wrapper: string, to: string, address: string) => void) => void

const loadDoubles: LoadOwn = ({ side, source, step, count, target, block, c }, print) => {
  const { tile } = source
  const span = spanBytes(source, c.program)
  const lanes = lanesName(side, source)
  const blocks = side === 'a' ? 2 : 1
  const along = ({ rows, k }: Piece): string => {
    const moved = 32 * (2 * step + k)
    const further = rows === 0 ? '' : ` + ${rows * span}`
    return `${moved === 0 ? lanes : `(${lanes} ^ ${moved})`} + i * ${EIGHT * blocks * span}${further}`
  }
  // Each 8 rows or columns of a box stand behind the 8 before, where the swizzle, which repeats every four k, moves them.
  const perBox = tile.span / EIGHT
  const across = ({ rows, k }: Piece): string => {
    const part = rows === 0 ? 'part' : `(part + ${rows / EIGHT})`
    const moved = perBox > 1 ? `(${lanes} ^ ${part} % ${perBox} * ${EIGHT * DOUBLE_BYTES})` : lanes
    const box = tile.pitch > 0 ? ` + ${part} / ${perBox} * ${tile.pitch}` : ''
    return `${moved}${box} + ${4 * (2 * step + k) * span}`
  }
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
    if (tile.major === 'mn') {
      const first = side === 'a' ? `warp_m * (WARP_M / ${EIGHT})` : `warp_n * (WARP_N / ${EIGHT})`
      c.out.line(`const u32 part = ${first} + i${blocks > 1 ? ` * ${blocks}` : ''};`)
    }
    for (const piece of piecesOf(side)) {
      const address = tile.major === 'mn' ? across(piece) : along(piece)
      print('load_fragment_f64', `${target}[${block}]${piece.to === 0 ? '' : ` + ${piece.to}`}`, address)
    }
  })
}

/** Of one k. Dealt rows of two blocks of A or of B are one load; of rows along k each is one. */
const loadFloats: LoadOwn = ({ side, source, step, count, target, block, c }, print) => {
  const { tile } = source
  const span = spanBytes(source, c.program)
  const lanes = lanesName(side, source)
  const to = `${target} + 2 * ${block === 'i' ? block : `(${block})`}`
  c.out.line('#pragma unroll')
  if (tile.dealt) {
    const [together, wrapper] = tile.dealt === 'twos' ? [1, 'load_fragment_f32_2'] : [2, 'load_fragment_f32_4']
    const bytes = (side === 'a' ? 2 * EIGHT : EIGHT) * FLOAT_BYTES
    const further = step === 0 ? '' : ` + ${step * span}`
    c.out.block(`for (u32 i = 0; i < ${count}; i += ${together})`, () =>
      print(wrapper, to, `${lanes} + i * ${bytes}${further}`),
    )
    return
  }
  const [rows, next] = side === 'a' ? [2 * EIGHT, EIGHT] : [EIGHT, 1]
  c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
    for (const [half, behind] of [0, next].entries()) {
      const row = name(`row${half}`)
      c.out.line(`const u32 ${printIx(row)} = ${lanes} + i * ${rows}${behind > 0 ? ` + ${behind}` : ''};`)
      const chunk = swizzled(tile.swizzle, `${Math.floor(step / 4)}`, row)
      print('load_fragment_f32_1', `${to}${half > 0 ? ' + 1' : ''}`, `${printIx(row)} * ${span} + ${chunk} * 16 + ${(step % 4) * FLOAT_BYTES}`)
    }
  })
} // prettier-ignore

export function emitLoadFragments(op: LoadFragments, c: EmitContext): void {
  const atom = atomIn(c.program)
  if (atom.reads === 'lanes') return emitLoadOwn(op, c, atom.type === 'double' ? loadDoubles : loadFloats)
  const { a, products, set } = op
  const step = op.step * (c.program.registers!.deep ?? 1)
  const load = (side: 'a' | 'b', source: TileSource, target: (i: string) => string): void => {
    const { tile, buffer, operand } = source
    if (tile.shifted && !tile.settled) return emitShiftedFragments(side, source, target, step, c)
    const where = note(c, `fragments of ${operand}`)
    const span = spanBytes(source, c.program)
    const wrapper = tile.major === 'k' ? 'ldmatrix_x4' : 'ldmatrix_x4_trans'
    const lanes = lanesName(side, source)
    const [count, first] = side === 'a' ? ['ROW_BLOCKS', 'i'] : ['COLUMN_BLOCKS / 2', '2 * i']
    const slot = slotAddress(c, buffer)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
      if (tile.major === 'k') {
        const along = step === 0 ? lanes : tile.settled ? `${lanes} + ${32 * step}` : `(${lanes} ^ ${32 * step})`
        return c.out.line(call(c, wrapper, target(first), `${slot} + ${along} + i * ${16 * span}`), where)
      }
      // 16 elements along the free axis are two chunks of a span.
      const perSpan = span / 32
      if (perSpan > 1 || tile.pitch > 0)
        c.out.line(`const u32 part = ${side === 'a' ? 'warp_m * (WARP_M / 16)' : 'warp_n * (WARP_N / 16)'} + i;`)
      const along = perSpan > 1 ? `(${lanes} ^ part % ${perSpan} * 32)` : lanes
      const box = tile.pitch > 0 ? ` + part / ${perSpan} * ${tile.pitch}` : ''
      c.out.line(call(c, wrapper, target(first), `${slot} + ${along}${box} + ${step * 16 * span}`), where)
    })
  }
  load('a', a, (i) => `a_fragments[${set}][${i}]`)
  products.forEach((b, p) => load('b', b, (i) => `b_fragments[${set}][${p > 0 ? `${p} * COLUMN_BLOCKS + ` : ''}${i}]`))
}
