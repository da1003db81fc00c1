/** Results as lines while they come, as a table at the end, and as JSON. */
import type { Peak } from '../../runtime/bench/peaks.ts'
import { arithmeticOf } from '../../runtime/bench/peaks.ts'
import { geomean, quantile, type Summary } from '../../runtime/bench/statistics.ts'
import { formatTable } from '../../runtime/bench/table.ts'
import type { DTypeName } from '../../runtime/index.ts'
import type { Problem, Rival } from './problems.ts'
import type { Result } from './measure.ts'

export interface Failure {
  readonly problem: Problem
  readonly reason: string
}

const microseconds = ({ median }: Summary): string => (median * 1000).toPrecision(4)
const interval = ({ low, high }: Summary): string => `${(low * 1000).toPrecision(4)}..${(high * 1000).toPrecision(4)}`
const ratio = (value: number): string => value.toFixed(3)

/** Above 1: ktl takes less time. */
export const speedup = ({ ours, rivals }: Result, rival: Rival): number | null => rivals[rival] ? rivals[rival].median / ours.median : null // prettier-ignore

/** What a fused kernel takes of our own plain one, and what choices of the cost model take of the best. */
const share = (summary: Summary | null, of: Summary | null): number | null =>
  summary && of ? summary.median / of.median : null

const overSameTile = ({ sameTile }: Result): number | null => sameTile && share(sameTile.fused, sameTile.plain)

export function teraflops({ shape: { m, n, k, l = 1 } }: Problem, milliseconds: number): number {
  return (2 * m * n * k * l) / milliseconds / 1e9
}

export const passes = ({ error, bound }: Result): boolean => error !== null && error <= bound

/** One line, as soon as it is known. */
export function describeResult(result: Result): string {
  const { problem, ours, place, rivals } = result
  const against = Object.keys(rivals).map((name) => `${name} ${ratio(speedup(result, name as Rival)!)}`)
  const ratios = against.length > 0 ? `  ratio to ${against.join(', ')}` : ''
  const fused = share(ours, result.plain)
  return `${problem.name}: ${microseconds(ours)} µs, ${teraflops(problem, ours.median).toFixed(1)} TFLOP/s${ratios}${fused === null ? '' : `, fused/plain ${ratio(fused)}`}, choice ${place}, error ${result.error?.toExponential(1) ?? 'NaN'}${passes(result) ? '' : ' WRONG'}`
} // prettier-ignore

const RIVALS: readonly Rival[] = ['plain', 'library', 'eager', 'cublaslt', 'compile']

export function formatReport(results: readonly Result[], failures: readonly Failure[], peak: Peak | null): string {
  const groups = [...new Set(results.map(({ problem }) => problem.group))]
  const parts = groups.map((group) =>
    formatGroup(group, results.filter(({ problem }) => problem.group === group), peak),
  ) // prettier-ignore
  if (failures.length > 0)
    parts.push(`Not measured\n${failures.map(({ problem, reason }) => `  ${problem.name}: ${reason}`).join('\n')}`)
  parts.push(formatSummary(groups, results))
  return parts.join('\n\n')
}

function formatGroup(group: string, results: readonly Result[], peak: Peak | null): string {
  const rivals = RIVALS.filter((rival) => results.some((result) => result.rivals[rival]))
  const fused = results.some(({ plain }) => plain !== null)
  const searched = results.some(({ tried }) => tried > 1)
  const header = [
    'problem', 'ktl µs', 'rounds', 'TFLOP/s', 'of peak',
    ...rivals.flatMap((rival) => [`${nameOf(rival, group)} µs`, 'rounds', 'ratio']),
    ...(fused ? ['our plain µs', 'fused/plain', 'same tile'] : []),
    ...(searched ? ['first/best', 'of 4/best', 'place'] : []),
    'error', 'check', 'instance',
  ] // prettier-ignore
  const rows = results.map((result) => {
    const { problem, ours, plain } = result
    const rate = teraflops(problem, ours.median)
    const multiplied = (dtype: DTypeName): DTypeName => (dtype === 'f32' && !problem.exact ? 'tf32' : dtype)
    const most = peak?.teraops[arithmeticOf(multiplied(problem.a), multiplied(problem.b))]
    const cells = (summary: Summary | undefined, rival: Rival): string[] =>
      summary ? [microseconds(summary), interval(summary), ratio(speedup(result, rival)!)] : ['', '', '']
    const of = (value: number | null): string => (value === null ? '' : ratio(value))
    return [
      problem.name.slice(group.length + 1), microseconds(ours), interval(ours), rate.toFixed(1), most === undefined ? '' : `${((100 * rate) / most).toFixed(1)} %`,
      ...rivals.flatMap((rival) => cells(result.rivals[rival], rival)),
      ...(fused ? [plain ? microseconds(plain) : '', of(share(ours, plain)), of(overSameTile(result))] : []),
      ...(searched ? [of(share(result.first, ours)), of(share(result.bestOf4, ours)), String(result.place)] : []),
      result.error === null ? 'NaN' : result.error.toExponential(1), passes(result) ? 'ok' : 'WRONG', result.kernelName,
    ]
  }) // prettier-ignore
  return `${group}\n${formatTable(header, rows)}`
}

