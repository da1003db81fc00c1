/** Arrays in host memory as other libraries hold them: dtype, layout and elements, found by their fields. */
import { dtypesByName, dtypesThat, isDType } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { ktlError } from '../errors/fail.ts'
import { checkShape, denseStrides, forEachRow, formatShape, MAX_RANK, spanOf, type Layout } from './layout.ts'
import { describe } from '../errors/describe.ts'

/** A typed array or list of numbers. onnxruntime's union also holds strings: those are refused when seen. */
export interface Elements {
  readonly length: number
}

/** `[[1, 2], [3, 4]]`: of rank 2 and more, because a flat list has no shape of its own. */
export interface NestedNumbers extends ReadonlyArray<readonly number[] | NestedNumbers> {}

export interface HostLayout {
  readonly dtype?: string
  /** In elements; negative ones run backwards. */
  readonly strides?: readonly number[]
  readonly stride?: readonly number[]
  readonly offset?: number
}

/** Arrays of other libraries in host memory. */
export type HostArray =
  | NestedNumbers
  /** Plain objects and scijs ndarrays. */
  | (HostLayout & { readonly data: Elements; readonly shape: readonly number[] })
  /** Nested numbers with a dtype. */
  | { readonly data: NestedNumbers; readonly dtype?: string }
  /** onnxruntime and transformers.js. */
  | { readonly data: Elements; readonly dims: readonly number[]; readonly type: string }
  /** tf.TensorBuffer */
  | (HostLayout & { readonly values: Elements; readonly shape: readonly number[]; readonly dtype: string })
  /** tf.Tensor */
  | { readonly shape: readonly number[]; readonly dtype: string; dataSync(): Elements }

/** What every such array comes down to. */
export interface HostTensor {
  readonly data: ArrayLike<number>
  readonly dtype: DTypeName
  /** In elements of `data`. */
  readonly layout: Layout
  /** `data` holds stored bits, not values. */
  readonly areBits: boolean
  /** Writes element i of `data`; or why that cannot be done. */
  readonly put: ((index: number, value: number) => void) | string
}

/** Names of other libraries. `float16` and `bfloat16` in 16-bit integer arrays are bit patterns. */
const FOREIGN_DTYPES = dtypesByName(({ arrays }) => arrays)

const ARRAY_DTYPES: readonly (readonly [new (n: number) => ArrayBufferView, DTypeName])[] = [
  [Float32Array, 'f32'],
  [Float64Array, 'f64'],
  [Int8Array, 'i8'],
  [Uint8Array, 'u8'],
  [Uint8ClampedArray, 'u8'],
  [Int32Array, 'i32'],
  [Uint32Array, 'u32'],
]

/** Formats whose typed arrays hold stored bits, not values, because JavaScript has no array of them. */
const BITS_ONLY = dtypesThat(({ compute, bits }) => compute === 'f32' && bits < 32)

/** KTL4008 for what is no tensor, KTL4004 for dtypes that ktl lacks, KTL4001 to 4003 for layouts that do not fit. */
export function hostTensor(like: HostArray): HostTensor {
  if (Array.isArray(like)) return hostTensor({ data: like as NestedNumbers })
  if (typeof like !== 'object' || like === null)
    throw ktlError('KTL4008', { got: describe(like), reason: 'it has no shape' })
  const fields = like as HostLayout & {
    data?: Elements
    values?: Elements
    dataSync?: () => Elements
    shape?: readonly number[]
    dims?: readonly number[]
    type?: string
  }
  const got = describe(like)
  const computed = typeof fields.dataSync === 'function'
  const held = computed ? fields.dataSync!() : (fields.data ?? fields.values)
  const nested = Array.isArray(held) && Array.isArray(held[0]) ? flatten(held, got) : null
  const data = nested?.elements ?? held
  const shape = fields.shape ?? fields.dims ?? nested?.shape
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
    strides: stridesOf(fields, shape, computed || fields.data === undefined),
    offset: fields.offset ?? 0,
  }
  checkWithin(layout, data.length, got)
  const unsigned = data instanceof Uint16Array || data instanceof Uint8Array
  const areBits = unsigned && BITS_ONLY.includes(dtype)
  const put = computed
    ? 'what it computes by `dataSync()` is a copy'
    : (nested?.put ?? writer(data as ArrayLike<number>))
  return { data: data as ArrayLike<number>, dtype, layout, areBits, put }
}

