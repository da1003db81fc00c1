import { KtlError } from '../../../grammar/diagnostics.ts'
import type { AddCommand, Context } from '../context.ts'
import { EXIT, type ExitCode } from '../exit.ts'
import { countChoices } from '../../../compiler/family.ts'
import { plural } from '../output.ts'
import { checkSource } from '../../check_source.ts'
import { readSource } from '../sources.ts'

export const addCheck: AddCommand = (program, context, finish) => {
  program
    .command('check')
    .summary('read and check files, without compiling anything')
    .description('Reads and checks .ktl files and prints what is wrong with them.')
    .argument('<files...>', 'files to check; - is standard input')
    .option('--json', 'results and diagnostics as JSON Lines')
    .action(async (files: string[]) => finish(await check(files, context)))
}

/** All files are checked, whatever is wrong with one of them. */
async function check(files: readonly string[], { out }: Context): Promise<ExitCode> {
  let worst: ExitCode = EXIT.pass
  for (const file of files) {
    try {
      if (!(await checkFile(file, out))) worst = Math.max(worst, EXIT.failed) as ExitCode
    } catch (error) {
      if (!(error instanceof KtlError)) throw error
      out.diagnostics(error.diagnostics)
      worst = EXIT.usage
    }
  }
  return worst
}

async function checkFile(file: string, out: Context['out']): Promise<boolean> {
  const source = await readSource(file)
  const { program, diagnostics } = checkSource(source)
  const errors = diagnostics.filter((d) => d.severity === 'error').length
  out.diagnostics(diagnostics)
  const kernels = program.kernels.map((family) => ({
    name: family.name,
    lowered: family.notLowered.length === 0,
    choices: countChoices(family),
  }))
  // Legal programs that no target takes yet: worth knowing, no mistake.
  if (errors === 0)
    out.diagnostics(program.kernels.flatMap((f) => f.notLowered.map((d) => ({ ...d, severity: 'note' as const }))))
  out.record('check', { file: source.name, ok: errors === 0, errors, warnings: diagnostics.length - errors, kernels })
  if (errors > 0) out.note(`${source.name}: ${plural(errors, 'error')}`)
  else {
    const list = kernels.map(({ name, choices }) => `${name} (${plural(choices, 'choice')} of types and orders)`)
    out.line(`${source.name}: ok${list.length > 0 ? `: ${list.join(', ')}` : ', no kernels'}`)
  }
  return errors === 0
}
