/** What the parts of an isolated device say to each other: its user's thread, the relay (a worker thread), the server (a process). */
import type { MessagePort } from 'node:worker_threads'
import type { NativeDeviceOptions, NativeFunction } from './virtual.ts'

/** The device itself, among the numbers of its modules. */
export const DEVICE = 0

/** A call of a method of the device or of a module. */
export interface Call {
  readonly id: number
  /** DEVICE, or the number of a module. */
  readonly of: number
  readonly method: string
  readonly args: readonly unknown[]
  /** Int32Array over a SharedArrayBuffer: a non-zero [0] cancels the launch. It stays with the relay. */
  readonly cancel?: Int32Array
}

/** What goes to the server beside calls; `close` ends it, and the relay with it. */
export type Notice = { readonly cancelled: number } | { readonly dropped: number }
export interface Close {
  readonly close: true
}

export interface ThrownError {
  readonly message: string
  readonly code?: string
  readonly line?: number
}

/** How the process ended; `help` is what to change. */
export interface End {
  readonly how: string
  readonly help: string
  readonly output: string
}

/** What comes back; `ended` answers every call from the end of the process on. */
export type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: ThrownError }
  | { readonly id: number; readonly callback: string; readonly given: readonly unknown[] }
  | { readonly id: number; readonly ended: End }
  | { readonly id: null; readonly pid: number | null }

export interface LoadedModule {
  readonly module: number
  readonly functions: readonly NativeFunction[]
  readonly target: string
}

/** Of the process. */
export interface Limits {
  readonly memoryBytes: number
  readonly timeoutMs: number
}

export interface RelayData {
  readonly port: MessagePort
  readonly server: string
  readonly addon: string
  readonly device: NativeDeviceOptions
  readonly limits: Limits
  /** [0] counts answers: what the other side waits on. */
  readonly answers: Int32Array
}
