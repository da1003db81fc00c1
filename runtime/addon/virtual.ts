/**
 * The addon's interface, exactly as C++ offers it. Everything above it is TypeScript; pointers are BigInt.
 * Errors thrown by the addon are `Error` with `code: 'KTL50xx'` (or 'KTL60xx') and, for PTX, `line`.
 */
import type { NativeCuda } from './cuda.ts'

export interface NativeAddon extends NativeCuda {
  readonly VirtualDevice: new (options: NativeDeviceOptions) => NativeVirtualDevice
}

export interface NativeDeviceOptions {
  target: 'sm_100a' | 'sm_90a'
  /** Cap on the sum of live allocations, bytes. */
  memoryBytes: number
  /** SMs that kernels see in %nsmid and that limit resident clusters. */
  smCount: number
}

export interface NativeVirtualDevice {
  /** `at` 0n: anywhere. Returns a device address aligned to `align` (at least 256). */
  malloc(bytes: number, at: bigint, align: number): bigint
  free(address: bigint): void
  write(address: bigint, data: Uint8Array): void
  read(address: bigint, bytes: number): Uint8Array
  memoryInfo(): { allocatedBytes: number; allocations: number; capacityBytes: number }
  /** Parses and decodes; throws with code KTL5012/5013, `line` and the instruction's text in the message. */
  loadModule(ptx: string): NativeModule
}

/** A virtual device as ktl uses it: the addon's, or one in a process of its own. */
export interface VirtualMachine extends Omit<NativeVirtualDevice, 'loadModule' | 'read'> {
  read(address: bigint, bytes: number): Uint8Array | Promise<Uint8Array>
  loadModule(ptx: string): NativeModule | Promise<NativeModule>
  /** Settles when it answers; left out: at once. */
  readonly opened?: Promise<void>
  close?(): Promise<void>
}

export interface NativeModule {
  readonly functions: readonly NativeFunction[]
  readonly target: string
  /** Device address and size of a module-scope .global/.const variable, or null. */
  global(name: string): { address: bigint; bytes: number } | null
  /** Runs on worker threads; the event loop stays free. Findings resolve; only API misuse rejects. */
  launch(name: string, launch: NativeLaunch): Promise<NativeLaunchResult>
}

export interface NativeFunction {
  readonly name: string
  readonly params: readonly { offset: number; bytes: number; align: number }[]
  readonly paramBytes: number
  readonly staticSharedBytes: number
  readonly registers: number
  readonly maxThreads: number
}

export interface NativeLaunch {
  grid: readonly [number, number, number]
  block: readonly [number, number, number]
  cluster: readonly [number, number, number]
  /** A multiple of `cluster`: blocks of the grid run as one such cluster, or as several of `cluster`. Compute capability 10.0. */
  preferredCluster?: readonly [number, number, number]
  sharedMemBytes: number
  params: Uint8Array
  /** When asynchronous work takes effect: as late as legal, at issue, or seeded random in between. */
  order: 'lazy' | 'eager' | 'random'
  seed: number
  checks: 'none' | 'default' | 'full'
  /** Warp-instructions of the whole launch; 0: unlimited. */
  instructionBudget: number
  /** Of each warp; 0, also when left out: unlimited. */
  warpInstructionBudget?: number
  /** Worker threads; 0: all cores. Results never depend on it. */
  threads: number
  /** Sums of the tensor cores: f32 fused multiply-adds, or truncated as silicon does; 'target', also when left out: silicon on SM90, exact on SM100. */
  tensorCores?: 'target' | 'exact' | 'silicon'
  trace: boolean
  /** All CTAs at the same time; %envreg1 and %envreg2 name the grid's workspace. */
  cooperative?: boolean
  /** What the kernel printed, on the JS thread, in the order of clusters. */
  onPrint?: (text: string) => void
  /** Called on the JS thread, throttled, with CTAs done and total. */
  onProgress?: (done: number, total: number) => void
  /** Int32Array over a SharedArrayBuffer; a non-zero [0] cancels. */
  cancel?: Int32Array
}

export interface NativeLaunchResult {
  findings: readonly NativeFinding[]
  stats: NativeStats
  /** Chrome trace events as JSON text when `trace`. */
  trace?: string
}

export interface NativeFinding {
  code: string
  fatal: boolean
  /** A rule of the PTX ISA that is broken without harm; one for each place. */
  remark: boolean
  message: string
  cta: readonly [number, number, number]
  warp: number
  lane: number
  ptxLine: number
  cudaLine: number
  cudaFile: string
  function: string
  instruction: string
  notes: readonly string[]
  count: number
}

export interface NativeStats {
  warpInstructions: number
  ctas: number
  clusters: number
  milliseconds: number
  /** MACs executed by tensor-core instructions. */
  tensorMacs: number
  tmaBytesLoaded: number
  tmaBytesStored: number
  sharedBytesPerCta: number
  tmemColumns: number
  /** Modelled SM cycles from launch to end (native/src/virtual/timing.h): an estimate, never a measurement. */
  modelledCycles: number
  /** PTX forms executed, with counts, and which of them are approximated rather than bit-exact. */
  fidelity: { exact: Record<string, number>; approximated: Record<string, string> }
}
