/** Outputs in stored forms: scales from largest magnitudes, and elements divided by them. Every step is rounded to f32. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import type { Output, TensorOperand } from '../../../compiler/ir/tensor.ts'
import { operandNamed } from '../../../compiler/ir/walk.ts'
import { packedOf } from '../../../compiler/targets/simt/domain.ts'
import type { Scale } from '../../../compiler/targets/simt/plan.ts'
import { convertCompute, literal, loadConversion, storeConversion } from '../../cuda/expression.ts'
import { call, regionElement, storeText, type SimtContext } from './context.ts'
import { firstRowOf } from './domain.ts'
import { partIndex, partValue, type Positions } from './reads.ts'

const FLT_MAX = literal('f32', DTYPES.f32.maxFinite).text

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

/** 1, the reciprocal of the global scale, or the caller's constant. */
function normOf(context: SimtContext, operand: TensorOperand, at: Positions): string {
  const { global, norm } = operand.stored!
  const scale = partValue(context, operand, global, at)
  if (scale === null) return '1.0f'
  const given = partValue(context, operand, norm, at)
  return given === null ? `1.0f / ${scale}` : `${given} != 0.0f ? ${given} : 1.0f / ${scale}`
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
  const max = DTYPES[operand.dtype].maxFinite
  const down = operand.stored!.rounding === 'down' && dtype === 'ue8m0'
  const stored = down
    ? call(context, 'ktl_power_below', `${largest} * ${norm}`, Math.floor(Math.log2(max)))
    : storeConversion(dtype, 'f32', `${largest} * ${norm} * ${literal('f32', Math.fround(1 / max)).text}`, functions)
  const code = bind(context, 'scale', DTYPES[dtype].cudaStorage, stored)
  const decoded = convertCompute(DTYPES[dtype].compute, 'f32', loadConversion(dtype, code, functions), functions)
  return { code, factor: bind(context, 'factor', 'float', `fminf(${norm} * (1.0f / ${decoded}), ${FLT_MAX})`) }
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
  const { nan, maxFinite, signed, class: kind } = DTYPES[operand.dtype]
  const quantised = (factor: string): string => {
    const product = bind(context, 'product', 'float', `${wide} * ${factor}`)
    const stored = kind === 'int' && signed ? `fmaxf(${product}, ${literal('f32', -maxFinite).text})` : product
    return `${product} != ${product} ? ${nan ?? 0} : ${storeConversion(operand.dtype, 'f32', stored, functions)}`
  }
  if (!scale) return quantised(bind(context, 'factor', 'float', `fminf(${normOf(context, operand, at)}, ${FLT_MAX})`))
  const largest = bind(context, 'largest', 'float', largestElement(context, scale))
  const { factor } = emitScale(context, operand, largest, at)
  return `${largest} != ${largest} ? ${nan ?? 0} : ${largest} == 0.0f ? 0 : ${quantised(factor)}`
}
