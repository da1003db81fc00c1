/**
 * A stage that multiplies a few rows with a matrix: each CTA has some of the results, or a part of k of them. Its threads share k; the
 * last of the CTAs that share a tile adds up what all have, in the order of the parts.
 */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../../compiler/dtypes.ts'
import type { Stage } from '../../../compiler/targets/simt/plan.ts'
import {
  COUNTS,
  eachOf,
  lanesOf,
  pieceOf,
  sharersText,
  slotsOf,
  rowsAtOnce,
  stepsOfWarp,
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
import { areAlike, emitAlongK, fewOf, manyOf } from './vector_along.ts'
import { emitMmaAlongK } from './vector_mma.ts'
import { add, alignedText, emitSpan } from './vector_operands.ts'

/** Parts of a result that a thread has under way. */
const PARTS_UNDER_WAY = 16

export function emitVectorStage(context: SimtContext, stage: Stage, form: SimtVector): void {
  const { out, names } = context
  const { few, many, extents, node, threads, along, multiply } = form
  const [rows] = extents
  const type = CUDA_COMPUTE_TYPE[node.type]
  const of = (axis: string | null): string => (axis === null ? '1' : names.extent(axis))
  if (along === 'many') emitSpan(context, form.matrix)
  else if (areAlike(form)) emitSpan(context, form.vectors)
  out.line(`__shared__ ${type} totals[${rows * widest(form)}];`)
  emitSharing(context, form, type)
  const batch = emitPoints(context, form.batch, new Set())
  // None is empty.
  const tiles = `${of(many)} / (columns * apart) * apart + min(apart, ${of(many)} % (columns * apart))`
  out.line(`const int tiles_m = (int)((${of(few)} + ${rows - 1}LL) / ${rows}), tiles_n = ${tiles};`)
  out.line(
    `const long long tiles = (long long)tiles_m * tiles_n${batch.ranges.length > 0 ? ` * (${batch.count})` : ''};`,
  )
  out.line('const int chunks = max(1, steps / chunk + (steps % chunk > 0));')
  out.line('const long long work = tiles * chunks;')
  out.line(`const int sharers = ${sharersText(form, 'tiles', 'chunks')};`, { note: 'CTAs that share the work' })
  out.line('int cta = blockIdx.x;')
  out.line('long long at = 0;')
  out.line('int left = 0;', { note: 'chunks of this CTA' })
  out.block('for (; cta < sharers; cta += left == 0 ? gridDim.x : 0)', () => {
    out.block('if (left == 0)', () => {
      out.line('at = work * cta / sharers;')
      out.line('left = (int)(work * (cta + 1LL) / sharers - at);')
    })
    out.line('const long long tile = at / chunks;')
    out.line('const int first_chunk = (int)(at - tile * chunks), end_chunk = min(chunks, first_chunk + left);')
    out.line('const int begin = first_chunk * chunk, end = end_chunk == chunks ? steps : end_chunk * chunk;')
    out.line('long long rest = tile / tiles_n;')
    out.line(`const int first_m = (int)(rest % tiles_m) * ${rows}, tile_n = (int)(tile - rest * tiles_n);`)
    out.line('const int first_n = tile_n / apart * apart * columns + tile_n % apart;')
    if (batch.ranges.length > 0) out.line('rest /= tiles_m;')
    emitPositions(context, batch, 'rest')
    if (along === 'many') emitAcrossK(context, form, type)
    else if (multiply === 'mma') emitMmaAlongK(context, form)
    else emitAlongK(context, form, type)
    out.line('bool is_last = true;')
    emitShared(context, form, type)
    const each = `for (int result = threadIdx.x; is_last && result < ${rows} * columns; result += ${threads})`
    out.block(each, () => {
      out.line(
        `const int row = first_m + ${fewOf(form, 'result')}, column = first_n + ${manyOf(form, 'result')} * apart;`,
      )
      out.block(`if (row < ${of(few)} && column < ${of(many)})`, () => {
        out.line(`${type} sum = totals[result];`)
        finishAccumulator(context, node, 'sum')
        if (few !== null) out.line(`const int ${names.index(few)} = row;`)
        out.line(`const int ${names.index(many)} = column;`)
        emitStores(context, stage.results, [[node, 'sum']])
      })
    })
    out.line('__syncthreads();')
    out.line('at += end_chunk - first_chunk, left -= end_chunk - first_chunk;')
  })
}

/** Declares the columns of a CTA and how far they are apart, the steps of k, and how many of its warps share them. */
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
    out.line('const int apart = 1;')
    out.line(`const int columns = ${alignedText(context, matrix)} ? ${lanes * each} : ${(lanes - 1) * each};`)
    out.line(`const int steps = ${k}, chunk = ${rowsAtOnce(form)};`)
    return
  }
  const warps = threads / 32
  out.line(`__shared__ ${type} memory[${warps}][${extents[0] * each}];`)
  const count = pieceOf(matrix)
  const bytes = `${DTYPES[matrix.dtype].storageBytes} * ${names.stride(matrix.name, form.many)}`
  out.line(`const int apart = ${call(context, 'ktl_rows_apart', bytes)};`, {
    note: 'rows that begin at the same byte of 16',
  })
  // Of rows that begin behind the first byte of a piece, perhaps one more.
  out.line(
    `const int steps = (int)((${k} + (${alignedText(context, matrix)} ? ${count - 1}LL : ${2 * count - 2}LL)) / ${count});`,
    { note: 'pieces of k' },
  )
  out.line('int slots = 1;', { note: 'warps that share k' })
  out.line(`while (slots < ${slotsOf(form)} && slots * ${stepsOfWarp(form)} < steps) slots *= 2;`)
  out.line(`const int columns = ${warps} / slots * ${each}, chunk = slots * ${stepsOfWarp(form)};`)
  out.line('const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slot = warp % slots, group = warp / slots;')
}

