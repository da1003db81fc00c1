/**
 * Number formats ⇄ JavaScript numbers. A *code* is an element's stored bit pattern, one array element each (bool,
 * 8-bit and narrower formats in a Uint8Array); packing of sub-byte codes is the storage's business.
 *
 * Stores round to nearest even once, straight from the f64 value; overflow is infinite or saturates as the dtype
 * says; integers saturate and turn NaN to 0. ue8m0 rounds up and drops the sign, ue4m3 sends negative values to 0.
 */
import type { DTypeName } from '../grammar/vocabulary.ts'
import { DTYPES, type DType } from './dtypes.ts'
import { convertCompute, roundEven } from './ops/numeric.ts'

export type Codes = Uint8Array | Uint16Array | Uint32Array | BigUint64Array
/** Values of a tensor, by dtype: floats up to 32 bits, f64, and integers by their own class. */
export type DecodedArray = Float32Array | Float64Array | Int32Array | Int8Array | Uint8Array | Uint32Array

/** Codes of `values` (numbers; booleans count as 0 and 1). */
export function encode(dtype: DTypeName, values: ArrayLike<number>): Codes {
  const n = values.length
  switch (dtype) {
    case 'f64':
      return new BigUint64Array(Float64Array.from(values).buffer)
    case 'f32': // a conversion to f32 may change the payload of a NaN, as any hardware's does
      return new Uint32Array(Float32Array.from(values).buffer)
    case 'i8':
    case 'u8':
    case 'i4':
    case 'u4':
    case 'i32':
    case 'u32':
    case 'bool': {
      const codes = dtype === 'i32' || dtype === 'u32' ? new Uint32Array(n) : new Uint8Array(n)
      const mask = dtype === 'i4' ? 15 : -1
      for (let i = 0; i < n; i++) codes[i] = toInteger(dtype, values[i]!) & mask
      return codes
    }
  }
  const words = roundToOdd(values)
  if (dtype === 'bf16') return encodeBf16(words)
  if (dtype === 'tf32') return encodeTf32(words)
  if (dtype === 'ue8m0') return encodeUe8m0(words)
  return encodeNarrow(NARROW[dtype] ?? (NARROW[dtype] = narrowTable(DTYPES[dtype])), words)
}

/** Values of codes, in the array class of the dtype: Float32Array up to 32-bit floats, Float64Array, integer arrays. */
export function decode(dtype: DTypeName, codes: Codes): DecodedArray {
  if (dtype === 'f64') return new Float64Array(sliceBuffer(codes))
  if (dtype === 'f32' || dtype === 'tf32') return new Float32Array(sliceBuffer(codes))
  if (dtype === 'i32') return new Int32Array(sliceBuffer(codes))
  if (dtype === 'u32') return new Uint32Array(sliceBuffer(codes))
  if (dtype === 'i8') return new Int8Array(sliceBuffer(codes))
  if (dtype === 'i4') return Int8Array.from(codes as Uint8Array, (code) => (code << 28) >> 28)
  if (dtype === 'u8' || dtype === 'u4' || dtype === 'bool') return new Uint8Array(sliceBuffer(codes))
  const source = codes as Uint8Array | Uint16Array
  const n = source.length
  if (dtype === 'bf16') {
    const words = new Uint32Array(n)
    for (let i = 0; i < n; i++) words[i] = source[i]! << 16
    return new Float32Array(words.buffer)
  }
  const table = DECODED[dtype] ?? (DECODED[dtype] = decodeTable(DTYPES[dtype]))
  const values = new Float32Array(n)
  for (let i = 0; i < n; i++) values[i] = table[source[i]!]!
  return values
}

const one = new Float64Array(1)

/** The value that storing `value` and loading it again gives. */
export function roundToDType(dtype: DTypeName, value: number): number {
  if (dtype === 'f64') return value
  if (dtype === 'f32') return Math.fround(value)
  one[0] = value
  return decode(dtype, encode(dtype, one))[0]!
}

/** One code. f64 codes are bigint and go through `encode`. */
export function encodeOne(dtype: Exclude<DTypeName, 'f64'>, value: number): number {
  one[0] = value
  return encode(dtype, one)[0] as number
}

/** The value of one code. */
export function decodeOne(dtype: Exclude<DTypeName, 'f64'>, code: number): number {
  const width = DTYPES[dtype].storageBytes
  return decode(
    dtype,
    width === 1 ? Uint8Array.of(code) : width === 2 ? Uint16Array.of(code) : Uint32Array.of(code),
  )[0]!
}

function sliceBuffer({ buffer, byteOffset, byteLength }: Codes): ArrayBuffer {
  return (buffer as ArrayBuffer).slice(byteOffset, byteOffset + byteLength)
}

function toInteger(dtype: 'i8' | 'u8' | 'i4' | 'u4' | 'i32' | 'u32' | 'bool', value: number): number {
  if (dtype === 'i32' || dtype === 'u32' || dtype === 'bool') return convertCompute(Number(value), dtype)
  if (Number.isNaN(value)) return 0
  const rounded = roundEven(value)
  const { maxFinite, signed } = DTYPES[dtype]
  return Math.min(maxFinite, Math.max(signed ? -maxFinite - 1 : 0, rounded))
}

/**
 * f32 bits of the values, inexact ones made odd: truncated, then the lowest bit set. A further rounding to a format
 * of at most 22 bits is then the only one.
 */
