/**
 * Which type factors of a contraction are rounded to before they meet in a tensor core.
 *
 * Elements of operands that make a legal pair are taken as they are. Otherwise a computed or decoded factor, and an operand of
 * another type, meets the other in that one's type if it has 16 bits, else in bf16. What is made of f32 (tf32, f64) alone stays f32 (tf32,
 * f64): a kernel that holds everything in f32 asked for it.
 */
import { DTYPES, legalContraction, type Accumulator } from '../dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { ContractTerm, Node, TensorProgram } from '../ir/tensor.ts'
import { isPlainInput, operandNamed, topological } from '../ir/walk.ts'
import type { Rounding } from './contract.ts'

export function roundingOf({ a, b }: ContractTerm, accumulator: Accumulator, program: TensorProgram): Rounding | null {
  const [x, y] = [plainDType(a, program), plainDType(b, program)]
  if (accumulator === 'i32' || accumulator === 'f64' || (x && y && legalContraction(x, y))) return null
  const leaves = new Set([a, b].flatMap((factor) => leafTypes(factor, program)))
  const dtype = typeOf(x, y, leaves)
  return dtype === 'f32' ? null : { dtype, unit: 2 ** -(DTYPES[dtype].mantissaBits + 1) }
}

function typeOf(x: DTypeName | null, y: DTypeName | null, leaves: ReadonlySet<DTypeName>): DTypeName {
  if (leaves.size === 1 && leaves.has('f32')) return 'f32'
  if (leaves.size === 1 && leaves.has('tf32')) return 'tf32'
  const wide = [x, y].filter((dtype) => dtype === 'f16' || dtype === 'bf16')
  return wide.length === 1 ? wide[0]! : 'bf16'
}

/** The dtype of an operand that is taken as it is; null: the factor is computed or decoded. */
function plainDType(factor: Node, program: TensorProgram): DTypeName | null {
  if (!isPlainInput(factor)) return null
  const { dtype, stored } = operandNamed(program, factor.operand)
  return stored ? null : dtype
}

/** Types of the data that a factor is made of; indices and masks are none. */
function leafTypes(factor: Node, program: TensorProgram): DTypeName[] {
  const types = topological([factor]).flatMap((node) =>
    node.kind === 'input' ? operandNamed(program, node.operand).dtype : [],
  )
  return types.filter((dtype) => dtype !== 'i32' && dtype !== 'u32' && dtype !== 'bool')
}
