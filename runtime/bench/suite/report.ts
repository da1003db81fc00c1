/** Results of a suite: a table, quantiles and the worst, as text, as records, and as a page. */
import { formatTable } from '../table.ts'
import { arithmeticOf, type Peak } from '../peaks.ts'
import { quantiles, roofline } from '../plots.ts'
import { page, section } from '../report.ts'
import { geomean, median, quantile, type Summary } from '../statistics.ts'
import type { SuiteResult } from './measure.ts'
import type { Problem } from './problem.ts'
import { FLOOR } from './turns.ts'

export interface SuiteFailure {
  readonly problem: Problem
  readonly reason: string
}

export interface SuiteReport {
  /** Lines that say what was measured, and on what. */
  readonly head: readonly string[]
  readonly results: readonly SuiteResult[]
  readonly failures: readonly SuiteFailure[]
  /** Instances for each problem; of some that were slow more, see `SuiteOptions.searched`. */
  readonly tried: number
  readonly times: 'measured' | 'modelled'
  readonly cyclesPerMs: number | null
  readonly peak: Peak | null
}

/** What a suite is judged by. */
export interface SuiteSummary {
  /** `library / ktl`: times, so that more than 1 is faster than the library. `of roof`: of what arithmetic and memory allow. */
  readonly value: 'library / ktl' | 'of roof'
  readonly problems: number
  readonly geomean: number
  readonly median: number
  /** 5 % of the problems are below. */
  readonly low: number
  readonly worst: number
  /** Problems below 0.90. */
  readonly below: number
  /** Times of the cost model's first choice over those of the fastest that was tried; null: nothing else was. */
  readonly first: ChoiceSummary | null
}

export interface ChoiceSummary {
  readonly geomean: number
  readonly median: number
  /** 5 % of the problems are above. */
  readonly high: number
  readonly worst: number
}

const WORST = 10

/** The least time that the data sheet allows, over the time taken; null: of a device that ktl does not know. */
export function shareOfRoof({ problem, work, ours }: SuiteResult, peak: Peak | null): number | null {
  const arithmetic = problem.a === 'f32' && !problem.exact ? 'tf32' : arithmeticOf(problem.a, problem.b)
  const teraops = peak?.teraops[arithmetic]
  if (!peak || teraops === undefined) return null
  return Math.max(work.operations / teraops / 1e9, work.bytes / peak.gigabytes / 1e6) / ours.median
}

const choiceOf = ({ ours, first }: SuiteResult): number => first.median / ours.median
const ratioOf = ({ ours, theirs }: SuiteResult): number | null => theirs && theirs.median / ours.median

/** Against the library where it is there, else against the roof. null: neither is known. */
function judged({ results, peak }: SuiteReport): { value: SuiteSummary['value']; known: { result: SuiteResult; value: number }[] } | null {
  const known = (of: (result: SuiteResult) => number | null) =>
    results.flatMap((result) => {
      const value = of(result)
      return value === null ? [] : [{ result, value }]
    })
  const ratios = known(ratioOf)
  if (ratios.length > 0) return { value: 'library / ktl', known: ratios }
  const shares = known((result) => shareOfRoof(result, peak))
  return shares.length > 0 ? { value: 'of roof', known: shares } : null
} // prettier-ignore

const choiceSummary = (choices: readonly number[]): ChoiceSummary => ({
  geomean: geomean(choices),
  median: median(choices),
  high: quantile(choices, 0.95),
  worst: Math.max(...choices),
})

export function summaryOf(report: SuiteReport): SuiteSummary | null {
  const found = judged(report)
  if (!found) return null
  const values = found.known.map(({ value }) => value)
  return {
    value: found.value,
    problems: values.length,
    geomean: geomean(values),
    median: median(values),
    low: quantile(values, 0.05),
    worst: Math.min(...values),
    below: values.filter((value) => value < FLOOR).length,
    first: report.tried > 1 ? choiceSummary(found.known.map(({ result }) => choiceOf(result))) : null,
  }
}

const HEADER = ['type', 'A', 'B', 'epilogue', 'm', 'n', 'k'] as const

const describe = ({ group, orderA = 'mk', orderB, fusion, shape: { m, n, k } }: Problem): string[] =>
  [group.replace('random ', ''), orderA, orderB, fusion?.name ?? '', String(m), String(n), String(k)] // prettier-ignore

const ratio = (value: number | null): string => (value === null ? '' : value.toFixed(3))
const microseconds = ({ median }: Summary): string => (median * 1000).toPrecision(4)
const interval = ({ low, high }: Summary): string => `${(low * 1000).toPrecision(4)}..${(high * 1000).toPrecision(4)}`

