/** Tensors in memory of their own, and over memory of others. */
import { DTYPES, rowUnit } from '../../compiler/dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { Device, Tensor } from '../devices/device.ts'
import { internalOf, type InternalDevice } from '../devices/internal.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { optionsOf } from '../errors/given.ts'
import { checkDType, checkPacking, imageBytes, imageWriter, type RawBits, type Values } from './data.ts'
import { checkShape, checkStrides, denseStrides, formatShape } from './layout.ts'
import { Storage } from './storage.ts'
import { DeviceTensor } from './tensor.ts'

/** Allocates a tensor on `device`; with `values`, fills it at once (nothing can be enqueued on new memory). */
export function createTensor(
  device: InternalDevice,
  dtype: DTypeName,
  shape: readonly number[],
  /** undefined: not initialised. */
  values: Values | RawBits | undefined,
  options: { readonly strides?: readonly number[] | undefined } = {},
): Tensor {
  checkDType(dtype, 'tensor')
  checkShape(shape)
  const strides = optionsOf('options', options).strides ?? denseStrides(shape, rowUnit(dtype))
  checkStrides(strides, shape)
  const layout = { shape, strides, offset: 0 }
  checkPacking(dtype, layout)
  const bytes = imageBytes(dtype, layout)
  const put = values === undefined ? null : imageWriter(dtype, layout, values, `tensor ${dtype} ${formatShape(shape)}`)
  const storage = Storage.allocate(device, bytes)
  if (put && bytes > 0) {
    const image = new Uint8Array(bytes)
    put(image)
    device.copyToDevice(storage.pointer, image)
  }
  return new DeviceTensor(storage, dtype, layout)
}

/** A tensor over memory that somebody else owns; `free` on it does nothing to that memory. */
export function tensorAt(
  device: Device,
  pointer: bigint,
  dtype: DTypeName,
  shape: readonly number[],
  given?: readonly number[],
): Tensor {
  checkDType(dtype, 'tensor at a pointer')
  checkShape(shape)
  const strides = given ?? denseStrides(shape, rowUnit(dtype))
  checkStrides(strides, shape)
  const layout = { shape, strides, offset: 0 }
  checkPacking(dtype, layout)
  const alignment = BigInt(DTYPES[dtype].storageBytes)
  if (typeof pointer !== 'bigint' || pointer < 0n || pointer % alignment !== 0n) {
    throw ktlError('KTL4014', {
      what: 'pointer',
      expected: `a bigint, a multiple of ${alignment}`,
      got: describe(pointer),
    })
  }
  return new DeviceTensor(Storage.borrow(internalOf(device), pointer, imageBytes(dtype, layout)), dtype, layout)
}
