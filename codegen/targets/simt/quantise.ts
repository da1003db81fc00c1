/** Outputs in stored forms: scales from largest magnitudes, and elements divided by them. Every step is rounded to f32. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { Output, TensorOperand } from '../../../compiler/ir/tensor.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import { packedOf } from '../../../compiler/targets/simt/domain.ts'
import type { Scale } from '../../../compiler/targets/simt/plan.ts'
import { convertCompute, storeConversion } from '../../cuda/expression.ts'
import { factorText, normText, scaleCode, symmetric, wholeFactor } from '../../cuda/quantise.ts'
import { regionElement, storeText, type SimtContext } from './context.ts'
import { firstRowOf } from './domain.ts'
import { partIndex, partValue, type Positions } from './reads.ts'

/** The largest magnitude of the block that the current position is in. */
export function largestElement(context: SimtContext, { blocks, region }: Scale): string {
  const { names, program } = context
  const positions = blocks.flatMap(({ axis, per }) => {
    const i = names.index(axis)
    if (per === null) return []
    if (per === 1) return [i]
    return packedOf(program, axis) ? [firstRowOf(context, axis, per)] : [`${i} / ${per}`]
  })
  return regionElement(context, region, positions)
}

function bind({ out, temporaries }: SimtContext, what: string, type: string, text: string): string {
  const name = `${what}_${temporaries.count++}`
  out.line(`const ${type} ${name} = ${text};`)
  return name
}

const normOf = (context: SimtContext, operand: TensorOperand, at: Positions): string => {
  const { global, norm } = operand.stored!
  return normText(partValue(context, operand, global, at), partValue(context, operand, norm, at))
}

/** The code of the scale of a block, and what its values are multiplied by. */
function emitScale(
  context: SimtContext,
  operand: TensorOperand,
  largest: string,
  at: Positions,
): { readonly code: string; readonly factor: string } {
  const { functions, program } = context
  const { dtype } = operandNamed(program, operand.stored!.scale!)
  const norm = bind(context, 'norm', 'float', normOf(context, operand, at))
  const text = scaleCode(operand.dtype, dtype, operand.stored!.rounding, largest, norm, functions)
  const code = bind(context, 'scale', DTYPES[dtype].cudaStorage, text)
  return { code, factor: bind(context, 'factor', 'float', factorText(dtype, code, norm, functions)) }
}

/** The scale of the current block. */
export function emitScaleStore(
  context: SimtContext,
  output: Output,
  largest: string,
  at: Positions,
  condition: string,
): void {
  const operand = operandNamed(context.program, output.operand)
  const scale = operandNamed(context.program, operand.stored!.scale!)
  const { code } = emitScale(context, operand, largest, at)
  const place = partIndex(context, operand, scale, at)
  context.out.line(`${condition}${storeText(context, output, scale.name, place, code)}`, {
    ktl: output.span,
    note: `store ${scale.name}`,
  })
}

/** A value in the storage type of its output. */
export function emitCode(
  context: SimtContext,
  { operand: name, value: node }: Output,
  scale: Scale | null,
  value: string,
  at: Positions,
): string {
  const { functions } = context
  const operand = operandNamed(context.program, name)
  if (!operand.stored) return storeConversion(operand.dtype, node.type, value, functions)
  const wide = convertCompute(node.type, 'f32', value, functions)
  // A NaN is 0 in formats without one; integers saturate symmetrically.
  const { nan } = DTYPES[operand.dtype]
  const quantised = (factor: string): string => {
    const product = bind(context, 'product', 'float', `${wide} * ${factor}`)
    const stored = symmetric(operand.dtype, product)
    return `${product} != ${product} ? ${nan ?? 0} : ${storeConversion(operand.dtype, 'f32', stored, functions)}`
  }
  if (!scale) return quantised(bind(context, 'factor', 'float', wholeFactor(normOf(context, operand, at))))
  const largest = bind(context, 'largest', 'float', largestElement(context, scale))
  const { factor } = emitScale(context, operand, largest, at)
  return `${largest} != ${largest} ? ${nan ?? 0} : ${largest} == 0.0f ? 0 : ${quantised(factor)}`
}
