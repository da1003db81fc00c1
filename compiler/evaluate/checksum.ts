/**
 * Checksums of large GEMMs, after Freivalds: with a random vector s of ±1, (A·B)·s = A·(B·s) costs M·K + K·N instead
 * of M·N·K. One for every row and one for every column; only for outputs that are a bare contraction, because an epilogue is
 * not linear. A single wrong element is seen when it is off by more than the bounds of its row or column add up to: when
 * everything is exact, always.
 */
import type { DTypeName } from '../../grammar/vocabulary.ts'
import type { SumPrecision } from '../dtypes.ts'
import type { ContractNode, TensorProgram } from '../ir/tensor.ts'
import { unit } from './outputs.ts'
import { uniform } from './generate.ts'
import { everyIndex, extentOf, stridesOf, tensorOf, type EvaluationInputs } from './inputs.ts'
import { operandNamed, plainTerms } from '../ir/walk.ts'

export interface Checksum {
  readonly output: string
  readonly along: 'rows' | 'columns'
  readonly pass: boolean
  /** Largest |difference| / bound. */
  readonly worst: number
}

/** Stored without saturating or overflowing where the accumulator does not. */
const SUMMABLE: readonly DTypeName[] = ['f64', 'f32', 'bf16']

interface Matrix {
  readonly data: ArrayLike<number>
  readonly rows: number
  readonly columns: number
  readonly at: (row: number, column: number) => number
}

export function rowChecksums(
  program: TensorProgram,
  inputs: EvaluationInputs,
  actual: Readonly<Record<string, ArrayLike<number>>>,
  options: { readonly seed?: number; readonly precision?: SumPrecision },
): readonly Checksum[] {
  return program.outputs.flatMap(({ operand, value, at }) => {
    const { axes, dtype } = operandNamed(program, operand)
    const terms = value.kind === 'contract' ? plainTerms(value) : null
    const names = [operand, ...(terms ?? []).flatMap(({ a, b }) => [a.operand, b.operand])]
    const plain =
      !at && !program.axes.some(({ ragged }) => ragged) && !names.some((name) => operandNamed(program, name).stored)
    const bare = plain && terms && axes.length === value.axes.length && terms.length === 1 && terms[0].over.length === 1
    if (!bare || value.kind !== 'contract' || value.axes.length < 2 || !SUMMABLE.includes(dtype)) return []
    return checksumsOf(program, inputs, value, { name: operand, axes, dtype, values: actual[operand]! }, options)
  })
}

function checksumsOf(
  program: TensorProgram,
  inputs: EvaluationInputs,
  node: ContractNode,
  out: { name: string; axes: readonly string[]; dtype: DTypeName; values: ArrayLike<number> },
  options: { readonly seed?: number; readonly precision?: SumPrecision },
): readonly Checksum[] {
  const [{ a: left, b: right, over }] = plainTerms(node)!
  const depth = over[0]!
  const onlyIn = (x: readonly string[], y: readonly string[]): string[] =>
    x.filter((a) => a !== depth && !y.includes(a))
  const [rowAxes, columnAxes] = [onlyIn(left.axes, right.axes), onlyIn(right.axes, left.axes)]
  const batch = node.axes.filter((axis) => left.axes.includes(axis) && right.axes.includes(axis))
  if (rowAxes.length !== 1 || columnAxes.length !== 1) return []
  const [m, n] = [rowAxes[0]!, columnAxes[0]!]
  const everything = everyIndex(program, inputs.extents)
  const outStrides = new Map<string, number>()
  let stride = 1
  for (const axis of [...out.axes].reverse()) {
    outStrides.set(axis, stride)
    stride *= extentOf(inputs.extents, axis)
  }
  const strides = (name: string) => stridesOf(operandNamed(program, name), program, inputs)
  const [stridesA, stridesB] = [strides(left.operand), strides(right.operand)]
  let positions: ReadonlyMap<string, number>[] = [new Map()]
  for (const axis of batch) {
    positions = positions.flatMap((p) => Array.from(everything.get(axis)!, (i) => new Map([...p, [axis, i]])))
  }
  const worst = { rows: 0, columns: 0 }
  for (const position of positions) {
    const matrix = (data: ArrayLike<number>, s: ReadonlyMap<string, number>, row: string, column: string): Matrix => {
      let base = 0
      for (const [axis, i] of position) base += i * (s.get(axis) ?? 0)
      const [dr, dc] = [s.get(row)!, s.get(column)!]
      const extent = (axis: string): number => extentOf(inputs.extents, axis)
      return { data, rows: extent(row), columns: extent(column), at: (r, c) => base + r * dr + c * dc }
    }
    const A = matrix(tensorOf(left.operand, inputs).data, stridesA, m, depth)
    const B = matrix(tensorOf(right.operand, inputs).data, stridesB, depth, n)
    const D = matrix(out.values, outStrides, m, n)
    // What parts of f32 leave out is less than 8 roundings.
    const gamma =
      (A.columns + (options.precision?.split ? 40 : 32)) *
      (node.accumulator === 'f16' ? 2 ** -11 : 2 ** (1 - (options.precision?.fractionBits ?? 25)))
    worst.rows = Math.max(worst.rows, check(A, B, D, gamma, out.dtype, options.seed ?? 1))
    const transposed = (x: Matrix): Matrix => ({
      data: x.data,
      rows: x.columns,
      columns: x.rows,
      at: (r, c) => x.at(c, r),
    })
    const [At, Bt, Dt] = [transposed(A), transposed(B), transposed(D)]
    worst.columns = Math.max(worst.columns, check(Bt, At, Dt, gamma, out.dtype, options.seed ?? 1))
  }
  return (['rows', 'columns'] as const).map((along) => ({
    output: out.name,
    along,
    pass: worst[along] <= 1,
    worst: worst[along],
  }))
}

/** max over rows of |D·s - A·(B·s)| / bound */
function check(A: Matrix, B: Matrix, D: Matrix, gamma: number, dtype: DTypeName, seed: number): number {
  const next = uniform(seed)
  const signs = Float64Array.from({ length: D.columns }, () => (next() < 0.5 ? -1 : 1))
  const Bs = new Float64Array(B.rows)
  const norms = new Float64Array(D.columns)
  for (let k = 0; k < B.rows; k++) {
    for (let n = 0; n < B.columns; n++) {
      const x = B.data[B.at(k, n)]!
      Bs[k]! += x * signs[n]!
      norms[n]! += x * x
    }
  }
  const sumOfNorms = norms.reduce((sum, x) => sum + Math.sqrt(x), 0)
  let worst = 0
  for (let m = 0; m < D.rows; m++) {
    let [expected, normA, got, units] = [0, 0, 0, 0]
    for (let k = 0; k < A.columns; k++) {
      const x = A.data[A.at(m, k)]!
      expected += x * Bs[k]!
      normA += x * x
    }
    for (let n = 0; n < D.columns; n++) {
      const x = D.data[D.at(m, n)]!
      got += x * signs[n]!
      units += unit(dtype, Math.abs(x))
    }
    const bound = gamma * Math.sqrt(normA) * sumOfNorms + units
    const difference = Math.abs(got - expected)
    // Inputs with infinities or NaN have no checksum.
    if (Number.isFinite(expected)) worst = Math.max(worst, Number.isNaN(difference) ? Infinity : difference / bound)
  }
  return worst
}
