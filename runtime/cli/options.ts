/** Values of options: `m=256,n=256`, `T=f16`, `A=lkm`, `alpha=2`, `C=f32[m,n]`. Wrong ones are KTL4103. */
import type { Command } from 'commander'
import { isDType } from '../../compiler/dtypes.ts'
import type { TargetArch } from '../../compiler/instance.ts'
import { archs, TARGETS, type Backend } from '../../compiler/targets/index.ts'
import { DTYPE_NAMES, type DTypeName } from '../../grammar/vocabulary.ts'
import type { DeviceSpec } from '../devices/open.ts'
import { ktlError } from '../errors/fail.ts'

const NAME = /^[A-Za-z_]\w*$/
/** Parts of operands too: `A.scale`. */
const PART_NAME = /^[A-Za-z_][\w.]*$/

/** What `--arg` binds a name to. `axes` null: all of D's. */
export type ArgValue =
  | { readonly kind: 'number'; readonly value: number }
  | { readonly kind: 'values'; readonly values: readonly number[] }
  | { readonly kind: 'tensor'; readonly dtype: DTypeName; readonly axes: readonly string[] | null }

export type Pairs = Readonly<Record<string, string>>

/** `a=1,b=2`, as often as the option is given. */
export function pairs(option: string, example: string) {
  return (text: string, before: Pairs = {}): Pairs => {
    const result: Record<string, string> = { ...before }
    for (const part of text.split(',').filter((part) => part.trim() !== '')) {
      const [name = '', value = '', ...rest] = part.split('=').map((side) => side.trim())
      if (!PART_NAME.test(name) || value === '' || rest.length > 0)
        throw illegal(option, `name=value pairs such as \`${example}\``, text)
      if (Object.hasOwn(result, name)) throw illegal(option, 'each name once', `${name}=${value}`)
      result[name] = value
    }
    return result
  }
}

export function dimsOf(given: Pairs): Record<string, number> {
  return mapValues(given, (text, axis) => integer('--dims', text, 0, 0x7fffffff, `${axis}=${text}`))
}

export function typesOf(given: Pairs): Record<string, DTypeName> {
  return mapValues(given, (text, name) => dtype('--type', text, `${name}=${text}`))
}

/** `alpha=2`, `C=f32[m,n]`, `C=f16`; repeatable. */
export function argument(text: string, before: Readonly<Record<string, ArgValue>> = {}): Record<string, ArgValue> {
  const expected = 'a number, a tensor or values, as in `alpha=2`, `C=f32[m,n]` or `ends=[3,3,8]`'
  const [, name, value] = /^([A-Za-z_][\w.]*)=(.+)$/s.exec(text.trim()) ?? []
  if (name === undefined || value === undefined) throw illegal('--arg', expected, text)
  if (Object.hasOwn(before, name)) throw illegal('--arg', 'each name once', text)
  return { ...before, [name]: argValue(value.trim(), expected, text) }
}

function argValue(value: string, expected: string, text: string): ArgValue {
  const number = Number(value.replace(/^([+-]?)inf$/i, '$1Infinity'))
  if (value !== '' && (!Number.isNaN(number) || /^nan$/i.test(value))) return { kind: 'number', value: number }
  const [, list] = /^\[([^\]]*)\]$/.exec(value) ?? []
  if (list !== undefined) {
    const values = list.split(',').map((part) => (part.trim() === '' ? NaN : Number(part)))
    if (values.some(Number.isNaN)) throw illegal('--arg', expected, text)
    return { kind: 'values', values }
  }
  const [, name, axes] = /^(\w+)(?:\[([^\]]*)\])?$/.exec(value) ?? []
  if (name === undefined) throw illegal('--arg', expected, text)
  const names = axes?.split(',').map((axis) => axis.trim()) ?? null
  if (names?.some((axis) => !NAME.test(axis) && axis !== '1'))
    throw illegal('--arg', 'axes by name, or 1, as in `C=f32[m,1]`', text)
  return { kind: 'tensor', dtype: dtype('--arg', name, text), axes: names }
}

/** `lkm` or, for axes of several letters, `batch:k:m`. null: these are not the operand's axes. */
export function orderOf(text: string, axes: readonly string[]): readonly string[] | null {
  const parts = text.includes(':') ? text.split(':') : split(text, axes)
  return parts !== null && [...parts].sort().join() === [...axes].sort().join() ? parts : null
}

/** The names of which `text` is made up, each once. */
function split(text: string, names: readonly string[]): string[] | null {
  if (text === '') return []
  for (const name of names) {
    if (!text.startsWith(name)) continue
    const rest = split(
      text.slice(name.length),
      names.filter((other) => other !== name),
    )
    if (rest !== null) return [name, ...rest]
  }
  return null
}

export function integer(option: string, text: string, low: number, high: number, shown = text): number {
  const value = /^\d+$/.test(text) ? Number(text) : NaN
  if (value >= low && value <= high) return value
  throw illegal(option, `integers from ${low} to ${high}`, shown)
}

