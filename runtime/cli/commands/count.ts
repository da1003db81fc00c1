import { countKernels } from '../../discovery/query.ts'
import type { TargetArch } from '../../../compiler/instance.ts'
import { archs } from '../../../compiler/targets/index.ts'
import type { AddCommand, Context } from '../context.ts'
import { wordOption } from '../options.ts'
import { plural } from '../output.ts'

export const addCount: AddCommand = (program, context) => {
  program
    .command('count')
    .summary('count the instances of the built-in library')
    .description(
      'Counts the instances of the built-in library for each target, and the choices that are none by reason.',
    )
    .option('--target <arch>', `only one of ${archs().join(', ')}`, wordOption('--target', archs()))
    .option('--json', 'a JSON line for each target')
    .action(({ target }: { target?: TargetArch }) => count(target ? [target] : archs(), context))
}

function count(targets: readonly TargetArch[], { out }: Context): void {
  for (const cc of targets) {
    const { target, instances, byRejection } = countKernels({ cc })
    out.record('count', { target, instances, byRejection })
    out.line(`${target.padEnd(8)} ${plural(instances, 'instance')}`)
    for (const [code, number] of Object.entries(byRejection)) {
      out.line(`         ${String(number.toLocaleString('en-US')).padStart(9)} choices refused: ${code}`)
    }
  }
}