interface Table {
  readonly header: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

function tableOf(results: readonly SuiteResult[], { times, cyclesPerMs, peak, tried }: SuiteReport): Table {
  const modelled = times === 'modelled'
  const against = results.some(({ theirs }) => theirs !== null)
  const checked = results.some(({ right }) => right !== null)
  const header = [
    ...HEADER, ...(modelled ? ['cycles (modelled)', 'of roof (modelled)'] : ['ktl µs', 'rounds', 'TFLOP/s', 'of roof']),
    ...(against ? ['library µs', 'rounds', 'ratio'] : []), ...(checked ? ['error', 'check'] : []), ...(tried > 1 ? ['first / ktl'] : []), 'instance',
  ] // prettier-ignore
  const rows = results.map((result) => {
    const { problem, ours, theirs, work, error, right, kernelName } = result
    const share = ratio(shareOfRoof(result, peak))
    const time = modelled
      ? [Math.round(ours.median * cyclesPerMs!).toLocaleString('en-US'), share]
      : [microseconds(ours), interval(ours), (work.operations / ours.median / 1e9).toPrecision(4), share]
    return [
      ...describe(problem), ...time,
      ...(against ? (theirs ? [microseconds(theirs), interval(theirs), ratio(ratioOf(result))] : ['', '', '']) : []),
      ...(checked ? [error === null ? 'NaN' : error.toExponential(1), right ? 'ok' : 'WRONG'] : []), ...(tried > 1 ? [ratio(choiceOf(result))] : []), kernelName,
    ]
  }) // prettier-ignore
  return { header, rows }
}

function quantileTable(summary: SuiteSummary): Table {
  const { value, problems, geomean, median, low, worst, below, first } = summary
  const rows = [[value, String(problems), ratio(geomean), ratio(median), ratio(low), ratio(worst), String(below)]]
  if (first)
    rows.push(['first choice / ktl', String(problems), ratio(first.geomean), ratio(first.median), ratio(first.high), ratio(first.worst), '']) // prettier-ignore
  return { header: ['what', 'problems', 'geomean', 'median', '5 % worst', 'worst', `below ${FLOOR.toFixed(2)}`], rows }
}

function worstOf(report: SuiteReport): readonly SuiteResult[] {
  const known = judged(report)?.known ?? []
  return known.toSorted((a, b) => a.value - b.value).slice(0, WORST).map(({ result }) => result) // prettier-ignore
}

export const wrongOf = ({ results }: SuiteReport): readonly SuiteResult[] => results.filter(({ right }) => right === false) // prettier-ignore

/** What it means, in a sentence. */
function verdict(report: SuiteReport): string {
  const wrong = wrongOf(report)
  if (wrong.length > 0) return `WRONG: ${wrong.map(({ problem }) => problem.name).join('; ')}`
  const checked = report.results.filter(({ right }) => right !== null).length
  return checked > 0 ? `all ${checked} results within their bounds` : 'results were not checked: `ktl selftest` does'
}

export function suiteText(report: SuiteReport): string {
  const { head, results, failures } = report
  const summary = summaryOf(report)
  const text = ({ header, rows }: Table): string => formatTable(header, rows)
  const parts = [head.join('\n')]
  if (results.length > 0) parts.push(text(tableOf(results, report)))
  if (failures.length > 0)
    parts.push(`Not measured\n${failures.map(({ problem, reason }) => `  ${problem.name}: ${reason}`).join('\n')}`)
  const searched = results.filter(({ tried }) => tried.length > report.tried)
  if (searched.length > 0)
    parts.push(`Searched further\n${searched.map(({ problem, tried }) => `  ${problem.name}: ${tried.length} instances`).join('\n')}`) // prettier-ignore
  const worst = worstOf(report)
  if (worst.length > 0) parts.push(`The ${worst.length} worst\n${text(tableOf(worst, report))}`)
  if (summary) parts.push(text(quantileTable(summary)))
  return `${[...parts, verdict(report)].join('\n\n')}\n`
}

export function suiteHtml(report: SuiteReport): string {
  const { head, results, peak, times } = report
  const summary = summaryOf(report)
  const values = judged(report)?.known.map(({ value }) => value) ?? []
  const arithmetic = new Set(results.map(({ problem: { a, b } }) => arithmeticOf(a, b)))
  const teraops = arithmetic.size === 1 ? peak?.teraops[[...arithmetic][0]!] : undefined
  const roof = peak && teraops !== undefined ? { name: peak.name, teraops, gigabytes: peak.gigabytes } : null
  const points = results.map(({ problem, work, ours }) => ({ name: problem.name, intensity: work.operations / work.bytes, teraops: work.operations / ours.median / 1e9 })) // prettier-ignore
  const said = times === 'modelled' ? 'Modelled by the virtual device, not measured: for comparing kernels, no prediction of a GPU.' : 'Medians of rounds with cold caches that take turns, measured by the device.' // prettier-ignore
  const axis = { title: 'Quantiles of the ratio', of: 'problems', value: summary?.value ?? '' }
  const plots = [
    ...(values.length > 1 ? [section('Quantiles of the ratio', `${summary!.value}: more is better.`, quantiles(values, axis))] : []),
    ...(points.length > 0 ? [section('Roofline', roof ? `Line: ${roof.name}, dense rates of the data sheet.` : 'No line: several kinds of arithmetic, or a device that ktl does not know.', roofline(points, roof))] : []),
  ] // prettier-ignore
  const worst = worstOf(report)
  const tables = [
    ...(summary ? [{ title: 'Quantiles', ...quantileTable(summary) }] : []),
    ...(worst.length > 0 ? [{ title: `The ${worst.length} worst`, ...tableOf(worst, report) }] : []),
    { title: 'Problems', ...tableOf(results, report) },
  ]
  return page('ktl bench --suite random', `${head.join('. ')}. ${said}`, plots, tables, { ...report, summary })
}
