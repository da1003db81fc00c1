/** Operands of the epilogue that TMA brings to shared memory ahead of their use: to a ring of sub-tiles for each warp, or to stages, which it reads where they lie. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import type { AuxLoad, EpilogueOp, Fetched, HeldStages } from '../../compiler/ir/pipe_epilogue.ts'
import { name as ixName } from '../../compiler/space/ix.ts'
import { BOX_ROWS, swizzled, type Swizzle } from '../../compiler/space/layout.ts'
import { barrierAddress, call, call0, constant, note, ringOf, slotAddress, type EmitContext } from './context.ts'
import { firstColumn, rowBlock } from './fragments.ts'
import { expressionText, fromWord, load, operandOf } from './epilogue_values.ts'
import { MATRIX_ROW, PAIR_ROW, transposedMatrices } from './register_tile.ts'
import { emitLoadShifted } from './shifted_loads.ts'

type FetchOp = Extract<EpilogueOp, { op: 'fetch_first' | 'fetch_next' }>

/** Is it contiguous along m? */
const isAcross = (operand: TensorOperand, c: EmitContext): boolean => operand.order.at(-1) === c.names.m

/** Coordinates of a box of an operand at row `m` and column `n` (CUDA texts), the contiguous one first. */
export function boxPlace(operand: string, m: string, n: string, c: EmitContext): string[] {
  const batch = c.names.batchCoordinate(operand)
  return [...(isAcross(operandOf(c, operand), c) ? [m, n] : [n, m]), ...(batch ? [batch] : [])]
}

/** Asks for sub-tile `index` into slot `slot` (CUDA texts). */
function request({ operand, fetch }: FetchOp, index: string, slot: string, c: EmitContext): void {
  const { columns } = c.program.layout
  const { slots } = ringOf(c.program, fetch.ring)
  const perBlock = columns / c.program.subtileColumns
  const where = note(c, `TMA load ${operand}`)
  const block = rowBlock(c, `${index} / ${perBlock}`)
  const place = `(warp * ${slots} + ${slot})`
  c.out.line(`const u32 barrier = smem + ${constant(fetch.barrier)} + 8 * ${place};`, where)
  c.out.line(call(c, 'mbarrier_arrive_expect_tx', 'barrier', fetch.bytes), where)
  const [n, m] = [
    `${firstColumn(c)} + ${index} % ${perBlock} * ${c.program.subtileColumns}`,
    `at.m + ${block} * 64 + warp % 4 * ROWS_PER_WARP`,
  ]
  const coordinates = boxPlace(operand, m, n, c)
  const target = `smem + ${constant(fetch.buffer)} + ${place} * ${constant(fetch.buffer)}_SLOT`
  c.out.line(call(c, `tma_load_${coordinates.length}d`, target, `&${fetch.map}`, 'barrier', ...coordinates), where)
}

const condition = (op: FetchOp, c: EmitContext): string =>
  op.guard === null ? 'lane == 0' : `lane == 0 && ${expressionText(op.guard, c)} != 0`

