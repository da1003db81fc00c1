/**
 * Shared memory of a CTA. A design lays out its regions in one function, one after another, for given numbers of stages and slots:
 * planning asks of the map how many bytes that takes, and lowering where everything lies.
 */
import type { Rejection } from '../../instance.ts'
import type { Barrier, Copies, SmemBuffer } from '../../ir/pipe.ts'
import { rejection } from '../../rejection.ts'
import type { OperandPlan } from './operands.ts'
import { ALIGNMENT_SLACK } from './plan.ts'

const BARRIER_BYTES = 8

/** What a barrier is for; like texts, worked out for programs only: planning compares the sizes of many layouts. */
export type Signal = Pick<Barrier, 'arrivals' | 'meaning'> & Partial<Pick<Barrier, 'scope'>>

/** Sizes suffice to plan. */
export type Wanted = 'regions' | 'sizes'

export class MemoryMap {
  #end = 0
  readonly buffers: SmemBuffer[] = []
  readonly barriers: Barrier[] = []
  readonly #sizesOnly: boolean

  constructor(wanted: Wanted) {
    this.#sizesOnly = wanted === 'sizes'
  }

  /** `slots` of `ring` (null: addressed as a whole), of which there may be copies. */
  buffer(
    name: string,
    ring: string | null,
    slots: number,
    slotBytes: number,
    align: number,
    holds: () => string,
    per?: Copies,
  ): void {
    const offset = this.#place(slots * slotBytes * (per?.count ?? 1))
    if (this.#sizesOnly) return
    this.buffers.push({ name, ring, slots, slotBytes, ...(per && { per }), offset, align, holds: holds() })
  }

  /** Buffers of one ring whose slots lie side by side: the first of each, the second of each … */
  sideBySide(ring: string, slots: number, align: number, parts: readonly { readonly name: string; readonly slotBytes: number; readonly holds: () => string }[]): void {
    const pitch = parts.reduce((bytes, { slotBytes }) => bytes + slotBytes, 0)
    let offset = this.#place(slots * pitch)
    if (this.#sizesOnly) return
    for (const { name, slotBytes, holds } of parts) {
      this.buffers.push({ name, ring, slots, slotBytes, pitch, offset, align, holds: holds() })
      offset += slotBytes
    }
  } // prettier-ignore

  /** A buffer at the start, over `over` and what follows it, which are empty while it is in use. */
  overlay(
    name: string,
    ring: string,
    slots: number,
    slotBytes: number,
    align: number,
    holds: () => string,
    per: Copies,
    over: string,
  ): void {
    this.#end = Math.max(this.#end, slots * slotBytes * per.count)
    if (this.#sizesOnly) return
    this.buffers.push({ name, ring, slots, slotBytes, per, offset: 0, align, holds: holds(), over })
  }

  /** One mbarrier for each slot of `ring`. */
  barrier(name: string, ring: string, slots: number, signal: () => Signal, per?: Copies): void {
    const offset = this.#place(BARRIER_BYTES * slots * (per?.count ?? 1))
    if (this.#sizesOnly) return
    const { arrivals, scope = 'cta', meaning } = signal()
    this.barriers.push({ name, ring, arrivals, ...(per && { per }), scope, offset, meaning })
  }

  /** Offset of four bytes. */
  word(): number {
    return this.#place(4)
  }

  /** Bytes to launch with: the map begins at the first address where swizzle patterns may. */
  get bytes(): number {
    return ALIGNMENT_SLACK + this.#end
  }

  #place(bytes: number): number {
    const offset = this.#end
    this.#end += bytes
    return offset
  }
}

/** What a buffer of tiles of A or B holds. */
export function tileText(
  { operand, major, rows, descriptor, shifted, dealt }: OperandPlan,
  free: 'M' | 'N',
  depth: number,
): string {
  const how = shifted
    ? 'rows shifted as in memory'
    : dealt
      ? `rows of lanes by ${dealt}`
      : `${descriptor.swizzle} swizzle`
  return `${operand.dtype} ${rows} x ${depth} tile, ${major === 'k' ? 'K' : free}-major, ${how}`
}

/** The greatest number up to `most` that fits, where what is less fits as well; `least` where nothing above it does. */
export function greatest(least: number, most: number, fits: (count: number) => boolean): number {
  let [low, high] = [least, most]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fits(middle)) low = middle
    else high = middle - 1
  }
  return low
}

/** As many stages as fit, or as many as the design says. Rejection: KTL4510. */
export function chooseStages(
  wanted: number | 'auto',
  least: number,
  most: number,
  limit: number,
  bytesFor: (stages: number) => number,
): { readonly stages: number; readonly smemBytes: number } | Rejection {
  const stages = wanted === 'auto' ? greatest(least, most, (some) => bytesFor(some) <= limit) : wanted
  const smemBytes = bytesFor(stages)
  return smemBytes > limit ? rejection('KTL4510', { stages, need: smemBytes, limit }) : { stages, smemBytes }
}
