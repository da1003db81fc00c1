/**
 * Tile IR → CUDA statements: sums over chunks of k in tensor memory, scaled and added to the cells of a lane's row in registers, which go
 * back to tensor memory when the tile is complete.
 */
import { freeSide } from '../../../compiler/space/domain.ts'
import type { ScaleSource } from '../../../compiler/ir/pipe_loads.ts'
import type { AddPart } from '../../../compiler/ir/pipe_mma.ts'
import { call, call0, note, slotAddress, type EmitContext, type Emitters } from '../../pipe/context.ts'

/** Columns of a part that are in registers at once. */
const PIECE = 32

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b))

/** Columns of a product that a warp has. */
const columnsOf = ({ program: { layout, domain } }: EmitContext): number => layout.columns * freeSide(domain, 'n').ways
const pieceOf = (c: EmitContext): number => gcd(columnsOf(c), PIECE)
const productsOf = (c: EmitContext): number => c.program.tmem!.columnsPerAccumulator / columnsOf(c)

/** Address of this warp's lanes, from `column` on. */
const cellsAt = (column: string): string => `tmem + (warp << 21) + ${column}`

const asFloat = (word: string): string => `__uint_as_float(${word})`

/** Of the first scale of the chunk. */
const chunkAddress = (c: EmitContext, chunk: number, { buffer, layout }: ScaleSource): string =>
  `${slotAddress(c, buffer)}${chunk > 0 ? ` + ${4 * chunk * layout.count}` : ''}`

/** Adds a piece of the part of a product, in runs of columns that share a scale; columns of their own have theirs loaded by fours. */
function emitPiece({ cells, b }: AddPart, product: number, c: EmitContext): void {
  const piece = pieceOf(c)
  const where = note(c, 'add the part')
  const first = product * columnsOf(c)
  const add = (j: string, factor: string): void => {
    const cell = `cells[${first > 0 ? `${first} + ` : ''}column + ${j}]`
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

export const PART_EMITTERS: Emitters = {
  zero_cells(_, c) {
    const { columnsPerAccumulator } = c.program.tmem!
    c.out.line(`float cells[${columnsPerAccumulator}];  // the row of this lane`)
    c.out.line('#pragma unroll')
    c.out.line(`for (u32 j = 0; j < ${columnsPerAccumulator}; ++j) cells[j] = 0.0f;`)
  },
  add_part(op, c) {
    const { columnHalves } = c.program.layout
    const columns = columnsOf(c)
    const piece = pieceOf(c)
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
      for (let product = 0; product < productsOf(c); product++) {
        c.out.line('#pragma unroll')
        c.out.block(`for (u32 column = 0; column < ${columns}; column += ${piece})`, () => {
          c.out.line(`u32 part[${piece}];`)
          const from = cellsAt(`acc * ACC_COLUMNS + ${product > 0 ? `${product * columns} + ` : ''}column`)
          c.out.line(call(c, `tcgen05_ld_x${piece}`, 'part', from), note(c, 'TMEM load'))
          emitPiece(op, product, c)
        })
      }
    })
  },
  park_cells(_, c) {
    const { columnsPerAccumulator, sums } = c.program.tmem!
    const piece = pieceOf(c)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 column = 0; column < ${columnsPerAccumulator}; column += ${piece})`, () => {
      c.out.line(call(c, `tcgen05_st_x${piece}`, cellsAt(`${sums} + column`), '&cells[column]'), note(c, 'TMEM store'))
    })
  },
}

const group = (at: string, rows: number): string => (rows === 1 ? at : `${at} / ${rows}`)
