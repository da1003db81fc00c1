/** Where the kernels of a list come from: runs of candidates that are ranked, or counted off, without being made. */
import type { RuntimeArguments } from '../arguments/base.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import type { Kernel } from '../kernels/kernel.ts'
import { KtlKernel } from '../kernels/ktl_kernel.ts'
import type { KernelMetadata } from '../metadata/kernel.ts'
import { preferTuned, type NamedSource, type Source } from './ranking/source.ts'
import { tunedFor } from './ranking/tuning.ts'
import type { Call } from './calls/call.ts'
import { designPasses, type Found } from './space/found.ts'
import { estimateSafely } from './providers/kernel_class.ts'
import type { KtlProvider } from './providers/ktl_provider.ts'
import { ascending } from './ranking/order.ts'
import { machineOn, type Machine } from './ranking/machine.ts'
import type { Estimate } from './ranking/rank.ts'
import type { Filter } from './filters/where.ts'

export interface Wanted {
  readonly target: TargetArch
  readonly filter: Filter | null
  /** Designs that can do what the arguments' performance controls ask for; null: all can. */
  readonly controls: Filter | null
  readonly metadataFilter: ((metadata: KernelMetadata) => boolean) | null
}

export interface Sequence {
  readonly length: number
  readonly kernel: (index: number) => Kernel
}

/** Kernels that support the arguments: those with an estimate, in the order in which equal ones stand, then the others. */
export function rankedSources(
  providers: readonly KtlProvider[],
  others: readonly Kernel[],
  args: RuntimeArguments,
  wanted: Wanted,
): Source[] {
  const sources: Source[] = []
  const tuned = tunedFor(args)
  const machine = machineOn(args.device, wanted.target)
  for (const provider of providers) {
    for (const { found, call } of provider.find(args, wanted.target)) {
      const source = preferTuned(foundSource(found, call, wanted, machine), tuned)
      if (source.size > 0) sources.push(source)
    }
  }
  const estimated: { kernel: Kernel; estimate: Estimate }[] = []
  const unranked: Kernel[] = []
  for (const kernel of others) {
    const estimate = estimateSafely(kernel, args)
    if (typeof estimate !== 'string') {
      estimated.push({ kernel, estimate })
      continue
    }
    kernel.rankReason = `${estimate}: behind those that have one, in the order of its class`
    unranked.push(kernel)
  }
  sources.push({
    size: estimated.length,
    kernel: (i) => estimated[i]!.kernel,
    fillTimes: (times, at) =>
      estimated.forEach(({ estimate }, i) => (times[at + i] = Math.max(0, estimate.microseconds))),
    estimate: (i) => estimated[i]!.estimate,
  })
  return [...sources, listSource(unranked)]
}

function foundSource(found: Found, call: Call, wanted: Wanted, machine: Machine): NamedSource {
  const { instances, byName } = found
  const chosen = passing(found, wanted, byName)
  const all = chosen.length === instances.length
  const indexOf = (i: number): number => (all ? i : chosen[i]!)
  return {
    size: chosen.length,
    kernel: (i) => new KtlKernel(instances[byName[indexOf(i)]!]!),
    nameOf: (i) => instances[byName[indexOf(i)]!]!.name,
    fillTimes(times, at) {
      if (all) return found.fillTimes(machine, call.expected, times, at)
      const own = new Float64Array(instances.length)
      found.fillTimes(machine, call.expected, own, 0)
      for (let i = 0; i < chosen.length; i++) times[at + i] = own[chosen[i]!]!
    },
    estimate: (i) => found.estimate(machine, indexOf(i), call.expected),
  }
}

/** Places in `order` of the instances that the filters let through. */
function passing(found: Found, { filter, controls, metadataFilter }: Wanted, order: Uint32Array): Uint32Array {
  if (filter === null && controls === null && metadataFilter === null) return order
  if (filter !== null && !found.operandsPass(filter)) return new Uint32Array(0)
  return Uint32Array.from(order.keys()).filter((place) => {
    const instance = found.instances[order[place]!]!
    return (
      [filter, controls].every((own) => own === null || designPasses(instance, own)) &&
      (metadataFilter === null || metadataFilter(instance.metadata))
    )
  })
}

