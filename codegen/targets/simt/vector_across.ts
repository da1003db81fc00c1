/**
 * Vector kernels where the rows of the matrix lie across k: lanes have neighbouring pieces of a row, slices of the threads take turns over
 * k. Rows that many slices apart begin at the same byte of 16 (compiler/targets/simt/vector.ts), so that a thread loads aligned vectors
 * and has columns of its own all along.
 */
import type { SimtVector } from '../../../compiler/targets/simt/vector.ts'
import { lanesOf, pieceOf, underWay, widthOf } from '../../../compiler/targets/simt/vector.ts'
import { call, type SimtContext } from './context.ts'
import { literal } from '../../cuda/expression.ts'
import { accumulate } from './scope.ts'
import { add, batchAt, bitsOf, element, elementOf, spanName, start } from './vector_operands.ts'

export function emitAcrossK(context: SimtContext, form: SimtVector, type: string): void {
  const { out, names } = context
  const { matrix, vectors, extents, few, many, over, node, threads } = form
  const [rows] = extents
  const lanes = lanesOf(form)
  const slices = threads / lanes
  const count = pieceOf(matrix)
  const n = names.extent(many)
  const under = underWay(form)
  const zero = literal(node.type, 0).text
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
  const [k, stride] = [names.extent(over), names.stride(matrix.name, over)]
  // Others are read whole, too, where the bytes beside a row are those of its neighbours: in all rows but the first and the last one.
  const inside = (position: string): string =>
    call(context, 'ktl_within', `${start(context, matrix, { ...base, [over]: position })} + own_n`, spanName(matrix))
  out.line(`const int first_whole = is_whole ? 0 : 1;`)
  out.line(
    `const int end_whole = is_whole ? end : ${k} > 2 && ${inside('1')} && ${inside(`(${k} - 2)`)} ? min(end, ${k} - 1) : 0;`,
  )
  out.line(`${type} sums[${rows}][${count}] = {};`, { ktl: node.span, note: 'accumulators' })
  out.line(`const ${bitsOf(matrix)}* from = first_row - skip + own_lane * ${count};`)
  const step = `for (int first_k = begin + slice; low < high && first_k < end; first_k += ${slices * under}, from += ${slices * under} * ${stride})`
  out.block(step, () => {
    out.line(`${type} own[${under}][${rows}];`)
    out.line(`ktl_piece matrix[${under}];`)
    out.line('#pragma unroll')
    out.block(`for (int u = 0; u < ${under}; ++u)`, () => {
      out.line(`const int position = first_k + u * ${slices};`)
      out.line('const bool exists = position >= first_whole && position < end_whole;')
      const loaded = call(context, 'ktl_row_vector', `from + u * ${slices} * ${stride}`, 'exists')
      out.line(`matrix[u] = ${loaded};`, { note: `load ${matrix.name}` })
      out.line('#pragma unroll')
      const value = element(context, form, rowOf, 'position')
      out.line(`for (int i = 0; i < ${rows}; ++i) own[u][i] = exists ? ${value} : ${zero};`, {
        note: `load ${vectors.name}`,
      })
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
  // Rows of which a vector has only some elements.
  out.line('#pragma unroll 1')
  out.block(
    `for (int position = begin + slice; !is_whole && low < high && position < end; position += ${slices})`,
    () => {
      out.line('if (position >= first_whole && position < end_whole) continue;')
      const from = `first_row - skip + own_lane * ${count} + (position - begin - slice) * ${stride}`
      out.line(`const ktl_piece ends = ${call(context, 'ktl_row_ends', from, 'low', 'high')};`)
      out.line('#pragma unroll')
      out.block(`for (int i = 0; i < ${rows}; ++i)`, () => {
        out.line(`const ${type} own = ${element(context, form, rowOf, 'position')};`)
        out.line('#pragma unroll')
        const other = elementOf(context, form, matrix, 'ends', 'j')
        out.line(`for (int j = 0; j < ${count}; ++j) ${accumulate(context, node.type, 'sums[i][j]', 'own', other)}`)
      })
    },
  )
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