/** A commander parser for one number. */
export const integerOption = (option: string, low: number, high: number) => (text: string) =>
  integer(option, text, low, high)

/** A commander parser for one great number: 4096, 2^41, 8e9. */
export const powerOption = (option: string, low: number, high: number) => (text: string) => {
  const [, power] = /^2\^(\d{1,2})$/.exec(text) ?? []
  const value = power !== undefined ? 2 ** Number(power) : /^\d+(\.\d+)?(e\d+)?$/.test(text) ? Number(text) : NaN
  if (Number.isInteger(value) && value >= low && value <= high) return value
  throw illegal(option, `integers from ${low} to ${high}, such as 4096, 2^41 or 8e9`, text)
}

/** A parser of commander that says what it takes, for the completion of shells. */
export interface WordParser<T> {
  (text: string): T
  readonly words: readonly string[]
}

const parserOf = <T>(words: readonly string[], parse: (text: string) => T): WordParser<T> =>
  Object.assign(parse, { words })

/** A commander parser for one of a few words. */
export const wordOption = <W extends string>(option: string, words: readonly W[]): WordParser<W> =>
  parserOf(words, (text) => {
    if ((words as readonly string[]).includes(text)) return text as W
    throw illegal(option, words.join(', '), text, { words, word: text })
  })

/** A commander parser for several of them, separated by commas, each once. */
export const wordsOption = <W extends string>(option: string, words: readonly W[]): WordParser<readonly W[]> =>
  parserOf(words, (text) => {
    const given = [...new Set(text.split(',').map((word) => word.trim()))]
    const wrong = given.find((word) => !(words as readonly string[]).includes(word))
    if (wrong === undefined) return given as W[]
    throw illegal(option, words.join(', '), text, { words, word: wrong })
  })

/** Asked for when it is used: targets may be registered later than this file is loaded. */
export const designOption: WordParser<Backend> = Object.defineProperty(
  (text: string): Backend => wordOption('--design', TARGETS.kinds)(text),
  'words',
  { get: () => TARGETS.kinds },
) as WordParser<Backend>

const DEVICES = ['auto', 'virtual-sm100', 'virtual-sm90', 'cuda'] as const

/** A commander parser for a device, checked before anything else is done. */
export const deviceOption: WordParser<DeviceSpec> = parserOf(DEVICES, (text) => {
  if (/^(auto|virtual-sm100|virtual-sm90|cuda(:\d{1,3})?)$/.test(text)) return text as DeviceSpec
  throw illegal('--device', 'auto, virtual-sm100, virtual-sm90, cuda or cuda:N', text, { words: DEVICES, word: text })
})

function dtype(option: string, text: string, shown: string): DTypeName {
  if (isDType(text)) return text
  throw illegal(option, `a dtype (${DTYPE_NAMES.join(' ')})`, shown, { words: DTYPE_NAMES, word: text })
}

/** `choice`: the word at fault and those that it may be; the nearest of them is suggested. */
export const illegal = (
  option: string,
  expected: string,
  got: string,
  choice?: { words: readonly string[]; word: string },
) => ktlError('KTL4103', { option, expected, got, ...(choice && { choice }) })

function mapValues<V>(object: Pairs, map: (text: string, name: string) => V): Record<string, V> {
  return Object.fromEntries(Object.entries(object).map(([name, text]) => [name, map(text, name)]))
}

/** The options that choose among the instances of a file. */
export function addChoiceOptions(command: Command): Command {
  return command
    .option('--kernel <name>', 'the kernel of the file')
    .option('--type <T=dtype,…>', 'dtypes of type parameters', pairs('--type', 'T=f16,O=f32'))
    .option(
      '--order <A=axes,…>',
      'memory orders, the contiguous axis last: A=lkm, or A.scale=32x4x4',
      pairs('--order', 'A=lkm'),
    )
    .option('--epilogue <text>', 'fills the epilogue slot: "relu(acc*alpha+C)"')
    .option(
      '--arg <name=value>',
      'a number or tensor of the epilogue or kernel: alpha=2, C=f32[m,n]; repeatable',
      argument,
    )
}

/** Those, and for which target and with which design. */
export function addInstanceOptions(command: Command): Command {
  return addChoiceOptions(command)
    .option('--target <arch>', archs().join(', '), wordOption('--target', archs()), 'sm_100a')
    .option('--design <kind>', TARGETS.kinds.join(' or '), designOption)
}

export interface InstanceOptions extends ChoiceOptions {
  readonly target: TargetArch
  /** Only this backend. */
  readonly design?: Backend
}

export interface ChoiceOptions {
  readonly kernel?: string
  readonly type?: Pairs
  readonly order?: Pairs
  readonly epilogue?: string
  readonly arg?: Readonly<Record<string, ArgValue>>
}
