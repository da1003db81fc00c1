/** Between plain tensors and stored forms: by kernels of the form itself, or where none stores it by two, of its scales and of its data. */
import { DTYPES } from '../../compiler/dtypes.ts'
import { resolveType, type FamilyOperand, type KernelFamily } from '../../compiler/family.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { ScaledOperand } from '../arguments/scaled_operand.ts'
import { modeOf } from '../arguments/stored.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf, textOf } from '../errors/given.ts'
import { formatShape } from '../tensors/layout.ts'
import { Tensor } from '../tensors/tensor.ts'
import { largestText, stepsText, type FormPlan } from './quantize_text.ts'
import { formText, inMemoryText } from './template.ts'
import { checkSource } from '../programs/check_source.ts'
import { loadSource, type KtlProgram } from '../programs/program.ts'

/** What a form with a global scale multiplies by. Default: the largest value of the tensor becomes the largest that the form holds. */
export interface QuantizeOptions {
  /** The decoding multiplier. */
  readonly globalScale?: number
  /** The encoding one, used as it is. */
  readonly normConstant?: number
}

const f32 = Math.fround

/**
 * A tensor in a stored form, in device memory: `e4m3[m, k] * ue8m0[m, k/32]`, with an axis for each of the tensor's. All forms are
 * quantised on the device, those with zero points (`(u4[k, n] - u4[k/128, n]) * f16[k/128, n]`: the range of each block) and those with one
 * scale for a whole axis too. Throws what the form has wrong, and KTL4020 for another rank.
 *
 * @example
 * const x = device.tensor('f32', [2, 64], Array.from({ length: 128 }, (_, i) => i / 8))
 * const q = await quantize(x, 'e4m3[m, k] * ue8m0[m, k/32]')
 * console.log(q.data.dtype, q.scale!.shape, q.mode) // e4m3 [ 2, 2 ] [ 1, 32 ]
 * console.log((await (await dequantize(q)).toArray())[8]) // 1
 */
export async function quantize(tensor: Tensor, form: string, options: QuantizeOptions = {}): Promise<ScaledOperand> {
  if (!(tensor instanceof Tensor))
    throw ktlError('KTL4024', { operand: 'tensor', expected: 'a tensor', got: describe(tensor) })
  const { globalScale, normConstant } = optionsOf('options', options)
  const axes = /\[([^\]]*)\]/.exec(textOf('form', form, "a form, as in 'e4m3[m, k] * ue8m0[m, k/32]'"))?.[1] ?? ''
  const { family } = programOf(`kernel dequantize(X: ${form}) -> Y: f32[${axes}] {\n  Y = X\n}\n`).kernels[
    'dequantize'
  ]!
  const operand = family.operands[0]!
  if (operand.axes.length !== tensor.rank)
    throw ktlError('KTL4020', {
      operand: 'tensor',
      expected: `of rank ${operand.axes.length} ([${operand.axes.join(', ')}])`,
      got: formatShape(tensor.shape),
    })
  const { device, shape } = tensor
  const plan = planOf(family, operand, shape)
  const norm = plan.hasGlobal
    ? (normConstant ?? (globalScale === undefined ? await normOf(tensor, plan) : f32(1 / globalScale)))
    : 1
  const scales: QuantizeOptions = plan.hasGlobal
    ? { globalScale: globalScale ?? f32(1 / norm), ...(globalScale === undefined && { normConstant: norm }) }
    : {}
  const text = `kernel quantize(X: ${inMemoryText(tensor, operand.axes)}) -> Y: ${form} {\n  Y = X\n}\n`
  const { diagnostics } = checkSource({ name: 'quantize.ktl', text })
  const refused = diagnostics.filter(({ severity }) => severity === 'error')
  if (refused.length === 0) {
    const scale = plan.scale === null ? null : device.empty(plan.scale, plan.scaleShape)
    const Y = new ScaledOperand(device.empty(plan.data, shape), scale, {
      mode: plan.mode,
      rounding: plan.rounding,
      ...scales,
    })
    await programOf(text).kernels['quantize']!({ X: tensor, Y })
    return Y
  }
  // What only kernels cannot do (KTL2227); all else is wrong in the form itself.
  if (refused.some(({ code }) => code !== 'KTL2227')) loadSource({ name: 'quantize.ktl', text })
  return inTwoSteps(tensor, plan, norm, scales.globalScale)
}

