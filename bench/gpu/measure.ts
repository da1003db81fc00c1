/** One problem on both sides: the instances worth comparing, rounds that take turns, and the check of the result. */
import { randomUUID } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { poison } from '../../runtime/bench/fill.ts'
import { median, summarize, type Summary } from '../../runtime/bench/statistics.ts'
import { launchesOf, warmUpOf, type Subject, type Timer } from '../../runtime/bench/timer.ts'
import { tune } from '../../runtime/bench/tune.ts'
import type { Device, DTypeName, KtlKernel, RuntimeArguments } from '../../runtime/index.ts'
import { problemOf } from '../../runtime/discovery/ranking/tuning.ts'
import { candidates, onDevice, open, sameTile, sampleOf, type Opened } from './ours.ts'
import type { Peer } from './peer.ts'
import type { ArtifactFolder } from './prepared.ts'
import type { Problem, Rival } from './problems.ts'

/** Times in milliseconds. */
export interface Result {
  readonly problem: Problem
  /** The fastest of the instances tried. */
  readonly kernelName: string
  /** Its place in the cost model's list. */
  readonly place: number
  readonly tried: number
  readonly ours: Summary
  /** The cost model's first choice, and the best of its first four. */
  readonly first: Summary | null
  readonly bestOf4: Summary | null
  /** Our own kernel without the epilogue, the fastest of as many. */
  readonly plain: Summary | null
  /** The plain kernel of the same design; null: there is none. */
  readonly sameTile: Summary | null
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

/** Milliseconds of kernel time in a round. */
const ROUND_MS = 20
/** Of the search for the fastest instance: long and often enough that a moment of a slower clock does not decide it. */
const SEARCH = { rounds: 5, targetMs: 10, least: 4 } as const

/**
 * Relative errors that rounding explains: half an ulp of the output, uniformly distributed, is 0.6 of it in the mean square; fp8 sums
 * have 13 fraction bits (fast accumulation), tf32 operands lose 13 of 23.
 */
function boundOf({ a, out }: Problem): number {
  if (a === 'i8') return 0
  if (a === 'e4m3') return 0.02
  return ({ bf16: 4e-3, f16: 6e-4, f32: 2e-3 } as Partial<Record<DTypeName, number>>)[out] ?? 1e-2
}

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

/** What takes part in the rounds. */
interface Contestant {
  readonly name: string
  round(launches: number): Promise<readonly number[]>
}

async function compareSides(problem: Problem, opened: Opened, rivals: readonly Rival[], options: MeasureOptions): Promise<Result> {
  const { timer, peer, rounds } = options
  const found = await search(opened.args, options, { cc: problem.cc })
  const { best, first, bestOf4 } = found
  const plain = opened.plain === null ? null : await bestPlain(opened.plain, options)
  const same = opened.plain === null ? null : await plainOfSameTile(best.subject.kernel, opened.plain, options)
  const isPlain = same !== null && same.kernel.metadata.kernelName === plain?.subject.kernel.metadata.kernelName
  const ours = (name: string, subject: Subject): Contestant => ({ name, round: (launches) => timer.round(subject, launches) })
  const theirs = (name: Rival): Contestant => ({ name, round: (launches) => peer.round(name, launches, warmUpOf(launches)) })
  const field: Contestant[] = [ours('best', best.subject)]
  if (first !== null && first.place !== best.place) field.push(ours('first', first.subject))
  if (bestOf4 !== null && bestOf4.place !== best.place && bestOf4.place !== first?.place) field.push(ours('bestOf4', bestOf4.subject))
  if (plain !== null) field.push(ours('our plain', plain.subject))
  if (same !== null && !isPlain) field.push(ours('same tile', same))
  field.push(...rivals.map(theirs))
  const summaries = await takeTurns(field, timer.kind === 'modelled' ? 1 : rounds)
  const error = await check(problem, opened, best.subject, options)
  const summaryOf = (place: number | undefined): Summary | null =>
    place === undefined ? null : place === best.place ? summaries.get('best')! : place === first?.place ? summaries.get('first')! : summaries.get('bestOf4')!
  return {
    problem,
    kernelName: best.subject.kernel.metadata.kernelName,
    place: best.place,
    tried: found.tried,
    ours: summaries.get('best')!,
    first: summaryOf(first?.place),
    bestOf4: summaryOf(bestOf4?.place),
    plain: summaries.get('our plain') ?? null,
    sameTile: summaries.get(isPlain ? 'our plain' : 'same tile') ?? null,
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

/** Rounds forwards and backwards, so that a drift of the clock counts for and against all of them alike. */
async function takeTurns(field: readonly Contestant[], count: number): Promise<ReadonlyMap<string, Summary>> {
  const launches = new Map<string, number>()
  for (const contestant of field) launches.set(contestant.name, launchesOf(median(await contestant.round(3)), { targetMs: ROUND_MS }))
  const rounds = new Map<string, (readonly number[])[]>(field.map(({ name }) => [name, []]))
  for (let i = 0; i < count; i++) {
    for (const contestant of i % 2 ? field.toReversed() : field) {
      rounds.get(contestant.name)!.push(await contestant.round(launches.get(contestant.name)!))
    }
  }
  return new Map([...rounds].map(([name, samples]) => [name, summarize(samples)]))
} // prettier-ignore

/** Into an output full of NaNs, whose rows the other side computes from the same inputs in f32. */
async function check(problem: Problem, { out }: Opened, { kernel, args, artifact }: Subject, { peer }: MeasureOptions): Promise<number | null> {
  await poison(out)
  await kernel.run(args, { artifact })
  const { rows, bytes } = await sampleOf(out)
  const file = path.join(tmpdir(), `ktl-compare-${randomUUID()}`)
  try {
    writeFileSync(file, bytes)
    return (await peer.check(file, problem.out, rows)).error
  } finally {
    rmSync(file, { force: true })
  }
} // prettier-ignore
