/** Tile IR → CUDA statements, operations that SM80 alone has: copies by all threads, fragments, warp MMAs. */
import type { TileOp } from '../../../compiler/ir/pipe.ts'
import { freeSide } from '../../../compiler/space/domain.ts'
import { atomOf } from '../../../compiler/targets/sm80/mma.ts'
import { emitCutChunks, isSharedEvenly } from '../../pipe/copies.ts'
import { COMMON_EMITTERS } from '../../pipe/emit.ts'
import { subtileLoop } from '../../pipe/emit_epilogue.ts'
import { emitOps, note, type EmitContext, type Emitters } from '../../pipe/context.ts'
import {
  accumulatorArray,
  allCells,
  CELL,
  cellsOf,
  emitFragmentRow,
  emitTakeCells,
  registersOf,
  takeRegisters,
} from '../../pipe/fragments.ts'
import { EXCHANGE_EMITTERS } from '../../pipe/exchange.ts'
import { emitLoadColumns, emitLoadLines, emitLoadRows } from '../../pipe/ahead.ts'
import { emitLoadElements, emitLoadNext } from '../../pipe/elements_ahead.ts'
import { firstCell, partEmitters } from '../../pipe/parts.ts'
import { finishesShares, isOwnSubtile } from '../../pipe/shares.ts'
import { SCALE_EMITTERS } from '../../pipe/scales.ts'
import { atomIn, crossesLanes, CROSSED_LANE, emitLoadFragments, sourcesOf } from './loads.ts'
import { SHARE_K_EMITTERS } from './share_k.ts'
import { emitSettled, emitSettleRows } from './settled.ts'
import { emitShift } from './shifted.ts'
import { FFMA_STEP, mmaName, mmaText, SPLIT_F32, SPLIT_MMA, splitMmaName } from './ptx.ts'

type MmaSync = Extract<TileOp, { op: 'mma_sync' }>

/** Parts of all columns of a step, and of 16 rows at a time. */
function multiplyParts({ kind, set }: MmaSync, c: EmitContext): void {
  const { products } = registersOf(c)
  const { a, b } = atomOf(kind)
  c.definitions.set('split_f32', SPLIT_F32)
  c.definitions.set(splitMmaName(kind), SPLIT_MMA(kind))
  const where = note(c, 'MMAs of parts')
  const columns = products > 1 ? `${products} * COLUMN_BLOCKS` : 'COLUMN_BLOCKS'
  c.out.block('', () => {
    c.out.line(`u32 b_high[${columns}][${b}], b_low[${columns}][${b}];`)
    c.out.line('#pragma unroll')
    c.out.line(
      `for (u32 j = 0; j < ${columns}; ++j) split_f32(b_fragments[${set}][j], b_high[j], b_low[j], ${b});`,
      where,
    )
    c.out.line('#pragma unroll')
    c.out.block('for (u32 i = 0; i < ROW_BLOCKS; ++i)', () => {
      c.out.line(`u32 a_high[${a}], a_low[${a}];`)
      c.out.line(`split_f32(a_fragments[${set}][i], a_high, a_low, ${a});`, where)
      c.out.line('#pragma unroll')
      c.out.block('for (u32 j = 0; j < COLUMN_BLOCKS; ++j)', () => {
        for (let p = 0; p < products; p++) {
          const [block, column] = p > 0 ? [`(${p} * ROW_BLOCKS + i)`, `${p} * COLUMN_BLOCKS + j`] : ['i', 'j']
          const cells = `acc + ${block} * CELLS + j * ${cellsOf(kind.d, 8)}`
          c.out.line(`${splitMmaName(kind)}(${cells}, a_high, a_low, b_high[${column}], b_low[${column}]);`, where)
        }
      })
    })
  })
}

/** Of each product: a step is long enough by itself. */
function multiplyAdd({ set, chunk }: MmaSync, c: EmitContext): void {
  const sums = chunk ? 'sums' : 'acc'
  c.definitions.set('ffma_step', FFMA_STEP)
  if (chunk === 'begins') c.out.line('#pragma unroll').line(`for (u32 i = 0; i < ${allCells(c)}; ++i) sums[i] = 0;`)
  for (let p = 0; p < registersOf(c).products; p++) {
    const [from, columns] = p > 0 ? [` + ${p} * ROW_BLOCKS * CELLS`, ` + ${p} * 2 * COLUMN_BLOCKS`] : ['', '']
    c.out.line(`ffma_step(${sums}${from}, a_fragments[${set}], b_fragments[${set}]${columns});`, note(c, 'FFMAs'))
  }
}

/**
 * Copies of the k tiles ahead and MMAs are one block of instructions where copies have few addresses, in a loop of the k tiles that have some ahead:
 * MMAs go on while addresses are computed. The last k tiles have a loop of their own, without copies.
 */
const isOneBlock = ({ body }: Extract<TileOp, { op: 'ahead' }>, c: EmitContext): boolean =>
  body.every((part) => part.op === 'advance' || (part.op === 'copy_tile' && isSharedEvenly(part, c)))

/** The i-th of its rows (CUDA texts). */
const rowOfLane = (i: string): string => `at.m + warp_m * WARP_M + ${i} / 2 * ROWS_PER_WARP + lane / 4 + ${i} % 2 * 8`

