/**
 * Between values in logical order and the bytes of a strided tensor. *Codes* are the stored bit patterns, one array
 * element each; *values* are numbers. The storage image covers a tensor from its first to its last element.
 */
import { DTYPES, isDType, rowUnit } from '../../compiler/dtypes.ts'
import { decode, encode, type Codes, type DecodedArray } from '../../compiler/codec.ts'
import { DTYPE_NAMES, type DTypeName } from '../../grammar/vocabulary.ts'
import { ktlError } from '../errors/fail.ts'
import { elementCount, forEachRow, formatShape, isDense, mayOverlap, spanOf, type Layout } from './layout.ts'
import { describe } from '../errors/describe.ts'

export type { Codes, DecodedArray }

/** Numbers or booleans in logical order, or one number for every element. */
export type Values = ArrayLike<number | boolean> | number
/** A storage image of exactly `byteLength` bytes, or one code for each element in logical order. */
export interface RawBits {
  readonly bits: ArrayBufferView | readonly (number | bigint)[]
}

const CODE_ARRAYS = {
  4: Uint8Array,
  6: Uint8Array,
  8: Uint8Array,
  16: Uint16Array,
  32: Uint32Array,
  64: BigUint64Array,
} as const

/** Bits from one element to the next in a tensor: narrow types are packed, 4-bit two and 6-bit four thirds a byte, the first lowest. */
export function elementBits(dtype: DTypeName): keyof typeof CODE_ARRAYS {
  return DTYPES[dtype].bits as keyof typeof CODE_ARRAYS
}

/** KTL4003 unless every row of packed elements starts on a byte: one axis is contiguous, and no other stride ends inside a byte. */
export function checkPacking(dtype: DTypeName, { shape, strides }: Pick<Layout, 'shape' | 'strides'>): void {
  const unit = rowUnit(dtype)
  const odd = strides.filter((stride, axis) => shape[axis]! > 1 && stride % unit !== 0)
  if (odd.length === 0 || (odd.length === 1 && odd[0] === 1)) return
  throw ktlError('KTL4003', {
    expected: `one axis of stride 1 and multiples of ${unit} elsewhere, so that rows of ${dtype} start at whole bytes`,
    got: formatShape(strides),
  })
}

/** Do the elements fill whole bytes one after another? Then the image holds nothing else. */
export const fillsImage = (dtype: DTypeName, layout: Layout): boolean =>
  isDense(layout) && (elementCount(layout.shape) * elementBits(dtype)) % 8 === 0

/** Bytes that hold `elements` elements in a row. */
export function bytesOf(dtype: DTypeName, elements: number): number {
  return Math.ceil((elements * elementBits(dtype)) / 8)
}

/** Bytes of the storage image of a layout. */
export function imageBytes(dtype: DTypeName, { shape, strides }: Pick<Layout, 'shape' | 'strides'>): number {
  return bytesOf(dtype, spanOf(shape, strides))
}

/** Values to codes with the language's store rounding; KTL4001 and KTL4007 for wrong counts and non-numbers. */
export function encodeValues(dtype: DTypeName, shape: readonly number[], values: Values, what: string): Codes {
  return encode(dtype, checkedNumbers(shape, values, what))
}

function checkedNumbers(shape: readonly number[], values: Values, what: string): ArrayLike<number> {
  const count = elementCount(shape)
  if (typeof values === 'number') return new Float64Array(count).fill(values)
  if (typeof values !== 'object' || values === null || !Number.isInteger(values.length)) {
    throw ktlError('KTL4007', { what, expected: 'an array of numbers in logical order', got: describe(values) })
  }
  if (values.length !== count) {
    throw ktlError('KTL4001', {
      what,
      expected: `${count} values for shape ${formatShape(shape)}`,
      got: `${values.length}`,
    })
  }
  if (ArrayBuffer.isView(values) && !(values instanceof BigInt64Array) && !(values instanceof BigUint64Array)) {
    return values as ArrayLike<number>
  }
  const numbers = new Float64Array(count)
  for (let i = 0; i < count; i++) {
    const value: unknown = values[i]
    if (typeof value !== 'number' && typeof value !== 'boolean') {
      throw ktlError('KTL4007', { what, expected: 'a flat array of numbers', got: `${describe(value)} at index ${i}` })
    }
    numbers[i] = Number(value)
  }
  return numbers
}

/** Values in logical order, in the array class of the dtype, from a storage image. */
export function decodeImage(dtype: DTypeName, layout: Layout, image: Uint8Array): DecodedArray {
  return decode(dtype, gather(dtype, layout, image))
}

/** The storage image of a tensor whose elements have these codes; gaps between rows keep what `image` held. */
export function scatter(dtype: DTypeName, codes: Codes, layout: Layout, image: Uint8Array, what: string): void {
  const target = unpack(dtype, image)
  if (isDense(layout)) target.set(codes as never)
  else {
    const { length, stride } = innermost(layout)
    forEachRow({ ...layout, offset: 0 }, (offset, first) => {
      for (let i = 0; i < length; i++) target[offset + i * stride] = codes[first + i]!
    })
    if (mayOverlap(layout)) checkAgreement(dtype, codes, gatherFrom(dtype, target, layout), layout, what)
  }
  pack(dtype, target, image)
}

/** Elements that share memory (stride 0) must be given the same value. */
function checkAgreement(dtype: DTypeName, wanted: Codes, stored: Codes, layout: Layout, what: string): void {
  const index = wanted.findIndex((code: number | bigint, i: number) => code !== stored[i])
  if (index < 0) return
  throw ktlError('KTL4007', {
    what,
    expected: `equal values where strides ${formatShape(layout.strides)} name the same element`,
    got: `a different value at index ${index} (${dtype} ${formatShape(layout.shape)})`,
  })
}

