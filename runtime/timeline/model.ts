/** What a timeline shows: rows of one CTA, read from a Chrome trace that ktl has written. Browser-safe. */
import { FIRST_UNIT, parseTrace, type ChromeEvent, type TraceSlice } from './chrome.ts'

/** What a slice is, for its colour; `run`: instructions of which no more is known. */
export const KINDS = {
  load: 'loads',
  multiply: 'multiplies',
  epilogue: 'epilogue',
  store: 'stores',
  run: 'runs',
  wait: 'waits',
} as const
export type Kind = keyof typeof KINDS

export interface Slice {
  readonly name: string
  readonly kind: Kind
  readonly start: number
  readonly end: number
  /** Of its ring, where it has one. */
  readonly ring: string | null
  readonly slot: number | null
  readonly phase: number | null
  /** Slices around it. */
  readonly depth: number
}

export interface Row {
  /** Role and warp, or unit. */
  readonly name: string
  readonly isUnit: boolean
  readonly slices: readonly Slice[]
}

export interface Timeline {
  readonly title: string
  readonly cta: number
  /** What times are. */
  readonly time: string
  readonly end: number
  readonly rows: readonly Row[]
  /** Those that occur, in the order of the legend. */
  readonly kinds: readonly Kind[]
}

/** Rows of units by their place in a trace (native/src/virtual/trace.h), and what they do. */
const UNITS: readonly (readonly [name: string, kind: Kind])[] = [
  ['TMA loads', 'load'],
  ['cp.async', 'load'],
  ['tensor core', 'multiply'],
  ['TMA stores', 'store'],
  ['tcgen05.st', 'epilogue'],
]

const isSlice = (event: ChromeEvent): event is TraceSlice => event.ph === 'X'

/** One CTA of the trace. `text`: as `ktl run --trace` writes it. */
export function timelineOf(text: string, title: string, cta = 0): Timeline {
  const { traceEvents, otherData } = parseTrace(text)
  const own = traceEvents.filter(({ pid }) => pid === cta)
  const slices = own.filter(isSlice)
  const names = new Map(own.flatMap((e) => (e.ph === 'M' && e.name === 'thread_name' ? [[e.tid, e.args.name!]] : [])))
  const rows = [...new Set(slices.map(({ tid }) => tid))]
    .sort((a, b) => a - b)
    .map((tid): Row => {
      const unit = UNITS[tid - FIRST_UNIT]
      const isUnit = tid >= FIRST_UNIT
      const found = slices.filter((slice) => slice.tid === tid)
      return { name: unit?.[0] ?? names.get(tid) ?? `warp ${tid}`, isUnit, slices: slicesOf(found, unit?.[1] ?? 'run') }
    })
  const used = new Set(rows.flatMap((row) => row.slices.map(({ kind }) => kind)))
  return {
    title,
    cta,
    time: otherData?.time ?? 'cycles',
    end: rows.reduce((end, row) => row.slices.reduce((last, slice) => Math.max(last, slice.end), end), 1),
    rows,
    kinds: (Object.keys(KINDS) as Kind[]).filter((kind) => used.has(kind)),
  }
}

/** To be drawn below one another: cycles are as long in all. */
export function onOneScale(timelines: readonly Timeline[]): Timeline[] {
  const end = Math.max(...timelines.map((timeline) => timeline.end))
  return timelines.map((timeline) => ({ ...timeline, end }))
}

/** In order, those around others first. */
function slicesOf(found: readonly TraceSlice[], other: Kind): Slice[] {
  const around: number[] = []
  return [...found]
    .sort((a, b) => a.ts - b.ts || b.dur - a.dur)
    .map(({ name, ts, dur, args = {} }): Slice => {
      while (around.length > 0 && around.at(-1)! <= ts) around.pop()
      const depth = args.kind === undefined ? 0 : around.length
      around.push(ts + dur)
      const { ring = null, slot = null, phase = null } = args
      const kind =
        args.kind !== undefined && args.kind in KINDS ? (args.kind as Kind) : name === 'wait' ? 'wait' : other
      return { name, kind, start: ts, end: ts + dur, ring, slot, phase, depth }
    })
}

/** `load A, stage 3, phase 1: 812 to 1512 (700)` */
export function describeSlice({ name, ring, slot, phase, start, end }: Slice): string {
  const place = ring === null ? '' : `, ${ring} ${slot}, phase ${phase}`
  return `${name}${place}: ${start} to ${end} (${end - start})`
}

/** About `count` round times from 0 on. */
export function ticksOf(end: number, count: number): number[] {
  const rough = end / count
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)))
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step)
}
