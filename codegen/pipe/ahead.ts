/**
 * Operands that vary along n or m only, loaded ahead of the epilogue. Those along n as words that are spread over the lanes of a warp: lane l
 * has the l-th pair of every 32 pairs of columns; each lane needs one pair of every 8 columns (register_tile.ts), and asks for it.
 */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../compiler/dtypes.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import type { Ahead, LoadAhead, LoadNext } from '../../compiler/ir/pipe_epilogue.ts'
import { literal } from '../cuda/expression.ts'
import { inPairs } from '../../compiler/targets/tensor_core/ahead.ts'
import { emitComputed } from './looked_up.ts'
import { call, note, rawType, type EmitContext } from './context.ts'
import { firstColumn } from './fragments.ts'
import { element, expressionText, fromWord, load, loadElement, operandOf } from './epilogue_values.ts'

const PAIRS = 32

export const arrayOf = (c: EmitContext, operand: string): string => `ahead_${c.names.value(operand)}`

const guardOf = ({ guard }: LoadAhead | LoadNext, c: EmitContext): string =>
  guard === null ? '' : `${expressionText(guard, c)} != 0 && `

/** Pairs of columns as words: one for two elements of 8 or 16 bits, two for those of 32. */
const wordsOfPair = ({ dtype }: TensorOperand): 1 | 2 => (DTYPES[dtype].storageBytes === 4 ? 2 : 1)

export function emitLoadRows(op: LoadAhead, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const { storageBytes, cudaStorage } = DTYPES[operand.dtype]
  const words = arrayOf(c, op.operand)
  const where = note(c, `load ${op.operand}`)
  const perPair = wordsOfPair(operand)
  const count = Math.ceil(c.program.layout.columns / (2 * PAIRS))
  const stride = c.names.stride(op.operand, c.names.n)
  const at = (n: string): string => element(c, operand, { m: '0', n: `(${n})` })
  const first = firstColumn(c)
  const forPairs = (body: () => void): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
      c.out.line(`const u32 n = ${first} + (lane + ${PAIRS} * i) * 2;`)
      body()
    })
  }
  const guard = guardOf(op, c)
  c.out.line(`u32 ${words}[${count * perPair}];`, where)
  // Pairs are whole, and read as one.
  const aligned = `(reinterpret_cast<u64>(&${at(first)}) & ${2 * storageBytes - 1}) == 0`
  c.out.block(`if (${guard}${stride} == 1 && N % 2 == 0 && ${aligned})`, () =>
    forPairs(() => {
      if (perPair === 2) {
        c.out.line(`const uint2 both = n < N ? *reinterpret_cast<const uint2*>(&${at('n')}) : make_uint2(0, 0);`, where)
        c.out.line(`${words}[2 * i] = both.x;`)
        c.out.line(`${words}[2 * i + 1] = both.y;`)
      } else {
        const pair = storageBytes === 2 ? 'u32' : 'u16'
        c.out.line(`${words}[i] = n < N ? *reinterpret_cast<const ${pair}*>(&${at('n')}) : 0;`, where)
      }
    }),
  )
  c.out.block('else', () =>
    forPairs(() => {
      const word = (n: string): string => {
        const raw = at(n)
        const bits =
          cudaStorage === 'float'
            ? `__float_as_uint(${raw})`
            : `static_cast<u32>(${raw})${storageBytes < 4 ? ` & ${2 ** (8 * storageBytes) - 1}` : ''}`
        return `(${guard}${n} < N ? ${bits} : 0)`
      }
      if (perPair === 2) {
        c.out.line(`${words}[2 * i] = ${word('n')};`, where)
        c.out.line(`${words}[2 * i + 1] = ${word('n + 1')};`, where)
      } else {
        c.out.line(`${words}[i] = ${word('n')} | ${word('n + 1')} << ${8 * storageBytes};`, where)
      }
    }),
  )
}

