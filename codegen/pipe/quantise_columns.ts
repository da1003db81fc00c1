/**
 * Tile IR → CUDA statements: outputs in stored forms whose blocks are rows of a column. Magnitudes are compared as words: those of floats
 * without a sign lie in their order, NaN above all.
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { EpilogueOp, Quantise } from '../../compiler/ir/pipe_epilogue.ts'
import { blockText, elementText, factorText, normText, scaleCode } from '../cuda/quantise.ts'
import { bufferOf, call, call0, note, slotAddress, type EmitContext } from './context.ts'
import { element, operandOf, subtileColumn } from './epilogue_values.ts'

type ShareLargest = Extract<EpilogueOp, { op: 'share_largest' }>

/** Which columns, of which blocks, a lane finds the largest magnitudes of. */
interface Held {
  /** Of a lane. */
  readonly count: number
  /** Place among them of the block that value j is in, where all lanes have those of their own values; of a lane's row otherwise. */
  of(j: string): string
  /** Column of the i-th in the sub-tile, and a row of its block. */
  column(i: string): string
  row(i: string): string
  /** Is this lane the one that speaks for its blocks? */
  readonly speaks: string
}

const rowsOfWarp = (c: EmitContext, block: number): number => Math.min(block, c.program.layout.rowsPerWarp)

function heldBy(c: EmitContext, block: number): Held {
  const { tile } = c
  const { held, rowsPerWarp } = c.program.layout
  const rows = rowsOfWarp(c, block)
  if (held === 'row') {
    // Lane l of those that have a block keeps columns l, l + rows, …
    return {
      count: Math.ceil(tile.count / rows),
      of: (j) => `${j} / ${rows}`,
      column: (i) => `(lane % ${rows} + ${i} * ${rows})`,
      row: () => 'row',
      speaks: rowsPerWarp < 32 ? 'lane < ROWS_PER_WARP' : 'true',
    }
  }
  // Rows r and r + 8 are of one block, or of one each.
  const sets = rows === 8 ? 2 : 1
  return {
    count: tile.rowCount * sets,
    of: (j) => (sets === 1 ? tile.rowIndex(j) : `(${tile.rowIndex(j)}) * 2 + ${tile.columnIndex(j)}`),
    column: (i) => {
      const pair = sets === 1 ? i : `${i} / 2`
      return `(${pair} / 2 * 8 + lane % 4 * 2 + ${pair} % 2)`
    },
    row: (i) => (sets === 1 ? 'row' : `(row + ${i} % 2 * 8)`),
    speaks: 'lane < 4',
  }
}

/** `most`: the largest magnitudes of this warp's rows of each block; what lies past the edge counts as 0. */
function emitMost(operand: string, block: number, c: EmitContext): void {
  const { tile } = c
  const value = c.names.value(operand)
  const where = note(c, `quantise ${operand}`)
  const rows = rowsOfWarp(c, block)
  const { count, of } = heldBy(c, block)
  c.out.line('// What lies past the edge counts as 0.')
  c.out.line('#pragma unroll')
  c.out.line(`for (u32 j = 0; j < ${tile.count}; ++j) if (!(${tile.rowInBounds('j')})) ${value}[j] = 0.0f;`, where)
  c.out.line(`u32 most[${count}] = {};`)
  c.out.line('#pragma unroll')
  if (c.program.layout.held === 'fragment') {
    c.out.line(
      `for (u32 j = 0; j < ${tile.count}; ++j) most[${of('j')}] = max(most[${of('j')}], __float_as_uint(fabsf(${value}[j])));`,
      where,
    )
    c.out.line('#pragma unroll')
    const across = [4, 8, 16].map((mask) => `most[i] = max(most[i], __shfl_xor_sync(~0u, most[i], ${mask}));`)
    c.out.line(`for (u32 i = 0; i < ${count}; ++i) { ${across.join(' ')} }`, where)
    return
  }
  c.out.block(`for (u32 j = 0; j < ${tile.count}; ++j)`, () => {
    c.out.line(`u32 column = __float_as_uint(fabsf(${value}[j]));`, where)
    if (rows === 32) c.out.line('column = __reduce_max_sync(~0u, column);', where)
    else
      for (let mask = rows / 2; mask >= 1; mask /= 2)
        c.out.line(`column = max(column, __shfl_xor_sync(~0u, column, ${mask}));`, where)
    c.out.line(`if (lane % ${rows} == j % ${rows}) most[${of('j')}] = column;`)
  })
}

/** In shared memory, a word for each column of each warp. */
const sharedWord = (c: EmitContext, buffer: string, warp: string, column: string): string =>
  `${slotAddress(c, buffer)} + (${warp} * ${c.program.subtileColumns} + ${column}) * 4`

