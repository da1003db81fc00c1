/** Values of a sub-tile from registers to shared memory, in the layout that TMA stores from. */
import type { EpilogueOp, StagingSwizzle } from '../../compiler/tile_ir_epilogue.ts'
import { slotAddress, type EmitContext } from './context.ts'
import { pairBits, stored, storedBits, word } from './epilogue.ts'

type StageWrite = Extract<EpilogueOp, { op: 'stage_write' }>

export function emitStageWrite(op: StageWrite, c: EmitContext): void {
  if (c.program.layout.held === 'row') stageRows(op, c)
  else stageFragment(op, c)
}

/** XOR of a lane's 16-byte chunks: bits 4… of an address with bits 7… (PTX ISA 5.5.7). */
const SWIZZLE_XOR: Readonly<Record<StagingSwizzle, string>> = {
  none: '', '32B': 'lane / 4 % 2', '64B': 'lane / 2 % 4', '128B': 'lane % 8',
} // prettier-ignore

function stageRows(op: StageWrite, c: EmitContext): void {
  const { subtileColumns: columns, layout: { rowsPerWarp: rows } } = c.program // prettier-ignore
  const where = { role: c.role?.name ?? null, note: `stage ${op.operand}` }
  const write = (): void => {
    c.out.line(`const u32 slot = ${slotAddress(c, op.buffer)};`, where)
    if (op.contiguous === 'm') {
      // Dense columns of `rows` elements: consecutive lanes write consecutive elements.
      const store = `store_shared_b${8 * op.bytes}`
      c.wrappers.add(store)
      c.out.line('#pragma unroll')
      const bits = op.bytes === 2 ? stored(c, op.operand, 'j') : storedBits(c, op.operand, 'j')
      c.out.line(`for (u32 j = 0; j < ${columns}; ++j) ${store}(slot + (j * ${rows} + lane) * ${op.bytes}, ${bits});`, where) // prettier-ignore
      return
    }
    // One row per lane; 16-byte chunks move by the swizzle's XOR, which spreads the lanes over the banks.
    c.wrappers.add('store_shared_v4')
    const pitch = columns * op.bytes
    const xor = SWIZZLE_XOR[op.swizzle]
    const perWord = 4 / op.bytes
    const words = [0, 1, 2, 3].map((w) => word(c, op, `${4 * perWord} * i`, w * perWord))
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${pitch / 16}; ++i)`, () => {
      for (const [w, text] of words.entries()) c.out.line(`const u32 w${w} = ${text};`, where)
      c.out.line(`store_shared_v4(slot + lane * ${pitch} + ${xor ? `(i ^ ${xor})` : 'i'} * 16, w0, w1, w2, w3);`, where)
    })
  }
  if (rows < 32) c.out.block(`if (lane < ${rows})`, write)
  else c.out.line('{').indented(write).line('}')
}

/** The same of a row of 8 that a lane is in: its rows are 8 apart, so that both have one place in the pattern. */
const FRAGMENT_XOR: Readonly<Record<StagingSwizzle, string>> = {
  none: '', '32B': 'lane / 16', '64B': 'lane / 8 % 4', '128B': 'lane / 4',
} // prettier-ignore

/** Rows lane / 4 and lane / 4 + 8, columns in pairs. */
function stageFragment(op: StageWrite, c: EmitContext): void {
  const { subtileColumns: columns, layout: { rowsPerWarp: rows } } = c.program // prettier-ignore
  const where = { role: c.role?.name ?? null, note: `stage ${op.operand}` }
  c.out.line('{').indented(() => {
    c.out.line(`const u32 slot = ${slotAddress(c, op.buffer)};`, where)
    if (op.contiguous === 'm') {
      const store = `store_shared_b${8 * op.bytes}`
      c.wrappers.add(store)
      const bits = op.bytes === 2 ? stored(c, op.operand, 'j') : storedBits(c, op.operand, 'j')
      c.out.line('#pragma unroll')
      c.out.line(`for (u32 j = 0; j < ${c.tile.count}; ++j) ${store}(slot + ((j / 4 * 8 + lane % 4 * 2 + j % 2) * ${rows} + lane / 4 + j / 2 % 2 * 8) * ${op.bytes}, ${bits});`, where)
      return
    }
    const pitch = columns * op.bytes
    const xor = FRAGMENT_XOR[op.swizzle]
    const chunk = (text: string): string => (xor ? `(${text} ^ ${xor})` : text)
    if (op.bytes === 2 && columns >= 16) {
      // Four 8 x 8 matrices: both halves of the rows, of two times 8 columns. Lane l gives the address of row l % 8 of matrix l / 8.
      c.wrappers.add('stmatrix_x4')
      const matrixXor = { none: '', '32B': 'lane / 4 % 2', '64B': 'lane / 2 % 4', '128B': 'lane % 8' }[op.swizzle]
      c.out.line(`const u32 matrix_row = slot + (lane % 16) * ${pitch};`, where)
      c.out.line('#pragma unroll')
      c.out.block(`for (u32 i = 0; i < ${columns / 16}; ++i)`, () => {
        const words = [0, 2, 4, 6].map((offset) => word(c, op, '8 * i', offset))
        const at = matrixXor ? `((2 * i + lane / 16) ^ ${matrixXor})` : '(2 * i + lane / 16)'
        c.out.line(`stmatrix_x4(matrix_row + ${at} * 16, ${words.join(', ')});`, where)
      })
      return
    }
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = 0; j < ${c.tile.count}; j += 2)`, () => {
      // 8 columns are half of a chunk, one, or two of them.
      const [at, inside] =
        op.bytes === 1 ? [chunk('(j / 8)'), '(j / 4 % 2 * 8 + lane % 4 * 2)'] : op.bytes === 2 ? [chunk('(j / 4)'), 'lane % 4 * 4'] : [chunk('(j / 4 * 2 + lane % 4 / 2)'), 'lane % 2 * 8']
      const address = `slot + (lane / 4 + j / 2 % 2 * 8) * ${pitch} + ${at} * 16 + ${inside}`
      if (op.bytes === 4) {
        c.wrappers.add('store_shared_v2')
        c.out.line(`store_shared_v2(${address}, ${storedBits(c, op.operand, 'j')}, ${storedBits(c, op.operand, 'j + 1')});`, where)
      } else if (op.bytes === 2) {
        c.wrappers.add('store_shared_b32')
        c.out.line(`store_shared_b32(${address}, ${word(c, op, 'j', 0)});`, where)
      } else {
        c.wrappers.add('store_shared_b16')
        c.out.line(`store_shared_b16(${address}, static_cast<u16>(${pairBits(c, op, 'j', 'j + 1')}));`, where)
      }
    })
  }).line('}')
} // prettier-ignore