/** The values of a sub-tile out of those words. */
export function emitRowsAhead(operand: TensorOperand, name: string, c: EmitContext): void {
  const { storageBytes, cudaStorage } = DTYPES[operand.dtype]
  const words = arrayOf(c, operand.name)
  const where = note(c, `use ${operand.name}`)
  const perPair = wordsOfPair(operand)
  const value = (bits: string): string => {
    const raw = storageBytes === 4 ? fromWord(cudaStorage, bits) : `static_cast<${cudaStorage}>(${bits})`
    return load(c, operand, raw)
  }
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 j = 0; j < ${c.tile.rowCount}; j += 2)`, () => {
    c.out.line('const u32 pair = column / 2 + j * 2;  // of lanes 0, 4, 8 …; the others have the next three')
    const word = (i: number): string => {
      const index = perPair === 1 ? `pair / ${PAIRS}` : `pair / ${PAIRS} * 2 + ${i}`
      return `__shfl_sync(~0u, ${words}[${index}], pair % ${PAIRS} + lane % 4)`
    }
    if (perPair === 1) c.out.line(`const u32 both = ${word(0)};`, where)
    for (const i of [0, 1]) {
      const bits = perPair === 2 ? word(i) : `both >> ${i * 8 * storageBytes} & ${2 ** (8 * storageBytes) - 1}`
      c.out.line(`${name}[j + ${i}] = ${value(bits)};`, where)
    }
  })
}

/** A word of each pair of columns, where memory has one, or one of each element. */
function shapeOfElements(operand: TensorOperand, c: EmitContext) {
  const { storageBytes, cudaStorage } = DTYPES[operand.dtype]
  return inPairs(operand, c.names.n)
    ? { type: rawType(2 * storageBytes), each: 1, storage: cudaStorage }
    : { type: cudaStorage, each: 2, storage: cudaStorage }
}

/**
 * The elements of a lane in `rows` rows, of which `row` is the i-th, from column `n` on, as memory has them. One address for each row, and one comparison for
 * each element: where they are loaded, nothing else hides instructions.
 */
function loadElements(
  op: LoadAhead | LoadNext,
  rows: number,
  row: (i: string) => string,
  n: string,
  columns: number,
  c: EmitContext,
): void {
  const { operand: name } = op
  const operand = operandOf(c, name)
  const { type, each, storage } = shapeOfElements(operand, c)
  const where = note(c, `load ${name}`)
  const stride = operand.order.at(-1) === c.names.n ? '' : ` * ${c.names.stride(name, c.names.n)}`
  const [end, edge, across] = [c.names.end('m'), c.names.edge('n'), columns / 8]
  const target = (i: string): string => `${arrayOf(c, name)}[${i}]`
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 r = 0; r < ${rows}; ++r)`, () => {
    c.out.line(`const u32 m = ${row('r')}, n = ${n} + lane % 4 * 2;`)
    c.out.line(`const u32 left = ${guardOf(op, c)}m < ${end} && n < ${edge} ? ${edge} - n : 0;`)
    c.out.line(`const ${storage}* const from = &${element(c, operand, { m: 'm', n: 'n' })};`, where)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${across}; ++i)`, () => {
      if (each === 1) {
        const pair = `*reinterpret_cast<const ${type}*>(from + i * 8)`
        const loaded = `i * 8 + 1 < left ? ${pair} : i * 8 < left ? from[i * 8] : 0`
        return void c.out.line(`${target(`r * ${across} + i`)} = ${loaded};`, where)
      }
      for (const e of [0, 1]) {
        const loaded = `i * 8 + ${e} < left ? from[(i * 8 + ${e})${stride}] : 0`
        c.out.line(`${target(`(r * ${across} + i) * 2 + ${e}`)} = ${loaded};`, where)
      }
    })
  })
}

/** `row`: the i-th of a lane's, in `blocks` of two. */
export function emitLoadElements(op: LoadAhead, row: (i: string) => string, blocks: number, c: EmitContext): void {
  const { type, each } = shapeOfElements(operandOf(c, op.operand), c)
  const [rows, columns] =
    op.elements === 'tile' ? [2 * blocks, c.program.layout.columns] : [2, c.program.subtileColumns]
  c.out.line(`${type} ${arrayOf(c, op.operand)}[${(rows * columns * each) / 8}];`)
  loadElements(op, rows, row, firstColumn(c), columns, c)
}

/** Those of the next sub-tile: beside this one, or the first of the rows below. */
export function emitLoadNext(op: LoadNext, row: (i: string) => string, blocks: number, c: EmitContext): void {
  const { subtileColumns: columns, layout } = c.program
  const beyond = op.stops ? ` || subtile_col + ${columns} >= ${c.names.edge('n')}` : ''
  c.out.block('', () => {
    c.out.line(`const bool is_below = column + ${columns} >= ${layout.columns}${beyond};`)
    c.out.line(`const u32 next_row = (block + is_below) * 2, next_column = is_below ? 0 : column + ${columns};`)
    c.out.block(`if (next_row < ${2 * blocks})`, () =>
      loadElements(op, 2, (i) => row(`(next_row + ${i})`), `${firstColumn(c)} + next_column`, columns, c),
    )
  })
}

export function emitElementsAhead(operand: TensorOperand, name: string, of: Ahead, c: EmitContext): void {
  const bits = 8 * DTYPES[operand.dtype].storageBytes
  const { each, storage } = shapeOfElements(operand, c)
  const { subtileColumns, layout } = c.program
  const [row, across, column] =
    of === 'tile' ? ['block * 2 + ', layout.columns / 8, 'column / 8 + '] : ['', subtileColumns / 8, '']
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 j = 0; j < ${c.tile.count}; ++j)`, () => {
    const pair = `(${row}j / 2 % 2) * ${across} + ${column}j / 4`
    const raw =
      each === 1
        ? `static_cast<${storage}>(${arrayOf(c, operand.name)}[${pair}] >> j % 2 * ${bits} & ${2 ** bits - 1})`
        : `${arrayOf(c, operand.name)}[(${pair}) * 2 + j % 2]`
    c.out.line(`${name}[j] = ${load(c, operand, raw)};`, note(c, `use ${operand.name}`))
  })
}

