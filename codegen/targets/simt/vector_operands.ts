/** How vector kernels read their operands: where rows begin, pieces of 16 bytes of them, elements of these. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import { pieceOf, type SimtVector } from '../../../compiler/targets/simt/vector.ts'
import type { TensorOperand } from '../../../compiler/ir/tensor.ts'
import { convertCompute, literal, loadConversion, storeConversion } from '../../cuda/expression.ts'
import { BITS_TYPE, spanOf } from '../../cuda/device/rows.ts'
import { call, type SimtContext } from './context.ts'

export const bitsOf = ({ dtype }: TensorOperand): string => BITS_TYPE[DTYPES[dtype].storageBytes]!

/** Where the elements of an operand begin that have these positions; others are 0. */
export function start(
  context: SimtContext,
  { name, axes, dtype }: TensorOperand,
  at: Readonly<Record<string, string>>,
): string {
  const { names } = context
  const bits = BITS_TYPE[DTYPES[dtype].storageBytes]!
  const terms = axes.flatMap((axis) =>
    at[axis] === undefined ? [] : [`(long long)${at[axis]} * ${names.stride(name, axis)}`],
  )
  return `reinterpret_cast<const ${bits}*>(${names.operand(name)})${terms.map((term) => ` + ${term}`).join('')}`
}

export const batchAt = ({ names }: SimtContext, { batch }: SimtVector): Record<string, string> =>
  Object.fromEntries(batch.map((axis) => [axis, names.index(axis)]))

/** Element `j` of a piece, in the type of the sum. */
export function elementOf(
  context: SimtContext,
  { node }: SimtVector,
  { dtype }: TensorOperand,
  piece: string,
  j: string,
): string {
  const { storageBytes, cudaStorage } = DTYPES[dtype]
  const word = `${piece}.words[${j}${storageBytes < 4 ? ` / ${4 / storageBytes}` : ''}]`
  const bits =
    storageBytes === 8
      ? `__hiloint2double((int)${piece}.words[2 * ${j} + 1], (int)${piece}.words[2 * ${j}])`
      : storageBytes === 4
        ? cudaStorage === 'float'
          ? `__uint_as_float(${word})`
          : `(${cudaStorage})${word}`
        : `(${cudaStorage})(${word} >> ${8 * storageBytes} * (${j} % ${4 / storageBytes}))`
  return valueOf(context, node.type, dtype, bits)
}

function valueOf(
  context: SimtContext,
  type: SimtVector['node']['type'],
  dtype: TensorOperand['dtype'],
  bits: string,
): string {
  const { functions } = context
  const value = loadConversion(dtype, bits, functions)
  // Operands of tf32 are rounded, whatever bits they hold.
  if (dtype === 'tf32') return storeConversion('tf32', 'f32', value, functions)
  return convertCompute(DTYPES[dtype].compute, type, value, functions)
}

export const spanName = ({ name }: TensorOperand): string => `span_${name}`

/** Declares where an operand lies: vectors may have bytes of rows beside. */
export function emitSpan(context: SimtContext, operand: TensorOperand): void {
  const { out, names, functions } = context
  functions.add('ktl_span_of')
  out.line(`const ktl_span ${spanName(operand)} = ${spanOf(operand, names, (axis) => names.extent(axis))};`)
}

/**
 * Along k: declares `skip`, the elements of the first piece before the rows of a tile begin, the pieces that are whole, and the end of
 * those of this CTA; and the last of the tile's columns.
 */
export function emitWhole(context: SimtContext, form: SimtVector): void {
  const { out, names } = context
  const { matrix, many, over } = form
  const count = pieceOf(matrix)
  const row = start(context, matrix, { ...batchAt(context, form), [many]: 'first_n' })
  out.line(`const int skip = ${call(context, 'ktl_row_skip', row)};`, {
    note: "elements of the first piece that are not the row's",
  })
  out.line(`const int first_whole = skip > 0, end_whole = (int)((${names.extent(over)} + (long long)skip) / ${count});`)
  out.line('const int last = min(end, end_whole);')
  out.line(`const int last_column = (${names.extent(many)} - 1 - first_n) / apart;`)
}

