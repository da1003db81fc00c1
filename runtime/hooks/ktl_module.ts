/** From the text of a `.ktl` file to the JavaScript that `import` gets: what the Node hook and the bundlers share. */
import { emitModule } from '../../codegen/typescript/module.ts'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import { checkSource } from '../programs/check_source.ts'

export interface KtlModule {
  /** null: the file has errors. */
  readonly code: string | null
  /** Declarations, for `NAME.d.ktl.ts`. */
  readonly declarations: string | null
  readonly diagnostics: readonly Diagnostic[]
}

export function ktlModule(source: Source): KtlModule {
  const { program, diagnostics } = checkSource(source)
  if (diagnostics.some(({ severity }) => severity === 'error')) return { code: null, declarations: null, diagnostics }
  const [code, declarations] = [emitModule(program, { mode: 'js' }), emitModule(program, { mode: 'dts' })]
  return { code, declarations, diagnostics }
}
