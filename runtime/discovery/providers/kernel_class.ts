/** Classes of kernels that users bring: what they must have, and what they may do wrong without harm to the others. */
import { ARCH_NAMES, ARCHS, type TargetArch } from '../../../compiler/archs.ts'
import { ktlError } from '../../errors/fail.ts'
import { Kernel, reasonOf, type GenerateOptions, type KernelClass } from '../../kernels/kernel.ts'
import { KernelMetadata, setOwner } from '../../metadata/kernel.ts'
import { refuse, type Status, type StatusRefused } from '../../errors/status.ts'
import { describe } from '../../errors/describe.ts'
import type { RuntimeArguments } from '../../arguments/base.ts'
import type { Estimate } from '../ranking/rank.ts'

/** Whatever lists kernels: a class of kernels, or a whole provider. */
export interface KernelLister {
  readonly name: string
  generateKernels(options: GenerateOptions): Iterable<Kernel>
}

/** `Provider`, as far as its kernels are collected. */
interface Collectable {
  readonly name: string
  readonly listers: readonly KernelLister[]
}

/** Methods that a class has to implement, or may. */
const REQUIRED = ['supportsArguments', 'compile', 'launch', 'getWorkspaceSize'] as const
const OPTIONAL = ['estimate'] as const

/** KTL4027 unless the class has what `Kernel` asks for. */
export function checkClass(kernelClass: unknown, known: boolean): void {
  const isClass = typeof kernelClass === 'function'
  const name = isClass ? kernelClass.name : describe(kernelClass)
  const refused = (reason: string): Error => ktlError('KTL4027', { name: name || 'a class without a name', reason })
  if (!isClass || !(kernelClass.prototype instanceof Kernel)) throw refused('it does not extend Kernel')
  if (name === '') throw refused('its kernels name it in their metadata')
  if (known) throw refused('it is registered already')
  const { prototype } = kernelClass as { readonly prototype: Readonly<Record<string, unknown>> }
  const missing = REQUIRED.filter((method) => typeof prototype[method] !== 'function')
  if (typeof (kernelClass as Partial<KernelClass>).generateKernels !== 'function')
    missing.push('static generateKernels' as never)
  if (missing.length > 0) throw refused(`it has no ${missing.join(', no ')}`)
  const wrong = OPTIONAL.find((method) => prototype[method] !== undefined && typeof prototype[method] !== 'function')
  if (wrong) throw refused(`its ${wrong} is no method`)
}

/** Names that kernels of ktl have. */
const isReserved = (kernelName: string): boolean => kernelName.startsWith('ktl.')
const KTL = 'ktl, whose kernels begin with `ktl.`'

/** Names of the kernels that a class lists for any target. KTL4171 when it fails, KTL4172 for two of one name. */
export function namesOf(kernelClass: KernelClass, provider: string): ReadonlySet<string> {
  const names = new Set<string>()
  for (const cc of new Set(ARCH_NAMES.map((arch) => ARCHS[arch].cc))) {
    const listed = listedBy(kernelClass, provider, {
      cc,
      metadataFilter: () => true,
      epilogueArguments: null,
      args: null,
    })
    if ('failure' in listed) throw ktlError('KTL4171', listed.failure)
    const own = listed.map((kernel) => kernel.metadata.kernelName)
    const twice = own.filter((name, i) => own.indexOf(name) !== i)
    if (twice.length > 0)
      throw ktlError('KTL4172', { names: twice, owner: `another kernel of \`${kernelClass.name}\`` })
    own.forEach((name) => names.add(name))
  }
  const reserved = [...names].filter(isReserved)
  if (reserved.length > 0) throw ktlError('KTL4172', { names: reserved, owner: KTL })
  return names
}

interface Failed {
  readonly failure: { readonly name: string; readonly provider: string; readonly reason: string }
}

/** What a class or a provider lists, as far as the filter lets it through; or why none of it can be used. */
function listedBy(lister: KernelLister, provider: string, options: GenerateOptions): readonly Kernel[] | Failed {
  // An error of the caller's own filter is the caller's.
  let ofFilter: { readonly error: unknown } | null = null
  const metadataFilter = (metadata: KernelMetadata): boolean => {
    try {
      return options.metadataFilter(metadata)
    } catch (error) {
      ofFilter = { error }
      throw error
    }
  }
  try {
    const kernels: Kernel[] = []
    for (const kernel of lister.generateKernels({ ...options, metadataFilter })) {
      if (!(kernel instanceof Kernel)) throw new TypeError(`generateKernels gave ${describe(kernel)}, not a Kernel`)
      if (!(kernel.metadata instanceof KernelMetadata))
        throw new TypeError(`a kernel has ${describe(kernel.metadata)} for its KernelMetadata`)
      setOwner(kernel.metadata, provider)
      if (metadataFilter(kernel.metadata)) kernels.push(kernel)
    }
    return kernels
  } catch (error) {
    if (ofFilter !== null && (ofFilter as { error: unknown }).error === error) throw error
    return { failure: { name: lister.name, provider, reason: reasonOf(error) } }
  }
}

/** What classes are asked with. */
export const generateOptions = (
  args: RuntimeArguments | null,
  target: TargetArch,
  metadataFilter: GenerateOptions['metadataFilter'] = () => true,
): GenerateOptions => ({ cc: ARCHS[target].cc, metadataFilter, epilogueArguments: args?.epilogue ?? null, args })

export interface Collected {
  readonly kernels: readonly Kernel[]
  /** Classes that failed (KTL4171), and kernels whose names others have (KTL4172). */
  readonly failures: readonly StatusRefused[]
}

/** All kernels of the users' providers, each class apart from the others: one that fails takes nothing but its own away. */
export function collectKernels(providers: readonly Collectable[], options: GenerateOptions): Collected {
  const kernels = new Map<string, Kernel>()
  const failures: StatusRefused[] = []
  for (const provider of providers) {
    for (const lister of provider.listers) {
      const listed = listedBy(lister, provider.name, options)
      if ('failure' in listed) failures.push(refuse('KTL4171', listed.failure))
      else for (const kernel of listed) add(kernel, provider)
    }
  }
  return { kernels: [...kernels.values()], failures }

  function add(kernel: Kernel, { name: provider }: Collectable): void {
    const { kernelName, kernelClass } = kernel.metadata
    const first = kernels.get(kernelName)
    if (!first && !isReserved(kernelName)) return void kernels.set(kernelName, kernel)
    const owner = first ? `\`${first.metadata.kernelClass.name}\`` : KTL
    const leftOut = `so that one of \`${kernelClass.name}\` (provider \`${provider}\`) is left out`
    failures.push(refuse('KTL4172', { names: [kernelName], owner: `${owner}, ${leftOut}` }))
  }
}

/** `kernel.supports`, which a subclass may have overridden. */
export function supportsSafely(kernel: Kernel, args: RuntimeArguments): Status {
  try {
    return kernel.supports(args)
  } catch (error) {
    return refuse('KTL4173', { name: kernel.metadata.kernelName, method: 'supports', reason: reasonOf(error) })
  }
}

/** `kernel.estimate`; without one, or with one that fails, why the kernel stands last. */
export function estimateSafely(kernel: Kernel, args: RuntimeArguments): Estimate | string {
  try {
    const estimate = kernel.estimate?.(args)
    if (!estimate) return 'no estimate'
    if (estimate.microseconds >= 0 && typeof estimate.text === 'string') return estimate
    return `no estimate: it gave ${describe(estimate.microseconds)} microseconds`
  } catch (error) {
    return `no estimate: it failed (${reasonOf(error)})`
  }
}
