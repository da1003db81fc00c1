/** `.ktl` files named on the command line, read and checked. */
import { text as readAll } from 'node:stream/consumers'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import { ktlError } from '../errors/fail.ts'
import { loadSource, type CallableKernel, type KtlProgram } from '../programs/program.ts'
import { LIMITS } from '../../grammar/limits.ts'
import { readWhole } from '../files/read_file.ts'

/** KTL4102 when the file cannot be read; `-` is standard input. */
export async function readSource(file: string): Promise<Source> {
  if (file === '-') return { name: '<stdin>', text: await readAll(process.stdin) }
  const unreadable = (file: string, reason: string, cause: unknown) => ktlError('KTL4102', { file, reason }, { cause })
  return { name: file, text: (await readWhole(file, 4 * LIMITS.sourceLength, unreadable)).toString() }
}

/** Reads and checks; errors are thrown together, warnings go to `report`. */
export async function loadProgram(
  file: string,
  report: (warnings: readonly Diagnostic[]) => void,
): Promise<KtlProgram> {
  const program = loadSource(await readSource(file))
  report(program.diagnostics)
  return program
}

/** The kernel of that name. KTL4105: there is none. */
export function namedKernel({ kernels, source }: KtlProgram, name: string): CallableKernel {
  if (Object.hasOwn(kernels, name)) return kernels[name]!
  throw ktlError('KTL4105', { what: `kernel in ${source.name}`, name, known: Object.keys(kernels) })
}

/** The kernels to work on: all, or the one that was named. */
export function chosenKernels(program: KtlProgram, name: string | undefined): readonly CallableKernel[] {
  return name === undefined ? Object.values(program.kernels) : [namedKernel(program, name)]
}

/** The one kernel to work on. KTL4104: it was not named and there are several; KTL4105: there is none at all. */
export function oneKernel(program: KtlProgram, name: string | undefined): CallableKernel {
  const [kernel, ...others] = chosenKernels(program, name)
  if (kernel && others.length === 0) return kernel
  const kernels = Object.keys(program.kernels)
  if (kernels.length > 0) throw ktlError('KTL4104', { file: program.source.name, kernels })
  throw ktlError('KTL4105', { what: 'kernel in', name: program.source.name, known: [] })
}
