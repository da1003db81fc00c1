/**
 * Vector kernels on tensor cores, where k is contiguous in the matrix: fragments come from memory as they are. An MMA may have k in any order
 * that both factors share: a lane has a piece of its row, four lanes have neighbouring pieces, and half of each makes an MMA of 16.
 */
import { eachOf, mmaSteps, type SimtVector } from '../../../compiler/targets/simt/vector.ts'
import { call, type SimtContext } from './context.ts'
import { areAlike, emitWarpsMeeting } from './vector_along.ts'
import { alignedText, batchAt, bitsOf, emitEnds, emitLanded, emitPieces, emitWhole, start } from './vector_operands.ts'

export function emitMmaAlongK(context: SimtContext, form: SimtVector): void {
  const { out } = context
  const { vectors, extents, node } = form
  const [rows] = extents
  const each = eachOf(form)
  const sets = setsOf(form)
  out.line(`float sums[${sets}][${each / 16}][4] = {};`, { ktl: node.span, note: 'accumulators' })
  if (isTransposed(form)) out.line(`const bool paired = ${alignedText(context, vectors, 4)};`)
  emitWhole(context, form)
  if (areAlike(form)) {
    out.block(`if (skip == 0 && ${alignedText(context, vectors)})`, () => emitSteps(context, form, 'aligned'))
    out.block('else', () => emitSteps(context, form, 'shifted'))
  } else emitSteps(context, form, isTransposed(form) ? 'transposed' : 'gathered')
  emitEnds(context, form, 4, () => {
    emitMatrix(context, form, 1, (from) => call(context, 'ktl_row_ends', `${from} + edge * 8ll`, 'low', 'high'))
    out.line(`ktl_piece vectors[${sets}];`)
    emitGathered(context, form, 1, ['edge', 'low', 'high'])
    emitMultiply(context, form, 1)
  })
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

/** How the few lie. Shifted: pieces of theirs begin where those of the matrix do, which is at any byte. */
type Few = 'aligned' | 'shifted' | 'transposed' | 'gathered'

/** Whole pieces of the rows: of so many steps, each of four pieces of a row, under way at once. */
function emitSteps(context: SimtContext, form: SimtVector, few: Few): void {
  const { out, names } = context
  const { vectors, over } = form
  const sets = setsOf(form)
  // What becomes columns has addresses of its own for each pair.
  const steps = mmaSteps(form) / (few === 'transposed' ? sets : 1)
  const count = sets * steps
  const atOf = (per: number, i = 'i'): string => `(piece + ${i} / ${per} * 4)`
  const existsAt = (at: string): string => `${at} >= first_whole && ${at} < last`
  const at = atOf(sets)
  const loop = `for (int piece = begin + slot * ${4 * steps} + lane % 4; piece < last + lane % 4; piece += slots * ${4 * steps})`
  out.line('#pragma unroll 1')
  out.block(loop, () => {
    const own = atOf(eachOf(form) / 8)
    emitMatrix(context, form, steps, (from) => call(context, 'ktl_row_run', `${from} + ${own} * 8ll`, existsAt(own)))
    out.line(`ktl_piece vectors[${count}];`)
    if (few === 'aligned') {
      out.line('#pragma unroll')
      const loaded = call(context, 'ktl_row_run', `${rowOfFew(context, form)} - skip + ${at} * 8ll`, existsAt(at))
      out.line(`for (int i = 0; i < ${count}; ++i) vectors[i] = ${loaded};`, { note: `load ${vectors.name}` })
    } else if (few === 'shifted') {
      inParts(context, count, FEW_UNDER_WAY, (first, some) => {
        const index = `(${first} + i)`
        const at = atOf(sets, index)
        const row = `${rowOfFew(context, form, index)} - skip`
        emitPieces(context, vectors, 'some', some, [row, at, `${existsAt(at)} ? ${names.extent(over)} + skip : 0`])
        emitLanded(context, 'some', some, at)
        out.line('#pragma unroll')
        out.line(`for (int i = 0; i < ${some}; ++i) vectors[${first} + i] = some[i];`)
      })
    } else if (few === 'transposed') emitTransposed(context, form, steps, existsAt('at'))
    else emitGathered(context, form, steps, [at, '0', `${existsAt('at')} ? 8 : 0`])
    emitMultiply(context, form, steps)
  })
}

/** Pieces of the few that are under way at once beside those of the matrix: more would not find registers. */
const FEW_UNDER_WAY = 2

/** `count` pieces, so many at once: `body` of the first of them, and how many. */
function inParts({ out }: SimtContext, count: number, most: number, body: (first: number, some: number) => void): void {
  for (let first = 0; first < count; first += most)
    out.block('', () => {
      if (first > 0) out.line('__syncwarp();  // loads come no further ahead: registers would not do')
      body(first, Math.min(most, count - first))
    })
}

/** Piece `i` is of step i / sets, of one of the few of set i % sets that the lane has. */
function rowOfFew(context: SimtContext, form: SimtVector, i = 'i'): string {
  const { vectors, few, extents } = form
  const one = `first_m + ${i} % ${setsOf(form)} * 8 + min(lane / 4, ${extents[0] - 1})`
  const place = few === null ? {} : { [few]: `min(${one}, ${context.names.extent(few)} - 1)` }
  return start(context, vectors, { ...batchAt(context, form), ...place })
}

/** Pieces of the rows of a lane, one of every eight. `load`: from where a row would begin at a piece. */
function emitMatrix(context: SimtContext, form: SimtVector, steps: number, load: (from: string) => string): void {
  const { out } = context
  const { matrix, many } = form
  const each = eachOf(form)
  const lines = each / 8
  const column = `(first_n + min(group * ${each} + i % ${lines} * 8 + lane / 4, last_column) * apart)`
  const from = `${start(context, matrix, { ...batchAt(context, form), [many]: column })} - skip`
  out.line(`ktl_piece matrix[${lines * steps}];`)
  out.line('#pragma unroll')
  out.line(`for (int i = 0; i < ${lines * steps}; ++i) matrix[i] = ${load(from)};`, { note: `load ${matrix.name}` })
}

function emitMultiply(context: SimtContext, form: SimtVector, steps: number): void {
  const { out } = context
  const { matrix, node } = form
  const sets = setsOf(form)
  const lines = eachOf(form) / 8
  out.line('#pragma unroll')
  out.block(`for (int i = 0; i < ${steps * sets * (lines / 2)}; ++i)`, () => {
    out.line(`const int step = i / ${sets * (lines / 2)}, s = i / ${lines / 2} % ${sets}, half = i % ${lines / 2};`)
    for (const word of [0, 2]) {
      const words = [0, 1].flatMap((w) =>
        [0, 1].map((r) => `matrix[step * ${lines} + 2 * half + ${r}].words[${word + w}]`),
      )
      const others = [0, 1].map((w) => `vectors[step * ${sets} + s].words[${word + w}]`)
      out.line(`${call(context, `ktl_mma_${matrix.dtype}`, 'sums[s][half]', ...words, ...others)};`, {
        ktl: node.span,
        note: 'contraction',
      })
    }
  })
}

/** Pieces of the few whose neighbours in memory are others of them: what the lanes load as rows, a pair each, becomes columns. */
function emitTransposed(context: SimtContext, form: SimtVector, steps: number, exists: string): void {
  const { out, names } = context
  const { vectors, over, few, extents } = form
  const sets = setsOf(form)
  const count = sets * steps
  inParts(context, count, FEW_UNDER_WAY / sets, (first, some) => {
    out.line('#pragma unroll')
    out.block(`for (int i = ${4 * first}; i < ${4 * (first + some)}; ++i)`, () => {
      // A lane has two neighbours of k of each word of its piece: rows 2q and 2q + 1 of the matrix are those of lane q of a quad.
      out.line(
        `const int at = piece - lane % 4 + i / ${4 * sets} * 4 + lane / 8, position = at * 8 - skip + i % 4 * 2 + lane / 4 % 2;`,
      )
      out.line(
        `const int from = i / 4 % ${sets} * 8 + lane % 4 * 2, left = min(${extents[0]}, ${names.extent(few!)} - first_m) - from;`,
      )
      const row = start(context, vectors, { ...batchAt(context, form), [over]: 'position', [few!]: '(first_m + from)' })
      out.line(
        `vectors[i / 4].words[i % 4] = ${call(context, 'ktl_row_pair', row, `${exists} ? left : 0`, 'paired')};`,
        {
          note: `load ${vectors.name}`,
        },
      )
    })
    out.line('#pragma unroll')
    out.line(
      `for (int i = ${4 * first}; i < ${4 * (first + some)}; ++i) vectors[i / 4].words[i % 4] = ${call(context, 'ktl_transposed', 'vectors[i / 4].words[i % 4]')};`,
    )
  })
}

/** Pieces by elements, however far apart: which piece, and from where up to where it is the row's. */
function emitGathered(
  context: SimtContext,
  form: SimtVector,
  steps: number,
  [piece, low, high]: readonly [string, string, string],
): void {
  const { out, names } = context
  const { vectors, over } = form
  const count = setsOf(form) * steps
  const stride = vectors.order.at(-1) === over ? '1' : names.stride(vectors.name, over)
  inParts(context, count, FEW_UNDER_WAY, (first, some) => {
    out.line('#pragma unroll')
    out.block(`for (int i = ${first}; i < ${first + some}; ++i)`, () => {
      out.line(`const int at = ${piece};`)
      out.line(`const ${bitsOf(vectors)}* const from = ${rowOfFew(context, form)} + (at * 8ll - skip) * ${stride};`)
      out.line(`vectors[i] = ${call(context, 'ktl_gathered_piece', 'from', stride, low, high)};`, {
        note: `load ${vectors.name}`,
      })
    })
  })
}
