/** Rows that begin anywhere, out of the slots of a warp to memory: by words at multiples of 4 bytes, or pieces of 16. */
import type { EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { name } from '../../compiler/space/ix.ts'
import { swizzled, type Swizzle } from '../../compiler/space/layout.ts'
import { call0, note, rawType, slotAddress, type EmitContext } from './context.ts'
import { element, operandOf } from './epilogue_values.ts'

export type RowStore = Extract<EpilogueOp, { op: 'row_store' }>

/** A sub-tile of `bytes` for each element: a lane has one word of a row, and so many rows of a warp are under way at once. */
function shapeOf({ program: { subtileColumns: columns, layout } }: EmitContext, bytes: number) {
  const words = (columns * bytes) / 4
  return {
    columns, rows: layout.rowsPerWarp, words, perWord: 4 / bytes, step: Math.max(1, 32 / words),
    raw: rawType(bytes),
  } // prettier-ignore
}

/** Declares the lane's word `w`, how many elements of its rows there are, its first row, and the way to the next one. */
function beginRows(operand: TensorOperand, bytes: number, c: EmitContext, where: object): void {
  const { columns, words, step, raw } = shapeOf(c, bytes)
  const at = (row: string): string => `&${element(c, operand, { m: `(${row})`, n: 'col' })}`
  const first = `warp_row + lane / ${words}`
  c.out.line(`const u32 w = lane % ${words};`, where)
  c.out.line(
    `const int left = min(static_cast<int>(${c.names.edge('n')} - col), ${columns});  // not above 0: none`,
    where,
  )
  c.out.line(`${raw}* first = reinterpret_cast<${raw}*>(${at(first)});`, where)
  c.out.line(`const i64 rows = ${at(`${first} + ${step}`)} - ${at(first)};`, where)
}

/** Address of word `at` of a row in the slot, where `chunk` are its 16 bytes. */
const wordAt = (
  buffer: string,
  swizzle: Swizzle,
  bytes: number,
  c: EmitContext,
  chunk: string,
  at: string,
  row = 'r',
): string =>
  `${slotAddress(c, buffer)} + ${row} * ${c.program.subtileColumns * bytes} + ${swizzled(swizzle, chunk, name(row))} * 16 + ${at}`

/** Address of the lane's word. */
const place = (buffer: string, swizzle: Swizzle, bytes: number, c: EmitContext, row?: string): string =>
  wordAt(buffer, swizzle, bytes, c, '(w / 4)', 'w % 4 * 4', row)

/**
 * Rows of a warp, out of its slot to memory where they begin anywhere. Neighbouring lanes have neighbours in memory, so that a warp writes
 * whole lines of L2.
 */
export function storeWords(op: RowStore, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const where = note(c, `store ${op.operand}`)
  const { columns, rows, raw } = shapeOf(c, op.bytes)
  const at = (row: string): string => `&${element(c, operand, { m: `(${row})`, n: 'col' })}`
  const whole = `warp_row + ${rows} <= ${c.names.end('m')} && col + ${columns} <= ${c.names.edge('n')}`
  c.out.block(`if (${whole})`, () => {
    c.out.line(`${raw}* const first = reinterpret_cast<${raw}*>(${at('warp_row')});`, where)
    c.out.line(`const i64 pitch = ${at('warp_row + 1')} - ${at('warp_row')};`, where)
    if (op.bytes === 4) return storeWhole(op, c, where)
    const inWords = `(reinterpret_cast<u64>(first) | static_cast<u64>(pitch) * ${op.bytes}) % 4 == 0`
    c.out.block(`if (${inWords})`, () => storeWhole(op, c, where))
    c.out.block('else', () => storePieces(op, c, where))
  })
  c.out.block('else', () => storeEdges(op, operand, c, where))
}

/** Whole sub-tiles whose rows are words of memory: a lane has one. `first`: where the first row begins, `pitch` elements before the next. */
export function storeWhole(op: RowStore, c: EmitContext, where: object): void {
  const { rows, perWord, words, step } = shapeOf(c, op.bytes)
  c.out.line(`const u32 w = lane % ${words};`, where)
  c.out.line(`#pragma unroll ${c.program.layout.held === 'row' ? 4 : 8}`)
  c.out.block(`for (u32 i = 0; i < ${rows / step}; ++i)`, () => {
    c.out.line(`const u32 r = ${step === 1 ? 'i' : `lane / ${words} + i * ${step}`};`)
    const own = call0(c, 'load_shared_b32', place(op.buffer, op.swizzle, op.bytes, c))
    c.out.line(`*reinterpret_cast<u32*>(first + r * pitch + w * ${perWord}) = ${own};`, where)
  })
}

/**
 * Whole sub-tiles of other rows, in the pieces of 16 bytes of memory that a row covers: a lane has one, out of five words of shared memory.
 * What is left at both ends of a row is as long as a piece: its elements.
 */
function storePieces(op: RowStore, c: EmitContext, where: object): void {
  const { columns, rows, raw, perWord } = shapeOf(c, op.bytes)
  const perPiece = 16 / op.bytes
  const pieces = columns / perPiece
  const step = 32 / pieces
  const shift = `before % ${perWord} * ${8 * op.bytes}`
  const word = (chunk: string, at: string): string => wordAt(op.buffer, op.swizzle, op.bytes, c, chunk, at)
  c.out.line(`const u32 w = lane % ${pieces};`, where)
  c.out.line(`#pragma unroll 2`)
  c.out.block(`for (u32 i = 0; i < ${Math.max(1, rows / step)}; ++i)`, () => {
    c.out.line(`const u32 r = lane / ${pieces} + i * ${step};`)
    if (step > rows) c.out.line(`if (r >= ${rows}) break;`)
    c.out.line(`${raw}* const to = first + r * pitch;`, where)
    c.out.line(`const u32 before = -static_cast<u32>(reinterpret_cast<u64>(to)) % 16 / ${op.bytes};  // elements, of the piece that others begin`) // prettier-ignore
    c.out.line(`const u32 word = before / ${perWord};`)
    c.out.line(`const u32 here = ${word('w', 'word * 4')};`, where)
    c.out.line(`const u32 behind = ${word(`((w + 1) % ${pieces})`, 'word * 4')} - 16;`, where)
    c.out.line('u32 own[5];')
    c.out.line('#pragma unroll')
    const load = call0(c, 'load_shared_b32', '(word + e < 4 ? here : behind) + e * 4')
    c.out.line(`for (u32 e = 0; e < 5; ++e) own[e] = ${load};`, where)
    const piece = [0, 1, 2, 3].map((e) => `__funnelshift_r(own[${e}], own[${e + 1}], ${shift})`).join(', ')
    const isWhole = pieces > 1 ? `w < ${pieces - 1} || before == 0` : 'before == 0'
    c.out.line(`if (${isWhole}) *reinterpret_cast<uint4*>(to + before + w * ${perPiece}) = make_uint4(${piece});`, where) // prettier-ignore
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 e = w; e < ${perPiece}; e += ${pieces})`, () => {
      c.out.line(`const u32 j = e < before ? e : ${columns - perPiece} + e;`)
      const holder = call0(c, 'load_shared_b32', word(`(j / ${perPiece})`, `j % ${perPiece} / ${perWord} * 4`))
      c.out.line(`const u32 holder = ${holder};`, where)
      c.out.line(`if (before != 0) to[j] = static_cast<${raw}>(holder >> j % ${perWord} * ${8 * op.bytes});`, where)
    })
  })
}

/** Sub-tiles that stick out of the output, in words of memory, each out of two of shared memory; elements at both ends. */
function storeEdges(op: RowStore, operand: TensorOperand, c: EmitContext, where: object): void {
  const { rows, step, words, perWord, raw } = shapeOf(c, op.bytes)
  const elements = (of: string, from: string, end: string): void => {
    c.out.line('#pragma unroll')
    c.out.line(
      `for (u32 e = 0; e < ${perWord - 1}; ++e) if (${from}e < ${end}) to[${from}e] = static_cast<${raw}>(${of} >> ${8 * op.bytes} * e);`,
      where,
    )
  }
  beginRows(operand, op.bytes, c, where)
  const each = Math.min(UNDER_WAY, Math.max(1, rows / step))
  const unrolled = (body: () => void): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${each}; ++i)`, body)
  }
  // Of the last column of tiles, which the others wait for where there is one wave.
  c.out.line('#pragma unroll 1')
  c.out.block(`for (u32 r = lane / ${words}; r < ${rows}; r += ${each * step}, first += ${each} * rows)`, () => {
    c.out.line(`u32 words[${each}]${op.bytes < 4 ? `, behind[${each}]` : ''};`)
    unrolled(() => {
      const row = `(r + i * ${step})`
      c.out.line(`words[i] = ${call0(c, 'load_shared_b32', place(op.buffer, op.swizzle, op.bytes, c, row))};`, where)
      if (op.bytes < 4) c.out.line(`behind[i] = __shfl_down_sync(~0u, words[i], 1, ${words});`, where)
    })
    unrolled(() => {
      c.out.line(`if (warp_row + r + i * ${step} >= ${c.names.end('m')} || left <= 0) continue;`, where)
      c.out.line(`${raw}* const to = first + i * rows;`, where)
      if (op.bytes === 4) return void c.out.line('if (static_cast<int>(w) < left) to[w] = words[i];', where)
      // Elements before the first whole word of memory.
      c.out.line(
        `const int before = -static_cast<u32>(reinterpret_cast<u64>(to)) % 4 / ${op.bytes}, from = w * ${perWord} + before;`,
      )
      c.out.line(`const u32 word = __funnelshift_r(words[i], behind[i], ${8 * op.bytes} * before);`)
      c.out.line(`if (from + ${perWord} <= left) *reinterpret_cast<u32*>(to + from) = word;`, where)
      c.out.block('else', () => elements('word', 'from + ', 'left'))
      c.out.block('if (w == 0)', () => elements('words[i]', '', 'min(before, left)'))
    })
  })
}

/** Rows whose loads are under way before the first word is waited for. */
const UNDER_WAY = 8
