/** `ktl ARGS`, wherever it runs: parses, runs, and turns whatever happens into an exit status. */
import { CommanderError } from 'commander'
import { diagnose } from '../../grammar/catalogue/index.ts'
import { KtlError, type Diagnostic } from '../../grammar/diagnostics.ts'
import type { Context } from './context.ts'
import { EXIT, exitCodeOf, type ExitCode } from './exit.ts'
import { createProgram, usageError } from './program.ts'

export async function runCommand(argv: readonly string[], context: Context): Promise<ExitCode> {
  const { out, signal } = context
  // Known before parsing: errors of parsing are records too.
  out.json = argv.includes('--json')
  let code: ExitCode = EXIT.pass
  try {
    await createProgram(context, (ended) => (code = ended)).parseAsync(argv, { from: 'user' })
    return signal.aborted ? EXIT.interrupted : code
  } catch (error) {
    return report(error, argv, context)
  }
}

function report(error: unknown, argv: readonly string[], context: Context): ExitCode {
  const { out, signal } = context
  if (error instanceof CommanderError) {
    const usage = usageError(error, argv)
    return usage === null ? EXIT.pass : report(usage, argv, context)
  }
  const code = exitCodeOf(error, signal)
  if (code === EXIT.interrupted) out.note('ktl: interrupted')
  else if (error instanceof KtlError) out.diagnostics(error.diagnostics)
  else out.diagnostics([internalError(error)])
  return code
}

/** Short text; the stack is for those who ask. */
export function internalError(error: unknown): Diagnostic {
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error)
  const reason = (process.env.KTL_DEBUG ? stack : error instanceof Error ? error.message : stack).trim()
  return diagnose('KTL9001', { source: null, span: null, reason })
}
