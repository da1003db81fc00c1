/** Arrays of other libraries as tensors: recognised by their fields, so that none of the libraries is needed. */
import { rowUnit } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { Device } from '../devices/device.ts'
import { ktlError } from '../errors/fail.ts'
import { hostTensor, storageOf, type HostArray, type HostTensor } from './host_array.ts'
import { Tensor } from './tensor.ts'
import { tensorAt } from './create.ts'
import { checkDType } from './data.ts'
import { gather } from './data.ts'
import { forEachRow, mayOverlap } from './layout.ts'
import { describe } from '../errors/describe.ts'
import { optionsOf } from '../errors/given.ts'

export type { HostArray, NestedNumbers } from './host_array.ts'

/** Whatever becomes a tensor: arrays of other libraries, and memory on the device already. */
export type TensorLike =
  | Tensor
  | HostArray
  /** Memory on the device already. */
  | {
      readonly pointer: bigint
      readonly dtype: DTypeName
      readonly shape: readonly number[]
      readonly strides?: readonly number[]
    }

/** What `fromTensorLike` does on the way. */
export interface FromTensorLikeOptions {
  /** Convert to this dtype. Default: the one the data has. */
  readonly dtype?: DTypeName
}

/**
 * A tensor on `device`: tensors of ktl and device pointers as they are, anything else copied. Strides of the source
 * are kept (they say what memory order a kernel sees). KTL4008 for what is no tensor.
 *
 * @example
 * const x = fromTensorLike(device, { data: Float32Array.of(1, 2, 3, 4), shape: [2, 2] })
 * console.log(x.dtype, [...(await x.toArray())]) // f32 [ 1, 2, 3, 4 ]
 */
export function fromTensorLike(device: Device, like: TensorLike, options: FromTensorLikeOptions = {}): Tensor {
  if (like instanceof Tensor) {
    if (like.device !== device)
      throw ktlError('KTL4009', { what: `tensor ${like}`, expected: device.name, got: like.device.name })
    return like
  }
  const flat = Array.isArray(like) && !Array.isArray(like[0])
  if (typeof like !== 'object' || like === null || flat || ArrayBuffer.isView(like)) {
    throw ktlError('KTL4008', { got: describe(like), reason: 'it has no shape' })
  }
  if ('pointer' in like) return tensorAt(device, like.pointer, like.dtype, like.shape, like.strides)

  const host = hostTensor(like)
  const wanted = optionsOf('options', options).dtype ?? host.dtype
  checkDType(wanted, 'dtype')
  if (!host.areBits || wanted === host.dtype) return upload(device, host, wanted)
  throw ktlError('KTL4008', {
    got: `data of ${host.dtype} bits`,
    reason: `it cannot be converted to ${wanted}: decode it first`,
  })
}

/** The whole span is converted, gaps included, and viewed with the strides of the source. */
function upload(device: Device, host: HostTensor, dtype: DTypeName): Tensor {
  const { elements, strides } = storageOf(host, rowUnit(dtype))
  const values = host.areBits ? { bits: Array.from(elements) } : elements
  return device.tensor(dtype, [elements.length], values).view(host.layout.shape, { strides })
}

/** Host memory that waits for the elements of a tensor. */
const awaiting = new WeakMap<Tensor, HostTensor>()

/**
 * A tensor on `device` that a kernel may write. Host arrays are copied there, and back by `writeBack`: typed arrays and
 * lists of numbers in place. KTL4024 for arrays that cannot be written.
 */
export function outputFromTensorLike(device: Device, name: string, like: TensorLike): Tensor {
  const tensor = fromTensorLike(device, like)
  if (like instanceof Tensor || 'pointer' in like) return tensor
  const host = hostTensor(like)
  const reason = typeof host.put === 'string' ? host.put : sharesElements(host) ? 'its elements share memory' : null
  if (reason === null) {
    awaiting.set(tensor, host)
    return tensor
  }
  tensor.free()
  const expected = 'a tensor of a device or an array that can be written'
  throw ktlError('KTL4024', { operand: name, expected, got: `${describe(like)}: ${reason}` })
}

const sharesElements = ({ layout: { shape, strides, offset } }: HostTensor): boolean =>
  mayOverlap({ shape, strides: strides.map(Math.abs), offset })

/** Copies a tensor of `outputFromTensorLike` to the array it came from, behind the work enqueued on it; others stay. */
export async function writeBack(tensor: Tensor): Promise<void> {
  const host = awaiting.get(tensor)
  if (host === undefined || typeof host.put === 'string') return
  const { layout, put } = host
  const elements = host.areBits ? await codesOf(tensor) : await tensor.toArray()
  const length = layout.shape.at(-1) ?? 1
  const stride = layout.strides.at(-1) ?? 1
  forEachRow(layout, (offset, first) => {
    for (let i = 0; i < length; i++) put(layout.offset + offset + i * stride, elements[first + i] as number)
  })
}

/** Stored bits in logical order, one array element each. */
export async function codesOf(tensor: Tensor): Promise<ReturnType<typeof gather>> {
  const { dtype, shape, strides } = tensor
  return gather(dtype, { shape, strides, offset: 0 }, await tensor.toBytes())
}
