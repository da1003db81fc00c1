/** The process of an isolated device: calls come in, answers go out. It holds the addon, and all memory of the device. */
import { createRequire } from 'node:module'
import { DEVICE, type Answer, type Call, type LoadedModule, type Notice } from './isolated_messages.ts'
import type { NativeAddon, NativeDeviceOptions, NativeLaunch, NativeModule, NativeVirtualDevice } from './virtual.ts'

const [addonPath = '', options = '{}'] = process.argv.slice(2)
const { VirtualDevice } = createRequire(import.meta.url)(addonPath) as NativeAddon
const device = new VirtualDevice(JSON.parse(options) as NativeDeviceOptions)
const modules = new Map<number, NativeModule>()
const launches = new Map<number, Int32Array>()
let lastModule = DEVICE

const send = (answer: Answer): void => void process.send!(answer)

type Methods<T> = Readonly<Partial<Record<keyof T, (call: Call) => unknown>>> &
  Readonly<Record<string, (call: Call) => unknown>>

const OF_DEVICE: Methods<NativeVirtualDevice & { open(): void }> = {
  open: () => undefined,
  malloc: ({ args }) => device.malloc(...(args as [number, bigint, number])),
  free: ({ args }) => device.free(...(args as [bigint])),
  write: ({ args }) => device.write(...(args as [bigint, Uint8Array])),
  read: ({ args }) => device.read(...(args as [bigint, number])),
  memoryInfo: () => device.memoryInfo(),
  loadModule: ({ args }): LoadedModule => {
    const loaded = device.loadModule(...(args as [string]))
    modules.set(++lastModule, loaded)
    return { module: lastModule, functions: loaded.functions, target: loaded.target }
  },
}

const OF_MODULE: Methods<NativeModule> = {
  global: ({ of, args }) => modules.get(of)!.global(...(args as [string])),
  launch: async ({ id, of, args }) => {
    const [name, launch, callbacks] = args as [string, NativeLaunch, readonly string[]]
    const cancel = new Int32Array(new SharedArrayBuffer(4))
    launches.set(id, cancel)
    const forward = (callback: string) => [callback, (...given: unknown[]) => send({ id, callback, given })]
    try {
      return await modules.get(of)!.launch(name, { ...launch, ...Object.fromEntries(callbacks.map(forward)), cancel })
    } finally {
      launches.delete(id)
    }
  },
}

async function answer(call: Call): Promise<void> {
  try {
    const value = await (call.of === DEVICE ? OF_DEVICE : OF_MODULE)[call.method]!(call)
    send({ id: call.id, value })
  } catch (error) {
    const { message, code, line } = error as Error & { code?: unknown; line?: unknown }
    // Whatever is no finding of the addon ends the process, which is its answer: memory that V8 cannot have, too.
    if (typeof code !== 'string' || !code.startsWith('KTL')) throw error
    send({ id: call.id, error: { message, code, ...(typeof line === 'number' && { line }) } })
  }
}

process.on('disconnect', () => process.exit())
process.on('message', (message: Call | Notice) => {
  if ('cancelled' in message) Atomics.store(launches.get(message.cancelled) ?? new Int32Array(1), 0, 1)
  else if ('dropped' in message) modules.delete(message.dropped)
  else void answer(message)
})
