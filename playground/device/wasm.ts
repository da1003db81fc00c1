/** The virtual device as a WebAssembly module (native/wasm), with the interface of the addon: for workers of a page, and for Node. */
import type {
  NativeDeviceOptions,
  NativeLaunch,
  NativeLaunchResult,
  NativeModule,
  NativeVirtualDevice,
} from '../../runtime/addon/virtual.ts'

/** What native/wasm/device.cc exports. Pointers are into `memory`; 0 and false: it failed, and the answer says how. */
interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer }
  _initialize(): void
  malloc(bytes: number): number
  free(pointer: number): void
  ktl_open(target: number, memoryBytes: bigint, smCount: number): void
  ktl_answer(): number
  ktl_answer_bytes(): number
  ktl_trace(): number
  ktl_trace_bytes(): number
  ktl_allocate(bytes: bigint, at: bigint, align: number): bigint
  ktl_release(address: bigint): number
  ktl_write(address: bigint, data: number, bytes: number): number
  ktl_read(address: bigint, data: number, bytes: number): number
  ktl_allocated_bytes(): bigint
  ktl_allocations(): bigint
  ktl_load(ptx: number): number
  ktl_global(module: number, name: number, bytes: number): bigint
  ktl_launch(module: number, entry: number, launch: number, params: number, paramBytes: number): number
}

/** Of the global `WebAssembly`, which the types of Node lack. */
interface Engine {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports: object) => { readonly exports: object }
  compile(bytes: ArrayBuffer): Promise<object>
}
export const engine = (globalThis as unknown as { readonly WebAssembly: Engine }).WebAssembly

const ORDERS = ['lazy', 'eager', 'random'] as const
const CHECKS = ['none', 'default', 'full'] as const
const TENSOR_CORES = ['target', 'exact', 'silicon'] as const

/** Class `VirtualDevice` of the addon. Each device is an instance of its own, with at most 2 GiB of memory, on the thread that calls. */
export function wasmDevices(module: object): new (options: NativeDeviceOptions) => NativeVirtualDevice {
  return class extends WasmDevice {
    constructor(options: NativeDeviceOptions) {
      super(module, options)
    }
  }
}

class WasmDevice implements NativeVirtualDevice {
  readonly #calls: Exports
  readonly #capacityBytes: number

  constructor(module: object, { target, memoryBytes, smCount }: NativeDeviceOptions) {
    this.#calls = new engine.Instance(
      module,
      importsOf(() => this.#calls.memory),
    ).exports as Exports
    this.#calls._initialize()
    this.#capacityBytes = memoryBytes
    this.#withBytes(textBytes(target), (at) => this.#calls.ktl_open(at, BigInt(memoryBytes), smCount))
  }

