/** Vector kernels where k is contiguous in the matrix: warps have rows of it, or a share of k of them, and their lanes take turns. */
import type { SimtVector } from '../../../compiler/targets/simt/vector.ts'
import { eachOf, pieceOf } from '../../../compiler/targets/simt/vector.ts'
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../../compiler/dtypes.ts'
import { call, type SimtContext } from './context.ts'
import { accumulate } from './scope.ts'
import {
  add,
  batchAt,
  element,
  elementOf,
  emitEnds,
  emitLanded,
  emitPieces,
  emitWhole,
  orZero,
  start,
} from './vector_operands.ts'

/** Of the few: pieces that a thread has under way. */
const FEW_UNDER_WAY = 4

/** Pieces of both have the same elements. */
export const areAlike = ({ vectors, matrix, over }: SimtVector): boolean =>
  DTYPES[vectors.dtype].storageBytes === DTYPES[matrix.dtype].storageBytes && vectors.order.at(-1) === over

/** Threads take turns over pieces of k; each has those of all rows. */
export function emitAlongK(context: SimtContext, form: SimtVector, type: string): void {
  const { out, names } = context
  const { matrix, vectors, extents, few, many, over, node } = form
  const [rows] = extents
  const each = eachOf(form)
  const count = pieceOf(matrix)
  const k = names.extent(over)
  const base = batchAt(context, form)
  const rowOf = { ...base, ...(few !== null && { [few]: `min(first_m + first + i, ${names.extent(few)} - 1)` }) }
  const together = Math.min(rows, FEW_UNDER_WAY)
  const column = `(first_n + min(group * ${each} + i, last_column) * apart)`
  const row = `${start(context, matrix, { ...base, [many]: column })} - skip`
  const multiply = (at: string, alike: boolean): void => {
    out.line('#pragma unroll')
    out.block(`for (int first = 0; first < ${rows}; first += ${together})`, () => {
      if (alike) {
        const own = `${start(context, vectors, rowOf)} - skip`
        emitPieces(context, vectors, 'vectors', together, [own, at, `exists ? ${k} + skip : 0`])
        emitLanded(context, 'vectors', together, at)
      }
      out.line('#pragma unroll')
      out.block(`for (int j = 0; j < ${count}; ++j)`, () => {
        if (!alike) out.line(`const int position = ${at} * ${count} - skip + j;`)
        out.line(`${type} other[${each}];`)
        out.line('#pragma unroll')
        out.line(`for (int i = 0; i < ${each}; ++i) other[i] = ${elementOf(context, form, matrix, 'matrix[i]', 'j')};`)
        out.line('#pragma unroll')
        out.block(`for (int i = 0; i < ${together}; ++i)`, () => {
          const own = alike
            ? elementOf(context, form, vectors, 'vectors[i]', 'j')
            : orZero(form, 'j >= low && j < high', element(context, form, rowOf, 'position'))
          out.line(`const ${type} own = ${own};`)
          out.line('#pragma unroll')
          out.line(
            `for (int c = 0; c < ${each}; ++c) ${accumulate(context, node.type, 'sums[first + i][c]', 'own', 'other[c]')}`,
            { ktl: node.span, note: 'contraction' },
          )
        })
      })
    })
  }
  out.line(`${type} sums[${rows}][${each}] = {};`, { ktl: node.span, note: 'accumulators' })
  emitWhole(context, form)
  out.block('for (int piece = begin + slot * 32 + lane; piece < last; piece += slots * 32)', () => {
    const alike = areAlike(form)
    out.line('const bool exists = piece >= first_whole;')
    if (!alike) out.line(`const int low = 0, high = exists ? ${count} : 0;`)
    out.line(`ktl_piece matrix[${each}];`)
    out.line('#pragma unroll')
    const loaded = call(context, 'ktl_row_run', `${row} + piece * ${count}ll`, 'exists')
    out.line(`for (int i = 0; i < ${each}; ++i) matrix[i] = ${loaded};`, { note: `load ${matrix.name}` })
    multiply('piece', alike)
  })
  emitEnds(context, form, 32, () => {
    out.line(`ktl_piece matrix[${each}];`)
    out.line('#pragma unroll')
    const ends = call(context, 'ktl_row_ends', `${row} + edge * ${count}ll`, 'low', 'high')
    out.line(`for (int i = 0; i < ${each}; ++i) matrix[i] = ${ends};`, { note: `load ${matrix.name}` })
    multiply('edge', false)
  })
  // Lanes of a warp combine what they have of a result, always in the same order.
  out.line('#pragma unroll')
  out.block(`for (int i = 0; i < ${rows}; ++i)`, () => {
    out.line('#pragma unroll')
    out.block(`for (int j = 0; j < ${each}; ++j)`, () => {
      out.line(`${type} sum = sums[i][j];`)
      out.line('#pragma unroll')
      out.line(
        `for (int step = 16; step >= 1; step /= 2) sum = ${add(context, form, 'sum', '__shfl_xor_sync(0xffffffffu, sum, step)')};`,
      )
      out.line(`if (lane == 0) memory[warp][i * ${each} + j] = sum;`)
    })
  })
  emitWarpsMeeting(context, form)
}

/** Which of the few, and of the many columns, a result is: along k these are a power of two. */
export const fewOf = ({ along }: SimtVector, result: string): string =>
  along === 'over' ? `(${result} >> (31 - __clz(columns)))` : `${result} / columns`
export const manyOf = ({ along }: SimtVector, result: string): string =>
  along === 'over' ? `(${result} & (columns - 1))` : `${result} % columns`

/** Warps that share k combine what they have, in their order; results stay with the threads that have them behind this, too. */
export function emitWarpsMeeting(context: SimtContext, form: SimtVector): void {
  const { out } = context
  const { extents, threads, node } = form
  const each = eachOf(form)
  out.line('__syncthreads();')
  out.block(`for (int result = threadIdx.x; result < ${extents[0]} * columns; result += ${threads})`, () => {
    out.line(`const int i = ${fewOf(form, 'result')}, column = ${manyOf(form, 'result')};`)
    const place = `[i * ${each} + column % ${each}]`
    out.line(`const int first = column / ${each} * slots;`)
    out.line(`${CUDA_COMPUTE_TYPE[node.type]} sum = memory[first]${place};`)
    out.line(`for (int s = 1; s < slots; ++s) sum = ${add(context, form, 'sum', `memory[first + s]${place}`)};`)
    out.line('totals[result] = sum;')
  })
}
