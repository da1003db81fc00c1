import { ktlProvider } from '../../discovery/providers/provider.ts'
import type { FamilySpace } from '../../discovery/space/space.ts'
import { ktlError } from '../../errors/fail.ts'
import type { AddCommand, Context } from '../context.ts'
import { instancesOf } from '../instances.ts'
import { addInstanceOptions, integerOption, type InstanceOptions } from '../options.ts'
import { plural } from '../output.ts'
import { chosenKernels, loadProgram } from '../sources.ts'

interface ListOptions extends InstanceOptions {
  readonly limit: number
}

export const addList: AddCommand = (program, context) => {
  const command = program
    .command('list')
    .summary('list instances')
    .description('Lists the instances of the built-in library, or of files, by name.')
    .argument('[files...]', '.ktl files; default: the built-in library')
  addInstanceOptions(command)
    .option('--limit <n>', 'most lines', integerOption('--limit', 1, 1e9), 1000)
    .option('--json', 'a JSON line for each')
    .action((files: string[], options: ListOptions) => list(files, options, context))
}

async function list(files: readonly string[], options: ListOptions, { out, signal }: Context): Promise<void> {
  let listed = 0
  for (const space of await spacesOf(files, options, { out, signal })) {
    for (const { name, metadata } of instancesOf(space, options)) {
      if (listed === options.limit)
        return out.note(`the first ${plural(listed, 'instance')}; narrow them down or raise --limit`)
      listed++
      const { kernelName, minCc, targets, design } = metadata
      const { kind, tileShape, clusterShape } = design
      out.record('instance', { kernelName, minCc, targets, design: { kind, tileShape, clusterShape } })
      out.line(name)
    }
  }
}

async function spacesOf(
  files: readonly string[],
  { kernel }: ListOptions,
  { out }: Context,
): Promise<readonly FamilySpace[]> {
  if (files.length > 0) {
    const programs = []
    for (const file of files) programs.push(await loadProgram(file, (warnings) => out.diagnostics(warnings)))
    return programs.flatMap((program) =>
      chosenKernels(program, kernel).map(({ family }) => ktlProvider.spaceOf(family)),
    )
  }
  const spaces = ktlProvider.spaces
  if (kernel === undefined) return spaces
  const named = spaces.filter(({ family }) => family.name === kernel)
  if (named.length > 0) return named
  throw ktlError('KTL4105', {
    what: 'kernel in the library',
    name: kernel,
    known: spaces.map(({ family }) => family.name),
  })
}
