/** A stage that multiplies a few rows with a matrix: each CTA has some of the results, its threads share k. */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../../compiler/dtypes.ts'
import type { Stage } from '../../../compiler/targets/simt/plan.ts'
import { lanesOf, pieceOf, type SimtVector } from '../../../compiler/targets/simt/vector.ts'
import type { TensorOperand } from '../../../compiler/ir/tensor.ts'
import { convertCompute, literal, loadConversion, storeConversion } from '../../cuda/expression.ts'
import { BITS_TYPE } from '../../cuda/device/rows.ts'
import { call, type SimtContext } from './context.ts'
import { emitPoints, emitPositions } from './domain.ts'
import { accumulate, finishAccumulator } from './scope.ts'
import { emitStores } from './stores.ts'

/** Pieces of 16 bytes that a thread has under way. */
const ROWS_UNDER_WAY = 4

export function emitVectorStage(context: SimtContext, stage: Stage, form: SimtVector): void {
  const { out, names } = context
  const { few, many, extents, node, threads } = form
  const warps = threads / 32
  const [rows, columns] = extents
  const type = CUDA_COMPUTE_TYPE[node.type]
  const of = (axis: string | null): string => (axis === null ? '1' : names.extent(axis))
  out.line(`__shared__ ${type} memory[${warps}][${rows * columns}];`)
  out.line('const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;')
  const batch = emitPoints(context, form.batch, new Set())
  out.line(
    `const long long tiles_m = (${of(few)} + ${rows - 1}LL) / ${rows}, tiles_n = (${of(many)} + ${columns - 1}LL) / ${columns};`,
  )
  out.line(`const long long tiles = tiles_m * tiles_n${batch.ranges.length > 0 ? ` * (${batch.count})` : ''};`)
  out.block('for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x)', () => {
    out.line('long long rest = tile / tiles_n;')
    out.line(
      `const int first_n = (int)(tile - rest * tiles_n) * ${columns}, first_m = (int)(rest % tiles_m) * ${rows};`,
    )
    if (batch.ranges.length > 0) out.line('rest /= tiles_m;')
    emitPositions(context, batch, 'rest')
    const each = form.along === 'over' ? columns : pieceOf(form.matrix)
    out.line(`${type} sums[${rows}][${each}] = {};`, { ktl: node.span, note: 'accumulators' })
    if (form.along === 'over') emitAlongK(context, form)
    else emitAcrossK(context, form)
    emitMeeting(context, form, type, each)
    out.line('__syncthreads();')
    out.block(`for (int result = threadIdx.x; result < ${rows * columns}; result += ${threads})`, () => {
      out.line(`const int row = first_m + result / ${columns}, column = first_n + result % ${columns};`)
      out.block(`if (row < ${of(few)} && column < ${of(many)})`, () => {
        out.line(`${type} sum = memory[0][result];`)
        out.line('#pragma unroll')
        out.line(`for (int i = 1; i < ${warps}; ++i) sum = ${add(context, form, 'sum', 'memory[i][result]')};`)
        finishAccumulator(context, node, 'sum')
        if (few !== null) out.line(`const int ${names.index(few)} = row;`)
        out.line(`const int ${names.index(many)} = column;`)
        emitStores(context, stage.results, [[node, 'sum']])
      })
    })
    out.line('__syncthreads();')
  })
}

const add = (context: SimtContext, { node }: SimtVector, a: string, b: string): string =>
  node.type === 'i32' ? call(context, 'ktl_add_i32', a, b) : `${a} + ${b}`

/** Where the elements of an operand begin that have these positions; others are 0. */
function start(
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

const batchAt = ({ names }: SimtContext, { batch }: SimtVector): Record<string, string> =>
  Object.fromEntries(batch.map((axis) => [axis, names.index(axis)]))

/** Element `j` of a piece, in the type of the sum. */
function elementOf(
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

/** The pieces of `count` rows as `to`: first the loads of all of them. `row`, `at`, `elements`: of the piece `i`. */
function emitPieces(
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
    out.line(`${to}_windows[i] = ${call(context, 'ktl_row_window', `${to}_rows[i]`, at, elements)};`, {
      note: `load ${operand.name}`,
    })
  })
}

/** Waits for them. */
function emitLanded(context: SimtContext, to: string, count: number, at: string, elements: string): void {
  const { out } = context
  out.line('#pragma unroll')
  out.line(
    `for (int i = 0; i < ${count}; ++i) ${to}[i] = ${call(context, 'ktl_row_piece', `${to}_windows[i]`, `${to}_rows[i]`, at, elements)};`,
  )
}

