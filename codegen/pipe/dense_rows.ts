/**
 * Outputs of few columns whose rows follow each other in memory: a warp has 16 whole rows, 32 bytes for each column and byte of an element, that begin where
 * a piece of 16 bytes does. They stand in its slot as in memory, all sub-tiles, and leave piece by piece, with no end but the tensor's.
 */
import type { EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import { PIECE_BYTES } from '../../compiler/space/layout.ts'
import { call, call0, note, rawType, slotAddress, type EmitContext } from './context.ts'
import { element, operandOf, pairBits, storedBits } from './epilogue_values.ts'

type StageWrite = Extract<EpilogueOp, { op: 'stage_write' }>
type RowStore = Extract<EpilogueOp, { op: 'row_store' }>

const firstRow = (op: StageWrite | RowStore, c: EmitContext): string =>
  `&${element(c, operandOf(c, op.operand), { m: 'warp_row', n: '0' })}`

/** Does memory hold the warp's rows as this needs them? */
const isDense = (op: StageWrite | RowStore, c: EmitContext): string =>
  `${c.names.edge('n')} <= ${c.program.layout.columns} && ${c.names.stride(op.operand, c.names.m)} == ${c.names.edge('n')} && ` +
  `reinterpret_cast<u64>(${firstRow(op, c)}) % ${PIECE_BYTES} == 0`

/** `otherwise`: for outputs that are not. */
export function stageDense(op: StageWrite, c: EmitContext, otherwise: () => void): void {
  const { bytes } = op
  const where = { role: c.role?.name ?? null, note: `stage ${op.operand}` }
  const n = c.names.edge('n')
  c.out.block(`if (${isDense(op, c)})`, () => {
    c.out.line(`const u32 pitch = ${n} * ${bytes};`)
    c.out.line(
      `const u32 to0 = ${slotAddress(c, op.buffer)} + lane / 4 * pitch + col * ${bytes}, to1 = to0 + 8 * pitch;`,
    )
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = 0; j < ${c.tile.count}; j += 2)`, () => {
      c.out.line(`const u32 to = (j / 2 % 2 == 0 ? to0 : to1) + j / 4 * ${8 * bytes};`)
      const inside = (e: 0 | 1): string => `${c.tile.col('j')} + ${e} < ${n}`
      const single = (e: 0 | 1, value: string): void => {
        const type = { 1: 'static_cast<u32>', 2: 'static_cast<u16>', 4: '' }[bytes as 1 | 2 | 4]
        const store = call(c, `store_shared_b${8 * bytes}`, `to + ${e * bytes}`, `${type}(${value})`)
        c.out.line(`if (${inside(e)}) ${store}`, where)
      }
      if (bytes === 4)
        return [storedBits(c, op.operand, 'j'), storedBits(c, op.operand, 'j + 1')].forEach((value, e) =>
          single(e as 0 | 1, value),
        )
      c.out.line(`const u32 pair = ${pairBits(c, op, 'j', 'j + 1')};`, where)
      const both = call(c, `store_shared_b${16 * bytes}`, 'to', bytes === 1 ? 'static_cast<u16>(pair)' : 'pair')
      c.out.line(`if (${n} % 2 == 0 && ${inside(1)}) ${both}`, where)
      c.out.block(`if (${n} % 2 != 0)`, () => {
        single(0, 'pair')
        single(1, `pair >> ${8 * bytes}`)
      })
    })
  })
  c.out.block('else', otherwise)
}

/** With the last sub-tile. */
export function storeDense(op: RowStore, c: EmitContext, otherwise: () => void): void {
  const { bytes } = op
  const { subtileColumns, layout } = c.program
  const where = note(c, `store ${op.operand}`)
  const raw = rawType(bytes)
  const per = PIECE_BYTES / bytes
  const pieces = (layout.rowsPerWarp * layout.columns) / per
  c.out.block(`if (${isDense(op, c)})`, () => {
    c.out.block(`if (column + ${subtileColumns} == ${layout.columns} && warp_row < ${c.names.end('m')})`, () => {
      c.out.line(`const u32 slot = ${slotAddress(c, op.buffer)};`)
      c.out.line(
        `const u32 elements = min(${c.names.end('m')} - warp_row, ${layout.rowsPerWarp}) * ${c.names.edge('n')};`,
      )
      c.out.line(`${raw}* const to = reinterpret_cast<${raw}*>(${firstRow(op, c)});`, where)
      c.out.line('#pragma unroll 4')
      c.out.block(`for (u32 i = 0; i < ${pieces}; i += 32)`, () => {
        c.out.line(`const u32 at = (i + lane) * ${per};`)
        const piece = call0(c, 'load_shared_v4', `slot + at * ${bytes}`)
        c.out.line(`if (at + ${per} > elements) break;`)
        c.out.line(call(c, 'store_global_v4', 'to + at', piece), where)
      })
      // What is no whole piece ends the tensor.
      c.out.line(`const u32 rest = elements / ${per} * ${per} + lane;`)
      const word = call0(c, 'load_shared_b32', bytes === 4 ? 'slot + rest * 4' : `slot + rest * ${bytes} / 4 * 4`)
      const value = bytes === 4 ? word : `${word} >> rest % ${4 / bytes} * ${8 * bytes}`
      c.out.line(`if (rest < elements) to[rest] = static_cast<${raw}>(${value});`, where)
    })
  })
  c.out.block('else', otherwise)
}
