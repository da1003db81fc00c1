/**
 * The elementwise part of a tensor-core kernel: loads of epilogue operands, the compute loop over the values that a lane
 * holds of a sub-tile, conversion and direct stores. Which elements these are, register_tile.ts says.
 */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../compiler/dtypes.ts'
import { inBlocks, type TensorOperand } from '../../compiler/ir/tensor.ts'
import { looksUp } from '../../compiler/ir/walk.ts'
import type { AuxLoad, EpilogueOp } from '../../compiler/ir/pipe_epilogue.ts'
import { emitExpressions, literal } from '../cuda/expression.ts'
import type { EmitContext } from './context.ts'
import { emitPacked } from './packed.ts'
import {
  element,
  expressionText,
  fromWord,
  leafText,
  load,
  loadElement,
  operandOf,
  stored,
  type Strides,
} from './epilogue_values.ts'
import { emitFetchedLoad, emitHeldLoad, emitRowsLoad } from './fetch.ts'
import { emitComputed, type Place } from './looked_up.ts'
import { emitColumnsAhead, emitRowsAhead } from './ahead.ts'
import { emitElementsAhead } from './elements_ahead.ts'
import type { RegisterTile } from './register_tile.ts'

type OpOf<K extends EpilogueOp['op']> = Extract<EpilogueOp, { op: K }>

/** Row of value j as a factor. */
const rowOf = (tile: RegisterTile, j: string): string => (tile.columnCount > 1 ? `(${tile.row(j)})` : tile.row(j))

