/**
 * What users hold of a device: the device itself, its streams, tensors and modules. They name each other, so they stand together;
 * what ktl itself asks of a device beside that is in `internal.ts`.
 */
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { DeviceProperties } from '../addon/cuda.ts'
import type { KernelSources } from '../addon/findings.ts'
import type { Dim3 } from '../modules/grid.ts'
import type { CompileCudaOptions, LoadModuleOptions, TypedNumber } from '../modules/options.ts'
import type { LaunchResult } from '../modules/result.ts'
import type { DecodedArray, RawBits, Values } from '../tensors/data.ts'
import type { Range } from '../tensors/layout.ts'
import type { TensorMap, TensorMapOptions } from '../tensors/tensor_map.ts'
import type { ExecutionOptions } from './execution.ts'
import type { EnqueueOptions, MallocOptions, TensorOptions } from './options.ts'

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

  /** Waits for the streams and releases all memory. */
  close(): Promise<void>
}

/** Work in order, on one device. A failure that nobody looks at is thrown by the next `synchronize`. */
export interface Stream {
  readonly device: Device
  /** No work is enqueued or running. */
  readonly idle: boolean
  /** What is enqueued is recorded for a graph, and not run: see `device.capture`. */
  readonly capturing: boolean
  /** Runs `work` behind everything enqueued before. KTL6034 while the stream records. */
  enqueue<T>(work: () => Promise<T> | T, options?: EnqueueOptions): Promise<T>
  /** Waits for everything enqueued so far, then throws the first failure since the last call that nobody has looked at. */
  synchronize(): Promise<void>
}

/** A point in a stream, with the time at which the device reached it. */
export interface DeviceEvent {
  /** Marks the point behind everything enqueued so far. Default: the device's default stream. */
  record(stream?: Stream): void
  /** Settles when the stream has reached the point. */
  synchronize(): Promise<void>
  /** Milliseconds from `start`, a recorded event of the same device, to this one, once both were reached. */
  elapsedMs(start: DeviceEvent): Promise<number>
}

/** Launches recorded by `device.capture`, enqueued again as one. The memory they use lives as long as the graph. */
export interface Graph extends Disposable {
  /** Enqueues all of it and returns at once; failures surface at the stream's next synchronize or copy. */
  launch(stream?: Stream): void
  /** KTL4006 for launches afterwards; freeing twice is harmless. */
  free(): void
}

/**
 * A strided array in device memory. Views share the memory of the tensor they come from; `free` releases it for all
 * of them. Copies run behind what is enqueued on the streams that use the tensor.
 */
export interface Tensor extends Disposable {
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
  readonly rank: number
  readonly freed: boolean
  /** Do the bytes of the two tensors intersect? Equal tensors do. */
  overlaps(other: Tensor): boolean
  /** Decoded values in logical order, once the work enqueued on the tensor is done. */
  toArray(): Promise<DecodedArray>
  /** The storage: `byteLength` bytes from the first element to the last. */
  toBytes(): Promise<Uint8Array>
  /** Overwrites the elements; padding keeps its bytes. Values are converted at once, the copy is enqueued. */
  copyFrom(values: Values | RawBits): Promise<void>
  /** Announces that work enqueued on `stream` uses the tensor: copies and `free` wait for it. */
  recordUse(stream: Stream): void
  /** Other extents, strides and start over the same memory, all in elements. `offset` counts from this tensor's start. */
  view(shape: readonly number[], options?: { strides?: readonly number[]; offset?: number }): Tensor
  /** The same elements in the same order with another shape; one extent may be -1. Never copies. */
  reshape(shape: readonly number[]): Tensor
  /** Axis i of the result is axis `order[i]` of this tensor. */
  permute(order: readonly number[]): Tensor
  /** `slice([2, 5], null, [0, 8, 2])`: one range for each axis from the first; null takes the whole axis. */
  slice(...ranges: Range[]): Tensor
  /** The same bytes as another dtype. When the size differs, the contiguous last axis shrinks or grows. */
  as(dtype: DTypeName): Tensor
  /** Releases the memory, for all views, once the work enqueued on it is done. Freeing twice is harmless. */
  free(): void
  /** `f16 [2, 3]`, with strides unless dense: for messages. */
  toString(): string
}

