/**
 * The elementwise part of an SM100 kernel: loads of epilogue operands, the compute loop over a sub-tile's columns
 * (each lane owns one row), conversion and stores.
 */
import { CUDA_COMPUTE_TYPE, DTYPES } from '../../compiler/dtypes.ts'
import { pointerOperand } from '../../compiler/sm100/epilogue.ts'
import type { ComputeType, ContractNode, Node, TensorOperand } from '../../compiler/tensor_ir.ts'
import type { AuxLoad, EpilogueOp, StagingSwizzle, StoreOp } from '../../compiler/tile_ir_epilogue.ts'
import { emitExpression, emitExpressions, literal, loadConversion, storeConversion } from '../expression.ts'
import { slotAddress, type EmitContext } from './context.ts'

type OpOf<K extends EpilogueOp['op']> = Extract<EpilogueOp, { op: K }>

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

/** Loads of 16 bytes (8 where the row is no longer) of one row's contiguous columns. */
function emitVectorLoad(c: EmitContext, operand: TensorOperand, name: string, where: object): void {
  const { storageBytes, cudaStorage } = DTYPES[operand.dtype]
  const rowBytes = c.program.subtileColumns * storageBytes
  const vectorBytes = Math.min(16, rowBytes)
  const parts = vectorBytes / 4
  const perVector = vectorBytes / storageBytes
  const type = `uint${parts}`
  c.out.line(`const ${type}* row_vectors = reinterpret_cast<const ${type}*>(&${element(c, operand, { m: 'row', n: 'col' })});`, where) // prettier-ignore
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
        return accumulated(c, node, j)
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

/** Element `j` of an accumulator: the cell holds f32 or i32 bits, or an f16 in its low half. */
function accumulated(c: EmitContext, node: ContractNode, j: string | null): string {
  const product = c.names.gemm.products.findIndex(({ contraction }) => contraction === node)
  const cell = `sum${product}[${j}]`
  if (node.accumulator === 'f16') return loadConversion('f16', `static_cast<unsigned short>(${cell})`, c.functions)
  return node.accumulator === 'i32' ? `static_cast<int>(${cell})` : `__uint_as_float(${cell})`
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

const valueType = (c: EmitContext, operand: string): ComputeType =>
  c.program.tensor.outputs.find((o) => o.operand === operand)!.value.type

/** Value `j` as the operand's CUDA storage type. */
const stored = (c: EmitContext, operand: string, j: string): string =>
  storeConversion(operandOf(c, operand).dtype, valueType(c, operand), `${c.names.value(operand)}[${j}]`, c.functions)

/** Storage bits of value `j` as a 32-bit word. */
function storedBits(c: EmitContext, operand: string, j: string): string {
  const { cudaStorage } = DTYPES[operandOf(c, operand).dtype]
  if (cudaStorage === 'float') return `__float_as_uint(${stored(c, operand, j)})`
  // Sign bits must not reach the neighbours in a packed word.
  const bits =
    cudaStorage === 'signed char' ? `static_cast<unsigned char>(${stored(c, operand, j)})` : stored(c, operand, j)
  return cudaStorage === 'unsigned int' ? bits : `static_cast<u32>(${bits})`
}

/** Formats that one instruction converts a pair of floats to. */
const PAIRED: readonly string[] = ['f16', 'bf16', 'e4m3', 'e5m2']

/** A 32-bit word of 1, 2 or 4 consecutive columns, the first of them `base + offset`. */
function word(c: EmitContext, op: StoreOp, base: string, offset: number): string {
  const { dtype } = operandOf(c, op.operand)
  const value = c.names.value(op.operand)
  const paired = PAIRED.includes(dtype) && valueType(c, op.operand) === 'f32'
  const at = (i: number): string => (offset + i === 0 ? base : `${base} + ${offset + i}`)
  const width = paired ? 2 : 1
  const parts = Array.from({ length: 4 / op.bytes / width }, (_, i) => {
    if (!paired) return storedBits(c, op.operand, at(i))
    const fn = `ktl_f32x2_to_${dtype}x2`
    c.functions.add(fn)
    const pair = `${fn}(${value}[${at(2 * i)}], ${value}[${at(2 * i + 1)}])`
    return op.bytes === 2 ? pair : `static_cast<u32>(${pair})`
  })
  return parts.map((part, i) => (i === 0 ? part : `${part} << ${8 * op.bytes * width * i}`)).join(' | ')
}

/** XOR of a lane's 16-byte chunks: bits 4… of an address with bits 7… (PTX ISA 5.5.7). */
const SWIZZLE_XOR: Readonly<Record<StagingSwizzle, string>> = {
  none: '', '32B': 'lane / 4 % 2', '64B': 'lane / 2 % 4', '128B': 'lane % 8',
} // prettier-ignore

export function emitStageWrite(op: OpOf<'stage_write'>, c: EmitContext): void {
  const { subtileColumns: columns, layout: { rowsPerWarp: rows } } = c.program // prettier-ignore
  const where = { role: 'epilogue', note: `stage ${op.operand}` }
  const write = (): void => {
    c.out.line(`const u32 slot = ${slotAddress(c, op.buffer)};`, where)
    if (op.contiguous === 'm') {
      // Dense columns of `rows` elements: consecutive lanes write consecutive elements.
      const store = `store_shared_b${8 * op.bytes}`
      c.wrappers.add(store)
      c.out.line('#pragma unroll')
      const bits = op.bytes === 2 ? stored(c, op.operand, 'j') : storedBits(c, op.operand, 'j')
      c.out.line(`for (u32 j = 0; j < ${columns}; ++j) ${store}(slot + (j * ${rows} + lane) * ${op.bytes}, ${bits});`, where) // prettier-ignore
      return
    }
    // One row per lane; 16-byte chunks move by the swizzle's XOR, which spreads the lanes over the banks.
    c.wrappers.add('store_shared_v4')
    const pitch = columns * op.bytes
    const xor = SWIZZLE_XOR[op.swizzle]
    const perWord = 4 / op.bytes
    const words = [0, 1, 2, 3].map((w) => word(c, op, `${4 * perWord} * i`, w * perWord))
    c.out.line('#pragma unroll')
    c.out.block(`for (u32 i = 0; i < ${pitch / 16}; ++i)`, () => {
      for (const [w, text] of words.entries()) c.out.line(`const u32 w${w} = ${text};`, where)
      c.out.line(`store_shared_v4(slot + lane * ${pitch} + ${xor ? `(i ^ ${xor})` : 'i'} * 16, w0, w1, w2, w3);`, where)
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
