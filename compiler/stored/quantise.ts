/**
 * Quantisation of blocks that share a scale, step by step in f32 with nearest-even rounding:
 *
 *     amax   = max |v|                                 NaN propagates
 *     sf_raw = (amax * norm) * RN(1 / max)             max: the largest magnitude of the data's format
 *     scale  = sf_raw rounded to the scale's format    ue8m0: up to a power of two; else: nearest even, saturated
 *     q      = RN_sat(v * min(norm * RN(1 / scale), FLT_MAX))   0 where amax is 0
 *
 * As NVIDIA's libraries have it: cuBLAS and cuDNN "Block Scaling" (scale = round_up(amax / vmax), output = round_even(vals / scale)),
 * `cvt.rp.satfinite.ue8m0x2` of the PTX ISA for the power of two; arXiv 2506.08027 on rounding up. `down` is the rule of OCP
 * Microscaling Formats (MX) 1.0, 6.3: 2^(floor(log2 amax) - emax), which saturates what lies above.
 */
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { roundToDType } from '../codec.ts'
import { DTYPES } from '../dtypes.ts'

export interface QuantisedForm {
  readonly data: DTypeName
  /** A scale format or a float. */
  readonly scale: DTypeName
  /** Which power of two a ue8m0 scale becomes. */
  readonly rounding: 'up' | 'down'
}

const FLT_MAX = 3.4028234663852886e38
const f32 = Math.fround

/** The larger magnitude so far; NaN stays. */
export const amaxOf = (amax: number, value: number): number => Math.max(amax, Math.abs(value))

/** The scale of a block: a value of its format. A NaN among the values gives NaN. Rises with `amax`. */
export function scaleOf(form: QuantisedForm, amax: number, norm = 1): number {
  const scaled = f32(amax * norm)
  const { maxFinite } = DTYPES[form.data]
  if (form.scale === 'ue8m0' && form.rounding === 'down') return floorPower(scaled, Math.floor(Math.log2(maxFinite)))
  return roundToDType(form.scale, f32(scaled * f32(1 / maxFinite)))
}

/** 2^(floor(log2 x) - emax) within the range of ue8m0. */
function floorPower(x: number, emax: number): number {
  if (Number.isNaN(x)) return NaN
  if (x === Infinity) return 2 ** 127
  return x === 0 ? 2 ** -127 : Math.max(2 ** -127, 2 ** (exponentOf(x) - emax))
}

/** floor(log2 x) of a positive f32 number. */
function exponentOf(x: number): number {
  let exponent = Math.floor(Math.log2(x))
  // The logarithm may round up to the next integer.
  if (2 ** exponent > x) exponent--
  return exponent
}

/** What the values of a block are multiplied by. */
export function multiplierOf(scale: number, norm = 1): number {
  return Math.min(f32(norm * f32(1 / scale)), FLT_MAX)
}

/** The stored datum: a value of the data's format, saturated at ± its largest. NaN is 0 where the format has none. Rises with `value`. */
export function quantiseOne(data: DTypeName, value: number, multiplier: number): number {
  const { maxFinite, nan, class: kind } = DTYPES[data]
  const product = f32(value * multiplier)
  if (Number.isNaN(product)) return kind === 'float' && nan !== null ? NaN : 0
  return roundToDType(data, Math.min(maxFinite, Math.max(-maxFinite, product)))
}