/** What the type checker knows of a tensor. No such field exists at run time. */
export declare const known: unique symbol
/** Of all that could be passed: a dtype or rank that is not known takes every parameter. */
export interface Known<D, Rank, Shape extends readonly number[] = readonly number[]> {
  readonly dtype: (dtype: D) => void
  readonly rank: (rank: Rank) => void
  readonly shape: Shape
}

/** A tensor whose dtype the type checker knows, and its extents as far as they were written as literals. */
export type TypedTensor<D extends DTypeName, Shape extends readonly number[] = readonly number[]> = Tensor & {
  readonly dtype: D
  readonly shape: Shape
  readonly [known]?: Known<D, Shape['length'], Shape>
}

/** Code on a device. Get one from `device.loadModule` or `device.compileCuda`. */
export interface DeviceModule {
  readonly device: Device
  /** Names of the kernels. */
  readonly functions: readonly string[]
  /** The text that was loaded; '' for machine code. */
  readonly ptx: string
  readonly sources: KernelSources | undefined
  /** KTL4013, with the names there are, when the module has no such kernel. */
  function(name: string): DeviceFunction
  /** Address and size of a `__device__` or `__constant__` variable; null when there is none of that name. */
  global(name: string): { address: bigint; bytes: number } | null
}

/** A kernel of a module. */
export interface DeviceFunction {
  readonly module: DeviceModule
  readonly name: string
  /** Offset and size of each parameter in the block. */
  readonly params: readonly { readonly offset: number; readonly bytes: number }[]
  readonly paramBytes: number
  readonly staticSharedBytes: number
  readonly registers: number
  readonly maxThreads: number
  /**
   * Enqueues the kernel. The promise resolves at completion, with findings and statistics: on a virtual device, what the
   * kernel does wrong is a finding, not a rejection. Within `device.capture` it is recorded, and the result is empty.
   * KTL4009 to KTL4011 and KTL5020 for arguments that do not fit.
   */
  launch(options: LaunchOptions): Promise<LaunchResult>
  /** Enqueues the kernel and returns at once; errors and findings surface at the stream's next synchronize or copy. */
  enqueue(options: LaunchOptions): void
}

/**
 * A whole number (converted to the size of the parameter), a tensor (its pointer), a tensor map, a number with its
 * format, or the raw bytes of one parameter.
 */
export type LaunchParam = number | bigint | boolean | Tensor | TensorMap | TypedNumber | Uint8Array

/** Grid, block, parameters, and how a launch runs. */
export interface LaunchOptions extends ExecutionOptions {
  readonly grid: Dim3
  readonly block: Dim3
  /** CTAs of a cluster; of those that blocks fall back to when there is a preferred one. */
  readonly cluster?: Dim3
  /** A multiple of `cluster` that the device uses where it can; compute capability 10.0. A grid may then mix both. */
  readonly preferredCluster?: Dim3
  /** Dynamic shared memory, bytes. */
  readonly sharedMemBytes?: number
  /** Bytes of shared memory that all CTAs of an SM take: a GPU has the rest as L1. Default: the driver leaves room for as many CTAs as fit. */
  readonly sharedPerSm?: number
  /** One value for each parameter, or the whole parameter block. */
  readonly params: readonly LaunchParam[] | Uint8Array
  /** Tensors that the launch uses without naming them in `params`: copies and frees wait for it. */
  readonly uses?: readonly Tensor[]
  readonly stream?: Stream
  /** May start while the launch before it still runs; the kernel waits for it by itself (`griddepcontrol.wait`). GPUs only. */
  readonly programmatic?: boolean
  /** All CTAs run at the same time, so that they may wait for one another (`grid.sync()` of cooperative groups). */
  readonly cooperative?: boolean
  /** Asks a GPU for `milliseconds`, measured by events around the launch. */
  readonly timed?: boolean
  /** Stops the launch, queued or running; the promise rejects with the signal's reason. A GPU ends what it has begun. */
  readonly signal?: AbortSignal
  /** CTAs done and in all, now and then. */
  readonly onProgress?: (done: number, total: number) => void
  /**
   * What the kernel prints by `printf`, each cluster's text in the order of the grid. Default: the process's standard output,
   * where the driver of a GPU always writes it, at the next synchronization.
   */
  readonly onPrint?: (text: string) => void
  /** Asks for a Chrome trace in the result. */
  readonly trace?: boolean
}