export function emitFetchFirst(op: Extract<EpilogueOp, { op: 'fetch_first' }>, c: EmitContext): void {
  const { ring, subtiles } = op.fetch
  const { slots } = ringOf(c.program, ring)
  // All lanes have read what the slots held before.
  c.out.line('__syncwarp();')
  c.out.block(`if (${condition(op, c)})`, () => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${slots}; ++i)`, () =>
      request(op, 'i', subtiles % slots === 0 ? 'i' : `(${ring} + i) % ${slots}`, c),
    )
  })
}

export function emitFetchNext(op: Extract<EpilogueOp, { op: 'fetch_next' }>, c: EmitContext): void {
  const { ring, subtiles } = op.fetch
  const { slots } = ringOf(c.program, ring)
  if (slots < subtiles) {
    const index = `(block * ${c.program.layout.columns / c.program.subtileColumns} + column / ${c.program.subtileColumns} + ${slots})`
    c.out.block(`if (${index} < ${subtiles})`, () => {
      c.out.line('__syncwarp();')
      c.out.block(`if (${condition(op, c)})`, () => request(op, index, ring, c))
    })
  }
  c.out.line(`if (++${ring} == ${slots}) { ${ring} = 0; ${ring}_phase ^= 1; }`)
}

/** The sub-tile in the ring's slot, as the values of the fragment. */
export function emitFetchedLoad(
  op: AuxLoad,
  fetched: Fetched,
  operand: TensorOperand,
  guard: string | null,
  zero: string,
  c: EmitContext,
): void {
  const read = (): void => {
    c.out.line(
      call(c, 'mbarrier_wait', barrierAddress(c, fetched.barrier), `${fetched.ring}_phase`),
      note(c, `wait ${fetched.barrier}`),
    )
    readFragment(op, ownSlot(fetched, operand, c), operand, c)
  }
  emitGuarded(op, guard, zero, read, c)
}

/** The same of a sub-tile that lies in a stage. */
export function emitHeldLoad(
  op: AuxLoad,
  held: HeldStages,
  operand: TensorOperand,
  guard: string | null,
  zero: string,
  c: EmitContext,
): void {
  emitGuarded(op, guard, zero, () => readFragment(op, heldPlace(held, operand, c), operand, c), c)
}

/** Rows of memory through the slot of the warp, which nothing else uses meanwhile. */
export const emitRowsLoad = (
  op: AuxLoad,
  operand: TensorOperand,
  guard: string | null,
  zero: string,
  c: EmitContext,
): void => emitGuarded(op, guard, zero, () => emitLoadShifted(op, operand, c), c)

function emitGuarded(op: AuxLoad, guard: string | null, zero: string, read: () => void, c: EmitContext): void {
  if (guard === null) return void c.out.block('', read)
  c.out.block(`if (${guard} != 0)`, read)
  c.out.line('else')
  c.out.line('#pragma unroll')
  c.out.line(`for (u32 j = 0; j < ${c.tile.count}; ++j) ${c.names.value(op.operand)}[j] = ${zero};`)
}

/** Where the rows of a warp lie, or, contiguous along m, the columns. `chunk`: of 16 bytes, the first of them in its row. */
interface Place {
  readonly slot: string
  readonly swizzle: Swizzle
  readonly pitch: number
  readonly chunk: string | null
}

const ownSlot = ({ buffer, swizzle }: Fetched, operand: TensorOperand, c: EmitContext): Place => {
  const elements = isAcross(operand, c) ? c.program.layout.rowsPerWarp : c.program.subtileColumns
  const pitch = elements * DTYPES[operand.dtype].storageBytes
  return { slot: slotAddress(c, buffer), swizzle, pitch, chunk: null }
}

function heldPlace({ parts, columns, swizzle }: HeldStages, operand: TensorOperand, c: EmitContext): Place {
  const { storageBytes } = DTYPES[operand.dtype]
  const slots = parts.flatMap((blocks, part) =>
    blocks.map(({ buffer, offset, column }) => {
      const name = constant(buffer)
      const first = `${name} + ${heldSlot(operand.name, part, c)} * ${name}_SLOT${offset > 0 ? ` + ${offset}` : ''}`
      return { first, end: column + columns }
    }),
  )
  // Loops over sub-tiles are unrolled.
  const block = slots
    .map(({ first, end }, i) => (i === slots.length - 1 ? first : `column < ${end} ? ${first} : `))
    .join('')
  const rows = rowBlock(c, 'block')
  if (isAcross(operand, c)) {
    const pitch = BOX_ROWS * storageBytes
    const at = `${rows} * ${columns * pitch}${columns === c.program.subtileColumns ? '' : ` + column % ${columns} * ${pitch}`}`
    return { slot: `smem + (${block}) + ${at}`, swizzle, pitch, chunk: 'warp % 4 * 2' }
  }
  const pitch = columns * storageBytes
  const at = `(${rows} * 64 + warp % 4 * ROWS_PER_WARP) * ${pitch}`
  const inner = columns === c.program.subtileColumns ? null : `column % ${columns} * ${storageBytes} / 16`
  return { slot: `smem + (${block}) + ${at}`, swizzle, pitch, chunk: inner }
}

/** The variable that has the slot of a part. */
export const heldSlot = (operand: string, part: number, c: EmitContext): string =>
  `${c.names.value(operand)}_stage${part}`

/** Values of the fragment out of a slot. */
function readFragment(
  op: AuxLoad,
  { slot, swizzle, pitch, chunk }: Place,
  operand: TensorOperand,
  c: EmitContext,
): void {
  const name = c.names.value(op.operand)
  const { storageBytes: bytes, cudaStorage } = DTYPES[operand.dtype]
  const where = note(c, `read ${op.operand}`)
  const columns = c.program.subtileColumns
  const value = (j: string, bits: string): void =>
    void c.out.line(
      `${name}[${j}] = ${load(c, operand, bytes === 4 ? fromWord(cudaStorage, bits) : `static_cast<${cudaStorage}>(${bits})`)};`,
      where,
    )
  const across = isAcross(operand, c)
  c.out.line(`const u32 slot = ${slot};`, where)
  const behind = (text: string): string => (chunk === null ? text : `(${chunk} + ${text})`)
  c.out.line('#pragma unroll')
  if (bytes === 2 && columns >= 16) {
    const loadMatrices = (matrices: 2 | 4, i: string): void => {
      const wrapper = `ldmatrix_x${matrices}${across ? '_trans' : ''}`
      const name = matrices === 4 ? 'four' : 'two'
      c.wrappers.add(`${wrapper}_words`)
      const at = swizzled(swizzle, behind(`(2 * ${i} + lane / 16)`), MATRIX_ROW)
      const address = across
        ? `${i} * ${16 * pitch} + ${transposedMatrices(swizzle, pitch, chunk)}`
        : `(lane % 16) * ${pitch} + ${at} * 16`
      c.out.line(`const uint${matrices} ${name} = ${wrapper}(slot + ${address});`, where)
      for (const [m, part] of ['x', 'y', 'z', 'w'].slice(0, matrices).entries()) {
        value(`8 * ${i} + ${2 * m}`, `${name}.${part} & 0xffff`)
        value(`8 * ${i} + ${2 * m + 1}`, `${name}.${part} >> 16`)
      }
    }
    const fours = Math.floor(columns / 16)
    c.out.block(`for (u32 i = 0; i < ${fours}; ++i)`, () => loadMatrices(4, 'i'))
    if (columns % 16 !== 0) loadMatrices(2, `${fours}`)
    return
  }
  if (across) {
    // Rows of 64 bytes of one column each.
    c.out.block(`for (u32 j = 0; j < ${c.tile.count}; ++j)`, () => {
      c.out.line('const u32 m = lane / 4 + j / 2 % 2 * 8, n = j / 4 * 8 + lane % 4 * 2 + j % 2;')
      const at = swizzled(swizzle, 'm / 4', ixName('n'))
      value('j', call0(c, 'load_shared', `slot + n * 64 + ${at} * 16 + m % 4 * 4`))
    })
    return
  }
  const chunked = (text: string): string => swizzled(swizzle, behind(text), PAIR_ROW)
  const [at, inside] =
    bytes === 1
      ? [chunked('(j / 8)'), '(j / 4 % 2 * 8 + lane % 4 * 2)']
      : bytes === 2
        ? [chunked('(j / 4)'), 'lane % 4 * 4']
        : [chunked('(j / 4 * 2 + lane % 4 / 2)'), 'lane % 2 * 8']
  c.out.block(`for (u32 j = 0; j < ${c.tile.count}; j += 2)`, () => {
    const address = `slot + (lane / 4 + j / 2 % 2 * 8) * ${pitch} + ${at} * 16 + ${inside}`
    if (bytes === 4) {
      c.out.line(`const uint2 both = ${call0(c, 'load_shared_v2', address)};`, where)
      value('j', 'both.x')
      value('j + 1', 'both.y')
      return
    }
    c.out.line(`const u32 both = ${call0(c, bytes === 2 ? 'load_shared' : 'load_shared_b16', address)};`, where)
    value('j', bytes === 2 ? 'both & 0xffff' : 'both & 0xff')
    value('j + 1', bytes === 2 ? 'both >> 16' : 'both >> 8')
  })
}
