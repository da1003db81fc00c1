import path from 'node:path'
import type { CheckedProgram } from '../../compiler/check/program.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import { KtlError, type Diagnostic, type Source } from '../../grammar/diagnostics.ts'
import type { NamedEpilogue } from '../arguments/epilogue.ts'
import { KernelArguments, type KernelBindings } from '../arguments/kernel.ts'
import { checkSource } from './check_source.ts'
import { ktlProvider } from '../discovery/providers/provider.ts'
import type { Device } from '../devices/device.ts'
import type { KernelList } from '../discovery/kernel_list.ts'
import { getKernels, type GetKernelsOptions } from '../discovery/query.ts'
import { parseTarget, type TargetSpec } from '../discovery/filters/target.ts'
import { ktlError } from '../errors/fail.ts'
import type { KernelLaunchOptions, RunResult } from '../kernels/kernel.ts'
import { KtlKernel } from '../kernels/ktl_kernel.ts'
import type { Artifact } from '../artifacts/artifact.ts'
import { describe } from '../errors/describe.ts'
import { LIMITS } from '../../grammar/limits.ts'
import { optionsOf } from '../errors/given.ts'
import { readWhole } from '../files/read_file.ts'

/** How a call of a `.ktl` kernel by name runs. */
export interface CallOptions
  extends KernelLaunchOptions<Artifact>, Pick<GetKernelsOptions, 'where' | 'metadataFilter'> {
  /** Where arrays in host memory are copied to; needed when no operand is a tensor of a device. Default: the stream's. */
  readonly device?: Device
}

/** Call it with operands and scalars by name: the best kernel for them is found, compiled and run. */
export interface CallableKernel {
  (bindings: KernelBindings, options?: CallOptions): Promise<RunResult>
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
 * there is an error, and KTL6072 when the file cannot be read.
 *
 * @example
 * const { kernels } = await loadKtl({ name: 'add.ktl', source: 'kernel add(X: f32[n], Y: f32[n]) -> Z: f32[n] { Z = X + Y }' })
 * const Z = device.empty('f32', [2])
 * await kernels.add!({ X: device.tensor('f32', [2], [1, 2]), Y: device.tensor('f32', [2], [10, 20]), Z })
 * console.log([...(await Z.toArray())]) // [ 11, 22 ]
 */
export async function loadKtl(
  input: string | URL | { readonly source: string; readonly name?: string },
): Promise<KtlProgram> {
  if (typeof input === 'string' || input instanceof URL) {
    const name = input instanceof URL ? input.pathname : path.relative('.', input) || input
    return loadSource({ name, text: (await readWhole(input, 4 * LIMITS.sourceLength)).toString() })
  }
  if (typeof input !== 'object' || input === null || typeof input.source !== 'string') {
    throw ktlError('KTL4015', { what: 'loadKtl', expected: 'a path or { source, name }', got: describe(input) })
  }
  return loadSource({ name: input.name ?? '<ktl>', text: input.source })
}

/**
 * The same for a text at hand.
 *
 * @example
 * const program = loadSource({ name: 'neg.ktl', text: 'kernel negative(X: f32[n]) -> Y: f32[n] { Y = -X }' })
 * console.log(Object.keys(program.kernels)) // [ 'negative' ]
 */
export function loadSource(source: Source): KtlProgram {
  if (typeof source?.text !== 'string' || typeof source.name !== 'string')
    throw ktlError('KTL4015', { what: 'loadSource', expected: '{ name, text }', got: describe(source) })
  const { program: checked, diagnostics } = checkSource(source)
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

/**
 * Every instance of every kernel joins discovery, until the returned function is called.
 *
 * @example
 * const text = 'kernel mine(A: f16[m, k], B: f16[k, n]) -> D: f32[m, n] { D = sum[k](A * B) }'
 * const unregister = register(loadSource({ name: 'mine.ktl', text }))
 * const A = device.tensor('f16', [64, 32], 1)
 * const B = device.tensor('f16', [32, 48], 1)
 * const args = new GemmArguments({ A, B, out: device.empty('f32', [64, 48]) })
 * console.log(getKernels(args).some(({ metadata }) => metadata.kernelName.startsWith('ktl.mine_'))) // true
 * unregister()
 */
export function register(program: KtlProgram): () => void {
  return ktlProvider.register(program)
}

export function callable(family: KernelFamily): CallableKernel {
  const args = (bindings: KernelBindings): KernelArguments => new KernelArguments({ family }, bindings)
  const find = (bindings: KernelBindings, options?: GetKernelsOptions): KernelList =>
    getKernels(args(bindings), options)
  const call = async (bindings: KernelBindings, options: CallOptions = {}): Promise<RunResult> => {
    const { stream, device = stream?.device, where, metadataFilter } = optionsOf('options', options)
    const given = new KernelArguments({ family }, bindings, { device })
    const kernels = getKernels(given, { limit: 1, ...(where && { where }), ...(metadataFilter && { metadataFilter }) })
    const [kernel] = kernels
    if (!(kernel instanceof KtlKernel)) {
      throw ktlError('KTL4042', {
        what: `these arguments of \`${family.name}\``,
        reasons: kernels.why?.split('\n').slice(1, 6) ?? [],
      })
    }
    return kernel.run(given, { ...options, assumeSupportedArgs: true })
  }
  function* instances(options: { readonly cc?: TargetSpec } = {}): Generator<KtlKernel> {
    const target = parseTarget(optionsOf('options', options).cc ?? 100)
    if (target) for (const planned of ktlProvider.spaceOf(family).instances(target)) yield new KtlKernel(planned)
  }
  Object.defineProperty(call, 'name', { value: family.name })
  return Object.assign(call, { family, getKernels: find, getInstances: instances })
}
