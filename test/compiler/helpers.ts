/** From text to families, programs and values, for the tests of the compiler. */
import { parseEpilogue, parseProgram } from '../../grammar/parse.ts'
import { renderDiagnostics } from '../../grammar/render.ts'
import { KtlError, type Diagnostic, type Source } from '../../grammar/diagnostics.ts'
import { checkProgram, type CheckedProgram } from '../../compiler/check/program.ts'
import { bindKernel, type Binding } from '../../compiler/bind.ts'
import type { BoundEpilogue, EpilogueBinding } from '../../compiler/epilogue.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import type { TensorProgram } from '../../compiler/ir/tensor.ts'

/** All diagnostics of a file: syntax, and when there is no syntax error, everything else. */
export function diagnosticsOf(source: Source): readonly Diagnostic[] {
  const { program, diagnostics } = parseProgram(source)
  return diagnostics.length > 0 ? diagnostics : checkProgram(program, source).diagnostics
}

/** A file that must have no errors. */
export function checked(text: string): CheckedProgram {
  const source = { name: 'a.ktl', text }
  const { program, diagnostics } = parseProgram(source)
  const result = checkProgram(program, source)
  const errors = [...diagnostics, ...result.diagnostics].filter((d) => d.severity === 'error')
  if (errors.length > 0) throw new Error(renderDiagnostics(errors))
  return result.program
}

export function family(text: string, name?: string): KernelFamily {
  const { kernels } = checked(text)
  const found = name === undefined ? kernels[0] : kernels.find((kernel) => kernel.name === name)
  if (!found) throw new Error(`no kernel ${name}`)
  return found
}

export function program(text: string, binding?: Binding): TensorProgram {
  return bindKernel(family(text), binding)
}

export function epilogue(text: string, bindings: Record<string, EpilogueBinding> = {}): BoundEpilogue {
  const source = { name: '<epilogue>', text }
  const { epilogue: declaration, diagnostics } = parseEpilogue(source)
  if (diagnostics.length > 0) throw new Error(renderDiagnostics(diagnostics))
  return { declaration, source, bindings, axes: ['l', 'm', 'n'] }
}

export const scalar: EpilogueBinding = { kind: 'scalar', dtype: 'f32' }
export const tensor = (dtype: 'f32' | 'f16' | 'bf16', ...axes: string[]): EpilogueBinding => ({
  kind: 'tensor', dtype, axes, order: axes, divisibility: 'element',
}) // prettier-ignore

export const GEMM =
  'kernel gemm<T: f16 | bf16, O: f16 | bf16 | f32>(A: T[l?, m, k] | T[l?, k, m], B: T[l?, k, n] | T[l?, n, k]) -> D: O[l?, m, n] | O[l?, n, m] {\n' +
  '  acc: f32 = sum[k](A * B)\n  D = epilogue(acc)\n}\n'

/** The codes of the diagnostics that `act` throws; `none` when it throws nothing. */
export function codeOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    if (error instanceof KtlError) return error.diagnostics.map((d) => d.code).join(' ')
    throw error
  }
  return 'none'
}
