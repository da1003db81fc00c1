/** Arrays of other libraries as tensors: recognised by their fields, so that none of the libraries is needed. */
import { isDType } from '../compiler/dtypes.ts'
import type { DTypeName } from '../grammar/vocabulary.ts'
import type { Device } from './device.ts'
import { ktlError } from './fail.ts'
import { checkDType, createTensor, Tensor, tensorAt } from './tensor.ts'
import {
  checkShape, denseStrides, describe, elementCount, forEachRow, formatShape, spanOf, type Layout,
} from './tensor_layout.ts' // prettier-ignore

/** A typed array or list of numbers. onnxruntime's union also holds strings: those are refused when seen. */
interface Elements {
  readonly length: number
}

interface HostLayout {
  readonly dtype?: string
  readonly strides?: readonly number[]
  readonly stride?: readonly number[]
  readonly offset?: number
}

export type TensorLike =
  | Tensor
  /** Plain objects and scijs ndarrays. */
  | (HostLayout & { readonly data: Elements; readonly shape: readonly number[] })
  /** onnxruntime and transformers.js. */
  | { readonly data: Elements; readonly dims: readonly number[]; readonly type: string }
  /** tf.TensorBuffer */
  | (HostLayout & { readonly values: Elements; readonly shape: readonly number[]; readonly dtype: string })
  /** tf.Tensor */
  | { readonly shape: readonly number[]; readonly dtype: string; dataSync(): Elements }
  /** Memory on the device already. */
  | { readonly pointer: bigint; readonly dtype: DTypeName; readonly shape: readonly number[]; readonly strides?: readonly number[] } // prettier-ignore

/** Names of other libraries. `float16` and `bfloat16` in 16-bit integer arrays are bit patterns. */
const FOREIGN_DTYPES: Readonly<Record<string, DTypeName>> = {
  float64: 'f64', double: 'f64', float32: 'f32', float: 'f32', float16: 'f16', bfloat16: 'bf16',
  float8e4m3fn: 'e4m3', float8e5m2: 'e5m2',
  int8: 'i8', uint8: 'u8', uint8_clamped: 'u8', int32: 'i32', uint32: 'u32', bool: 'bool', boolean: 'bool',
} // prettier-ignore

const ARRAY_DTYPES: readonly (readonly [new (n: number) => ArrayBufferView, DTypeName])[] = [
  [Float32Array, 'f32'], [Float64Array, 'f64'], [Int8Array, 'i8'], [Uint8Array, 'u8'], [Uint8ClampedArray, 'u8'],
  [Int32Array, 'i32'], [Uint32Array, 'u32'],
] // prettier-ignore

/** Formats whose typed arrays hold stored bits, not values, because JavaScript has no array of them. */
const BITS_ONLY: readonly DTypeName[] = ['f16', 'bf16', 'e4m3', 'e5m2']

export interface FromTensorLikeOptions {
  /** Convert to this dtype. Default: the one the data has. */
  readonly dtype?: DTypeName
}

/**
 * A tensor on `device`: tensors of ktl and device pointers as they are, anything else copied. Strides of the source
 * are kept (they say what memory order a kernel sees). KTL4008 for what is no tensor.
 */
export function fromTensorLike(device: Device, like: TensorLike, options: FromTensorLikeOptions = {}): Tensor {
  if (like instanceof Tensor) {
    if (like.device !== device) throw ktlError('KTL4009', { what: `tensor ${like}`, expected: device.name, got: like.device.name }) // prettier-ignore
    return like
  }
  if (typeof like !== 'object' || like === null || Array.isArray(like) || ArrayBuffer.isView(like)) {
    throw ktlError('KTL4008', { got: describe(like), reason: 'it has no shape' })
  }
  if ('pointer' in like) return tensorAt(device, like.pointer, like.dtype, like.shape, like.strides)

  const host = normalise(like)
  const wanted = options.dtype ?? host.dtype
  checkDType(wanted, 'dtype')
  const image = storageOf(host)
  const tensor = host.areBits ? bitsTensor(device, host, image) : imageTensor(device, wanted, host.layout, image)
  if (!host.areBits || wanted === host.dtype) return tensor
  throw ktlError('KTL4008', { got: `data of ${host.dtype} bits`, reason: `it cannot be converted to ${wanted}: decode it first` }) // prettier-ignore
}

interface HostTensor {
  readonly data: ArrayLike<number>
  readonly dtype: DTypeName
  readonly layout: Layout
  readonly areBits: boolean
}

