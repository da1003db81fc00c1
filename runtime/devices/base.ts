import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { DeviceProperties } from '../addon/cuda.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { assertOpen, optionsOf } from '../errors/given.ts'
import { compileModule } from '../modules/module.ts'
import type { CompileCudaOptions, LoadModuleOptions } from '../modules/options.ts'
import { checkStream, HostEvent } from '../streams/event.ts'
import { RecordedGraph } from '../streams/graph.ts'
import { HostStream } from '../streams/stream.ts'
import { createTensor } from '../tensors/create.ts'
import type { RawBits, Values } from '../tensors/data.ts'
import { behind } from '../tensors/storage.ts'
import { createTensorMap, type TensorMap, type TensorMapOptions } from '../tensors/tensor_map.ts'
import type { Device, DeviceEvent, DeviceModule, Graph, Stream, TypedTensor } from './device.ts'
import { registerDevice, type InternalDevice } from './internal.ts'
import type { MallocOptions, TensorOptions } from './options.ts'

/** What devices have in common: streams, the map of allocations, ordering of raw copies, closing. */
export abstract class BaseDevice implements InternalDevice {
  abstract readonly name: string
  abstract readonly kind: 'virtual' | 'cuda'
  abstract readonly arch: string
  abstract readonly cc: number
  abstract readonly smCount: number
  abstract readonly moduleFormat: 'ptx' | 'cubin'
  abstract readonly properties: DeviceProperties
  readonly defaultStream: HostStream
  readonly #makeStream: (device: Device, first: boolean) => HostStream
  readonly #streams: HostStream[]
  readonly #allocations = new Map<bigint, number>()
  #closed = false

  /** `makeStream` is called for the default stream first. */
  constructor(makeStream: (device: Device, first: boolean) => HostStream = (device) => new HostStream(device)) {
    registerDevice(this)
    this.#makeStream = makeStream
    this.defaultStream = makeStream(this, true)
    this.#streams = [this.defaultStream]
  }

  protected abstract allocate(bytes: number, at: bigint, align: number): bigint
  protected abstract release(pointer: bigint): void
  /** Gives back the machine; no memory is live any more. */
  protected abstract shutdown(): Promise<void>
  abstract loadModule(image: string | Uint8Array, options?: LoadModuleOptions): Promise<DeviceModule>
  abstract copyToDevice(pointer: bigint, bytes: Uint8Array): void
  abstract copyFromDevice(pointer: bigint, bytes: number): Promise<Uint8Array>
  abstract memoryInfo(): { allocatedBytes: number; allocations: number; capacityBytes: number }

  get isVirtual(): boolean {
    return this.kind === 'virtual'
  }

  get l2Bytes(): number {
    return this.properties.l2Bytes
  }

  get closed(): boolean {
    return this.#closed
  }

  tensor<D extends DTypeName, const Shape extends readonly number[]>(
    dtype: D,
    shape: Shape,
    values: Values | RawBits,
    options: TensorOptions = {},
  ): TypedTensor<D, Shape> {
    // An `undefined` that slipped in is no request for an uninitialised tensor.
    return createTensor(this, dtype, shape, values ?? (null as never), options) as TypedTensor<D, Shape>
  }

  empty<D extends DTypeName, const Shape extends readonly number[]>(
    dtype: D,
    shape: Shape,
    options: TensorOptions = {},
  ): TypedTensor<D, Shape> {
    return createTensor(this, dtype, shape, undefined, options) as TypedTensor<D, Shape>
  }

  createStream(): HostStream {
    assertOpen(this)
    const stream = this.#makeStream(this, false)
    this.#streams.push(stream)
    return stream
  }

