/** Arithmetic that JavaScript lacks: f32 and f64 fused multiply-add, units in the last place, normal distribution. */
import type { ComputeType } from '../ir/tensor.ts'
import { NORMAL_TAIL } from './normal_tail.ts'

const f64 = new Float64Array(1)
const words = new Uint32Array(f64.buffer)

/** Distance between neighbouring numbers of `type` at |x|; the smallest subnormal near 0. */
export function ulp(type: 'f32' | 'f64', x: number): number {
  const a = Math.abs(x)
  if (!(a < Infinity)) return 0
  f64[0] = a
  const exponent = (words[1]! >>> 20) - 1023
  return type === 'f32' ? 2 ** (Math.max(exponent, -126) - 23) : 2 ** (Math.max(exponent, -1022) - 52)
}

/** Rounds half to even. */
export function roundEven(x: number): number {
  if (!(Math.abs(x) < 4503599627370496)) return x
  const floor = Math.floor(x)
  const rest = x - floor
  if (rest < 0.5) return x < 0 && floor === 0 ? -0 : floor
  const up = floor + 1
  const rounded = rest > 0.5 || up % 2 === 0 ? up : floor
  return rounded === 0 && (x < 0 || Object.is(x, -0)) ? -0 : rounded
}

/** Rounds an f64 sum `s` with known sign of the remaining error to odd, so that one more rounding is the only one. */
function toOdd(s: number, error: number): number {
  f64[0] = s
  if (error === 0 || words[0]! & 1 || !Number.isFinite(s)) return s
  // Move to the neighbour on the error's side: away from zero if it has s's sign. (s is even: its low word never carries up.)
  if (s > 0 === error > 0) words[0] = words[0]! + 1
  else if (words[0] === 0) {
    words[0] = 0xffffffff
    words[1] = words[1]! - 1
  } else words[0] = words[0]! - 1
  return f64[0]!
}

/** a * b + c in f32 with one rounding. */
export function fmaF32(a: number, b: number, c: number): number {
  const p = a * b // exact: 48 bits
  const [s, error] = twoSum(p, c)
  return Math.fround(Number.isFinite(s) ? toOdd(s, error) : s)
}

/** a * b + c in f64 with one rounding. */
export function fmaF64(a: number, b: number, c: number): number {
  if (!Number.isFinite(c)) return Number.isFinite(a) && Number.isFinite(b) ? c : a * b + c
  if (!Number.isFinite(a) || !Number.isFinite(b) || a === 0 || b === 0 || c === 0) return a * b + c
  const p = a * b
  const inRange = (x: number) => Math.abs(x) > 1e-120 && Math.abs(x) < 1e120
  if (!(inRange(a) && inRange(b) && inRange(c))) return fmaExact(a, b, c)
  // p + low = a * b exactly (Dekker); then the three-term sum with its tail rounded to odd (Boldo and Melquiond).
  const ca = 134217729 * a
  const cb = 134217729 * b
  const ah = ca - (ca - a)
  const bh = cb - (cb - b)
  const low = (a - ah) * (b - bh) - (p - ah * bh - (a - ah) * bh - ah * (b - bh))
  const [uh, ul] = twoSum(c, low)
  const [th, tl] = twoSum(p, uh)
  const [s, error] = twoSum(tl, ul)
  return th + toOdd(s, error)
}

/** The sum of two numbers and its rounding error. */
function twoSum(a: number, b: number): [number, number] {
  const s = a + b
  const t = s - a
  return [s, a - (s - t) + (b - t)]
}

/** Exact through integers: a = m · 2^e with integer m. */
function fmaExact(a: number, b: number, c: number): number {
  const [ma, ea] = integerParts(a)
  const [mb, eb] = integerParts(b)
  const [mc, ec] = integerParts(c)
  let product = ma * mb
  let addend = mc
  let e = ea + eb
  if (e > ec) {
    // Aligning a product that dwarfs c would make huge integers: a sticky bit far below it does the same.
    if (e - ec > 2300) addend = mc > 0n ? 1n : -1n
    const shift = Math.min(e - ec, 2300)
    product <<= BigInt(shift)
    e -= shift
  } else addend <<= BigInt(ec - e)
  const sum = product + addend
  return sum === 0n ? 0 : roundInteger(sum, e)
}

