/** The addon and the virtual device as WebAssembly as one: every call goes to both, what they answer is the same, and so is memory after every launch. */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect } from 'vitest'
import { engine, wasmDevices } from '../../playground/device/wasm.ts'
import type {
  NativeAddon,
  NativeDeviceOptions,
  NativeLaunch,
  NativeLaunchResult,
  NativeModule,
  NativeVirtualDevice,
} from '../../runtime/addon/virtual.ts'

const FILE = path.join(import.meta.dirname, '../../native/build/wasm/device.wasm')
/** By `make -C native/wasm`. */
export const isBuilt = existsSync(FILE)
/** Of all devices of this process. */
export const compared = { bytes: 0, launches: 0 }

type Outcome<A> = { readonly value: A } | { readonly error: unknown }

function outcomeOf<A>(call: () => A): Outcome<A> {
  try {
    return { value: call() }
  } catch (error) {
    return { error }
  }
}

/** What the native device says, and the other one must say as well. */
function both<A>(native: () => A, wasm: () => A, compare: (one: A, other: A) => void): A {
  const [one, other] = [outcomeOf(native), outcomeOf(wasm)]
  if ('error' in one || 'error' in other) {
    expect(faultOf(other)).toEqual(faultOf(one))
    throw (one as { error: unknown }).error
  }
  compare(one.value, other.value)
  return one.value
}

function faultOf(outcome: Outcome<unknown>): unknown {
  if (!('error' in outcome)) return 'no error'
  const { code, line, message } = outcome.error as { code?: string; line?: number; message: string }
  return { code, line, message }
}

const equal = (one: unknown, other: unknown): void => expect(other).toEqual(one)
const sameBytes = (one: Uint8Array, other: Uint8Array): void => {
  compared.bytes += one.length
  const at = one.findIndex((byte, i) => byte !== other[i])
  expect(at, `byte ${at} of ${one.length}: ${one[at]} natively, ${other[at]} as WebAssembly`).toBe(-1)
}

/** `native` with devices that are both. */
export function withBoth(native: NativeAddon): NativeAddon {
  const makers = [native.VirtualDevice, wasmDevices(new engine.Module(readFileSync(FILE)))] as const
  class VirtualDevice extends Both {
    constructor(options: NativeDeviceOptions) {
      const given = { ...options, memoryBytes: Math.min(options.memoryBytes, 2 ** 30) }
      super(new makers[0](given), new makers[1](given))
    }
  }
  return { ...native, VirtualDevice }
}

class Both implements NativeVirtualDevice {
  readonly #native: NativeVirtualDevice
  readonly #wasm: NativeVirtualDevice
  readonly #live = new Map<bigint, number>()

  constructor(native: NativeVirtualDevice, wasm: NativeVirtualDevice) {
    this.#native = native
    this.#wasm = wasm
  }

  malloc(...given: Parameters<NativeVirtualDevice['malloc']>): bigint {
    const address = both(() => this.#native.malloc(...given), () => this.#wasm.malloc(...given), equal) // prettier-ignore
    this.#live.set(address, given[0])
    return address
  }

  free(address: bigint): void {
    both(() => this.#native.free(address), () => this.#wasm.free(address), equal) // prettier-ignore
    this.#live.delete(address)
  }

  write(address: bigint, data: Uint8Array): void {
    both(() => this.#native.write(address, data), () => this.#wasm.write(address, data), equal) // prettier-ignore
  }

  read(address: bigint, bytes: number): Uint8Array {
    return both(() => this.#native.read(address, bytes), () => this.#wasm.read(address, bytes), sameBytes) // prettier-ignore
  }

  memoryInfo(): ReturnType<NativeVirtualDevice['memoryInfo']> {
    return both(() => this.#native.memoryInfo(), () => this.#wasm.memoryInfo(), equal) // prettier-ignore
  }

  loadModule(ptx: string): NativeModule {
    let other: NativeModule
    const native = both(() => this.#native.loadModule(ptx), () => (other = this.#wasm.loadModule(ptx)), ({ functions, target }) => equal({ functions, target }, { functions: other.functions, target: other.target })) // prettier-ignore
    return {
      functions: native.functions,
      target: native.target,
      global: (name) =>
        both(
          () => native.global(name),
          () => other.global(name),
          equal,
        ),
      launch: (name, launch) => this.#launch([native, other], name, launch),
    }
  }

  /** One thread each: a launch that a fault ends early has run more or less of its other CTAs. */
  async #launch([native, wasm]: readonly [NativeModule, NativeModule], name: string, launch: NativeLaunch): Promise<NativeLaunchResult> {
    const printed = ['', '']
    const [one, other] = await Promise.allSettled([native, wasm].map((module, i) => module.launch(name, { ...launch, threads: 1, onPrint: (text) => void (printed[i] += text) })))
    if (one!.status === 'rejected' || other!.status === 'rejected') {
      expect(faultOf({ error: (other as PromiseRejectedResult).reason })).toEqual(faultOf({ error: (one as PromiseRejectedResult).reason }))
      throw (one as PromiseRejectedResult).reason
    }
    expect(apartFromTime(other!.value)).toEqual(apartFromTime(one!.value))
    expect(printed[1]).toBe(printed[0])
    if (printed[0] !== '') launch.onPrint?.(printed[0]!)
    compared.launches++
    for (const [address, bytes] of this.#live) this.read(address, bytes)
    return one!.value
  } // prettier-ignore
}

const apartFromTime = ({ stats, ...rest }: NativeLaunchResult) => ({ ...rest, stats: { ...stats, milliseconds: 0 } })
