/**
 * Outputs whose rows begin anywhere, from registers to memory: in shared memory each row stands as far behind a multiple of 16 bytes as in global
 * memory, so that its pieces of 16 bytes leave whole. What the last piece of a sub-tile has is carried to the first one of the next: only the
 * ends of the rows of a warp are stored element by element.
 */
import type { EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import { PIECE_BYTES, SECTOR_BYTES, shiftedRowBytes } from '../../compiler/space/layout.ts'
import { call, call0, note, rawType, slotAddress, type EmitContext } from './context.ts'
import { element, isOfUnits, operandOf, subtileColumn } from './epilogue_values.ts'
import { storeWords, type RowStore } from './row_words.ts'
import { emitCarry, firstColumn, isAlone, overlaps, stageShifted } from './shifted_stage.ts'

type StageWrite = Extract<EpilogueOp, { op: 'stage_write' }>

/** Declares whether the rows of an output are words of memory. Such sub-tiles leave as they are, but for those that stick out of it. */
function emitWords(op: StageWrite | RowStore, c: EmitContext): void {
  if (op.bytes === 4) return void c.out.line('constexpr bool words = true;')
  const first = { m: 'warp_row', n: subtileColumn(c) }
  c.out.line(`const bool words = ${isOfUnits(c, operandOf(c, op.operand), first, 4)};`)
}

/** Is all of the sub-tile inside of the output? Of tiles that overlap, and what it carries: rows that end with it end in a piece of their own. */
const isInside = (c: EmitContext): string =>
  `warp_row + ${c.program.layout.rowsPerWarp} <= ${c.names.end('m')} && ` +
  `${subtileColumn(c)} + ${c.program.subtileColumns} ${overlaps(c) ? '<' : '<='} ${c.names.edge('n')}`

/** `asWords`: of whole sub-tiles of words. */
export function stageAnywhere(op: StageWrite, c: EmitContext, asWords: () => void): void {
  if (overlaps(c)) return stageShifted(op, c)
  c.out.block('', () => {
    emitWords(op, c)
    c.out.block(`if (words && ${isInside(c)})`, asWords)
    c.out.block('else', () => stageShifted(op, c))
  })
}

export function storeAnywhere(op: RowStore, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const where = note(c, `store ${op.operand}`)
  const { raw } = shapeOf(op, c)
  c.out.block('', () => {
    c.out.line(`const i64 pitch = ${c.names.stride(op.operand, c.names.m)};`)
    if (overlaps(c)) return storeShifted(op, c)
    emitWords(op, c)
    c.out.block(`if (words && ${isInside(c)})`, () => {
      const first = `&${element(c, operand, { m: 'warp_row', n: subtileColumn(c) })}`
      c.out.line(`${raw}* const first = reinterpret_cast<${raw}*>(${first});`, where)
      storeWords(op, c, where)
    })
    c.out.block('else', () => storeShifted(op, c))
  })
}

/** Pieces of rows to memory. Neighbouring lanes have neighbours of a row. */
function storeShifted(op: RowStore, c: EmitContext): void {
  const { subtileColumns: columns, layout } = c.program
  const shape = shapeOf(op, c)
  const { pieces, pitch, raw } = shape
  const operand = operandOf(c, op.operand)
  const where = note(c, `store ${op.operand}`)
  const edge = c.names.edge('n')
  const at = (row: string, column: string): string => `&${element(c, operand, { m: `(${row})`, n: column })}`
  c.out.block('', () => {
    c.out.line(
      `const u32 slot = ${slotAddress(c, op.buffer)} + lane / ${pieces} * ${pitch}, w = lane % ${pieces};`,
      where,
    )
    const alone = isAlone(c) === null ? '' : `${isAlone(c)} || `
    c.out.line(
      `const bool begins = ${alone}column == 0, is_last = ${alone}column + ${columns} >= ${layout.columns} || ${subtileColumn(c)} + ${columns} >= ${edge};`,
    )
    // From the warp's first column on: the same in all sub-tiles.
    const first = at(`warp_row + lane / ${pieces}`, firstColumn(c))
    c.out.line(`${raw}* const first = reinterpret_cast<${raw}*>(${first});`, where)
    if (overlaps(c)) {
      c.out.block(`if (at.n > 0 && ${isInside(c)})`, () => storeOwn(shape, c, 'piece >= skipped', where))
      c.out.block(`else if (${isInside(c)})`, () => storeFirst(shape, c, where))
    } else c.out.block(`if (${isInside(c)})`, () => storeWhole(shape, c, where))
    c.out.block('else', () => storeCut(shape, c, where))
    // Lanes that have whole rows have carried them.
    if (layout.held === 'row') return
    c.out.block(`if (!is_last && lane < ${layout.rowsPerWarp})`, () => {
      const row = `${slotAddress(c, op.buffer)} + lane * `
      emitCarry(c, `${row}${pitch} + ${pieces * 16}`, `${row}16 + ${op.carry}`, 'what the next sub-tile begins with')
    })
  })
}

/** A lane has piece `w` of every `step`-th row, `count` times; `per`: elements of a piece. */
function shapeOf({ bytes }: RowStore, { program: { subtileColumns: columns, layout } }: EmitContext) {
  const pieces = (columns * bytes) / PIECE_BYTES
  const step = 32 / pieces
  return {
    bytes, pieces, step, columns, rows: layout.rowsPerWarp, count: Math.max(1, layout.rowsPerWarp / step), per: PIECE_BYTES / bytes,
    pitch: shiftedRowBytes(columns, bytes), raw: rawType(bytes),
  } // prettier-ignore
}

type Shape = ReturnType<typeof shapeOf>

/** Declares the lane's row `i`, and the elements before it in the piece of memory that it begins in. */
function emitRow({ raw, step, bytes }: Shape, c: EmitContext): void {
  c.out.line(`${raw}* const row = first + i * ${step} * pitch;`)
  c.out.line(
    `[[maybe_unused]] const int before = static_cast<u32>(reinterpret_cast<u64>(row)) % ${PIECE_BYTES} / ${bytes};`,
  )
}

/**
 * Elements of piece `piece` of each row for which `condition` holds, by what `declare` says of the row: spread over its lanes, and all read before the first of
 * them is stored.
 */
function storeElements(
  shape: Shape,
  c: EmitContext,
  where: object,
  piece: string,
  condition: string,
  declare: () => void = () => undefined,
): void {
  const { pieces, per, bytes, step, pitch, count } = shape
  const [perWord, each] = [4 / bytes, Math.ceil(per / pieces)]
  const isRow = isOwnRow(shape)
  const forElements = (body: (part: string) => void): void =>
    forRows(shape, c, () => {
      emitRow(shape, c)
      declare()
      c.out.line('#pragma unroll')
      c.out.block(`for (int j = 0; j < ${each}; ++j)`, () => {
        const e = `static_cast<int>(w) + j * ${pieces}`
        // What lanes have beyond a piece they do not store.
        c.out.line(`const int e = ${each * pieces > per ? `min(${e}, ${per - 1})` : e};`)
        body(`parts[i * ${each} + j]`)
      })
    })
  c.out.block('', () => {
    c.out.line(`u32 parts[${count * each}];`)
    forElements((part) => {
      const inside = bytes === 4 ? 'e * 4' : `e / ${perWord} * 4`
      const word = call0(c, 'load_shared_b32', `slot + i * ${step * pitch} + ${piece} * ${PIECE_BYTES} + ${inside}`)
      c.out.line(`${isRow === null ? '' : `if (${isRow}) `}${part} = ${word};`, where)
    })
    forElements((part) => {
      const value = bytes === 4 ? part : `${part} >> e % ${perWord} * ${8 * bytes}`
      const to = `row + (static_cast<int>(column) - before) + ${piece} * ${per} + e`
      const own = each * pieces > per ? `static_cast<int>(w) + j * ${pieces} < ${per} && ` : ''
      c.out.line(call(c, `store_global_b${8 * bytes}_if`, to, value, ofOwnRows(shape, `${own}(${condition})`)), where)
    })
  })
}

/** Of sub-tiles inside of the output: all loads before the first store of a piece that `condition` selects, by what `declare` says of the row. */
function storeInside(
  shape: Shape,
  c: EmitContext,
  where: object,
  condition: string,
  declare: () => void = () => undefined,
): void {
  const { step, count, per, pitch } = shape
  const isRow = isOwnRow(shape)
  c.out.line(`uint4 own[${count}];`)
  forRows(shape, c, () => {
    const own = `own[i] = ${call0(c, 'load_shared_v4', `slot + i * ${step * pitch} + w * ${PIECE_BYTES}`)};`
    c.out.line(isRow === null ? own : `if (${isRow}) ${own}`, where)
  })
  forRows(shape, c, () => {
    emitRow(shape, c)
    declare()
    const to = `row + (static_cast<int>(column) - before) + w * ${per}`
    c.out.line(call(c, 'store_global_v4_if', to, 'own[i]', ofOwnRows(shape, condition)), where)
  })
}

/** What would be further rows is another warp's. null: there are none. */
const isOwnRow = ({ rows, step, pieces }: Shape): string | null => (step > rows ? `lane / ${pieces} < ${rows}` : null)

/** `condition`, of rows of the warp. */
const ofOwnRows = (shape: Shape, condition: string): string => {
  const isRow = isOwnRow(shape)
  return isRow === null ? condition : `${isRow} && ${condition}`
}

function forRows({ count }: Shape, c: EmitContext, body: () => void): void {
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, body)
}