/** Bytes of a line of L2. */
const LINE = 128

/** Lines of the warp's rows. `row`: the i-th of a lane's. */
export function emitLoadLines(op: LoadAhead, row: (i: string) => string, blocks: number, c: EmitContext): void {
  const emit = operandOf(c, op.operand).order.at(-1) === c.names.m ? emitLinesAcross : emitLinesAlong
  if (op.guard === null) emit(op, row, blocks, c)
  else c.out.block(`if (${expressionText(op.guard, c)} != 0)`, () => emit(op, row, blocks, c))
}

type EmitLines = typeof emitLoadLines

/** Of an operand contiguous along m: the rows of a block are in one line of each column, which a lane asks for. */
const emitLinesAcross: EmitLines = (op, row, blocks, c) => {
  const { columns } = c.program.layout
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${blocks * Math.ceil(columns / 32)}; ++i)`, () => {
    c.out.line(`const u32 j = lane + i / ${blocks} * 32, n = ${firstColumn(c)} + j, m = ${row(`(i % ${blocks} * 2)`)};`)
    const address = call(c, 'prefetch_line', `&${element(c, operandOf(c, op.operand), { m: 'm', n: 'n' })}`)
    const isOne = columns % 32 === 0 ? '' : `j < ${columns} && `
    c.out.line(`if (${isOne}m < ${c.names.end('m')} && n < ${c.names.edge('n')}) ${address}`, note(c, `load ${op.operand}`)) // prettier-ignore
  })
}

/** Four lanes to a row. */
const emitLinesAlong: EmitLines = (op, row, blocks, c) => {
  const operand = operandOf(c, op.operand)
  const { columns } = c.program.layout
  const each = LINE / DTYPES[operand.dtype].storageBytes
  const lines = Math.ceil(columns / each) + +(operand.divisibility !== 'vector')
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${2 * blocks * Math.ceil(lines / 4)}; ++i)`, () => {
    c.out.line(`const u32 line = lane % 4 + i / ${2 * blocks} * 4, m = ${row(`(i % ${2 * blocks})`)};`)
    // The last one is that of the last column, wherever rows begin.
    c.out.line(`const u32 n = min(${firstColumn(c)} + min(line * ${each}, ${columns - 1}), ${c.names.edge('n')} - 1);`)
    const isOne = lines % 4 === 0 ? '' : `line < ${lines} && `
    const address = call(c, 'prefetch_line', `&${element(c, operand, { m: 'm', n: 'n' })}`)
    c.out.line(`if (${isOne}m < ${c.names.end('m')}) ${address}`, note(c, `load ${op.operand}`))
  })
}

/** The two rows of a lane in each block of rows. `row`: the i-th of them. */
export function emitLoadColumns(op: LoadAhead, row: (i: string) => string, blocks: number, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const { compute } = DTYPES[operand.dtype]
  const where = note(c, `load ${op.operand}`)
  const values = arrayOf(c, op.operand)
  c.out.line(`${CUDA_COMPUTE_TYPE[compute]} ${values}[${2 * blocks}];`, where)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${2 * blocks}; ++i)`, () => {
    c.out.line(`const u32 m = ${row('i')};`)
    if (operand.computed) {
      c.out.line(`${values}[i] = ${literal(compute, 0).text};`)
      return void c.out.block(`if (${guardOf(op, c)}m < ${c.names.end('m')})`, () =>
        emitComputed(c, operand, `${values}[i]`, { m: 'm', n: '0' }, where),
      )
    }
    c.out.line(`${values}[i] = ${loadElement(c, operand, { m: 'm', n: '0' }, `${guardOf(op, c)}m < M`)};`, where)
  })
}

export function emitColumnsAhead(operand: TensorOperand, name: string, c: EmitContext): void {
  const type = CUDA_COMPUTE_TYPE[DTYPES[operand.dtype].compute]
  const values = arrayOf(c, operand.name)
  c.out.line(
    `const ${type} ${name}[2] = {${values}[2 * block], ${values}[2 * block + 1]};`,
    note(c, `use ${operand.name}`),
  )
}
