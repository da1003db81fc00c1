/** Between plain tensors and stored forms: kernels of the form itself; what no kernel writes is quantised on the host, by the same steps. */
import { blockIndices, blockShape, quantise } from '../../compiler/stored/quantise.ts'
import { roundToDType } from '../../compiler/codec.ts'
import { DTYPES } from '../../compiler/dtypes.ts'
import { resolveType, type FamilyOperand, type KernelFamily } from '../../compiler/family.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { ScaledOperand, type ScaleMode } from '../arguments/scaled_operand.ts'
import { modeOf } from '../arguments/stored.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf, textOf } from '../errors/given.ts'
import { formatShape } from '../tensors/layout.ts'
import { Tensor } from '../tensors/tensor.ts'
import { formText } from './template.ts'
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
 * A tensor in a stored form, in device memory: `e4m3[m, k] * ue8m0[m, k/32]`, with an axis for each of the tensor's. Forms that kernels
 * store are quantised on the device; zero points (`(u4[k, n] - u4[k/128, n]) * f16[k/128, n]`: the range of each block) and one scale for a
 * whole axis on the host. Throws what the form has wrong, and KTL4020 for another rank.
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
  const text = `kernel quantize(X: ${tensor.dtype}[${axes}]) -> Y: ${form} {\n  Y = X\n}\n`
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
  return onHost(tensor, plan, norm, scales.globalScale)
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

interface FormPlan {
  readonly data: DTypeName
  readonly scale: DTypeName | null
  readonly zero: DTypeName | null
  readonly hasGlobal: boolean
  readonly rounding: 'up' | 'floor'
  readonly mode: ScaleMode
  readonly scaleShape: readonly number[]
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

/** 2688 / amax for nvfp4: what makes the largest value the largest datum times the largest scale. */
async function normOf(tensor: Tensor, { data, scale }: FormPlan): Promise<number> {
  let amax = 0
  for (const x of await tensor.toArray()) if (Math.abs(x) > amax) amax = Math.abs(x)
  // Scales that are floats of few bits have a largest value to be reached; powers of two and wide floats take what comes.
  const limited = scale !== null && DTYPES[scale].class === 'scale' && DTYPES[scale].mantissaBits > 0
  const most = DTYPES[data].maxFinite * (limited ? DTYPES[scale].maxFinite : 1)
  return amax === 0 || !Number.isFinite(amax) ? 1 : f32(most / f32(amax))
}

async function onHost(
  tensor: Tensor,
  plan: FormPlan,
  norm: number,
  globalScale: number | undefined,
): Promise<ScaledOperand> {
  const { device, shape } = tensor
  const { data, scale, zero, mode, scaleShape, rounding } = plan
  const values = Float32Array.from(await tensor.toArray())
  const blocks = mode.map((block, i) => (block === 'all' ? Math.max(1, shape[i]!) : block))
  const blockOf = blockIndices(shape, blocks)
  const count = blockShape(shape, blocks).reduce((product, extent) => product * extent, 1)
  const made =
    zero === null
      ? quantise(
          { data, scale: scale ?? 'f32', rounding: rounding === 'floor' ? 'down' : 'up' },
          values,
          blockOf,
          count,
          norm,
        )
      : asymmetric(plan, values, blockOf, count)
  // Without scales of its own the form has the global one alone: data are the values over it.
  const stored = scale === null ? values.map((x) => roundToDType(data, f32(x * norm))) : made.data
  return new ScaledOperand(
    device.tensor(data, shape, stored),
    scale === null ? null : device.tensor(scale, scaleShape, made.scale),
    {
      mode,
      rounding,
      ...('zero' in made && { zero: device.tensor(zero!, scaleShape, made.zero as Float32Array) }),
      ...(globalScale !== undefined && { globalScale }),
    },
  )
}

/** The range of a block, and 0, on the whole range of the data: scale = (max - min) / levels, zero = lowest - min / scale. */
function asymmetric({ data, scale, zero }: FormPlan, values: Float32Array, blockOf: Int32Array, count: number) {
  const { bits, signed } = DTYPES[data]
  const [levels, lowest] = [2 ** bits - 1, signed ? -(2 ** (bits - 1)) : 0]
  const [low, high] = [new Float32Array(count), new Float32Array(count)]
  values.forEach((x, i) => {
    const block = blockOf[i]!
    low[block] = Math.min(low[block]!, x)
    high[block] = Math.max(high[block]!, x)
  })
  const scales = low.map((x, block) => roundToDType(scale ?? 'f32', f32(f32(high[block]! - x) * f32(1 / levels))))
  const inverse = scales.map((x) => (x === 0 ? 0 : f32(1 / x)))
  const zeros = low.map((x, block) => roundToDType(zero!, lowest - Math.round(f32(x * inverse[block]!))))
  const stored = values.map((x, i) => {
    const block = blockOf[i]!
    const q = roundToDType('i32', f32(x * inverse[block]!)) + zeros[block]!
    return Math.min(lowest + levels, Math.max(lowest, q))
  })
  return { data: stored, scale: scales, zero: zeros }
}
