/**
 * Records launches on the virtual device so that replay.cu can repeat them on a GPU and compare every byte of memory:
 * the PTX, the geometry, the parameter block, and all buffers before and after.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadAddon } from '../../runtime/addon/load.ts'
import type { NativeLaunch, NativeLaunchResult, NativeModule } from '../../runtime/addon/virtual.ts'

/** Bytes before each buffer that no other one has: maps of groups begin there, some rows before their tensor. replay.cu has the same. */
const BEFORE = 1 << 17

/** From now on each launch becomes a case in `folder`, named by `label()`. Cases are listed in `folder/cases.txt`. */
export function recordLaunches(folder: string, label: () => string): void {
  mkdirSync(folder, { recursive: true })
  const cases: string[] = []
  let files = 0
  const save = (data: Uint8Array | string): string => {
    const name = `${files++}.bin`
    writeFileSync(join(folder, name), data)
    return name
  }

  const addon = loadAddon()
  class RecordingDevice extends addon.VirtualDevice {
    readonly #buffers = new Map<bigint, number>()
    override malloc(bytes: number, at: bigint, align: number): bigint {
      const address = super.malloc(bytes + BEFORE, at, align) + BigInt(BEFORE)
      this.#buffers.set(address, bytes)
      return address
    }
    override free(address: bigint): void {
      this.#buffers.delete(address)
      super.free(address - BigInt(BEFORE))
    }
    override loadModule(ptx: string): NativeModule {
      const module = super.loadModule(ptx)
      const image = save(`${ptx}\0`)
      const launch = async (name: string, options: NativeLaunch): Promise<NativeLaunchResult> => {
        const buffers = [...this.#buffers].filter(([, bytes]) => bytes > 0)
        const before = buffers.map(([address, bytes]) => save(this.read(address, bytes)))
        const result = await module.launch(name, options)
        const { grid, block, cluster, sharedMemBytes, params } = options
        const offsets = module.functions.find((f) => f.name === name)!.params.map((p) => p.offset)
        cases.push([label().replace(/\s+/g, '_'), image, name, ...grid, ...block, ...cluster, sharedMemBytes, save(params), buffers.length, offsets.length, ...offsets].join(' ')) // prettier-ignore
        for (const [i, [address, bytes]] of buffers.entries())
          cases.push([address, bytes, before[i], save(this.read(address, bytes))].join(' '))
        writeFileSync(join(folder, 'cases.txt'), cases.join('\n') + '\n')
        return result
      }
      return { functions: module.functions, target: module.target, global: (name) => module.global(name), launch }
    }
  }
  Object.defineProperty(addon, 'VirtualDevice', { value: RecordingDevice })
}
