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
    return await compareSides(problem, opened, rivals, options)
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
  const isPlain = same !== null && same.kernel.metadata.kernelName === plain?.subject.kernel.metadata.kernelName
  const ours = (name: string, subject: Subject): Contestant => ({ name, round: (launches) => timer.round(subject, launches) })
  const theirs = (name: Rival): Contestant => ({ name, round: (launches) => peer.round(name, launches, warmUpOf(launches)) })
  const field: Contestant[] = [ours('best', found.best.subject)]
  if (first !== null && first.place !== found.best.place) field.push(ours('first', first.subject))
  if (bestOf4 !== null && bestOf4.place !== found.best.place && bestOf4.place !== first?.place) field.push(ours('bestOf4', bestOf4.subject))
  if (plain !== null) field.push(ours('our plain', plain.subject))
  if (same !== null && !isPlain) field.push(ours('same tile', same))
  field.push(...rivals.map(theirs))
  const finalists = [found.best, first, bestOf4].filter((one) => one !== null)
  const once = async () => {
    const summaries = await takeTurns(field, timer.kind === 'modelled' ? 1 : rounds)
    const summaryOf = ({ place }: Found): Summary => summaries.get(place === found.best.place ? 'best' : place === first?.place ? 'first' : 'bestOf4')!
    // Full rounds know better than those of the search, of both sides.
    const best = finalists.reduce((a, b) => (summaryOf(b).median < summaryOf(a).median ? b : a))
    const plains = ['our plain', 'same tile'].map((name) => summaries.get(name) ?? null)
    const plain = plains.reduce((a, b) => (a && b && b.median < a.median ? b : (a ?? b)))
    return { summaries, summaryOf, best, ours: summaryOf(best), plain }
  }
  const { summaries, summaryOf, best, ours: fastest, plain: unfused } = await middleBelow(FUSED_FLOOR, once, ({ ours, plain }) => (plain ? plain.median / ours.median : Infinity))
  const error = await errorOf(problem, opened.out, best.subject, peer, opened.decoded)
  return {
    problem,
    kernelName: best.subject.kernel.metadata.kernelName,
    place: best.place,
    tried: found.tried,
    ours: fastest,
    first: first && summaryOf(first),
    bestOf4: bestOf4 && summaryOf(bestOf4),
    plain: unfused,
    sameTile: same && { fused: summaryOf(found.best), plain: summaries.get(isPlain ? 'our plain' : 'same tile')! },
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

type Found = Awaited<ReturnType<typeof search>>['best']

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
