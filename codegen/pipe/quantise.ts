/** Tile IR → CUDA statements: outputs in stored forms, from the values of a sub-tile in registers. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { EpilogueOp, Quantise } from '../../compiler/ir/pipe_epilogue.ts'
import { blockText, elementText, factorText, normText, scaleCode } from '../cuda/quantise.ts'
import { emitQuantiseColumns } from './quantise_columns.ts'
import { note, type EmitContext } from './context.ts'
import { element, operandOf, subtileColumn } from './epilogue_values.ts'

type Measure = Extract<EpilogueOp, { op: 'measure' | 'measure_begin' }>

/** The largest magnitudes of a block that is wider than a sub-tile, of each row of this lane. */
const largestOf = (c: EmitContext, operand: string): string => `largest_${c.names.value(operand)}`

function zeroBeyond(operand: string, c: EmitContext): void {
  const { tile } = c
  const value = c.names.value(operand)
  c.out.line('// What lies past the edge counts as 0.')
  c.out.block(`if (${subtileColumn(c)} + ${c.program.subtileColumns} > ${c.names.edge('n')})`, () => {
    c.out.line('#pragma unroll')
    c.out.line(
      `for (u32 j = 0; j < ${tile.count}; ++j) if (${tile.col('j')} >= ${c.names.edge('n')}) ${value}[j] = 0.0f;`,
      note(c, `quantise ${operand}`),
    )
  })
}

/** Of a block that is wider than a sub-tile, in which every sub-tile finds it: what its values are multiplied by, and signs of zeros. */
const factorsOf = (c: EmitContext, operand: string): string => `factor_${c.names.value(operand)}`
const emptyOf = (c: EmitContext, operand: string): string => `empty_${c.names.value(operand)}`

export function emitMeasureBegin({ operand }: Measure, c: EmitContext): void {
  const { columnCount } = c.tile
  c.out.line(`float ${largestOf(c, operand)}[${columnCount}] = {}, ${factorsOf(c, operand)}[${columnCount}];`)
  c.out.line(`[[maybe_unused]] u32 ${emptyOf(c, operand)} = 0;`)
}

/** Independent maxima of many values, so that none waits for the one before. */
const CHAINS = 4

