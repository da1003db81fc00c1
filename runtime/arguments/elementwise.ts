import type { Tensor } from '../tensor.ts'
import { formatShape } from '../tensor_layout.ts'
import { ktlError } from '../fail.ts'
import { RuntimeArguments } from './base.ts'
import { shapesOf } from './gemm.ts'
import { resolveOperands, type Operand } from './operands.ts'

/** out = A + B, elementwise, all of one shape. KTL4021 when shapes differ, KTL4024 for what is no tensor. */
export class ElementwiseArguments extends RuntimeArguments {
  readonly A: Tensor
  readonly B: Tensor
  readonly out: Tensor
  readonly tensors: Readonly<{ A: Tensor; B: Tensor; out: Tensor }>
  readonly outputs = ['out'] as const
  readonly fusion = null

  constructor(fields: { readonly A: Operand; readonly B: Operand; readonly out: Operand }) {
    const tensors = resolveOperands({ A: fields.A, B: fields.B, out: fields.out }, ['out']) as {
      A: Tensor
      B: Tensor
      out: Tensor
    }
    super(tensors.A.device, null)
    this.A = tensors.A
    this.B = tensors.B
    this.out = tensors.out
    this.tensors = tensors
    checkOneShape(shapesOf(tensors))
    if (new.target === ElementwiseArguments) Object.freeze(this)
  }
}

function checkOneShape(shapes: Readonly<Record<string, readonly number[]>>): void {
  const [first, ...others] = Object.entries(shapes)
  for (const [name, shape] of others) {
    if (formatShape(shape) === formatShape(first![1])) continue
    throw ktlError('KTL4020', { operand: name, expected: `a tensor of shape ${formatShape(first![1])}, as ${first![0]}`, got: formatShape(shape) })
  }
} // prettier-ignore
