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

/** As many stages as fit, or as many as the design says. Rejection: KTL4510. */
export function chooseStages(
  wanted: number | 'auto',
  least: number,
  most: number,
  limit: number,
  bytesFor: (stages: number) => number,
): { readonly stages: number; readonly smemBytes: number } | Rejection {
  let stages = wanted === 'auto' ? most : wanted
  if (wanted === 'auto') while (stages > least && bytesFor(stages) > limit) stages--
  const smemBytes = bytesFor(stages)
  return smemBytes > limit ? rejection('KTL4510', { stages, need: smemBytes, limit }) : { stages, smemBytes }
}
