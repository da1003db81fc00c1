/** Scripts that let a shell complete `ktl`, written from the commands and options themselves: they know what there is. */
import type { Command, Option } from 'commander'
import type { WordParser } from './options.ts'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

interface Described {
  readonly name: string
  readonly description: string
}

interface OptionWords extends Described {
  /** `--help`, `-h` */
  readonly spellings: readonly string[]
  /** null: it takes no value; empty: one that nobody can list. */
  readonly values: readonly string[] | null
}

interface CommandWords extends Described {
  readonly options: readonly OptionWords[]
  /** Subcommands, or what the first argument may be. */
  readonly words: readonly Described[]
  readonly takesFiles: boolean
}

/** The script for a shell; `program` is the whole command. */
export function completionScript(shell: Shell, program: Command): string {
  const name = program.name()
  const own = { ...wordsOf(program), name: '' }
  return { bash, zsh, fish }[shell](name, own, program.commands.map(wordsOf))
}

function wordsOf(command: Command): CommandWords {
  const described = command.commands.map((sub) => ({
    name: sub.name(),
    description: firstLine(sub.summary() || sub.description()),
  }))
  const choices = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices)
  return {
    name: command.name(),
    description: firstLine(command.summary() || command.description()),
    options: command.createHelp().visibleOptions(command).map(optionOf),
    words: [...described, ...choices.map((choice) => ({ name: choice, description: '' }))],
    takesFiles: command.registeredArguments.some(({ argChoices }) => argChoices === undefined),
  }
}

function optionOf({ long, short, required, optional, parseArg, argChoices, description }: Option): OptionWords {
  const spellings = [long, short].filter((text) => text != null)
  const words = (parseArg as Partial<WordParser<unknown>> | undefined)?.words ?? argChoices ?? []
  return {
    name: spellings[0]!,
    spellings,
    values: required || optional ? words : null,
    description: firstLine(description),
  }
}

const firstLine = (text: string): string => text.split('\n')[0]!
const spellingsOf = ({ options }: CommandWords): string[] => options.flatMap(({ spellings }) => spellings)
const namesOf = (list: readonly Described[]): string[] => list.map(({ name }) => name)

/** `pattern → words` for the word behind an option: of each command, and the options of one list together. */
function valuesOf(
  commands: readonly CommandWords[],
  pattern: (command: string, option: string) => string,
): Map<string, string[]> {
  const patterns = new Map<string, string[]>()
  for (const { name, options } of commands) {
    for (const { spellings, values } of options) {
      if (values === null) continue
      const key = values.join(' ')
      patterns.set(key, [...(patterns.get(key) ?? []), ...spellings.map((option) => pattern(name, option))])
    }
  }
  return patterns
}

function bash(program: string, own: CommandWords, commands: readonly CommandWords[]): string {
  const values = [...valuesOf([own, ...commands], (command, option) => `"${command} ${option}"`)]
  const cases = values.map(
    ([words, patterns]) => `    ${patterns.join('|')}) ${words === '' ? 'return' : `words="${words}"`} ;;`,
  )
  const lists = commands.map(
    (command) =>
      `        ${command.name}) options="${spellingsOf(command).join(' ')}" words="${namesOf(command.words).join(' ')}" ;;`,
  )
  return `# Completion of ${program}: source <(${program} completion bash)
_${program}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" command="" options="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in
      ${namesOf(commands).join('|')}) command="\${COMP_WORDS[i]}"; break ;;
    esac
  done
  case "$command $previous" in
${cases.join('\n')}
    *)
      case "$command" in
        "") options="${spellingsOf(own).join(' ')}" words="${namesOf(commands).join(' ')}" ;;
${lists.join('\n')}
      esac
      [[ "$current" == -* ]] && words="$options" ;;
  esac
  # What is nothing of this is a file: see -o default.
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o bashdefault -o default -F _${program} ${program}
`
}

function zsh(program: string, own: CommandWords, commands: readonly CommandWords[]): string {
  const items = (list: readonly Described[]): string =>
    list.map(({ name, description }) => quoted(description === '' ? name : `${name}:${description}`)).join(' ')
  const values = [...valuesOf([own, ...commands], (command, option) => `"${command} ${option}"`)]
  const cases = values.map(
    ([words, patterns]) => `    (${patterns.join('|')}) ${words === '' ? '_files' : `compadd -- ${words}`}; return ;;`,
  )
  const lists = commands.map(
    ({ name, options, words }) => `    (${name}) flags=(${items(options)}) arguments=(${items(words)}) ;;`,
  )
  return `#compdef ${program}
# Completion of ${program}: source <(${program} completion zsh), or a file _${program} in a folder of $fpath
_${program}() {
  local command= i
  local -a flags arguments
  for ((i = 2; i < CURRENT; i++)); do
    case "\${words[i]}" in
      (${namesOf(commands).join('|')}) command="\${words[i]}"; break ;;
    esac
  done
  case "$command \${words[CURRENT-1]}" in
${cases.join('\n')}
  esac
  case "$command" in
    ('') flags=(${items(own.options)}) arguments=(${items(commands)}) ;;
${lists.join('\n')}
  esac
  if [[ "$PREFIX" == -* ]]; then
    _describe -o option flags
  else
    _describe argument arguments
    [[ -n "$command" ]] && _files
  fi
}
if [[ "\${funcstack[1]}" == _${program} ]]; then
  _${program} "$@"
else
  compdef _${program} ${program}
fi
`
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

function fish(program: string, own: CommandWords, commands: readonly CommandWords[]): string {
  const line = (condition: string, rest: string): string =>
    `complete -c ${program} -n ${quotedForFish(condition)} ${rest}`
  const described = ({ description }: Described): string =>
    description === '' ? '' : ` -d ${quotedForFish(description)}`
  const option = (condition: string, own: OptionWords): string => {
    const spelled = own.spellings
      .map((text) => (text.startsWith('--') ? `-l ${text.slice(2)}` : `-s ${text.slice(1)}`))
      .join(' ')
    const value =
      own.values === null ? '' : own.values.length > 0 ? ` -x -a ${quotedForFish(own.values.join(' '))}` : ' -r'
    return line(condition, spelled + value + described(own))
  }
  const top = '__fish_use_subcommand'
  const lines = [
    ...own.options.map((o) => option(top, o)),
    ...commands.map((command) => line(top, `-f -a ${command.name}${described(command)}`)),
  ]
  for (const { name, options, words, takesFiles } of commands) {
    const within = `__fish_seen_subcommand_from ${name}`
    if (!takesFiles) lines.push(line(within, '-f'))
    lines.push(
      ...words.map((word) => line(within, `-f -a ${word.name}${described(word)}`)),
      ...options.map((o) => option(within, o)),
    )
  }
  return `# Completion of ${program}: ${program} completion fish | source\n${lines.join('\n')}\n`
}

const quotedForFish = (text: string): string => `'${text.replaceAll(/['\\]/g, '\\$&')}'`
