/** Values of a sub-tile from registers to shared memory, in the layout that TMA stores from. */
import type { EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import { name } from '../../compiler/space/ix.ts'
import { swizzled } from '../../compiler/space/layout.ts'
import { bufferOf, call, call0, note, rawType, slotAddress, type EmitContext } from './context.ts'
import { element, operandOf, pairBits, stored, storedBits, word } from './epilogue_values.ts'
import { LANE_ROW, MATRIX_ROW, PAIR_ROW, transposedMatrices } from './register_tile.ts'
import type { RowStore } from './row_words.ts'
import { stageDense, storeDense } from './dense_rows.ts'
import { stageAnywhere, storeAnywhere } from './shifted_rows.ts'

type StageWrite = Extract<EpilogueOp, { op: 'stage_write' }>

/** Where this warp's rows of the sub-tile lie: those of a warpgroup are one box. */
function stagingAddress(op: StageWrite, c: EmitContext): string {
  const { subtileColumns, layout } = c.program
  const shared = bufferOf(c.program, op.buffer).per!.owner === 'warpgroup'
  return `${slotAddress(c, op.buffer)}${shared ? ` + warp % 4 * ${layout.rowsPerWarp * subtileColumns * op.bytes}` : ''}`
}

export function emitStageWrite(op: StageWrite, c: EmitContext): void {
  const boxes = (): void => (c.program.layout.held === 'row' ? stageRows : stageFragment)(op, c)
  const anywhere = (): void => stageAnywhere(op, c, boxes)
  if (op.dense) stageDense(op, c, anywhere)
  else if (op.carry !== undefined) anywhere()
  else boxes()
}

function stageRows(op: StageWrite, c: EmitContext): void {
  const {
    subtileColumns: columns,
    layout: { rowsPerWarp: rows },
  } = c.program
  const where = { role: c.role?.name ?? null, note: `stage ${op.operand}` }
  const write = (): void => {
    c.out.line(`const u32 slot = ${stagingAddress(op, c)};`, where)
    if (op.contiguous === 'm') {
      // Dense columns of `rows` elements: consecutive lanes write consecutive elements.
      const store = `store_shared_b${8 * op.bytes}`
      c.wrappers.add(store)
      c.out.line('#pragma unroll')
      const bits = op.bytes === 2 ? stored(c, op.operand, 'j') : storedBits(c, op.operand, 'j')
      c.out.line(
        `for (u32 j = 0; j < ${columns}; ++j) ${store}(slot + (j * ${rows} + lane) * ${op.bytes}, ${bits});`,
        where,
      )
      return
    }
    // One row per lane; 16-byte chunks move by the swizzle's XOR, which spreads the lanes over the banks.
    c.wrappers.add('store_shared_v4')
    const pitch = columns * op.bytes
    const perWord = 4 / op.bytes
    const words = [0, 1, 2, 3].map((w) => word(c, op, `${4 * perWord} * i`, w * perWord))
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${pitch / 16}; ++i)`, () => {
      for (const [w, text] of words.entries()) c.out.line(`const u32 w${w} = ${text};`, where)
      c.out.line(
        `store_shared_v4(slot + lane * ${pitch} + ${swizzled(op.swizzle, 'i', LANE_ROW)} * 16, w0, w1, w2, w3);`,
        where,
      )
    })
  }
  if (rows < 32) c.out.block(`if (lane < ${rows})`, write)
  else c.out.line('{').indented(write).line('}')
}

/** Rows lane / 4 and lane / 4 + 8, columns in pairs. */
function stageFragment(op: StageWrite, c: EmitContext): void {
  const {
    subtileColumns: columns,
    layout: { rowsPerWarp: rows },
  } = c.program
  const where = { role: c.role?.name ?? null, note: `stage ${op.operand}` }
  c.out
    .line('{')
    .indented(() => {
      c.out.line(`const u32 slot = ${stagingAddress(op, c)};`, where)
      if (op.matrices) return stageMatrices(op, c, where)
      if (op.contiguous === 'm') {
        const store = `store_shared_b${8 * op.bytes}`
        c.wrappers.add(store)
        const bits = op.bytes === 2 ? stored(c, op.operand, 'j') : storedBits(c, op.operand, 'j')
        c.out.line('#pragma unroll')
        c.out.line(
          `for (u32 j = 0; j < ${c.tile.count}; ++j) ${store}(slot + ((j / 4 * 8 + lane % 4 * 2 + j % 2) * ${rows} + lane /` +
            ` 4 + j / 2 % 2 * 8) * ${op.bytes}, ${bits});`,
          where,
        )
        return
      }
      const pitch = columns * op.bytes
      const chunk = (text: string): string => swizzled(op.swizzle, text, PAIR_ROW)
      c.out.line('#pragma unroll')
      c.out.block(`for (u32 j = 0; j < ${c.tile.count}; j += 2)`, () => {
        // 8 columns are half of a chunk, one, or two of them.
        const [at, inside] =
          op.bytes === 1
            ? [chunk('(j / 8)'), '(j / 4 % 2 * 8 + lane % 4 * 2)']
            : op.bytes === 2
              ? [chunk('(j / 4)'), 'lane % 4 * 4']
              : [chunk('(j / 4 * 2 + lane % 4 / 2)'), 'lane % 2 * 8']
        const address = `slot + (lane / 4 + j / 2 % 2 * 8) * ${pitch} + ${at} * 16 + ${inside}`
        if (op.bytes === 4) {
          c.wrappers.add('store_shared_v2')
          c.out.line(
            `store_shared_v2(${address}, ${storedBits(c, op.operand, 'j')}, ${storedBits(c, op.operand, 'j + 1')});`,
            where,
          )
        } else if (op.bytes === 2) {
          c.wrappers.add('store_shared_b32')
          c.out.line(`store_shared_b32(${address}, ${word(c, op, 'j', 0)});`, where)
        } else {
          c.wrappers.add('store_shared_b16')
          c.out.line(`store_shared_b16(${address}, static_cast<u16>(${pairBits(c, op, 'j', 'j + 1')}));`, where)
        }
      })
    })
    .line('}')
}

/**
 * Four 8 x 8 matrices at a time: both halves of the rows, of two times 8 columns, or of the last 8. Lane l gives the address of row l % 8 of
 * matrix l / 8.
 */
function stageMatrices(op: StageWrite, c: EmitContext, where: object): void {
  const across = op.contiguous === 'm'
  const { subtileColumns: columns } = c.program
  const pitch = columns * op.bytes
  const row = across ? transposedMatrices(op.swizzle) : `(lane % 16) * ${pitch}`
  c.out.line(`const u32 matrix_row = slot + ${row};`, where)
  const store = (matrices: 2 | 4, i: string): void => {
    const wrapper = `stmatrix_x${matrices}${across ? '_trans' : ''}`
    c.wrappers.add(wrapper)
    const words = [0, 2, 4, 6].slice(0, matrices).map((offset) => word(c, op, `8 * ${i}`, offset))
    const at = across
      ? `${i} * ${16 * 16 * op.bytes}`
      : `${swizzled(op.swizzle, `(2 * ${i} + lane / 16)`, MATRIX_ROW)} * 16`
    c.out.line(`${wrapper}(matrix_row + ${at}, ${words.join(', ')});`, where)
  }
  const fours = Math.floor(columns / 16)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${fours}; ++i)`, () => store(4, 'i'))
  if (columns % 16 !== 0) store(2, `${fours}`)
}

