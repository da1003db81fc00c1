/** Who brings kernels: providers by name, and the classes of kernels that users register with them. */
import { ktlError } from '../../errors/fail.ts'
import { describe } from '../../errors/describe.ts'
import type { GenerateOptions, Kernel, KernelClass } from '../../kernels/kernel.ts'
import { checkClass, namesOf, type KernelLister } from './kernel_class.ts'
import { KtlProvider } from './ktl_provider.ts'
import { listOf } from '../../errors/given.ts'

/**
 * A named set of users' kernel classes. Kernels that come from elsewhere (a folder, a service) are listed by a subclass
 * with a `generateKernels` of its own. `registerProvider` puts it into every search; without that it is searched where
 * `getKernels({ providers: [provider] })` names it.
 *
 * @example
 * const mine = new Provider('mine')
 * const unregister = registerProvider(mine)
 * console.log(availableProviders(), getKernels(undefined, { providers: ['mine'] }).length)
 * unregister()
 */
export class Provider implements KernelLister {
  readonly name: string
  /** With the names of their kernels. */
  readonly #classes = new Map<KernelClass, ReadonlySet<string>>()

  constructor(name: string) {
    if (typeof name !== 'string' || name === '')
      throw ktlError('KTL4015', { what: 'name', expected: 'a text that is not empty', got: describe(name) })
    this.name = name
  }

  get kernelClasses(): readonly KernelClass[] {
    return [...this.#classes.keys()]
  }

  /**
   * Makes the instances of a class discoverable; the returned function takes them back. KTL4027 for what is no kernel
   * class, KTL4171 when it fails to list its kernels, KTL4172 for kernel names that are taken.
   */
  register<C extends KernelClass>(kernelClass: C): () => void {
    checkClass(kernelClass, this.#classes.has(kernelClass))
    const names = namesOf(kernelClass, this.name)
    const known = registered.includes(this) ? registered : [this]
    known.forEach((provider) => provider.#refuseTaken(names))
    this.#classes.set(kernelClass, names)
    return () => void this.#classes.delete(kernelClass)
  }

  /** Kernels of all its classes, each class in its own order. Throws what a class throws. */
  *generateKernels(options: GenerateOptions): Generator<Kernel> {
    for (const kernelClass of this.#classes.keys()) yield* kernelClass.generateKernels(options)
  }

  /** What fails on its own: each class, unless the provider lists kernels itself. */
  get listers(): readonly KernelLister[] {
    return this.generateKernels === Provider.prototype.generateKernels ? this.kernelClasses : [this]
  }

  /** KTL4172 for names that a class of this provider has. */
  #refuseTaken(names: ReadonlySet<string>): void {
    for (const [{ name }, own] of this.#classes) {
      const taken = [...names].filter((kernelName) => own.has(kernelName))
      if (taken.length > 0)
        throw ktlError('KTL4172', { names: taken, owner: `\`${name}\` (provider \`${this.name}\`)` })
    }
  }

  /** KTL4172 for a kernel name that both have. */
  static refuseShared(one: Provider, other: Provider): void {
    for (const names of one.#classes.values()) other.#refuseTaken(names)
  }
}

/**
 * Kernels written in CUDA C++ by users.
 *
 * @example
 * console.log(CudaProvider.name, CudaProvider.kernelClasses.length)
 */
export const CudaProvider = new Provider('cuda')
/**
 * Kernels of .ktl programs: the built-in library, and what `register` adds.
 *
 * @example
 * const program = loadSource({ name: 'twice.ktl', text: 'kernel twice(X: f32[n]) -> Y: f32[n] { Y = X + X }' })
 * const unregister = KtlProvider.register(program)
 * console.log(KtlProvider.name, getKernels(undefined, { providers: [KtlProvider], limit: 3 }).length)
 * unregister()
 */
export const ktlProvider = new KtlProvider()

/** Of users, registered. */
const registered: Provider[] = [CudaProvider]

/**
 * Puts a provider into every search, and its name into `availableProviders`; the returned function takes it out. KTL4174 for
 * a name that another one has, KTL4172 for kernel names that are taken.
 *
 * @example
 * const unregister = registerProvider(new Provider('lab'))
 * console.log(availableProviders())
 * unregister()
 */
export function registerProvider(provider: Provider): () => void {
  if (!(provider instanceof Provider))
    throw ktlError('KTL4027', { name: describe(provider), reason: 'it is no Provider' })
  if (availableProviders().includes(provider.name)) throw ktlError('KTL4174', { name: provider.name })
  for (const other of registered) Provider.refuseShared(provider, other)
  registered.push(provider)
  return () => {
    const index = registered.indexOf(provider)
    if (index >= 0) registered.splice(index, 1)
  }
}

const all = (): readonly (Provider | KtlProvider)[] => [ktlProvider, ...registered]

/**
 * Names of the providers that every search looks at.
 *
 * @example
 * console.log(availableProviders().includes('ktl'))
 */
export const availableProviders = (): readonly string[] => all().map((provider) => provider.name)

/** A provider, or the name of one. */
export type ProviderSpec = string | Provider | KtlProvider

/** KTL4028 for names that no provider has. */
export function selectProviders(wanted: readonly ProviderSpec[] | undefined): readonly (Provider | KtlProvider)[] {
  if (wanted === undefined) return all()
  return listOf('providers', wanted, 'providers').map((spec) => {
    if (spec instanceof Provider || spec instanceof KtlProvider) return spec
    const found = all().find((provider) => provider.name === spec)
    if (!found) throw ktlError('KTL4028', { name: describe(spec), known: availableProviders() })
    return found
  })
}
