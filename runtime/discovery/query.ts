/** Asking for kernels: which support the arguments, best first; how many there are; why others do not. */
import type { TargetArch } from '../../compiler/instance.ts'
import { ktlError } from '../fail.ts'
import { describe } from '../tensor_layout.ts'
import { RuntimeArguments } from '../arguments/base.ts'
import type { Kernel } from '../kernel.ts'
import { KtlKernel } from '../kernel_ktl.ts'
import { TARGET_CC, type KernelMetadata } from '../metadata/kernel.ts'
import { explainKernels } from './explain.ts'
import { KtlProvider } from './ktl_provider.ts'
import type { PlannedInstance } from './planned.ts'
import { selectProviders, type Provider, type ProviderSpec } from './provider.ts'
import type { Estimate } from './rank.ts'
import { parseTarget, type TargetSpec } from './target.ts'

export interface DiscoveryOptions {
  /** Compute capability or target. Default: that of the arguments' device, else 100. */
  readonly cc?: TargetSpec
  /** Default: all. */
  readonly providers?: readonly ProviderSpec[]
}

export interface GetKernelsOptions extends DiscoveryOptions {
  readonly limit?: number
  readonly metadataFilter?: (metadata: KernelMetadata) => boolean
}

/** Kernels, best first. An empty list says why in `why`. */
export class KernelList extends Array<Kernel> {
  readonly #reason: () => string

  constructor(kernels: readonly Kernel[], reason: () => string) {
    super()
    for (const kernel of kernels) this.push(kernel)
    this.#reason = reason
  }

  /** Parts of the list are plain arrays. */
  static override get [Symbol.species](): ArrayConstructor {
    return Array
  }

  /** Why the list is empty, nearest misses first; null when it is not. */
  get why(): string | null {
    return this.length === 0 ? this.#reason() : null
  }
}

interface Ranked {
  readonly kernel: () => Kernel
  readonly estimate: Estimate
  readonly name: () => string
}

/**
 * Kernels that support `args` on the target, best first; without arguments every kernel there is, in the order of
 * declaration. Never throws for well-formed arguments.
 */
export function getKernels(args?: RuntimeArguments | null, options: GetKernelsOptions = {}): KernelList {
  const { limit = Infinity, metadataFilter } = options
  checkArguments(args, options)
  const target = targetOf(args, options)
  const providers = selectProviders(options.providers)
  const reason = (): string => whyEmpty(args, options)
  if (target === null) return new KernelList([], reason)
  const accepts = metadataFilter ?? (() => true)
  const others = providers.flatMap((provider) => (provider instanceof KtlProvider ? [] : usersKernels(provider, args ?? null, target, accepts)))
  if (!args) {
    const found: Kernel[] = []
    for (const planned of everyInstance(providers, target)) {
      if (found.length >= limit) break
      if (accepts(planned.metadata)) found.push(new KtlKernel(planned))
    }
    return new KernelList([...found, ...others].slice(0, limit), reason)
  }

  const ranked: Ranked[] = []
  const unranked: Kernel[] = []
  for (const kernel of others) {
    const estimate = kernel.estimate?.(args)
    if (estimate) ranked.push({ kernel: () => kernel, estimate, name: () => kernel.metadata.kernelName })
    else unranked.push(kernel)
  }
  for (const provider of providers) {
    if (!(provider instanceof KtlProvider)) continue
    for (const { instances, call } of provider.find(args, target)) {
      for (const planned of instances) {
        if (metadataFilter !== undefined && !metadataFilter(planned.metadata)) continue
        const estimate = planned.estimate(call.extents)
        ranked.push({ kernel: () => new KtlKernel(planned), estimate, name: () => planned.name })
      }
    }
  }
  ranked.sort((a, b) => a.estimate.microseconds - b.estimate.microseconds || compareNames(a.name(), b.name()))
  const kernels = ranked.slice(0, limit).map(({ kernel, estimate }, i) => {
    const made = kernel()
    made.rankReason = rankReason(i, estimate, ranked)
    return made
  })
  for (const kernel of unranked) kernel.rankReason = 'no estimate: behind those that have one, in the order of its class'
  return new KernelList([...kernels, ...unranked].slice(0, limit), reason)
} // prettier-ignore

