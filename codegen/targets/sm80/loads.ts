/** Operands on their way to the MMAs of SM80, out of the stage ring: by ldmatrix, or by lanes of rows and columns of their own. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import { opsOf, type TileOp, type TileProgram } from '../../../compiler/ir/pipe.ts'
import type { TileSource } from '../../../compiler/ir/pipe_mma.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import { add, constant, div, evaluateIx, mod, mul, name, printIx, type Ix } from '../../../compiler/space/ix.ts'
import { swizzled, swizzleXor } from '../../../compiler/space/layout.ts'
import { atomOf, ffmaDepth, type WarpAtom } from '../../../compiler/targets/sm80/mma.ts'
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

/**
 * Where a lane reads by itself. Of f64, a lane of four has one k of each four. Of f32, a lane reads all k of a step of a row or column along k at once; along m
 * or n one k, of its two columns together.
 */
function ownOffset(side: 'a' | 'b', { tile }: TileSource, span: number, program: TileProgram): string {
  const { row, pair } = multiplied(program)
  const isDouble = atomIn(program).type === 'double'
  if (tile.major === 'mn') {
    if (!isDouble) return printIx(mul(pair, 8))
    return `${printIx(pair)} * ${span} + ${swizzled(tile.swizzle, 'lane / 8', pair)} * 16 + lane / 4 % 2 * 8`
  }
  const first = side === 'a' ? 'warp_m * WARP_M' : 'warp_n * WARP_N'
  const at = (row: Ix, chunk: string, half: string): string =>
    `(${first} + ${printIx(row)}) * ${span} + ${swizzled(tile.swizzle, chunk, row)} * 16${half}`
  if (isDouble) return at(row, 'lane / 2 % 2', ' + lane % 2 * 8')
  return at(side === 'a' ? row : mul(pair, 2), '0', '')
}

/**
 * Where a lane reads, the same in all steps. Of A, matrices are rows 0-7 and 8-15 of the first chunk of k, then of the second;
 * of B, both chunks of 8 columns, then of the next 8.
 */
