/** A virtual device in a process of its own, behind the interface of the addon's. */
import { once } from 'node:events'
import path from 'node:path'
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads'
import type { KtlError } from '../../grammar/diagnostics.ts'
import { ktlError } from '../errors/fail.ts'
import { packageRoot } from '../files/package_root.ts'
import {
  DEVICE,
  type Answer,
  type Call,
  type Close,
  type End,
  type Limits,
  type LoadedModule,
  type Notice,
  type RelayData,
} from './isolated_messages.ts'
import { addonPath } from './load.ts'
import type { NativeDeviceOptions, NativeLaunch, NativeLaunchResult, NativeModule, VirtualMachine } from './virtual.ts'

interface Pending {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  /** Of a launch: what it reports to. */
  readonly callbacks: Readonly<Record<string, (...given: never[]) => void>>
}

type Report = Extract<Answer, { readonly callback: string }>

/** The relay ends a process that takes too long; that must arrive. */
const GRACE_MS = 10_000

export class IsolatedMachine implements VirtualMachine {
  /** The process answers. */
  readonly opened: Promise<void>
  readonly #name: string
  readonly #limits: Limits
  /** [0] counts what the relay has said. */
  readonly #answers = new Int32Array(new SharedArrayBuffer(4))
  readonly #worker: Worker
  readonly #port: MessagePort
  readonly #pending = new Map<number, Pending>()
  readonly #modules = new FinalizationRegistry((module: number) => this.#send({ dropped: module }))
  readonly #kill = (): void => {
    if (this.#pid !== null) process.kill(this.#pid, 'SIGKILL')
    this.#pid = null
  }
  #lastId = 0
  #pid: number | null = null
  #ended: KtlError | null = null