  async synchronize(): Promise<void> {
    const results = await Promise.allSettled(this.#streams.map((stream) => stream.synchronize()))
    const failed = results.find((result) => result.status === 'rejected')
    if (failed) throw failed.reason
  }

  async compileCuda(source: string, options: CompileCudaOptions = {}): Promise<DeviceModule> {
    return compileModule(this, source, options)
  }

  tensorMap(options: TensorMapOptions): TensorMap {
    return createTensorMap(optionsOf('options', options ?? (null as never)))
  }

  malloc(bytes: number, options: MallocOptions = {}): bigint {
    assertOpen(this)
    const { at = 0n, align = 256 } = optionsOf('options', options)
    if (!Number.isSafeInteger(bytes) || bytes < 0) {
      throw ktlError('KTL4014', { what: 'malloc', expected: 'a size in bytes of at least 0', got: describe(bytes) })
    }
    if (!Number.isInteger(align) || align < 1 || align > 2 ** 30 || (align & (align - 1)) !== 0) {
      throw ktlError('KTL4014', {
        what: 'malloc',
        expected: 'an alignment that is a power of two',
        got: describe(align),
      })
    }
    if (typeof at !== 'bigint' || at < 0n || (at !== 0n && !this.isVirtual)) {
      throw ktlError('KTL4014', {
        what: 'malloc',
        expected: '`at` as a bigint, on virtual devices only',
        got: describe(at),
      })
    }
    // A tensor without elements still has an address of its own.
    const pointer = this.allocate(Math.max(1, bytes), at, Math.max(256, align))
    this.#allocations.set(pointer, bytes)
    return pointer
  }

  free(pointer: bigint): void {
    assertOpen(this)
    if (!this.#allocations.delete(pointer)) {
      throw ktlError('KTL4014', { what: 'free', expected: 'a pointer that malloc returned', got: describe(pointer) })
    }
    // As cuMemFree does: memory goes when the work enqueued before is done with it.
    if (this.#streams.every((stream) => stream.idle)) this.release(pointer)
    else void this.#settled().then(() => this.release(pointer))
  }

  // Not async: the stream knows then whether anybody looks at how the copy ends.
  write(pointer: bigint, bytes: Uint8Array): Promise<void> {
    try {
      this.#checkRange('write', pointer, ArrayBuffer.isView(bytes) ? bytes.byteLength : NaN)
    } catch (error) {
      return Promise.reject(error)
    }
    const copy = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).slice()
    return this.writeBehind(this.#defaultLast(), pointer, copy)
  }

  read(pointer: bigint, bytes: number): Promise<Uint8Array> {
    try {
      this.#checkRange('read', pointer, bytes)
    } catch (error) {
      return Promise.reject(error)
    }
    return this.readBehind(this.#defaultLast(), pointer, bytes)
  }

  readBehind(streams: readonly HostStream[], pointer: bigint, bytes: number): Promise<Uint8Array> {
    return behind(streams, () => this.copyFromDevice(pointer, bytes))
  }

  writeBehind(streams: readonly HostStream[], pointer: bigint, bytes: Uint8Array): Promise<void> {
    return behind(streams, () => this.copyToDevice(pointer, bytes))
  }

  memset(pointer: bigint, byte: number, bytes: number, stream: Stream = this.defaultStream): void {
    this.#checkRange('memset', pointer, bytes)
    if (!Number.isInteger(byte) || byte < 0 || byte > 255) {
      throw ktlError('KTL4014', { what: 'memset', expected: 'a byte from 0 to 255', got: describe(byte) })
    }
    const own = checkStream(this, stream)
    if (bytes > 0) this.fill(pointer, byte, bytes, own)
  }

  protected fill(pointer: bigint, byte: number, bytes: number, stream: HostStream): void {
    stream.submit(() => this.copyToDevice(pointer, new Uint8Array(bytes).fill(byte)))
  }

  createEvent(): DeviceEvent {
    assertOpen(this)
    return new HostEvent(this)
  }

  capture(fill: (stream: Stream) => void, stream: Stream = this.defaultStream): Graph {
    assertOpen(this)
    return new RecordedGraph(this, checkStream(this, stream).record(fill))
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#settled()
    for (const pointer of this.#allocations.keys()) this.release(pointer)
    this.#allocations.clear()
    await this.shutdown()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #settled(): Promise<void> {
    await Promise.all(this.#streams.map((stream) => stream.settled))
  }

  /** Raw memory belongs to no stream: a copy waits for all, and the default stream waits for the copy. */
  #defaultLast(): HostStream[] {
    return [...this.#streams.slice(1), this.defaultStream]
  }

  #checkRange(what: string, pointer: bigint, bytes: number): void {
    assertOpen(this)
    if (typeof pointer !== 'bigint' || !Number.isSafeInteger(bytes) || bytes < 0) {
      throw ktlError('KTL4014', {
        what,
        expected: 'a bigint pointer and a range of bytes',
        got: `${describe(pointer)}, ${describe(bytes)}`,
      })
    }
  }
}
