import { Argument } from 'commander'
import { completionScript, SHELLS, type Shell } from '../completion.ts'
import type { AddCommand } from '../context.ts'

const HOW = `
  bash  echo 'source <(ktl completion bash)' >> ~/.bashrc
  zsh   echo 'source <(ktl completion zsh)' >> ~/.zshrc      (behind compinit)
  fish  ktl completion fish > ~/.config/fish/completions/ktl.fish`

export const addCompletion: AddCommand = (program, { out }) => {
  program
    .command('completion')
    .summary('print a script that completes commands and options')
    .description('Prints a script that lets a shell complete commands, options and their values.')
    .addArgument(new Argument('<shell>', 'for which shell').choices(SHELLS))
    .addHelpText('after', HOW)
    .action((shell: Shell) => out.text(completionScript(shell, program)))
}
