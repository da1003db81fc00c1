/** Kernels whose text follows from their operands: the forms in which these are stored, and what callers add. */
import type { KernelFamily } from '../../compiler/family.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import { isContiguousAlong } from '../arguments/operands.ts'
import { ScaledOperand } from '../arguments/scaled_operand.ts'
import { ktlError } from '../errors/fail.ts'
import { checkSource } from '../programs/check_source.ts'
import { formatShape } from '../tensors/layout.ts'
import { Tensor } from '../tensors/tensor.ts'

const families = new Map<string, ReadonlyMap<string, KernelFamily>>()

/** The kernels of a text by name; the same text gives the same ones, so that what is planned and compiled for them is found again. */
export function familiesOf(name: string, text: string): ReadonlyMap<string, KernelFamily> {
  const known = families.get(text)
  if (known) return known
  const { program, diagnostics } = checkSource({ name: `${name}.ktl`, text })
  const errors = diagnostics.filter(({ severity }) => severity === 'error')
  if (errors.length > 0) throw new KtlError(errors)
  const made = new Map(program.kernels.map((family) => [family.name, family]))
  families.set(text, made)
  return made
}

/** The only kernel of a text. */
export function familyOf(name: string, text: string): KernelFamily {
  const [family] = familiesOf(name, text).values()
  return family!
}

/** The type of an operand as the language writes it, with these names of its axes; each of `orders` is an alternative in memory. */
export function typeText(
  operand: Tensor | ScaledOperand,
  axes: readonly string[],
  orders: readonly (readonly string[])[] = [axes],
): string {
  return orders
    .map((order) =>
      operand instanceof ScaledOperand ? formText(operand, axes, order) : `${operand.dtype}[${order.join(', ')}]`,
    )
    .join(' | ')
}

/** The type of a tensor as it lies in memory, whichever axis is contiguous. */
export function inMemoryText(tensor: Tensor, axes: readonly string[]): string {
  const contiguous = axes.findLastIndex((_, i) => isContiguousAlong(tensor, i))
  const order = [...axes.filter((_, i) => i !== contiguous), ...axes.slice(contiguous, contiguous + 1)]
  return typeText(tensor, axes, contiguous < 0 || contiguous === axes.length - 1 ? [axes] : [axes, order])
}

/** KTL4044 for parts with axes of their own. */
export function formText(operand: ScaledOperand, axes: readonly string[], order: readonly string[] = axes): string {
  const { data, scale, zero, globalScale, normConstant, mode, swizzle, rounding } = operand
  const refused = (part: string, expected: string, got: string): never => {
    throw ktlError('KTL4044', { operand: part, expected, got })
  }
  const blocks = mode.flatMap((block, i) => (block === 'all' ? [] : [block === 1 ? axes[i]! : `${axes[i]}/${block}`]))
  const part = (name: string, tensor: Tensor): string => {
    const tiled = name === 'scale' && swizzle !== 'none'
    if (!tiled && tensor.rank !== blocks.length)
      refused(name, `a tensor of rank ${blocks.length}, as the mode has it`, formatShape(tensor.shape))
    return `${tensor.dtype}[${blocks.join(', ')}]`
  }
  if (globalScale instanceof Tensor && globalScale.elementCount !== 1)
    refused('globalScale', 'a number, or a tensor with one element', formatShape(globalScale.shape))
  const own = `${data.dtype}[${order.join(', ')}]`
  const scaled =
    scale === null ? '' : ` * ${rounding === 'floor' ? `floor(${part('scale', scale)})` : part('scale', scale)}`
  return `${zero === null ? own : `(${own} - ${part('zero', zero)})`}${scaled}${globalScale === null && normConstant === null ? '' : ' * f32'}`
}