/** Codes in logical order of a storage image. */
export function gather(dtype: DTypeName, layout: Layout, image: Uint8Array): Codes {
  return gatherFrom(dtype, unpack(dtype, image), layout)
}

function gatherFrom(dtype: DTypeName, source: Codes, layout: Layout): Codes {
  const count = elementCount(layout.shape)
  if (isDense(layout)) return source.slice(0, count)
  const codes = new CODE_ARRAYS[elementBits(dtype)](count)
  const { length, stride } = innermost(layout)
  forEachRow({ ...layout, offset: 0 }, (offset, first) => {
    if (stride === 1) codes.set(source.subarray(offset, offset + length) as never, first)
    else for (let i = 0; i < length; i++) codes[first + i] = source[offset + i * stride]!
  })
  return codes
}

function innermost({ shape, strides }: Layout): { length: number; stride: number } {
  return { length: shape.at(-1) ?? 1, stride: strides.at(-1) ?? 1 }
}

/** One code per array element: a view of the image where its bytes allow, a copy where they do not. */
export function unpack(dtype: DTypeName, image: Uint8Array): Codes {
  const bits = elementBits(dtype)
  if (bits === 4) return Uint8Array.from({ length: image.length * 2 }, (_, i) => (image[i >> 1]! >> ((i & 1) * 4)) & 15)
  if (bits === 6) {
    return Uint8Array.from({ length: Math.floor((image.length * 4) / 3) }, (_, i) => {
      const [byte, shift] = [(i * 6) >> 3, (i * 6) & 7]
      return ((image[byte]! | ((image[byte + 1] ?? 0) << 8)) >> shift) & 63
    })
  }
  const ArrayType = CODE_ARRAYS[bits]
  const aligned = image.byteOffset % ArrayType.BYTES_PER_ELEMENT === 0 ? image : image.slice()
  return new ArrayType(
    aligned.buffer as ArrayBuffer,
    aligned.byteOffset,
    aligned.byteLength / ArrayType.BYTES_PER_ELEMENT,
  )
}

export function pack(dtype: DTypeName, codes: Codes, image: Uint8Array): void {
  if (elementBits(dtype) === 4) {
    for (let i = 0; i < image.length; i++) image[i] = Number(codes[2 * i]) | (Number(codes[2 * i + 1]) << 4)
  } else if (elementBits(dtype) === 6) {
    for (let i = 0; i < codes.length; i++) {
      const [byte, shift, code] = [(i * 6) >> 3, (i * 6) & 7, Number(codes[i])]
      image[byte] = (image[byte]! & ~(63 << shift)) | (code << shift)
      if (shift > 2) image[byte + 1] = (image[byte + 1]! & ~(63 >> (8 - shift))) | (code >> (8 - shift))
    }
  } else if (codes.buffer !== image.buffer) {
    image.set(new Uint8Array(codes.buffer, codes.byteOffset, image.length))
  }
}

/** A storage image from `{ bits }`; codes for each element are scattered over `image`. */
export function imageOfBits(dtype: DTypeName, raw: RawBits, layout: Layout, image: Uint8Array, what: string): void {
  const { bits } = raw
  const count = elementCount(layout.shape)
  if (ArrayBuffer.isView(bits) && bits.byteLength === image.byteLength) {
    image.set(new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength))
    return
  }
  const list = bits as unknown as ArrayLike<number | bigint>
  if (typeof list !== 'object' || list === null || list.length !== count) {
    throw ktlError('KTL4001', {
      what,
      expected: `bits of ${image.byteLength} bytes, or ${count} codes`,
      got: ArrayBuffer.isView(bits) ? `${bits.byteLength} bytes` : String(list?.length ?? describe(bits)),
    })
  }
  const width = elementBits(dtype)
  const codes = new CODE_ARRAYS[width](count)
  for (let i = 0; i < count; i++) {
    const code: unknown = list[i]
    const legal = typeof code === 'bigint' || (typeof code === 'number' && Number.isInteger(code))
    if (!legal || BigInt(code) < 0n || BigInt(code) >= 1n << BigInt(DTYPES[dtype].bits)) {
      throw ktlError('KTL4007', {
        what,
        expected: `codes of ${DTYPES[dtype].bits} bits`,
        got: `${describe(code)} at index ${i}`,
      })
    }
    codes[i] = (width === 64 ? BigInt(code) : Number(code)) as never
  }
  scatter(dtype, codes, layout, image, what)
}

/** Validates and converts now, writes into a storage image later. */
export function imageWriter(
  dtype: DTypeName,
  layout: Layout,
  values: Values | RawBits,
  what: string,
): (image: Uint8Array) => void {
  if (typeof values === 'object' && values !== null && 'bits' in values) {
    const scratch = new Uint8Array(imageBytes(dtype, layout))
    imageOfBits(dtype, values, layout, scratch, what)
    if (fillsImage(dtype, layout)) return (image) => image.set(scratch)
    return (image) => imageOfBits(dtype, values, layout, image, what)
  }
  const codes = encodeValues(dtype, layout.shape, values, what)
  if (mayOverlap(layout)) scatter(dtype, codes, layout, new Uint8Array(imageBytes(dtype, layout)), what)
  return (image) => scatter(dtype, codes, layout, image, what)
}

export function checkDType(dtype: unknown, what: string): asserts dtype is DTypeName {
  if (typeof dtype === 'string' && isDType(dtype)) return
  throw ktlError('KTL4004', { what, expected: DTYPE_NAMES.join(' '), got: describe(dtype) })
}