function storeWhole(shape: Shape, c: EmitContext, where: object): void {
  const { pieces } = shape
  storeInside(shape, c, where, '(!begins || w > 0 || before == 0)')
  // Of the piece that a row begins in, elements from `before` on are its first; of the one that it ends in, those up to there are its last.
  c.out.block('if (begins || is_last)', () =>
    storeElements(shape, c, where, `(e < before ? ${pieces} : 0)`, 'before > 0 && (e < before ? is_last : begins)'),
  )
}

/**
 * Of tiles that overlap, sectors that begin in the step of a tile are its own. Declares how many pieces of a row are of one that begins before, and the first
 * piece of the next tile.
 */
function emitOwn({ bytes }: Shape, c: EmitContext): void {
  const pieces = SECTOR_BYTES / PIECE_BYTES
  const sector = `static_cast<u32>(reinterpret_cast<u64>(row)) % ${SECTOR_BYTES}`
  c.out.line(`const int skipped = ${sector} == 0 ? 0 : ${pieces} - static_cast<int>(${sector} / ${PIECE_BYTES});`)
  c.out.line(`const int behind = STEP_N * ${bytes} / ${PIECE_BYTES} + skipped;`)
}

/** Of tiles that overlap: the pieces for which `condition` holds, up to those of the next tile. */
function storeOwn(shape: Shape, c: EmitContext, condition: string, where: object): void {
  storeInside(shape, c, where, `${condition} && piece < behind`, () => {
    emitOwn(shape, c)
    c.out.line(`const int piece = static_cast<int>(column) / ${shape.per} + w;`)
  })
}

