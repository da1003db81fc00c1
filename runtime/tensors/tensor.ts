import { rowUnit } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { Device, Stream, Tensor as PublicTensor } from '../devices/device.ts'
import { ktlError } from '../errors/fail.ts'
import { checkStream } from '../streams/event.ts'
import { assertOpen, optionsOf } from '../errors/given.ts'
import { Storage } from './storage.ts'
import {
  bytesOf,
  checkPacking,
  checkDType,
  decodeImage,
  elementBits,
  fillsImage,
  imageBytes,
  imageWriter,
  type DecodedArray,
  type RawBits,
  type Values,
} from './data.ts'
import {
  checkShape,
  checkStrides,
  denseStrides,
  elementCount,
  formatShape,
  isDense,
  permuteLayout,
  reshapeLayout,
  sliceLayout,
  spanOf,
  type Layout,
  type Range,
} from './layout.ts'
import { describe } from '../errors/describe.ts'

const EMPTY = new Uint8Array(0)

export class DeviceTensor implements PublicTensor {
  /** As users know it, in messages. */
  static readonly name: string = 'Tensor'
  readonly device: Device
  readonly dtype: DTypeName
  readonly shape: readonly number[]
  /** In elements; 0 repeats along an axis. */
  readonly strides: readonly number[]
  /** Device address of element [0, 0, …]. */
  readonly pointer: bigint
  readonly elementCount: number
  /** From the first byte of the first element to the last of the last, padding between them included. */
  readonly byteLength: number
  readonly #storage: Storage
  /** In elements of this dtype from the start of the storage. */
  readonly #offset: number

  constructor(storage: Storage, dtype: DTypeName, layout: Layout) {
    this.device = storage.device
    this.dtype = dtype
    this.shape = Object.freeze([...layout.shape])
    this.strides = Object.freeze([...layout.strides])
    this.#storage = storage
    this.#offset = layout.offset
    this.pointer = storage.pointer + BigInt(bytesOf(dtype, layout.offset))
    this.elementCount = elementCount(layout.shape)
    this.byteLength = imageBytes(dtype, layout)
  }

  get rank(): number {
    return this.shape.length
  }

  get freed(): boolean {
    return this.#storage.freed || this.device.closed
  }

  /** Do the bytes of the two tensors intersect? Equal tensors do. */
  overlaps(other: PublicTensor): boolean {
    if (!(other instanceof DeviceTensor))
      throw ktlError('KTL4024', { operand: 'other', expected: 'a tensor', got: describe(other) })
    return (
      this.device === other.device &&
      this.pointer < other.pointer + BigInt(other.byteLength) &&
      other.pointer < this.pointer + BigInt(this.byteLength)
    )
  }

