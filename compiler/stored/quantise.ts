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

export interface Quantised {
  /** Values of the data's format, as many as were given. */
  readonly data: Float32Array
  /** Values of the scale's format, one for each block. */
  readonly scale: Float32Array
}

/** Quantises f32 `values`, of which number i is in block `blockOf[i]` of `blocks`; `norm`: one for all, or one for each block. */
export function quantise(
  form: QuantisedForm,
  values: Float32Array,
  blockOf: ArrayLike<number>,
  blocks: number,
  norm: number | ArrayLike<number> = 1,
): Quantised {
  const amax = new Float32Array(blocks)
  for (let i = 0; i < values.length; i++) amax[blockOf[i]!] = amaxOf(amax[blockOf[i]!]!, values[i]!)
  const normOf = (block: number): number => (typeof norm === 'number' ? norm : norm[block]!)
  const scale = amax.map((x, block) => scaleOf(form, x, normOf(block)))
  const multipliers = scale.map((x, block) => multiplierOf(x, normOf(block)))
  const data = values.map((value, i) => {
    const block = blockOf[i]!
    return amax[block] === 0 ? 0 : quantiseOne(form.data, value, multipliers[block]!)
  })
  return { data, scale }
}

/** Blocks along each axis: the extents of a scale. */
export const blockShape = (shape: readonly number[], blocks: readonly number[]): number[] =>
  shape.map((extent, axis) => Math.ceil(extent / blocks[axis]!))

/** The block of each element of a dense row-major tensor, row-major over `blockShape`. The last blocks may be short. */
export function blockIndices(shape: readonly number[], blocks: readonly number[]): Int32Array {
  const counts = blockShape(shape, blocks)
  let indices = new Int32Array(1)
  shape.forEach((extent, axis) => {
    const next = new Int32Array(indices.length * extent)
    for (let i = 0, at = 0; i < indices.length; i++)
      for (let j = 0; j < extent; j++) next[at++] = indices[i]! * counts[axis]! + Math.floor(j / blocks[axis]!)
    indices = next
  })
  return indices
}
