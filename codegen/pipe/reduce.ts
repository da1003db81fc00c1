/**
 * Reductions that are outputs: what the epilogue warps leave in the workspace. Partial results of a reduction lie there as
 * [batch][m][n], where m is a row or, if the output does not keep m, one warp's rows, and n a column or the columns that a warp
 * holds of one tile. Elements outside the problem count as the identity.
 */
import { CUDA_COMPUTE_TYPE } from '../../compiler/dtypes.ts'
import { REDUCTIONS } from '../../compiler/ops.ts'
import type { AccumulatorLayout } from '../../compiler/targets/tensor_core/accumulators.ts'
import type { ReductionOutput } from '../../compiler/ir/pipe.ts'
import { literal } from '../cuda/expression.ts'
import { note, type EmitContext } from './context.ts'
import { firstColumn } from './fragments.ts'

/** How values are combined. */
type Reduced = Pick<ReductionOutput, 'fn' | 'type'>

/** `a` and `b` combined, as a CUDA expression. */
export function combined({ fn, type }: Reduced, a: string, b: string, functions: Set<string>): string {
  const { combine } = REDUCTIONS[fn]
  if (combine === 'add' && type !== 'i32') return `${a} + ${b}`
  const name = `ktl_${combine}_${type}`
  functions.add(name)
  return `${name}(${a}, ${b})`
}

export const identityOf = ({ fn, type }: Reduced): string => literal(type, REDUCTIONS[fn].identity(type)).text

/** Places along m and along n that the workspace of a reduction has in each batch. */
export function placesOf(
  { keepsM, keepsN }: Pick<ReductionOutput, 'keepsM' | 'keepsN'>,
  layout: AccumulatorLayout,
): { m: string; n: string } {
  const parts = (extent: string, size: number): string => `((${extent} + ${size - 1}) / ${size})`
  return { m: keepsM ? 'M' : parts('M', layout.rowsPerWarp), n: keepsN ? 'N' : parts('N', layout.columns) }
}

/** Statement that makes `name` of every lane the combination of all lanes' in a fixed order. */
export const acrossLanes = (node: Reduced, name: string, functions: Set<string>): string =>
  `for (u32 i = 16; i > 0; i /= 2) ${name} = ${combined(node, name, `__shfl_xor_sync(0xffffffff, ${name}, i)`, functions)};`

export const workspaceOf = (operand: string): string => `partial_${operand}`
const totalOf = (c: EmitContext, { operand }: ReductionOutput): string => `total_${c.names.value(operand)}`

const reductionOf = (c: EmitContext, operand: string): ReductionOutput =>
  c.program.reductions.find((reduction) => reduction.operand === operand)!

function place(c: EmitContext, op: ReductionOutput, m: string, n: string): string {
  const places = placesOf(op, c.program.layout)
  const batch = c.names.l === null ? '' : `u64(at.l) * ${places.m} * ${places.n} + `
  return `${workspaceOf(c.names.operand(op.operand))}[${batch}u64(${m}) * ${places.n} + ${n}]`
}

export function emitReduceBegin({ operand }: { readonly operand: string }, c: EmitContext): void {
  const op = reductionOf(c, operand)
  if (c.program.layout.held === 'fragment') return beginFragment(op, c)
  c.out.line(`${CUDA_COMPUTE_TYPE[op.type]} ${totalOf(c, op)} = ${identityOf(op)};`, note(c, `reduce ${op.operand}`))
}

export function emitReduceSubtile({ operand }: { readonly operand: string }, c: EmitContext): void {
  const op = reductionOf(c, operand)
  if (c.program.layout.held === 'fragment') return reduceFragment(op, c)
  const { keepsM, keepsN } = op
  const columns = c.program.subtileColumns
  const where = note(c, `reduce ${operand}`)
  const value = `${c.names.value(operand)}[j]`
  const each = (body: () => void): void => {
    c.out.line('#pragma unroll').block(`for (u32 j = 0; j < ${columns}; ++j)`, body)
  }
  if (!keepsN) {
    const total = totalOf(c, op)
    return each(() => c.out.line(`if (col + j < N) ${total} = ${combined(op, total, value, c.functions)};`, where))
  }
  if (keepsM) {
    c.out.block('if (row_in_bounds)', () =>
      each(() => c.out.line(`if (col + j < N) ${place(c, op, 'row', 'col + j')} = ${value};`, where)),
    )
    return
  }
  const type = CUDA_COMPUTE_TYPE[op.type]
  c.out.block('', () => {
    c.out.line(`${type} mine = ${identityOf(op)};  // lane j keeps column j`)
    each(() => {
      c.out.line(`${type} rows = row_in_bounds ? ${value} : ${identityOf(op)};`, where)
      c.out.line('#pragma unroll').line(acrossLanes(op, 'rows', c.functions), where)
      c.out.line('if (lane == j) mine = rows;')
    })
    c.out.line(
      `if (lane < ${columns} && col + lane < N && warp_row < M) ${place(c, op, 'warp_row / ROWS_PER_WARP', 'col + lane')} = mine;`,
      where,
    )
  })
}

