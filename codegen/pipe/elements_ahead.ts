/**
 * Operands of each element that lanes load to registers themselves, ahead of their use: those of the whole tile, or of a sub-tile, in whose place those
 * of the next one come when they have been read.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { TensorOperand } from '../../compiler/ir/tensor.ts'
import type { Ahead, LoadAhead, LoadNext } from '../../compiler/ir/pipe_epilogue.ts'
import { inPairs } from '../../compiler/targets/tensor_core/ahead.ts'
import { note, rawType, type EmitContext } from './context.ts'
import { firstColumn } from './fragments.ts'
import { element, expressionText, isOfUnits, load, operandOf } from './epilogue_values.ts'
import { acrossOf, finishesShares, isOwnSubtile, OWN_SUBTILES, subtilesOf } from './shares.ts'

/** The array that has what is loaded ahead of an operand. */
export const arrayOf = (c: EmitContext, operand: string): string => `ahead_${c.names.value(operand)}`

/** A condition of loads of an operand that some values need, or none (CUDA). */
export const guardOf = ({ guard }: LoadAhead | LoadNext, c: EmitContext): string =>
  guard === null ? '' : `${expressionText(guard, c)} != 0 && `

/**
 * A word of each pair of columns, where memory has one, or one of each element. `pair`: what a pair of columns is in memory, if it may be one there, as addresses
 * show: it lies in the first of two words then.
 */
function shapeOfElements(operand: TensorOperand, c: EmitContext) {
  const { storageBytes, cudaStorage: storage } = DTYPES[operand.dtype]
  const pair = storageBytes <= 2 && operand.order.at(-1) === c.names.n ? rawType(2 * storageBytes) : null
  if (inPairs(operand, c.names.n)) return { type: pair!, each: 1, storage, pair: null }
  return { type: pair === null ? storage : 'u32', each: 2, storage, pair }
}

