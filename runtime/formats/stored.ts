/** Arrays as files hold them: elements as stored, with their dtype and layout. */
import { DTYPES } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { ktlError } from '../errors/fail.ts'
import { hostTensor, numberAt, type HostArray } from '../tensors/host_array.ts'
import { Tensor } from '../tensors/tensor.ts'
import { codesOf } from '../tensors/tensor_like.ts'
import { encodeValues, pack, unpack } from '../tensors/data.ts'
import { denseStrides, elementCount, forEachRow, isDense } from '../tensors/layout.ts'
import { describe } from '../errors/describe.ts'

/** Arrays that elements are read into. */
export type StoredData = Float32Array | Float64Array | Int8Array | Int32Array | Uint8Array | Uint16Array | Uint32Array

/**
 * An array read from a file: a `TensorLike`, so kernels take it as it is. f16 and bf16 are 16-bit patterns in a
 * Uint16Array, floats of 8 bits and fewer one to an element of a Uint8Array; everything else is in the array class of its dtype.
 */
export interface StoredArray {
  readonly dtype: DTypeName
  readonly shape: readonly number[]
  /** In elements; those of Fortran order where the file has it. */
  readonly strides: readonly number[]
  readonly data: StoredData
}

type DataClass = new (buffer: ArrayBuffer) => StoredData
const CLASSES: Readonly<Partial<Record<DTypeName, DataClass>>> = {
  f64: Float64Array,
  f32: Float32Array,
  i32: Int32Array,
  u32: Uint32Array,
  i8: Int8Array,
  f16: Uint16Array,
  bf16: Uint16Array,
}

/** Elements of little-endian bytes, copied. `where` names the array in errors. */
export function storedArray(dtype: DTypeName, shape: readonly number[], bytes: Uint8Array, where: string): StoredArray {
  const narrow = DTYPES[dtype].bits < 8
  const elements = narrow ? (unpack(dtype, bytes) as Uint8Array).slice(0, elementCount(shape)) : new Uint8Array(bytes)
  const data = new (CLASSES[dtype] ?? Uint8Array)(elements.buffer as ArrayBuffer)
  if (dtype === 'bool' && (data as Uint8Array).some((byte) => byte > 1)) {
    throw malformed(where, 'a bool is neither 0 nor 1')
  }
  return { dtype, shape, strides: denseStrides(shape), data }
}

/** Bytes that the elements of a shape take in a file: those of less than a byte are packed without gaps between rows. */
export const storedBytes = (dtype: DTypeName, shape: readonly number[]): number =>
  Math.ceil((elementCount(shape) * DTYPES[dtype].bits) / 8)

/**
 * Little-endian bytes of the elements in logical order, packed without gaps. KTL4008 and its kin for what is no array, KTL6070 for
 * elements that end inside a byte.
 */
export function bytesOfArray(like: HostArray): { dtype: DTypeName; shape: readonly number[]; bytes: Uint8Array } {
  const { dtype, shape, codes } = codesOfArray(like)
  const { bits } = DTYPES[dtype]
  if (bits >= 8) return { dtype, shape, bytes: bytesOf(codes) }
  if ((codes.length * bits) % 8 !== 0)
    throw malformed(`an array of ${dtype}`, `its ${codes.length} elements end inside a byte`)
  const bytes = new Uint8Array((codes.length * bits) / 8)
  pack(dtype, codes as never, bytes)
  return { dtype, shape, bytes }
}

/** Bytes of a row along the last axis, which begins on a byte. */
export const bytesOfRow = (dtype: DTypeName, length: number): number => Math.ceil((length * DTYPES[dtype].bits) / 8)

/** The same elements as unsigned bytes: each row begins on a byte, and the last axis counts bytes. */
export function rowsOfArray(like: HostArray): { dtype: DTypeName; shape: readonly number[]; bytes: Uint8Array } {
  const { dtype, shape, codes } = codesOfArray(like)
  if (DTYPES[dtype].bits >= 8) return { dtype, shape, bytes: bytesOf(codes) }
  const length = shape.at(-1) ?? 1
  const width = bytesOfRow(dtype, length)
  const rows = elementCount(shape.slice(0, -1))
  const bytes = new Uint8Array(rows * width)
  for (let row = 0; row < rows; row++)
    pack(dtype, codes.slice(row * length, (row + 1) * length) as never, bytes.subarray(row * width, (row + 1) * width))
  return { dtype, shape, bytes }
}