function normalise(like: Exclude<TensorLike, Tensor | { readonly pointer: bigint }>): HostTensor {
  const fields = like as HostLayout & {
    data?: Elements; values?: Elements; dataSync?: () => Elements
    shape?: readonly number[]; dims?: readonly number[]; type?: string
  } // prettier-ignore
  const data = typeof fields.dataSync === 'function' ? fields.dataSync() : (fields.data ?? fields.values)
  const shape = fields.shape ?? fields.dims
  const got = describe(like)
  if (!Array.isArray(shape)) throw ktlError('KTL4008', { got, reason: 'it has no `shape` or `dims`' })
  if (data === undefined || data === null || !Number.isInteger(data.length) || typeof data === 'string') {
    throw ktlError('KTL4008', { got, reason: 'it has no `data`, `values` or `dataSync()`' })
  }
  checkShape(shape)
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
    throw ktlError('KTL4008', { got, reason: '64-bit integers are not a dtype of ktl' })
  }
  const dtype = dtypeOf(fields.dtype ?? fields.type, data, got)
  const layout = {
    shape,
    strides: fields.strides ?? fields.stride ?? denseStrides(shape),
    offset: fields.offset ?? 0,
  }
  checkWithin(layout, data.length, got)
  const unsigned = data instanceof Uint16Array || data instanceof Uint8Array
  const areBits = unsigned && BITS_ONLY.includes(dtype)
  return { data: data as ArrayLike<number>, dtype, layout, areBits }
}

function dtypeOf(name: string | undefined, data: Elements, got: string): DTypeName {
  if (name !== undefined) {
    if (isDType(name)) return name
    const known = Object.hasOwn(FOREIGN_DTYPES, name) ? FOREIGN_DTYPES[name] : undefined
    if (known) return known
    // scijs calls plain arrays `array` and typed ones by their element; anything else is unknown.
    if (name !== 'array' && name !== 'generic') {
      throw ktlError('KTL4004', {
        what: got,
        expected: Object.keys(FOREIGN_DTYPES).join(' '),
        got: JSON.stringify(name),
      })
    }
  }
  const found = ARRAY_DTYPES.find(([ArrayType]) => data instanceof ArrayType)
  if (found) return found[1]
  if (Array.isArray(data)) return 'f32'
  throw ktlError('KTL4008', { got, reason: 'its elements have no dtype of ktl: name one in `dtype`' })
}

/** Negative strides (reversed ndarrays) are legal here, since the data is copied. */
function checkWithin({ shape, strides, offset }: Layout, length: number, got: string): void {
  const legal = strides.length === shape.length && [...strides, offset].every(Number.isSafeInteger)
  if (!legal) {
    throw ktlError('KTL4003', {
      expected: `${shape.length} integer strides and an offset for ${got}`,
      got: formatShape(strides),
    })
  }
  if (shape.includes(0)) return
  let low = offset
  let high = offset
  shape.forEach((extent, axis) => {
    const reach = (extent - 1) * strides[axis]!
    if (reach < 0) low += reach
    else high += reach
  })
  if (low < 0 || high >= length) {
    throw ktlError('KTL4001', {
      what: `${got} of shape ${formatShape(shape)}`,
      expected: `data that covers elements ${low} to ${high}`,
      got: `${length} elements`,
    })
  }
}

/** The elements as they will lie in device memory: the source's own order, or dense where a stride is negative. */
function storageOf(host: HostTensor): { readonly elements: ArrayLike<number>; readonly strides: readonly number[] } {
  const { data, layout } = host
  if (layout.shape.includes(0)) return { elements: [], strides: denseStrides(layout.shape) }
  if (layout.strides.every((stride) => stride >= 0)) {
    const end = layout.offset + spanOf(layout.shape, layout.strides)
    return { elements: slice(data, layout.offset, end), strides: layout.strides }
  }
  const elements = new Float64Array(elementCount(layout.shape))
  const length = layout.shape.at(-1) ?? 1
  const stride = layout.strides.at(-1) ?? 1
  forEachRow(layout, (offset, first) => {
    for (let i = 0; i < length; i++) elements[first + i] = data[layout.offset + offset + i * stride]!
  })
  return { elements, strides: denseStrides(layout.shape) }
}

function slice(data: ArrayLike<number>, start: number, end: number): ArrayLike<number> {
  if (Array.isArray(data)) return data.slice(start, end)
  return (data as unknown as Float32Array).subarray(start, end)
}

type StorageImage = ReturnType<typeof storageOf>

/** The whole span is converted, gaps included, and viewed with the strides of the source. */
function imageTensor(device: Device, dtype: DTypeName, { shape }: Layout, { elements, strides }: StorageImage): Tensor {
  return createTensor(device, dtype, [elements.length], elements).view(shape, { strides })
}

function bitsTensor(device: Device, { dtype, layout }: HostTensor, { elements, strides }: StorageImage): Tensor {
  const bits = Array.from(elements)
  return createTensor(device, dtype, [bits.length], { bits }).view(layout.shape, { strides })
}
