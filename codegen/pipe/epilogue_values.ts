/** How the values of an epilogue read in CUDA: its operands, expressions over them, and what is stored of them. */
import { ARCHS } from '../../compiler/archs.ts'
import { DTYPES, dtypesThat } from '../../compiler/dtypes.ts'
import { pointerOperand } from '../../compiler/targets/tensor_core/epilogue_operands.ts'
import type { ComputeType, AccumulatorNode, Node, TensorOperand } from '../../compiler/ir/tensor.ts'
import { opsOf, type TileProgram } from '../../compiler/ir/pipe.ts'
import type { StoreOp } from '../../compiler/ir/pipe_epilogue.ts'
import { emitExpression, hasZero, literal, loadConversion, loadInside, storeConversion } from '../cuda/expression.ts'
import { isBiased } from '../cuda/quantise.ts'
import type { EmitContext } from './context.ts'
import { blockAt } from './depth.ts'

/** The first column of a sub-tile; of a lane's own, where it has a row, too. */
export const subtileColumn = ({ program: { layout } }: EmitContext): string =>
  layout.held === 'row' ? 'col' : 'subtile_col'

export const operandOf = (c: EmitContext, name: string): TensorOperand => {
  const { operands, scalars } = c.program.source
  return operands.find((o) => o.name === name) ?? pointerOperand(scalars.find((s) => s.name === name)!)
}

/** Element address from tile-space coordinates; axes the operand lacks are left out. One element may stand for a block of positions. */
export const element = (
  c: EmitContext,
  operand: TensorOperand,
  at: Readonly<Record<'m' | 'n', string>>,
  strides?: Strides,
): string => `${c.names.operand(operand.name)}[${elementIndex(c, operand, at, strides)}]`

/** Names of strides by their axes, where they are not those of the parameters. */
export type Strides = Readonly<Record<string, string>>

/** In elements from the first one. */
export function elementIndex(
  c: EmitContext,
  operand: TensorOperand,
  at: Readonly<Record<'m' | 'n', string>>,
  strides: Strides = {},
): string {
  const { names } = c
  const terms = operand.axes.map((axis, i) => {
    const position = axis === names.m ? at.m : axis === names.n ? at.n : 'at.l'
    const block = operand.blocks?.[i] ?? 1
    return `${block === 1 ? position : blockAt(c, axis, block, `(${position})`)} * ${strides[axis] ?? names.stride(operand.name, axis)}`
  })
  return terms.join(' + ') || '0'
}

/** Are the rows of an operand made of units of so many bytes, from the element at tile-space coordinates on? */
export function isOfUnits(
  c: EmitContext,
  operand: TensorOperand,
  at: Readonly<Record<'m' | 'n', string>>,
  unit: number,
): string {
  const first = `reinterpret_cast<u64>(&${element(c, operand, at)})`
  const apart = `static_cast<u64>(${c.names.stride(operand.name, c.names.m)}) * ${DTYPES[operand.dtype].storageBytes}`
  return `(${first} | ${apart}) % ${unit} == 0`
}

export const load = (c: EmitContext, operand: TensorOperand, text: string): string =>
  loadConversion(operand.dtype, text, c.functions)

/** The element at tile-space coordinates where `inside` holds, else 0; always where it is empty. */
export function loadElement(
  c: EmitContext,
  operand: TensorOperand,
  at: Readonly<Record<'m' | 'n', string>>,
  inside: string,
  strides?: Strides,
): string {
  const { dtype } = operand
  const text = element(c, operand, at, strides)
  if (inside === '') return load(c, operand, text)
  return hasZero(dtype)
    ? loadInside(dtype, `&${text}`, inside, c.functions)
    : `${inside} ? ${load(c, operand, text)} : ${literal(DTYPES[dtype].compute, 0).text}`
}

export const fromWord = (storage: string, word: string): string =>
  storage === 'float' ? `__uint_as_float(${word})` : `static_cast<${storage}>(${word})`

/** A value that does not vary within the tile, as one CUDA expression. */
export function expressionText(node: Node, c: EmitContext): string {
  const { statements, value } = emitExpression(node, leafText(c, null), c.expressions)
  c.out.lines(statements)
  return value
}

/** `j` null: outside the column loop. */
export const leafText =
  (c: EmitContext, j: string | null) =>
  (node: Node): string | null => {
    switch (node.kind) {
      case 'accumulator':
        return accumulated(c, node, j)
      case 'scalar':
        return c.program.source.scalars.find((s) => s.name === node.operand)!.pointer
          ? c.names.value(node.operand)
          : c.names.scalar(node.operand)
      case 'size':
        return c.names.extent(node.axis)
      case 'input': {
        const { axes } = operandOf(c, node.operand)
        const [m, n] = [c.names.m, c.names.n].map((axis) => axes.includes(axis))
        const name = c.names.value(node.operand)
        if (m && n) return `${name}[${j}]`
        if (n) return `${name}[${c.tile.rowIndex(j!)}]`
        return m && c.tile.columnCount > 1 ? `${name}[${c.tile.columnIndex(j!)}]` : name
      }
      default:
        return null
    }
  }

