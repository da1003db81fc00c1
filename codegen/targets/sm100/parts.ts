/**
 * Tile IR → CUDA statements: sums over chunks of k in tensor memory, scaled and added to the cells of a lane's row in registers, which go
 * back to tensor memory when the tile is complete; or to those that stay there.
 */
import { freeSide } from '../../../compiler/space/domain.ts'
import type { ScaleSource } from '../../../compiler/ir/pipe_loads.ts'
import type { AddPart } from '../../../compiler/ir/pipe_mma.ts'
import { call, call0, note, slotAddress, type EmitContext, type Emitters } from '../../pipe/context.ts'

/** Columns of a part that are in registers at once. */
const PIECE = 32
/** The same where the sums that it is added to pass through registers with it. */
const PIECE_IN_MEMORY = 16

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b))

/** Columns of a product that a warp has. */
const columnsOf = ({ program: { layout, domain } }: EmitContext): number => layout.columns * freeSide(domain, 'n').ways
const pieceOf = (c: EmitContext): number => gcd(columnsOf(c), PIECE)
const pieceInMemory = (c: EmitContext): number => gcd(columnsOf(c), PIECE_IN_MEMORY)
/** Sums of a lane's row that are in registers: the first ones. */
const registersOf = ({ program }: EmitContext): number =>
  program.tmem!.inRegisters ?? program.tmem!.columnsPerAccumulator
const productsOf = (c: EmitContext): number => c.program.tmem!.columnsPerAccumulator / columnsOf(c)

/** Address of this warp's lanes, from `column` on. */
const cellsAt = (column: string): string => `tmem + (warp << 21) + ${column}`

const asFloat = (word: string): string => `__uint_as_float(${word})`

/** Of the first scale of the chunk. */
const chunkAddress = (c: EmitContext, chunk: number, { buffer, layout }: ScaleSource): string =>
  `${slotAddress(c, buffer)}${chunk > 0 ? ` + ${4 * chunk * layout.count}` : ''}`

