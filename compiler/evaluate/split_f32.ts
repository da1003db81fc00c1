/**
 * f32 in two parts of tf32, x = high + low + what is left out: high is x rounded to 11 bits of significand (the nearest, ties away from 0), low
 * the rest, of which tensor cores take 11 bits: they do not read the last 13 of f32. Of 24 bits that leaves out at most the last
 * one, 2^-23 |x|, and of numbers below 2^-113 what lies below 2^-136, the smallest tf32. Magnitudes that round to
 * 2^128 have no parts, and neither have infinities: 0 times infinity is among their products.
 */
const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)

/** Bits of f32 that tf32 has. */
const TF32_BITS = 0xffffe000
const HALF_ULP = 0x1000

/** As floats: the larger part, and the rest of x. */
function partsOf(x: number): readonly [number, number] {
  float[0] = x
  bits[0] = (bits[0]! + HALF_ULP) & TF32_BITS
  const high = float[0]!
  return [high, Math.fround(x - high)]
}

function truncated(low: number): number {
  float[0] = low
  bits[0]! &= TF32_BITS
  return float[0]!
}

/** Magnitude of the smaller part of an f32; 0 where there are none, which `splitLoss` says. */
export function smallerPart(x: number): number {
  const [high, low] = partsOf(x)
  return Number.isFinite(high) ? Math.abs(truncated(low)) : 0
}

/** Magnitude of what the two parts of an f32 leave out: infinite where it has none. NaN has none to lose. */
export function splitLoss(x: number): number {
  if (Number.isNaN(x)) return 0
  const [high, low] = partsOf(x)
  return Number.isFinite(high) ? Math.abs(low - truncated(low)) : Infinity
}
