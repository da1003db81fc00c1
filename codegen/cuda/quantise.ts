/** The formula of quantisation as CUDA expressions (compiler/stored/quantise.ts); every step is rounded to f32. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { StoredForm, TensorOperand } from '../../compiler/ir/tensor.ts'
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

/**
 * 8-bit integers leave as sums with 1.5 * 2^23, whose lowest byte is the integer, rounded to nearest even: an addition, where the conversion
 * takes as long as eight.
 */
export const isBiased = ({ stored, dtype }: TensorOperand): boolean => stored !== undefined && dtype === 'i8'
const BIAS = '12582912.0f'

/** Do products never exceed the largest of the data but by rounding? Infinities are none then either: their scale is one. */
const fits = ({ rounding, global }: StoredForm, scale: DTypeName): boolean =>
  global === null && scale === 'f32' && rounding === 'up'

/** What `elementText` needs to know of a block besides: a statement, or none. */
export const blockText = (data: DTypeName, bound: string, factor: string): string | null =>
  data === 'i8'
    ? `const float ${bound} = fabsf(${factor}) > 0.0f ? ${literal('f32', DTYPES[data].maxFinite).text} : 0.0f;`
    : null

/** An element of a block. `zero`: what is added to its product, as a block of zeros has no signs; a NaN stays, but where data have none. */
export function elementText(
  form: StoredForm,
  [data, scale]: readonly [DTypeName, DTypeName],
  {
    value,
    factor,
    zero,
    bound,
  }: { readonly value: string; readonly factor: string; readonly zero: string; readonly bound: string },
  functions: Set<string>,
): string {
  const { nan, class: kind } = DTYPES[data]
  if (data === 'i8') {
    // fminf makes the bound, which is 0 then, of what is no number.
    const most = `fminf(${value} * ${factor}, ${bound})`
    return `${fits(form, scale) ? most : `fmaxf(${most}, -${bound})`} + ${BIAS}`
  }
  if (kind === 'int') return symmetric(data, `${value} * ${factor}`)
  const product = `fmaf(${value}, ${factor}, ${zero})`
  if (nan !== null) return product
  functions.add('ktl_or_zero')
  return `ktl_or_zero(${product})`
}