/**
 * The values of a stored form as an f32 tensor of the same shape. KTL4044 for axes of groups.
 *
 * @example
 * const operand = new ScaledOperand(device.tensor('i8', [2, 2], [1, 2, 3, 4]), device.tensor('f32', [2], [10, 100]), { mode: [1, 'all'] })
 * console.log([...(await (await dequantize(operand)).toArray())]) // [ 10, 20, 300, 400 ]
 */
export async function dequantize(operand: ScaledOperand): Promise<Tensor> {
  if (!(operand instanceof ScaledOperand))
    throw ktlError('KTL4024', { operand: 'operand', expected: 'a ScaledOperand', got: describe(operand) })
  const axes = operand.shape.map((_, i) => `x${i}`)
  const Y = operand.device.empty('f32', operand.shape)
  const text = `kernel dequantize(X: ${formText(operand, axes)}) -> Y: f32[${axes.join(', ')}] {\n  Y = X\n}\n`
  await programOf(text).kernels['dequantize']!({ X: operand, Y })
  return Y
}

const programs = new Map<string, KtlProgram>()

/** Kernels are found again by their programs. */
export function programOf(text: string): KtlProgram {
  const known = programs.get(text) ?? loadSource({ name: 'form.ktl', text })
  programs.set(text, known)
  return known
}

function planOf(family: KernelFamily, operand: FamilyOperand, shape: readonly number[]): FormPlan {
  const { stored } = operand
  const typeOf = (name: string | null | undefined): DTypeName | null => {
    const part = family.operands.find((other) => other.name === name)
    return part ? resolveType(part.dtype, family.typeChoices[0]!) : null
  }
  const mode = modeOf(family, operand, shape.length) ?? shape.map(() => 'all' as const)
  return {
    data: resolveType(operand.dtype, family.typeChoices[0]!),
    scale: typeOf(stored?.scale),
    zero: typeOf(stored?.zero),
    hasGlobal: (stored?.global ?? null) !== null,
    rounding: stored?.rounding === 'down' ? 'floor' : 'up',
    mode,
    scaleShape: mode.flatMap((block, i) => (block === 'all' ? [] : [Math.ceil(shape[i]! / block)])),
  }
}

/** 2688 / amax for nvfp4: what makes the largest value the largest datum times the largest scale. NaN counts for none. */
async function normOf(tensor: Tensor, { data, scale }: FormPlan): Promise<number> {
  // Scales that are floats of few bits have a largest value to be reached; powers of two and wide floats take what comes.
  const limited = scale !== null && DTYPES[scale].class === 'scale' && DTYPES[scale].mantissaBits > 0
  const most = DTYPES[data].maxFinite * (limited ? DTYPES[scale].maxFinite : 1)
  const largest = tensor.device.empty('f32', [])
  await programOf(largestText(tensor)).kernels['largest']!({ X: tensor, largest })
  const amax = (await largest.toArray())[0]!
  largest.free()
  return amax === 0 || !Number.isFinite(amax) ? 1 : f32(most / amax)
}

/** In the forms that no kernel stores, because their scales are not those of blocks along one axis. */
async function inTwoSteps(
  tensor: Tensor,
  plan: FormPlan,
  norm: number,
  global: number | undefined,
): Promise<ScaledOperand> {
  const { device, shape } = tensor
  const { data, scale, zero, mode, scaleShape, rounding } = plan
  const [X, D] = [tensor, device.empty(data, shape)]
  const S = scale === null ? null : device.empty(scale, scaleShape)
  const Z = zero === null ? null : device.empty(zero, scaleShape)
  // Blocks of zeros are 0, whatever their scale.
  const A = S !== null && Z === null ? device.empty('f32', scaleShape) : null
  const parts = { ...(S && { S }), ...(Z && { Z }), ...(A && { A }) }
  const { blocks, elements } = programOf(stepsText(tensor, plan)).kernels
  await blocks?.({ X, norm, ...parts })
  await elements!({ X, norm, D, ...parts })
  A?.free()
  return new ScaledOperand(D, S, {
    mode,
    rounding,
    ...(Z && { zero: Z }),
    ...(global !== undefined && { globalScale: global }),
  })
}
