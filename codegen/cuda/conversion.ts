/** Conversions as CUDA expressions: between compute types, and between storage and compute type. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { ComputeType } from '../../compiler/ir/tensor.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'

const fromF64 = { f32: '__double2float_rn', i32: 'ktl_f64_to_i32', u32: 'ktl_f64_to_u32' } as const
const CONVERT: Readonly<Record<ComputeType, Partial<Readonly<Record<ComputeType, string>>>>> = {
  f32: { f64: '(double)', i32: '__float2int_rn', u32: '__float2uint_rn' },
  f64: fromF64,
  i32: { f32: '__int2float_rn', f64: '(double)', u32: 'ktl_i32_to_u32' },
  u32: { f32: '__uint2float_rn', f64: '(double)', i32: 'ktl_u32_to_i32' },
  bool: { f32: '(float)', f64: '(double)', i32: '(int)', u32: '(unsigned int)' },
}

/** `name(text)` or `(type)(text)`, remembering functions of ours. */
function apply(name: string, text: string, functions: Set<string>): string {
  if (name.startsWith('ktl_')) functions.add(name)
  return `${name}(${text})`
}

/** Value of type `from` as type `to`: nearest even; floats to integers saturate, NaN gives 0. */
export function convertCompute(from: ComputeType, to: ComputeType, text: string, functions: Set<string>): string {
  if (from === to) return text
  if (to === 'bool') return `((${text}) != ${from === 'f32' ? '0.0f' : from === 'f64' ? '0.0' : '0'})`
  return apply(CONVERT[from][to]!, text, functions)
}

/** An element in storage as its compute type, exactly. */
export function loadConversion(dtype: DTypeName, text: string, functions: Set<string>): string {
  const { compute, cudaStorage } = DTYPES[dtype]
  if (dtype === 'bool') return `(${text} != 0)`
  if (dtype === 'i4') return apply('ktl_i4_to_i32', text, functions)
  if (compute === 'i32') return cudaStorage === 'int' ? text : `(int)${text}`
  if (cudaStorage === 'float' || cudaStorage === 'double' || compute === 'u32') return text
  return apply(`ktl_${dtype}_to_f32`, text, functions)
}

/** Whole bytes, and all of them 0 stand for 0. */
export const hasZero = (dtype: DTypeName): boolean => DTYPES[dtype].bits >= 8 && dtype !== 'ue8m0'

/**
 * The element at `from`, a pointer, as its compute type; 0 unless `inside`. For those that have a zero: a load under a predicate, not behind a branch, leaves
 * others under way.
 */
export function loadInside(dtype: DTypeName, from: string, inside: string, functions: Set<string>): string {
  return loadConversion(dtype, apply('ktl_load_if', `${from}, ${inside}`, functions), functions)
}

/** A float that narrow formats are rounded from: inexact conversions from f64 and integers are rounded to odd. */
function toOddF32(type: ComputeType, text: string, functions: Set<string>): string {
  if (type === 'f32') return text
  if (type === 'bool') return convertCompute('bool', 'f32', text, functions)
  return apply(`ktl_${type}_to_f32_odd`, text, functions)
}

const isNarrowInteger = (dtype: DTypeName): boolean => DTYPES[dtype].class === 'int' && DTYPES[dtype].bits <= 8

/** A value of compute type `type` as the storage type of `dtype`, rounded once, saturating as the dtype says. */
export function storeConversion(dtype: DTypeName, type: ComputeType, text: string, functions: Set<string>): string {
  const { compute, cudaStorage } = DTYPES[dtype]
  if (isNarrowInteger(dtype)) {
    const wide = convertCompute(type, 'i32', text, functions)
    const code = apply(`ktl_saturate_${dtype}`, wide, functions)
    return `(${cudaStorage})${dtype === 'i4' ? `(${code} & 15)` : code}`
  }
  if (dtype === 'bool') return `(${cudaStorage})${convertCompute(type, 'bool', `(${text})`, functions)}`
  if (dtype === compute) return convertCompute(type, compute, text, functions)
  return apply(`ktl_f32_to_${dtype}`, toOddF32(type, text, functions), functions)
}

/** `f16(x)`: the value after a store to `dtype` and a load, as the dtype's compute type. */
export function castConversion(dtype: DTypeName, type: ComputeType, text: string, functions: Set<string>): string {
  if (isNarrowInteger(dtype))
    return apply(`ktl_saturate_${dtype}`, convertCompute(type, 'i32', text, functions), functions)
  if (dtype === DTYPES[dtype].compute) return convertCompute(type, DTYPES[dtype].compute, text, functions)
  return loadConversion(dtype, storeConversion(dtype, type, text, functions), functions)
}
