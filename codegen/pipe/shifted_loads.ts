/**
 * Operands of the epilogue whose rows begin anywhere, by asynchronous copies to the slot of the warp: each row stands there as far behind a
 * multiple of 16 bytes as in memory. Nothing is read but elements of the sub-tile, and of those before it that the warp has had: what lies
 * beside may be an output that others are writing.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { AuxLoad, CopyRows } from '../../compiler/ir/pipe_epilogue.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import { PIECE_BYTES, shiftedRowBytes } from '../../compiler/space/layout.ts'
import { bufferOf, call, call0, note, rawType, ringOf, slotAddress, type EmitContext } from './context.ts'
import { element, expressionText, fromWord, load, operandOf } from './epilogue_values.ts'

export function emitLoadShifted(op: AuxLoad, operand: TensorOperand, c: EmitContext): void {
  const { buffer, copied } = op.rows!
  const { layout, subtileColumns } = c.program
  const slot = slotAddress(c, buffer)
  if (copied) {
    const bytes = layout.rowsPerWarp * shiftedRowBytes(subtileColumns, DTYPES[operand.dtype].storageBytes)
    return void c.out.block('', () => readShifted(operand, `${slot} + warp % 4 * ${bytes}`, c))
  }
  c.out.block('', () => emitCopies(operand, slot, layout.rowsPerWarp, c))
  c.out.line(call(c, 'cp_async_commit')).line(`cp_async_wait<0>();`).line('__syncwarp();')
  c.wrappers.add('cp_async_wait')
  c.out.block('', () => readShifted(operand, slot, c))
  c.out.line('__syncwarp();')
}

/** Rows that a warp copies at once: each lane has what is less than a word of one. */
const ROWS_AT_ONCE = 32

export function emitCopyRows(op: CopyRows, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const { subtileColumns, layout } = c.program
  const rows = 4 * layout.rowsPerWarp
  const bytes = shiftedRowBytes(subtileColumns, DTYPES[operand.dtype].storageBytes)
  const slot = slotAddress(c, op.buffer)
  const copy = (): void => {
    const isWhole = `warpgroup_row + ${rows} <= ${c.names.end('m')} && subtile_col + ${subtileColumns} <= ${c.names.edge('n')}`
    c.out.block(`if (${isWhole})`, () => copyWhole(operand, slot, rows, c))
    c.out.block('else', () => {
      c.out.line('#pragma unroll 1')
      c.out.block(`for (u32 part = 0; part < ${rows}; part += ${ROWS_AT_ONCE})`, () => {
        c.out.line('const u32 warp_row = warpgroup_row + part;')
        emitCopies(operand, `${slot} + part * ${bytes}`, ROWS_AT_ONCE, c)
      })
    })
    c.out.block('', () => emitNextLines(op, operand, c))
  }
  if (op.guard === null) copy()
  else c.out.block(`if (${expressionText(op.guard, c)} != 0)`, copy)
}

/** Lines of the sub-tile that comes into this slot next. */
function emitNextLines({ buffer }: CopyRows, operand: TensorOperand, c: EmitContext): void {
  const { subtileColumns: columns, layout, registers } = c.program
  const [perBlock, slots] = [layout.columns / columns, ringOf(c.program, bufferOf(c.program, buffer).ring!).slots]
  const [rows, total] = [4 * layout.rowsPerWarp, registers!.rowBlocks * perBlock]
  if (slots >= total) return
  c.out.line(`const u32 next = block * ${perBlock} + column / ${columns} + ${slots};`)
  c.out.block(`if (next < ${total})`, () => {
    c.out.line(`const u32 n = at.n + next % ${perBlock} * ${columns};`)
    c.out.line('#pragma unroll 1')
    c.out.block(`for (u32 r = lane; r < ${rows}; r += 32)`, () => {
      c.out.line(`const u32 m = warpgroup_row + (next / ${perBlock} - block) * ${rows} + r;`)
      for (const column of ['n', `min(n + ${columns - 1}, ${c.names.edge('n')} - 1)`]) {
        const address = `&${element(c, operand, { m: 'm', n: column })}`
        const line = call(c, 'prefetch_line', address)
        c.out.line(`if (m < ${c.names.end('m')} && n < ${c.names.edge('n')}) ${line}`, note(c, `load ${operand.name}`))
      }
    })
  })
}

/**
 * A lane copies one piece of every few rows from `warp_row` on. Of pieces that begin with elements of others it copies the words of the row, behind whose end
 * are zeros; what is less than a word, and the last pieces of rows that are shifted, are those of one lane each. `to`: address.
 */
