import { ARCH_NAMES, ARCHS } from '../../compiler/archs.ts'
import {
  STAGED_BYTES,
  type DeviceProperties,
  type NativeCuda,
  type NativeCudaDevice,
  type NativeCudaEvent,
  type NativeCudaGraph,
} from '../addon/cuda.ts'
import { nativeError } from '../addon/findings.ts'
import { loadAddon } from '../addon/load.ts'
import { driverPath, MINIMUM_CC } from '../addon/probe.ts'
import { describe } from '../errors/describe.ts'
import { ktlError } from '../errors/fail.ts'
import { assertOpen, optionsOf } from '../errors/given.ts'
import type { PlannedLaunch } from '../modules/grid.ts'
import { LoadedModule } from '../modules/module.ts'
import type { LoadModuleOptions } from '../modules/options.ts'
import { checkStream, notRecorded } from '../streams/event.ts'
import { BaseGraph } from '../streams/graph.ts'
import { notInGraphs, type HostStream, type Recording } from '../streams/stream.ts'
import { BaseDevice } from './base.ts'
import { CudaModule, guard } from './cuda_module.ts'
import { CudaStream } from './cuda_stream.ts'
import type { DeviceEvent, DeviceModule, Graph, Stream } from './device.ts'
import { resolveExecution, type ExecutionOptions } from './execution.ts'
import type { FastLaunch } from './internal.ts'

/**
 * What code is compiled for, by compute capability. Machine code of 8.0 runs on all of 8.x; chips without a target of
 * their own take its PTX, which the driver compiles.
 */
function targetOf(cc: number): { readonly arch: string; readonly moduleFormat: 'ptx' | 'cubin' } {
  const own = ARCH_NAMES.find((arch) => ARCHS[arch].cc === cc)
  return { arch: own ?? 'sm_80', moduleFormat: own !== undefined || cc < 90 ? 'cubin' : 'ptx' }
}

/** A driver that does not say it is no reason not to go on. */
function clustersOf(native: NativeCudaDevice): readonly number[] {
  try {
    return Object.freeze(native.clusters())
  } catch {
    return []
  }
}

/** A GPU, through the CUDA driver. Options of virtual devices are checked, and change nothing. */
export class CudaDevice extends BaseDevice {
  readonly name: `cuda:${number}`
  readonly kind = 'cuda'
  readonly arch: string
  readonly cc: number
  readonly smCount: number
  readonly moduleFormat: 'ptx' | 'cubin'
  readonly properties: DeviceProperties
  readonly #cuda: NativeCuda
  readonly #native: NativeCudaDevice
  /** Of allocations that were made larger to be aligned: from the address given out to the driver's. */
  readonly #bases = new Map<bigint, bigint>()
  readonly #allocated = new Map<bigint, number>()
  readonly #modules = new WeakMap<DeviceModule, CudaModule>()

  /** KTL6005, with the reason, when there is no such GPU; `spec` is how it was asked for. */
  constructor(ordinal: number, options: ExecutionOptions = {}, spec: string = `cuda:${ordinal}`) {
    resolveExecution(options)
    const cuda = loadAddon()
    const native = openNative(cuda, ordinal, spec)
    super((device, first) => new CudaStream(device, native, first ? 0 : native.createStream()))
    const { properties } = native
    this.name = `cuda:${ordinal}`
    this.cc = properties.cc
    const { arch, moduleFormat } = targetOf(properties.cc)
    this.arch = arch
    this.moduleFormat = moduleFormat
    this.smCount = properties.smCount
    let clusters: readonly number[] | null = null
    this.properties = Object.freeze({
      ...properties,
      // The driver compiles a kernel to say it: for who asks.
      get clusters() {
        return (clusters ??= clustersOf(native))
      },
    })
    this.#cuda = cuda
    this.#native = native
  }

  async loadModule(image: string | Uint8Array, options: LoadModuleOptions = {}): Promise<DeviceModule> {
    return this.loadModuleNow(image, options)
  }

