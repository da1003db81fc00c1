/** Asking for kernels: which support the arguments, best first; how many there are; why others do not. */
import { ARCH_NAMES, ARCHS, type TargetArch } from '../../compiler/archs.ts'
import { ktlError } from '../errors/fail.ts'
import { describe } from '../errors/describe.ts'
import { RuntimeArguments } from '../arguments/base.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { KernelMetadata } from '../metadata/kernel.ts'
import { controlsFilter } from './filters/controls.ts'
import { explainKernels } from './explain.ts'
import { collectKernels, generateOptions, supportsSafely } from './providers/kernel_class.ts'
import { KtlProvider } from './providers/ktl_provider.ts'
import { KernelList } from './kernel_list.ts'
import { Provider, selectProviders, type ProviderSpec } from './providers/provider.ts'
import { declaredSources, inSequence, ranked, rankedSources, type Wanted } from './sources.ts'
import { parseTarget, type TargetSpec } from './filters/target.ts'
import { Filter, type Where } from './filters/where.ts'
import { optionsOf } from '../errors/given.ts'

/** What is looked at. */
export interface DiscoveryOptions {
  /** Compute capability or target. Default: that of the arguments' device, else 100. */
  readonly cc?: TargetSpec
  /** Default: all. */
  readonly providers?: readonly ProviderSpec[]
}

/** Which kernels `getKernels` lists. */
export interface GetKernelsOptions extends DiscoveryOptions {
  readonly limit?: number
  /** Conditions on the metadata, checked before metadata are made. */
  readonly where?: Where
  readonly metadataFilter?: (metadata: KernelMetadata) => boolean
}

/**
 * Kernels that support `args` on the target, best first; without arguments every kernel there is, in the order of
 * declaration. Never throws for well-formed arguments.
 *
 * @example
 * const A = device.tensor('f16', [64, 32], 1)
 * const B = device.tensor('f16', [32, 48], 1)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 48]) })
 * const kernels = getKernels(args, { cc: 100, metadataFilter: (m) => m.design.kind === 'sm100', limit: 5 })
 * console.log(kernels.length, kernels[0]!.supports(args).ok) // 5 true
 */
export function getKernels(args?: RuntimeArguments | null, options: GetKernelsOptions = {}): KernelList {
  optionsOf('options', options)
  checkArguments(args, options)
  const filter = options.where === undefined ? null : new Filter(options.where)
  const target = targetOf(args, options)
  const providers = selectProviders(options.providers)
  const reason = (): string => whyEmpty(args, options)
  if (target === null) return KernelList.lazily(0, noKernel, reason)
  const accepts = accepting(filter, options.metadataFilter)
  const others = usersKernels(providers, args ?? null, target, accepts)
  const controls = controlsFilter(args?.performance ?? null)
  const wanted: Wanted = { target, filter, controls, metadataFilter: options.metadataFilter ?? null }
  const ktl = providers.filter((provider) => provider instanceof KtlProvider)
  const sources = args ? rankedSources(ktl, others, args, wanted) : declaredSources(ktl, others, wanted)
  const { length, kernel } = args ? ranked(sources) : inSequence(sources)
  return KernelList.lazily(Math.min(length, Math.floor(options.limit ?? Infinity)), kernel, reason)
}

const noKernel = (): never => {
  throw new RangeError('no kernel')
}

/** In one predicate of whole metadata: for kernels that are not ours. */
function accepting(filter: Filter | null, metadataFilter: GetKernelsOptions['metadataFilter']) {
  return (metadata: KernelMetadata): boolean =>
    (filter === null ||
      (filter.operands(metadata.operands) &&
        filter.design((name) => (metadata.design as unknown as Record<string, unknown>)[name]))) &&
    (metadataFilter === undefined || metadataFilter(metadata))
}

function usersKernels(
  providers: readonly (Provider | KtlProvider)[],
  args: RuntimeArguments | null,
  target: TargetArch,
  accepts: (metadata: KernelMetadata) => boolean,
): Kernel[] {
  const { kernels } = collectKernels(usersOf(providers), generateOptions(args, target, accepts))
  return kernels.filter(
    (kernel) => kernel.metadata.targets.includes(target) && (args === null || supportsSafely(kernel, args).ok),
  )
}