function emitCopies(operand: TensorOperand, to: string, rows: number, c: EmitContext): void {
  const { subtileColumns: columns } = c.program
  const bytes = DTYPES[operand.dtype].storageBytes
  const where = note(c, `load ${operand.name}`)
  const [pitch, pieces] = [shiftedRowBytes(columns, bytes), (columns * bytes) / PIECE_BYTES]
  const raw = rawType(bytes)
  const stride = c.names.stride(operand.name, c.names.m)
  c.out.line(`const u32 slot = ${to};`, where)
  c.out.line(`const int me = ${call0(c, 'anew', 'lane')};`)
  c.out.line(`const int left = min(static_cast<int>(${c.names.edge('n')} - subtile_col), ${columns}) * ${bytes};`)
  c.out.line(
    `const int below = left > 0 ? static_cast<int>(${c.names.end('m')} - warp_row) : 0;  // rows that there are`,
  )
  const first = `&${element(c, operand, { m: 'warp_row', n: 'subtile_col' })}`
  c.out.line(`const char* const first = reinterpret_cast<const char*>(${first});`, where)
  c.out.line(`i64 pitch = static_cast<i64>(${stride}) * ${bytes};`)
  c.out.line(`asm volatile("" : "+l"(pitch));  // multiples of it are added up, and not kept in registers around loops`)
  /** Bytes of a row's `size` behind `at` (CUDA texts). */
  const inside = (row: string, at: string, size: number): string =>
    `${row} < below ? min(max(before + left - ${at}, 0), ${size}) : 0`
  /** `lanes` of a row each have a piece, or a word. */
  const forRows = (lanes: number, unroll: string, body: (target: string, row: string) => void): void => {
    const step = 32 / lanes
    c.out.block('', () => {
      c.out.line(`const int own = me / ${lanes}, w = me % ${lanes};`)
      c.out.line(`const char* row = first + own * pitch;`).line(unroll)
      c.out.block(`for (int i = 0; i < ${Math.max(1, rows / step)}; ++i, row += ${step} * pitch)`, () => {
        if (step > rows) c.out.line(`if (own >= ${rows}) break;`)
        c.out.line(`const int before = static_cast<u32>(reinterpret_cast<u64>(row)) % ${PIECE_BYTES};`)
        body(`slot + own * ${pitch} + i * ${step * pitch}`, `own + i * ${step}`)
      })
    })
  }
  const copyPiece = (target: string, size: string): void => {
    const at = `w * ${PIECE_BYTES}`
    const copy = call(c, 'cp_async_16', `${target} + ${at}`, `row - before + ${at}`, size)
    c.out.line(`if (column > 0 || w > 0 || before == 0) ${copy}`, where)
  }
  // Of a lane's own row. What is less than a word is under way while others are copied.
  const [isRow, count] = [rows < 32 ? `me < ${rows} && ` : '', 4 / bytes - 1]
  const forParts = (body: (place: string, isOwn: string) => void): void => {
    if (count === 0) return
    c.out.line('#pragma unroll')
    c.out.block(`for (int i = 0; i < ${count}; ++i)`, () => body(`i * ${bytes}`, `before % 4 + i * ${bytes} < 4`))
  }
  c.out.line('const char* const row = first + me * pitch;')
  c.out.line(`const int before = static_cast<u32>(reinterpret_cast<u64>(row)) % ${PIECE_BYTES};`)
  if (count > 0)
    c.out.line(`const bool begins = ${isRow}column == 0 && before % 4 != 0;`).line(`${raw} parts[${count}];`)
  forParts((place, isOwn) => {
    const value = `*reinterpret_cast<const ${raw}*>(row + ${place})`
    c.out.line(`parts[i] = begins && ${isOwn} && me < below && ${place} < left ? ${value} : 0;`, where)
  })
  c.out.block(`if (left == ${columns * bytes} && below >= ${rows})`, () =>
    forRows(pieces, '#pragma unroll', (target) => copyPiece(target, `${PIECE_BYTES}`)),
  )
  c.out.block('else', () =>
    forRows(pieces, '#pragma unroll 1', (target, row) =>
      copyPiece(target, inside(row, `w * ${PIECE_BYTES}`, PIECE_BYTES)),
    ),
  )
  c.out.block('if (column == 0)', () =>
    forRows(PIECE_BYTES / 4, '#pragma unroll', (target, row) => {
      const copy = call(c, 'cp_async_4', `${target} + w * 4`, 'row - before + w * 4', inside(row, 'w * 4', 4))
      c.out.line(`if (before > 0 && w * 4 >= before) ${copy}`, where)
    }),
  )
  const [target, end] = [`slot + me * ${pitch}`, pieces * PIECE_BYTES]
  const last = call(
    c,
    'cp_async_16',
    `${target} + ${end}`,
    `row - before + ${end}`,
    inside('me', String(end), PIECE_BYTES),
  )
  c.out.line(rows < 32 ? `if (me < ${rows}) ${last}` : last, where)
  forParts((place, isOwn) => {
    const store = call(c, `store_shared_b${8 * bytes}`, `${target} + before + ${place}`, 'parts[i]')
    c.out.line(`if (begins && ${isOwn}) ${store}`, where)
  })
}

