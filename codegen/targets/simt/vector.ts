/**
 * A stage that multiplies a few rows with a matrix: each CTA has some of the results, or a part of k of them. Its threads share k; the
 * last of the CTAs that share a tile adds up what all have, in the order of the parts.
 */
import { CUDA_COMPUTE_TYPE } from '../../../compiler/dtypes.ts'
import type { Stage } from '../../../compiler/targets/simt/plan.ts'
import {
  COUNTS,
  eachOf,
  lanesOf,
  partsText,
  pieceOf,
  slotsOf,
  stepsAtOnce,
  SUMS,
  widest,
  widthOf,
  type SimtVector,
} from '../../../compiler/targets/simt/vector.ts'
import { call, type SimtContext } from './context.ts'
import { emitPoints, emitPositions } from './domain.ts'
import { finishAccumulator } from './scope.ts'
import { emitStores } from './stores.ts'
import { emitAcrossK } from './vector_across.ts'
import { emitAlongK } from './vector_along.ts'
import { emitMmaAlongK } from './vector_mma.ts'
import { add, alignedText } from './vector_operands.ts'

export function emitVectorStage(context: SimtContext, stage: Stage, form: SimtVector): void {
  const { out, names } = context
  const { few, many, extents, node, threads, along, multiply } = form
  const [rows] = extents
  const type = CUDA_COMPUTE_TYPE[node.type]
  const of = (axis: string | null): string => (axis === null ? '1' : names.extent(axis))
  out.line(`__shared__ ${type} totals[${rows * widest(form)}];`)
  emitSharing(context, form, type)
  const batch = emitPoints(context, form.batch, new Set())
  out.line(
    `const long long tiles_m = (${of(few)} + ${rows - 1}LL) / ${rows}, tiles_n = ((long long)${of(many)} + columns - 1) / columns;`,
  )
  out.line(`const long long tiles = tiles_m * tiles_n${batch.ranges.length > 0 ? ` * (${batch.count})` : ''};`)
  out.line(`const int parts = ${partsText(form, ['tiles', 'steps', 'slots'])};`, { note: 'parts of k' })
  out.block('for (long long unit = blockIdx.x; unit < tiles * parts; unit += gridDim.x)', () => {
    out.line('const int part = (int)(unit / tiles);')
    out.line('const long long tile = unit - part * tiles;')
    out.line('long long rest = tile / tiles_n;')
    out.line(`const int first_n = (int)(tile - rest * tiles_n) * columns, first_m = (int)(rest % tiles_m) * ${rows};`)
    if (batch.ranges.length > 0) out.line('rest /= tiles_m;')
    emitPositions(context, batch, 'rest')
    out.line('const int begin = (int)((long long)steps * part / parts), end = (int)((long long)steps * (part + 1) / parts);')
    if (along === 'many') emitAcrossK(context, form, type)
    else if (multiply === 'mma') emitMmaAlongK(context, form)
    else emitAlongK(context, form, type)
    emitParts(context, form, type)
    out.block(`for (int result = threadIdx.x; result < ${rows} * columns; result += ${threads})`, () => {
      out.line('const int row = first_m + result / columns, column = first_n + result % columns;')
      out.block(`if (row < ${of(few)} && column < ${of(many)})`, () => {
        out.line(`${type} sum = totals[result];`)
        finishAccumulator(context, node, 'sum')
        if (few !== null) out.line(`const int ${names.index(few)} = row;`)
        out.line(`const int ${names.index(many)} = column;`)
        emitStores(context, stage.results, [[node, 'sum']])
      })
    })
    out.line('__syncthreads();')
  })
}

/** Declares the columns of a CTA, the steps of k, and how many of its warps share them. */
function emitSharing(context: SimtContext, form: SimtVector, type: string): void {
  const { out, names } = context
  const { over, along, matrix, threads, extents } = form
  const each = eachOf(form)
  const k = names.extent(over)
  if (along === 'many') {
    const lanes = lanesOf(form)
    out.line(`__shared__ ${type} memory[${threads / lanes}][${widthOf(form)}];`)
    out.line(`__shared__ int skipped[${threads / lanes}];`)
    // Rows that begin anywhere have their first or last piece in common with a neighbour.
    out.line(`const int columns = ${alignedText(context, matrix)} ? ${lanes * each} : ${(lanes - 1) * each};`)
    out.line(`const int steps = ${k};`)
    return
  }
  const warps = threads / 32
  out.line(`__shared__ ${type} memory[${warps}][${extents[0] * each}];`)
  out.line(`const int steps = (int)((${k} + ${pieceOf(matrix) - 1}LL) / ${pieceOf(matrix)});`, { note: 'pieces of k' })
  out.line(`int slots = ${slotsOf(form)};`)
  out.line(`while (slots > 1 && slots * ${stepsAtOnce(form, 1)} > steps) slots /= 2;`, { note: 'warps that share k' })
  out.line(`const int columns = ${warps} / slots * ${each};`)
  out.line('const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slot = warp % slots, group = warp / slots;')
}

/** Sums of a CTA's part go through the workspace; whoever stands behind this has those of all parts. */
function emitParts(context: SimtContext, form: SimtVector, type: string): void {
  const { out, names } = context
  const { extents, threads } = form
  const [rows] = extents
  const size = rows * widthOf(form)
  const results = `for (int result = threadIdx.x; result < ${rows} * columns; result += ${threads})`
  out.block('if (parts > 1)', () => {
    const sums = names.region(SUMS)
    out.line(results)
    out.line(`  ${call(context, 'ktl_store_part', `${sums} + unit * ${size} + result`, 'totals[result]')};`, {
      note: 'sums of this part',
    })
    out.line('__syncthreads();')
    const counted = call(context, 'ktl_count_part', `${names.region(COUNTS)} + tile`, 'parts - 1')
    out.line(`const bool is_last = threadIdx.x == 0 && ${counted} == parts - 1;`, { note: 'count this part' })
    out.line('if (!__syncthreads_or(is_last)) continue;')
    out.block(results, () => {
      out.line(`${type} sum = ${call(context, 'ktl_load_part', `${sums} + tile * ${size} + result`)};`)
      out.line('#pragma unroll 16')
      const other = call(context, 'ktl_load_part', `${sums} + (i * tiles + tile) * ${size} + result`)
      out.line(`for (int i = 1; i < parts; ++i) sum = ${add(context, form, 'sum', other)};`, {
        note: 'sums of all parts',
      })
      out.line('totals[result] = sum;')
    })
  })
}
