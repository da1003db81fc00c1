/**
 * The elementwise part of an SM100 kernel: loads of epilogue operands, the compute loop over a sub-tile's columns
 * (each lane owns one row), conversion and stores.
 */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../compiler/dtypes.ts'
import { pointerOperand } from '../../compiler/sm100/plan.ts'
import type { Node, TensorOperand } from '../../compiler/tensor_ir.ts'
import type { AuxLoad, StoreOp, TileOp } from '../../compiler/tile_ir.ts'
import { emitExpression, emitExpressions, literal, loadConversion, storeConversion } from '../expression.ts'
import { slotAddress, type EmitContext } from './context.ts'

type OpOf<K extends TileOp['op']> = Extract<TileOp, { op: K }>

const operandOf = (c: EmitContext, name: string): TensorOperand => {
  const { operands, scalars } = c.program.tensor
  return operands.find((o) => o.name === name) ?? pointerOperand(scalars.find((s) => s.name === name)!)
}

/** Element address from tile-space coordinates; axes the operand lacks are left out. */
function element(c: EmitContext, operand: TensorOperand, at: Readonly<Record<'m' | 'n', string>>): string {
  const { names } = c
  const terms = operand.axes.map((axis) => {
    const position = axis === names.gemm.m ? at.m : axis === names.gemm.n ? at.n : 'at.l'
    return `${position} * ${names.stride(operand.name, axis)}`
  })
  return `${names.operand(operand.name)}[${terms.join(' + ') || '0'}]`
}

const load = (c: EmitContext, operand: TensorOperand, text: string): string =>
  loadConversion(operand.dtype, text, c.functions)

export function emitAuxLoad(op: AuxLoad, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const name = c.names.value(op.operand)
  const type = CUDA_COMPUTE_TYPE[DTYPES[operand.dtype].compute]
  const where = { role: 'epilogue', note: `load ${op.operand}` }
  const zero = literal(DTYPES[operand.dtype].compute, 0).text
  const columns = c.program.subtileColumns
  const each = op.shape === 'full' || op.shape === 'row'
  const guard = op.guard === null ? null : expressionText(op.guard, c)
  const guarded = (condition: string): string => (guard === null ? condition : `${guard} != 0 && ${condition}`)

  if (!each) {
    const condition = guarded(op.shape === 'column' ? 'row_in_bounds' : 'true')
    const value = load(c, operand, element(c, operand, { m: 'row', n: '0' }))
    c.out.line(`const ${type} ${name} = ${condition === 'true' ? value : `${condition} ? ${value} : ${zero}`};`, where)
    return
  }
  c.out.line(`${type} ${name}[${columns}];`, where)
  const scalarLoop = (): void => {
    const inBounds = guarded(op.shape === 'full' ? 'row_in_bounds && col + j < N' : 'col + j < N')
    c.out.line('#pragma unroll')
    c.out.line(`for (u32 j = 0; j < ${columns}; ++j) ${name}[j] = ${inBounds} ? ${load(c, operand, element(c, operand, { m: 'row', n: '(col + j)' }))} : ${zero};`, where) // prettier-ignore
  }
  if (!op.vector) return scalarLoop()
  c.out.block(`if (${guarded(`row_in_bounds && col + ${columns} <= N`)})`, () =>
    emitVectorLoad(c, operand, name, where),
  )
  c.out.block('else', scalarLoop)
}