/**
 * All rows of a sub-tile, all of which there is, in a fifth of the instructions: rows that begin at the same byte of 16 take turns, so that what a lane copies
 * of them begins where it did and their pitch. A lane has the ends of as many rows.
 */
function copyWhole(operand: TensorOperand, to: string, rows: number, c: EmitContext): void {
  const { subtileColumns: columns } = c.program
  const bytes = DTYPES[operand.dtype].storageBytes
  const where = note(c, `load ${operand.name}`)
  const [slotPitch, rowBytes, raw] = [shiftedRowBytes(columns, bytes), columns * bytes, rawType(bytes)]
  const lanes = rowBytes / PIECE_BYTES
  const step = 32 / lanes
  /** Rows from one of a lane's to the next that begins at the same byte. */
  const apart = Math.max(step, PIECE_BYTES / bytes)
  const count = 4 / bytes - 1
  const first = `&${element(c, operand, { m: 'warpgroup_row', n: 'subtile_col' })}`
  c.out.line(`const u32 slot = ${to};`, where)
  c.out.line(`const int me = ${call0(c, 'anew', 'lane')};`)
  c.out.line(`const char* const first = reinterpret_cast<const char*>(${first});`, where)
  c.out.line(`i64 pitch = static_cast<i64>(${c.names.stride(operand.name, c.names.m)}) * ${bytes};`)
  c.out.line(`asm volatile("" : "+l"(pitch));  // multiples of it are added up, and not kept in registers around loops`)
  const declareRow = (name: string, row: string): void => {
    c.out.line(`const char* const ${name} = first + (${row}) * pitch;`)
    c.out.line(`const int before_${name} = static_cast<u32>(reinterpret_cast<u64>(${name})) % ${PIECE_BYTES};`)
  }
  const own = Array.from({ length: rows / ROWS_AT_ONCE }, (_, i) => i)
  for (const i of own) declareRow(`own${i}`, `me + ${i * ROWS_AT_ONCE}`)
  /** Elements of a row's first word that others have the rest of. */
  const forElements = (body: (i: number, element: number, isOwn: string) => void): void => {
    for (const i of own)
      for (let e = 0; e < count; e++)
        body(i, e, `column == 0 && before_own${i} % 4 != 0 && before_own${i} % 4 + ${e * bytes} < 4`)
  }
  // Under way while others are copied.
  forElements((i, e, isOwn) =>
    c.out.line(
      `const ${raw} part${i}_${e} = ${isOwn} ? *reinterpret_cast<const ${raw}*>(own${i} + ${e * bytes}) : 0;`,
      where,
    ),
  )
  c.out.line(`const int row = me / ${lanes}, piece = me % ${lanes} * ${PIECE_BYTES};`)
  const turns = Array.from({ length: apart / step }, (_, i) => i)
  for (const i of turns) {
    declareRow(`row${i}`, `row + ${i * step}`)
    c.out.line(`const char* from${i} = row${i} - before_row${i} + piece;`)
    c.out.line(`const bool copies${i} = column > 0 || piece > 0 || before_row${i} == 0;`)
  }
  c.out.line('#pragma unroll')
  c.out.block(`for (int i = 0; i < ${rows}; i += ${apart})`, () => {
    for (const i of turns) {
      const target = `slot + (row + ${i * step} + i) * ${slotPitch} + piece`
      c.out.line(`if (copies${i}) ${call(c, 'cp_async_16', target, `from${i}`, PIECE_BYTES)}`, where)
      c.out.line(`from${i} += ${apart} * pitch;`)
    }
  })
  for (const i of own) {
    const target = `slot + (me + ${i * ROWS_AT_ONCE}) * ${slotPitch}`
    const before = `before_own${i}`
    c.out.block('if (column == 0)', () => {
      c.out.line('#pragma unroll')
      c.out.block(`for (int w = 0; w < ${PIECE_BYTES}; w += 4)`, () => {
        const copy = call(c, 'cp_async_4', `${target} + w`, `own${i} - ${before} + w`, 4)
        c.out.line(`if (${before} > 0 && w >= ${before}) ${copy}`, where)
      })
    })
    const last = call(c, 'cp_async_16', `${target} + ${rowBytes}`, `own${i} - ${before} + ${rowBytes}`, before)
    c.out.line(last, where)
  }
  forElements((i, e, isOwn) => {
    const at = `slot + (me + ${i * ROWS_AT_ONCE}) * ${slotPitch} + before_own${i} + ${e * bytes}`
    c.out.line(`if (${isOwn}) ${call(c, `store_shared_b${8 * bytes}`, at, `part${i}_${e}`)}`, where)
  })
}

/** Pairs of neighbours as a lane of a fragment has them: of rows lane / 4 and lane / 4 + 8, from 4 bytes that may lie in two words. */
function readShifted(operand: TensorOperand, slot: string, c: EmitContext): void {
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
    const from = (offset: string): string => `${slot} + at${offset} + j / 4 * ${8 * bytes}`
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
