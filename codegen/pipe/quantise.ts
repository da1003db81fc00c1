/** Tile IR → CUDA statements: outputs in stored forms, from the values of a sub-tile in registers. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { EpilogueOp, Quantise } from '../../compiler/ir/pipe_epilogue.ts'
import { factorText, normText, scaleCode, symmetric } from '../cuda/quantise.ts'
import { emitQuantiseColumns } from './quantise_columns.ts'
import { note, type EmitContext } from './context.ts'
import { element, operandOf } from './epilogue_values.ts'

type Measure = Extract<EpilogueOp, { op: 'measure' | 'measure_begin' }>

/** The largest magnitudes of a block that is wider than a sub-tile, of each row of this lane. */
const largestOf = (c: EmitContext, operand: string): string => `largest_${c.names.value(operand)}`

const columnOf = (c: EmitContext): string => (c.program.layout.held === 'fragment' ? 'subtile_col' : 'col')

function zeroBeyond(operand: string, c: EmitContext): void {
  const { tile } = c
  const value = c.names.value(operand)
  c.out.line('// What lies past the edge counts as 0.')
  c.out.block(`if (${columnOf(c)} + ${c.program.subtileColumns} > ${c.names.edge('n')})`, () => {
    c.out.line('#pragma unroll')
    c.out.line(
      `for (u32 j = 0; j < ${tile.count}; ++j) if (${tile.col('j')} >= ${c.names.edge('n')}) ${value}[j] = 0.0f;`,
      note(c, `quantise ${operand}`),
    )
  })
}

export function emitMeasureBegin({ operand }: Measure, c: EmitContext): void {
  const { columnCount } = c.tile
  c.out.line(`float ${largestOf(c, operand)}${columnCount > 1 ? `[${columnCount}] = {}` : ' = 0.0f'};`)
}

export function emitMeasure({ operand }: Measure, c: EmitContext): void {
  const { tile } = c
  const largest = `${largestOf(c, operand)}${tile.columnCount > 1 ? `[${tile.columnIndex('j')}]` : ''}`
  c.functions.add('ktl_max_f32')
  zeroBeyond(operand, c)
  c.out.line('#pragma unroll')
  c.out.line(
    `for (u32 j = 0; j < ${tile.count}; ++j) ${largest} = ktl_max_f32(${largest}, fabsf(${c.names.value(operand)}[j]));`,
    note(c, `measure ${operand}`),
  )
}

export function emitQuantise(op: Quantise, c: EmitContext): void {
  if (op.along === 'm') return emitQuantiseColumns(op, c)
  const { block, form, measured } = op
  const { subtileColumns } = c.program
  const fragment = c.program.layout.held === 'fragment'
  const operand = operandOf(c, op.operand)
  const scale = operandOf(c, form.scale!)
  const { dtype, cudaStorage } = { dtype: scale.dtype, cudaStorage: DTYPES[scale.dtype].cudaStorage }
  const value = c.names.value(op.operand)
  const where = note(c, `quantise ${op.operand}`)
  const { tile } = c
  const scalar = (name: string | null): string | null => (name === null ? null : c.names.scalar(name))
  // A lane of a fragment has two rows, whose values alternate in pairs.
  const rows = fragment ? 2 : 1
  const blocks = measured ? 1 : subtileColumns / block
  const perBlock = tile.count / blocks
  const index = rows === 2 ? `b * ${perBlock} + i / 2 * 4 + r * 2 + i % 2` : `b * ${perBlock} + i`
  const first = '(r * 2)'
  const column = columnOf(c)
  c.functions.add('ktl_max_f32')
  c.out.block('', () => {
    if (form.global !== null) c.out.line(`const float norm = ${normText(scalar(form.global), scalar(form.norm))};`)
    zeroBeyond(op.operand, c)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 b = 0; b < ${blocks}; ++b)`, () => {
      c.out.line('#pragma unroll')
      c.out.block(`for (u32 r = 0; r < ${rows}; ++r)`, () => {
        if (measured) c.out.line(`float largest = ${largestOf(c, op.operand)}${rows === 2 ? '[r]' : ''};`)
        else {
          c.out.line('float largest = 0.0f;')
          c.out.line('#pragma unroll')
          c.out.line(
            `for (u32 i = 0; i < ${perBlock / rows}; ++i) largest = ktl_max_f32(largest, fabsf(${value}[${index}]));`,
            where,
          )
        }
        if (fragment)
          for (const mask of [1, 2])
            c.out.line(`largest = ktl_max_f32(largest, __shfl_xor_sync(~0u, largest, ${mask}));`, where)
        c.out.line(
          `const ${cudaStorage} code = ${scaleCode(operand.dtype, dtype, form.rounding, 'largest', form.global === null ? '' : 'norm', c.functions)};`,
          where,
        )
        const known = form.global === null ? '' : 'norm'
        c.out.line(
          `const float factor = largest == largest ? ${factorText(dtype, 'code', known, c.functions)} : __uint_as_float(0x7fffffffu);`,
        )
        const place = element(c, scale, { m: `(${tile.row(fragment ? first : '0')})`, n: `(${column} + b * ${block})` })
        const mine = [
          ...(measured ? ['column == block_column'] : []),
          ...(fragment ? ['lane % 4 == 0'] : []),
          tile.rowInBounds(fragment ? first : '0'),
        ].join(' && ')
        c.out.line(`if (${mine} && ${column} + b * ${block} < ${c.names.edge('n')}) ${place} = code;`, where)
        c.out.line('#pragma unroll')
        // A NaN in the block is one in all of its elements. Zeros have no sign where there is nothing else.
        c.out.line(
          `for (u32 i = 0; i < ${perBlock / rows}; ++i) ${value}[${index}] = ${symmetric(operand.dtype, `${value}[${index}] * factor`)};`,
          where,
        )
        c.out.block('if (largest == 0.0f)', () => {
          c.out.line('#pragma unroll')
          c.out.line(`for (u32 i = 0; i < ${perBlock / rows}; ++i) ${value}[${index}] = 0.0f;`, where)
        })
      })
    })
  })
}
