/**
 * What has happened before what, as vector clocks: for every agent and every barrier how much of it an observer has seen. An access
 * is safe behind another if the one who makes it has seen the other, whatever order agents run in.
 */

/**
 * `events`: accesses of an agent, which other CTAs see by acquiring at cluster scope only. `tensor`, `inits`: those of them that lie
 * before its last fence for tensor memory, for barrier inits. `mma`, `bulk`, `copies`: what it has begun that is done. `proxy`, `copied`:
 * events and copies with a fence for the async proxy behind them, by whoever has seen them. `reads`: values that are in registers since a barrier of threads,
 * as what overwrites their place has to know alone (PTX ISA 9.7.13.1). `phases`: of a barrier.
 */
export type Track = 'events' | 'proxy' | 'tensor' | 'inits' | 'mma' | 'bulk' | 'copies' | 'copied' | 'reads' | 'phases'

const GENERIC: readonly Track[] = ['events', 'proxy', 'tensor']

/** How far along each dimension. */
export type Clock = Int32Array

export class ClockSpace {
  readonly #capacity: number
  /** CTA of a dimension that needs cluster scope to be seen from another; -1: none does. */
  readonly #owner: Int16Array
  readonly #isInit: Uint8Array
  #used = 0

  /** `capacity`: of dimensions. */
  constructor(capacity: number) {
    this.#capacity = capacity
    this.#owner = new Int16Array(capacity).fill(-1)
    this.#isInit = new Uint8Array(capacity)
  }

  clock(): Clock {
    return new Int32Array(this.#capacity)
  }

  dimension(track: Track, cta: number): number {
    const dimension = this.#used++
    if (GENERIC.includes(track)) this.#owner[dimension] = cta
    if (track === 'inits') this.#isInit[dimension] = 1
    return dimension
  }

  /** `into` learns what `from` knows. `cta`: but for what other CTAs' generic accesses were. */
  join(into: Clock, from: Clock, cta: number | null = null): void {
    for (let d = 0; d < this.#used; d++) {
      const known = from[d]!
      if (known <= into[d]!) continue
      if (cta !== null && this.#owner[d] !== -1 && this.#owner[d] !== cta) continue
      into[d] = known
    }
  }

  /** What is known without looking at memory: phases, and what is done. */
  joinFacts(into: Clock, from: Clock): void {
    for (let d = 0; d < this.#used; d++)
      if (this.#owner[d] === -1 && !this.#isInit[d] && from[d]! > into[d]!) into[d] = from[d]!
  }

  joinInits(into: Clock, from: Clock): void {
    for (let d = 0; d < this.#used; d++) if (this.#isInit[d] && from[d]! > into[d]!) into[d] = from[d]!
  }

  copy(from: Clock): Clock {
    return from.slice()
  }
}