/** tfjs leaves out the last stride, which is always 1. */
function stridesOf({ strides, stride }: HostLayout, shape: readonly number[], isTfjs: boolean): readonly number[] {
  const given = strides ?? stride ?? denseStrides(shape)
  if (!Array.isArray(given)) throw ktlError('KTL4003', { expected: `${shape.length} strides`, got: describe(given) })
  return isTfjs && given.length === shape.length - 1 ? [...given, 1] : given
}

function writer(data: ArrayLike<number>): HostTensor['put'] {
  if (Object.isFrozen(data)) return 'its data is frozen'
  return (index, value) => void ((data as number[])[index] = value)
}

/** Rows one after another. KTL4008 when they differ in length. */
function flatten(
  list: readonly unknown[],
  got: string,
): { elements: number[]; shape: number[]; put: HostTensor['put'] } {
  const shape: number[] = []
  for (let level: unknown = list; Array.isArray(level); level = level[0]) {
    if (shape.length === MAX_RANK) throw ktlError('KTL4008', { got, reason: `it is nested more than ${MAX_RANK} deep` })
    shape.push(level.length)
  }
  const rows: number[][] = []
  const visit = (value: unknown, depth: number, at: string): void => {
    if (!Array.isArray(value) || value.length !== shape[depth]) {
      const length = Array.isArray(value) ? value.length : describe(value)
      throw ktlError('KTL4008', {
        got,
        reason: `its rows differ: ${shape[depth]} elements at first, ${length} at ${at}`,
      })
    }
    if (depth === shape.length - 1) rows.push(value as number[])
    else value.forEach((child, i) => visit(child, depth + 1, `${at}[${i}]`))
  }
  visit(list, 0, '')
  const length = shape.at(-1)!
  const frozen = rows.some((row) => Object.isFrozen(row))
  const put = (index: number, value: number): void => void (rows[Math.floor(index / length)]![index % length] = value)
  return { elements: rows.flat(), shape, put: frozen ? 'its rows are frozen' : put }
}

function dtypeOf(name: string | undefined, data: Elements, got: string): DTypeName {
  if (name !== undefined) {
    if (isDType(name)) return name
    const known = FOREIGN_DTYPES.get(name)
    if (known) return known
    // scijs calls plain arrays `array` and typed ones by their element; anything else is unknown.
    if (name !== 'array' && name !== 'generic') {
      throw ktlError('KTL4004', {
        what: got,
        expected: [...FOREIGN_DTYPES.keys()].join(' '),
        got: describe(name),
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

/**
 * The elements as they will lie in device memory: the source's own order, or dense where a stride is negative or rows would not
 * begin at multiples of `unit` elements (`rowUnit` of the dtype).
 */
export function storageOf(
  host: HostTensor,
  unit = 1,
): {
  readonly elements: ArrayLike<number>
  readonly strides: readonly number[]
} {
  const { data, layout } = host
  if (layout.shape.includes(0)) return { elements: [], strides: denseStrides(layout.shape, unit) }
  const whole =
    unit === 1 ||
    layout.strides.every((stride, axis) => stride % unit === 0 || (stride === 1 && axis === layout.shape.length - 1))
  if (whole && layout.strides.every((stride) => stride >= 0)) {
    const end = layout.offset + spanOf(layout.shape, layout.strides)
    return { elements: slice(data, layout.offset, end), strides: layout.strides }
  }
  const strides = denseStrides(layout.shape, unit)
  const elements = new Float64Array(spanOf(layout.shape, strides))
  const length = layout.shape.at(-1) ?? 1
  const stride = layout.strides.at(-1) ?? 1
  const step = Math.ceil(length / unit) * unit
  forEachRow(layout, (offset, first) => {
    const row = (first / length) * step
    for (let i = 0; i < length; i++) elements[row + i] = numberAt(data, layout.offset + offset + i * stride)
  })
  return { elements, strides }
}

/** KTL4007 for what lists hold that is no number. */
export function numberAt(data: ArrayLike<number>, index: number): number {
  const value: unknown = data[index]
  if (typeof value === 'number' || typeof value === 'boolean') return Number(value)
  throw ktlError('KTL4007', { what: 'the array', expected: 'numbers', got: `${describe(value)} at index ${index}` })
}

function slice(data: ArrayLike<number>, start: number, end: number): ArrayLike<number> {
  if (Array.isArray(data)) return data.slice(start, end)
  return (data as unknown as Float32Array).subarray(start, end)
}
