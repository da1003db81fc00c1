import { Command, CommanderError } from 'commander'
import { KTL_VERSION } from '../../codegen/cuda/version.ts'
import type { KtlError } from '../../grammar/diagnostics.ts'
import { ktlError } from '../errors/fail.ts'
import type { AddCommand, Context } from './context.ts'
import { addBench } from './commands/bench.ts'
import { addBuild } from './commands/build.ts'
import { addBuildAddon } from './commands/build_addon.ts'
import { addCache } from './commands/cache.ts'
import { addCheck } from './commands/check.ts'
import { addCompletion } from './commands/completion.ts'
import { addCount } from './commands/count.ts'
import { addDoctor } from './commands/doctor.ts'
import { addExplain } from './commands/explain.ts'
import { addFmt } from './commands/fmt.ts'
import { addInspect } from './commands/inspect.ts'
import { addList } from './commands/list.ts'
import { addLsp } from './commands/lsp.ts'
import { addPlayground } from './commands/playground.ts'
import { addRun } from './commands/run.ts'
import { addSelftest } from './commands/selftest.ts'
import type { ExitCode } from './exit.ts'

const COMMANDS: readonly AddCommand[] = [
  addRun,
  addCheck,
  addFmt,
  addBuild,
  addList,
  addCount,
  addInspect,
  addExplain,
  addBench,
  addPlayground,
  addSelftest,
  addDoctor,
  addBuildAddon,
  addCache,
  addLsp,
  addCompletion,
]

const EXAMPLES = `
Examples:
  ktl run gemm.ktl --dims m=256,n=256,k=128 --type T=f16,O=f32 --epilogue "relu(acc*alpha+C)" --arg alpha=2
  ktl check kernels/*.ktl
  ktl fmt --check kernels/*.ktl
  ktl inspect gemm.ktl --stage cuda
  ktl build kernels/*.ktl --out src/generated
  ktl explain KTL2001

Exit status: 0 pass, 1 diagnostics or failed check, 2 wrong usage, 3 something is missing on the machine,
70 internal error, 130 interrupted.`

/** The `ktl` command; every subcommand reports what it ended with to `finish`. */
export function createProgram(context: Context, finish: (code: ExitCode) => void): Command {
  const program = new Command('ktl')
    .description('Compiles declarative GEMM kernels (.ktl) to CUDA, finds, runs and checks them.')
    .version(KTL_VERSION)
    // Commander exits, and writes its errors, by itself otherwise.
    .exitOverride()
    .configureOutput({
      writeOut: (text) => context.out.stdout.write(text),
      writeErr: (text) => context.out.stderr.write(text),
      outputError: () => {},
    })
    .configureHelp({ sortOptions: false, showGlobalOptions: false })
    .helpCommand(false)
    .addHelpText('after', EXAMPLES)
  for (const add of COMMANDS) add(program, context, finish)
  return program
}

/** Commander's errors in our words; null: it has printed help or the version, as asked. */
export function usageError(error: CommanderError, argv: readonly string[]): KtlError | null {
  if (['commander.helpDisplayed', 'commander.version'].includes(error.code)) return null
  if (error.code === 'commander.help')
    return ktlError('KTL4101', { message: 'which command?', help: '`ktl --help` lists them' })
  const [first = '', hint] = error.message.replace(/^error: /, '').split('\n')
  const meant = hint?.match(/Did you mean (.*)\?/)?.[1]
  const command = error.code === 'commander.unknownCommand' ? undefined : argv.find((word) => !word.startsWith('-'))
  const help = `\`ktl ${command ? `${command} ` : ''}--help\` says what there is`
  return ktlError('KTL4101', {
    message: first.replaceAll(/'([^']*)'/g, '`$1`'),
    help: meant ? `did you mean \`${meant}\`? ${help}` : help,
  })
}
