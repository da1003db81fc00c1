/** An operand of the epilogue that comes through the ring of stages: whole columns of the tile by TMA, and from there the elements of each lane to registers. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import { BOX_ROWS, swizzled } from '../../compiler/space/layout.ts'
import { arrayOf } from './elements_ahead.ts'
import { barrierAddress, call, note, slotAddress, type EmitContext } from './context.ts'
import { expressionText, operandOf } from './epilogue_values.ts'
import { boxPlace, heldSlot } from './fetch.ts'
import { firstColumn, registersOf, rowBlock } from './fragments.ts'
import { MATRIX_ROW } from './register_tile.ts'

type OpOf<K extends EpilogueOp['op']> = Extract<EpilogueOp, { op: K }>

const plus = (bytes: number): string => (bytes === 0 ? '' : ` + ${bytes}`)

export function emitPrefetchStage(op: OpOf<'prefetch_stage'>, c: EmitContext): void {
  const where = note(c, `prefetch ${op.operand}`)
  const boxes = c.program.domain.rows.extent / BOX_ROWS
  const count = (c.program.layout.columns / op.columns) * boxes
  const guard = op.guard === null ? '' : `${expressionText(op.guard, c)} != 0 && `
  const [column, row] = boxes === 1 ? ['i', ''] : [`i / ${boxes}`, ` + i % ${boxes} * ${BOX_ROWS}`]
  const place = boxPlace(op.operand, `at.m${row}`, `${firstColumn(c)} + ${column} * ${op.columns}`, c)
  // Of few steps the loads themselves come as early.
  c.out.line(`const u32 apart = (k_last - k_first) * 3 / ${4 * count};`)
  c.out.block(`if (${guard}apart > 0)`, () => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () =>
      c.out.line(
        `if (k == k_first + i * apart) ${call(c, `tma_prefetch_${place.length}d`, `&${op.map}`, ...place)}`,
        where,
      ),
    )
  })
}

export function emitFetchStage(op: OpOf<'fetch_stage'>, c: EmitContext): void {
  const where = note(c, `TMA load ${op.operand}`)
  const guard = op.guard === null ? null : `${expressionText(op.guard, c)} != 0`
  const pitch = op.columns * DTYPES[operandOf(c, op.operand).dtype].storageBytes
  const request = (): void => {
    for (const { buffer, offset, column } of op.blocks) {
      const columns = `${firstColumn(c)}${plus(column)}`
      for (let row = 0; row < c.program.domain.rows.extent; row += BOX_ROWS) {
        const target = `${slotAddress(c, buffer)}${plus(offset + row * pitch)}`
        const place = boxPlace(op.operand, `at.m${plus(row)}`, columns, c)
        c.out.line(
          call(c, `tma_load_${place.length}d`, target, `&${op.map}`, barrierAddress(c, op.barrier), ...place),
          where,
        )
      }
    }
  }
  const bytes = guard === null ? op.bytes : `${guard} ? ${op.bytes} : 0`
  c.out.line(call(c, 'mbarrier_arrive_expect_tx', barrierAddress(c, op.barrier), bytes), where)
  if (guard === null) request()
  else c.out.block(`if (${guard})`, request)
}

export function emitHoldStage(op: OpOf<'hold_stage'>, c: EmitContext): void {
  c.out.line(`const u32 ${heldSlot(op.operand, op.part, c)} = ${op.ring};`)
}

/** By ldmatrix, 16 columns at a time. */
export function emitTakeStage(op: OpOf<'take_stage'>, c: EmitContext): void {
  const { rowBlocks } = registersOf(c)
  const where = note(c, `read ${op.operand}`)
  const words = arrayOf(c, op.operand)
  const across = c.program.layout.columns / 8
  const pitch = op.columns * DTYPES[operandOf(c, op.operand).dtype].storageBytes
  if (op.blocks[0]!.column === 0) c.out.line(`u32 ${words}[${2 * rowBlocks * across}];`, where)
  const each = (take: (word: string, part: string) => void): void => {
    for (const [m, part] of ['x', 'y', 'z', 'w'].entries())
      take(`${words}[(2 * block + ${m % 2}) * ${across} + first + 2 * i + ${m >> 1}]`, part)
  }
  const walk = (body: (offset: string) => void): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 block = 0; block < ${rowBlocks}; ++block)`, () => {
      c.out.line(
        `const u32 matrix_row = (${rowBlock(c, 'block')} * 64 + warp % 4 * ROWS_PER_WARP + lane % 16) * ${pitch};`,
      )
      for (const { buffer, offset, column } of op.blocks)
        c.out.block('', () => {
          c.out.line(`constexpr u32 first = ${column / 8};`)
          c.out.line('#pragma unroll')
          c.out.block(`for (u32 i = 0; i < ${op.columns / 16}; ++i)`, () =>
            body(`${slotAddress(c, buffer)}${plus(offset)} + matrix_row`),
          )
        })
    })
  }
  const read = (): void =>
    walk((from) => {
      c.wrappers.add('ldmatrix_x4_words')
      const chunk = swizzled(op.swizzle, '(2 * i + lane / 16)', MATRIX_ROW)
      c.out.line(`const uint4 four = ldmatrix_x4(${from} + ${chunk} * 16);`, where)
      each((word, part) => void c.out.line(`${word} = four.${part};`))
    })
  if (op.guard === null) return read()
  c.out.block(`if (${expressionText(op.guard, c)} != 0)`, read)
  c.out.block('else', () => walk(() => each((word) => void c.out.line(`${word} = 0;`))))
}
