/**
 * Vector kernels where the rows of the matrix lie across k: lanes have neighbouring pieces of a row, slices of the threads take turns over
 * k. Rows that many slices apart begin at the same byte of 16 (compiler/targets/simt/vector.ts), so that a thread loads aligned vectors
 * and has columns of its own all along.
 */
import type { SimtVector } from '../../../compiler/targets/simt/vector.ts'
import { lanesOf, pieceOf, underWay, widthOf } from '../../../compiler/targets/simt/vector.ts'
import { call, type SimtContext } from './context.ts'
import { accumulate } from './scope.ts'
import { add, spanName, batchAt, bitsOf, element, elementOf, orZero, start } from './vector_operands.ts'

export function emitAcrossK(context: SimtContext, form: SimtVector, type: string): void {
  const { out, names } = context
  const { matrix, vectors, extents, few, many, over, node, threads } = form
  const [rows] = extents
  const lanes = lanesOf(form)
  const slices = threads / lanes
  const count = pieceOf(matrix)
  const n = names.extent(many)
  const under = underWay(form)
  const base = batchAt(context, form)
  const rowOf = { ...base, ...(few !== null && { [few]: `min(first_m + i, ${names.extent(few)} - 1)` }) }
  out.line(`const int own_lane = threadIdx.x % ${lanes}, slice = threadIdx.x / ${lanes};`)
  const first = start(context, matrix, { ...base, [over]: '(begin + slice)' })
  out.line(`const ${bitsOf(matrix)}* const first_row = ${first} + first_n;`)
  out.line(`const int skip = ${call(context, 'ktl_row_skip', 'first_row')};`)
  out.line(`const int own_n = first_n - skip + own_lane * ${count};`)
  // Of a vector, the elements that are the row's.
  out.line(`const int low = max(0, -own_n), high = min(${count}, ${n} - own_n);`)
  out.line(`const bool is_whole = low == 0 && high == ${count};`)
  const stride = names.stride(matrix.name, over)
  out.line(`${type} sums[${rows}][${count}] = {};`, { ktl: node.span, note: 'accumulators' })
  out.line(`const ${bitsOf(matrix)}* from = first_row - skip + own_lane * ${count};`)
  const step = `for (int first_k = begin + slice; low < high && first_k < end; first_k += ${slices * under}, from += ${slices * under} * ${stride})`
  out.block(step, () => {
    out.line(`${type} own[${under}][${rows}];`)
    out.line('#pragma unroll')
    out.block(`for (int u = 0; u < ${under}; ++u)`, () => {
      out.line(`const int position = first_k + u * ${slices};`)
      out.line('#pragma unroll')
      out.line(
        `for (int i = 0; i < ${rows}; ++i) own[u][i] = ${orZero(form, 'end', element(context, form, rowOf, 'position'))};`,
        { note: `load ${vectors.name}` },
      )
    })
    out.line(`ktl_piece matrix[${under}];`)
    out.line(`bool whole[${under}];`)
    const [from, position] = [`from + u * ${slices} * ${stride}`, `first_k + u * ${slices}`]
    out.line('#pragma unroll')
    out.block(`for (int u = 0; u < ${under}; ++u)`, () => {
      out.line(`const int position = ${position};`)
      out.line(`whole[u] = is_whole || ${call(context, 'ktl_within', from, spanName(matrix))};`)
      const loaded = call(context, 'ktl_row_vector', from, 'position < end && whole[u]')
      out.line(`matrix[u] = ${loaded};`, { note: `load ${matrix.name}` })
    })
    // The first and the last row of all: behind the others, so that these are under way meanwhile.
    out.line('#pragma unroll')
    out.block(`for (int u = 0; u < ${under}; ++u)`, () => {
      const ends = call(context, 'ktl_row_ends', from, 'low', `${position} < end ? high : 0`)
      out.line(`if (!whole[u]) matrix[u] = ${ends};`, { note: `load ${matrix.name}` })
    })
    out.line('#pragma unroll')
    out.block(`for (int u = 0; u < ${under}; ++u)`, () => {
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
  emitMeeting(context, form, type)
}

/** What slices have summed meets one row after the other: each has its columns where its vectors begin. */
function emitMeeting(context: SimtContext, form: SimtVector, type: string): void {
  const { out } = context
  const { threads, matrix, extents } = form
  const [rows] = extents
  const count = pieceOf(matrix)
  const slices = threads / lanesOf(form)
  out.line('if (own_lane == 0) skipped[slice] = skip;')
  out.line('#pragma unroll')
  out.block(`for (int i = 0; i < ${rows}; ++i)`, () => {
    if (rows > 1) out.line('if (i > 0) __syncthreads();')
    out.line('#pragma unroll')
    out.line(`for (int j = 0; j < ${count}; ++j) memory[slice][own_lane * ${count} + j] = sums[i][j];`)
    out.line('__syncthreads();')
    // Results stay with the threads that have them behind this, too.
    out.block(`for (int c = threadIdx.x; c < columns; c += ${threads})`, () => {
      out.line(`${type} sum = memory[0][c + skipped[0]];`)
      out.line('#pragma unroll')
      out.line(`for (int s = 1; s < ${slices}; ++s) sum = ${add(context, form, 'sum', 'memory[s][c + skipped[s]]')};`)
      out.line(`totals[i * columns + c] = sum;`)
    })
  })
  if (widthOf(form) !== threads || rows > 1) out.line('__syncthreads();')
}
