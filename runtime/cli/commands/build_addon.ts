import { buildAddon, buildCommand, requireTools } from '../../addon/build.ts'
import type { AddCommand } from '../context.ts'

export const addBuildAddon: AddCommand = (program, { out, signal }) => {
  program
    .command('build-addon')
    .summary('build the native addon where no package has it')
    .description(
      'Builds the native addon, which devices need, from the C++ sources in the package of ktl. Needed where no package has it: ' +
        'musl, macOS, older glibc. Takes g++, make, python3 and a minute or two.',
    )
    .option('--dry-run', 'print what would be run')
    .action(async ({ dryRun = false }: { dryRun?: boolean }) => {
      if (dryRun) {
        requireTools()
        return out.line(buildCommand().join(' '))
      }
      out.note('building the native addon (a minute or two)')
      out.line(await buildAddon({ signal }))
    })
}