/** 16-byte loads of one row's contiguous columns. */
function emitVectorLoad(c: EmitContext, operand: TensorOperand, name: string, where: object): void {
  const storage = DTYPES[operand.dtype]
  const perVector = 16 / storage.storageBytes
  const vectors = c.program.subtileColumns / perVector
  c.out.line(`const uint4* row_vectors = reinterpret_cast<const uint4*>(&${element(c, operand, { m: 'row', n: 'col' })});`, where) // prettier-ignore
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 i = 0; i < ${vectors}; ++i)`, () => {
    c.out.line('const uint4 vector = row_vectors[i];', where)
    c.out.line('const u32 words[4] = {vector.x, vector.y, vector.z, vector.w};')
    c.out.line('#pragma unroll')
    const perWord = 4 / storage.storageBytes
    const bits = { 1: '(words[j / 4] >> j % 4 * 8) & 0xff', 2: '(words[j / 2] >> j % 2 * 16) & 0xffff', 4: 'words[j]' }[
      storage.storageBytes as 1 | 2 | 4
    ]
    const raw = storage.storageBytes === 4 ? fromWord(storage.cudaStorage, bits) : `static_cast<${storage.cudaStorage}>(${bits})` // prettier-ignore
    c.out.line(
      `for (u32 j = 0; j < ${4 * perWord}; ++j) ${name}[${perVector} * i + j] = ${load(c, operand, raw)};`,
      where,
    )
  })
}

const fromWord = (storage: string, word: string): string =>
  storage === 'float' ? `__uint_as_float(${word})` : `static_cast<${storage}>(${word})`

/** A value that does not vary within the tile, as one CUDA expression. */
function expressionText(node: Node, c: EmitContext): string {
  const { statements, value } = emitExpression(node, leafText(c, null), c.expressions)
  c.out.lines(statements)
  return value
}

/** `j` null: outside the column loop. */
const leafText =
  (c: EmitContext, j: string | null) =>
  (node: Node): string | null => {
    switch (node.kind) {
      case 'contract':
        return `__uint_as_float(sum[${j}])`
      case 'scalar':
        return c.program.tensor.scalars.find((s) => s.name === node.operand)!.pointer
          ? c.names.value(node.operand)
          : c.names.scalar(node.operand)
      case 'size':
        return c.names.extent(node.axis)
      case 'input': {
        const varies = operandOf(c, node.operand).axes.includes(c.names.gemm.n)
        return varies ? `${c.names.value(node.operand)}[${j}]` : c.names.value(node.operand)
      }
      default:
        return null
    }
  }

export function emitCompute(op: OpOf<'compute'>, c: EmitContext): void {
  const columns = c.program.subtileColumns
  for (const { operand, value } of op.outputs)
    c.out.line(`${CUDA_COMPUTE_TYPE[value.type]} ${c.names.value(operand)}[${columns}];`)
  c.out.line('#pragma unroll')
  c.out.block(`for (u32 j = 0; j < ${columns}; ++j)`, () => {
    const nodes = op.outputs.map(({ value }) => value)
    const { statements, values } = emitExpressions(nodes, leafText(c, 'j'), c.expressions)
    c.out.lines(statements, { role: 'epilogue', note: 'epilogue math', ktl: nodes[0]?.span ?? null })
    for (const [i, { operand, value }] of op.outputs.entries())
      c.out.line(`${c.names.value(operand)}[j] = ${values[i]};`, { role: 'epilogue', note: `value of ${operand}`, ktl: value.span }) // prettier-ignore
  })
}

/** Storage bits of value `j`, as the operand's CUDA storage type. */
const stored = (c: EmitContext, operand: string, j: string): string => {
  const { value } = c.program.tensor.outputs.find((o) => o.operand === operand)!
  return storeConversion(operandOf(c, operand).dtype, value.type, `${c.names.value(operand)}[${j}]`, c.functions)
}

/** 32-bit words holding 1, 2 or 4 consecutive columns, the first of them `base + offset`. */
function word(c: EmitContext, op: StoreOp, base: string, offset = 0): string {
  const at = (i: number): string => (offset + i === 0 ? base : `${base} + ${offset + i}`)
  if (op.bytes === 4) {
    const bits = stored(c, op.operand, at(0))
    return operandOf(c, op.operand).dtype === 'f32' ? `__float_as_uint(${bits})` : `static_cast<u32>(${bits})`
  }
  const { dtype } = operandOf(c, op.operand)
  const value = c.names.value(op.operand)
  if (op.bytes === 2 && c.program.tensor.outputs.find((o) => o.operand === op.operand)!.value.type === 'f32') {
    c.functions.add(`ktl_f32x2_to_${dtype}x2`)
    return `ktl_f32x2_to_${dtype}x2(${value}[${at(0)}], ${value}[${at(1)}])`
  }
  const perWord = 4 / op.bytes
  return Array.from({ length: perWord }, (_, i) => {
    const bits = `static_cast<u32>(${stored(c, op.operand, at(i))})`
    return i === 0 ? bits : `${bits} << ${8 * op.bytes * i}`
  }).join(' | ')
}

export function emitStageWrite(op: OpOf<'stage_write'>, c: EmitContext): void {
  const { subtileColumns: columns, rowsPerWarp: rows } = c.program
  const where = { role: 'epilogue', note: `stage ${op.operand}` }
  const write = (): void => {
    c.out.line(`const u32 slot = ${slotAddress(c, op.buffer)};`, where)
    if (op.contiguous === 'm') {
      // Dense columns of `rows` elements: consecutive lanes write consecutive elements.
      c.wrappers.add(`store_shared_b${8 * op.bytes}`)
      c.out.line('#pragma unroll')
      const bits = op.bytes === 4 ? word(c, op, 'j') : stored(c, op.operand, 'j')
      c.out.line(`for (u32 j = 0; j < ${columns}; ++j) store_shared_b${8 * op.bytes}(slot + (j * ${rows} + lane) * ${op.bytes}, ${bits});`, where) // prettier-ignore
      return
    }
    // One row per lane; 16-byte chunks move by the swizzle's XOR, which spreads the lanes over the banks.
    c.wrappers.add('store_shared_v4')
    const pitch = columns * op.bytes
    const chunks = pitch / 16
    const xor = chunks === 8 ? 'lane % 8' : chunks === 4 ? 'lane / 2 % 4' : 'lane / 4 % 2'
    const perWord = 4 / op.bytes
    const words = [0, 1, 2, 3].map((w) => word(c, op, `${4 * perWord} * i`, w * perWord))
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${chunks}; ++i)`, () => {
      for (const [w, text] of words.entries()) c.out.line(`const u32 w${w} = ${text};`, where)
      c.out.line(`store_shared_v4(slot + lane * ${pitch} + (i ^ ${xor}) * 16, w0, w1, w2, w3);`, where)
    })
  }
  if (rows < 32) c.out.block(`if (lane < ${rows})`, write)
  else c.out.line('{').indented(write).line('}')
}

export function emitDirectStore(op: OpOf<'direct_store'>, c: EmitContext): void {
  const operand = operandOf(c, op.operand)
  const where = { role: 'epilogue', note: `store ${op.operand}` }
  c.out.block('if (row_in_bounds)', () => {
    c.out.line('#pragma unroll')
    const target = element(c, operand, { m: 'row', n: '(col + j)' })
    c.out.line(`for (u32 j = 0; j < ${c.program.subtileColumns}; ++j) if (col + j < N) ${target} = ${stored(c, op.operand, 'j')};`, where) // prettier-ignore
  })
}