  loadModuleNow(image: string | Uint8Array, options: LoadModuleOptions = {}): DeviceModule {
    assertOpen(this)
    optionsOf('options', options)
    if (typeof image !== 'string' && !(image instanceof Uint8Array))
      throw ktlError('KTL6006', { what: 'loadModule', expected: 'PTX text or a cubin', got: describe(image) })
    const bytes = typeof image === 'string' ? new TextEncoder().encode(image) : image
    const isText = bytes[0] !== 0x7f
    const ptx = typeof image === 'string' ? image : isText ? new TextDecoder().decode(bytes) : ''
    try {
      const backend = new CudaModule(this, new this.#cuda.CudaModule(this.#native, bytes))
      const module = new LoadedModule(this, backend, { ...options, ptx })
      this.#modules.set(module, backend)
      return module
    } catch (error) {
      throw nativeError(error, null)
    }
  }

  prepareLaunch(module: DeviceModule, plans: readonly PlannedLaunch[]): FastLaunch {
    return guard(() => this.#modules.get(module)!.prepare(this.#cuda, this.#native, plans))
  }

  memoryInfo(): { allocatedBytes: number; allocations: number; capacityBytes: number } {
    assertOpen(this)
    const sizes = [...this.#allocated.values()]
    const allocatedBytes = sizes.reduce((sum, bytes) => sum + bytes, 0)
    return { allocatedBytes, allocations: sizes.length, capacityBytes: this.properties.memoryBytes }
  }

  copyToDevice(pointer: bigint, bytes: Uint8Array): void {
    if (bytes.length > 0) guard(() => this.#native.writeNow(pointer, bytes))
  }

  async copyFromDevice(pointer: bigint, bytes: number): Promise<Uint8Array> {
    if (bytes === 0) return new Uint8Array(0)
    try {
      return await this.#native.readNow(pointer, bytes)
    } catch (error) {
      throw nativeError(error, null)
    }
  }

  override readBehind(streams: readonly HostStream[], pointer: bigint, bytes: number): Promise<Uint8Array> {
    if (!takesCopy(streams, bytes)) return super.readBehind(streams, pointer, bytes)
    return this.#copy(streams, (id) => this.#native.read(id, pointer, bytes))
  }

  override writeBehind(streams: readonly HostStream[], pointer: bigint, bytes: Uint8Array): Promise<void> {
    if (!takesCopy(streams, bytes.length)) return super.writeBehind(streams, pointer, bytes)
    return this.#copy(streams, (id) => this.#native.write(id, pointer, bytes))
  }

  /** Enqueued now, on the last stream, behind all of them. */
  async #copy<T>(streams: readonly HostStream[], start: (id: number) => Promise<T>): Promise<T> {
    const last = streams.at(-1) as CudaStream
    last.throwDetached()
    try {
      for (const other of streams.slice(0, -1)) this.#native.join(last.id, (other as CudaStream).id)
      return await start(last.id)
    } catch (error) {
      throw nativeError(error, null)
    }
  }

  override createEvent(): DeviceEvent {
    assertOpen(this)
    return new CudaEvent(
      this,
      guard(() => new this.#cuda.CudaEvent(this.#native)),
    )
  }

  override capture(fill: (stream: Stream) => void, stream: Stream = this.defaultStream): Graph {
    assertOpen(this)
    const own = checkStream(this, stream)
    const { id } = own as CudaStream
    let started = false
    try {
      const recording = own.record(() => {
        guard(() => this.#native.beginCapture(id))
        started = true
        return fill(stream)
      })
      return new CudaGraph(
        this,
        recording,
        guard(() => new this.#cuda.CudaGraph(this.#native, id)),
      )
    } catch (error) {
      if (started) this.#native.abortCapture(id)
      throw error
    }
  }

  protected override fill(pointer: bigint, byte: number, bytes: number, stream: HostStream): void {
    stream.submit(() => guard(() => this.#native.fill((stream as CudaStream).id, pointer, byte, bytes)))
  }

  /** The driver aligns to 256 bytes. */
  protected allocate(bytes: number, _at: bigint, align: number): bigint {
    const extra = align > 256 ? align : 0
    const base = guard(() => this.#native.allocate(bytes + extra))
    const unit = BigInt(align)
    const pointer = extra > 0 ? ((base + unit - 1n) / unit) * unit : base
    if (pointer !== base) this.#bases.set(pointer, base)
    this.#allocated.set(pointer, bytes)
    return pointer
  }

  protected release(pointer: bigint): void {
    const base = this.#bases.get(pointer) ?? pointer
    this.#bases.delete(pointer)
    this.#allocated.delete(pointer)
    try {
      this.#native.free(base)
    } catch (error) {
      // The memory of a device that was lost is lost with it.
      if ((error as { code?: unknown }).code !== 'KTL6030') throw nativeError(error, null)
    }
  }

  protected async shutdown(): Promise<void> {
    this.#native.close()
  }
}

function openNative(cuda: NativeCuda, ordinal: number, device: string): NativeCudaDevice {
  let native
  try {
    native = new cuda.CudaDevice(driverPath(), ordinal)
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'KTL6005') throw error
    throw ktlError('KTL6005', { device, reason: (error as Error).message }, { cause: error })
  }
  const { cc, name } = native.properties
  if (cc >= MINIMUM_CC) return native
  native.close()
  const version = (value: number): string => `${Math.floor(value / 10)}.${value % 10}`
  throw ktlError('KTL6005', {
    device,
    reason: `${name} has compute capability ${version(cc)}, kernels need ${version(MINIMUM_CC)} or later`,
  })
}

/** Small enough for pinned memory, and in streams in which the host has nothing to do first. */
function takesCopy(streams: readonly HostStream[], bytes: number): boolean {
  return (
    bytes > 0 && bytes <= STAGED_BYTES && streams.every((stream) => (stream as CudaStream).direct && !stream.capturing)
  )
}

class CudaEvent implements DeviceEvent {
  readonly #device: CudaDevice
  readonly #native: NativeCudaEvent
  /** Settles when the event was handed to the driver; null: never recorded. */
  #recorded: Promise<void> | true | null = null

  constructor(device: CudaDevice, native: NativeCudaEvent) {
    this.#device = device
    this.#native = native
  }

  record(stream: Stream = this.#device.defaultStream): void {
    const own = checkStream(this.#device, stream)
    if (own.capturing) throw notInGraphs('an event')
    const { id, direct } = own as CudaStream
    if (direct) {
      guard(() => this.#native.record(id))
      this.#recorded = true
      return
    }
    this.#recorded = new Promise((resolve, reject) =>
      own.submit(() => {
        try {
          resolve(this.#native.record(id))
        } catch (error) {
          reject(nativeError(error, null))
        }
      }),
    )
  }

  async synchronize(): Promise<void> {
    await this.#handedOver('event')
    return this.#wait(() => this.#native.settled())
  }

  async elapsedMs(start: DeviceEvent): Promise<number> {
    if (!(start instanceof CudaEvent) || start.#device !== this.#device) throw notRecorded('start')
    await Promise.all([start.#handedOver('start'), this.#handedOver('event')])
    return this.#wait(() => this.#native.elapsed(start.#native))
  }

  async #handedOver(what: string): Promise<void> {
    if (this.#recorded === null) throw notRecorded(what)
    await this.#recorded
  }

  async #wait<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call()
    } catch (error) {
      throw nativeError(error, null)
    }
  }
}

class CudaGraph extends BaseGraph {
  readonly #native: NativeCudaGraph

  constructor(device: CudaDevice, recording: Recording, native: NativeCudaGraph) {
    super(device, recording)
    this.#native = native
  }

  protected start(stream: HostStream): void {
    stream.submit(() => guard(() => this.#native.launch((stream as CudaStream).id)))
  }

  protected release(): void {
    this.#native.free()
  }
}
