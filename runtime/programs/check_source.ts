import type { KeptKernels } from '../../compiler/check/kept.ts'
import { checkProgram, type CheckedProgram } from '../../compiler/check/program.ts'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import { parseProgram } from '../../grammar/parse.ts'

/** Everything there is to say about a `.ktl` text, in source order. `kept`: kernels of the text before an edit. */
export function checkSource(
  source: Source,
  kept?: KeptKernels,
): { program: CheckedProgram; diagnostics: readonly Diagnostic[] } {
  const parsed = parseProgram(source)
  // Names in a tree with holes would be reported as missing.
  const broken = parsed.diagnostics.some((d) => d.severity === 'error')
  const checked = checkProgram(parsed.program, source, kept)
  return {
    program: checked.program,
    diagnostics: broken ? parsed.diagnostics : [...parsed.diagnostics, ...checked.diagnostics],
  }
}
