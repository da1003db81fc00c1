import { defaultCache } from '../../cache/cache.ts'
import type { AddCommand } from '../context.ts'
import { bytes, plural } from '../output.ts'

export const addCache: AddCommand = (program, { out }) => {
  const cache = program
    .command('cache')
    .summary('where compiled kernels are kept, and how many')
    .description('The compile cache: PTX and cubins by the CUDA text, nvcc and flags they were made with.')
    .option('--json', 'as a JSON line')
    .action(stats)
  cache
    .command('path')
    .description('print the folder')
    .action(() => {
      out.record('cache', { path: defaultCache().disk.folder })
      out.line(defaultCache().disk.folder)
    })
  cache.command('stats').description('folder, entries and size').action(stats)
  cache
    .command('clear')
    .description('remove every entry')
    .action(async () => {
      const { entries, bytes: size } = await defaultCache().usage()
      await defaultCache().clear()
      out.record('cache', { cleared: entries, bytes: size })
      out.line(`removed ${plural(entries, 'entry').replace('entrys', 'entries')}, ${bytes(size)}`)
    })
  // `cache clear --json`, too.
  for (const command of cache.commands) command.option('--json', 'as a JSON line')

  async function stats(): Promise<void> {
    const { folder, maxBytes } = defaultCache().disk
    const usage = await defaultCache().usage()
    out.record('cache', { path: folder, ...usage, maxBytes })
    out.line(folder)
    out.line(
      `${usage.entries === 1 ? '1 entry' : `${usage.entries} entries`}, ${bytes(usage.bytes)} of at most ${bytes(maxBytes)}`,
    )
  }
}