/** Element `j` of an accumulator: the cell holds f32 or i32 bits, or an f16 in its low half. */
function accumulated(c: EmitContext, node: AccumulatorNode, j: string | null): string {
  const cell = `sum${node.index}[${j}]`
  // Registers of f32 (and f64) keep their type: copies to integer registers would make the MMAs wait.
  if (c.program.registers?.cells === 'f32' || node.accumulator === 'f64') return cell
  if (node.accumulator === 'f16') return loadConversion('f16', `static_cast<unsigned short>(${cell})`, c.functions)
  return node.accumulator === 'i32' ? `static_cast<int>(${cell})` : `__uint_as_float(${cell})`
}

const computed = new WeakMap<TileProgram, ReadonlyMap<string, ComputeType>>()

/** Types of the values that a program computes, by operand. */
function computedTypes(program: TileProgram): ReadonlyMap<string, ComputeType> {
  const known = computed.get(program)
  if (known) return known
  const types = new Map<string, ComputeType>()
  for (const op of opsOf(program))
    if (op.op === 'compute') for (const { operand, value } of op.outputs) types.set(operand, value.type)
  computed.set(program, types)
  return types
}

const valueType = (c: EmitContext, operand: string): ComputeType => computedTypes(c.program).get(operand)!

/** Value `j` as the operand's CUDA storage type. */
export function stored(c: EmitContext, operand: string, j: string): string {
  const of = operandOf(c, operand)
  const value = `${c.names.value(operand)}[${j}]`
  return isBiased(of)
    ? `static_cast<signed char>(__float_as_uint(${value}))`
    : storeConversion(of.dtype, valueType(c, operand), value, c.functions)
}

/** Storage bits of value `j` as a 32-bit word. */
export function storedBits(c: EmitContext, operand: string, j: string): string {
  const { cudaStorage } = DTYPES[operandOf(c, operand).dtype]
  if (cudaStorage === 'float') return `__float_as_uint(${stored(c, operand, j)})`
  // Sign bits must not reach the neighbours in a packed word.
  const bits =
    cudaStorage === 'signed char' ? `static_cast<unsigned char>(${stored(c, operand, j)})` : stored(c, operand, j)
  return cudaStorage === 'unsigned int' ? bits : `static_cast<u32>(${bits})`
}

/** Formats that one instruction converts a pair of floats to. */
const PAIRED = dtypesThat((dtype) => dtype.class === 'float' && (dtype.bits === 8 || dtype.bits === 16))

/** Storage bits of the values `first` and `second`, side by side; above them lies what nobody asked for, if they are biased. */
export function pairBits(c: EmitContext, op: StoreOp, first: string, second: string): string {
  const { dtype } = operandOf(c, op.operand)
  const value = c.names.value(op.operand)
  if (isBiased(operandOf(c, op.operand)))
    return `__byte_perm(__float_as_uint(${value}[${first}]), __float_as_uint(${value}[${second}]), 0x0040)`
  const converts = ARCHS[c.program.target].cc >= (DTYPES[dtype].cvtSince ?? 0)
  if (!PAIRED.includes(dtype) || !converts || valueType(c, op.operand) !== 'f32')
    return `${storedBits(c, op.operand, first)} | ${storedBits(c, op.operand, second)} << ${8 * op.bytes}`
  const fn = `ktl_f32x2_to_${dtype}x2`
  c.functions.add(fn)
  const pair = `${fn}(${value}[${first}], ${value}[${second}])`
  return op.bytes === 2 ? pair : `static_cast<u32>(${pair})`
}

/** A 32-bit word of 1, 2 or 4 consecutive values, the first of them `base + offset`. */
export function word(c: EmitContext, op: StoreOp, base: string, offset: number): string {
  const at = (i: number): string => (offset + i === 0 ? base : `${base} + ${offset + i}`)
  if (op.bytes === 4) return storedBits(c, op.operand, at(0))
  const pairs = Array.from({ length: 2 / op.bytes }, (_, i) => pairBits(c, op, at(2 * i), at(2 * i + 1)))
  if (isBiased(operandOf(c, op.operand))) return `__byte_perm(${pairs.join(', ')}, 0x5410)`
  return pairs.map((pair, i) => (i === 0 ? pair : `(${pair}) << ${16 * i}`)).join(' | ')
}
