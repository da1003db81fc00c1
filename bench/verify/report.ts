/** The tables of bench/results/verify.txt. */
import { formatTable } from '../../runtime/bench/table.ts'
import type { Noticed } from './device.ts'
import { grouped } from './grouped.ts'
import { CHANGE_KINDS, type Mutant, type NoMutant } from './mutants.ts'
import { reasonOf } from './reasons.ts'

export interface Judged extends Mutant {
  readonly kernel: string
  /** Of the device's own share. */
  readonly sampled: boolean
  /** undefined: it was not run. */
  readonly device: Noticed | undefined
}

const percent = (part: number, whole: number): string => (whole === 0 ? '-' : `${((100 * part) / whole).toFixed(1)} %`)
const seen = ({ device }: Judged): boolean => typeof device === 'string'
const either = (m: Judged): boolean => m.noticed || seen(m)
/** Of those that a run has shown to behave alike, for a reason that is known. */
const equivalent = (m: Judged): boolean => !m.noticed && m.device === null && reasonOf(m) !== null
const first = ([one]: readonly Judged[]): string => `${one!.kernel}: ${one!.place}`

/** `repeat`: the command. */
export function reportOf(mutants: readonly Judged[], others: readonly NoMutant[], repeat: string): string {
  const lines: string[] = []
  const add = (text = ''): void => void lines.push(text)
  const table = (head: readonly string[], rows: readonly (readonly string[])[]): void =>
    add(rows.length === 0 ? 'none\n' : `${formatTable(head, rows)}\n`)
  const list = (head: readonly string[], groups: readonly [string, readonly Judged[]][]): void =>
    table([...head, 'mutants', 'first'], groups.map(([key, of]) => [...key.split('\t'), `${of.length}`, first(of)]))

  const kernels = [...new Set(mutants.map(({ kernel }) => kernel))]
  const count = (why: NoMutant['why']): number => others.filter((one) => one.why === why).length
  const unrun = mutants.filter((m) => !m.noticed && m.device === undefined).length
  add(`The pipeline programs of ${kernels.length} kernels: each operation deleted, doubled and swapped with the one behind it, each field changed.`)
  add(`Repeat: ${repeat}\n`)
  add(`${mutants.length + others.length} changes. ${count('text')} leave CUDA text and launch recipe as they are, ${count('code')} change comments alone, ${count('mutant')} have the text of another change`)
  add(`of the same kernel, ${count('none')} cannot be printed at all: these count nowhere below. ${mutants.length} mutants are left. All that the verifier misses were`)
  add(`compiled and run on the virtual device (full checks; lazy, eager and 8 random orders; two problems)${unrun > 0 ? `, but for ${unrun}, which count as missed` : ''}, and a random sample`)
  add('of all of them for the share that the device has by itself.\n')
  const [whole, distinct] = [mutants, mutants.filter((m) => !equivalent(m))]
  add(`Noticed by one or the other: ${percent(whole.filter(either).length, whole.length)} of all mutants; ${percent(distinct.filter(either).length, distinct.length)} without the ${whole.length - distinct.length} that are equivalent to the`)
  add('original: noticed by neither, and a rule (bench/verify/reasons.ts) says why they do the same. They are listed below.\n')

  const row = (name: string, of: readonly Judged[]): string[] => {
    const sample = of.filter(({ sampled, device }) => sampled && device !== undefined)
    const rest = of.filter((m) => !equivalent(m))
    const share = (those: readonly Judged[], by: (m: Judged) => boolean): string => percent(those.filter(by).length, those.length)
    return [
      name, `${of.length}`, share(of, (m) => m.noticed), share(of, either), `${of.length - rest.length}`, share(rest, (m) => m.noticed), share(rest, either),
      `${rest.filter((m) => !either(m)).length}`, `${sample.length}`, share(sample, seen), share(sample, (m) => m.noticed && seen(m)),
    ]
  }
  const head = ['mutants', 'verifier', 'either', 'equivalent', 'verifier *', 'either *', 'survive', 'sample', 'device', 'both']
  add('*: without equivalent ones. Device, both: of the sample.\n')
  table(['change', ...head], [...CHANGE_KINDS.map((kind) => row(kind, mutants.filter((m) => m.kind === kind))), row('all', mutants)])
  table(['kernel', ...head], kernels.map((kernel) => row(kernel, mutants.filter((m) => m.kernel === kernel))))

  add('What notices on the device, of the sample (values: wrong results without a finding; nvcc: the text does not compile)\n')
  const by = grouped(mutants.filter((m) => m.sampled && seen(m)), ({ device }) => `${device}`)
  table(['by', 'mutants'], by.map(([name, of]) => [name, `${of.length}`]))

  const subject = ({ kind, subject: of }: Judged | NoMutant): string => `${kind}\t${of}`
  add('Survivors that no rule explains\n')
  list(['change', 'of'], grouped(mutants.filter((m) => !either(m) && !equivalent(m)), subject))
  add('Equivalent: noticed by neither, and why\n')
  const explained = grouped(mutants.filter(equivalent), (m) => reasonOf(m)!)
  table(['why', 'mutants', 'of'], explained.map(([reason, of]) => [reason, `${of.length}`, subjects(of)]))
  add('What the device notices alone\n')
  list(['change', 'of', 'by'], grouped(mutants.filter((m) => !m.noticed && seen(m)), (m) => `${subject(m)}\t${m.device}`))
  add('Changes that leave the text as it is: fields that are informational in these kernels\n')
  const quiet = grouped(others.filter(({ why }) => why === 'text'), subject)
  table(['change', 'of', 'changes', 'verifier notices'], quiet.map(([key, of]) => [...key.split('\t'), `${of.length}`, `${of.filter(({ noticed }) => noticed).length}`]))
  return `${lines.join('\n').trimEnd()}\n`
} // prettier-ignore

function subjects(mutants: readonly Judged[]): string {
  const counts = grouped(mutants, ({ kind, subject }) => (kind === 'field' ? subject : `${kind} ${subject}`))
  return counts.map(([name, of]) => `${name} ${of.length}`).join(', ')
}