export function emitRowStore(op: RowStore, c: EmitContext): void {
  if (op.dense) storeDense(op, c, () => storeAnywhere(op, c))
  else if (op.carry !== undefined) storeAnywhere(op, c)
  else storeVectors(op, c)
}

/** Lines of the sub-tile from shared memory, 16 bytes by each lane at a time; what is cut by the edge element by element. */
function storeVectors(op: RowStore, c: EmitContext): void {
  const {
    subtileColumns: columns,
    layout: { rowsPerWarp: rows },
  } = c.program
  const operand = operandOf(c, op.operand)
  const where = note(c, `store ${op.operand}`)
  const alongN = op.contiguous === 'n'
  const [lines, pitch] = alongN ? [rows, columns * op.bytes] : [columns, rows * op.bytes]
  const chunks = pitch / 16
  const perChunk = 16 / op.bytes
  const raw = rawType(op.bytes)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = lane; i < ${lines * chunks}; i += 32)`, () => {
    c.out.line(`const u32 r = i / ${chunks}, c = i % ${chunks};`, where)
    const [m, n] = alongN ? ['r', `c * ${perChunk}`] : [`c * ${perChunk}`, 'r']
    c.out.line(`const u32 at_m = warp_row + ${m}, at_n = subtile_col + ${n};`, where)
    c.out.block(`if (at_m < ${c.names.end('m')} && at_n < ${c.names.edge('n')})`, () => {
      const address = `${slotAddress(c, op.buffer)} + r * ${pitch} + ${swizzled(op.swizzle, 'c', name('r'))} * 16`
      c.out.line(`const uint4 chunk = ${call0(c, 'load_shared_v4', address)};`, where)
      c.out.line(`${raw}* to = reinterpret_cast<${raw}*>(&${element(c, operand, { m: 'at_m', n: 'at_n' })});`, where)
      const left = alongN ? `${c.names.edge('n')} - at_n` : `${c.names.end('m')} - at_m`
      c.out.line(`if (${left} >= ${perChunk}) ${call(c, 'store_global_v4', 'to', 'chunk')}`, where)
      c.out.block('else', () => {
        c.out.line('const u32 words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};')
        c.out.line('#pragma unroll')
        const part =
          op.bytes === 4 ? 'words[e]' : `words[e / ${4 / op.bytes}] >> ${8 * op.bytes} * (e % ${4 / op.bytes})`
        c.out.line(
          `for (u32 e = 0; e < ${perChunk}; ++e) if (e < ${left}) to[e] = static_cast<${raw}>(${part});`,
          where,
        )
      })
    })
  })
}