function listSource(kernels: readonly Kernel[]): Source {
  return {
    size: kernels.length,
    kernel: (i) => kernels[i]!,
    fillTimes: null,
    estimate: () => {
      throw new Error('a kernel without an estimate')
    },
  }
}

/** Every instance there is, in the order of declaration; those of a choice are planned when the first of them is asked for, filters or not. */
export function declaredSources(
  providers: readonly KtlProvider[],
  others: readonly Kernel[],
  wanted: Wanted,
): Source[] {
  const sources: Source[] = []
  for (const provider of providers) {
    for (const space of provider.spaces) {
      for (const counted of space.counted(wanted.target)) {
        const { backend, choice, instances } = counted
        const find = (): Found => space.find(backend, wanted.target, choice, null)
        const rows = wanted.filter || wanted.metadataFilter ? space.rows(wanted.target, counted) : null
        const chosen = rows?.passing(wanted.filter, wanted.metadataFilter) ?? null
        const kernel = (i: number): Kernel => new KtlKernel(find().instances[chosen ? chosen[i]! : i]!)
        const size = chosen ? chosen.length : instances
        if (size > 0) sources.push({ ...listSource([]), size, kernel })
      }
    }
  }
  return [...sources, listSource(others)]
}

/** Sources one after another. */
export function inSequence(sources: readonly Source[]): Sequence {
  const { starts, length } = layOut(sources)
  return { length, kernel: (index) => at(sources, starts, index, (source, i) => source.kernel(i)) }
}

/** All estimated kernels by their times, equal ones as they stand, then the others. */
export function ranked(sources: readonly Source[]): Sequence {
  const { starts, length } = layOut(sources)
  const estimated = sources.filter(({ fillTimes }) => fillTimes !== null)
  const times = new Float64Array(estimated.reduce((sum, { size }) => sum + size, 0))
  estimated.forEach((source, i) => source.fillTimes!(times, starts[i]!))
  const order = ascending(times)
  const estimateAt = (place: number): Estimate => at(sources, starts, order[place]!, (source, i) => source.estimate(i))
  const kernel = (place: number): Kernel => {
    if (place >= order.length) return at(sources, starts, place, (source, i) => source.kernel(i))
    const made = at(sources, starts, order[place]!, (source, i) => source.kernel(i))
    const reason = rankReason(
      estimateAt(place),
      estimateAt(0),
      place + 1 < order.length ? estimateAt(place + 1) : null,
      place,
    )
    const off = made instanceof KtlKernel ? made.planned.offTensorCores : null
    made.rankReason = off === null ? reason : `${reason}; not on the tensor cores (${off.code})`
    return made
  }
  return { length, kernel }
}

function rankReason(own: Estimate, best: Estimate, next: Estimate | null, place: number): string {
  const ratio = (estimate: Estimate): string => (estimate.microseconds / best.microseconds).toFixed(2)
  if (place > 0) return `${own.text}; ${ratio(own)} times the best`
  return next ? `${own.text}; the next one ${ratio(next)} times that` : own.text
}

/** Index of the first kernel of each source. */
function layOut(sources: readonly Source[]): { readonly starts: readonly number[]; readonly length: number } {
  let length = 0
  const starts = sources.map(({ size }) => (length += size) - size)
  return { starts, length }
}

/** The source that has the kernel of an index, by bisection. */
function at<R>(
  sources: readonly Source[],
  starts: readonly number[],
  index: number,
  use: (source: Source, i: number) => R,
): R {
  let low = 0
  let high = sources.length
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (starts[middle]! <= index) low = middle
    else high = middle
  }
  return use(sources[low]!, index - starts[low]!)
}
