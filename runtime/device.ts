import { ktlError } from './fail.ts'
import type { DTypeName } from '../grammar/vocabulary.ts'
import type { CompileCudaOptions, DeviceModule, LoadModuleOptions } from './module.ts'
import type { Stream } from './stream.ts'
import type { TypedTensor } from './tensor.ts'
import type { RawBits, Values } from './tensor_data.ts'
import type { TensorMap, TensorMapOptions } from './tensor_map.ts'
import { VirtualDevice, type VirtualDeviceOptions } from './devices/virtual.ts'

export type DeviceSpec = 'auto' | 'virtual-sm100' | 'virtual-sm90' | 'cuda' | `cuda:${number}`
export type DeviceOptions = VirtualDeviceOptions

export interface TensorOptions {
  /** In elements. Default: row-major without padding. */
  readonly strides?: readonly number[]
}

export interface MallocOptions {
  /** Address to place the allocation at (virtual devices only). */
  readonly at?: bigint
  /** Power of two; at least 256 bytes are always kept. */
  readonly align?: number
}

/**
 * A place that kernels run on. Tensors, streams and modules know devices by this interface alone. A device belongs
 * to one JS thread; worker threads open their own.
 */
export interface Device extends AsyncDisposable {
  /** `virtual-sm100`, `cuda:0` */
  readonly name: string
  readonly kind: 'virtual' | 'cuda'
  readonly isVirtual: boolean
  /** What nvcc compiles for: `sm_100a`. */
  readonly arch: string
  /** Compute capability: 100. */
  readonly cc: number
  readonly smCount: number
  /** What `loadModule` takes. */
  readonly moduleFormat: 'ptx' | 'cubin'
  readonly closed: boolean
  /** Where work goes that names no stream. */
  readonly defaultStream: Stream

  /** A tensor of values in logical order, converted with the language's store rounding; or of `{ bits }`. */
  tensor<D extends DTypeName>(
    dtype: D,
    shape: readonly number[],
    values: Values | RawBits,
    options?: TensorOptions,
  ): TypedTensor<D>
  /** A tensor whose elements are not initialised. */
  empty<D extends DTypeName>(dtype: D, shape: readonly number[], options?: TensorOptions): TypedTensor<D>

  createStream(): Stream
  /** Waits for all streams; throws the first failure nobody has been told of. */
  synchronize(): Promise<void>

  loadModule(image: string | Uint8Array, options?: LoadModuleOptions): Promise<DeviceModule>
  /** Compiles CUDA C++ for this device and loads it. */
  compileCuda(source: string, options?: CompileCudaOptions): Promise<DeviceModule>
  tensorMap(options: TensorMapOptions): TensorMap

  malloc(bytes: number, options?: MallocOptions): bigint
  /** Releases an allocation when the work enqueued so far is done with it. */
  free(pointer: bigint): void
  /** Ordered after everything enqueued on any stream. */
  write(pointer: bigint, bytes: Uint8Array): Promise<void>
  /** Ordered after everything enqueued on any stream. */
  read(pointer: bigint, bytes: number): Promise<Uint8Array>
  memoryInfo(): { allocatedBytes: number; allocations: number; capacityBytes: number }

  /** The copies themselves, at once and in no order with streams: for tensors and streams to build on. */
  copyToDevice(pointer: bigint, bytes: Uint8Array): void
  copyFromDevice(pointer: bigint, bytes: number): Promise<Uint8Array>
  /** Throws KTL4006 when the device is closed. */
  assertOpen(): void

  /** Waits for the streams and releases all memory. */
  close(): Promise<void>
}

/**
 * Opens a device. `auto`: a GPU where there is one, else the virtual SM100. Throws KTL4015 for unknown names and
 * options, KTL6004 without the native addon, KTL6005 for CUDA devices that cannot be opened.
 */
export async function openDevice(spec: DeviceSpec = 'auto', options: DeviceOptions = {}): Promise<Device> {
  switch (spec) {
    case 'auto':
    case 'virtual-sm100':
      return new VirtualDevice('virtual-sm100', options)
    case 'virtual-sm90':
      return new VirtualDevice('virtual-sm90', options)
  }
  if (typeof spec === 'string' && /^cuda(:\d+)?$/.test(spec)) {
    throw ktlError('KTL6005', { device: spec, reason: 'this version of ktl drives no GPUs yet' })
  }
  throw ktlError('KTL4015', {
    what: 'device',
    expected: 'auto, virtual-sm100, virtual-sm90, cuda or cuda:N',
    got: JSON.stringify(spec) ?? 'undefined',
  })
}