  /** Decoded values in logical order, once the work enqueued on the tensor is done. */
  async toArray(): Promise<DecodedArray> {
    return decodeImage(this.dtype, this.#layout, await this.toBytes())
  }

  /** The storage: `byteLength` bytes from the first element to the last. */
  async toBytes(): Promise<Uint8Array> {
    this.#assertAlive()
    return this.byteLength === 0
      ? this.#storage.copy(async () => EMPTY)
      : this.#storage.read(this.pointer, this.byteLength)
  }

  /** Overwrites the elements; padding keeps its bytes. Values are converted at once, the copy is enqueued. */
  async copyFrom(values: Values | RawBits): Promise<void> {
    this.#assertAlive()
    const what = `copyFrom of ${this}`
    const put = imageWriter(this.dtype, this.#layout, values, what)
    if (this.byteLength === 0) return this.#storage.copy(async () => {})
    if (fillsImage(this.dtype, this.#layout)) {
      const image = new Uint8Array(this.byteLength)
      put(image)
      return this.#storage.write(this.pointer, image)
    }
    await this.#storage.copy(async () => {
      const image = await this.#storage.device.copyFromDevice(this.pointer, this.byteLength)
      put(image)
      this.#storage.device.copyToDevice(this.pointer, image)
    })
  }

  /** Announces that work enqueued on `stream` uses the tensor: copies and `free` wait for it. */
  recordUse(stream: Stream): void {
    this.#assertAlive()
    this.#storage.use(checkStream(this.device, stream))
  }

  /** Other extents, strides and start over the same memory, all in elements. `offset` counts from this tensor's start. */
  view(shape: readonly number[], options: { strides?: readonly number[]; offset?: number } = {}): DeviceTensor {
    checkShape(shape)
    const { strides = denseStrides(shape, rowUnit(this.dtype)), offset = 0 } = optionsOf('options', options)
    checkStrides(strides, shape)
    if (!Number.isSafeInteger(offset)) {
      throw ktlError('KTL4005', { what: `view of ${this}`, expected: 'an integer offset', got: describe(offset) })
    }
    return this.#derive(this.dtype, { shape, strides, offset: this.#offset + offset }, 'view')
  }

  /** The same elements in the same order with another shape; one extent may be -1. Never copies. */
  reshape(shape: readonly number[]): DeviceTensor {
    return this.#derive(this.dtype, reshapeLayout(this.#layout, shape), 'reshape')
  }

  /** Axis i of the result is axis `order[i]` of this tensor. */
  permute(order: readonly number[]): DeviceTensor {
    return this.#derive(this.dtype, permuteLayout(this.#layout, order), 'permute')
  }

  /** `slice([2, 5], null, [0, 8, 2])`: one range for each axis from the first; null takes the whole axis. */
  slice(...ranges: Range[]): DeviceTensor {
    return this.#derive(this.dtype, sliceLayout(this.#layout, ranges), 'slice')
  }

  /** The same bytes as another dtype. When the size differs, the contiguous last axis shrinks or grows. */
  as(dtype: DTypeName): DeviceTensor {
    checkDType(dtype, 'as')
    const from = elementBits(this.dtype)
    const to = elementBits(dtype)
    if (from === to) return this.#derive(dtype, this.#layout, 'as')
    const rescale = (elements: number): number => (elements * from) / to
    const last = this.rank - 1
    const layout = {
      shape: this.shape.map((extent, axis) => (axis === last ? rescale(extent) : extent)),
      strides: this.strides.map((stride, axis) => (axis === last ? 1 : rescale(stride))),
      offset: rescale(this.#offset),
    }
    const whole = [...layout.shape, ...layout.strides, layout.offset].every(Number.isInteger)
    if (last < 0 || this.strides[last] !== 1 || !whole) {
      throw ktlError('KTL4005', {
        what: `as(${dtype}) of ${this}`,
        expected: `a contiguous last axis whose rows and strides are multiples of ${Math.max(from, to)} bits`,
        got: `shape ${formatShape(this.shape)} with strides ${formatShape(this.strides)}`,
      })
    }
    return this.#derive(dtype, layout, 'as')
  }

  /** Releases the memory, for all views, once the work enqueued on it is done. Freeing twice is harmless. */
  free(): void {
    this.#storage.free()
  }

  [Symbol.dispose](): void {
    this.free()
  }

  /** `f16 [2, 3]`, with strides unless dense: for messages. */
  toString(): string {
    const strides = isDense(this.#layout) ? '' : ` strides ${formatShape(this.strides)}`
    return `${this.dtype} ${formatShape(this.shape)}${strides}`
  }

  get #layout(): Layout {
    return { shape: this.shape, strides: this.strides, offset: this.#offset }
  }

  #assertAlive(): void {
    assertOpen(this.device)
    if (this.#storage.freed) throw ktlError('KTL4006', { what: `tensor ${this}`, state: 'has been freed' })
  }

  #derive(dtype: DTypeName, layout: Layout, what: string): DeviceTensor {
    this.#assertAlive()
    checkPacking(dtype, layout)
    const bits = elementBits(dtype)
    const end = layout.offset + spanOf(layout.shape, layout.strides)
    if (layout.offset < 0 || bytesOf(dtype, end) > this.#storage.bytes) {
      throw ktlError('KTL4005', {
        what: `${what} of ${this}`,
        expected: `elements within the ${this.#storage.bytes} bytes of its memory`,
        got: `shape ${formatShape(layout.shape)} with strides ${formatShape(layout.strides)}, elements ${layout.offset} to ${end}`,
      })
    }
    if ((layout.offset * bits) % 8 !== 0) {
      throw ktlError('KTL4005', {
        what: `${what} of ${this}`,
        expected: 'a start at a whole byte',
        got: `element ${layout.offset}`,
      })
    }
    return new DeviceTensor(this.#storage, dtype, layout)
  }
}

/**
 * A strided array in device memory. Views share the memory of the tensor they come from; `free` releases it for all
 * of them. Copies run behind what is enqueued on the streams that use the tensor.
 *
 * @example
 * const x = device.tensor('f16', [2, 3], [1, 2, 3, 4, 5, 6])
 * console.log(x instanceof Tensor, x.shape, x.strides) // true [ 2, 3 ] [ 3, 1 ]
 * console.log([...(await x.permute([1, 0]).toArray())]) // [ 1, 4, 2, 5, 3, 6 ]
 */
export const Tensor: abstract new (...args: never[]) => PublicTensor = DeviceTensor
export type Tensor = PublicTensor
