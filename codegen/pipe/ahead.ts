/**
 * Operands that vary along n or m only, loaded ahead of the epilogue. Those along n as words that are spread over the lanes of a warp: lane l
 * has the l-th pair of every 32 pairs of columns; each lane needs one pair of every 8 columns (register_tile.ts), and asks for it.
 */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../compiler/dtypes.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import type { LoadAhead } from '../../compiler/ir/pipe_epilogue.ts'
import { literal } from '../cuda/expression.ts'
import { emitComputed } from './looked_up.ts'
import { call, note, type EmitContext } from './context.ts'
import { firstColumn } from './fragments.ts'
import { element, expressionText, fromWord, load, loadElement, operandOf } from './epilogue_values.ts'
import { arrayOf, guardOf } from './elements_ahead.ts'

const PAIRS = 32

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
