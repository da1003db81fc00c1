/** One problem on both sides: the instances worth comparing, rounds that take turns, and the check of the result. */
import type { Summary } from '../../runtime/bench/statistics.ts'
import { boundOf, errorOf } from '../../runtime/bench/suite/check.ts'
import { onDevice, type Opened } from '../../runtime/bench/suite/open.ts'
import { middleBelow, takeTurns, type Contestant } from '../../runtime/bench/suite/turns.ts'
import { warmUpOf, type Subject, type Timer } from '../../runtime/bench/timer.ts'
import { tune } from '../../runtime/bench/tune.ts'
import type { Device, KtlKernel, RuntimeArguments } from '../../runtime/index.ts'
import { problemOf } from '../../runtime/discovery/ranking/tuning.ts'
import { candidates } from '../../runtime/bench/suite/measure.ts'
import { open, sameTile } from './ours.ts'
import type { Peer } from '../../runtime/bench/suite/peer.ts'
import type { ArtifactFolder } from './prepared.ts'
import type { Problem, Rival } from './problems.ts'

/** Times in milliseconds. */
export interface Result {
  readonly problem: Problem
  /** The fastest of the instances tried, by the full rounds. */
  readonly kernelName: string
  /** Its place in the cost model's list. */
  readonly place: number
  readonly tried: number
  readonly ours: Summary
  /** The cost model's first choice, and the best of its first four. */
  readonly first: Summary | null
  readonly bestOf4: Summary | null
  /** Our own kernel without the epilogue, the fastest of as many, or of those that the full rounds time. */
  readonly plain: Summary | null
  /** The instance that the search found, and the plain kernel of the same design; null: there is none. */
  readonly sameTile: { readonly fused: Summary; readonly plain: Summary } | null
  readonly rivals: Readonly<Partial<Record<Rival, Summary>>>
  /** ‖out − expected‖ / ‖expected‖ over the rows checked; null: not a number. */
  readonly error: number | null
  readonly bound: number
  readonly failed: readonly { readonly kernelName: string; readonly reason: string }[]
}

export interface MeasureOptions {
  readonly device: Device
  readonly timer: Timer
  readonly peer: Peer
  readonly artifacts: ArtifactFolder
  /** Instances to try for each problem, the first of the cost model's list. */
  readonly tuned: number
  /** The same of a fused problem that takes more than 1.08 of its plain one with these: both are searched once more. Default: `tuned`. */
  readonly searched?: number
  readonly rounds: number
  readonly seed: number
  /** Names of the fastest plain kernels found so far, by problem: many epilogues are held against one of them. */
  readonly knownPlain: Map<string, string>
}

/** Of the time of a plain kernel over that of the fused one. */
const FUSED_FLOOR = 1 / 1.08

/** Of the search for the fastest instance: long and often enough that a moment of a slower clock does not decide it. */
const SEARCH = { rounds: 5, targetMs: 10, least: 4 } as const

export async function measure(problem: Problem, options: MeasureOptions): Promise<Result> {
  const { device, peer, seed } = options
  const opened = await open(problem, onDevice(device, seed))
  try {
    await device.synchronize()
    const rivals = await peer.open(problem, seed)
    const result = await compareSides(problem, opened, rivals, options)
    const { tuned, searched = tuned } = options
    const isSlow = result.plain !== null && result.plain.median / result.ours.median < FUSED_FLOOR
    if (!isSlow || searched <= tuned) return result
    return await compareSides(problem, opened, rivals, { ...options, tuned: searched, knownPlain: new Map() })
  } finally {
    opened.close()
    await peer.close()
  }
}