export function emitAuxLoad(op: AuxLoad, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const name = c.names.value(op.operand)
  const type = CUDA_COMPUTE_TYPE[DTYPES[operand.dtype].compute]
  const where = { role: c.role?.name ?? null, note: `load ${op.operand}` }
  const zero = literal(DTYPES[operand.dtype].compute, 0).text
  const { tile } = c
  const guard = op.guard === null ? null : expressionText(op.guard, c)
  const guarded = (condition: string): string =>
    [...(guard === null ? [] : [`${guard} != 0`]), ...(condition ? [condition] : [])].join(' && ')
  const computedValues = (count: number, at: (j: string) => Place, condition: (j: string) => string): void => {
    const assign = (to: string, j: string): void =>
      void c.out.block(`if (${guarded(condition(j)) || 'true'})`, () => emitComputed(c, operand, to, at(j), where))
    if (count === 1) {
      c.out.line(`${type} ${name} = ${zero};`)
      return assign(name, '0')
    }
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 j = 0; j < ${count}; ++j)`, () => {
      c.out.line(`${name}[j] = ${zero};`)
      assign(`${name}[j]`, 'j')
    })
  }
  /** An array of `count` values, or one variable; `at` and `condition` of the value numbered j. */
  const values = (
    count: number,
    at: (j: string) => Place,
    condition: (j: string) => string,
    strides?: Strides,
  ): void => {
    if (operand.computed) return computedValues(count, at, condition)
    const text = (j: string): string => loadElement(c, operand, at(j), guarded(condition(j)), strides)
    if (count === 1) return void c.out.line(`const ${type} ${name} = ${text('0')};`, where)
    c.out.line('#pragma unroll')
    c.out.line(`for (u32 j = 0; j < ${count}; ++j) ${name}[j] = ${text('j')};`, where)
  }
  switch (op.shape) {
    case 'uniform':
      return values(
        1,
        () => ({ m: '0', n: '0' }),
        () => '',
      )
    case 'column':
      if (op.ahead) return emitColumnsAhead(operand, name, c)
      if (tile.columnCount > 1) c.out.line(`${type} ${name}[${tile.columnCount}];`, where)
      // Value j of an operand along m is the one that the tile's value 2j needs.
      return values(
        tile.columnCount,
        (j) => ({ m: rowOf(tile, `2 * ${j}`), n: '0' }),
        (j) => tile.rowInBounds(`2 * ${j}`),
      )
    case 'row': {
      c.out.line(`${type} ${name}[${tile.rowCount}];`, where)
      if (op.ahead) return emitRowsAhead(operand, name, c)
      const column = (j: string): string =>
        tile.rowCount === tile.count ? tile.col(j) : tile.col(`(${j} / 2 * 4 + ${j} % 2)`)
      const elements = (strides?: Strides): void =>
        values(
          tile.rowCount,
          (j) => ({ m: 'row', n: `(${column(j)})` }),
          (j) => `${column(j)} < N`,
          strides,
        )
      if (inBlocks(operand) || operand.computed) return elements()
      // Of a lane's whole row multiples of the stride are many: they are added up, and not kept in registers around loops.
      if (c.program.layout.held === 'row')
        return void c.out.block('', () => {
          c.out.line(`i64 apart = ${c.names.stride(op.operand, c.names.n)};`).line('asm volatile("" : "+l"(apart));')
          elements({ [c.names.n]: 'apart' })
        })
      // Dense and whole, as nearly always: one address, and no test for each value.
      const { subtileColumns } = c.program
      const stride = c.names.stride(op.operand, c.names.n)
      c.out.block(`if (${guarded(`${stride} == 1 && subtile_col + ${subtileColumns} <= N`)})`, () => {
        c.out.line(
          `const ${DTYPES[operand.dtype].cudaStorage}* dense = &${element(c, operand, { m: 'row', n: 'col' })};`,
          where,
        )
        c.out.line('#pragma unroll')
        c.out.line(
          `for (u32 j = 0; j < ${tile.rowCount}; ++j) ${name}[j] = ${load(c, operand, 'dense[j / 2 * 8 + j % 2]')};`,
          where,
        )
      })
      return void c.out.block('else', elements)
    }
    case 'full': {
      c.out.line(`${type} ${name}[${tile.count}];`, where)
      if (op.ahead) return emitElementsAhead(operand, name, op.ahead, c)
      if (op.fetched) return emitFetchedLoad(op, op.fetched, operand, guard, zero, c)
      if (op.stage) return emitHeldLoad(op, op.stage, operand, guard, zero, c)
      if (op.rows) return emitRowsLoad(op, operand, guard, zero, c)
      const elements = (): void =>
        values(
          tile.count,
          (j) => ({ m: rowOf(tile, j), n: `(${tile.col(j)})` }),
          (j) => `${tile.rowInBounds(j)} && ${tile.col(j)} < N`,
        )
      if (!op.vector) return elements()
      const { subtileColumns, layout } = c.program
      if (layout.held === 'row') {
        c.out.block(`if (${guarded(`row_in_bounds && col + ${subtileColumns} <= N`)})`, () =>
          emitVectorLoad(c, operand, name, where),
        )
      } else {
        c.out.block(
          `if (${guarded(`warp_row + ${layout.rowsPerWarp} <= ${c.names.end('m')} && subtile_col + ${subtileColumns} <= N`)})`,
          () => emitPairLoad(c, operand, name, where),
        )
      }
      return void c.out.block('else', elements)
    }
  }
}

/** Both columns of a pair at once: neighbours in memory. */
function emitPairLoad(c: EmitContext, operand: TensorOperand, name: string, where: object): void {
  const { storageBytes, cudaStorage } = DTYPES[operand.dtype]
  const { tile } = c
  const address = element(c, operand, { m: rowOf(tile, 'j'), n: `(${tile.col('j')})` })
  const pair = { 1: 'u16', 2: 'u32', 4: 'uint2' }[storageBytes as 1 | 2 | 4]
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 j = 0; j < ${tile.count}; j += 2)`, () => {
    c.out.line(`const ${pair} both = *reinterpret_cast<const ${pair}*>(&${address});`, where)
    const part = (i: 0 | 1): string => {
      if (storageBytes === 4) return fromWord(cudaStorage, i === 0 ? 'both.x' : 'both.y')
      return `static_cast<${cudaStorage}>(both${i === 0 ? ` & ${storageBytes === 1 ? '0xff' : '0xffff'}` : ` >> ${8 * storageBytes}`})`
    }
    for (const i of [0, 1] as const) c.out.line(`${name}[j + ${i}] = ${load(c, operand, part(i))};`, where)
  })
}