  /** KTL6004 without the addon. Whatever else goes wrong rejects `opened` and later calls, as KTL6014. */
  constructor(name: string, device: NativeDeviceOptions, limits: Limits) {
    this.#name = name
    this.#limits = limits
    const { port1, port2: port } = new MessageChannel()
    const file = (part: string): string => path.join(packageRoot(), `dist/isolated_${part}.js`)
    const workerData: RelayData = {
      port,
      server: file('server'),
      addon: addonPath(),
      device,
      limits,
      answers: this.#answers,
    }
    // What this process was started with, loaders and all, is nothing to the relay.
    this.#worker = new Worker(file('relay'), { workerData, transferList: [port], execArgv: [] })
    this.#worker.on('error', ({ message }) => this.#end({ how: message, output: '', help: 'open another device' }))
    this.#port = port1.on('message', (answer: Answer) => this.#take(answer))
    this.#port.unref()
    this.#worker.unref()
    process.on('exit', this.#kill)
    this.opened = this.#call(DEVICE, 'open', []) as Promise<void>
    // Who does not wait for it finds the error in the first call.
    this.opened.catch(() => {})
  }

  malloc(bytes: number, at: bigint, align: number): bigint {
    return this.#callNow(DEVICE, 'malloc', [bytes, at, align]) as bigint
  }

  /** What a process that has ended had is free. */
  free(address: bigint): void {
    if (!this.#ended) this.#callNow(DEVICE, 'free', [address])
  }

  write(address: bigint, data: Uint8Array): void {
    this.#callNow(DEVICE, 'write', [address, data])
  }

  read(address: bigint, bytes: number): Promise<Uint8Array> {
    return this.#call(DEVICE, 'read', [address, bytes]) as Promise<Uint8Array>
  }

  memoryInfo(): { allocatedBytes: number; allocations: number; capacityBytes: number } {
    return this.#callNow(DEVICE, 'memoryInfo', []) as {
      allocatedBytes: number
      allocations: number
      capacityBytes: number
    }
  }

  async loadModule(ptx: string): Promise<NativeModule> {
    const loaded = (await this.#call(DEVICE, 'loadModule', [ptx])) as LoadedModule
    const of = loaded.module
    const module: NativeModule = {
      functions: loaded.functions,
      target: loaded.target,
      global: (name) => this.#callNow(of, 'global', [name]) as ReturnType<NativeModule['global']>,
      launch: (name, launch) => this.#launch(of, name, launch),
    }
    this.#modules.register(module, of)
    return module
  }

  async close(): Promise<void> {
    this.#worker.ref()
    this.#send({ close: true })
    // The relay goes when its process is gone and buried.
    if (this.#worker.threadId !== -1) await once(this.#worker, 'exit')
    process.off('exit', this.#kill)
    this.#port.close()
  }

  #launch(of: number, name: string, { cancel, ...launch }: NativeLaunch): Promise<NativeLaunchResult> {
    const given = Object.entries(launch)
    const callbacks: Record<string, (...given: never[]) => void> = {}
    for (const [key, value] of given) if (typeof value === 'function') callbacks[key] = value
    const data = Object.fromEntries(given.filter(([, value]) => typeof value !== 'function'))
    const call = { of, method: 'launch', args: [name, data, Object.keys(callbacks)], ...(cancel && { cancel }) }
    return new Promise((resolve, reject) =>
      this.#post(call, { resolve: resolve as Pending['resolve'], reject, callbacks }),
    )
  }

  #call(of: number, method: string, args: readonly unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => this.#post({ of, method, args }, { resolve, reject, callbacks: {} }))
  }

  /** Waits, without turning the event loop. */
  #callNow(of: number, method: string, args: readonly unknown[]): unknown {
    let outcome: { readonly value: unknown } | { readonly error: unknown } | undefined
    const resolve = (value: unknown): void => void (outcome = { value })
    const reject = (error: unknown): void => void (outcome = { error })
    this.#post({ of, method, args }, { resolve, reject, callbacks: {} })
    while (outcome === undefined) {
      const heard = Atomics.load(this.#answers, 0)
      for (let said; (said = receiveMessageOnPort(this.#port));) this.#take(said.message as Answer)
      if (outcome !== undefined) break
      if (Atomics.wait(this.#answers, 0, heard, this.#limits.timeoutMs + GRACE_MS) === 'timed-out')
        this.#end({ how: 'it does not answer', output: '', help: 'open another device' })
    }
    if ('error' in outcome) throw outcome.error
    return outcome.value
  }

  #post(call: Omit<Call, 'id'>, pending: Pending): void {
    if (this.#ended) return pending.reject(this.#ended)
    const id = ++this.#lastId
    this.#pending.set(id, pending)
    // Whoever waits for a launch keeps this process alive.
    this.#port.ref()
    this.#send({ id, ...call })
  }

  #send(message: Call | Notice | Close): void {
    this.#port.postMessage(message)
  }

  #take(answer: Answer): void {
    if (answer.id === null) return void (this.#pid = answer.pid)
    if ('ended' in answer) return this.#end(answer.ended)
    const pending = this.#pending.get(answer.id)
    if (!pending) return
    if ('callback' in answer) return this.#report(answer.id, pending, answer)
    this.#settled(answer.id)
    if ('error' in answer) pending.reject(Object.assign(new Error(answer.error.message), answer.error))
    else pending.resolve(answer.value)
  }

  /** What a callback throws stops the launch, which rejects with it once it has stopped: what follows finds it ended. */
  #report(id: number, { callbacks, reject }: Pending, { callback, given }: Report): void {
    try {
      callbacks[callback]?.(...(given as never[]))
    } catch (error) {
      const stopped = (): void => reject(error)
      this.#pending.set(id, { resolve: stopped, reject: stopped, callbacks: {} })
      this.#send({ cancelled: id })
    }
  }

  #settled(id: number): void {
    this.#pending.delete(id)
    if (this.#pending.size === 0) this.#port.unref()
  }

  #end(end: End): void {
    this.#ended ??= ktlError('KTL6014', { device: this.#name, ...end })
    for (const [id, { reject }] of [...this.#pending]) {
      this.#settled(id)
      reject(this.#ended)
    }
  }
}