async function compareSides(problem: Problem, opened: Opened, rivals: readonly Rival[], options: MeasureOptions): Promise<Result> {
  const { timer, peer, rounds } = options
  const found = await search(opened.args, options, { cc: problem.cc })
  const { first, bestOf4 } = found
  const plain = opened.plain === null ? null : await bestPlain(opened.plain, options)
  const same = opened.plain === null ? null : await plainOfSameTile(found.best.subject.kernel, opened.plain, options)
  const ours = byName([found.best, first, bestOf4].map((one) => one?.subject ?? null))
  const plains = byName([plain?.subject ?? null, same])
  const theirs = (name: Rival): Contestant => ({ name, round: (launches) => peer.round(name, launches, warmUpOf(launches)) })
  const contestant = ([name, subject]: readonly [string, Subject]): Contestant => ({ name, round: (launches) => timer.round(subject, launches) })
  const field = [...[...ours, ...plains].map(contestant), ...rivals.map(theirs)]
  // Full rounds know better than those of the search, of both sides.
  const once = async () => {
    const summaries = await takeTurns(field, timer.kind === 'modelled' ? 1 : rounds)
    const fastestOf = (names: Iterable<string>): string | null =>
      [...names].reduce<string | null>((a, b) => (a !== null && summaries.get(a)!.median <= summaries.get(b)!.median ? a : b), null)
    return { summaries, ours: fastestOf(ours.keys())!, plain: fastestOf(plains.keys()) }
  }
  const fullRounds = await middleBelow(FUSED_FLOOR, once, ({ summaries, ours, plain }) =>
    plain === null ? Infinity : summaries.get(plain)!.median / summaries.get(ours)!.median)
  const { summaries } = fullRounds
  const summaryOf = ({ kernel }: Subject): Summary => summaries.get(kernel.metadata.kernelName)!
  const best = [found.best, first, bestOf4].find((one) => one?.subject.kernel.metadata.kernelName === fullRounds.ours)!
  const error = await errorOf(problem, opened.out, best.subject, peer, opened.decoded)
  return {
    problem,
    kernelName: best.subject.kernel.metadata.kernelName,
    place: best.place,
    tried: found.tried,
    ours: summaryOf(best.subject),
    first: first && summaryOf(first.subject),
    bestOf4: bestOf4 && summaryOf(bestOf4.subject),
    plain: fullRounds.plain === null ? null : summaries.get(fullRounds.plain)!,
    sameTile: same && { fused: summaryOf(found.best.subject), plain: summaryOf(same) },
    rivals: Object.fromEntries(rivals.map((name) => [name, summaries.get(name)!])),
    error,
    bound: boundOf(problem),
    failed: found.failed,
  }
} // prettier-ignore

async function bestPlain(args: RuntimeArguments, options: MeasureOptions) {
  const known = options.knownPlain.get(problemOf(args))
  const { best } = await search(args, options, { only: known })
  options.knownPlain.set(problemOf(args), best.subject.kernel.metadata.kernelName)
  return best
}

async function plainOfSameTile(fused: KtlKernel, args: RuntimeArguments, { artifacts }: MeasureOptions): Promise<Subject | null> {
  const kernel = sameTile(fused, args)
  return kernel && { kernel, args, artifact: await artifacts.get(kernel, args) }
} // prettier-ignore

/** Each kernel once, by its name: those with an epilogue and those without differ in it. */
const byName = (subjects: readonly (Subject | null)[]): ReadonlyMap<string, Subject> =>
  new Map(
    subjects.filter((subject) => subject !== null).map((subject) => [subject.kernel.metadata.kernelName, subject]),
  )

/** The fastest instance, the cost model's first, and the best of its first four, as far as short rounds tell. */
async function search(
  args: RuntimeArguments,
  { timer, artifacts, tuned }: MeasureOptions,
  { only, cc }: { only?: string | undefined; cc?: number | undefined },
) {
  const listed: readonly KtlKernel[] = candidates(args, tuned, cc)
  const kernels = only === undefined ? listed : listed.filter(({ metadata }) => metadata.kernelName === only)
  const artifactOf = (kernel: KtlKernel, given: RuntimeArguments) => artifacts.get(kernel, given)
  const onFailure = (kernelName: string, reason: string): void =>
    void process.stdout.write(`left out: ${kernelName}: ${reason}\n`)
  const { ranking, failed } = await tune(kernels, args, timer, {
    artifactOf,
    onFailure,
    ...SEARCH,
  })
  const firstFour = ranking.filter(({ place }) => place < 4)
  return {
    best: ranking[0]!,
    first: ranking.find(({ place }) => place === 0) ?? null,
    bestOf4: firstFour[0] ?? null,
    tried: ranking.length,
    failed,
  }
}