export function emitMeasure({ operand }: Measure, c: EmitContext): void {
  const { tile } = c
  c.functions.add('ktl_max_f32')
  zeroBeyond(operand, c)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${tile.columnCount}; ++i)`, () => {
    emitLargest(operand, 'i', 1, c)
    c.out.line(`${largestOf(c, operand)}[i] = ktl_max_f32(${largestOf(c, operand)}[i], most[0]);`)
  })
}

/** Value e of the i-th block of a row of this lane; `blocks`: of a sub-tile. */
function indexOf(i: string, e: string, blocks: number, { tile }: EmitContext): string {
  const perBlock = tile.count / blocks
  // A lane of a fragment has two rows, whose values alternate in pairs.
  if (tile.columnCount === 1) return blocks === 1 ? e : `${i} * ${perBlock} + ${e}`
  const first = blocks === 1 ? '' : `${i} / 2 * ${perBlock} + `
  return `${first}${e} / 2 * 4 + ${i} % 2 * 2 + ${e} % 2`
}

/** `most[0]`: of what this lane has of a block. */
function emitLargest(operand: string, i: string, blocks: number, c: EmitContext): void {
  const count = c.tile.count / blocks / c.tile.columnCount
  const chains = Math.min(CHAINS, Math.max(1, count / 2))
  const value = `${c.names.value(operand)}[${indexOf(i, 'e', blocks, c)}]`
  const where = note(c, `measure ${operand}`)
  c.out.line(`float most[${chains}] = {};`)
  c.out.line('#pragma unroll')
  const chain = chains === 1 ? '0' : `e % ${chains}`
  c.out.line(`for (u32 e = 0; e < ${count}; ++e) most[${chain}] = ktl_max_f32(most[${chain}], fabsf(${value}));`, where)
  for (let half = chains / 2; half >= 1; half /= 2)
    for (let i = 0; i < half; i++) c.out.line(`most[${i}] = ktl_max_f32(most[${i}], most[${i + half}]);`, where)
}

/** The scales of the blocks whose largest magnitudes are in `largest`, into memory; `factor` and bits of `empty` of each. */
function emitScales(
  op: Quantise,
  blocks: number,
  [largest, factors, empty]: readonly [string, string, string],
  c: EmitContext,
): void {
  const { block, form } = op
  const { tile } = c
  const isFragment = tile.columnCount > 1
  const operand = operandOf(c, op.operand)
  const scale = operandOf(c, form.scale!)
  const where = note(c, `quantise ${op.operand}`)
  const known = form.global === null ? '' : 'norm'
  const scalar = (name: string | null): string | null => (name === null ? null : c.names.scalar(name))
  if (form.global !== null) c.out.line(`const float norm = ${normText(scalar(form.global), scalar(form.norm))};`)
  const count = blocks * tile.columnCount
  // Lanes of a quad finish a block each.
  const each = isFragment ? Math.min(4, count) : 1
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${count}; i += ${each})`, () => {
    if (isFragment) c.functions.add('ktl_quad_largest')
    c.out.line(
      `const float whole = ${isFragment ? `ktl_quad_largest<${each}>(${largest} + i)` : `${largest}[i]`};`,
      where,
    )
    const code = scaleCode(operand.dtype, scale.dtype, form.rounding, 'whole', known, c.functions)
    c.out.line(`const ${DTYPES[scale.dtype].cudaStorage} code = ${code};`, where)
    const factor = factorText(scale.dtype, 'code', known, c.functions)
    c.out.line(`const float own = whole == whole ? ${factor} : __uint_as_float(0x7fffffffu);`)
    const [mine, row, index] = isFragment
      ? [each === 4 ? [] : ['lane % 4 < 2'], '(lane % 2 * 2)', each === 4 ? '(i / 2 + lane % 4 / 2)' : '0']
      : [[], '0', 'i']
    const column = `${subtileColumn(c)} + ${index} * ${block}`
    const place = element(c, scale, { m: `(${tile.row(row)})`, n: `(${column})` })
    const inside = [...mine, tile.rowInBounds(row), `${column} < ${c.names.edge('n')}`].join(' && ')
    c.out.line(`if (${inside}) ${place} = code;`, where)
    if (!isFragment) {
      c.out.line(`${factors}[i] = own;`)
      c.out.line(`${empty} |= (whole == 0.0f) << i;`)
      return
    }
    // Of all quads; the own one's come first.
    c.out.line(`${empty} |= (__ballot_sync(~0u, whole == 0.0f) >> lane / 4 * 4 & ${2 ** each - 1}) << i;`, where)
    c.out.line('#pragma unroll')
    c.out.line(`for (u32 q = 0; q < ${each}; ++q) ${factors}[i + q] = __shfl_sync(~0u, own, q, 4);`, where)
  })
}

export function emitQuantise(op: Quantise, c: EmitContext): void {
  if (op.along === 'm') return emitQuantiseColumns(op, c)
  const { block, form, measured } = op
  const { tile } = c
  const operand = operandOf(c, op.operand)
  const scale = operandOf(c, form.scale!)
  const value = c.names.value(op.operand)
  const where = note(c, `quantise ${op.operand}`)
  const blocks = measured ? 1 : c.program.subtileColumns / block
  const count = blocks * tile.columnCount
  const [factors, empty] = measured ? [factorsOf(c, op.operand), emptyOf(c, op.operand)] : ['factors', 'empty']
  c.functions.add('ktl_max_f32')
  c.out.block('', () => {
    zeroBeyond(op.operand, c)
    if (measured)
      c.out.block('if (column == block_column)', () => emitScales(op, 1, [largestOf(c, op.operand), factors, empty], c))
    else {
      c.out.line(`float largest[${count}], factors[${count}];`)
      c.out.line('[[maybe_unused]] u32 empty = 0;')
      c.out.line('#pragma unroll')
      c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
        emitLargest(op.operand, 'i', blocks, c)
        c.out.line('largest[i] = most[0];')
      })
      emitScales(op, blocks, ['largest', factors, empty], c)
    }
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
      const bound = blockText(operand.dtype, 'bound', `${factors}[i]`)
      if (bound) c.out.line(bound)
      // -0 changes nothing, +0 the sign of a zero.
      else c.out.line(`const float zero = __uint_as_float(~(${empty} >> i) << 31);`)
      c.out.line('#pragma unroll')
      c.out.block(`for (u32 e = 0; e < ${tile.count / count}; ++e)`, () => {
        const at = `${value}[${indexOf('i', 'e', blocks, c)}]`
        const names = { value: at, factor: `${factors}[i]`, zero: 'zero', bound: 'bound' }
        c.out.line(`${at} = ${elementText(form, [operand.dtype, scale.dtype], names, c.functions)};`, where)
      })
    })
  })
}
