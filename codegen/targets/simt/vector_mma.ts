/**
 * Vector kernels on tensor cores, where k is contiguous in the matrix: fragments come from memory as they are. An MMA may have k in any order
 * that both factors share: a lane has a piece of its row, four lanes have neighbouring pieces, and half of each makes an MMA of 16.
 */
import type { SimtVector } from '../../../compiler/targets/simt/vector.ts'
import { eachOf, mmaSteps, pieceOf } from '../../../compiler/targets/simt/vector.ts'
import { call, type SimtContext } from './context.ts'
import { areAlike, emitWarpsMeeting } from './vector_along.ts'
import { alignedText, batchAt, bitsOf, emitLanded, emitPieces, start } from './vector_operands.ts'

export function emitMmaAlongK(context: SimtContext, form: SimtVector): void {
  const { out, names } = context
  const { matrix, vectors, extents, over, node } = form
  const [rows] = extents
  const each = eachOf(form)
  const sets = setsOf(form)
  out.line(`float sums[${sets}][${each / 16}][4] = {};`, { ktl: node.span, note: 'accumulators' })
  if (isTransposed(form)) out.line(`const bool paired = ${alignedText(context, vectors, 4)};`)
  const conditions = [matrix, ...(areAlike(form) ? [vectors] : [])].map((operand) => alignedText(context, operand))
  const whole = `${names.extent(over)} % ${pieceOf(matrix)} == 0`
  out.block(`if (${[...conditions, whole].join(' && ')})`, () => emitSteps(context, form, mmaSteps(form, true), true))
  out.block('else', () => emitSteps(context, form, mmaSteps(form, false), false))
  out.line('#pragma unroll')
  out.block(`for (int i = 0; i < ${sets * (each / 16)}; ++i)`, () => {
    out.line('#pragma unroll')
    out.block('for (int j = 0; j < 4; ++j)', () => {
      out.line(`const int row = i / ${each / 16} * 8 + lane % 4 * 2 + j % 2;`)
      const column = `i % ${each / 16} * 16 + j / 2 * 8 + lane / 4`
      out.line(
        `if (row < ${rows}) memory[warp][row * ${each} + ${column}] = sums[i / ${each / 16}][i % ${each / 16}][j];`,
      )
    })
  })
  emitWarpsMeeting(context, form)
}

/** MMAs beside each other, for the few. */
const setsOf = ({ extents: [rows] }: SimtVector): number => Math.ceil(rows / 8)

/** Neighbours in memory are others of the few: fragments are transposed. */
const isTransposed = ({ vectors, few }: SimtVector): boolean => few !== null && vectors.order.at(-1) === few

/** `steps`: of four pieces of a row, under way at once. */
function emitSteps(context: SimtContext, form: SimtVector, steps: number, aligned: boolean): void {
  const { out, names } = context
  const { matrix, vectors, extents, few, many, over, node } = form
  const sets = setsOf(form)
  const each = eachOf(form)
  // Rows of a lane that are under way at once, of all of them.
  const lines = aligned ? each / 8 : 2
  const passes = each / 8 / lines
  const base = batchAt(context, form)
  const k = names.extent(over)
  const last = (axis: string, text: string): string => `min(${text}, ${names.extent(axis)} - 1)`
  // Piece `i`: of step i / lines (i / sets), of a row of the lane (of the few, of set i % sets).
  const rowsOf = (pass: number): string => {
    const column = `first_n + group * ${each} + ${pass * lines * 8} + i % ${lines} * 8 + lane / 4`
    return start(context, matrix, { ...base, [many]: last(many, column) })
  }
  const one = `first_m + i % ${sets} * 8 + min(lane / 4, ${extents[0] - 1})`
  const fewRow = few === null ? {} : { [few]: last(few, one) }
  const at = (per: number): string => `(piece + i / ${per} * 4)`
  const load = (operand: typeof matrix, to: string, count: number, from: string, per: number): void => {
    if (!aligned) return emitPieces(context, operand, to, count, [from, at(per), `${at(per)} < end ? ${k} : 0`])
    out.line(`ktl_piece ${to}[${count}];`)
    out.line('#pragma unroll')
    const loaded = call(context, 'ktl_row_run', `${from} + ${at(per)} * 8ll`, `${at(per)} < end`)
    out.line(`for (int i = 0; i < ${count}; ++i) ${to}[i] = ${loaded};`, { note: `load ${operand.name}` })
  }
  const land = (to: string, count: number, per: number): void => {
    if (!aligned) emitLanded(context, to, count, at(per))
  }
  const loop = `for (int piece = begin + slot * ${4 * steps} + lane % 4; piece < end + lane % 4; piece += slots * ${4 * steps})`
  out.line('#pragma unroll 1')
  out.block(loop, () => {
    // Of both together, the pieces of more of the few would not find registers.
    const isFirst = passes === 1 || sets === 1
    if (isFirst) load(matrix, 'matrix', lines * steps, rowsOf(0), lines)
    if (areAlike(form)) {
      load(vectors, 'vectors', sets * steps, start(context, vectors, { ...base, ...fewRow }), sets)
      land('vectors', sets * steps, sets)
    } else if (isTransposed(form)) emitTransposed(context, form, steps)
    else emitGathered(context, form, steps, { ...base, ...fewRow })
    const multiply = (pass: number): void => {
      land('matrix', lines * steps, lines)
      out.line('#pragma unroll')
      out.block(`for (int i = 0; i < ${steps * sets * (lines / 2)}; ++i)`, () => {
        out.line(`const int step = i / ${sets * (lines / 2)}, s = i / ${lines / 2} % ${sets}, half = i % ${lines / 2};`)
        for (const word of [0, 2]) {
          const words = [0, 1].flatMap((w) =>
            [0, 1].map((r) => `matrix[step * ${lines} + 2 * half + ${r}].words[${word + w}]`),
          )
          const others = [0, 1].map((w) => `vectors[step * ${sets} + s].words[${word + w}]`)
          const to = `sums[s][${(pass * lines) / 2} + half]`
          out.line(`${call(context, `ktl_mma_${matrix.dtype}`, to, ...words, ...others)};`, {
            ktl: node.span,
            note: 'contraction',
          })
        }
      })
    }
    if (isFirst) multiply(0)
    for (let pass = isFirst ? 1 : 0; pass < passes; ++pass)
      out.block('', () => {
        out.line('__syncwarp();  // loads come no further ahead: registers would not do')
        load(matrix, 'matrix', lines * steps, rowsOf(pass), lines)
        multiply(pass)
      })
  })
}

