/**
 * Vector kernels on tensor cores, where k is contiguous in the matrix: fragments come from memory as they are. An MMA may have k in any order
 * that both factors share: a lane has a piece of its row, four lanes have neighbouring pieces, and half of each makes an MMA of 16.
 */
import type { SimtVector } from '../../../compiler/targets/simt/vector.ts'
import { eachOf, pieceOf, underWay } from '../../../compiler/targets/simt/vector.ts'
import { call, type SimtContext } from './context.ts'
import { areAlike, emitWarpsMeeting } from './vector_along.ts'
import { alignedText, batchAt, bitsOf, emitLanded, emitPieces, start } from './vector_operands.ts'

export function emitMmaAlongK(context: SimtContext, form: SimtVector): void {
  const { out, names } = context
  const { matrix, vectors, extents, over, node } = form
  const [rows] = extents
  const each = eachOf(form)
  const sets = Math.ceil(rows / 8)
  const [aligned, others] = underWay(form)
  out.line(`float sums[${sets}][4] = {};`, { ktl: node.span, note: 'accumulators' })
  const conditions = [matrix, ...(areAlike(form) ? [vectors] : [])].map((operand) => alignedText(context, operand))
  const whole = `${names.extent(over)} % ${pieceOf(matrix)} == 0`
  out.block(`if (${[...conditions, whole].join(' && ')})`, () => emitSteps(context, form, aligned / 2, true))
  out.block('else', () => emitSteps(context, form, others / 2, false))
  out.line('#pragma unroll')
  out.block(`for (int s = 0; s < ${sets}; ++s)`, () => {
    out.line('#pragma unroll')
    out.block('for (int j = 0; j < 4; ++j)', () => {
      out.line('const int row = s * 8 + lane % 4 * 2 + j % 2;')
      out.line(`if (row < ${rows}) memory[warp][row * ${each} + lane / 4 + j / 2 * 8] = sums[s][j];`)
    })
  })
  emitWarpsMeeting(context, form)
}

/** `steps`: of four pieces of a row, under way at once. */
function emitSteps(context: SimtContext, form: SimtVector, steps: number, aligned: boolean): void {
  const { out, names } = context
  const { matrix, vectors, extents, few, many, over, node } = form
  const sets = Math.ceil(extents[0] / 8)
  const base = batchAt(context, form)
  const k = names.extent(over)
  const last = (axis: string, text: string): string => `min(${text}, ${names.extent(axis)} - 1)`
  // Piece `i`: of step i / 2 (i / sets), of row i % 2 of the lane (of set i % sets).
  const row = start(context, matrix, { ...base, [many]: last(many, `first_n + group * ${eachOf(form)} + i % 2 * 8 + lane / 4`) })
  const fewRow = few === null ? {} : { [few]: last(few, `first_m + i % ${sets} * 8 + min(lane / 4, ${extents[0] - 1})`) }
  const at = (per: number): string => `(piece + i / ${per} * 4)`
  const load = (operand: typeof matrix, to: string, count: number, from: string, per: number): void => {
    if (!aligned)
      return emitPieces(context, operand, to, count, [from, at(per), `${at(per)} < end ? ${k} : 0`])
    out.line(`ktl_piece ${to}[${count}];`)
    out.line('#pragma unroll')
    out.line(
      `for (int i = 0; i < ${count}; ++i) ${to}[i] = ${call(context, 'ktl_row_vector', `${from} + ${at(per)} * 8ll`, `${at(per)} < end`)};`,
      { note: `load ${operand.name}` },
    )
  }
  const land = (to: string, count: number, per: number): void => {
    if (!aligned) emitLanded(context, to, count, at(per), `${at(per)} < end ? ${k} : 0`)
  }
  const loop = `for (int piece = begin + slot * ${4 * steps} + lane % 4; piece < end + lane % 4; piece += slots * ${4 * steps})`
  out.block(loop, () => {
    load(matrix, 'matrix', 2 * steps, row, 2)
    if (areAlike(form)) {
      load(vectors, 'vectors', sets * steps, start(context, vectors, { ...base, ...fewRow }), sets)
      land('vectors', sets * steps, sets)
    } else emitGathered(context, form, steps, { ...base, ...fewRow })
    land('matrix', 2 * steps, 2)
    out.line('#pragma unroll')
    out.block(`for (int step = 0; step < ${steps}; ++step)`, () => {
      out.line('#pragma unroll')
      out.block(`for (int s = 0; s < ${sets}; ++s)`, () => {
        for (const half of [0, 2]) {
          const words = [0, 1].flatMap((w) => [0, 1].map((r) => `matrix[2 * step + ${r}].words[${half + w}]`))
          const others = [0, 1].map((w) => `vectors[step * ${sets} + s].words[${half + w}]`)
          out.line(`${call(context, `ktl_mma_${matrix.dtype}`, 'sums[s]', ...words, ...others)};`, {
            ktl: node.span,
            note: 'contraction',
          })
        }
      })
    })
  })
}

/** Pieces of the few whose neighbours in memory are others of them, by elements. */
function emitGathered(
  context: SimtContext,
  { vectors, over, extents }: SimtVector,
  steps: number,
  at: Readonly<Record<string, string>>,
): void {
  const { out, names } = context
  const sets = Math.ceil(extents[0] / 8)
  const count = sets * steps
  out.line(`ktl_piece vectors[${count}];`)
  out.line('#pragma unroll')
  out.block(`for (int i = 0; i < ${count}; ++i)`, () => {
    out.line(`const int at = piece + i / ${sets} * 4;`)
    out.line(`const ${bitsOf(vectors)}* const from = ${start(context, vectors, at)} + at * 8ll * ${names.stride(vectors.name, over)};`)
    const elements = `at < end ? ${names.extent(over)} - at * 8 : 0`
    out.line(
      `vectors[i] = ${call(context, 'ktl_gathered_piece', 'from', names.stride(vectors.name, over), elements)};`,
      { note: `load ${vectors.name}` },
    )
  })
}
