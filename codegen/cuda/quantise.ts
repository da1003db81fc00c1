/** The formula of quantisation as CUDA expressions (compiler/stored/quantise.ts); every step is rounded to f32. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { StoredForm } from '../../compiler/ir/tensor.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { convertCompute, literal, loadConversion, storeConversion } from './expression.ts'

const FLT_MAX = literal('f32', DTYPES.f32.maxFinite).text

/** 1, the reciprocal of the global scale, or the caller's constant. */
export function normText(global: string | null, norm: string | null): string {
  if (global === null) return '1.0f'
  return norm === null ? `1.0f / ${global}` : `${norm} != 0.0f ? ${norm} : 1.0f / ${global}`
}

/** The code of a block's scale. */
export function scaleCode(
  data: DTypeName,
  scale: DTypeName,
  rounding: StoredForm['rounding'],
  largest: string,
  norm: string,
  functions: Set<string>,
): string {
  const max = DTYPES[data].maxFinite
  if (rounding === 'down' && scale === 'ue8m0') {
    functions.add('ktl_power_below')
    return `ktl_power_below(${largest} * ${norm}, ${Math.floor(Math.log2(max))})`
  }
  return storeConversion(scale, 'f32', `${largest} * ${norm} * ${literal('f32', Math.fround(1 / max)).text}`, functions)
}

/** What the values of a block are multiplied by. */
export function factorText(scale: DTypeName, code: string, norm: string, functions: Set<string>): string {
  const decoded = convertCompute(DTYPES[scale].compute, 'f32', loadConversion(scale, code, functions), functions)
  return `fminf(${norm} * (1.0f / ${decoded}), ${FLT_MAX})`
}

/** The same without a scale: of a whole tensor. */
export const wholeFactor = (norm: string): string => `fminf(${norm}, ${FLT_MAX})`

/** Integers saturate symmetrically. */
export function symmetric(data: DTypeName, product: string): string {
  const { maxFinite, signed, class: kind } = DTYPES[data]
  return kind === 'int' && signed ? `fmaxf(${product}, ${literal('f32', -maxFinite).text})` : product
}