export function emitShareLargest({ operand, buffer }: ShareLargest, c: EmitContext): void {
  const { subtileColumns, layout } = c.program
  // All rows of the warp are of one block.
  const block = layout.rowsPerWarp
  const { count, column, speaks } = heldBy(c, block)
  c.out.block('', () => {
    emitMost(operand, block, c)
    c.out.line('#pragma unroll')
    const store = call(c, 'store_shared_b32', sharedWord(c, buffer, 'warp', column('i')), 'most[i]')
    c.out.line(
      `for (u32 i = 0; i < ${count}; ++i) if (${speaks} && ${column('i')} < ${subtileColumns}) ${store}`,
      note(c, `largest magnitudes of ${operand}`),
    )
  })
}

/** Largest magnitudes of whole blocks, from all warps that have a part of them. */
function emitShared(buffer: string, block: number, c: EmitContext): void {
  const { count, column } = heldBy(c, block)
  const warps = block / c.program.layout.rowsPerWarp
  const all = bufferOf(c.program, buffer).slotBytes / c.program.subtileColumns / 4
  const first = warps === all ? '' : `warp / ${warps} * ${warps} + `
  c.out.line(`u32 most[${count}] = {};`)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
    c.out.line('#pragma unroll')
    const word = call0(
      c,
      'load_shared',
      sharedWord(c, buffer, `(${first}w)`, `(${column('i')} % ${c.program.subtileColumns})`),
    )
    c.out.line(`for (u32 w = 0; w < ${warps}; ++w) most[i] = max(most[i], ${word});`, note(c, 'largest of the block'))
  })
}

export function emitQuantiseColumns(op: Quantise, c: EmitContext): void {
  const { block, form, shared } = op
  const { tile } = c
  const { subtileColumns, layout } = c.program
  const operand = operandOf(c, op.operand)
  const scale = operandOf(c, form.scale!)
  const { cudaStorage } = DTYPES[scale.dtype]
  const value = c.names.value(op.operand)
  const where = note(c, `quantise ${op.operand}`)
  const scalar = (name: string | null): string | null => (name === null ? null : c.names.scalar(name))
  const known = form.global === null ? '' : 'norm'
  const isRow = layout.held === 'row'
  const { count, of, column, row, speaks } = heldBy(c, block)
  const first = subtileColumn(c)
  /** The first row of its block exists: tiles begin with a block, those of a group where that does. */
  const firstRow = (at: string): string =>
    c.program.domain.groups?.along === 'm'
      ? `at.m + (${at} - at.m) / ${block} * ${block} < ${c.names.edge('m')}`
      : `${at} / ${block} * ${block} < M`
  c.out.block('', () => {
    if (form.global !== null) c.out.line(`const float norm = ${normText(scalar(form.global), scalar(form.norm))};`)
    if (shared === null) emitMost(op.operand, block, c)
    else emitShared(shared, block, c)
    c.out.line(`float factor[${count}];`)
    // A block of zeros has no signs.
    c.out.line(`[[maybe_unused]] u32 empty[${count}];`)
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${count}; ++i)`, () => {
      c.out.line('const float largest = __uint_as_float(most[i]);')
      const code = scaleCode(operand.dtype, scale.dtype, form.rounding, 'largest', known, c.functions)
      c.out.line(`const ${cudaStorage} code = ${code};`, where)
      const text = factorText(scale.dtype, 'code', known, c.functions)
      c.out.line(`factor[i] = largest == largest ? ${text} : __uint_as_float(0x7fffffffu);`)
      c.out.line(`empty[i] = ${isRow ? '__ballot_sync(~0u, largest == 0.0f)' : 'largest == 0.0f'};`)
      const place = element(c, scale, { m: `(${row('i')})`, n: `(${first} + ${column('i')})` })
      const inside = [
        ...(speaks === 'true' ? [] : [speaks]),
        // Warps of a block find the same.
        ...(shared === null ? [] : [`warp % ${block / layout.rowsPerWarp} == 0`]),
        `${column('i')} < ${subtileColumns} && ${first} + ${column('i')} < ${c.names.edge('n')}`,
        firstRow(row('i')),
      ]
      c.out.line(`if (${inside.join(' && ')}) ${place} = code;`, where)
    })
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = 0; j < ${tile.count}; ++j)`, () => {
      const rows = rowsOfWarp(c, block)
      const lane = rows === 32 ? `j % ${rows}` : `lane / ${rows} * ${rows} + j % ${rows}`
      const own = `factor[${of('j')}]`
      c.out.line(`const float times = ${isRow ? `__shfl_sync(~0u, ${own}, ${lane})` : own};`, where)
      const bound = blockText(operand.dtype, 'bound', 'times')
      const isEmpty = isRow ? `empty[${of('j')}] >> (${lane}) & 1` : `empty[${of('j')}]`
      c.out.line(bound ?? `const float zero = ${isEmpty} ? 0.0f : -0.0f;`)
      const names = { value: `${value}[j]`, factor: 'times', zero: 'zero', bound: 'bound' }
      c.out.line(`${value}[j] = ${elementText(form, [operand.dtype, scale.dtype], names, c.functions)};`, where)
    })
  })
}
