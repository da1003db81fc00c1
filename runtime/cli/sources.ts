/** `.ktl` files named on the command line, read and checked. */
import { promises as fs } from 'node:fs'
import { text as readAll } from 'node:stream/consumers'
import { checkProgram, type CheckedProgram } from '../../compiler/check/program.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import { KtlError, type Diagnostic, type Source } from '../../grammar/diagnostics.ts'
import { parseProgram } from '../../grammar/parse.ts'
import { ktlError } from '../fail.ts'

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  EISDIR: 'it is a folder',
  EACCES: 'permission denied',
}

/** The reason of a file system error in words. */
export function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return REASONS[code ?? ''] ?? message
}

/** KTL4102 when the file cannot be read; `-` is standard input. */
export async function readSource(file: string): Promise<Source> {
  if (file === '-') return { name: '<stdin>', text: await readAll(process.stdin) }
  try {
    return { name: file, text: await fs.readFile(file, 'utf8') }
  } catch (error) {
    throw ktlError('KTL4102', { file, reason: reasonOf(error) })
  }
}

/** Everything there is to say about a file, in source order. */
export function checkSource(source: Source): { program: CheckedProgram; diagnostics: readonly Diagnostic[] } {
  const parsed = parseProgram(source)
  // Names in a tree with holes would be reported as missing.
  const broken = parsed.diagnostics.some((d) => d.severity === 'error')
  const checked = checkProgram(parsed.program, source)
  return { program: checked.program, diagnostics: broken ? parsed.diagnostics : [...parsed.diagnostics, ...checked.diagnostics] }
}

/** Reads and checks; errors are thrown together, warnings go to `report`. */
export async function loadProgram(file: string, report: (warnings: readonly Diagnostic[]) => void): Promise<CheckedProgram> {
  const { program, diagnostics } = checkSource(await readSource(file))
  if (diagnostics.some((d) => d.severity === 'error')) throw new KtlError(diagnostics)
  report(diagnostics)
  return program
}

/** The kernel of that name. KTL4105: there is none. */
export function namedKernel(program: CheckedProgram, name: string): KernelFamily {
  const family = program.kernels.find((kernel) => kernel.name === name)
  if (family) return family
  const known = program.kernels.map((kernel) => kernel.name)
  throw ktlError('KTL4105', { what: `kernel in ${program.source.name}`, name, known })
}

/** The kernels to work on: all, or the one that was named. */
export function chosenKernels(program: CheckedProgram, name: string | undefined): readonly KernelFamily[] {
  return name === undefined ? program.kernels : [namedKernel(program, name)]
}

/** The one kernel to work on. KTL4104: it was not named and there are several. */
export function oneKernel(program: CheckedProgram, name: string | undefined): KernelFamily {
  const [family, ...others] = chosenKernels(program, name)
  if (family && others.length === 0) return family
  const kernels = program.kernels.map((kernel) => kernel.name)
  if (kernels.length > 0) throw ktlError('KTL4104', { file: program.source.name, kernels })
  throw ktlError('KTL4105', { what: 'kernel', name: program.source.name, known: [] })
}
