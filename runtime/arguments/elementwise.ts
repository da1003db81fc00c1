import type { Device } from '../devices/device.ts'
import type { Tensor } from '../tensors/tensor.ts'
import { formatShape } from '../tensors/layout.ts'
import { ktlError } from '../errors/fail.ts'
import { RuntimeArguments } from './base.ts'
import { shapesOf } from './gemm.ts'
import { resolveOperands, type Operand } from './operands.ts'
import type { PerformanceControls } from './performance.ts'
import { optionsOf } from '../errors/given.ts'

/** Operands of `ElementwiseArguments`, all of one shape. */
export interface ElementwiseFields {
  readonly A: Operand
  readonly B: Operand
  readonly out: Operand
  readonly performance?: PerformanceControls | null
  /** Where arrays in host memory are copied to; needed when no operand is a tensor of a device. */
  readonly device?: Device
}

/**
 * out = A + B, elementwise, all of one shape. KTL4020 when shapes differ, KTL4024 for what is no tensor, KTL4043 for
 * several devices.
 *
 * @example
 * const A = device.tensor('f32', [2, 2], [1, 2, 3, 4])
 * const out = device.empty('f32', [2, 2])
 * const args = new ElementwiseArguments(A, A, out)
 * await getKernels(args)[0]!.run(args)
 * console.log(await out.toArray())
 */
export class ElementwiseArguments extends RuntimeArguments {
  readonly A: Tensor
  readonly B: Tensor
  readonly out: Tensor
  readonly tensors: Readonly<{ A: Tensor; B: Tensor; out: Tensor }>
  readonly outputs = ['out'] as const
  readonly fusion = null

  constructor(fields: ElementwiseFields)
  constructor(A: Operand, B: Operand, out: Operand)
  constructor(first: ElementwiseFields | Operand, ...more: readonly Operand[]) {
    const positional = { A: first as Operand, B: more[0]!, out: more[1]! }
    const fields: ElementwiseFields = optionsOf<ElementwiseFields>(
      'fields',
      more.length > 0 ? positional : ((first ?? null) as ElementwiseFields),
    )
    const tensors = resolveOperands({ A: fields.A, B: fields.B, out: fields.out }, ['out'], fields.device) as {
      A: Tensor
      B: Tensor
      out: Tensor
    }
    super(tensors.A.device, null, fields.performance)
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
    throw ktlError('KTL4020', {
      operand: name,
      expected: `a tensor of shape ${formatShape(first![1])}, as ${first![0]}`,
      got: formatShape(shape),
    })
  }
}
