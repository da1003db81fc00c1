/** 41xx: how the `ktl` command was called. All of them end it with exit status 2. */
import { suggest } from '../suggest.ts'
import { code, entry, orList } from './entry.ts'

const MOST_NAMES = 20

/** A file may declare thousands: the first ones. */
const listOf = (names: readonly string[]): string =>
  names.length > MOST_NAMES ? `${names.slice(0, MOST_NAMES).map(code).join(', ')}, …` : orList(names.map(code), 'and')

const didYouMean = (name: string, known: readonly string[]): string => {
  const nearest = suggest(name, known)
  return nearest === null ? `there is ${listOf(known)}` : `did you mean ${code(nearest)}?`
}

export const commandLineErrors = {
  KTL4101: entry<{ readonly message: string; readonly help?: string }>({
    title: 'wrong call of the command line',
    explain: 'A command, option or argument that the `ktl` command does not know, or one that is missing.',
    wrong: { command: 'ktl chekc samples/gemm.ktl' },
    right: { command: 'ktl check samples/gemm.ktl' },
    word: ({ message, help }) => ({ message, ...(help !== undefined && { help }) }),
  }),
  KTL4102: entry<{ readonly file: string; readonly reason: string }>({
    title: 'file cannot be read',
    explain:
      'The file named on the command line does not exist, is no file, or may not be read. `-` is standard input.',
    wrong: { command: 'ktl check samples/no_such_file.ktl' },
    right: { command: 'ktl check samples/gemm.ktl' },
    word: ({ file, reason }) => ({ message: `${code(file)} cannot be read: ${reason}` }),
  }),
  KTL4103: entry<{
    readonly option: string
    readonly expected: string
    readonly got: string
    readonly choice?: { readonly words: readonly string[]; readonly word: string }
  }>({
    title: 'illegal value of an option',
    explain: 'The value of an option is checked before any work is done; the message says what it takes.',
    wrong: { command: 'ktl run samples/dgemm.ktl --dims m=8,n=8,k=-1' },
    right: { command: 'ktl run samples/dgemm.ktl --dims m=8,n=8,k=1' },
    word: ({ option, expected, got, choice }) => {
      const nearest = choice ? suggest(choice.word, choice.words) : null
      return {
        message: `${code(option)} takes ${expected}, got ${code(got)}`,
        ...(nearest !== null && { help: `did you mean ${code(nearest)}?` }),
      }
    },
  }),
  KTL4104: entry<{ readonly file: string; readonly kernels: readonly string[] }>({
    title: 'which kernel?',
    explain: 'The file declares several kernels and the command works on one: name it with `--kernel`.',
    wrong: { command: 'ktl run samples/elementwise.ktl --dims i=4,j=4' },
    right: { command: 'ktl run samples/elementwise.ktl --kernel axpby --dims i=4,j=4' },
    word: ({ file, kernels }) => ({
      message: `${code(file)} declares ${kernels.length} kernels: ${listOf(kernels)}`,
      help: `choose one, as in ${code(`--kernel ${kernels[0]}`)}`,
    }),
  }),
  KTL4105: entry<{ readonly what: string; readonly name: string; readonly known: readonly string[] }>({
    title: 'no such name',
    explain: 'An option names a kernel, type parameter, operand or axis that the kernel does not have.',
    wrong: { command: 'ktl run samples/dgemm.ktl --kernel dgem --dims m=8,n=8,k=8' },
    right: { command: 'ktl run samples/dgemm.ktl --kernel dgemm --dims m=8,n=8,k=8' },
    word: ({ what, name, known }) => ({
      message: `there is no ${what} ${code(name)}`,
      ...(known.length > 0 && { help: didYouMean(name, known) }),
    }),
  }),
  KTL4106: entry<{ readonly kernel: string; readonly missing: readonly string[]; readonly example: string }>({
    title: 'extent missing',
    explain: 'Every axis of the kernel needs an extent; optional axes may be left out.',
    wrong: { command: 'ktl run samples/dgemm.ktl --dims m=8,n=8' },
    right: { command: 'ktl run samples/dgemm.ktl --dims m=8,n=8,k=8' },
    word: ({ kernel, missing, example }) => ({
      message: `kernel ${code(kernel)} needs an extent for ${orList(missing.map(code), 'and')}`,
      help: `write ${code(`--dims ${example}`)}`,
    }),
  }),
  KTL4107: entry<{ readonly what: string; readonly reasons: readonly string[]; readonly help: string }>({
    title: 'no instance',
    explain: 'No instance of the kernel is left by the options, or the targets take none; the notes say why.',
    wrong: { command: 'ktl inspect samples/dgemm.ktl --stage tile' },
    right: { command: 'ktl inspect samples/gemm.ktl --stage tile' },
    word: ({ what, reasons, help }) => ({
      message: `no instance of ${what}`,
      ...(reasons.length > 0 && { notes: reasons }),
      help,
    }),
  }),
  KTL4109: entry<{ readonly port: number; readonly reason: string }>({
    title: 'port cannot be used',
    explain:
      'Another program listens on the port that `--port` names, or this user may not. Without `--port` a free one is found.',
    word: ({ port, reason }) => ({
      message: `port ${port} of 127.0.0.1 cannot be used: ${reason === 'EADDRINUSE' ? 'another program listens there' : reason}`,
      help: 'leave out `--port`, or name another one',
    }),
  }),
  // KTL4108 said that a command is not available yet; all are.
}