export const SM80_EMITTERS: Emitters = {
  ...COMMON_EMITTERS,
  for_first_k(op, c) {
    // Unrolled, its addresses fill the registers.
    c.out.line('#pragma unroll 1')
    c.out.block(`for (u32 first = 0; first < ${op.count}; ++first)`, () => {
      c.out.line('const u32 k = k_first + first;')
      emitOps(op.body, c)
    })
  },
  for_k(op, c) {
    const ahead = op.body.find((part) => part.op === 'ahead')
    if (!ahead || !isOneBlock(ahead, c)) return COMMON_EMITTERS.for_k(op, c)
    c.out.line('u32 k = k_first;')
    const loops = [`for (; k + ${ahead.by} < k_last; ++k)`, 'for (; k < k_last; ++k)']
    for (const [i, loop] of loops.entries())
      c.out.line('#pragma unroll 1').block(loop, () => emitOps(op.body, { ...c, ahead: i === 0 ? 'all' : 'none' }))
  },
  ahead(op, c) {
    if (c.ahead === 'none') return
    const body = (): void => {
      for (const part of op.body) if (part.op === 'copy_tile') emitCutChunks(part, c)
      emitOps(op.body, c)
    }
    if (op.by === 0) return c.out.block('if (k < k_last)', body)
    c.out.line(`const u32 ahead = k + ${op.by};`)
    c.out.block(c.ahead === 'all' ? '' : 'if (ahead < k_last)', () => {
      c.out.line('const u32 k = ahead;')
      body()
    })
  },
  zero_cells(_, c) {
    const { products } = registersOf(c)
    c.out.line(`${accumulatorArray(c)} = {};  // accumulators`)
    const { parts } = registersOf(c)
    if (parts) c.out.line(`${CELL[parts.cells][0]} sums[${allCells(c)}];  // of a chunk of k`)
    const { type, a, b } = atomIn(c.program)
    const columns = products > 1 ? `${products} * COLUMN_BLOCKS` : 'COLUMN_BLOCKS'
    // Loads of f32 are of several blocks.
    const array = (blocks: string, each: number): string =>
      type === 'float' ? `[${blocks} * ${each}]` : `[${blocks}][${each}]`
    c.out.line(`${type} a_fragments[2]${array('ROW_BLOCKS', a)}, b_fragments[2]${array(columns, b)};`)
    for (const [side, source] of sourcesOf(c.program)) {
      if (source.tile.settled) emitSettled(source, c)
      else if (source.tile.shifted) emitShift(side, source, c)
    }
  },
  settle_rows: emitSettleRows,
  load_fragments: emitLoadFragments,
  mma_sync(op, c) {
    const { kind, set, chunk } = op
    const { products } = registersOf(c)
    if (atomOf(kind).type === 'float') return multiplyAdd(op, c)
    c.definitions.set(mmaName(kind), mmaText(kind))
    if (kind.split) return multiplyParts(op, c)
    const where = note(c, 'MMA')
    if (chunk === 'begins') c.out.line('#pragma unroll').line(`for (u32 i = 0; i < ${allCells(c)}; ++i) sums[i] = 0;`)
    c.out.line('#pragma unroll')
    c.out.block('for (u32 i = 0; i < ROW_BLOCKS; ++i)', () => {
      c.out.line('#pragma unroll')
      c.out.block('for (u32 j = 0; j < COLUMN_BLOCKS; ++j)', () => {
        for (let p = 0; p < products; p++) {
          const [block, column] = p > 0 ? [`(${p} * ROW_BLOCKS + i)`, `${p} * COLUMN_BLOCKS + j`] : ['i', 'j']
          c.out.line(
            `${mmaName(kind)}(${chunk ? 'sums' : 'acc'} + ${block} * CELLS + j * ${cellsOf(kind.d, 8)}, a_fragments[${set}][i], b_fragments[${set}][${column}]);`,
            where,
          )
        }
      })
    })
  },
  for_row_blocks(op, c) {
    c.out.line('#pragma unroll')
    c.out.block('for (u32 block = 0; block < ROW_BLOCKS; ++block)', () => emitOps(op.body, c))
  },
  load_ahead(op, c) {
    if (op.shape === 'row') return emitLoadRows(op, c)
    const load = op.elements ? emitLoadElements : op.shape === 'full' ? emitLoadLines : emitLoadColumns
    load(op, rowOfLane, registersOf(c).rowBlocks, c)
  },
  load_next: (op, c) => emitLoadNext(op, rowOfLane, registersOf(c).rowBlocks, c),
  own_row(_, c) {
    emitFragmentRow(c, 'at.m + warp_m * WARP_M + block * ROWS_PER_WARP')
  },
  for_subtiles(op, c) {
    const { ways } = freeSide(c.program.domain, 'n')
    const held = ways === 1 ? 'WARP_N' : `(WARP_N / ${ways})`
    c.out.line('#pragma unroll')
    c.out.block(subtileLoop(op, held, c), () => {
      if (finishesShares(c)) {
        const number = `((block * ${held} + column) / ${c.program.subtileColumns})`
        c.out.line(`if (!${isOwnSubtile(number)}) continue;`)
      }
      c.out.line(`[[maybe_unused]] const u32 subtile_col = at.n + warp_n * ${held} + column;`)
      c.out.line('[[maybe_unused]] const u32 col = subtile_col + lane % 4 * 2;')
      emitOps(op.body, c)
    })
  },
  take_cells(_, c) {
    if (!crossesLanes(c.program)) return emitTakeCells(c)
    c.out.line(`const u32 multiplied_by = ${CROSSED_LANE};`)
    emitTakeCells(c, (cells) => takeRegisters(c, cells, (cell) => `__shfl_sync(~0u, ${cell}, multiplied_by)`))
  },
  ...EXCHANGE_EMITTERS,
  ...SCALE_EMITTERS,
  ...SHARE_K_EMITTERS,
  ...partEmitters({
    row: (_, block) => `warp_m * WARP_M + ${block} * ROWS_PER_WARP + lane / 4`,
    columns: 'warp_n * WARP_N',
    sum: firstCell,
  }),
}
