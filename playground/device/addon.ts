/** In place of the native addon (runtime/addon/load.ts): the virtual device as WebAssembly. */
import type { NativeAddon } from '../../runtime/addon/virtual.ts'
import { engine, wasmDevices } from './wasm.ts'

let loaded: Pick<NativeAddon, 'VirtualDevice'> | null = null

/** Before a device is opened. */
export async function loadWasm(url: string): Promise<void> {
  if (loaded) return
  const response = await fetch(url)
  if (!response.ok) throw new Error(`${url} of this site does not load: ${response.status}`)
  // Not streamed: static hosts may not know its type.
  loaded = { VirtualDevice: wasmDevices(await engine.compile(await response.arrayBuffer())) }
}

export const loadAddon = (): NativeAddon => loaded as NativeAddon
export const probeAddon = () => ({ addon: loaded, path: null, tried: [] })
export const addonPath = (): string => 'device.wasm'