function integerParts(x: number): [bigint, number] {
  f64[0] = x
  const high = words[1]!
  const exponent = (high >>> 20) & 0x7ff
  const mantissa = (BigInt((high & 0xfffff) | (exponent ? 0x100000 : 0)) << 32n) | BigInt(words[0]!)
  return [high >>> 31 ? -mantissa : mantissa, Math.max(exponent, 1) - 1075]
}

/** m · 2^e to f64, nearest even. */
function roundInteger(m: bigint, e: number): number {
  const negative = m < 0n
  let magnitude = negative ? -m : m
  const bits = magnitude.toString(2).length
  // Bits to drop: beyond 53, or below the subnormal grid 2^-1074.
  const drop = Math.max(bits - 53, -1074 - e)
  if (drop > 0) {
    const low = magnitude & ((1n << BigInt(drop)) - 1n)
    const half = 1n << BigInt(drop - 1)
    magnitude >>= BigInt(drop)
    if (low > half || (low === half && magnitude & 1n)) magnitude += 1n
    e += drop
  }
  const value = Number(magnitude)
  const scaled =
    e > 0
      ? value * 2 ** Math.min(e, 1000) * 2 ** Math.max(e - 1000, 0)
      : value * 2 ** Math.max(e, -1022) * 2 ** Math.min(e + 1022, 0)
  return negative ? -scaled : scaled
}

/** Converts between compute types as the language does implicitly and in casts: nearest even, saturating, NaN → 0. */
export function convertCompute(value: number, to: ComputeType): number {
  switch (to) {
    case 'f32':
      return Math.fround(value)
    case 'f64':
      return value
    case 'i32':
      return Number.isNaN(value) ? 0 : Math.min(2147483647, Math.max(-2147483648, roundEven(value))) | 0
    case 'u32':
      return Number.isNaN(value) ? 0 : Math.min(4294967295, Math.max(0, roundEven(value))) >>> 0
    case 'bool':
      return value !== 0 ? 1 : 0
  }
}

/** R(t) (1 + t), where Φ(-t) = exp(-t²/2) R(t). */
function normalTail(t: number): number {
  const { center, coefficients } = NORMAL_TAIL
  const s = (t - center) / (t + center)
  let p = 0
  for (const c of coefficients) p = p * s + c
  return p
}

/** exp(-t²/2) · y without a subnormal factor, `square` being t². */
const timesGaussian = (square: number, y: number): number =>
  square < 1400 ? Math.exp(-0.5 * square) * y : Math.exp(-0.25 * square) * y * Math.exp(-0.25 * square)

const [TWO_OVER_ROOT_PI, TWO_OVER_ROOT_PI_LOW] = [1.1283791670955126, 1.533545961316588e-17]

/** The error function: its series near 0, else 1 - 2Φ(-√2 |x|), whose last term is at most half of it. */
export function erf(x: number): number {
  const t = Math.abs(x)
  if (t < 0.5) {
    // x · 2/√π · Σ (-x²)ⁿ / (n! (2n + 1))
    let sum = 0
    for (let n = 12; n > 0; n--) sum = ((-x * x) / n) * (1 / (2 * n + 1) + sum)
    return x * TWO_OVER_ROOT_PI + x * (TWO_OVER_ROOT_PI_LOW + TWO_OVER_ROOT_PI * sum)
  }
  if (!(t < 6)) return Number.isNaN(x) ? x : Math.sign(x)
  const s = t * Math.SQRT2
  return Math.sign(x) * (1 - (2 * Math.exp(-t * t) * normalTail(s)) / (1 + s))
}

/** x · Φ(x), Φ the distribution function of the standard normal: gelu. For x with 26 bits, whose square is exact. */
export function timesNormalCdf(x: number): number {
  const t = Math.abs(x)
  if (!(t < 40)) return x < 0 ? -0 : x
  const tail = timesGaussian(t * t, (t * normalTail(t)) / (1 + t))
  return x < 0 ? -tail : x - tail
}

/** The same for any f64: the rounding errors of the square and of the quotient are put back. */
export function timesNormalCdfF64(x: number): number {
  const t = Math.abs(x)
  if (!(t < 40)) return x < 0 ? -0 : x
  const p = normalTail(t)
  const num = t * p
  const [den, denLow] = twoSum(1, t)
  const q = num / den
  const qLow = (fmaF64(-q, den, num) + fmaF64(t, p, -num) - q * denLow) / den
  const square = t * t
  const tail = timesGaussian(square, q + (qLow - 0.5 * fmaF64(t, t, -square) * q))
  return x < 0 ? -tail : x - tail
}
