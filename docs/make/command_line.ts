/** The command line, from the commands themselves: what `--help` says. */
import type { Command } from 'commander'
import { Output } from '../../runtime/cli/output.ts'
import { createProgram } from '../../runtime/cli/program.ts'
import { block, code, made, prose, table } from './markdown.ts'

/** A call of each command; a test runs those that end with 0 anywhere, and reads the options of all. */
export const CALLS: Readonly<Record<string, readonly string[]>> = {
  run: [
    'npx ktl run samples/gemm.ktl --dims m=256,n=256,k=128 --type T=f16,O=f32 --epilogue "relu(acc*alpha+C)" --arg alpha=2',
    'npx ktl run samples/dgemm.ktl --dims m=32,n=40,k=24 --show',
    'npx ktl run samples/attention.ktl --dims b=1,h=4,hk=2,m=64,n=64,d=32,e=32 --checks full --async random',
  ],
  check: ['npx ktl check samples/gemm.ktl samples/grouped.ktl'],
  fmt: ['npx ktl fmt --check samples/gemm.ktl'],
  build: [
    'npx ktl build samples/linear.ktl --out build',
    'npx ktl build samples/gemm.ktl --out build --emit cuda --target sm_90a --type T=bf16,O=bf16 --limit 1',
  ],
  list: ['npx ktl list samples/gemm.ktl --target sm_90a --type T=bf16,O=bf16 --limit 4'],
  count: ['npx ktl count --target sm_80'],
  inspect: [
    'npx ktl inspect samples/gemm.ktl --stage tile --target sm_90a --type T=bf16,O=bf16',
    'npx ktl inspect samples/linear.ktl --kernel linear_gelu --stage timeline --out build/timeline.html',
  ],
  explain: ['npx ktl explain KTL2003'],
  bench: [
    'npx ktl bench --dims m=512,n=512,k=512 --type A=bf16 --top 2 --html build/bench.html',
    'npx ktl bench --suite random --seed 1 --count 4 --device virtual-sm90',
  ],
  playground: ['npx ktl playground'],
  selftest: ['npx ktl selftest --limit 1'],
  doctor: ['npx ktl doctor'],
  'build-addon': ['npx ktl build-addon --dry-run'],
  cache: ['npx ktl cache stats'],
  lsp: ['npx ktl lsp --stdio'],
  completion: ['npx ktl completion bash'],
}

/** All commands, without a terminal. */
export const commandsOfKtl = (): Command =>
  createProgram({ out: new Output(), signal: new AbortController().signal }, () => {})

export function commandLine(): string {
  const program = commandsOfKtl()
  const sections = program.commands.map((command) => {
    const words = command.registeredArguments.map((argument) => {
      const { required, variadic, description } = argument
      const shown = `${argument.name()}${variadic ? '…' : ''}`
      return [code(required ? `<${shown}>` : `[${shown}]`), prose(description)]
    })
    const options = command.options.map(({ flags, description, defaultValue }) => [
      code(flags),
      `${prose(description)}${typeof defaultValue === 'string' || typeof defaultValue === 'number' ? ` (default: ${code(String(defaultValue))})` : ''}`,
    ])
    const inner = command.commands.map((sub) => [code(`ktl ${command.name()} ${sub.name()}`), prose(sub.description())])
    const rows = [...words, ...inner, ...options]
    return [
      `## ktl ${command.name()}`,
      prose(command.description()),
      block('sh', CALLS[command.name()]!.join('\n')),
      ...(rows.length > 0 ? [table(['', ''], rows)] : []),
    ].join('\n\n')
  })
  return `# Command line

${prose(program.description())} \`ktl --help\` and \`ktl COMMAND --help\` say what stands here. ${made}

Results go to standard output, everything else to standard error; progress shows on terminals only. With \`--json\` results are JSON Lines, each with
\`"schema": 1\` and a \`kind\`. Colours are for terminals; \`FORCE_COLOR=1\` and \`NO_COLOR=1\` say otherwise.

${table(['exit status', ''], [['0', 'pass'], ['1', 'diagnostics, or a failed check'], ['2', 'wrong usage'], ['3', 'something is missing on the machine'], ['70', 'an internal error'], ['130', 'interrupted']])}

${sections.join('\n\n')}
` // prettier-ignore
}
