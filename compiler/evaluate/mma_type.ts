/**
 * How factors of a contraction meet in a tensor core: what they are rounded to first, and where scales go.
 *
 * - Operands of a legal pair are taken as they are, and so is data of at most 8 bits on both sides: scales are multiplied into partial sums
 *   in f32, or behind the sum where they do not vary along it.
 * - Any other pair meets in one type: that of a factor that is an operand of 16 bits, else bf16. Computed factors are rounded to it, and
 *   decoded ones where the scales that vary along the sum leave them more bits than it has.
 * - What is made of f32 (tf32) alone stays f32 (tf32): a kernel that holds everything in f32 asked for it. f64 stays f64.
 */
import { DTYPES, legalContraction, type Accumulator } from '../dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { ContractTerm, Node, TensorOperand, TensorProgram } from '../ir/tensor.ts'
import { isPlainInput, operandNamed, topological } from '../ir/walk.ts'
import type { ContractionSide } from './products.ts'

export type Meeting = Pick<ContractionSide, 'rounding' | 'scaled'>

const AS_IT_IS: Meeting = { rounding: null, scaled: false }

/** Of both factors of a term. */
export function meetingOf(
  { a, b, over }: ContractTerm,
  accumulator: Accumulator,
  program: TensorProgram,
): readonly [Meeting, Meeting] {
  if (accumulator === 'i32' || accumulator === 'f64') return [AS_IT_IS, AS_IT_IS]
  const factors = [a, b].map((factor) => ({ factor, operand: elementsOf(factor, program) }))
  const [x, y] = factors.map(({ operand }) => (operand && !operand.stored ? operand.dtype : null))
  if (x && y && legalContraction(x, y)) return [AS_IT_IS, AS_IT_IS]
  const narrow = factors.every(({ operand }) => operand && isNarrow(operand))
  const type = narrow ? 'f32' : typeOf(x ?? null, y ?? null, [a, b], program)
  const meet = ({ operand }: { operand: TensorOperand | null }): Meeting => ({
    rounding: operand && bitsOf(operand, program, over, type) <= significand(type) ? null : roundingTo(type),
    scaled: operand !== null && bitsOf(operand, program, null, 'f32') > significand('f32'),
  })
  return [meet(factors[0]!), meet(factors[1]!)]
}

/**
 * The types that both factors of a term are brought to where a machine does not take them as they are; null: it may not, or no MMA
 * multiplies them then. Where nothing may be rounded, what is lost to the type is nothing.
 */
export function mmaTypesOf(
  { a, b, over }: ContractTerm,
  accumulator: Accumulator,
  program: TensorProgram,
): readonly [DTypeName, DTypeName] | null {
  const operands = [a, b].map((factor) => elementsOf(factor, program))
  const [x, y] = operands.map((operand) => (operand && !operand.stored ? operand.dtype : null))
  if (accumulator === 'i32') return x && y ? [inBytes(x), inBytes(y)] : null
  if (accumulator !== 'f32') return null
  const isExact = (type: DTypeName): boolean =>
    operands.every((operand) => operand && bitsOf(operand, program, over, type) <= significand(type))
  const asTheyAre = (x && y && legalContraction(x, y)) || operands.every((operand) => operand && isNarrow(operand))
  if (asTheyAre) return isExact('bf16') ? ['bf16', 'bf16'] : null
  const type = typeOf(x ?? null, y ?? null, [a, b], program)
  return type === 'f32' ? null : [type, type]
}

/**
 * The types that data of at most 8 bits on both sides is brought to, without a rounding, where no MMA multiplies it as it is: what is left of
 * the operands are scales of partial sums. Null: a value has more bits than that, or there are no such sums.
 */
