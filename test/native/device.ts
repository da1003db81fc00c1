import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type {
  NativeAddon,
  NativeLaunch,
  NativeLaunchResult,
  NativeModule,
  NativeVirtualDevice,
} from '../../runtime/addon/virtual.ts'
import { deviceHeaders } from '../../runtime/toolchain/device_headers.ts'
import { withBoth } from './both.ts'

const native = createRequire(import.meta.url)('../../native/build/Release/ktl.node') as NativeAddon
/** `npm run test:full -- --wasm`: both devices, which must agree. */
const addon = process.env.KTL_WASM === 'full' ? withBoth(native) : native

/** Of generated text, as the runtime has them: with these it includes the few headers that it needs, and nvcc takes half of the time. */
export const GENERATED = ['-fmad=false', '-DKTL_DEVICE_ONLY'] as const

/** PTX of CUDA C++ source, with line information. */
export function compileToPtx(source: string, arch = 'sm_100a', flags: readonly string[] = []): string {
  const folder = mkdtempSync(join(tmpdir(), 'ktl-native-'))
  try {
    writeFileSync(join(folder, 'kernel.cu'), source)
    const files = ['-o', 'kernel.ptx', 'kernel.cu']
    // What ptxas says of correct PTX is not shown; an error's text is in the exception.
    const compile = () =>
      execFileSync('nvcc', [`-arch=${arch}`, '-ptx', '-lineinfo', ...flags, ...files], { cwd: folder, stdio: 'pipe' })
    const isGenerated = flags.includes(GENERATED[1])
    if (isGenerated) writeFileSync(join(folder, 'cuda_runtime.h'), deviceHeaders(source))
    try {
      compile()
    } catch (error) {
      if (!isGenerated) throw error
      // As the runtime does: what the few headers do not have, NVIDIA's may.
      rmSync(join(folder, 'cuda_runtime.h'))
      compile()
    }
    return readFileSync(join(folder, 'kernel.ptx'), 'utf8')
  } finally {
    rmSync(folder, { recursive: true })
  }
}

export type Parameter = bigint | number | { f32: number } | Uint8Array

/** A virtual device with one module; buffers live until the test file ends. */
export class TestDevice {
  readonly device: NativeVirtualDevice
  readonly module: NativeModule

  constructor(ptx: string, target: 'sm_100a' | 'sm_90a' = 'sm_100a') {
    this.device = new addon.VirtualDevice({ target, memoryBytes: 2 ** 28, smCount: 4 })
    this.module = this.device.loadModule(ptx)
  }

  upload(data: ArrayBufferView): bigint {
    const address = this.device.malloc(Math.max(data.byteLength, 1), 0n, 256)
    this.device.write(address, new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
    return address
  }

  allocate(bytes: number): bigint {
    return this.upload(new Uint8Array(bytes))
  }

  read<T>(address: bigint, count: number, type: { new (buffer: ArrayBuffer): T; BYTES_PER_ELEMENT: number }): T {
    return new type(Uint8Array.from(this.device.read(address, count * type.BYTES_PER_ELEMENT)).buffer)
  }

  /** Launches `name`; `params` in order, numbers as 32-bit integers. */
  run(name: string, params: readonly Parameter[], launch: Partial<NativeLaunch> = {}): Promise<NativeLaunchResult> {
    const declared = this.module.functions.find((f) => f.name === name)
    if (!declared) throw new Error(`no kernel ${name}`)
    const block = new Uint8Array(declared.paramBytes)
    const view = new DataView(block.buffer)
    params.forEach((value, i) => {
      const offset = declared.params[i]!.offset
      if (value instanceof Uint8Array) block.set(value, offset)
      else if (typeof value === 'bigint') view.setBigUint64(offset, value, true)
      else if (typeof value === 'number') view.setInt32(offset, value, true)
      else view.setFloat32(offset, value.f32, true)
    })
    return this.module.launch(name, {
      grid: [1, 1, 1],
      block: [32, 1, 1],
      cluster: [1, 1, 1],
      sharedMemBytes: 0,
      params: block,
      order: 'lazy',
      seed: 0,
      checks: 'default',
      instructionBudget: 20_000_000,
      threads: 2,
      trace: false,
      ...launch,
    })
  }
}

/** f32 bits of a number, and back. */
const word = new DataView(new ArrayBuffer(8))
export const f32Bits = (x: number): number => (word.setFloat32(0, x), word.getUint32(0))
export const f32Of = (bits: number): number => (word.setUint32(0, bits >>> 0), word.getFloat32(0))

/** The first places where two arrays differ, in words. */
export function differences<T extends number | bigint>(got: ArrayLike<T>, expected: ArrayLike<T>): string[] {
  const out: string[] = []
  for (let i = 0; i < expected.length && out.length < 4; ++i)
    if (!Object.is(got[i], expected[i])) out.push(`[${i}]: ${String(got[i])}, not ${String(expected[i])}`)
  return out
}
