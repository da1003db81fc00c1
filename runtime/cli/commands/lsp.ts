import type { AddCommand } from '../context.ts'
import { integerOption } from '../options.ts'

const CHANNELS = ['--stdio', '--node-ipc', '--socket', '--pipe']

export const addLsp: AddCommand = (program) => {
  program
    .command('lsp')
    .summary('the language server, for editors')
    .description(
      'Serves editors by the Language Server Protocol until they end it. It reads no files: editors send what they have open.',
    )
    .option('--stdio', 'over standard input and output; the default')
    .option('--node-ipc', 'over the channel of the Node process that started it')
    .option(
      '--socket <port>',
      'over a socket of this machine, at which the editor listens',
      integerOption('--socket', 1, 65_535),
    )
    .option('--pipe <name>', 'over a named pipe, at which the editor listens')
    .option('--clientProcessId <pid>', 'ends when that process has ended')
    .action(async () => {
      // The library reads the command line by itself, and knows no default.
      if (!process.argv.some((word) => CHANNELS.includes(word.split('=')[0]!))) process.argv.push('--stdio')
      // Loaded when it is asked for: other commands start without it.
      const { serveProcess } = await import('../../lsp/connection.ts')
      // What goes wrong in one request ends no session.
      process.removeAllListeners('unhandledRejection')
      process.on('unhandledRejection', (error) => console.error(error))
      process.on('uncaughtException', (error) => console.error(error))
      serveProcess()
    })
}
