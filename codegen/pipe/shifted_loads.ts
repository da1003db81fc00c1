/**
 * Operands of the epilogue whose rows begin anywhere, by asynchronous copies to the slot of the warp: each row stands there as far behind a
 * multiple of 16 bytes as in memory. Nothing is read but elements of the sub-tile, and of those before it that the warp has had: what lies
 * beside may be an output that others are writing.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { AuxLoad } from '../../compiler/ir/pipe_epilogue.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { PIECE_BYTES, shiftedRowBytes } from '../../compiler/space/layout.ts'
import { call, call0, note, rawType, slotAddress, type EmitContext } from './context.ts'
import { element, fromWord, load } from './epilogue_values.ts'

export function emitLoadShifted(op: AuxLoad, operand: TensorOperand, c: EmitContext): void {
  const { buffer } = op.rows!
  c.out.block('', () => emitCopies(operand, buffer, c))
  c.out.line(call(c, 'cp_async_commit')).line(`cp_async_wait<0>();`).line('__syncwarp();')
  c.wrappers.add('cp_async_wait')
  c.out.block('', () => readShifted(operand, buffer, c))
  c.out.line('__syncwarp();')
}

/** A lane copies one piece of every few rows; the last pieces, of rows that are shifted, are those of one lane each. */
function emitCopies(operand: TensorOperand, buffer: string, c: EmitContext): void {
  const { subtileColumns: columns, layout } = c.program
  const bytes = DTYPES[operand.dtype].storageBytes
  const where = note(c, `load ${operand.name}`)
  const [pitch, pieces, rows] = [shiftedRowBytes(columns, bytes), (columns * bytes) / PIECE_BYTES, layout.rowsPerWarp]
  const step = 32 / pieces
  const end = c.names.end('m')
  const raw = rawType(bytes)
  c.out.line(`const u32 slot = ${slotAddress(c, buffer)}, w = lane % ${pieces};`, where)
  c.out.line(`const int left = min(static_cast<int>(${c.names.edge('n')} - subtile_col), ${columns}) * ${bytes};`)
  // Where the sub-tile's row begins, how far behind a piece, and how many of its bytes there are from that on.
  const declare = (row: string): void => {
    const first = `&${element(c, operand, { m: `(warp_row + ${row})`, n: 'subtile_col' })}`
    c.out.line(`const ${raw}* const row = reinterpret_cast<const ${raw}*>(${first});`, where)
    c.out.line(`const int before = static_cast<u32>(reinterpret_cast<u64>(row)) % ${PIECE_BYTES};`)
    c.out.line(`[[maybe_unused]] const int bytes = left > 0 && warp_row + ${row} < ${end} ? before + left : 0;`)
  }
  const copy = (row: string, piece: string): string => {
    const count = `min(max(bytes - ${piece} * ${PIECE_BYTES}, 0), ${PIECE_BYTES})`
    return call(c, 'cp_async_16', `slot + (${row}) * ${pitch} + ${piece} * ${PIECE_BYTES}`, `reinterpret_cast<const char*>(row) - before + ${piece} * ${PIECE_BYTES}`, count) // prettier-ignore
  }
  const count = Math.max(1, rows / step)
  const forRows = (body: () => void): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (int i = 0; i < ${count}; ++i)`, () => {
      c.out.line(`const u32 r = lane / ${pieces} + i * ${step};`)
      if (step > rows) c.out.line(`if (r >= ${rows}) break;`)
      body()
    })
  }
  /** Of pieces that begin with elements of others, those of the row, behind whose end are zeros: a lane has some, and asks for all of them first. */
  const emitHeads = (): void => {
    const [per, each] = [PIECE_BYTES / bytes, Math.ceil(PIECE_BYTES / bytes / pieces)]
    const forElements = (body: () => void): void =>
      forRows(() => {
        declare('r')
        c.out.line('#pragma unroll')
        c.out.block(`for (int j = 0; j < ${each}; ++j)`, () => {
          c.out.line(`const int e = w + j * ${pieces};`)
          const last = each * pieces > per ? `e < ${per} && ` : ''
          c.out.line(`const bool is_own = ${last}before > 0 && e * ${bytes} >= before;`)
          body()
        })
      })
    c.out.line(`${raw} heads[${count * each}];`)
    forElements(() => {
      c.out.line(`heads[i * ${each} + j] = is_own && e * ${bytes} < bytes ? row[e - before / ${bytes}] : 0;`, where)
    })
    forElements(() => {
      const to = `slot + r * ${pitch} + e * ${bytes}`
      c.out.line(`if (is_own) ${call(c, `store_shared_b${8 * bytes}`, to, `heads[i * ${each} + j]`)}`, where)
    })
  }
  forRows(() => {
    declare('r')
    c.out.line(`if (column > 0 || w > 0 || before == 0) ${copy('r', 'static_cast<int>(w)')}`, where)
  })
  c.out.block('if (column == 0)', () => emitHeads())
  c.out.block(`if (lane < ${rows})`, () => {
    declare('lane')
    c.out.line(copy('lane', String(pieces)), where)
  })
}

/** Pairs of neighbours as a lane of a fragment has them: of rows lane / 4 and lane / 4 + 8, from 4 bytes that may lie in two words. */
function readShifted(operand: TensorOperand, buffer: string, c: EmitContext): void {
  const { subtileColumns: columns } = c.program
  const { storageBytes: bytes, cudaStorage } = DTYPES[operand.dtype]
  const where = note(c, `read ${operand.name}`)
  const name = c.names.value(operand.name)
  const pitch = shiftedRowBytes(columns, bytes)
  for (const i of [0, 1]) {
    const row = `lane / 4 + ${8 * i}`
    const first = `&${element(c, operand, { m: `(warp_row + ${row})`, n: 'subtile_col' })}`
    c.out.line(
      `const u32 at${i} = (${row}) * ${pitch} + static_cast<u32>(reinterpret_cast<u64>(${first})) % ${PIECE_BYTES} + lane % 4 * ${2 * bytes};`,
    )
  }
  const value = (j: string, bits: string): void => {
    const raw = bytes === 4 ? fromWord(cudaStorage, bits) : `static_cast<${cudaStorage}>(${bits})`
    c.out.line(`${name}[${j}] = ${load(c, operand, raw)};`, where)
  }
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 j = 0; j < ${c.tile.count}; j += 2)`, () => {
    c.out.line(`const u32 at = j / 2 % 2 == 0 ? at0 : at1;`)
    const from = (offset: string): string => `${slotAddress(c, buffer)} + at${offset} + j / 4 * ${8 * bytes}`
    if (bytes === 4) {
      value('j', call0(c, 'load_shared_b32', from('')))
      value('j + 1', call0(c, 'load_shared_b32', from(' + 4')))
      return
    }
    c.out.line(`const u32 both = ${call0(c, 'load_turned', from(' / 4 * 4'), 'at % 4 * 8')};`, where)
    const mask = 2 ** (8 * bytes) - 1
    value('j', `both & ${mask}`)
    value('j + 1', `both >> ${8 * bytes} & ${mask}`)
  })
}