export function emitReduceEnd({ operand }: { readonly operand: string }, c: EmitContext): void {
  const op = reductionOf(c, operand)
  if (c.program.layout.held === 'fragment') return endFragment(op, c)
  const { columns, columnHalves } = c.program.layout
  const where = note(c, `reduce ${op.operand}`)
  const total = totalOf(c, op)
  c.out.block('', () => {
    c.out.line(`const u32 first = at.n${columnHalves === 2 ? ` + warp / 2 * ${columns}` : ''};  // column`)
    if (op.keepsM) {
      c.out.line(`if (row_in_bounds && first < N) ${place(c, op, 'row', `first / ${columns}`)} = ${total};`, where)
      return
    }
    c.out.line(`if (!row_in_bounds) ${total} = ${identityOf(op)};`)
    c.out.line('#pragma unroll').line(acrossLanes(op, total, c.functions), where)
    c.out.line(
      `if (lane == 0 && warp_row < M && first < N) ${place(c, op, 'warp_row / ROWS_PER_WARP', `first / ${columns}`)} = ${total};`,
      where,
    )
  })
}

/** A lane of fragments has a total of each of its two rows. */
function beginFragment(op: ReductionOutput, c: EmitContext): void {
  const identity = identityOf(op)
  c.out.line(
    `${CUDA_COMPUTE_TYPE[op.type]} ${totalOf(c, op)}[2] = {${identity}, ${identity}};`,
    note(c, `reduce ${op.operand}`),
  )
}

function reduceFragment(op: ReductionOutput, c: EmitContext): void {
  const { keepsM, keepsN, operand } = op
  const { tile } = c
  const where = note(c, `reduce ${operand}`)
  const value = c.names.value(operand)
  const each = (count: number, body: () => void): void => {
    c.out.line('#pragma unroll').block(`for (u32 j = 0; j < ${count}; ++j)`, body)
  }
  if (!keepsN) {
    const total = `${totalOf(c, op)}[${tile.columnIndex('j')}]`
    return each(tile.count, () =>
      c.out.line(`if (${tile.col('j')} < N) ${total} = ${combined(op, total, `${value}[j]`, c.functions)};`, where),
    )
  }
  if (keepsM)
    return each(tile.count, () =>
      c.out.line(
        `if (${tile.rowInBounds('j')} && ${tile.col('j')} < N) ${place(c, op, tile.row('j'), tile.col('j'))} = ${value}[j];`,
        where,
      ),
    )
  // Both rows of a lane, then those of the 8 lanes that have the same columns.
  each(tile.rowCount, () => {
    c.out.line('const u32 upper = j / 2 * 4 + j % 2, lower = upper + 2;')
    const bounded = (i: string): string => `(${tile.rowInBounds(i)} ? ${value}[${i}] : ${identityOf(op)})`
    c.out.line(
      `${CUDA_COMPUTE_TYPE[op.type]} rows = ${combined(op, bounded('upper'), bounded('lower'), c.functions)};`,
      where,
    )
    c.out
      .line('#pragma unroll')
      .line(
        `for (u32 i = 16; i > 2; i /= 2) rows = ${combined(op, 'rows', '__shfl_xor_sync(0xffffffff, rows, i)', c.functions)};`,
        where,
      )
    c.out.line(
      `if (lane < 4 && ${tile.col('upper')} < N && warp_row < M) ${place(c, op, 'warp_row / ROWS_PER_WARP', tile.col('upper'))} = rows;`,
      where,
    )
  })
}

function endFragment(op: ReductionOutput, c: EmitContext): void {
  const { keepsM } = op
  const { columns } = c.program.layout
  const where = note(c, `reduce ${op.operand}`)
  const total = totalOf(c, op)
  c.out.block('', () => {
    c.out.line(`const u32 first = ${firstColumn(c)};  // column`)
    if (keepsM) {
      c.out.line('#pragma unroll')
      c.out.block('for (u32 h = 0; h < 2; ++h)', () => {
        c.out
          .line('#pragma unroll')
          .line(
            `for (u32 i = 2; i > 0; i /= 2) ${total}[h] = ${combined(op, `${total}[h]`, `__shfl_xor_sync(0xffffffff, ${total}[h], i)`, c.functions)};`,
            where,
          )
        c.out.line(
          `if (lane % 4 == 0 && row + 8 * h < M && first < N) ${place(c, op, 'row + 8 * h', `first / ${columns}`)} = ${total}[h];`,
          where,
        )
      })
      return
    }
    const bounded = (h: 0 | 1): string => `(row + ${8 * h} < M ? ${total}[${h}] : ${identityOf(op)})`
    c.out.line(`${CUDA_COMPUTE_TYPE[op.type]} both = ${combined(op, bounded(0), bounded(1), c.functions)};`, where)
    c.out.line('#pragma unroll').line(acrossLanes(op, 'both', c.functions), where)
    c.out.line(
      `if (lane == 0 && warp_row < M && first < N) ${place(c, op, 'warp_row / ROWS_PER_WARP', `first / ${columns}`)} = both;`,
      where,
    )
  })
}