/**
 * Sums of a tile that others share go through the workspace; behind this, the last one of them has all. Each has two places there: for the tile
 * that it begins with, and for another one.
 */
function emitShared(context: SimtContext, form: SimtVector, type: string): void {
  const { out, names } = context
  const { extents, threads } = form
  const [rows] = extents
  const size = rows * widthOf(form)
  const of = (axis: string | null): string => (axis === null ? '1' : names.extent(axis))
  out.block('if (first_chunk > 0 || end_chunk < chunks)', () => {
    const sums = names.region(SUMS)
    // The CTA that has a chunk is the last one whose share begins no later.
    out.line('const long long start = tile * chunks;')
    out.line('const int first = (int)(((start + 1) * sharers - 1) / work);')
    out.line('const int count = (int)(((start + chunks) * sharers - 1) / work) - first + 1;')
    out.line('const bool is_second = work * first / sharers < start;')
    out.line(`${type}* const place = ${sums} + (2 * cta + (cta == first && is_second)) * ${size};`)
    // Only results that there are, by other threads than those that have summed them.
    out.line('__syncthreads();')
    out.line(
      `const int width = min(columns, (${names.extent(form.many)} - first_n + apart - 1) / apart), existing = min(${rows}, ${of(form.few)} - first_m) * width;`,
    )
    out.block(`for (int result = threadIdx.x; result < existing; result += ${threads})`, () => {
      out.line('const int index = result / width * columns + result % width;')
      out.line(`${call(context, 'ktl_store_part', 'place + index', 'totals[index]')};`, { note: 'sums of this part' })
    })
    out.line('__syncthreads();')
    const counted = call(context, 'ktl_count_part', `${names.region(COUNTS)} + first`, 'count - 1')
    out.line(`is_last = __syncthreads_or(threadIdx.x == 0 && ${counted} == count - 1);`, { note: 'count this part' })
    out.line(`const ${type}* const from = ${sums} + 2 * first * ${size};`)
    // Neighbouring lanes share the parts of a result, where there are few.
    out.line('int lanes = 1;')
    out.line(`while (lanes < 16 && 2 * lanes * existing <= ${threads} && 4 * lanes <= count) lanes *= 2;`)
    out.line('const int own_part = threadIdx.x % lanes;')
    out.block(`for (int some = 0; is_last && some < existing; some += ${threads} / lanes)`, () => {
      out.line('const int result = min(some + (int)threadIdx.x / lanes, existing - 1);')
      out.line('const int index = result / width * columns + result % width;')
      out.line(`${type} sum = 0;`)
      out.block(`for (int i = own_part; i < count; i += ${PARTS_UNDER_WAY} * lanes)`, () => {
        out.line(`${type} loaded[${PARTS_UNDER_WAY}];`)
        out.line('#pragma unroll')
        out.block(`for (int u = 0; u < ${PARTS_UNDER_WAY}; ++u)`, () => {
          out.line('const int other = i + u * lanes;')
          const loaded = call(
            context,
            'ktl_load_part',
            `from + (2 * other + (other == 0 && is_second)) * ${size} + index`,
          )
          out.line(`loaded[u] = other < count ? ${loaded} : 0;`, { note: 'sums of all parts' })
        })
        out.line('#pragma unroll')
        out.line(`for (int u = 0; u < ${PARTS_UNDER_WAY}; ++u) sum = ${add(context, form, 'sum', 'loaded[u]')};`)
      })
      const across = add(context, form, 'sum', '__shfl_xor_sync(0xffffffffu, sum, step)')
      out.line(`for (int step = 1; step < lanes; step *= 2) sum = ${across};`)
      out.line('if (own_part == 0) totals[index] = sum;')
    })
    out.line('__syncthreads();')
  })
}
