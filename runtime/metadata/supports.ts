/** Do tensors have what a kernel expects: dtype, contiguous axis, alignment? In the order a user would fix them. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { RuntimeArguments } from '../arguments/base.ts'
import { ElementwiseArguments } from '../arguments/elementwise.ts'
import { GemmArguments } from '../arguments/gemm.ts'
import { ClassArguments, KernelArguments } from '../arguments/kernel.ts'
import { isContiguousAlong } from '../arguments/operands.ts'
import { OK, refuse, type Status } from '../errors/status.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { formatShape } from '../tensors/layout.ts'

/** `TensorAttributes`, as far as tensors are held against them. */
interface Expected {
  readonly dtype: string
  /** 1 where the axis is contiguous, at full rank. */
  readonly stride: readonly number[]
  readonly divisibility: number
  readonly ptrAlignmentBytes: number
}

/** `OperandsMetadata`, likewise. */
interface ExpectedOperands {
  readonly kind: keyof typeof EXPECTED
  readonly tensors: Readonly<Record<string, Expected>>
  readonly accumulatorType: string | null
  /** By operand, of those that have scales. */
  readonly scaled: Readonly<Record<string, unknown>>
}

const EXPECTED = {
  gemm: GemmArguments,
  groupedGemm: ClassArguments,
  elementwise: ElementwiseArguments,
  kernel: KernelArguments,
} as const

/** KTL4030 for another kind of arguments, then what `operandsStatus` says. */
export function operandsSupport(operands: ExpectedOperands, args: RuntimeArguments): Status {
  const expected = EXPECTED[operands.kind]
  if (operands.kind !== 'kernel' && !(args instanceof expected))
    return refuse('KTL4030', { expected: expected.name, got: args.constructor.name })
  return operandsStatus(operands, args)
}

/** KTL4022, KTL4031 to KTL4034. */
export function operandsStatus(operands: ExpectedOperands, args: RuntimeArguments): Status {
  const scaled = args instanceof GemmArguments ? Object.keys(args.scaled) : []
  const unexpected = scaled.filter((name) => !Object.hasOwn(operands.scaled, name))
  if (unexpected.length > 0)
    return refuse('KTL4030', { expected: 'operands without scales', got: `scaled ${unexpected.join(', ')}` })
  const tensors = tensorsOf(args)
  const allowTf32 = args instanceof GemmArguments && args.allowTf32
  for (const [name, attributes] of Object.entries(operands.tensors)) {
    const tensor = tensors[name]
    if (!tensor) return refuse('KTL4022', { what: 'the kernel', missing: [name], known: Object.keys(operands.tensors) })
    const status = tensorStatus(name, attributes, tensor, { allowTf32 })
    if (!status.ok) return status
  }
  if (args instanceof GemmArguments && operands.accumulatorType !== args.accumulatorType) {
    return refuse('KTL4034', { expected: operands.accumulatorType ?? 'none', got: args.accumulatorType })
  }
  return OK
}

/** With the parts of scaled operands. */
function tensorsOf(args: RuntimeArguments): Readonly<Record<string, Tensor>> {
  if (!(args instanceof GemmArguments)) return args.tensors
  const parts = Object.entries(args.scaled).flatMap(([name, { scale, zero, globalScale }]) => [
    ...(scale ? [[`${name}.scale`, scale] as const] : []),
    ...(zero ? [[`${name}.zero`, zero] as const] : []),
    ...(typeof globalScale === 'object' && globalScale ? [[`${name}.global`, globalScale] as const] : []),
  ])
  return { ...args.tensors, ...Object.fromEntries(parts) }
}

/** `rank` of the attributes is the full rank; a tensor may leave out leading axes. */
export function tensorStatus(
  name: string,
  attributes: Expected,
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

function alignmentStatus(
  name: string,
  { divisibility, ptrAlignmentBytes }: Expected,
  tensor: Tensor,
  contiguous: number,
): Status {
  const odd = tensor.strides.findIndex(
    (stride, i) => i !== contiguous && tensor.shape[i]! > 1 && stride % divisibility !== 0,
  )
  const bytes = DTYPES[tensor.dtype].storageBytes
  if (odd >= 0) {
    const padded = Math.ceil(tensor.strides[odd]! / divisibility) * divisibility
    return refuse(
      'KTL4033',
      {
        operand: name,
        expected: `strides divisible by ${divisibility} except of the contiguous axis`,
        got: formatShape(tensor.strides),
      },
      `pad strides[${odd}] to ${padded} elements (${padded * bytes} bytes)`,
    )
  }
  if (tensor.pointer % BigInt(ptrAlignmentBytes) !== 0n) {
    return refuse('KTL4033', {
      operand: name,
      expected: `a pointer aligned to ${ptrAlignmentBytes} bytes`,
      got: `0x${tensor.pointer.toString(16)}`,
    })
  }
  return OK
}
