/** One problem of a suite: the fastest of the first instances, in rounds that take turns with the library. */
import type { RuntimeArguments } from '../../arguments/base.ts'
import type { Device } from '../../devices/device.ts'
import { getKernels } from '../../discovery/query.ts'
import { withoutTuning } from '../../discovery/ranking/tuning.ts'
import { KtlKernel } from '../../kernels/ktl_kernel.ts'
import type { Summary } from '../statistics.ts'
import { warmUpOf, type Timer } from '../timer.ts'
import { tune, type Candidate } from '../tune.ts'
import { workOf, type Work } from '../work.ts'
import { boundOf, errorOf } from './check.ts'
import { onDevice, onPaper, openProduct } from './open.ts'
import type { Peer } from './peer.ts'
import type { Problem } from './problem.ts'
import { compareWith, isBelowFloor, type Contestant } from './turns.ts'

/** Times in milliseconds. */
export interface SuiteResult {
  readonly problem: Problem
  readonly kernelName: string
  /** In the cost model's list. */
  readonly place: number
  readonly work: Work
  readonly ours: Summary
  /** The cost model's first choice, in the same rounds. */
  readonly first: Summary
  /** All that were tried, the fastest of the search first. */
  readonly tried: readonly { readonly kernelName: string; readonly place: number; readonly milliseconds: number }[]
  /** The library's; null: there is none, or it does not take the problem. */
  readonly theirs: Summary | null
  /** ‖out − expected‖ / ‖expected‖; null: not a number, or nobody to ask. */
  readonly error: number | null
  /** null: it was not checked. */
  readonly right: boolean | null
}

export interface SuiteOptions {
  readonly device: Device
  readonly timer: Timer
  /** null: ktl alone. */
  readonly peer: Peer | null
  /** Instances to try for each problem, the first of the cost model's list. */
  readonly tried: number
  /** The same of a problem that is below the library's floor with these: it is measured once more. Default: `tried`. */
  readonly searched?: number
  readonly rounds: number
  readonly seed: number
  readonly signal: AbortSignal
}

/** The first of the cost model's list, whatever has been tuned on this machine. Throws when there are none. */
export function candidates(args: RuntimeArguments, count: number, cc?: number): readonly KtlKernel[] {
  const found = withoutTuning(() => getKernels(args, { limit: count, ...(cc !== undefined && { cc }) }))
  const kernels = Array.from(found).filter((kernel): kernel is KtlKernel => kernel instanceof KtlKernel)
  if (kernels.length > 0) return kernels
  throw new Error(`no kernel: ${found.why?.split('\n').slice(0, 2).join(' ') ?? ''}`)
}

/** The same, and of those that differ in how they store alone, the first. */
export function differing(args: RuntimeArguments, count: number): readonly KtlKernel[] {
  const kernels = new Map<string, KtlKernel>()
  for (const kernel of candidates(args, 2 * count)) {
    const key = kernel.metadata.kernelName.replace(/_(tma|rows|direct)(?=_|$)/, '')
    if (!kernels.has(key)) kernels.set(key, kernel)
  }
  return [...kernels.values()].slice(0, count)
}

export async function measureProblem(problem: Problem, options: SuiteOptions): Promise<SuiteResult> {
  const { device, peer, seed } = options
  const opened = await openProduct(problem, onDevice(device, seed))
  try {
    await device.synchronize()
    const rival = peer && (await rivalOf(problem, peer, seed))
    const { tried, searched = tried } = options
    let raced = await race(tried, opened.args, rival, options)
    if (searched > tried && isBelowFloor(raced)) raced = await race(searched, opened.args, rival, options)
    const { ranking, found: { subject, place }, ours, first, theirs } = raced // prettier-ignore
    const error = peer === null || peer.ended ? null : await errorOf(problem, opened.out, subject, peer)
    return {
      problem,
      kernelName: subject.kernel.metadata.kernelName,
      place,
      work: workOf(subject.kernel.plan.program, subject.kernel.call(opened.args).extents),
      ours,
      first,
      tried: ranking.map(({ subject, place, milliseconds }) => ({
        kernelName: subject.kernel.metadata.kernelName,
        place,
        milliseconds,
      })),
      theirs,
      error,
      right: peer === null ? null : error !== null && error <= boundOf(problem),
    }
  } finally {
    opened.close()
    if (peer && !peer.ended) await peer.close()
  }
}

/** The fastest of the first instances, and the first of all, in rounds that take turns with the library. */
async function race(count: number, args: RuntimeArguments, rival: Contestant | null, { timer, rounds, signal }: SuiteOptions) {
  const { ranking } = await tune(differing(args, count), args, timer, { rounds: 1, signal })
  const contestant = (name: string, { subject }: Candidate): Contestant => ({ name, round: (launches) => timer.round(subject, launches) })
  const fastest = ranking[0]!
  // Those that do not run are no choice.
  const chosen = ranking.reduce((a, b) => (b.place < a.place ? b : a))
  const field = { ours: contestant('ktl', fastest), first: chosen === fastest ? null : contestant('first choice', chosen), rival }
  const { ours, first, theirs } = await compareWith(field, timer.kind === 'modelled' ? 1 : rounds)
  // Full rounds know better than those of the search.
  const isFirst = first.median < ours.median
  return { ranking, found: isFirst ? chosen : fastest, ours: isFirst ? first : ours, first, theirs }
} // prettier-ignore

/** null: the library does not take the problem; its operands are there all the same, and results can be checked. */
async function rivalOf(problem: Problem, peer: Peer, seed: number): Promise<Contestant | null> {
  const [name] = await peer.open(problem, seed)
  if (name === undefined) return null
  const round = (launches: number): Promise<readonly number[]> => peer.round(name, launches, warmUpOf(launches))
  return round(1).then(
    () => ({ name: 'library', round }),
    (error: unknown) => {
      if (peer.ended) throw error
      return null
    },
  )
}

/** Compiles what will be timed next; what goes wrong is told when its turn comes. */
export async function prefetch(problem: Problem | undefined, { device, tried }: SuiteOptions): Promise<void> {
  if (problem === undefined) return
  try {
    const { args } = await openProduct(problem, onPaper(device))
    await Promise.allSettled(differing(args, tried).map((kernel) => kernel.compile(args)))
  } catch {
    // No kernel for it.
  }
}