function roundToOdd(values: ArrayLike<number>): Uint32Array {
  if (values instanceof Float32Array) return new Uint32Array(values.buffer, values.byteOffset, values.length)
  const rounded = Float32Array.from(values)
  const words = new Uint32Array(rounded.buffer)
  for (let i = 0; i < words.length; i++) {
    const exact = Number(values[i])
    const near = rounded[i]!
    if (near === exact || exact !== exact) continue
    // A step of the bits toward zero undoes rounding away from it (from infinity too).
    if (Math.abs(near) > Math.abs(exact)) words[i] = words[i]! - 1
    words[i] = words[i]! | 1
  }
  return words
}

function encodeBf16(words: Uint32Array): Uint16Array {
  const codes = new Uint16Array(words.length)
  for (let i = 0; i < codes.length; i++) {
    const w = words[i]!
    codes[i] = (w & 0x7fffffff) > 0x7f800000 ? 0x7fff : (w + 0x7fff + ((w >>> 16) & 1)) >>> 16
  }
  return codes
}

function encodeTf32(words: Uint32Array): Uint32Array {
  const codes = new Uint32Array(words.length)
  for (let i = 0; i < codes.length; i++) {
    const w = words[i]!
    codes[i] = (w & 0x7fffffff) > 0x7f800000 ? 0x7fffe000 : (w + 0xfff + ((w >>> 13) & 1)) & 0xffffe000
  }
  return codes
}

/** For each f32 exponent: how far the 24-bit significand moves right, and the code it is added to. */
interface NarrowTable {
  readonly shift: Uint8Array
  readonly base: Int32Array
  /** Largest code that is not NaN (infinity where the format has one). */
  readonly largest: number
  readonly nan: number
  readonly signBit: number
  readonly wide: boolean
}

const NARROW: Partial<Record<DTypeName, NarrowTable>> = {}

function narrowTable(format: DType): NarrowTable {
  const { exponentBits, mantissaBits, bias, signed } = format
  const shift = new Uint8Array(256)
  const base = new Int32Array(256)
  const largest = format.overflow === 'infinity' ? ((1 << exponentBits) - 1) << mantissaBits : codeOfLargest(format)
  for (let e = 0; e < 256; e++) {
    const exponent = Math.max(e, 1) - 127 + bias
    if (exponent >= 1) {
      // Normal: the implicit bit adds 1 to the exponent field, so the base has one less.
      shift[e] = 23 - mantissaBits
      base[e] = Math.min((exponent - 1) << mantissaBits, largest)
    } else shift[e] = Math.min(23 - mantissaBits + 1 - exponent, 30)
  }
  const nan = format.nan ?? codeOfLargest(format)
  return { shift, base, largest, nan, signBit: signed ? 1 << (exponentBits + mantissaBits) : 0, wide: format.bits > 8 }
}

function codeOfLargest({ exponentBits, mantissaBits, bias, maxFinite }: DType): number {
  const exponent = Math.floor(Math.log2(maxFinite))
  const mantissa = (maxFinite / 2 ** exponent - 1) * 2 ** mantissaBits
  return Math.min(exponent + bias, 2 ** exponentBits - 1) * 2 ** mantissaBits + mantissa
}

function encodeNarrow({ shift, base, largest, nan, signBit, wide }: NarrowTable, words: Uint32Array): Codes {
  const codes = wide ? new Uint16Array(words.length) : new Uint8Array(words.length)
  for (let i = 0; i < codes.length; i++) {
    const w = words[i]!
    const exponent = (w >>> 23) & 0xff
    if (exponent === 255) {
      codes[i] = w & 0x7fffff ? nan : w >>> 31 ? (signBit ? signBit | largest : 0) : largest
      continue
    }
    const significand = (w & 0x7fffff) | (exponent === 0 ? 0 : 0x800000)
    const s = shift[exponent]!
    const code = base[exponent]! + ((significand + (1 << (s - 1)) - 1 + ((significand >>> s) & 1)) >>> s)
    const magnitude = code < largest ? code : largest
    codes[i] = w >>> 31 ? (signBit ? signBit | magnitude : 0) : magnitude
  }
  return codes
}

/** The next power of two at or above |x|, as cvt.rp.satfinite.ue8m0x2 does; 2^-127 is the f32 subnormal 0x400000. */
function encodeUe8m0(words: Uint32Array): Uint8Array {
  const codes = new Uint8Array(words.length)
  for (let i = 0; i < codes.length; i++) {
    const w = words[i]! & 0x7fffffff
    const up = w < 0x800000 ? w > 0x400000 : (w & 0x7fffff) !== 0
    codes[i] = w > 0x7f800000 ? 0xff : Math.min(0xfe, (w >>> 23) + (up ? 1 : 0))
  }
  return codes
}

const DECODED: Partial<Record<DTypeName, Float32Array>> = {}

function decodeTable(format: DType): Float32Array {
  const { exponentBits, mantissaBits, bias, signed, nan } = format
  const magnitudeBits = exponentBits + mantissaBits
  const table = new Float32Array(2 ** (format.bits > 8 ? 16 : 8))
  for (let code = 0; code < table.length; code++) {
    const magnitude = code & ((1 << magnitudeBits) - 1)
    const exponent = magnitude >> mantissaBits
    const mantissa = magnitude & ((1 << mantissaBits) - 1)
    const value =
      format.name === 'ue8m0'
        ? 2 ** (code - bias)
        : exponent === 0
          ? mantissa * 2 ** (1 - bias - mantissaBits)
          : (2 ** mantissaBits + mantissa) * 2 ** (exponent - bias - mantissaBits)
    const ieee = format.name === 'f16' || format.name === 'e5m2'
    const special =
      ieee && exponent === 2 ** exponentBits - 1
        ? mantissa
          ? NaN
          : Infinity
        : nan !== null && magnitude === nan
          ? NaN
          : value
    table[code] = signed && (code >> magnitudeBits) & 1 ? -special : special
  }
  return table
}
