import { spawn } from 'node:child_process'
import { realpathSync } from 'node:fs'
import path from 'node:path'
import { servePlayground } from '../../playground/server.ts'
import type { AddCommand, Context } from '../context.ts'
import { integerOption } from '../options.ts'

interface PlaygroundOptions {
  readonly port: number
  readonly open: boolean
}

export const addPlayground: AddCommand = (program, context) => {
  program
    .command('playground')
    .summary('open a page to write and run kernels in')
    .description(
      'Serves a page on this machine, and opens it: a kernel, what is made of it at every stage, its timeline, and its results. Ctrl-C ends it.',
    )
    .option('--port <n>', 'of 127.0.0.1; 0: a free one', integerOption('--port', 0, 65_535), 0)
    .option('--no-open', 'print the address only')
    .action((options: PlaygroundOptions) => playground(options, context))
}

async function playground({ port, open }: PlaygroundOptions, { out, signal }: Context): Promise<void> {
  // Itself; the build puts the pages beside it.
  const command = realpathSync(process.argv[1]!)
  const pages = path.join(path.dirname(command), 'playground')
  const { url, close } = await servePlayground({ port, pages, command })
  out.record('playground', { url })
  out.line(url)
  if (open) spawn(process.platform === 'darwin' ? 'open' : 'xdg-open', [url], { stdio: 'ignore', detached: true }).on('error', () => {}) // prettier-ignore
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  await close()
}
