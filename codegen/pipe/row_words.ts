/** Rows of memory that begin anywhere, by words that lie at multiples of 4 bytes, to and from the slots of a warp. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { AuxLoad, EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { name } from '../../compiler/space/ix.ts'
import { swizzled, type Swizzle } from '../../compiler/space/layout.ts'
import { call0, note, slotAddress, type EmitContext } from './context.ts'
import { element, operandOf } from './epilogue_values.ts'

export type RowStore = Extract<EpilogueOp, { op: 'row_store' }>

/** A sub-tile of `bytes` for each element: a lane has one word of a row, and so many rows of a warp are under way at once. */
function shapeOf({ program: { subtileColumns: columns, layout } }: EmitContext, bytes: number) {
  const words = (columns * bytes) / 4
  return {
    columns, rows: layout.rowsPerWarp, words, perWord: 4 / bytes, step: Math.max(1, 32 / words),
    raw: ({ 1: 'unsigned char', 2: 'u16', 4: 'u32' } as const)[bytes as 1 | 2 | 4],
  } // prettier-ignore
}

/** Declares the lane's word `w`, how many elements of its rows there are, its first row, and the way to the next one. */
function beginRows(
  pointer: string,
  constant: string,
  operand: TensorOperand,
  bytes: number,
  c: EmitContext,
  where: object,
): void {
  const { columns, words, step, raw } = shapeOf(c, bytes)
  const column = c.program.layout.held === 'row' ? 'col' : 'subtile_col'
  const at = (row: string): string => `&${element(c, operand, { m: `(${row})`, n: column })}`
  const first = `warp_row + lane / ${words}`
  c.out.line(`const u32 w = lane % ${words};`, where)
  c.out.line(
    `const int left = min(static_cast<int>(${c.names.edge('n')} - ${column}), ${columns});  // not above 0: none`,
    where,
  )
  c.out.line(`${constant}${raw}* ${pointer} = reinterpret_cast<${constant}${raw}*>(${at(first)});`, where)
  c.out.line(`const i64 rows = ${at(`${first} + ${step}`)} - ${at(first)};`, where)
}

const forRows = (pointer: string, bytes: number, c: EmitContext, body: () => void): void => {
  const { rows, words, step } = shapeOf(c, bytes)
  // Lanes that hold rows have fewer registers left: 8 of them spill with 8 such outputs.
  c.out.line(`#pragma unroll ${c.program.layout.held === 'row' ? 4 : 8}`)
  c.out.block(`for (u32 r = lane / ${words}; r < ${rows}; r += ${step}, ${pointer} += rows)`, body)
}

/** Address of the word in the slot. */
const place = (buffer: string, swizzle: Swizzle, bytes: number, c: EmitContext, row = 'r'): string =>
  `${slotAddress(c, buffer)} + ${row} * ${c.program.subtileColumns * bytes} + ${swizzled(swizzle, '(w / 4)', name(row))} * 16 + w % 4 * 4`

/**
 * The words of memory that a row covers, each out of two of shared memory; elements at both ends. Neighbouring lanes have neighbouring words, so
 * that a warp writes whole lines of L2.
 */
