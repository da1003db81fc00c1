/** Stamps of a traced build (codegen/pipe/trace.ts has their form) as slices of its warps. */
import type { TraceLayout } from '../../codegen/index.ts'
import type { TraceSlice } from './chrome.ts'

export interface StampedCta {
  readonly cta: number
  /** Cycles of its SM, and nanoseconds of the GPU, at its first stamp. */
  readonly clock: number
  readonly nanoseconds: bigint
  /** In cycles of the SM since the first stamp. */
  readonly slices: readonly TraceSlice[]
  /** By warp; those that stamped anything beside their start. */
  readonly roles: ReadonlyMap<number, string>
  /** Streams ran out of places. */
  readonly cut: boolean
}

const ENDS = 0x8000n

export function readStamps(words: BigUint64Array, layout: TraceLayout): StampedCta[] {
  const each = layout.stamps * 2
  const streamOf = (cta: number, stream: number): BigUint64Array => {
    const start = (cta * layout.streams + stream) * each
    return words.subarray(start, start + each)
  }
  const ctas = Array.from({ length: layout.ctas }, (_, cta) => {
    const streams = Array.from({ length: layout.streams }, (_, i) => streamOf(cta, i))
    const started = streams.filter((stream, i) => i % 2 === 0 && stream[0] !== 0n)
    if (started.length === 0) return null
    const first = started.reduce((least, stream) => (stream[0]! < least[0]! ? stream : least))
    const roles = new Map<number, string>()
    const slices = streams.flatMap((stream, i) => slicesOf(stream, i, first[0]!, cta, layout, roles))
    const cut = streams.some((stream) => stream[each - 2] !== 0n)
    return { cta, clock: Number(first[0]!), nanoseconds: first[1]!, slices, roles, cut }
  })
  return ctas.filter((cta) => cta !== null)
}

/** Starts and ends nest. */
function slicesOf(
  stream: BigUint64Array,
  index: number,
  base: bigint,
  cta: number,
  { events }: TraceLayout,
  roles: Map<number, string>,
): TraceSlice[] {
  const slices: TraceSlice[] = []
  const open: { readonly word: bigint; readonly time: bigint }[] = []
  const tid = index >> 1
  for (let at = index % 2 === 0 ? 2 : 0; at < stream.length && stream[at] !== 0n; at += 2) {
    const [time, word] = [stream[at]!, stream[at + 1]!]
    if ((word & ENDS) === 0n) {
      open.push({ word, time })
      continue
    }
    const begun = open.pop()
    const event = events[Number(word & 0x7fffn)]
    if (!begun || !event) continue
    const { name, kind, role, ring } = event
    roles.set(tid, role)
    const place = ring === null ? {} : { ring, slot: Number((begun.word >> 16n) & 0xffffn), phase: Number((begun.word >> 32n) & 1n) } // prettier-ignore
    const ts = Number(begun.time - base)
    slices.push({ name, ph: 'X', pid: cta, tid, ts, dur: Number(time - begun.time), args: { kind, role, ...place } })
  }
  return slices
}
