import type { KernelMetadata } from '../metadata/kernel.ts'
import { ktlError } from '../fail.ts'
import { describe } from '../tensor_layout.ts'
import type { EpilogueArguments } from '../arguments/epilogue.ts'
import { Kernel, type KernelClass } from '../kernel.ts'
import { KtlProvider } from './ktl_provider.ts'

/** A named set of users' kernel classes. */
export class Provider {
  readonly name: string
  readonly #classes = new Set<KernelClass>()

  constructor(name: string) {
    this.name = name
  }

  /** Makes the instances of a class discoverable; the returned function takes them back. KTL4027 for other classes. */
  register<C extends KernelClass>(kernelClass: C): () => void {
    const name = typeof kernelClass === 'function' ? kernelClass.name : describe(kernelClass)
    const extendsKernel = typeof kernelClass === 'function' && kernelClass.prototype instanceof Kernel
    if (!extendsKernel) throw ktlError('KTL4027', { name, reason: 'it does not extend Kernel' })
    if (typeof kernelClass.generateKernels !== 'function')
      throw ktlError('KTL4027', { name, reason: 'it has no static generateKernels' })
    this.#classes.add(kernelClass)
    return () => void this.#classes.delete(kernelClass)
  }

  /** Instances for a compute capability, class by class, each in its own order. */
  *kernels(
    cc: number,
    epilogueArguments: EpilogueArguments | null,
    metadataFilter: (metadata: KernelMetadata) => boolean,
  ): Generator<Kernel> {
    for (const kernelClass of this.#classes)
      yield* kernelClass.generateKernels({ cc, epilogueArguments, metadataFilter })
  }
}

/** Kernels written in CUDA C++ by users. */
export const CudaProvider = new Provider('cuda')
/** Kernels of .ktl programs: the built-in library, and what `register` adds. */
export const ktlProvider = new KtlProvider()

const PROVIDERS: readonly (Provider | KtlProvider)[] = [ktlProvider, CudaProvider]
export const availableProviders = (): readonly string[] => PROVIDERS.map((provider) => provider.name)

export type ProviderSpec = string | Provider | KtlProvider

/** KTL4028 for names that no provider has. */
export function selectProviders(wanted: readonly ProviderSpec[] | undefined): readonly (Provider | KtlProvider)[] {
  if (wanted === undefined) return PROVIDERS
  return wanted.map((spec) => {
    if (spec instanceof Provider || spec instanceof KtlProvider) return spec
    const found = PROVIDERS.find((provider) => provider.name === spec)
    if (!found) throw ktlError('KTL4028', { name: describe(spec), known: availableProviders() })
    return found
  })
}