/** Loads of 16 bytes (8 where the row is no longer) of one row's contiguous columns. */
function emitVectorLoad(c: EmitContext, operand: TensorOperand, name: string, where: object): void {
  const { storageBytes, cudaStorage } = DTYPES[operand.dtype]
  const rowBytes = c.program.subtileColumns * storageBytes
  const vectorBytes = Math.min(16, rowBytes)
  const parts = vectorBytes / 4
  const perVector = vectorBytes / storageBytes
  const type = `uint${parts}`
  c.out.line(
    `const ${type}* row_vectors = reinterpret_cast<const ${type}*>(&${element(c, operand, { m: 'row', n: 'col' })});`,
    where,
  )
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${rowBytes / vectorBytes}; ++i)`, () => {
    c.out.line(`const ${type} vector = row_vectors[i];`, where)
    const words = ['x', 'y', 'z', 'w'].slice(0, parts).map((part) => `vector.${part}`)
    c.out.line(`const u32 words[${parts}] = {${words.join(', ')}};`)
    c.out.line('#pragma unroll')
    const bits = { 1: '(words[j / 4] >> j % 4 * 8) & 0xff', 2: '(words[j / 2] >> j % 2 * 16) & 0xffff', 4: 'words[j]' }[
      storageBytes as 1 | 2 | 4
    ]
    const raw = storageBytes === 4 ? fromWord(cudaStorage, bits) : `static_cast<${cudaStorage}>(${bits})`
    c.out.line(
      `for (u32 j = 0; j < ${perVector}; ++j) ${name}[${perVector} * i + j] = ${load(c, operand, raw)};`,
      where,
    )
  })
}

export function emitCompute(op: OpOf<'compute'>, c: EmitContext): void {
  const { count } = c.tile
  for (const { operand, value } of op.outputs)
    c.out.line(`${CUDA_COMPUTE_TYPE[value.type]} ${c.names.value(operand)}[${count}];`)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 j = 0; j < ${count}; ++j)`, () => {
    const nodes = op.outputs.map(({ value }) => value)
    const { statements, values } = emitExpressions(nodes, leafText(c, 'j'), c.expressions)
    c.out.lines(statements, { role: c.role?.name ?? null, note: 'epilogue math', ktl: nodes[0]?.span ?? null })
    for (const [i, { operand, value }] of op.outputs.entries())
      c.out.line(`${c.names.value(operand)}[j] = ${values[i]};`, {
        role: c.role?.name ?? null,
        note: `value of ${operand}`,
        ktl: value.span,
      })
  })
}

export function emitDirectStore(op: OpOf<'direct_store'>, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const where = { role: c.role?.name ?? null, note: `store ${op.operand}` }
  const { tile } = c
  if (DTYPES[operand.dtype].bits < 8) return emitPacked(operand, c)
  const target = op.places
    ? scatterTarget(operand, op.places, c)
    : { inside: '', at: element(c, operand, { m: rowOf(tile, 'j'), n: `(${tile.col('j')})` }) }
  const store = (value: string): string => {
    if (!op.places) return `${target.at} = ${value}`
    c.functions.add('ktl_scatter')
    return `ktl_scatter(&${target.at}, ${value})`
  }
  const each = (condition: string): void => {
    c.out.line('#pragma unroll')
    c.out.line(
      `for (u32 j = 0; j < ${tile.count}; ++j) if (${condition}${tile.col('j')} < ${c.names.edge('n')}${target.inside}) ${store(stored(c, op.operand, 'j'))};`,
      where,
    )
  }
  // A lane of rows has one to be in bounds or not.
  if (tile.columnCount === 1) c.out.block(`if (${tile.rowInBounds('0')})`, () => each(''))
  else each(`${tile.rowInBounds('j')} && `)
}

/** Where value j goes, and the condition under which there is such a place. */
function scatterTarget(
  operand: TensorOperand,
  places: readonly string[],
  c: EmitContext,
): { readonly inside: string; readonly at: string } {
  const { names, tile } = c
  const conditions: string[] = []
  const terms = operand.axes.map((axis, i) => {
    const place = places[i]!
    const stride = names.stride(operand.name, axis)
    if (place === names.m) return `(i64)(${tile.row('j')}) * ${stride}`
    if (place === names.n) return `(i64)(${tile.col('j')}) * ${stride}`
    if (place === names.l) return `at.l * ${stride}`
    const { computed, axes, type } = { ...operandOf(c, place), type: 'i32' as const }
    const value = leafText(c, 'j')({ kind: 'input', operand: place, type, axes, span: null })!
    if (looksUp(computed!)) c.functions.add('ktl_inside')
    conditions.push(
      looksUp(computed!)
        ? ` && ktl_inside(${value}, ${names.extent(axis)})`
        : ` && (u32)${value} < (u32)${names.extent(axis)}`,
    )
    return `(i64)${value} * ${stride}`
  })
  return { inside: conditions.join(''), at: `${names.operand(operand.name)}[${terms.join(' + ')}]` }
}
