/** The `ktl` command as a process of its own: its streams, Ctrl-C, and its exit status. */
import { internalError, runCommand } from './command.ts'
import { EXIT } from './exit.ts'
import { Output } from './output.ts'

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

process.exitCode = await runCommand(process.argv.slice(2), { out: new Output(), signal: interruptible().signal })
