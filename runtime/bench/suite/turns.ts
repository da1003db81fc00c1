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