/** Adds a piece of the part of a product, in runs of columns that share a scale; columns of their own have theirs loaded by fours. */
function emitPiece(
  { cells, b }: AddPart,
  product: number,
  piece: number,
  cellOf: (j: string) => string,
  c: EmitContext,
): void {
  const where = note(c, 'add the part')
  const add = (j: string, factor: string): void => {
    const cell = cellOf(j)
    const sum = cells === 's32' ? `static_cast<float>(static_cast<int>(part[${j}]))` : asFloat(`part[${j}]`)
    c.out.line(`${cell} = fmaf(${factor}, ${sum}, ${cell});`, where)
  }
  const source = b[product]!
  const run = source ? gcd(piece, source.layout.group) : piece
  c.out.line('#pragma unroll')
  if (run === 1) {
    c.out.block(`for (u32 j = 0; j < ${piece}; j += 4)`, () => {
      c.out.line(`const uint4 four = ${call0(c, 'load_shared_v4', `scales_b${product} + (column + j) * 4`)};`)
      for (const [i, x] of ['x', 'y', 'z', 'w'].entries()) add(`j + ${i}`, `scale_a * ${asFloat(`four.${x}`)}`)
    })
    return
  }
  c.out.block(`for (u32 run = 0; run < ${piece}; run += ${run})`, () => {
    const at = `scales_b${product} + (column + run) / ${source?.layout.group} * 4`
    const loaded = source && `scale_a * ${asFloat(call0(c, 'load_shared', at))}`
    c.out.line(`const float scale = ${loaded ?? 'scale_a'};`, where)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = run; j < run + ${run}; ++j)`, () => add('j', 'scale'))
  })
}

/** Adds the part of a product: to the first of its sums in registers, to the others where they are. */
function emitProduct(op: AddPart, product: number, c: EmitContext): void {
  const columns = columnsOf(c)
  const first = product * columns
  const behind = first > 0 ? `${first} + ` : ''
  const inRegisters = Math.max(0, Math.min(columns, registersOf(c) - first))
  const pieces = (from: number, to: number, piece: number, isIndexed: boolean, add: () => void): void => {
    if (from === to) return
    // A branch keeps ptxas from holding several pieces of what is not in registers.
    c.out.line(isIndexed ? '#pragma unroll' : '#pragma unroll 1')
    c.out.block(`for (u32 column = ${from}; column < ${to}; column += ${piece})`, () => {
      c.out.line(`u32 part[${piece}];`)
      const part = cellsAt(`acc * ACC_COLUMNS + ${behind}column`)
      c.out.line(call(c, `tcgen05_ld_x${piece}`, 'part', part), note(c, 'TMEM load'))
      add()
    })
  }
  const piece = pieceOf(c)
  pieces(0, inRegisters, piece, true, () => emitPiece(op, product, piece, (j) => `cells[${behind}column + ${j}]`, c))
  const small = pieceInMemory(c)
  pieces(inRegisters, columns, small, false, () => {
    const at = cellsAt(`${c.program.tmem!.sums} + ${behind}column`)
    c.out.line(`u32 words[${small}];`)
    c.out.line(call(c, `tcgen05_ld_x${small}`, 'words', at), note(c, 'TMEM load'))
    c.out.line(`float sums[${small}];`)
    c.out.line('#pragma unroll')
    c.out.line(`for (u32 j = 0; j < ${small}; ++j) sums[j] = __uint_as_float(words[j]);`)
    emitPiece(op, product, small, (j) => `sums[${j}]`, c)
    c.out.line(call(c, `tcgen05_st_x${small}`, at, 'sums'), note(c, 'TMEM store'))
  })
}

export const PART_EMITTERS: Emitters = {
  zero_cells(_, c) {
    const { columnsPerAccumulator, sums } = c.program.tmem!
    const inRegisters = registersOf(c)
    c.out.line(`float cells[${inRegisters}];  // the row of this lane`)
    c.out.line('#pragma unroll')
    c.out.line(`for (u32 j = 0; j < ${inRegisters}; ++j) cells[j] = 0.0f;`)
    if (inRegisters === columnsPerAccumulator) return
    const piece = pieceInMemory(c)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 column = ${inRegisters}; column < ${columnsPerAccumulator}; column += ${piece})`, () => {
      c.out.line(`const float zeros[${piece}] = {};`)
      c.out.line(call(c, `tcgen05_st_x${piece}`, cellsAt(`${sums} + column`), 'zeros'), note(c, 'TMEM store'))
    })
  },
  add_part(op, c) {
    const { columnHalves } = c.program.layout
    const columns = columnsOf(c)
    const where = note(c, 'load scales')
    c.out.block('', () => {
      const warpRow = `${columnHalves === 2 ? 'warp % 2' : 'warp'} * ROWS_PER_WARP + lane % ROWS_PER_WARP`
      const rowScale = (a: ScaleSource): string =>
        asFloat(
          call0(c, 'load_shared', `${chunkAddress(c, op.chunk, a)} + ${group(`(${warpRow})`, a.layout.group)} * 4`),
        )
      c.out.line(`const float scale_a = ${op.a ? rowScale(op.a) : '1.0f'};`, where)
      for (const [product, source] of op.b.entries())
        if (source) {
          const right = columnHalves === 2 ? ` + warp / 2 * ${(columns / source.layout.group) * 4}` : ''
          c.out.line(`const u32 scales_b${product} = ${chunkAddress(c, op.chunk, source)}${right};`, where)
        }
      for (let product = 0; product < productsOf(c); product++) emitProduct(op, product, c)
    })
  },
  park_cells(_, c) {
    const { sums } = c.program.tmem!
    const piece = pieceOf(c)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 column = 0; column < ${registersOf(c)}; column += ${piece})`, () => {
      c.out.line(call(c, `tcgen05_st_x${piece}`, cellsAt(`${sums} + column`), '&cells[column]'), note(c, 'TMEM store'))
    })
  },
}

const group = (at: string, rows: number): string => (rows === 1 ? at : `${at} / ${rows}`)
