/** Rows that begin anywhere, from registers to the slot of their warp: each as far behind a multiple of 16 bytes as in memory (shifted_rows.ts). */
import type { EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import { shiftedRowBytes } from '../../compiler/space/layout.ts'
import { call, call0, note, slotAddress, type EmitContext } from './context.ts'
import { element, operandOf, pairBits, storedBits, subtileColumn, word } from './epilogue_values.ts'
import { finishesShares } from './shares.ts'

type StageWrite = Extract<EpilogueOp, { op: 'stage_write' }>

/** Do tiles overlap, and store whole sectors alone? */
export const overlaps = (c: EmitContext): boolean => c.program.domain.columns.step !== undefined

/** The first column that the warp holds of the tile. */
export const firstColumn = (c: EmitContext): string => `(${subtileColumn(c)} - column)`

/** A piece of a row from one place of the slot to another. */
export function emitCarry(c: EmitContext, from: string, to: string, what: string): void {
  c.out.line(`const uint4 carried = ${call0(c, 'load_shared_v4', from)};`, note(c, what))
  c.out.line(call(c, 'store_shared_v4', to, ...['x', 'y', 'z', 'w'].map((word) => `carried.${word}`)))
}

/** Bytes of a row before its first column in the slot: the same in all sub-tiles, which are whole pieces apart. */
const shiftOf = (op: StageWrite, c: EmitContext, row: string): string =>
  `static_cast<u32>(reinterpret_cast<u64>(&${element(c, operandOf(c, op.operand), { m: `(${row})`, n: firstColumn(c) })})) % 16`

/** Does a sub-tile have whole rows of its own? Words leave as they are, and who finishes every few sub-tiles of a tile carries nothing. */
export const isAlone = (c: EmitContext): string | null =>
  overlaps(c) ? null : finishesShares(c) ? '(words || meets)' : 'words'

/** A row begins with what the sub-tile before has left. */
function isCarried(c: EmitContext): string {
  const alone = isAlone(c)
  return `column > 0${alone === null ? '' : ` && !${alone}`}`
}

export const stageShifted = (op: StageWrite, c: EmitContext): void =>
  c.program.layout.held === 'row' ? stageRow(op, c) : stageFragment(op, c)

/**
 * A lane's row, in whole pieces: it is moved by the bytes of its shift while it is in registers, by words and within words. Before it stand the last
 * four words of the sub-tile before, which the lane has left itself.
 */
function stageRow(op: StageWrite, c: EmitContext): void {
  const { subtileColumns: columns, layout } = c.program
  const { bytes } = op
  const words = (columns * bytes) / 4
  const where = { role: c.role?.name ?? null, note: `stage ${op.operand}` }
  const four = (text: (i: number) => string): string[] => [0, 1, 2, 3].map(text)
  const moved = (i: number): string =>
    bytes === 4 ? `moved(i + ${i})` : `__funnelshift_l(moved(i + ${i - 1}), moved(i + ${i}), shift % 4 * 8)`
  c.out.block(layout.rowsPerWarp < 32 ? `if (lane < ${layout.rowsPerWarp})` : '', () => {
    c.out.line(`const u32 slot = ${slotAddress(c, op.buffer)}, carried = slot + ${op.carry} + lane * 16;`, where)
    c.out.line(`const u32 shift = ${shiftOf(op, c, 'warp_row + lane')};`)
    c.out.line(`u32 own[${words + 8}] = {};  // four words of before, the row, and what ends its last piece`)
    c.out.block(`if (${isCarried(c)})`, () => {
      c.out.line(`const uint4 before = ${call0(c, 'load_shared_v4', 'carried')};`, note(c, 'the row so far'))
      c.out.line(['x', 'y', 'z', 'w'].map((part, i) => `own[${i}] = before.${part};`).join(' '))
    })
    c.out.line('#pragma unroll')
    c.out.line(`for (u32 i = 0; i < ${words}; ++i) own[4 + i] = ${word(c, op, `${4 / bytes} * i`, 0)};`, where)
    const end = four((i) => `own[${words + i}]`)
    c.out.line(call(c, 'store_shared_v4', 'carried', ...end), note(c, 'what the next sub-tile begins with'))
    const place = 'shift & 8 ? (shift & 4 ? own[i - 3] : own[i - 2]) : shift & 4 ? own[i - 1] : own[i]'
    c.out.line(`const auto moved = [&](u32 i) { return ${place}; };`)
    c.out.line('#pragma unroll')
    const to = `slot + lane * ${shiftedRowBytes(columns, bytes)} + i * 4`
    c.out.line(
      `for (u32 i = 0; i < ${words + 4}; i += 4) ${call(c, 'store_shared_v4', to, ...four((i) => moved(4 + i)))}`,
      where,
    )
  })
}

/** Rows lane / 4 and lane / 4 + 8, columns in pairs. */
function stageFragment(op: StageWrite, c: EmitContext): void {
  const { subtileColumns: columns, layout } = c.program
  const { bytes } = op
  const pitch = shiftedRowBytes(columns, bytes)
  const where = { role: c.role?.name ?? null, note: `stage ${op.operand}` }
  c.out.block('', () => {
    c.out.line(`const u32 slot = ${slotAddress(c, op.buffer)};`, where)
    c.out.block(`if (${isCarried(c)} && lane < ${layout.rowsPerWarp})`, () => {
      emitCarry(c, `slot + ${op.carry} + lane * 16`, `slot + lane * ${pitch}`, 'the row so far')
    })
    c.out.line('__syncwarp();')
    c.out.line(
      `const u32 shift0 = ${shiftOf(op, c, 'warp_row + lane / 4')}, shift1 = ${shiftOf(op, c, 'warp_row + lane / 4 + 8')};`,
    )
    for (const i of [0, 1])
      c.out.line(`const u32 to${i} = slot + (lane / 4 + ${8 * i}) * ${pitch} + shift${i} + lane % 4 * ${2 * bytes};`)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = 0; j < ${c.tile.count}; j += 2)`, () => {
      const to = `(j / 2 % 2 == 0 ? to0 : to1) + j / 4 * ${8 * bytes}`
      if (bytes === 4) {
        for (const [e, value] of ['j', 'j + 1'].entries())
          c.out.line(call(c, 'store_shared_b32', `${to} + ${4 * e}`, storedBits(c, op.operand, value)), where)
        return
      }
      // One by one: a pair may belong to two words.
      c.out.line(`const u32 pair = ${pairBits(c, op, 'j', 'j + 1')};`, where)
      const [wrapper, type] = bytes === 1 ? ['store_shared_b8', 'u32'] : ['store_shared_b16', 'u16']
      for (const [e, value] of ['pair', `pair >> ${8 * bytes}`].entries())
        c.out.line(call(c, wrapper, `${to} + ${bytes * e}`, `static_cast<${type}>(${value})`), where)
    })
  })
}
