/** Who runs a program: the first lane of each warp, which does what one thread does, and the other lanes as one. */
import type { Role, TileOp } from '../ir/pipe.ts'
import type { BarrierState } from './barriers.ts'
import type { Clock, ClockSpace, Track } from './clocks.ts'

/** Where in a ring an agent is. */
export interface RingPlace {
  /** Slots that it has left behind, from the first one on. */
  turns: number
  slot: number
  /** Times that it has gone round; waits see the last bit. */
  phase: number
}

/** Accumulators in the registers of a warp. */
export interface Cells {
  tile: number
  /** Steps of MMAs so far, of k tiles or of a k tile's parts. */
  steps: number
}

/** A part of a k tile that MMAs sum by themselves, or those of several products that an MMA sums together. */
export interface PartSum {
  readonly k: number
  /** The next one to be added, and the last one. */
  index: number
  readonly last: number
  /** Number of its MMAs. */
  readonly issued: number
}

export class Agent {
  /** Among all agents. */
  readonly id: number
  readonly cta: number
  readonly warp: number
  /** 1: the first lane; else the others. */
  readonly threads: number
  readonly clock: Clock
  /** What operations on tensor memory have seen: the clock at the last fence after a synchronisation. */
  tensorView: Clock
  role: Role | null = null
  warpgroup: number
  rings = new Map<string, RingPlace>()
  /** Work item, k tile, block of rows, sub-tile. */
  tile = 0
  k = 0
  block = 0
  column = 0
  /** A block of columns that is several sub-tiles, and of which ones of them outputs have been measured. */
  wide: { readonly columns: number; readonly subtiles: readonly number[] } | null = null
  readonly measured = new Map<string, number[]>()
  /** The next work item, once it was read; null: there is none. */
  next: number | null | undefined
  answers = 0
  requests = 0
  cells: Cells | null = null
  /** The part that is summed by itself, and how many of a k tile are in the cells. */
  part: PartSum | null = null
  added = 0
  /** The chunk of k that warps' MMAs sum by themselves, and the steps that it has. */
  chunk: { steps: number } | null = null
  /** Fragments of k tiles by set: which step of which tile. */
  readonly fragments: (number | null)[] = [null, null]
  /** Groups of stores and of copies that are closed, and what the open ones hold. */
  bulkGroups = 0
  openStores = 0
  copyGroups = 0
  openCopies = 0
  /** MMAs. */
  issued = 0
  /** Values taken to registers. */
  reads = 0
  /** Slots of stages that it has noted, by part. */
  readonly held: number[] = []
  /** Its cluster runs. */
  started = false
  /** Dimension of its MMAs: a warpgroup has one. */
  mma = 0
  path: number[] = []
  /** Arrivals on a barrier so far, by operation: each makes one for a phase. */
  readonly arrivals = new Map<BarrierState, Partial<Record<TileOp['op'], number>>>()
  readonly #space: ClockSpace
  readonly #dimensions = new Map<Track, number>()

  constructor(id: number, cta: number, warp: number, threads: number, space: ClockSpace) {
    this.id = id
    this.cta = cta
    this.warp = warp
    this.warpgroup = Math.floor(warp / 4)
    this.threads = threads
    this.#space = space
    this.clock = space.clock()
    this.tensorView = space.clock()
  }

  get first(): boolean {
    return this.threads === 1
  }

  dimension(track: Track): number {
    let dimension = this.#dimensions.get(track)
    if (dimension === undefined) this.#dimensions.set(track, (dimension = this.#space.dimension(track, this.cta)))
    return dimension
  }

  get own(): number {
    return this.dimension('events')
  }

  /** A new access of its own. */
  event(): number {
    return ++this.clock[this.own]!
  }

  /** All accesses up to here lie before a fence. */
  fence(track: 'tensor' | 'inits'): void {
    this.clock[this.dimension(track)] = this.clock[this.own]!
  }

  ring(name: string): RingPlace {
    return this.rings.get(name)!
  }

  /** Role and path of what it does. */
  at(op: TileOp | null): string {
    return `${this.role?.name ?? 'setup or teardown'} ${this.path.join('.')}${op ? ` ${op.op}` : ''}`
  }
}