/** Pieces of the few whose neighbours in memory are others of them: what the lanes load as rows, a pair each, becomes columns. */
function emitTransposed(context: SimtContext, form: SimtVector, steps: number): void {
  const { out, names } = context
  const { vectors, over, few, extents } = form
  const sets = setsOf(form)
  const count = sets * steps
  out.line(`ktl_piece vectors[${count}];`)
  out.line('#pragma unroll')
  out.block(`for (int i = 0; i < ${4 * count}; ++i)`, () => {
    // A lane has two neighbours of k of each word of its piece: rows 2q and 2q + 1 of the matrix are those of lane q of a quad.
    out.line(
      `const int at = piece - lane % 4 + i / ${4 * sets} * 4 + lane / 8, position = at * 8 + i % 4 * 2 + lane / 4 % 2;`,
    )
    out.line(
      `const int from = i / 4 % ${sets} * 8 + lane % 4 * 2, left = min(${extents[0]}, ${names.extent(few!)} - first_m) - from;`,
    )
    const row = start(context, vectors, { ...batchAt(context, form), [over]: 'position', [few!]: '(first_m + from)' })
    const columns = `at < end && position < ${names.extent(over)} ? left : 0`
    out.line(`vectors[i / 4].words[i % 4] = ${call(context, 'ktl_row_pair', row, columns, 'paired')};`, {
      note: `load ${vectors.name}`,
    })
  })
  out.line('#pragma unroll')
  out.line(
    `for (int i = 0; i < ${4 * count}; ++i) vectors[i / 4].words[i % 4] = ${call(context, 'ktl_transposed', 'vectors[i / 4].words[i % 4]')};`,
  )
}

/** Pieces of one that is not contiguous, by elements. */
function emitGathered(
  context: SimtContext,
  form: SimtVector,
  steps: number,
  place: Readonly<Record<string, string>>,
): void {
  const { out, names } = context
  const { vectors, over } = form
  const sets = setsOf(form)
  const count = sets * steps
  out.line(`ktl_piece vectors[${count}];`)
  out.line('#pragma unroll')
  out.block(`for (int i = 0; i < ${count}; ++i)`, () => {
    const stride = names.stride(vectors.name, over)
    out.line(`const int at = piece + i / ${sets} * 4;`)
    out.line(`const ${bitsOf(vectors)}* const from = ${start(context, vectors, place)} + at * 8ll * ${stride};`)
    const elements = `at < end ? ${names.extent(over)} - at * 8 : 0`
    out.line(`vectors[i] = ${call(context, 'ktl_gathered_piece', 'from', stride, elements)};`, {
      note: `load ${vectors.name}`,
    })
  })
}