export function laneOffset(side: 'a' | 'b', from: TileSource, program: TileProgram): string {
  const { operand, tile } = from
  const span = tile.span * DTYPES[operandNamed(program.source, operand).dtype].storageBytes
  const atom = atomIn(program)
  if (atom.reads === 'lanes') return ownOffset(side, from, span, program)
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
  `${side}_lane${side === 'b' && tile.major === 'mn' ? '_mn' : ''}`

/** What the swizzle of a tile XORs the numbers of the chunks of its n-th row with. */
function patternOf({ swizzle }: TileSource['tile'], n: number): number {
  const xor = swizzleXor(swizzle, constant(n))
  return xor === null ? 0 : evaluateIx(xor, () => NaN)
}

/** What a lane loads at once of a block of 16 rows of A or 8 columns of B. */
interface Piece {
  /** Its first register of the fragment. */
  readonly to: number
  readonly wrapper: string
  /** Rows or columns behind the first. */
  readonly rows: number
  /** Chunks of k, or elements of k, behind those of the step. */
  readonly k: number
  /** The swizzle of that row against the first one's. */
  readonly xor?: number
}

/** Of two rows of A for each block, and of B of a column (f64) or of two neighbours (f32): along k chunks of it, else single elements. */
function piecesOf(side: 'a' | 'b', { tile }: TileSource, atom: WarpAtom): readonly Piece[] {
  if (atom.type === 'double') {
    const wrapper = 'load_fragment_f64'
    const rows = side === 'a' ? [0, EIGHT] : [0]
    return [0, 1].flatMap((k) => rows.map((row, i) => ({ to: k * rows.length + i, wrapper, rows: row, k })))
  }
  const depth = ffmaDepth(atom)
  const suffix = depth === 4 ? '' : `_${depth}`
  if (tile.major === 'k') {
    const wrapper = `load_fragment_f32${suffix}`
    const next = side === 'a' ? { rows: EIGHT } : { rows: 1, xor: 16 * patternOf(tile, 1) }
    return [{ to: 0, wrapper, rows: 0, k: 0 }, { to: depth, wrapper, k: 0, ...next }] // prettier-ignore
  }
  return Array.from({ length: depth }, (_, k) => ({ to: k, wrapper: `load_columns_f32${suffix}`, rows: 0, k }))
}

function emitLoadOwn({ a, products, step, set }: LoadFragments, c: EmitContext, atom: WarpAtom): void {
  const isDouble = atom.type === 'double'
  const load = (side: 'a' | 'b', source: TileSource, count: string, target: string): void => {
    const { tile, buffer, operand } = source
    const bytes = DTYPES[operandNamed(c.program.source, operand).dtype].storageBytes
    const span = tile.span * bytes
    const [slot, where] = [slotAddress(c, buffer), note(c, `fragments of ${operand}`)]
    const [lanes, blocks] = [lanesName(side, source), side === 'a' ? 2 : 1]
    const along = ({ rows, k, xor = 0 }: Piece): string => {
      const moved = (isDouble ? 32 * (2 * step + k) : atom.kBytes * step) ^ xor
      const further = rows === 0 ? '' : ` + ${rows * span}`
      return `${moved === 0 ? lanes : `(${lanes} ^ ${moved})`} + i * ${EIGHT * blocks * span}${further}`
    }
    // Each 8 rows or columns of a box stand behind the 8 before, or where the swizzle, which repeats every four k, moves them.
    const perBox = tile.span / EIGHT
    const across = ({ rows, k }: Piece): string => {
      const part = rows === 0 ? 'part' : `(part + ${rows / EIGHT})`
      const row = isDouble ? 4 * (2 * step + k) : ffmaDepth(atom) * step + k
      // Without a swizzle by a sum: one address for all.
      const moved = perBox > 1 ? `(${lanes} ${isDouble ? '^' : '+'} ${part} % ${perBox} * ${EIGHT * bytes})` : lanes
      const box = tile.pitch > 0 ? ` + ${part} / ${perBox} * ${tile.pitch}` : ''
      return `${moved}${box} + ${row * span}`
    }
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
      if (tile.major === 'mn') {
        const first = side === 'a' ? `warp_m * (WARP_M / ${EIGHT})` : `warp_n * (WARP_N / ${EIGHT})`
        c.out.line(`const u32 part = ${first} + i${blocks > 1 ? ` * ${blocks}` : ''};`)
      }
      for (const piece of piecesOf(side, source, atom)) {
        const address = tile.major === 'mn' ? across(piece) : along(piece)
        const to = `${target}${piece.to === 0 ? '' : ` + ${piece.to}`}`
        c.out.line(call(c, piece.wrapper, to, `${slot} + ${address}`), where)
      }
    })
  }
  load('a', a, 'ROW_BLOCKS', `a_fragments[${set}][i]`)
  products.forEach((b, p) =>
    load('b', b, 'COLUMN_BLOCKS', `b_fragments[${set}][${p > 0 ? `${p} * COLUMN_BLOCKS + ` : ''}i]`),
  )
}

export function emitLoadFragments(op: LoadFragments, c: EmitContext): void {
  const atom = atomIn(c.program)
  if (atom.reads === 'lanes') return emitLoadOwn(op, c, atom)
  const { a, products, set } = op
  const step = op.step * (c.program.registers!.deep ?? 1)
  const load = (side: 'a' | 'b', source: TileSource, target: (i: string) => string): void => {
    const { tile, buffer, operand } = source
    if (tile.shifted) return emitShiftedFragments(side, source, target, step, c)
    const where = note(c, `fragments of ${operand}`)
    const span = tile.span * DTYPES[operandNamed(c.program.source, operand).dtype].storageBytes
    const wrapper = tile.major === 'k' ? 'ldmatrix_x4' : 'ldmatrix_x4_trans'
    const lanes = lanesName(side, source)
    const [count, first] = side === 'a' ? ['ROW_BLOCKS', 'i'] : ['COLUMN_BLOCKS / 2', '2 * i']
    const slot = slotAddress(c, buffer)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
      if (tile.major === 'k') {
        const along = step > 0 ? `(${lanes} ^ ${32 * step})` : lanes
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
