/** The `ktl` command: parses, runs, and turns whatever happens into an exit status. */
import { CommanderError } from 'commander'
import { diagnose } from '../../grammar/catalogue/index.ts'
import { KtlError } from '../../grammar/diagnostics.ts'
import { EXIT, exitCodeOf, type ExitCode } from './exit.ts'
import { Output } from './output.ts'
import { createProgram, usageError } from './program.ts'

async function main(argv: readonly string[]): Promise<ExitCode> {
  const out = new Output()
  // Known before parsing: errors of parsing are records too.
  out.json = argv.includes('--json')
  const { signal } = interruptible()
  let code: ExitCode = EXIT.pass
  try {
    await createProgram({ out, signal }, (ended) => (code = ended)).parseAsync(argv, { from: 'user' })
    return signal.aborted ? EXIT.interrupted : code
  } catch (error) {
    return report(error, out, argv, signal)
  }
}

function report(error: unknown, out: Output, argv: readonly string[], signal: AbortSignal): ExitCode {
  if (error instanceof CommanderError) {
    const usage = usageError(error, argv)
    return usage === null ? EXIT.pass : report(usage, out, argv, signal)
  }
  const code = exitCodeOf(error, signal)
  if (code === EXIT.interrupted) out.note('ktl: interrupted')
  else if (error instanceof KtlError) out.diagnostics(error.diagnostics)
  else out.diagnostics([internalError(error)])
  return code
}

/** Short text; the stack is for those who ask. */
function internalError(error: unknown) {
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error)
  const reason = (process.env.KTL_DEBUG ? stack : error instanceof Error ? error.message : stack).trim()
  return diagnose('KTL9001', { source: null, span: null, reason })
}

/** The first Ctrl-C asks for an end, the second takes it. */
function interruptible(): AbortController {
  const controller = new AbortController()
  process.on('SIGINT', () => {
    if (controller.signal.aborted) process.exit(EXIT.interrupted)
    controller.abort(new Error('interrupted'))
  })
  return controller
}

// `ktl list | head` closes the pipe: nobody is left to write for.
process.stdout.on('error', (error: NodeJS.ErrnoException) =>
  process.exit(error.code === 'EPIPE' ? EXIT.pass : EXIT.environment),
)

// A promise that nobody waits for is a mistake of ktl like any other.
process.on('unhandledRejection', (error) => {
  new Output().diagnostics([internalError(error)])
  process.exit(EXIT.internal)
})

process.exitCode = await main(process.argv.slice(2))
