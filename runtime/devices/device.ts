import { KtlError } from '../../grammar/diagnostics.ts'
import type { DeviceEvent } from '../streams/event.ts'
import { ktlError } from '../errors/fail.ts'
import type { Graph } from '../streams/graph.ts'
import type { PlannedLaunch } from '../kernels/plan_launch.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { CompileCudaOptions, DeviceModule, LoadModuleOptions } from '../modules/module.ts'
import type { Stream } from '../streams/stream.ts'
import type { TypedTensor } from '../tensors/tensor.ts'
import type { RawBits, Values } from '../tensors/data.ts'
import type { TensorMap, TensorMapOptions } from '../tensors/tensor_map.ts'
import { CudaDevice } from './cuda.ts'
import { probeCuda } from '../addon/probe.ts'
import { VirtualDevice, type VirtualDeviceOptions } from './virtual.ts'
import { optionsOf } from '../errors/given.ts'
import { describe } from '../errors/describe.ts'

/** What `openDevice` opens. */
export type DeviceSpec = 'auto' | 'virtual-sm100' | 'virtual-sm90' | 'cuda' | `cuda:${number}`
/** Of virtual devices: checks, order of asynchronous work, memory, SMs. */
export type DeviceOptions = VirtualDeviceOptions

/** How a new tensor lies in memory. */
export interface TensorOptions {
  /** In elements. Default: row-major without padding. */
  readonly strides?: readonly number[]
}

/** Where and how an allocation lies. */
export interface MallocOptions {
  /** Address to place the allocation at (virtual devices only). */
  readonly at?: bigint
  /** Power of two; at least 256 bytes are always kept. */
  readonly align?: number
}

/** What is known of the chip; 0 where the driver does not say. */
export interface DeviceProperties {
  /** `NVIDIA H100 80GB HBM3`, `virtual-sm100` */
  readonly name: string
  /** Compute capability: 100. */
  readonly cc: number
  readonly smCount: number
  readonly memoryBytes: number
  readonly l2Bytes: number
  /** Most shared memory that a CTA may ask for. */
  readonly sharedBytesPerBlock: number
  readonly clockKHz: number
  readonly memoryClockKHz: number
  readonly memoryBusBits: number
  /** CUDA version of the driver: 13000; 0 on virtual devices. */
  readonly driverVersion: number
}

/** Launches of one call with nothing left to work out: see `prepareLaunch`. */
export interface FastLaunch {
  launch(stream: Stream): void
  /** No launch waits for the host to hand it over with the parameters as they are. */
  readonly patchable: boolean
  /** Overwrites an address in the parameter block of the i-th launch. */
  patch(i: number, offset: number, address: bigint): void
  /** Nanoseconds of the CPU for each of `count` launches, from native code alone. */
  time?(stream: Stream, count: number): number
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
  readonly l2Bytes: number
  readonly properties: DeviceProperties
  /** What `loadModule` takes. */
  readonly moduleFormat: 'ptx' | 'cubin'
  readonly closed: boolean
  /** Where work goes that names no stream. */
  readonly defaultStream: Stream

  /** A tensor of values in logical order, converted with the language's store rounding; or of `{ bits }`. */
  tensor<D extends DTypeName, const Shape extends readonly number[]>(
    dtype: D,
    shape: Shape,
    values: Values | RawBits,
    options?: TensorOptions,
  ): TypedTensor<D, Shape>
  /** A tensor whose elements are not initialised. */
  empty<D extends DTypeName, const Shape extends readonly number[]>(
    dtype: D,
    shape: Shape,
    options?: TensorOptions,
  ): TypedTensor<D, Shape>

  createStream(): Stream
  createEvent(): DeviceEvent
  /**
   * Records what `fill` launches on the stream (default: the default stream), without running it, as a graph. `fill` is
   * synchronous. KTL6034 for what a graph cannot hold: copies, and launches whose result is waited for.
   */
  capture(fill: (stream: Stream) => void, stream?: Stream): Graph
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
  /** Sets every byte, in order with the stream (default: the default stream), and returns at once. */
  memset(pointer: bigint, byte: number, bytes: number, stream?: Stream): void
  memoryInfo(): { allocatedBytes: number; allocations: number; capacityBytes: number }

  /** The copies themselves, at once and in no order with streams: for tensors and streams to build on. */
  copyToDevice(pointer: bigint, bytes: Uint8Array): void
  copyFromDevice(pointer: bigint, bytes: number): Promise<Uint8Array>
  /** Copies behind what all of `streams` have enqueued, in order with the last of them: for tensors to build on. */
  readBehind(streams: readonly Stream[], pointer: bigint, bytes: number): Promise<Uint8Array>
  writeBehind(streams: readonly Stream[], pointer: bigint, bytes: Uint8Array): Promise<void>
  /** Loads at once, where that is quick: kernels then never wait for their module. */
  loadModuleNow?(image: Uint8Array, options?: LoadModuleOptions): DeviceModule
  /** Where launches can be handed to the device ready made. */
  prepareLaunch?(module: DeviceModule, plans: readonly PlannedLaunch[]): FastLaunch
  /** Throws KTL4006 when the device is closed. */
  assertOpen(): void

  /** Waits for the streams and releases all memory. */
  close(): Promise<void>
}

/**
 * Opens a device. `auto`: GPU 0 where ktl can drive it, else the virtual SM100. Throws KTL4015 for unknown names and
 * options, KTL6004 without the native addon, KTL6005, with the reason, for CUDA devices that cannot be opened.
 *
 * @example
 * const virtual = await openDevice('virtual-sm100', { checks: 'full' })
 * console.log(virtual.arch, virtual.isVirtual) // sm_100a true
 * await virtual.close()
 */
export async function openDevice(spec: DeviceSpec = 'auto', options: DeviceOptions = {}): Promise<Device> {
  optionsOf('options', options)
  switch (spec) {
    case 'auto':
      return openGpu(options) ?? new VirtualDevice('virtual-sm100', options)
    case 'virtual-sm100':
    case 'virtual-sm90':
      return new VirtualDevice(spec, options)
  }
  const cuda = typeof spec === 'string' ? /^cuda(?::(\d{1,4}))?$/.exec(spec) : null
  if (cuda) return new CudaDevice(Number(cuda[1] ?? 0), options, spec)
  throw ktlError('KTL4015', {
    what: 'device',
    expected: 'auto, virtual-sm100, virtual-sm90, cuda or cuda:N',
    got: describe(spec),
  })
}

/** null: there is none, or the first is none that ktl can drive. */
function openGpu(options: DeviceOptions): Device | null {
  if (probeCuda().reason !== undefined) return null
  try {
    return new CudaDevice(0, options)
  } catch (error) {
    if (error instanceof KtlError && error.code === 'KTL6005') return null
    throw error
  }
}