const usersOf = (providers: readonly (Provider | KtlProvider)[]): readonly Provider[] =>
  providers.filter((provider) => provider instanceof Provider)

function whyEmpty(args: RuntimeArguments | null | undefined, options: GetKernelsOptions): string {
  if (!args) {
    const target = parseTarget(options.cc ?? 100)
    const failed = target
      ? collectKernels(usersOf(selectProviders(options.providers)), generateOptions(null, target)).failures
      : []
    const none = `no kernel is made for ${describe(options.cc ?? 100)}, or the filter refuses all`
    return [none, ...failed.map(({ code, error }) => `${code}  ${error}`)].join('\n')
  }
  const explanation = explainKernels(args, options)
  if (explanation.supported > 0) {
    const filter = options.where === undefined ? 'metadataFilter' : 'where, metadataFilter'
    return `${filter} (or limit) refuses all ${explanation.supported} kernels that support the arguments`
  }
  return explanation.toString()
}

function checkArguments(args: unknown, { limit = 0, metadataFilter }: GetKernelsOptions): void {
  if (args !== undefined && args !== null && !(args instanceof RuntimeArguments)) {
    throw ktlError('KTL4024', {
      operand: 'args',
      expected: 'GemmArguments, KernelArguments or ElementwiseArguments',
      got: describe(args),
    })
  }
  if (typeof limit !== 'number' || Number.isNaN(limit) || limit < 0)
    throw ktlError('KTL4015', { what: 'limit', expected: 'a number of kernels', got: describe(limit) })
  if (metadataFilter !== undefined && typeof metadataFilter !== 'function') {
    throw ktlError('KTL4015', {
      what: 'metadataFilter',
      expected: 'a function of KernelMetadata',
      got: describe(metadataFilter),
    })
  }
}

export function targetOf(args: RuntimeArguments | null | undefined, { cc }: DiscoveryOptions): TargetArch | null {
  return parseTarget(cc ?? args?.device.arch ?? 100)
}

/** What `countKernels` counted. */
export interface KernelCount {
  readonly target: TargetArch
  readonly instances: number
  /** Choices of schedules and orders that are no instances, by code of the reason. */
  readonly byRejection: Readonly<Record<string, number>>
}

/** Which kernels `countKernels` counts. */
export interface CountOptions extends DiscoveryOptions {
  /** Counts instances that meet these conditions; `byRejection` counts without them. */
  readonly where?: Where
}

/**
 * How many instances there are for a target, without epilogues; KTL4015 for unknown targets.
 *
 * @example
 * const where = { design: { kind: 'simt' }, operands: { A: { dtype: 'f64' } } } as const
 * console.log(countKernels({ cc: 80, where }).instances) // 112
 */
export function countKernels(options: CountOptions = {}): KernelCount {
  const { cc = 100, providers, where } = optionsOf('options', options)
  const target = parseTarget(cc)
  if (target === null)
    throw ktlError('KTL4015', {
      what: 'cc',
      expected: ARCH_NAMES.map((arch) => ARCHS[arch].cc).join(', '),
      got: describe(cc),
    })
  const filter = where === undefined ? null : new Filter(where)
  let instances = 0
  const byRejection: Record<string, number> = {}
  for (const provider of selectProviders(providers)) {
    if (!(provider instanceof KtlProvider)) {
      const accepts = accepting(filter, undefined)
      instances += collectKernels([provider], generateOptions(null, target, accepts)).kernels.length
      continue
    }
    for (const space of provider.spaces) {
      for (const counted of space.counted(target)) {
        instances += filter === null ? counted.instances : space.countPassing(target, counted, filter)
        for (const { rejection, count } of counted.rejections)
          byRejection[rejection.code] = (byRejection[rejection.code] ?? 0) + count
      }
    }
  }
  return { target, instances, byRejection }
}
