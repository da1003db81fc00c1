import { KtlError } from '../../../grammar/diagnostics.ts'
import type { AddCommand, Context } from '../context.ts'
import { EXIT, type ExitCode } from '../exit.ts'
import { countChoices, type TypeChoice } from '../../../compiler/family.ts'
import { isGeneral } from '../../../compiler/targets/index.ts'
import { targetSupport, type TargetSupport } from '../../discovery/space/support.ts'
import { describeTypes } from '../instances.ts'
import { plural } from '../output.ts'
import { checkSource } from '../../programs/check_source.ts'
import { readSource } from '../sources.ts'

export const addCheck: AddCommand = (program, context, finish) => {
  program
    .command('check')
    .summary('read and check files, without compiling anything')
    .description(
      'Reads and checks .ktl files, prints what is wrong with them, and which designs each target has for their kernels.',
    )
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
    choices: countChoices(family),
    targets: targetSupport(family),
  }))
  out.record('check', {
    file: source.name,
    ok: errors === 0,
    errors,
    warnings: diagnostics.filter((d) => d.severity === 'warning').length,
    kernels: kernels.map((kernel) => ({ ...kernel, targets: kernel.targets.map((support) => ({ ...support })) })),
  })
  if (errors > 0) out.note(`${source.name}: ${plural(errors, 'error')}`)
  else {
    const list = kernels.map(({ name, choices }) => `${name} (${plural(choices, 'choice')} of types and orders)`)
    out.line(`${source.name}: ok${list.length > 0 ? `: ${list.join(', ')}` : ', no kernels'}`)
    for (const { name, targets } of kernels) for (const line of supportLines(name, targets)) out.line(`  ${line}`)
  }
  return errors === 0
}

/** A line for targets and choices of types that fare alike: `gemm  sm_80, sm_90a, sm_100a, sm_103a: tensor cores`. */
function supportLines(name: string, targets: readonly TargetSupport[]): string[] {
  const choices = new Set(targets.flatMap(({ types }) => types)).size
  const lines = new Map<string, { on: string[]; text: string }>()
  for (const target of new Set(targets.map((support) => support.target))) {
    // Reasons of one code differ in names only.
    const alike = new Map<string, { types: TypeChoice[]; verdict: string }>()
    for (const support of targets.filter((t) => t.target === target)) {
      const { key, verdict } = fares(support)
      const known = alike.get(key)
      if (known) known.types.push(...support.types)
      else alike.set(key, { types: [...support.types], verdict })
    }
    for (const { types, verdict } of alike.values()) {
      const text = `${types.length === choices ? '' : ` with ${nameChoices(types)}`}: ${verdict}`
      const line = lines.get(text) ?? { on: [], text }
      line.on.push(target)
      lines.set(text, line)
    }
  }
  return [...lines.values()].map(({ on, text }) => `${name}  ${on.join(', ')}${text}`)
}

/** On what cores, and why on no better ones. */
function fares({ designs, refused }: TargetSupport): { readonly key: string; readonly verdict: string } {
  const [first] = refused
  if (designs.some((design) => !isGeneral(design) && refused.every((other) => other.design !== design)))
    return { key: 'tensor cores', verdict: 'tensor cores' }
  const cores = designs.length > 0 ? 'CUDA cores' : 'refused'
  if (!first) return { key: cores, verdict: cores }
  return { key: `${cores} ${first.code}`, verdict: `${cores}, because ${first.reason} (${first.code})` }
}

const SHOWN = 3

function nameChoices(choices: readonly TypeChoice[]): string {
  const more = choices.length > SHOWN ? ` and ${plural(choices.length - SHOWN, 'more choice')}` : ''
  return choices.slice(0, SHOWN).map(describeTypes).join(' | ') + more
}
