/** mbarriers as the hardware has them: arrivals and bytes that a phase still waits for, and who has seen it complete (PTX ISA 9.7.13.15). */
import type { Agent } from './agent.ts'
import type { Clock, ClockSpace } from './clocks.ts'

export class BarrierState {
  readonly name: string
  readonly cta: number
  readonly #space: ClockSpace
  readonly phases: number
  /** null: not initialised. */
  init: { readonly agent: Agent; readonly epoch: number; readonly count: number } | null = null
  completed = 0
  pending = 0
  bytes = 0
  /** What those know who arrived in this phase, and in those before. */
  readonly #arriving: Clock
  readonly done: Clock

  constructor(name: string, cta: number, space: ClockSpace) {
    this.name = name
    this.cta = cta
    this.#space = space
    this.phases = space.dimension('phases', cta)
    this.#arriving = space.clock()
    this.done = space.clock()
  }

  initialise(agent: Agent, epoch: number, count: number): void {
    this.init = { agent, epoch, count }
    this.pending = count
  }

  /** Problem in words, or null. `clock`: what the agent knows; bytes alone release nothing that it has written. */
  signal(arrivals: number, bytes: number, clock: Clock): string | null {
    if (arrivals > this.pending) return `arrives on ${this.name}, which takes no more than ${this.init!.count} a phase`
    if (arrivals > 0) this.#space.join(this.#arriving, clock)
    else this.#space.joinFacts(this.#arriving, clock)
    this.pending -= arrivals
    this.bytes += bytes
    if (this.pending > 0) return null
    if (this.bytes < 0) return `brings ${-this.bytes} bytes more to ${this.name} than were announced`
    if (this.bytes > 0) return null
    this.completed++
    this.pending = this.init!.count
    this.done.set(this.#arriving)
    this.done[this.phases] = this.completed
    return null
  }

  /** Has the phase with this parity completed? */
  passes(parity: number): boolean {
    return (this.completed & 1) !== parity
  }
}

/** Agents that wait for one another. */
export class Meeting {
  readonly #space: ClockSpace
  readonly #count: number
  readonly #gathering: Clock
  /** What all knew who met last: nobody comes again before all have gone. */
  readonly met: Clock
  #here = 0
  #round = 0

  /** `count`: of threads. */
  constructor(count: number, space: ClockSpace) {
    this.#count = count
    this.#space = space
    this.#gathering = space.clock()
    this.met = space.clock()
  }

  /** True once all have come. */
  come(threads: number, clock: Clock): () => boolean {
    this.#space.join(this.#gathering, clock)
    this.#here += threads
    const round = this.#round
    if (this.#here >= this.#count) {
      this.#here -= this.#count
      this.met.set(this.#gathering)
      this.#round++
    }
    return () => this.#round > round
  }
}
