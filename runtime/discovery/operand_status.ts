/** Do tensors have what a kernel expects: dtype, contiguous axis, alignment? In the order a user would fix them. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { GemmArguments } from '../arguments/gemm.ts'
import { isContiguousAlong } from '../arguments/operands.ts'
import type { GemmOperandsMetadata, TensorAttributes } from '../metadata/operands.ts'
import { OK, refuse, type Status } from '../status.ts'
import type { Tensor } from '../tensor.ts'
import { formatShape } from '../tensor_layout.ts'

export function operandsStatus(operands: GemmOperandsMetadata, args: GemmArguments): Status {
  for (const name of ['A', 'B', 'out'] as const) {
    const status = tensorStatus(name, operands[name], args.tensors[name], { allowTf32: args.allowTf32 })
    if (!status.ok) return status
  }
  if (operands.accumulatorType !== args.accumulatorType) {
    return refuse('KTL4034', { expected: operands.accumulatorType, got: args.accumulatorType })
  }
  return OK
}

/** `rank` of the attributes is the full rank; a tensor may leave out leading axes. */
export function tensorStatus(
  name: string,
  attributes: TensorAttributes,
  tensor: Tensor,
  { allowTf32 = false }: { readonly allowTf32?: boolean } = {},
): Status {
  if (!dtypeMatches(attributes.dtype, tensor.dtype, allowTf32)) {
    const fix = attributes.dtype === 'tf32' && tensor.dtype === 'f32' ? 'pass `allowTf32: true`' : undefined
    return refuse('KTL4031', { operand: name, expected: attributes.dtype, got: tensor.dtype }, fix)
  }
  const contiguous = attributes.stride.lastIndexOf(1) - attributes.stride.length + tensor.rank
  if (!isContiguousAlong(tensor, contiguous)) {
    return refuse('KTL4032', {
      operand: name,
      expected: `strides[${contiguous}] to be 1`,
      got: `${tensor.strides[contiguous]} (strides ${formatShape(tensor.strides)})`,
    })
  }
  return alignmentStatus(name, attributes, tensor, contiguous)
}

export function dtypeMatches(expected: string, got: string, allowTf32: boolean): boolean {
  return expected === got || (allowTf32 && expected === 'tf32' && got === 'f32')
}

function alignmentStatus(name: string, { divisibility, pointerAlignment }: TensorAttributes, tensor: Tensor, contiguous: number): Status {
  const odd = tensor.strides.findIndex((stride, i) => i !== contiguous && tensor.shape[i]! > 1 && stride % divisibility !== 0)
  const bytes = DTYPES[tensor.dtype].storageBytes
  if (odd >= 0) {
    const padded = Math.ceil(tensor.strides[odd]! / divisibility) * divisibility
    return refuse(
      'KTL4033',
      { operand: name, expected: `strides divisible by ${divisibility} except of the contiguous axis`, got: formatShape(tensor.strides) },
      `pad strides[${odd}] to ${padded} elements (${padded * bytes} bytes)`,
    )
  }
  if (tensor.pointer % BigInt(pointerAlignment) !== 0n) {
    return refuse('KTL4033', { operand: name, expected: `a pointer aligned to ${pointerAlignment} bytes`, got: `0x${tensor.pointer.toString(16)}` })
  }
  return OK
} // prettier-ignore