/** In the order of declaration. */
function* everyInstance(providers: ReturnType<typeof selectProviders>, target: TargetArch): Generator<PlannedInstance> {
  for (const provider of providers) {
    if (provider instanceof KtlProvider) for (const space of provider.spaces) yield* space.instances(target)
  }
}

function usersKernels(
  provider: Provider,
  args: RuntimeArguments | null,
  target: TargetArch,
  accepts: (metadata: KernelMetadata) => boolean,
): Kernel[] {
  const kernels = [...provider.kernels(TARGET_CC[target], args?.epilogue ?? null, accepts)]
  return kernels.filter(
    (kernel) => kernel.metadata.targets.includes(target) && (args === null || kernel.supports(args).ok),
  )
}

function rankReason(place: number, estimate: Estimate, ranked: readonly Ranked[]): string {
  const best = ranked[0]!.estimate
  const next = ranked[place + 1]?.estimate
  if (place > 0) return `${estimate.text}; ${(estimate.microseconds / best.microseconds).toFixed(2)} times the best`
  return next
    ? `${estimate.text}; the next one ${(next.microseconds / best.microseconds).toFixed(2)} times that`
    : estimate.text
}

const compareNames = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function whyEmpty(args: RuntimeArguments | null | undefined, options: GetKernelsOptions): string {
  if (!args) return `no kernel is made for ${describe(options.cc ?? 100)}, or the filter refuses all`
  const explanation = explainKernels(args, options)
  if (explanation.supported > 0)
    return `metadataFilter (or limit) refuses all ${explanation.supported} kernels that support the arguments`
  return explanation.toString()
}

function checkArguments(args: unknown, { limit = 0, metadataFilter }: GetKernelsOptions): void {
  if (args !== undefined && args !== null && !(args instanceof RuntimeArguments)) {
    throw ktlError('KTL4024', { operand: 'args', expected: 'GemmArguments, KernelArguments or ElementwiseArguments', got: describe(args) })
  }
  if (typeof limit !== 'number' || Number.isNaN(limit) || limit < 0) throw ktlError('KTL4015', { what: 'limit', expected: 'a number of kernels', got: describe(limit) })
  if (metadataFilter !== undefined && typeof metadataFilter !== 'function') {
    throw ktlError('KTL4015', { what: 'metadataFilter', expected: 'a function of KernelMetadata', got: describe(metadataFilter) })
  }
} // prettier-ignore

export function targetOf(args: RuntimeArguments | null | undefined, { cc }: DiscoveryOptions): TargetArch | null {
  return parseTarget(cc ?? args?.device.arch ?? 100)
}

export interface KernelCount {
  readonly target: TargetArch
  readonly instances: number
  /** Choices of schedules and orders that are no instances, by code of the reason. */
  readonly byRejection: Readonly<Record<string, number>>
}

/** How many instances there are for a target, without epilogues; KTL4015 for unknown targets. */
export function countKernels({ cc = 100, providers }: DiscoveryOptions = {}): KernelCount {
  const target = parseTarget(cc)
  if (target === null)
    throw ktlError('KTL4015', { what: 'cc', expected: Object.values(TARGET_CC).join(', '), got: describe(cc) })
  const selected = selectProviders(providers)
  let instances = 0
  const byRejection: Record<string, number> = {}
  for (const provider of selected) {
    if (!(provider instanceof KtlProvider)) {
      instances += [...provider.kernels(TARGET_CC[target], null, () => true)].length
      continue
    }
    for (const space of provider.spaces) {
      const count = space.count(target)
      instances += count.instances
      for (const { rejection, count: n } of count.rejections)
        byRejection[rejection.code] = (byRejection[rejection.code] ?? 0) + n
    }
  }
  return { target, instances, byRejection }
}
