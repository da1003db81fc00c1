import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { checkProgram, type CheckedProgram } from '../compiler/check/program.ts'
import type { KernelFamily } from '../compiler/family.ts'
import { KtlError, type Diagnostic, type Source } from '../grammar/diagnostics.ts'
import { parseProgram } from '../grammar/parse.ts'
import type { NamedEpilogue } from './arguments/epilogue.ts'
import { KernelArguments, type KernelBindings } from './arguments/kernel.ts'
import { ktlProvider } from './discovery/provider.ts'
import type { KernelList } from './discovery/kernel_list.ts'
import { getKernels, type GetKernelsOptions } from './discovery/query.ts'
import { parseTarget, type TargetSpec } from './discovery/target.ts'
import { ktlError } from './fail.ts'
import type { KernelLaunchOptions, RunResult } from './kernel.ts'
import { KtlKernel } from './kernel_ktl.ts'
import type { Artifact } from './artifact.ts'
import { describe } from './tensor_layout.ts'

/** Call it with operands and scalars by name: the best kernel for them is found, compiled and run. */
export interface CallableKernel {
  (bindings: KernelBindings, options?: KernelLaunchOptions<Artifact>): Promise<RunResult>
  readonly family: KernelFamily
  /** Kernels that support the bindings, best first. */
  getKernels(bindings: KernelBindings, options?: GetKernelsOptions): KernelList
  /** Every instance for a target (default 100), lazily. */
  getInstances(options?: { readonly cc?: TargetSpec }): Generator<KtlKernel>
}

/** A checked `.ktl` file. */
export interface KtlProgram {
  readonly source: Source
  readonly checked: CheckedProgram
  readonly kernels: Readonly<Record<string, CallableKernel>>
  readonly epilogues: Readonly<Record<string, NamedEpilogue>>
  /** Warnings. */
  readonly diagnostics: readonly Diagnostic[]
}

/**
 * Reads and checks a `.ktl` file, or a text with a name for messages. Throws a KtlError with every diagnostic when
 * there is an error, and the file system's own error when the file cannot be read.
 */
export async function loadKtl(
  input: string | URL | { readonly source: string; readonly name?: string },
): Promise<KtlProgram> {
  if (typeof input === 'string' || input instanceof URL) {
    const name = input instanceof URL ? input.pathname : path.relative('.', input) || input
    return loadSource({ name, text: await readFile(input, 'utf8') })
  }
  if (typeof input !== 'object' || input === null || typeof input.source !== 'string') {
    throw ktlError('KTL4015', { what: 'loadKtl', expected: 'a path or { source, name }', got: describe(input) })
  }
  return loadSource({ name: input.name ?? '<ktl>', text: input.source })
}

/** The same for a text at hand. */
export function loadSource(source: Source): KtlProgram {
  const { program, diagnostics: syntax } = parseProgram(source)
  const { program: checked, diagnostics: meaning } = checkProgram(program, source)
  // What the parser could not read has no meaning to complain about.
  const broken = syntax.some((d) => d.severity === 'error')
  const diagnostics = broken ? syntax : [...syntax, ...meaning]
  if (diagnostics.some((d) => d.severity === 'error')) throw new KtlError(diagnostics)
  const kernels = Object.fromEntries(checked.kernels.map((family) => [family.name, callable(family)]))
  const epilogues = Object.fromEntries(
    [...checked.epilogues].map(([name, declaration]) => [name, namedEpilogue(name, declaration)]),
  )
  function namedEpilogue(name: string, declaration: NamedEpilogue['declaration']): NamedEpilogue {
    return Object.freeze({ kind: 'namedEpilogue', name, declaration, source, epilogues: checked.epilogues })
  }
  return { source, checked, kernels: Object.freeze(kernels), epilogues: Object.freeze(epilogues), diagnostics }
}

/** Every instance of every kernel joins discovery, until the returned function is called. */
export function register(program: KtlProgram): () => void {
  const families = Object.values(program.kernels).map((kernel) => kernel.family)
  families.forEach((family) => ktlProvider.add(family))
  return () => families.forEach((family) => ktlProvider.remove(family))
}

function callable(family: KernelFamily): CallableKernel {
  const args = (bindings: KernelBindings): KernelArguments => new KernelArguments({ family }, bindings)
  const find = (bindings: KernelBindings, options?: GetKernelsOptions): KernelList =>
    getKernels(args(bindings), options)
  const call = async (bindings: KernelBindings, options: KernelLaunchOptions<Artifact> = {}): Promise<RunResult> => {
    const given = args(bindings)
    const kernels = getKernels(given, { limit: 1 })
    const [kernel] = kernels
    if (!(kernel instanceof KtlKernel)) {
      throw ktlError('KTL4042', {
        what: `these arguments of \`${family.name}\``,
        reasons: kernels.why?.split('\n').slice(1, 6) ?? [],
      })
    }
    return kernel.run(given, { ...options, assumeSupportedArgs: true })
  }
  function* instances({ cc = 100 }: { readonly cc?: TargetSpec } = {}): Generator<KtlKernel> {
    const target = parseTarget(cc)
    if (target) for (const planned of ktlProvider.spaceOf(family).instances(target)) yield new KtlKernel(planned)
  }
  Object.defineProperty(call, 'name', { value: family.name })
  return Object.assign(call, { family, getKernels: find, getInstances: instances })
}
