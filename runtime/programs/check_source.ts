import { KeptKernels } from '../../compiler/check/kept.ts'
import { checkProgram, type CheckedProgram } from '../../compiler/check/program.ts'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import { KeptPieces } from '../../grammar/kept_pieces.ts'
import { parseProgram } from '../../grammar/parse.ts'

/** What is kept from one version of a text to the next. */
export class KeptText {
  readonly pieces = new KeptPieces()
  readonly kernels = new KeptKernels()
}

/** Everything there is to say about a `.ktl` text, in source order. `kept`: of the text before an edit. */
export function checkSource(
  source: Source,
  kept?: KeptText,
): { program: CheckedProgram; diagnostics: readonly Diagnostic[] } {
  const parsed = kept ? kept.pieces.parse(source) : parseProgram(source)
  // Names in a tree with holes would be reported as missing.
  const broken = parsed.diagnostics.some((d) => d.severity === 'error')
  const checked = checkProgram(parsed.program, source, kept?.kernels)
  return {
    program: checked.program,
    diagnostics: broken ? parsed.diagnostics : [...parsed.diagnostics, ...checked.diagnostics],
  }
}
