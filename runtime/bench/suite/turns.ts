/** Rounds of several sides that take turns. */
import { median, summarize, type Summary } from '../statistics.ts'
import { launchesOf } from '../timer.ts'

export interface Contestant {
  readonly name: string
  /** Milliseconds of each launch. */
  round(launches: number): Promise<readonly number[]>
}

/** Milliseconds of kernel time in a round. */
const ROUND_MS = 20

/** Rounds forwards and backwards, so that a drift of the clock counts for and against all of them alike; by name. */
export async function takeTurns(field: readonly Contestant[], count: number): Promise<ReadonlyMap<string, Summary>> {
  const launches = new Map<string, number>()
  for (const contestant of field)
    launches.set(contestant.name, launchesOf(median(await contestant.round(3)), { targetMs: ROUND_MS }))
  const rounds = new Map<string, (readonly number[])[]>(field.map(({ name }) => [name, []]))
  for (let i = 0; i < count; i++) {
    for (const contestant of i % 2 ? field.toReversed() : field) {
      rounds.get(contestant.name)!.push(await contestant.round(launches.get(contestant.name)!))
    }
  }
  return new Map([...rounds].map(([name, samples]) => [name, summarize(samples)]))
}

/** What `measure` gives; below `floor` it is measured three times, and the middle one counts. */
export async function middleBelow<T>(
  floor: number,
  measure: () => Promise<T>,
  ratioOf: (measured: T) => number,
): Promise<T> {
  const measured = await measure()
  if (ratioOf(measured) >= floor) return measured
  const all = [measured, await measure(), await measure()]
  return all.sort((a, b) => ratioOf(a) - ratioOf(b))[1]!
}

/** Of a rival's time over ours. */
export const FLOOR = 0.9

interface Field {
  readonly ours: Contestant
  /** The cost model's first choice; null: that is ours. */
  readonly first?: Contestant | null
  readonly rival?: Contestant | null
}

interface Compared {
  readonly ours: Summary
  readonly first: Summary
  /** null: there is no rival. */
  readonly theirs: Summary | null
}

export const isBelowFloor = ({ ours, theirs }: Pick<Compared, 'ours' | 'theirs'>): boolean =>
  theirs !== null && theirs.median / ours.median < FLOOR

/** `count` rounds of each. */
export async function compareWith({ ours, first = null, rival = null }: Field, count: number): Promise<Compared> {
  const field = [ours, first, rival].filter((side) => side !== null)
  const once = async (): Promise<Compared> => {
    const summaries = await takeTurns(field, count)
    const summaryOf = ({ name }: Contestant): Summary => summaries.get(name)!
    return { ours: summaryOf(ours), first: summaryOf(first ?? ours), theirs: rival && summaryOf(rival) }
  }
  return middleBelow(FLOOR, once, ({ ours, theirs }) => (theirs ? theirs.median / ours.median : Infinity))
}
