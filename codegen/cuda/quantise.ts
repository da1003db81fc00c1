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

/** The code of a block's scale. `norm`: empty where it is 1. */
export function scaleCode(
  data: DTypeName,
  scale: DTypeName,
  rounding: StoredForm['rounding'],
  largest: string,
  norm: string,
  functions: Set<string>,
): string {
  const max = DTYPES[data].maxFinite
  const magnitude = norm === '' ? largest : `${largest} * ${norm}`
  if (rounding === 'down' && scale === 'ue8m0') {
    functions.add('ktl_power_below')
    return `ktl_power_below(${magnitude}, ${Math.floor(Math.log2(max))})`
  }
  return storeConversion(scale, 'f32', `${magnitude} * ${literal('f32', Math.fround(1 / max)).text}`, functions)
}

/** What the values of a block are multiplied by. Powers of two have their reciprocals at hand. */
export function factorText(scale: DTypeName, code: string, norm: string, functions: Set<string>): string {
  if (scale === 'ue8m0' && norm === '') return `__uint_as_float(${code} == 254 ? 0x400000u : (254u - ${code}) << 23)`
  const decoded = convertCompute(DTYPES[scale].compute, 'f32', loadConversion(scale, code, functions), functions)
  return `fminf(${norm === '' ? '' : `${norm} * `}(1.0f / ${decoded}), ${FLT_MAX})`
}

/** The same without a scale: of a whole tensor. */
export const wholeFactor = (norm: string): string => `fminf(${norm}, ${FLT_MAX})`

/** Integers saturate symmetrically; NaN stays, but in floats that have none. */
export function symmetric(data: DTypeName, product: string): string {
  const { maxFinite, signed, nan, class: kind } = DTYPES[data]
  if (kind === 'float' && nan === null) return `(${product} == ${product} ? ${product} : 0.0f)`
  if (kind !== 'int' || !signed) return product
  const least = literal('f32', -maxFinite).text
  return `(${product} < ${least} ? ${least} : ${product})`
}