/** Whose time it is. */
const nameOf = (rival: Rival, group: string): string =>
  rival === 'plain' && group.startsWith('grouped') ? 'PyTorch' : NAMES[rival]

const NAMES: Readonly<Record<Rival, string>> = {
  plain: 'cuBLAS',
  library: 'library',
  eager: 'eager',
  cublaslt: 'cublasLt',
  compile: 'compiled',
}

/** Geometric means, the quantile that 5 % are worse than, and the worst of every group. */
function formatSummary(groups: readonly string[], results: readonly Result[]): string {
  const rows: string[][] = []
  const add = (what: string, entries: readonly { name: string; value: number | null }[], worstIs: 'least' | 'most', goal: string): void => {
    const known = entries.filter((entry): entry is { name: string; value: number } => entry.value !== null)
    if (known.length === 0) return
    const sign = worstIs === 'most' ? 1 : -1
    const worst = known.reduce((a, b) => (sign * (b.value - a.value) > 0 ? b : a))
    const found = known.map(({ value }) => value)
    rows.push([what, String(known.length), ratio(geomean(found)), ratio(quantile(found, worstIs === 'most' ? 0.95 : 0.05)), ratio(worst.value), worst.name, goal])
  } // prettier-ignore
  const named = (of: readonly Result[], value: (result: Result) => number | null) => of.map((result) => ({ name: result.problem.name, value: value(result) })) // prettier-ignore
  for (const group of groups) {
    const own = results.filter(({ problem }) => problem.group === group)
    const [{ problem }] = own as [Result]
    for (const rival of RIVALS) add(`${group}: ${nameOf(rival, group)} / ktl`, named(own, (result) => speedup(result, rival)), 'least', problem.goal === null || (rival === 'plain' && problem.fusion) ? '' : `>= ${problem.goal}`) // prettier-ignore
    add(
      `${group}: fused / plain`,
      named(own, ({ ours, plain }) => share(ours, plain)),
      'most',
      '',
    )
    add(`${group}: fused / plain, same tile`, named(own, overSameTile), 'most', '< 1.03')
  }
  const own = results.filter(({ problem }) => problem.cc === undefined)
  const plain = own.filter(({ problem }) => problem.fusion === null && !problem.groups)
  add(
    'all plain: cuBLAS / ktl',
    named(plain, (result) => speedup(result, 'plain')),
    'least',
    '>= 1.00',
  )
  const searched = own.filter(({ tried }) => tried > 1)
  add(
    'first choice / best',
    named(searched, ({ first, ours }) => share(first, ours)),
    'most',
    '< 1.05',
  )
  add(
    'best of 4 / best',
    named(searched, ({ bestOf4, ours }) => share(bestOf4, ours)),
    'most',
    '< 1.01',
  )
  const wrong = results.filter((result) => !passes(result)).map(({ problem }) => problem.name)
  const verdict =
    wrong.length === 0 ? `all ${results.length} results within their bounds` : `WRONG: ${wrong.join(', ')}`
  return `Summary (geometric means)\n${formatTable(['what', 'problems', 'geomean', '5 % worst', 'worst', 'where', 'goal'], rows)}\n${verdict}`
}

/** One JSON line. */
export function jsonLine(result: Result): string {
  const { problem, ...rest } = result
  const ratios = Object.fromEntries(Object.keys(result.rivals).map((name) => [name, speedup(result, name as Rival)]))
  const { name, group, shape, a, b, out, orderA = 'mk', orderB, fusion, goal } = problem
  const fields = { name, group, shape, a, b, out, orderA, orderB, fusion: fusion?.name ?? null, goal }
  const measured = { teraflops: teraflops(problem, result.ours.median), ratios, fusedOverPlain: share(result.ours, result.plain), fusedOverSameTile: overSameTile(result) }
  return JSON.stringify({ schema: 1, kind: 'comparison', ...fields, ...measured, pass: passes(result), ...rest })
} // prettier-ignore