  malloc(bytes: number, at: bigint, align: number): bigint {
    const address = BigInt.asUintN(64, this.#calls.ktl_allocate(BigInt(bytes), at, align))
    return address === 0n ? this.#fail() : address
  }

  free(address: bigint): void {
    if (!this.#calls.ktl_release(address)) this.#fail()
  }

  write(address: bigint, data: Uint8Array): void {
    if (!this.#withBytes(data, (at) => this.#calls.ktl_write(address, at, data.length))) this.#fail()
  }

  read(address: bigint, bytes: number): Uint8Array {
    return this.#withBytes(bytes, (at) => {
      if (!this.#calls.ktl_read(address, at, bytes)) this.#fail()
      return this.#bytes(at, bytes)
    })
  }

  memoryInfo(): { allocatedBytes: number; allocations: number; capacityBytes: number } {
    const { ktl_allocated_bytes, ktl_allocations } = this.#calls
    const capacityBytes = this.#capacityBytes
    return { allocatedBytes: Number(ktl_allocated_bytes()), allocations: Number(ktl_allocations()), capacityBytes }
  }

  loadModule(ptx: string): NativeModule {
    const module = this.#withBytes(textBytes(ptx), (at) => this.#calls.ktl_load(at))
    if (module === 0) this.#fail()
    const described = JSON.parse(this.#answer()) as Pick<NativeModule, 'functions' | 'target'>
    return {
      ...described,
      global: (name) => this.#global(module, name),
      launch: async (name, launch) => this.#launch(module, name, launch),
    }
  }

  #global(module: number, name: string): { address: bigint; bytes: number } | null {
    return this.#withBytes(8, (bytes) => {
      const address = this.#withBytes(textBytes(name), (at) => this.#calls.ktl_global(module, at, bytes))
      if (address === 0n) return null
      return { address, bytes: Number(new DataView(this.#calls.memory.buffer).getBigUint64(bytes, true)) }
    })
  }

  #launch(module: number, name: string, launch: NativeLaunch): NativeLaunchResult {
    const { ktl_launch, ktl_trace, ktl_trace_bytes } = this.#calls
    const done = this.#withBytes(textBytes(name), (entry) =>
      this.#withBytes(launchWords(launch), (words) =>
        this.#withBytes(launch.params, (params) => ktl_launch(module, entry, words, params, launch.params.length)),
      ),
    )
    if (!done) this.#fail()
    const { printed, ...result } = JSON.parse(this.#answer()) as NativeLaunchResult & { readonly printed: string }
    if (printed !== '') launch.onPrint?.(printed)
    return launch.trace ? { ...result, trace: this.#text(ktl_trace(), ktl_trace_bytes()) } : result
  }

  /** `use` is given the place of the bytes, or of so many that are free to be written, while it runs. */
  #withBytes<A>(given: Uint8Array | number, use: (pointer: number) => A): A {
    const bytes = typeof given === 'number' ? given : given.length
    const pointer = this.#calls.malloc(Math.max(bytes, 1))
    if (pointer === 0) throw nativeError({ code: 'KTL5017', message: `this page has no room for ${bytes} bytes` })
    try {
      if (typeof given !== 'number') new Uint8Array(this.#calls.memory.buffer).set(given, pointer)
      return use(pointer)
    } finally {
      this.#calls.free(pointer)
    }
  }

  #bytes(pointer: number, bytes: number): Uint8Array {
    return new Uint8Array(this.#calls.memory.buffer).slice(pointer, pointer + bytes)
  }

  #text(pointer: number, bytes: number): string {
    return new TextDecoder().decode(this.#bytes(pointer, bytes))
  }

  #answer(): string {
    return this.#text(this.#calls.ktl_answer(), this.#calls.ktl_answer_bytes())
  }

  #fail(): never {
    throw nativeError(JSON.parse(this.#answer()) as Failure)
  }
}

interface Failure {
  readonly code: string
  readonly message: string
}

/** As the addon throws them: `line` where the message begins with one. */
function nativeError({ code, message }: Failure): Error {
  const line = /^line (\d+)/.exec(message)?.[1]
  return Object.assign(new Error(message), { code, ...(line !== undefined && { line: Number(line) }) })
}

/** `Launch` of native/wasm/device.cc. */
function launchWords(launch: NativeLaunch): Uint8Array {
  const { grid, block, cluster, preferredCluster = [0, 0, 0], sharedMemBytes, order, checks, trace } = launch
  const { tensorCores = 'target', cooperative = false, seed, instructionBudget, warpInstructionBudget = 0 } = launch
  const view = new DataView(new ArrayBuffer(96))
  const how = [ORDERS.indexOf(order), CHECKS.indexOf(checks), TENSOR_CORES.indexOf(tensorCores)]
  const words = [...grid, ...block, ...cluster, ...preferredCluster, sharedMemBytes, ...how, Number(trace), Number(cooperative)]
  words.forEach((word, i) => view.setUint32(4 * i, word, true))
  const wide = [seed, instructionBudget, warpInstructionBudget]
  wide.forEach((word, i) => view.setBigUint64(72 + 8 * i, BigInt(word), true))
  return new Uint8Array(view.buffer)
} // prettier-ignore

/** Ends with a 0, as C has it. */
const textBytes = (text: string): Uint8Array => new TextEncoder().encode(`${text}\0`)

/** All that the module asks of its host. */
function importsOf(memory: () => Exports['memory']): object {
  return {
    env: { emscripten_notify_memory_growth: () => {} },
    wasi_snapshot_preview1: {
      /** Nanoseconds, of whatever clock. */
      clock_time_get(_clock: number, _precision: bigint, at: number): number {
        new DataView(memory().buffer).setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true)
        return 0
      },
      proc_exit(status: number): never {
        throw new Error(`the virtual device ended with status ${status}`)
      },
    },
  }
}
