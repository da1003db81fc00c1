/** What the addon offers of CUDA (native/src/cuda/addon_cuda.cc). Streams are numbers; 0 is the default stream. */

/** What is known of the chip; 0 where the driver does not say. */
export interface DeviceProperties {
  /** `NVIDIA H100 80GB HBM3`, `virtual-sm100` */
  readonly name: string
  /** Compute capability: 100. */
  readonly cc: number
  readonly smCount: number
  readonly memoryBytes: number
  readonly l2Bytes: number
  /** Shared memory of an SM, 1024 bytes of it for each CTA not its own; and the most that a CTA may ask for. */
  readonly sharedBytesPerSm: number
  readonly sharedBytesPerBlock: number
  readonly clockKHz: number
  readonly memoryClockKHz: number
  readonly memoryBusBits: number
  /** Clusters of 2, 4 and 8 CTAs that run at once, each CTA alone on its SM; fewer numbers where the driver does not say. */
  readonly clusters: readonly number[]
  /** CUDA version of the driver: 13000; 0 on virtual devices. */
  readonly driverVersion: number
}

export interface NativeCuda {
  readonly CudaDevice: new (driverPath: string, ordinal: number) => NativeCudaDevice
  /** A cubin, or PTX, which the driver compiles. */
  readonly CudaModule: new (device: NativeCudaDevice, image: Uint8Array) => NativeCudaModule
  readonly CudaLaunch: new (device: NativeCudaDevice) => NativeCudaLaunch
  /** Ends the capture of the stream. */
  readonly CudaGraph: new (device: NativeCudaDevice, stream: number) => NativeCudaGraph
  readonly CudaEvent: new (device: NativeCudaDevice) => NativeCudaEvent
  probeCuda(driverPath: string): CudaStatus
  probeNvrtc(path: string): NvrtcStatus
  compileNvrtc(
    path: string,
    source: string,
    name: string,
    options: readonly string[],
    ptx: boolean,
  ): Promise<NvrtcResult>
}

/** A driver with at least one GPU, or why there is none. */
export type CudaStatus =
  | { readonly reason: string }
  | {
      readonly path: string
      readonly version: number
      readonly devices: readonly string[]
      readonly reason?: undefined
    }

/** The NVRTC library that was found, or why there is none. */
export type NvrtcStatus =
  { readonly reason: string } | { readonly path: string; readonly version: string; readonly reason?: undefined }

export interface NvrtcResult {
  /** null: the text has errors. */
  readonly image: Uint8Array | null
  readonly log: string
}

export interface NativeCudaDevice {
  readonly properties: Omit<DeviceProperties, 'clusters'>
  /** As `DeviceProperties` has them. */
  clusters(): readonly number[]
  allocate(bytes: number): bigint
  free(address: bigint): void
  memoryInfo(): { freeBytes: number; totalBytes: number }
  createStream(): number
  /** All work has been done, or failed. */
  idle(stream: number): boolean
  /** Resolves when what is enqueued now is done; waits on a thread of the addon. */
  settled(stream: number): Promise<void>
  /** Later work of the first stream waits for what the second has enqueued now. */
  join(stream: number, other: number): void
  /** In stream order, through pinned memory: at most `STAGED_BYTES`. The bytes are taken at once. */
  write(stream: number, address: bigint, bytes: Uint8Array): Promise<void>
  read(stream: number, address: bigint, bytes: number): Promise<Uint8Array>
  /** Outside all streams: blocking, and on a thread of the addon. Of any size. */
  writeNow(address: bigint, bytes: Uint8Array): void
  readNow(address: bigint, bytes: number): Promise<Uint8Array>
  fill(stream: number, address: bigint, byte: number, bytes: number): void
  /** By the driver, from numbers of its enums: interleave, swizzle, L2 promotion, fill. For comparison with `createTensorMap`. */
  encodeTensorMap(
    type: number,
    address: bigint,
    dims: readonly number[],
    strides: readonly number[],
    box: readonly number[],
    steps: readonly number[],
    modes: readonly [number, number, number, number],
  ): Uint8Array
  beginCapture(stream: number): void
  abortCapture(stream: number): void
  close(): void
}

/** Staging::kLargest of native/src/cuda/staging.h. */
export const STAGED_BYTES = 1 << 25

export interface NativeCudaModule {
  readonly functions: readonly NativeCudaFunction[]
  global(name: string): { address: bigint; bytes: number } | null
  launch(fn: number, shape: Uint32Array, params: Uint8Array, stream: number): void
}

export interface NativeCudaFunction {
  readonly name: string
  readonly params: readonly { readonly offset: number; readonly bytes: number }[]
  readonly paramBytes: number
  readonly staticSharedBytes: number
  readonly registers: number
  readonly maxThreads: number
}

export interface NativeCudaLaunch {
  add(module: NativeCudaModule, fn: number, shape: Uint32Array, params: Uint8Array): void
  /** Overwrites an address in the parameter block. */
  patch(launch: number, offset: number, address: bigint): void
  launch(stream: number): void
  /** Nanoseconds of the CPU for each of `count` launches from a loop in C++: the driver's own cost. */
  time(stream: number, count: number): number
}

export interface NativeCudaGraph {
  launch(stream: number): void
  free(): void
}

export interface NativeCudaEvent {
  record(stream: number): void
  settled(): Promise<void>
  elapsed(start: NativeCudaEvent): Promise<number>
}
