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

/** A ratio below it is measured three times before it counts: the middle one does. */
const FLOOR = 0.9

interface Compared {
  readonly ours: Summary
  /** null: there is no rival. */
  readonly theirs: Summary | null
}

/** `count` rounds of each. */
export async function compareWith(ours: Contestant, rival: Contestant | null, count: number): Promise<Compared> {
  const once = async (): Promise<Compared> => {
    const summaries = await takeTurns(rival ? [ours, rival] : [ours], count)
    return { ours: summaries.get(ours.name)!, theirs: rival && summaries.get(rival.name)! }
  }
  const ratioOf = ({ ours, theirs }: Compared): number => (theirs ? theirs.median / ours.median : Infinity)
  const first = await once()
  if (ratioOf(first) >= FLOOR) return first
  const all = [first, await once(), await once()]
  return all.sort((a, b) => ratioOf(a) - ratioOf(b))[1]!
}