/** The variable that says whether pairs of columns are words of memory. */
const pairsOf = (c: EmitContext, operand: string): string => `pairs_${c.names.value(operand)}`

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
  const { type, each, storage, pair } = shapeOfElements(operand, c)
  const where = note(c, `load ${name}`)
  const stride = operand.order.at(-1) === c.names.n ? '' : ` * ${c.names.stride(name, c.names.n)}`
  const [end, edge, across] = [c.names.end('m'), c.names.edge('n'), columns / 8]
  const target = (i: string): string => `${arrayOf(c, name)}[${i}]`
  const forPairs = (body: () => void): void => {
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 r = 0; r < ${rows}; ++r)`, () => {
      c.out.line(`const u32 m = ${row('r')}, n = ${n} + lane % 4 * 2;`)
      c.out.line(`const u32 left = ${guardOf(op, c)}m < ${end} && n < ${edge} ? ${edge} - n : 0;`)
      c.out.line(`const ${storage}* const from = &${element(c, operand, { m: 'm', n: 'n' })};`, where)
      c.out.line('#pragma unroll')
      c.out.block(`for (u32 i = 0; i < ${across}; ++i)`, () => {
        if (finishesShares(c) && op.op === 'load_ahead' && op.elements === 'tile')
          c.out.line(
            `if (!${isOwnSubtile(`(r / 2 * ${acrossOf(c)} + i * 8 / ${c.program.subtileColumns})`)}) continue;`,
          )
        body()
      })
    })
  }
  const loadPairs = (type: string): void =>
    forPairs(() => {
      const both = `*reinterpret_cast<const ${type}*>(from + i * 8)`
      const loaded = `i * 8 + 1 < left ? ${both} : i * 8 < left ? from[i * 8] : 0`
      const at = `r * ${across} + i`
      c.out.line(`${target(each === 1 ? at : `(${at}) * 2`)} = ${loaded};`, where)
    })
  const loadEach = (): void =>
    forPairs(() => {
      for (const e of [0, 1]) {
        const loaded = `i * 8 + ${e} < left ? from[(i * 8 + ${e})${stride}] : 0`
        c.out.line(`${target(`(r * ${across} + i) * 2 + ${e}`)} = ${loaded};`, where)
      }
    })
  if (each === 1) return loadPairs(type)
  if (pair === null) return loadEach()
  c.out.block(`if (${pairsOf(c, name)})`, () => loadPairs(pair))
  c.out.block('else', loadEach)
}

/** `row`: the i-th of a lane's, in `blocks` of two. */
export function emitLoadElements(op: LoadAhead, row: (i: string) => string, blocks: number, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const { type, each, pair } = shapeOfElements(operand, c)
  const [rows, columns] =
    op.elements === 'tile' ? [2 * blocks, c.program.layout.columns] : [2, c.program.subtileColumns]
  c.out.line(`${type} ${arrayOf(c, op.operand)}[${(rows * columns * each) / 8}];`)
  if (pair !== null) {
    const unit = 2 * DTYPES[operand.dtype].storageBytes
    c.out.line(`const bool ${pairsOf(c, op.operand)} = ${isOfUnits(c, operand, { m: '0', n: '0' }, unit)};`)
  }
  if (op.elements === 'subtile' && finishesShares(c)) return loadOwn(op, row, OWN_SUBTILES.first, c)
  loadElements(op, rows, row, firstColumn(c), columns, c)
}

/** Those of this part's sub-tile from number `from` (CUDA) on that has columns. */
function loadOwn(op: LoadAhead | LoadNext, row: (i: string) => string, from: string, c: EmitContext): void {
  const { subtileColumns: columns } = c.program
  const across = acrossOf(c)
  c.out.block('', () => {
    c.out.line(`u32 next = ${from};`)
    const column = across === 1 ? '0' : `next % ${across} * ${columns}`
    c.out.line(`while (next < ${subtilesOf(c)} && ${firstColumn(c)} + ${column} >= ${c.names.edge('n')}) next += ${OWN_SUBTILES.step};`) // prettier-ignore
    c.out.block(`if (next < ${subtilesOf(c)})`, () =>
      loadElements(op, 2, (i) => row(`(next / ${across} * 2 + ${i})`), `${firstColumn(c)} + ${column}`, columns, c),
    )
  })
}

/** Those of the next sub-tile: beside this one, or the first of the rows below. */
export function emitLoadNext(op: LoadNext, row: (i: string) => string, blocks: number, c: EmitContext): void {
  const { subtileColumns: columns, layout } = c.program
  if (finishesShares(c)) {
    const number = `(block * ${acrossOf(c)} + column / ${columns})`
    return loadOwn(op, row, `${number} + ${OWN_SUBTILES.step}`, c)
  }
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
  const { each, storage, pair: mayBePair } = shapeOfElements(operand, c)
  const { subtileColumns, layout } = c.program
  const [row, across, column] =
    of === 'tile' ? ['block * 2 + ', layout.columns / 8, 'column / 8 + '] : ['', subtileColumns / 8, '']
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 j = 0; j < ${c.tile.count}; ++j)`, () => {
    const pair = `(${row}j / 2 % 2) * ${across} + ${column}j / 4`
    const words = arrayOf(c, operand.name)
    const part = (word: string): string => `static_cast<${storage}>(${word} & ${2 ** bits - 1})`
    const [first, second] = [`${words}[(${pair}) * 2]`, `${words}[(${pair}) * 2 + 1]`]
    const raw =
      each === 1
        ? part(`${words}[${pair}] >> j % 2 * ${bits}`)
        : mayBePair === null
          ? `${words}[(${pair}) * 2 + j % 2]`
          : part(`(j % 2 == 0 ? ${first} : ${pairsOf(c, operand.name)} ? ${first} >> ${bits} : ${second})`)
    c.out.line(`${name}[j] = ${load(c, operand, raw)};`, note(c, `use ${operand.name}`))
  })
}
