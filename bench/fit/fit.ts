/**
 * Constants of a cost model from measured times: least squares of the logarithms of modelled / measured, those near the fastest first, by Levenberg and Marquardt in
 * the logarithms of the constants, which stay positive.
 */
import { levenbergMarquardt } from 'ml-levenberg-marquardt'
import { geomean, median } from '../../runtime/bench/statistics.ts'
import { byProblem, type Constants, type Row } from './models.ts'

/** How well constants order the kernels of problems, and how well they tell their times. */
export interface Quality {
  /** Time of the model's first choice / the fastest: geometric mean over problems, and the worst. */
  readonly first: number
  readonly worst: number
  /** The same of the best of its first four. */
  readonly ofFour: number
  /** Standard deviation of log(modelled / measured). */
  readonly deviation: number
  /** Half of the times are off by less: a factor. */
  readonly median: number
  /** Kendall's τ between the modelled and the measured order of a problem's kernels: mean over problems. */
  readonly tau: number
}

export interface Fit {
  readonly constants: Constants
  /** Constants that no time depends on: they are as they were. */
  readonly unknown: readonly string[]
  readonly before: Quality
  readonly after: Quality
}

/** A constant that moves no time by more than this, relative to its own change, is not in the data. */
const INSENSITIVE = 1e-3
/** Constants stay within this factor of where they begin. */
const MOST_CHANGE = 8
/** The model has kinks, at which a search may end too early: it is begun again with other differences, while that helps. */
const DIFFERENCES = [1e-1, 1e-2, 1e-3] as const
const STEPS = 12
const MOST_ROUNDS = 5
const LEAST_GAIN = 1e-3

export function fit(rows: readonly Row[], start: Constants): Fit {
  const names = Object.keys(start)
  const unknown = names.filter((name) => !isSeen(rows, start, name))
  const free = names.filter((name) => !unknown.includes(name))
  const withLogs = (logs: readonly number[]): Constants => ({
    ...start,
    ...Object.fromEntries(free.map((name, i) => [name, Math.exp(logs[i]!)])),
  })
  const weights = weightsOf(rows)
  const error = (logs: readonly number[]): number => rows.reduce((sum, row, i) => sum + (weights[i]! * logRatio(row, withLogs(logs))) ** 2, 0)
  const data = { x: rows.map((_, i) => i), y: rows.map(() => 0) }
  const model = (logs: readonly number[]) => {
    const constants = withLogs(logs)
    return (i: number): number => weights[i]! * logRatio(rows[i]!, constants)
  }
  let best = free.map((name) => Math.log(start[name]!))
  const [minValues, maxValues] = [best.map((x) => x - Math.log(MOST_CHANGE)), best.map((x) => x + Math.log(MOST_CHANGE))]
  for (let [round, last] = [0, Infinity]; round < MOST_ROUNDS && error(best) < last * (1 - LEAST_GAIN); round++) {
    last = error(best)
    for (const gradientDifference of DIFFERENCES) {
      const { parameterValues } = levenbergMarquardt(data, model, {
        initialValues: best, minValues, maxValues, gradientDifference, centralDifference: true, damping: 1e-2, maxIterations: STEPS, errorTolerance: 0,
      })
      if (error(parameterValues) < error(best)) best = [...parameterValues]
    }
  }
  const constants = withLogs(best)
  return { constants, unknown, before: qualityOf(rows, start), after: qualityOf(rows, constants) }
} // prettier-ignore

/** Fastest of the problem / time: what nobody would choose says the least. */
function weightsOf(rows: readonly Row[]): readonly number[] {
  const fastest = new Map<string, number>()
  for (const { problem, measured } of rows) fastest.set(problem, Math.min(measured, fastest.get(problem) ?? Infinity))
  return rows.map(({ problem, measured }) => fastest.get(problem)! / measured)
}

const logRatio = (row: Row, constants?: Constants): number => Math.log(row.modelled(constants) / row.measured)

/** Does a time change when the constant does? Halving and doubling find costs that something longer hides as it is. */
function isSeen(rows: readonly Row[], constants: Constants, name: string): boolean {
  const changed = [0.5, 2].map((factor) => ({ ...constants, [name]: constants[name]! * factor }))
  return rows.some((row) =>
    changed.some((other) => Math.abs(Math.log(row.modelled(other) / row.modelled(constants))) > INSENSITIVE),
  )
}

/** Of the constants in force, unless others are given. */
export function qualityOf(rows: readonly Row[], constants?: Constants): Quality {
  const [first, ofFour, taus]: [number[], number[], number[]] = [[], [], []]
  for (const own of byProblem(rows).values()) {
    const fastest = Math.min(...own.map((row) => row.measured))
    const ordered = own.map((row) => ({ row, time: row.modelled(constants) })).sort((a, b) => a.time - b.time)
    first.push(ordered[0]!.row.measured / fastest)
    taus.push(tauOf(ordered.map(({ row, time }) => [row.measured, time])))
    ofFour.push(Math.min(...ordered.slice(0, 4).map(({ row }) => row.measured)) / fastest)
  }
  const squares = rows.reduce((sum, row) => sum + logRatio(row, constants) ** 2, 0)
  return {
    first: geomean(first), worst: Math.max(...first), ofFour: geomean(ofFour), deviation: Math.sqrt(squares / rows.length),
    median: Math.exp(median(rows.map((row) => Math.abs(logRatio(row, constants))))), tau: taus.reduce((a, b) => a + b, 0) / taus.length,
  }
} // prettier-ignore

/** Pairs in one order less those in the other, as a share of all; 1 where there is no pair. */
function tauOf(pairs: readonly (readonly [number, number])[]): number {
  let [count, sum] = [0, 0]
  for (const [i, [a, b]] of pairs.entries()) {
    for (const [c, d] of pairs.slice(i + 1)) {
      count++
      sum += Math.sign((a - c) * (b - d))
    }
  }
  return count === 0 ? 1 : sum / count
}

const percent = (ratio: number): string => `${((ratio - 1) * 100).toFixed(1)} %`
/** One line for people. */
export const describe = ({ first, worst, ofFour, deviation, median, tau }: Quality): string =>
  `the first choice takes ${percent(first)} more than the fastest in the geometric mean, ${percent(worst)} at worst; ` +
  `the best of four ${percent(ofFour)}; times are off by ${percent(Math.exp(deviation))}, half of them by less than ${percent(median)}; Kendall's tau ${tau.toFixed(2)}`
