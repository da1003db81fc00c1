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
import { element, expressionText, fromWord, isOfUnits, load, operandOf } from './epilogue_values.ts'

export function emitLoadShifted(op: AuxLoad, operand: TensorOperand, c: EmitContext): void {
  const { buffer, copied } = op.rows!
  const { layout, subtileColumns } = c.program
  const slot = slotAddress(c, buffer)
  if (copied) {
    const bytes = layout.rowsPerWarp * shiftedRowBytes(subtileColumns, DTYPES[operand.dtype].storageBytes)
    return void c.out.block('', () => readShifted(operand, `${slot} + warp % 4 * ${bytes}`, c))
  }
  c.out.block('', () => copyRows(operand, slot, 'warp_row', layout.rowsPerWarp, c))
  c.out.line(call(c, 'cp_async_commit')).line(`cp_async_wait<0>();`).line('__syncwarp();')
  c.wrappers.add('cp_async_wait')
  c.out.block('', () => readShifted(operand, slot, c))
  c.out.line('__syncwarp();')
}

export function emitCopyRows(op: CopyRows, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const copy = (): void => {
    copyRows(operand, slotAddress(c, op.buffer), 'warpgroup_row', 4 * c.program.layout.rowsPerWarp, c)
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

/** Rows of which a lane of a warp has one each. */
const OWN_ROWS = 32

/** `rows` of the sub-tile from row `first` on (CUDA text), to the address `to`. */
function copyRows(operand: TensorOperand, to: string, first: string, rows: number, c: EmitContext): void {
  const { subtileColumns: columns } = c.program
  const pitch = shiftedRowBytes(columns, DTYPES[operand.dtype].storageBytes)
  const isInside = `${first} + ${rows} <= ${c.names.end('m')} && subtile_col + ${columns} <= ${c.names.edge('n')}`
  c.out.block(`if (${isInside})`, () => copyInside(copiesOf(operand, to, first, rows, c), c))
  c.out.block('else', () => {
    if (rows <= OWN_ROWS) return copyCut(copiesOf(operand, to, first, rows, c), c)
    c.out.line('#pragma unroll 1')
    c.out.block(`for (u32 part = 0; part < ${rows}; part += ${OWN_ROWS})`, () =>
      copyCut(copiesOf(operand, `${to} + part * ${pitch}`, `${first} + part`, OWN_ROWS, c), c),
    )
  })
}

/** What copies of rows have in common: bytes of an element, of a row of the slot, and of a row of the sub-tile. */
interface Copies {
  readonly rows: number
  readonly bytes: number
  readonly pitch: number
  readonly rowBytes: number
  readonly where: object
}

/** Declares the slot, the lane, the first row and the bytes between rows. */
function copiesOf(operand: TensorOperand, to: string, first: string, rows: number, c: EmitContext): Copies {
  const { subtileColumns: columns } = c.program
  const bytes = DTYPES[operand.dtype].storageBytes
  const where = note(c, `load ${operand.name}`)
  c.out.line(`const u32 first_row = ${first}, slot = ${to};`, where)
  c.out.line(`const int me = ${call0(c, 'anew', 'lane')};`)
  const address = `&${element(c, operand, { m: 'first_row', n: 'subtile_col' })}`
  c.out.line(`const char* const first = reinterpret_cast<const char*>(${address});`, where)
  c.out.line(`i64 pitch = static_cast<i64>(${c.names.stride(operand.name, c.names.m)}) * ${bytes};`)
  c.out.line(`asm volatile("" : "+l"(pitch));  // multiples of it are added up, and not kept in registers around loops`)
  return { rows, bytes, pitch: shiftedRowBytes(columns, bytes), rowBytes: columns * bytes, where }
}

/** Declares a row, and the bytes before it in the piece of memory that it begins in. */
function declareRow(name: string, row: string, c: EmitContext): void {
  c.out.line(`const char* const ${name} = first + (${row}) * pitch;`)
  c.out.line(`const int before_${name} = static_cast<u32>(reinterpret_cast<u64>(${name})) % ${PIECE_BYTES};`)
}

/**
 * Declares the rows that a lane has the ends of, and loads what of their first words is less than one: it is under way while others are copied. Returns what
 * stores it. `isThere`: of an element `place` bytes behind the beginning of the `i`-th of these rows (CUDA).
 */
function ownRows(
  { rows, bytes, pitch, where }: Copies,
  c: EmitContext,
  isThere: (i: number, place: number) => string,
): { readonly own: readonly number[]; store(): void } {
  const raw = rawType(bytes)
  const own = Array.from({ length: Math.ceil(rows / OWN_ROWS) }, (_, i) => i)
  for (const i of own) declareRow(`own${i}`, `me + ${i * OWN_ROWS}`, c)
  const forElements = (body: (i: number, place: number, begins: string) => void): void => {
    for (const i of own)
      for (let place = 0; place < 4 - bytes; place += bytes)
        body(i, place, `column == 0 && before_own${i} % 4 != 0 && before_own${i} % 4 + ${place} < 4${ofRows(rows)}`)
  }
  forElements((i, place, begins) => {
    const value = `*reinterpret_cast<const ${raw}*>(own${i} + ${place})`
    c.out.line(`const ${raw} part${i}_${place} = ${begins}${isThere(i, place)} ? ${value} : 0;`, where)
  })
  const store = (): void =>
    forElements((i, place, begins) => {
      const at = `slot + (me + ${i * OWN_ROWS}) * ${pitch} + before_own${i} + ${place}`
      c.out.line(`if (${begins}) ${call(c, `store_shared_b${8 * bytes}`, at, `part${i}_${place}`)}`, where)
    })
  return { own, store }
}

/**
 * The ends of rows that a lane has: the words behind elements of others that it begins with, and the last piece where it is shifted, behind whose end are zeros.
 * `size`: bytes of the `i`-th row's `most` behind `at` that there are (CUDA).
 */
function copyEnds(
  { rows, pitch, rowBytes, where }: Copies,
  own: readonly number[],
  c: EmitContext,
  size: (i: number, at: string, most: number) => string,
): void {
  for (const i of own) {
    const [target, before] = [`slot + (me + ${i * OWN_ROWS}) * ${pitch}`, `before_own${i}`]
    c.out.block(`if (column == 0${ofRows(rows)})`, () => {
      c.out.line('#pragma unroll')
      c.out.block(`for (int w = 0; w < ${PIECE_BYTES}; w += 4)`, () => {
        const copy = call(c, 'cp_async_4', `${target} + w`, `own${i} - ${before} + w`, size(i, 'w', 4))
        c.out.line(`if (${before} > 0 && w >= ${before}) ${copy}`, where)
      })
    })
    const last = size(i, `${rowBytes}`, PIECE_BYTES)
    const copy = call(c, 'cp_async_16', `${target} + ${rowBytes}`, `own${i} - ${before} + ${rowBytes}`, last)
    c.out.line(rows < OWN_ROWS ? `if (me < ${rows}) ${copy}` : copy, where)
  }
}

/** Of lanes that have a row. */
const ofRows = (rows: number): string => (rows < OWN_ROWS ? ` && me < ${rows}` : '')

/**
 * Rows of which all is there: those that begin at the same byte of 16 take turns, so that what a lane copies of one of them begins as far behind that of the
 * one before as these are apart.
 */
function copyInside(shape: Copies, c: EmitContext): void {
  const { rows, bytes, pitch, rowBytes, where } = shape
  const lanes = rowBytes / PIECE_BYTES
  const step = 32 / lanes
  const apart = Math.max(step, PIECE_BYTES / bytes)
  const { own, store } = ownRows(shape, c, () => '')
  c.out.line(`const int row = me / ${lanes}, piece = me % ${lanes} * ${PIECE_BYTES};`)
  const turns = Array.from({ length: apart / step }, (_, i) => i)
  for (const i of turns) {
    declareRow(`row${i}`, `row + ${i * step}`, c)
    c.out.line(`const char* from${i} = row${i} - before_row${i} + piece;`)
    const isRow = step > rows ? `row < ${rows} && ` : ''
    c.out.line(`const bool copies${i} = ${isRow}(column > 0 || piece > 0 || before_row${i} == 0);`)
  }
  c.out.line('#pragma unroll')
  c.out.block(`for (int i = 0; i < ${rows}; i += ${apart})`, () => {
    for (const i of turns) {
      const target = `slot + (row + ${i * step} + i) * ${pitch} + piece`
      c.out.line(`if (copies${i}) ${call(c, 'cp_async_16', target, `from${i}`, PIECE_BYTES)}`, where)
      c.out.line(`from${i} += ${apart} * pitch;`)
    }
  })
  copyEnds(shape, own, c, (i, _, most) => (most === 4 ? '4' : `before_own${i}`))
  store()
}

/** Rows that end before the sub-tile does, or of which there are fewer, at most one of each lane: it copies one piece of every few, behind whose end are zeros. */
function copyCut(shape: Copies, c: EmitContext): void {
  const { rows, pitch, rowBytes, bytes, where } = shape
  c.out.line(
    `const int left = min(static_cast<int>(${c.names.edge('n')} - subtile_col), ${rowBytes / bytes}) * ${bytes};`,
  )
  c.out.line(
    `const int below = left > 0 ? static_cast<int>(${c.names.end('m')} - first_row) : 0;  // rows that there are`,
  )
  const { own, store } = ownRows(shape, c, (_, place) => ` && me < below && ${place} < left`)
  const inside = (row: string, before: string, at: string, most: number): string =>
    `${row} < below ? min(max(${before} + left - ${at}, 0), ${most}) : 0`
  const lanes = rowBytes / PIECE_BYTES
  const step = 32 / lanes
  c.out.line(`const int own = me / ${lanes}, piece = me % ${lanes} * ${PIECE_BYTES};`)
  c.out.line(`const char* row = first + own * pitch;`).line('#pragma unroll 1')
  c.out.block(`for (int i = 0; i < ${Math.max(1, rows / step)}; ++i, row += ${step} * pitch)`, () => {
    if (step > rows) c.out.line(`if (own >= ${rows}) break;`)
    c.out.line(`const int before = static_cast<u32>(reinterpret_cast<u64>(row)) % ${PIECE_BYTES};`)
    const target = `slot + own * ${pitch} + i * ${step * pitch} + piece`
    const size = inside(`own + i * ${step}`, 'before', 'piece', PIECE_BYTES)
    const copy = call(c, 'cp_async_16', target, 'row - before + piece', size)
    c.out.line(`if (column > 0 || piece > 0 || before == 0) ${copy}`, where)
  })
  copyEnds(shape, own, c, (i, at, most) => inside('me', `before_own${i}`, at, most))
  store()
}

/** Pairs of neighbours as a lane of a fragment has them: of rows lane / 4 and lane / 4 + 8, from 4 bytes that lie in two words where rows are not made of pairs. */
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
  const { tile } = c
  const value = (j: string, bits: string): void => {
    const raw = bytes === 4 ? fromWord(cudaStorage, bits) : `static_cast<${cudaStorage}>(${bits})`
    c.out.line(`${name}[${j}] = ${load(c, operand, raw)};`, where)
  }
  const at = '(j / 2 % 2 == 0 ? at0 : at1)'
  const from = (offset = ''): string => `${slot} + ${at}${offset} + j / 4 * ${8 * bytes}`
  const forPairs = (body: () => void): void =>
    void c.out.line('#pragma unroll').block(`for (u32 j = 0; j < ${tile.count}; j += 2)`, body)
  if (bytes === 4)
    return forPairs(() => {
      value('j', call0(c, 'load_shared_b32', from()))
      value('j + 1', call0(c, 'load_shared_b32', from(' + 4')))
    })
  const isOfPairs = isOfUnits(c, operand, { m: 'warp_row', n: 'subtile_col' }, 2 * bytes)
  c.out.line(`u32 both[${tile.count / 2}];`)
  c.out.block(`if (${isOfPairs})`, () =>
    forPairs(() => c.out.line(`both[j / 2] = ${call0(c, `load_shared_b${16 * bytes}`, from())};`, where)),
  )
  c.out.block('else', () =>
    forPairs(() => c.out.line(`both[j / 2] = ${call0(c, 'load_turned', from(' / 4 * 4'), `${at} % 4 * 8`)};`, where)),
  )
  const mask = 2 ** (8 * bytes) - 1
  forPairs(() => {
    value('j', `both[j / 2] & ${mask}`)
    value('j + 1', `both[j / 2] >> ${8 * bytes} & ${mask}`)
  })
}
