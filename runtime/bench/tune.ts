/** The fastest of many instances, without spending much time on the slow ones. */
import type { RuntimeArguments } from '../arguments/base.ts'
import type { Artifact } from '../artifacts/artifact.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import type { KtlKernel } from '../kernels/ktl_kernel.ts'
import { median, summarize, type Summary } from './statistics.ts'
import { launchesOf, type RoundOptions, type Subject, type Timer } from './timer.ts'

export interface Candidate {
  readonly subject: Subject
  /** In the list that was given: 0 is the cost model's first choice. */
  readonly place: number
}

export interface Timed extends Candidate {
  /** Of all samples of the stages it took part in: the later it was left behind, the better it is known. */
  readonly milliseconds: number
}

export interface Tuned {
  /** The fastest first; the first few were timed to the end. */
  readonly ranking: readonly Timed[]
  /** Of those timed to the end, by their places. */
  readonly summaries: ReadonlyMap<number, Summary>
  /** Kernels that do not compile or run, and why. */
  readonly failed: readonly { readonly kernelName: string; readonly reason: string }[]
}

export interface TuneOptions extends RoundOptions {
  /** Of the final comparison. Default: 5. */
  readonly rounds?: number
  /** Where compiled kernels come from. Default: `kernel.compile`. */
  readonly artifactOf?: (kernel: KtlKernel, args: RuntimeArguments) => Promise<Artifact>
  readonly signal?: AbortSignal
  /** As soon as it is known: after a fault of the device nothing else runs, and the first one is the cause. */
  readonly onFailure?: (kernelName: string, reason: string) => void
  readonly onProgress?: (phase: 'compiling' | 'timing', done: number, total: number) => void
}

/** Those that are compared to the end. */
const FINALISTS = 4
/** Two launches of kernels this long, in milliseconds, tell of a cool device: they are launched ten times from the start. */
const LONG = 0.5
const LONG_LAUNCHES = 10

/**
 * Compiles all in parallel, then times them one after another: in every stage the slower half is left out and the others are
 * launched twice as often; the last four are timed in full rounds that take turns. Throws when none runs.
 */
export async function tune(
  kernels: readonly KtlKernel[],
  args: RuntimeArguments,
  timer: Timer,
  options: TuneOptions = {},
): Promise<Tuned> {
  const failed: { kernelName: string; reason: string }[] = []
  let firstError: unknown = null
  const guard = async <T>({ metadata }: KtlKernel, work: () => Promise<T>): Promise<T | null> => {
    options.signal?.throwIfAborted()
    try {
      return await work()
    } catch (error) {
      // Others may well run; what is no KtlError is a mistake of the caller or of ktl.
      if (!(error instanceof KtlError) || options.signal?.aborted) throw error
      firstError ??= error
      const [reason] = error.message.split('\n') as [string]
      failed.push({ kernelName: metadata.kernelName, reason })
      options.onFailure?.(metadata.kernelName, reason)
      return null
    }
  }
  const subjects = await compileAll(kernels, args, guard, options)
  const samples = new Map<number, number[]>()
  const time = async ({ subject, place }: Candidate, launches: number): Promise<boolean> => {
    const times = await guard(subject.kernel, async () => {
      const few = await timer.round(subject, launches)
      const cool = timer.kind === 'measured' && launches < LONG_LAUNCHES && median(few) >= LONG
      return cool ? timer.round(subject, LONG_LAUNCHES) : few
    })
    if (times === null) return false
    samples.set(place, [...(samples.get(place) ?? []), ...times])
    return true
  }
  const msOf = ({ place }: Candidate): number => median(samples.get(place)!)
  const left: Timed[] = []
  let field: readonly Candidate[] = subjects
  for (let launches = 2, first = true; first || field.length > FINALISTS; launches *= 2, first = false) {
    const alive: Candidate[] = []
    for (const candidate of field) {
      if (await time(candidate, launches)) alive.push(candidate)
      if (first) options.onProgress?.('timing', alive.length, field.length)
    }
    alive.sort((a, b) => msOf(a) - msOf(b) || a.place - b.place)
    const keep = Math.max(FINALISTS, Math.ceil(alive.length / 2))
    left.unshift(...alive.slice(keep).map((candidate) => ({ ...candidate, milliseconds: msOf(candidate) })))
    field = alive.slice(0, keep)
    if (timer.kind === 'modelled') break
  }
  if (field.length === 0) throw firstError ?? new Error('no kernels to tune')
  const summaries = await compare(field, timer, options)
  const finalists = field.map((candidate) => ({ ...candidate, milliseconds: summaries.get(candidate.place)!.median }))
  finalists.sort((a, b) => a.milliseconds - b.milliseconds || a.place - b.place)
  return { ranking: [...finalists, ...left], summaries, failed }
}

async function compileAll(
  kernels: readonly KtlKernel[],
  args: RuntimeArguments,
  guard: <T>(kernel: KtlKernel, work: () => Promise<T>) => Promise<T | null>,
  { artifactOf, onProgress, signal }: TuneOptions,
): Promise<Candidate[]> {
  let done = 0
  const compiled = kernels.map(async (kernel, place): Promise<Candidate | null> => {
    const compile = () => artifactOf?.(kernel, args) ?? kernel.compile(args, { ...(signal && { signal }) })
    const artifact = await guard(kernel, compile)
    onProgress?.('compiling', ++done, kernels.length)
    return artifact && { subject: { kernel, args, artifact }, place }
  })
  return (await Promise.all(compiled)).filter((candidate) => candidate !== null)
}

/** Full rounds of several candidates that take turns, forwards and backwards; by place. */
export async function compare(
  field: readonly Candidate[],
  timer: Timer,
  options: RoundOptions & { readonly rounds?: number; readonly signal?: AbortSignal } = {},
): Promise<Map<number, Summary>> {
  const rounds = new Map<number, number[][]>(field.map(({ place }) => [place, []]))
  const launches = new Map<number, number>()
  for (const { subject, place } of field)
    launches.set(place, launchesOf(median(await timer.round(subject, 2)), options))
  const count = timer.kind === 'modelled' ? 1 : (options.rounds ?? 5)
  for (let round = 0; round < count; round++) {
    for (const { subject, place } of round % 2 ? field.toReversed() : field) {
      options.signal?.throwIfAborted()
      rounds.get(place)!.push(await timer.round(subject, launches.get(place)!))
    }
  }
  return new Map([...rounds].map(([place, samples]) => [place, summarize(samples)]))
}
