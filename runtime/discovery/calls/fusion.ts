/** Does the epilogue of a call fit a program that was built for another call? Extents may differ, structure may not. */
import type { TensorOperand, TensorProgram } from '../../../compiler/ir/tensor.ts'
import { divisibilityOf } from '../../arguments/operands.ts'
import { epilogueOperandName } from '../../../compiler/bind.ts'
import type { BoundEpilogue } from '../../../compiler/epilogue.ts'
import type { KernelFamily } from '../../../compiler/family.ts'
import type { EpilogueTensor, ResolvedEpilogue } from '../../arguments/epilogue.ts'
import { refuse, type StatusRefused } from '../../errors/status.ts'
import { formatShape } from '../../tensors/layout.ts'
import type { Call } from './call.ts'

/** The epilogue that a program was built with, without the tensors of the call it was built for. */
export interface FusionShape {
  readonly key: string
  readonly text: string
  readonly scalars: readonly string[]
  readonly bound: BoundEpilogue
}

const describeText = (text: string | undefined): string =>
  text === undefined ? 'no epilogue' : `the epilogue \`${text}\``

/**
 * The call's epilogue operands under the names and with the axes that `program` gave them: an extent of 1 counts as
 * the axis or as its absence, as the program has it.
 */
export function fitFusion(
  family: KernelFamily,
  program: TensorProgram,
  built: FusionShape | null,
  { fusion, extents }: Call,
): ResolvedEpilogue | null | StatusRefused {
  if (built === null && fusion === null) return null
  const differs = (): StatusRefused =>
    refuse('KTL4036', { expected: describeText(built?.text), got: describeText(fusion?.epilogue.text) })
  if (built === null || fusion === null || built.text !== fusion.epilogue.text) return differs()
  if (built.scalars.join() !== Object.keys(fusion.scalars).join()) return differs()
  const outputAxes = family.operands.find((operand) => operand.name === family.slot)!.axes
  const scalars: Record<string, number> = {}
  for (const [name, value] of Object.entries(fusion.scalars)) scalars[epilogueOperandName(family, name)] = value
  const tensors: EpilogueTensor[] = []
  for (const tensor of fusion.tensors) {
    const name = epilogueOperandName(family, tensor.name)
    const operand = program.operands.find((o) => o.fromEpilogue && o.name === name)
    // What the epilogue computes nothing from is no operand of the kernel.
    if (!operand && Object.hasOwn(built.bound.bindings, tensor.name)) continue
    if (!operand) return differs()
    const placed = built.key === fusion.key ? tensor : fitTensor(operand, tensor, outputAxes, extents)
    if ('ok' in placed) return placed
    tensors.push({ ...placed, name })
  }
  return { ...fusion, tensors, scalars }
}

function fitTensor(
  operand: TensorOperand,
  given: EpilogueTensor,
  outputAxes: readonly string[],
  extents: Readonly<Record<string, number>>,
): EpilogueTensor | StatusRefused {
  const { tensor, name } = given
  if (tensor.dtype !== operand.dtype)
    return refuse('KTL4031', { operand: name, expected: operand.dtype, got: tensor.dtype })
  const dimensions =
    given.axes.join() === operand.axes.join() ? given.dimensions : place(operand, given, outputAxes, extents)
  if (dimensions === null) {
    const expected = `axes [${operand.axes.join(', ')}]`
    return refuse('KTL4036', { expected: `${name} with ${expected}`, got: formatShape(tensor.shape) })
  }
  const inner = dimensions[operand.axes.indexOf(operand.order.at(-1)!)] ?? -1
  if (
    operand.order.join() !== given.order.join() &&
    inner >= 0 &&
    tensor.shape[inner]! > 1 &&
    tensor.strides[inner] !== 1
  ) {
    const expected = `axis ${operand.order.at(-1)} contiguous`
    return refuse('KTL4032', { operand: name, expected, got: `strides ${formatShape(tensor.strides)}` })
  }
  if (operand.divisibility === 'vector' && divisibilityOf(tensor, inner, operand.role) !== 'vector') {
    const expected = 'a pointer and rows aligned to 16 bytes'
    return refuse('KTL4033', {
      operand: name,
      expected,
      got: `pointer 0x${tensor.pointer.toString(16)}, strides ${formatShape(tensor.strides)}`,
    })
  }
  return { ...given, axes: operand.axes, order: operand.order, divisibility: operand.divisibility, dimensions }
}

/** Dimensions of the tensor for the operand's axes, aligned at the right with the output; null: it does not fit. */
function place(
  { axes }: TensorOperand,
  { tensor }: EpilogueTensor,
  outputAxes: readonly string[],
  extents: Readonly<Record<string, number>>,
): number[] | null {
  const lead = outputAxes.length - tensor.rank
  if (lead < 0) return null
  const carries = tensor.shape.every((extent, i) => {
    const axis = outputAxes[lead + i]!
    return axes.includes(axis) ? extent === extents[axis] : extent === 1
  })
  const absent = axes.every((axis) => outputAxes.indexOf(axis) >= lead || extents[axis] === 1)
  return carries && absent ? axes.map((axis) => Math.max(-1, outputAxes.indexOf(axis) - lead)) : null
}