export function storeWords(op: RowStore, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const where = note(c, `store ${op.operand}`)
  const { words, perWord, raw } = shapeOf(c, op.bytes)
  const elements = (of: string, from: string, end: string): void => {
    c.out.line('#pragma unroll')
    c.out.line(
      `for (u32 e = 0; e < ${perWord - 1}; ++e) if (${from}e < ${end}) to[${from}e] = static_cast<${raw}>(${of} >> ${8 * op.bytes} * e);`,
      where,
    )
  }
  c.out.block('', () => {
    beginRows('to', '', operand, op.bytes, c, where)
    forRows('to', op.bytes, c, () => {
      c.out.line(`const u32 own = ${call0(c, 'load_shared_b32', place(op.buffer, op.swizzle, op.bytes, c))};`, where)
      if (op.bytes < 4) c.out.line(`const u32 next = __shfl_down_sync(~0u, own, 1, ${words});`, where)
      c.out.block(`if (warp_row + r < ${c.names.end('m')} && left > 0)`, () => {
        if (op.bytes === 4) return void c.out.line('if (static_cast<int>(w) < left) to[w] = own;', where)
        // Elements before the first whole word of memory.
        c.out.line(
          `const int before = -static_cast<u32>(reinterpret_cast<u64>(to)) % 4 / ${op.bytes}, first = w * ${perWord} + before;`,
        )
        c.out.line(`const u32 word = __funnelshift_r(own, next, ${8 * op.bytes} * before);`)
        c.out.line(`if (first + ${perWord} <= left) *reinterpret_cast<u32*>(to + first) = word;`, where)
        c.out.block('else', () => elements('word', 'first + ', 'left'))
        c.out.block('if (w == 0)', () => elements('own', '', 'min(before, left)'))
      })
    })
  })
}

/** Rows whose loads are under way before the first word is waited for. */
const UNDER_WAY = 8

/** The other way, to the slot, all of which the warp has read. Words that stick out of a row are put together from its elements. */
export function emitLoadWords(
  operandName: string,
  { buffer, swizzle }: NonNullable<AuxLoad['rows']>,
  c: EmitContext,
): void {
  const operand = operandOf(c, operandName)
  const where = note(c, `load ${operandName}`)
  const bytes = DTYPES[operand.dtype].storageBytes
  const { words, rows, perWord, step } = shapeOf(c, bytes)
  const each = Math.min(UNDER_WAY, Math.ceil(rows / step))
  const unrolled = (body: () => void): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${each}; ++i)`, body)
  }
  // Elements of the row's first word that are those of others.
  const declare = (): void => {
    c.out.line(`const ${shapeOf(c, bytes).raw}* row = from + i * rows;`, where)
    const before = bytes === 4 ? '0' : `static_cast<u32>(reinterpret_cast<u64>(row)) % 4 / ${bytes}`
    c.out.line(`const int before = ${before};`, where)
  }
  const element = (at: string, condition: string, e: string): string =>
    `(is_row && ${condition}${at} >= 0 && ${at} < left ? static_cast<u32>(row[${at}]) << ${8 * bytes} * ${e} : 0)`
  beginRows('from', 'const ', operand, bytes, c, where)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 r = lane / ${words}; r < ${rows}; r += ${each * step}, from += ${each} * rows)`, () => {
    c.out.line(`u32 own[${each}], next[${each}];`)
    unrolled(() => {
      declare()
      c.out.line(`const int first = w * ${perWord} - before;`, where)
      c.out.line(`const bool is_row = warp_row + r + i * ${step} < ${c.names.end('m')};`, where)
      c.out.line(`const bool whole = is_row && first >= 0 && first + ${perWord} <= left;`, where)
      c.out.line('own[i] = whole ? *reinterpret_cast<const u32*>(row + first) : 0, next[i] = 0;', where)
      if (bytes === 4) return
      for (let e = 0; e < perWord; e++) {
        c.out.line(`own[i] |= ${element(`first + ${e}`, '!whole && ', String(e))};`, where)
        if (e < perWord - 1)
          c.out.line(
            `next[i] |= ${element(`first + ${perWord + e}`, `w == ${words - 1} && ${e} < before && `, String(e))};`,
            where,
          )
      }
    })
    unrolled(() => {
      if (bytes < 4) {
        declare()
        c.out.line(`const u32 behind = __shfl_down_sync(~0u, own[i], 1, ${words});`, where)
        c.out.line(`own[i] = __funnelshift_r(own[i], w == ${words - 1} ? next[i] : behind, ${8 * bytes} * before);`)
      }
      c.out.line(
        `${call0(c, 'store_shared_b32', place(buffer, swizzle, bytes, c, `(r + i * ${step})`), 'own[i]')};`,
        where,
      )
    })
  })
}