export function dataTypesOf(
  { a, b }: ContractTerm,
  accumulator: Accumulator,
  program: TensorProgram,
): readonly [DTypeName, DTypeName] | null {
  if (accumulator !== 'f32') return null
  const isInteger = (name: string): boolean =>
    DTYPES[program.operands.find((part) => part.name === name)?.dtype ?? 'f32'].class === 'int'
  const isExact = (operand: TensorOperand | null): boolean =>
    operand !== null &&
    isNarrow(operand) &&
    (!operand.stored?.zero || (DTYPES[operand.dtype].class === 'int' && isInteger(operand.stored.zero))) &&
    bitsOf(operand, program, [], 'bf16') <= significand('bf16')
  return [a, b].every((factor) => isExact(elementsOf(factor, program))) ? ['bf16', 'bf16'] : null
}

const inBytes = (dtype: DTypeName): DTypeName => (dtype === 'i4' ? 'i8' : dtype === 'u4' ? 'u8' : dtype)

const isNarrow = ({ dtype }: TensorOperand): boolean => DTYPES[dtype].bits <= 8

const roundingTo = (dtype: DTypeName): Meeting['rounding'] =>
  dtype === 'f32' ? null : { dtype, unit: 2 ** -significand(dtype) }

/** Bits of the significand, the leading one included; of integers, all. */
const significand = (dtype: DTypeName): number =>
  DTYPES[dtype].class === 'int' ? DTYPES[dtype].bits : DTYPES[dtype].mantissaBits + 1

/** The type of the MMA that factors meet in which make no pair. */
function typeOf(x: DTypeName | null, y: DTypeName | null, factors: readonly Node[], program: TensorProgram): DTypeName {
  const leaves = new Set(factors.flatMap((factor) => leafTypes(factor, program)))
  if (leaves.size === 1 && (leaves.has('f32') || leaves.has('tf32'))) return [...leaves][0]!
  const wide = [x, y].filter((dtype) => dtype === 'f16' || dtype === 'bf16')
  return wide.length === 1 ? wide[0]! : 'bf16'
}

/** Types of the data that a factor is made of; indices and masks are none. */
function leafTypes(factor: Node, program: TensorProgram): DTypeName[] {
  const types = topological([factor]).flatMap((node) =>
    node.kind === 'input' ? operandNamed(program, node.operand).dtype : [],
  )
  return types.filter((dtype) => dtype !== 'i32' && dtype !== 'u32' && dtype !== 'bool')
}

/** The operand whose elements a factor are, wherever they are read (of a stored form: its own); null: it is computed. */
function elementsOf(factor: Node, program: TensorProgram): TensorOperand | null {
  if (factor.kind !== 'input') return null
  const operand = operandNamed(program, factor.operand)
  const isZeroOutside = Object.is(factor.outside ?? 0, 0)
  return isPlainInput(factor) || isZeroOutside ? operand : null
}

/**
 * The types of both factors where they are elements of operands that make a legal pair, or such elements times what does not vary along
 * the sum; null: one has to be brought to another type.
 */
export function pairOf({ a, b, over }: ContractTerm, program: TensorProgram): readonly [DTypeName, DTypeName] | null {
  const [x, y] = [elementsOf(a, program), elementsOf(b, program)]
  const isData = ({ stored }: TensorOperand): boolean =>
    !stored?.zero &&
    !program.operands.some(({ name, axes }) => name === stored?.scale && axes.some((axis) => over.includes(axis)))
  return x && y && isData(x) && isData(y) && legalContraction(x.dtype, y.dtype) ? [x.dtype, y.dtype] : null
}

/**
 * Bits that products of data and scales need at most: of those scales that vary along `over`; null: of all. A power of two adds none
 * where `type` has its range; f16 has not.
 */
function bitsOf(
  operand: TensorOperand,
  program: TensorProgram,
  over: readonly string[] | null,
  type: DTypeName,
): number {
  const { dtype, stored } = operand
  let bits = significand(dtype) + (stored?.zero ? 1 : 0)
  for (const name of stored ? [stored.scale, stored.global] : []) {
    const part = [...program.operands, ...program.scalars].find((candidate) => candidate.name === name)
    const axes = part && 'axes' in part ? part.axes : []
    if (!part || (over !== null && !axes.some((axis) => over.includes(axis)))) continue
    if (type === 'f16') return Infinity
    if (part.dtype !== 'ue8m0') bits += significand(part.dtype)
  }
  return bits
}