/** The first ones of rows have all that these begin with. */
function storeFirst(shape: Shape, c: EmitContext, where: object): void {
  storeOwn(shape, c, '(piece > 0 || before == 0)', where)
  c.out.block('if (column == 0)', () => storeElements(shape, c, where, '0', 'before > 0 && e >= before'))
}

/** Of those that stick out of it. */
function storeCut(shape: Shape, c: EmitContext, where: object): void {
  const { rows, columns, step, pieces, per, pitch } = shape
  c.out.line(
    `const int left = min(static_cast<int>(${c.names.edge('n')} - ${subtileColumn(c)}), ${columns});  // not above 0: none`,
  )
  const below = `static_cast<int>(${c.names.end('m')} - warp_row)`
  c.out.line(
    `const int below = left > 0 ? ${step > rows ? `min(${below}, ${rows})` : below} - static_cast<int>(lane / ${pieces}) : 0;`,
  )
  /** Elements of others in the first piece, and behind which the row ends. */
  const declare = (): void => {
    if (overlaps(c)) {
      emitOwn(shape, c)
      c.out.line(
        `[[maybe_unused]] const int others = at.n > 0 ? max(0, skipped * ${per} - static_cast<int>(column)) : begins ? before : 0;`,
      )
      c.out.line(`[[maybe_unused]] const int all = min(before + left, behind * ${per} - static_cast<int>(column));`)
    } else c.out.line('[[maybe_unused]] const int others = begins ? before : 0, all = before + left;')
    c.out.line(`[[maybe_unused]] const int end = static_cast<int>(i) * ${step} < below ? all : 0;`)
  }
  forRows(shape, c, () => {
    emitRow(shape, c)
    declare()
    c.out.line(`const int from = w * ${per};`)
    const own = call0(c, 'load_shared_v4', `slot + i * ${step * pitch} + w * ${PIECE_BYTES}`)
    const to = 'row + (static_cast<int>(column) - before) + from'
    c.out.line(`if (from >= others && from + ${per} <= end) ${call(c, 'store_global_v4', to, own)}`, where)
  })
  storeElements(shape, c, where, '0', 'others > 0 && e >= others && e < end', declare)
  const isEnd = `is_last && e < end % ${per} && end / ${per} * ${per} >= others`
  storeElements(shape, c, where, `(end / ${per})`, isEnd, declare)
}