/** Threads take turns over pieces of k; each has those of all rows. */
function emitAlongK(context: SimtContext, form: SimtVector): void {
  const { out, names } = context
  const { matrix, vectors, extents, few, many, over, node, threads } = form
  const [rows, columns] = extents
  const count = pieceOf(matrix)
  const [k, type] = [names.extent(over), CUDA_COMPUTE_TYPE[node.type]]
  const base = batchAt(context, form)
  const rowOf = { ...base, ...(few !== null && { [few]: `min(first_m + first + i, ${names.extent(few)} - 1)` }) }
  // Pieces of both have the same elements.
  const alike =
    DTYPES[vectors.dtype].storageBytes === DTYPES[matrix.dtype].storageBytes && vectors.order.at(-1) === over
  const group = Math.min(rows, ROWS_UNDER_WAY)
  const step = `for (int piece = threadIdx.x; piece < (${k} + ${count - 1}) / ${count}; piece += ${threads})`
  out.block(step, () => {
    const row = start(context, matrix, { ...base, [many]: `min(first_n + i, ${names.extent(many)} - 1)` })
    emitPieces(context, matrix, 'matrix', columns, [row, 'piece', k])
    emitLanded(context, 'matrix', columns, 'piece', k)
    out.line('#pragma unroll')
    out.block(`for (int first = 0; first < ${rows}; first += ${group})`, () => {
      if (alike) {
        emitPieces(context, vectors, 'vectors', group, [start(context, vectors, rowOf), 'piece', k])
        emitLanded(context, 'vectors', group, 'piece', k)
      }
      out.line('#pragma unroll')
      out.block(`for (int j = 0; j < ${count}; ++j)`, () => {
        if (!alike) out.line(`const int position = piece * ${count} + j;`)
        out.line(`${type} other[${columns}];`)
        out.line('#pragma unroll')
        out.line(
          `for (int i = 0; i < ${columns}; ++i) other[i] = ${elementOf(context, form, matrix, 'matrix[i]', 'j')};`,
        )
        out.line('#pragma unroll')
        out.block(`for (int i = 0; i < ${group}; ++i)`, () => {
          const own = alike
            ? elementOf(context, form, vectors, 'vectors[i]', 'j')
            : orZero(form, k, element(context, form, rowOf, 'position'))
          out.line(`const ${type} own = ${own};`)
          out.line('#pragma unroll')
          out.line(
            `for (int c = 0; c < ${columns}; ++c) ${accumulate(context, node.type, 'sums[first + i][c]', 'own', 'other[c]')}`,
            { ktl: node.span, note: 'contraction' },
          )
        })
      })
    })
  })
}

const orZero = ({ node }: SimtVector, k: string, value: string): string =>
  `position < ${k} ? ${value} : ${literal(node.type, 0).text}`

/** An element of the few at a position of k. */
function element(
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

/** Neighbours have neighbouring pieces of a row of the matrix; the others take turns over k, with several rows under way. */
function emitAcrossK(context: SimtContext, form: SimtVector): void {
  const { out, names } = context
  const { matrix, extents, few, many, over, node, threads } = form
  const [rows] = extents
  const lanes = lanesOf(form)
  const slices = threads / lanes
  const count = pieceOf(matrix)
  const [k, n, type] = [names.extent(over), names.extent(many), CUDA_COMPUTE_TYPE[node.type]]
  const base = batchAt(context, form)
  const rowOf = { ...base, ...(few !== null && { [few]: `min(first_m + i, ${names.extent(few)} - 1)` }) }
  out.line(`const int piece = first_n / ${count} + threadIdx.x % ${lanes};`)
  // Pieces behind the last column are empty: their sums are not stored.
  out.block(`if (piece * ${count} < ${n})`, () => {
    const step = `for (int first_k = threadIdx.x / ${lanes}; first_k < ${k}; first_k += ${slices * ROWS_UNDER_WAY})`
    out.block(step, () => {
      const position = (i: string): string => `first_k + ${i} * ${slices}`
      const row = start(context, matrix, { ...base, [over]: `min(${position('i')}, ${k} - 1)` })
      const elements = `${position('i')} < ${k} ? ${n} : 0`
      emitPieces(context, matrix, 'matrix', ROWS_UNDER_WAY, [row, 'piece', elements])
      out.line(`${type} own[${ROWS_UNDER_WAY}][${rows}];`)
      out.line('#pragma unroll')
      out.block(`for (int u = 0; u < ${ROWS_UNDER_WAY}; ++u)`, () => {
        out.line(`const int position = ${position('u')};`)
        out.line('#pragma unroll')
        out.line(
          `for (int i = 0; i < ${rows}; ++i) own[u][i] = ${orZero(form, k, element(context, form, rowOf, 'position'))};`,
          { note: `load ${form.vectors.name}` },
        )
      })
      emitLanded(context, 'matrix', ROWS_UNDER_WAY, 'piece', elements)
      out.line('#pragma unroll')
      out.block(`for (int u = 0; u < ${ROWS_UNDER_WAY}; ++u)`, () => {
        out.line('#pragma unroll')
        out.block(`for (int j = 0; j < ${count}; ++j)`, () => {
          out.line(`const ${type} other = ${elementOf(context, form, matrix, 'matrix[u]', 'j')};`)
          out.line('#pragma unroll')
          out.line(
            `for (int i = 0; i < ${rows}; ++i) ${accumulate(context, node.type, 'sums[i][j]', 'own[u][i]', 'other')}`,
            { ktl: node.span, note: 'contraction' },
          )
        })
      })
    })
  })
}

/** Lanes of a warp combine what they have of a result, always in the same order; one of them leaves it for the CTA. */
function emitMeeting(context: SimtContext, form: SimtVector, type: string, each: number): void {
  const { out } = context
  const lanes = lanesOf(form)
  const [rows, columns] = form.extents
  const places = form.along === 'over' ? 'j' : `lane * ${each} + j`
  out.line('#pragma unroll')
  out.block(`for (int i = 0; i < ${rows}; ++i)`, () => {
    out.line('#pragma unroll')
    out.block(`for (int j = 0; j < ${each}; ++j)`, () => {
      out.line(`${type} sum = sums[i][j];`)
      out.line('#pragma unroll')
      out.line(
        `for (int step = 16; step >= ${lanes}; step /= 2) sum = ${add(context, form, 'sum', '__shfl_xor_sync(0xffffffffu, sum, step)')};`,
      )
      out.line(`if (lane < ${lanes}) memory[warp][i * ${columns} + ${places}] = sum;`)
    })
  })
}
