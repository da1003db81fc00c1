/** Chrome trace events (https://ui.perfetto.dev reads them): what ktl writes of a run, and reads to draw it. Times are cycles. */

export interface TraceSlice {
  readonly name: string
  readonly ph: 'X'
  /** CTA. */
  readonly pid: number
  /** Warp, or a unit from 1000 on. */
  readonly tid: number
  readonly ts: number
  readonly dur: number
  readonly args?: SliceArgs
}

export interface SliceArgs {
  readonly kind?: string
  readonly role?: string
  /** Ring whose slot and phase these are. */
  readonly ring?: string
  readonly slot?: number
  readonly phase?: number
}

interface TraceName {
  readonly name: 'thread_name' | 'process_name' | 'process_sort_index'
  readonly ph: 'M'
  readonly pid: number
  readonly tid: number
  readonly args: { readonly name?: string; readonly sort_index?: number }
}

interface TraceInstant {
  readonly name: string
  readonly ph: 'i'
  readonly pid: number
  readonly tid: number
  readonly ts: number
  readonly s: 't'
}

export type ChromeEvent = TraceSlice | TraceName | TraceInstant

export interface ChromeTrace {
  readonly traceEvents: readonly ChromeEvent[]
  /** What a unit of time is. */
  readonly otherData?: { readonly time?: string }
}

/** Of virtual devices (timing.h) and of traced builds on a GPU. */
export const MODELLED = 'modelled cycles of the virtual device'
export const MEASURED = 'cycles of the SM, counted by %clock64'

export const parseTrace = (text: string): ChromeTrace => JSON.parse(text) as ChromeTrace

/** An event a line. */
export function printTrace({ traceEvents, otherData }: ChromeTrace): string {
  const lines = traceEvents.map((event) => JSON.stringify(event)).join(',\n')
  return `{"traceEvents":[\n${lines}\n]${otherData ? `,"otherData":${JSON.stringify(otherData)}` : ''}}\n`
}

/** Row of an asynchronous unit of the virtual device's trace (native/src/virtual/trace.h). */
export const FIRST_UNIT = 1000