/**
 * The first and the last piece of a row, where they are no whole ones, are for one lane each of the first warp of the CTA that has the
 * start or the end of k: which piece, `edge`, and from where up to where it is the row's.
 */
export function emitEnds(context: SimtContext, form: SimtVector, lanes: number, body: () => void): void {
  const { out, names } = context
  const count = pieceOf(form.matrix)
  const row = `${names.extent(form.over)} + (long long)skip`
  out.line('const bool begins = begin == 0 && first_whole > 0;')
  // A row within one piece is one that begins there.
  out.line(`const bool ends = end == steps && end_whole >= first_whole && (${row}) % ${count} > 0;`)
  out.block('if (slot == 0 && (begins || ends))', () => {
    out.line(`const int own = lane % ${lanes}, edge = own == 0 ? 0 : end_whole;`)
    out.line('const bool exists = own == 0 ? begins : own == 1 && ends;')
    out.line(
      `const int low = own == 0 ? skip : 0, high = exists ? (int)min(${count}LL, ${row} - edge * ${count}LL) : 0;`,
    )
    body()
  })
}

/** The pieces of `count` rows as `to`: first the loads of all of them. `row`, `at`, `elements`: of the piece `i`. */
export function emitPieces(
  context: SimtContext,
  operand: TensorOperand,
  to: string,
  count: number,
  [row, at, elements]: readonly [string, string, string],
): void {
  const { out } = context
  const bits = BITS_TYPE[DTYPES[operand.dtype].storageBytes]!
  out.line(`const ${bits}* ${to}_rows[${count}];`)
  out.line(`ktl_window ${to}_windows[${count}];`)
  out.line(`ktl_piece ${to}[${count}];`)
  out.line('#pragma unroll')
  out.block(`for (int i = 0; i < ${count}; ++i)`, () => {
    out.line(`${to}_rows[i] = ${row};`)
    out.line(
      `${to}_windows[i] = ${call(context, 'ktl_row_window', `${to}_rows[i]`, at, elements, spanName(operand))};`,
      {
        note: `load ${operand.name}`,
      },
    )
  })
}

/** Waits for them. */
export function emitLanded(context: SimtContext, to: string, count: number, at: string): void {
  const { out } = context
  out.line('#pragma unroll')
  out.line(
    `for (int i = 0; i < ${count}; ++i) ${to}[i] = ${call(context, 'ktl_row_piece', `${to}_windows[i]`, `${to}_rows[i]`, at)};`,
  )
}

export const orZero = ({ node }: SimtVector, exists: string, value: string): string =>
  `${exists} ? ${value} : ${literal(node.type, 0).text}`

/** An element of the few at a position of k. */
export function element(
  context: SimtContext,
  { vectors, node, over }: SimtVector,
  at: Readonly<Record<string, string>>,
  k: string,
): string {
  const { names } = context
  const terms = vectors.axes.map(
    (axis) => `(long long)${axis === over ? k : at[axis]!} * ${names.stride(vectors.name, axis)}`,
  )
  return valueOf(context, node.type, vectors.dtype, `${names.operand(vectors.name)}[${terms.join(' + ')}]`)
}

/** Do all rows of an operand begin at multiples of so many bytes? */
export function alignedText({ names }: SimtContext, { name, axes, order, dtype }: TensorOperand, to = 16): string {
  const strides = axes.filter((axis) => axis !== order.at(-1)).map((axis) => names.stride(name, axis))
  const { storageBytes } = DTYPES[dtype]
  return `((unsigned long long)${names.operand(name)} | ${storageBytes}ull * (unsigned long long)(${['0', ...strides].join(' | ')})) % ${to} == 0`
}

/** Of two sums. */
export const add = (context: SimtContext, { node }: SimtVector, a: string, b: string): string =>
  node.type === 'i32' ? call(context, 'ktl_add_i32', a, b) : `${a} + ${b}`
