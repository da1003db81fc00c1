/** Regression with few terms, which are found one by one. */
import { Matrix, solve } from 'ml-matrix'

export interface Regression {
  readonly constant: number
  readonly terms: readonly { readonly column: number; readonly weight: number }[]
}

/** What a weight costs: squares of it, for those of what is left over. It keeps terms of few rows small. */
const RIDGE = 30

/**
 * Least squares of `y` by `count` columns of `x`, one row for each of `y`, counted by `weights`: each column the one that leaves least beside those before
 * (orthogonal forward selection; Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, 3.3.2), with the ridge of the same book, 3.4.1.
 */
export function forward(x: Matrix, y: readonly number[], weights: readonly number[], count: number): Regression {
  const all = weights.reduce((sum, weight) => sum + weight, 0)
  const meanOf = (of: (row: number) => number): number => weights.reduce((sum, w, row) => sum + w * of(row), 0) / all
  const level = meanOf((row) => y[row]!)
  const means = Array.from({ length: x.columns }, (_, column) => meanOf((row) => x.get(row, column)))
  const roots = weights.map(Math.sqrt)
  const centred = x.clone().subRowVector(means).mulColumnVector(roots)
  const rest = Matrix.columnVector(y.map((value, row) => (value - level) * roots[row]!))
  const squares = centred.transpose().mmul(centred)
  const goals = centred.transpose().mmul(rest)
  const chosen: number[] = []
  let solution = new Matrix(0, 1)
  while (chosen.length < Math.min(count, x.columns)) {
    chosen.push(bestOf(squares, goals, chosen, solution))
    solution = solve(ridged(squares, chosen), goals.subMatrixRow(chosen))
  }
  const terms = chosen.map((column, i) => ({ column, weight: solution.get(i, 0) }))
  return { constant: level - terms.reduce((sum, { column, weight }) => sum + weight * means[column]!, 0), terms }
}

const ridged = (squares: Matrix, chosen: readonly number[]): Matrix =>
  squares.selection([...chosen], [...chosen]).add(Matrix.eye(chosen.length, chosen.length, RIDGE))

/** The column that takes most from what those chosen leave over. */
function bestOf(squares: Matrix, goals: Matrix, chosen: readonly number[], solution: Matrix): number {
  const among = chosen.length === 0 ? null : squares.subMatrixRow([...chosen])
  const solved = among && solve(ridged(squares, chosen), among)
  const gains = Array.from({ length: squares.columns }, (_, column) => {
    if (chosen.includes(column)) return -1
    const dot = (of: (i: number) => number): number => chosen.reduce((sum, _, i) => sum + among!.get(i, column) * of(i), 0)
    const left = goals.get(column, 0) - dot((i) => solution.get(i, 0))
    return left ** 2 / (squares.get(column, column) - dot((i) => solved!.get(i, column)) + RIDGE)
  })
  return gains.indexOf(Math.max(...gains))
} // prettier-ignore