/** Back from such bytes. KTL6070 unless there are as many as the shape takes. */
export function arrayOfRows(dtype: DTypeName, shape: readonly number[], bytes: Uint8Array, where: string): StoredArray {
  const length = shape.at(-1) ?? 1
  const width = bytesOfRow(dtype, length)
  const rows = elementCount(shape.slice(0, -1))
  if (bytes.length !== rows * width)
    throw malformed(
      where,
      `shape [${shape.join(', ')}] of ${dtype} takes ${rows * width} bytes, it has ${bytes.length}`,
    )
  if (DTYPES[dtype].bits >= 8) return storedArray(dtype, shape, bytes, where)
  const data = new Uint8Array(rows * length)
  for (let row = 0; row < rows; row++) {
    const codes = unpack(dtype, bytes.subarray(row * width, (row + 1) * width)) as Uint8Array
    data.set(codes.subarray(0, length), row * length)
  }
  return { dtype, shape, strides: denseStrides(shape), data }
}

/** Integers that ktl has no dtype for, read as i32. */
export interface ForeignIntegers {
  readonly bytes: 2 | 8
  readonly signed: boolean
}

/** KTL6071 for values that i32 does not hold. `name`: what the format calls the integers. */
export function arrayOfIntegers(
  { bytes: size, signed }: ForeignIntegers,
  shape: readonly number[],
  bytes: Uint8Array,
  { where, name, known }: { readonly where: string; readonly name: string; readonly known: readonly string[] },
): StoredArray {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const read = (at: number): number => {
    if (size === 2) return signed ? view.getInt16(at, true) : view.getUint16(at, true)
    return Number(signed ? view.getBigInt64(at, true) : view.getBigUint64(at, true))
  }
  const data = new Int32Array(bytes.length / size)
  for (let i = 0; i < data.length; i++) {
    const value = read(i * size)
    data[i] = value
    if (data[i] !== value) throw unsupported(where, `${name} beyond i32 (${value})`, known)
  }
  return { dtype: 'i32', shape, strides: denseStrides(shape), data }
}

interface Codes {
  readonly dtype: DTypeName
  readonly shape: readonly number[]
  /** One for each element. */
  readonly codes: StoredData
}

/** Elements in logical order, in the array class of their dtype. */
function codesOfArray(like: HostArray): Codes {
  const { data, dtype, layout, areBits } = hostTensor(like)
  const { shape, strides, offset } = layout
  const count = elementCount(shape)
  // In the array class of the dtype elements are bytes already.
  const asStored = data instanceof (CLASSES[dtype] ?? Uint8Array)
  if (asStored && isDense(layout)) return { dtype, shape, codes: (data as StoredData).slice(offset, offset + count) }
  const ordered = new Float64Array(count)
  const [length, stride] = [shape.at(-1) ?? 1, strides.at(-1) ?? 1]
  forEachRow(layout, (start, first) => {
    for (let i = 0; i < length; i++) ordered[first + i] = numberAt(data, offset + start + i * stride)
  })
  const codes = areBits
    ? (DTYPES[dtype].storageBytes === 2 ? Uint16Array : Uint8Array).from(ordered)
    : encodeValues(dtype, shape, ordered, 'the array')
  return { dtype, shape, codes: codes as StoredData }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength)

/**
 * The elements of a tensor in host memory, dense: what `writeNpy` and `writeSafetensors` take.
 *
 * @example
 * const { dtype, shape, data } = await toStoredArray(device.tensor('f16', [2], [1, 2]))
 * console.log(dtype, shape, data.constructor.name) // f16 [ 2 ] Uint16Array
 */
export async function toStoredArray(tensor: Tensor): Promise<StoredArray> {
  if (!(tensor instanceof Tensor))
    throw ktlError('KTL4024', { operand: 'tensor', expected: 'a tensor', got: describe(tensor) })
  const codes = await codesOf(tensor)
  if (DTYPES[tensor.dtype].bits < 8)
    return {
      dtype: tensor.dtype,
      shape: [...tensor.shape],
      strides: denseStrides(tensor.shape),
      data: codes as Uint8Array,
    }
  return storedArray(tensor.dtype, [...tensor.shape], bytesOf(codes), `tensor ${tensor}`)
}

/** The error of a file that is not what its format says. */
export const malformed = (what: string, reason: string): Error => ktlError('KTL6070', { what, reason })
/** The error of a dtype that one of the two sides lacks. */
export const unsupported = (what: string, dtype: string, known: readonly string[]): Error =>
  ktlError('KTL6071', { what, expected: known.join(' '), got: dtype })
