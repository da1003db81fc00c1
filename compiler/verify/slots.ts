/** Slots of shared memory, and accumulators of tensor memory: who has written and read them, and whether they may. */
import type { TileOp } from '../ir/pipe.ts'
import type { Agent } from './agent.ts'
import type { Clock } from './clocks.ts'

export interface Access {
  readonly agent: Agent
  readonly op: TileOp
  /** Seen by whoever's clock is at least `epoch` here. */
  readonly dimension: number
  readonly epoch: number
  /** Where the agent's fence shows that the async proxy may follow; -1: there is no need of one. */
  readonly fence: number
  /** Parts of one split, `of`, do not overlap one another; null: the whole slot. */
  readonly of: unknown
  readonly part: number
  /** What the slot holds then, or is to hold. */
  readonly tag: number
  /** Of them. */
  readonly bytes: number
  /** Somebody has read what it wrote. */
  used: boolean
  /** In the order of all writes. */
  sequence: number
}

/** How an access looks at those before it. */
export interface View {
  readonly clock: Clock
  /** It goes through the async proxy. */
  readonly async: boolean
  /** One agent's accesses follow one another, however long they take. */
  readonly inOrder: boolean
}

const disjoint = (a: Access, b: Access): boolean => a.of !== null && a.of === b.of && a.part !== b.part
const nameOf = ({ op }: Access): string => ('operand' in op ? `${op.op} ${op.operand}` : op.op)

export class Slot {
  readonly name: string
  readonly bytes: number
  /** Slots whose bytes lie in the same place. */
  readonly overlapping: Slot[] = []
  #writes: Access[] = []
  #reads: Access[] = []

  constructor(name: string, bytes: number) {
    this.name = name
    this.bytes = bytes
  }

  get writes(): readonly Access[] {
    return this.#writes
  }

  get unread(): boolean {
    return this.#writes.some(({ used }) => !used)
  }

  /** Null: whatever was before `access` is over. */
  #conflict(access: Access, { clock, async, inOrder }: View, others: readonly Access[]): string | null {
    for (const other of others) {
      if (disjoint(access, other)) continue
      const ordered = other.agent === access.agent && (inOrder || other.dimension === access.agent.own)
      if (!ordered && clock[other.dimension]! < other.epoch) return `${nameOf(other)} may still be under way`
      if (async && other.fence !== -1 && clock[other.fence]! < other.epoch)
        return `no proxy fence lies behind ${nameOf(other)}`
    }
    return null
  }

  /** Problem in words, or null. */
  write(write: Access, view: View): string | null {
    let problem = this.#conflict(write, view, this.#writes) ?? this.#conflict(write, view, this.#reads)
    for (const slot of this.overlapping)
      problem ??= slot.#conflict(write, view, slot.#writes) ?? slot.#conflict(write, view, slot.#reads)
    if (problem !== null) return `writes ${this.name} while ${problem}`
    let [kept, lost] = [0, false]
    for (const old of this.#writes)
      if (disjoint(old, write)) this.#writes[kept++] = old
      else lost ||= !old.used && old.tag !== write.tag
    this.#writes.length = kept
    this.#writes.push(write)
    return lost ? `overwrites ${this.name}, which nobody has read` : null
  }

  /** `held`: the tag and bytes of the access must be there. */
  read(read: Access, view: View, held: boolean): string | null {
    let problem = this.#conflict(read, view, this.#writes)
    for (const slot of this.overlapping) problem ??= slot.#conflict(read, view, slot.#writes)
    if (problem !== null) return `reads ${this.name} while ${problem}`
    let [bytes, first] = [0, Infinity]
    for (const write of this.#writes) {
      if (disjoint(write, read)) continue
      if (held && write.tag !== read.tag) return `reads ${this.name}, which holds something else`
      write.used = true
      bytes += write.bytes
      first = Math.min(first, write.sequence)
    }
    if (held && Math.abs(bytes - read.bytes) > 0.5)
      return `reads ${this.name}, which holds ${Math.round(bytes)} of ${read.bytes} bytes`
    const lost = held && this.overlapping.find((slot) => slot.#writes.some(({ sequence }) => sequence > first))
    if (lost) return `reads ${this.name}, over which ${lost.name} was written`
    if (this.#reads.length > 0 && this.#reads[0]!.tag !== read.tag) this.#reads = []
    this.#reads.push(read)
    return null
  }
}
