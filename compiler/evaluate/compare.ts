/** PASS or FAIL: outputs of a device against the reference. */
import type { TensorProgram } from '../ir/tensor.ts'
import { operandNamed } from '../ir/walk.ts'
import { rowChecksums, type Checksum } from './checksum.ts'
import { allExtents, evaluateWithBounds, type BoundedValues, type EvaluationOptions } from './evaluate.ts'
import { extentIn, iota, type EvaluationInputs, type Selection } from './inputs.ts'
import { multiplyAdds, reducedElements, sampleOf } from './sample.ts'

export interface WorstElement {
  readonly output: string
  readonly index: readonly number[]
  readonly expected: number
  readonly actual: number
  readonly bound: number
}

export interface Comparison {
  /** Every element is within its bound. */
  readonly pass: boolean
  /** Every bound is 0: the outputs had to be equal. */
  readonly exact: boolean
  /** Elements compared, and how many of them are out of bounds. */
  readonly compared: number
  readonly failures: number
  /** Largest |actual - expected|; infinite where one is NaN or infinite and the other is not. */
  readonly maxError: number
  /** The element furthest beyond its bound, or, when all are within, the one with the largest error. */
  readonly worst: WorstElement | null
}

/** What `observe` is told of each element, in logical order. */
export interface ComparedElement {
  readonly output: string
  readonly shape: readonly number[]
  readonly position: number
  readonly error: number
  /** How far it may be from the reference; the larger side of an interval. */
  readonly bound: number
  readonly right: boolean
}

/** Compares decoded values in logical order, outputs and their scales. A NaN equals a NaN, and 0 equals -0. */
export function compare(
  expected: Readonly<Record<string, BoundedValues>>,
  actual: Readonly<Record<string, ArrayLike<number>>>,
  observe?: (element: ComparedElement) => void,
): Comparison {
  let [compared, failures, maxError, excess] = [0, 0, 0, -Infinity]
  let exact = true
  let worst: WorstElement | null = null
  for (const [output, reference] of Object.entries(expected)) {
    const { data, bounds, shape } = reference
    const values = actual[output]
    if (!values || values.length !== data.length)
      throw new Error(`${output}: expected ${data.length} values, got ${values?.length}`)
    compared += data.length
    const allowed = intervalsOf(reference, actual)
    if (allowed) exact = false
    for (let i = 0; i < data.length; i++) {
      const bound = allowed ? allowed(i) : (bounds?.[i] ?? 0)
      if (bound !== 0) exact = false
      const error = difference(data[i]!, values[i]!)
      const right = typeof bound === 'number' ? error === 0 || error <= bound : within(values[i]!, bound)
      const width = (): number =>
        typeof bound === 'number' ? bound : Math.max(...bound.map((end) => difference(data[i]!, end)))
      observe?.({ output, shape, position: i, error, bound: width(), right })
      if (error > maxError) maxError = error
      if (!right) failures++
      if (error === 0 && worst !== null && right) continue
      // Out of bounds comes first, by how far; within bounds, the largest error.
      const rank = right ? -1 / (1 + error) : error
      if (rank <= excess && worst !== null) continue
      excess = rank
      worst = { output, index: indexOf(i, shape), expected: data[i]!, actual: values[i]!, bound: width() }
    }
  }
  return { pass: failures === 0, exact, compared, failures, maxError, worst }
}

/** What is right for each element of a quantised output, or of its scales; null: its bound says it. */
function intervalsOf(
  { range, quantised }: BoundedValues,
  actual: Readonly<Record<string, ArrayLike<number>>>,
): ((i: number) => readonly [number, number]) | null {
  if (range) return (i) => [range.low[i]!, range.high[i]!]
  if (!quantised) return null
  const { scale, blockOf, allowed } = quantised
  return (i) => allowed(i, scale === null ? 1 : actual[scale]![blockOf[i]!]!)
}

/** A NaN is right only where an end of the interval is one, and then anything between is not. */
const within = (x: number, [low, high]: readonly [number, number]): boolean =>
  Number.isNaN(x) ? Number.isNaN(low) || Number.isNaN(high) : low <= x && x <= high

function difference(a: number, b: number): number {
  if (a === b || (Number.isNaN(a) && Number.isNaN(b))) return 0
  const d = Math.abs(a - b)
  return Number.isNaN(d) ? Infinity : d
}

function indexOf(position: number, shape: readonly number[]): readonly number[] {
  const index: number[] = []
  for (const extent of [...shape].reverse()) {
    index.unshift(position % extent)
    position = Math.floor(position / extent)
  }
  return index
}

export interface CheckOptions extends Pick<EvaluationOptions, 'precision' | 'report'> {
  /** Above this many multiply-adds a sample is checked instead; default 2^32. */
  readonly fullBelow?: number
  readonly seed?: number
  /** Sees every element that is compared: of a sample, with positions in the sample. */
  readonly observe?: (element: ComparedElement) => void
}

export interface CheckResult extends Comparison {
  /** Multiply-adds of the whole program. */
  readonly macs: number
  /** `full`: every element; `sample`: a seeded grid of elements, and checksums of the outputs that are bare contractions. */
  readonly method: 'full' | 'sample'
  readonly checksums: readonly Checksum[]
  /** What was checked, in words, for the report of `ktl run`. */
  readonly description: string
}

/** What an element of a reduction or of a computed factor costs, in multiply-adds of a contraction. */
const REDUCED = 16

/** Checks a device's outputs: all elements, or a sample where the reference would take longer than seconds. */
export function checkOutputs(
  program: TensorProgram,
  given: EvaluationInputs,
  actual: Readonly<Record<string, ArrayLike<number>>>,
  options: CheckOptions = {},
): CheckResult {
  const inputs = { ...given, extents: allExtents(program, given) }
  const macs = multiplyAdds(program, inputs.extents)
  if (macs + REDUCED * reducedElements(program, inputs.extents) <= (options.fullBelow ?? 2 ** 32)) {
    const result = compare(evaluateWithBounds(program, inputs, options), actual, options.observe)
    return { ...result, macs, method: 'full', checksums: [], description: `all ${result.compared} elements` }
  }
  const selection = sampleOf(program, inputs.extents, options.seed ?? 1)
  const expected = evaluateWithBounds(program, inputs, { ...options, selection })
  const picked: Record<string, Float64Array> = {}
  for (const name of Object.keys(expected)) picked[name] = pick(program, inputs.extents, name, actual[name]!, selection)
  const result = compare(expected, picked, options.observe)
  const checksums = rowChecksums(program, inputs, actual, options)
  const pass = result.pass && checksums.every((checksum) => checksum.pass)
  const sums = checksums.length > 0 ? ', and row and column checksums' : ' (the epilogue allows no checksum)'
  const description = `a seeded sample of ${result.compared} elements${sums}`
  return { ...result, pass, macs, method: 'sample', checksums, description }
}

/** Values of an output at the selected indices; of scales, at all blocks. */
function pick(
  program: TensorProgram,
  extents: EvaluationInputs['extents'],
  name: string,
  values: ArrayLike<number>,
  selection: Selection,
): Float64Array {
  const operand = operandNamed(program, name)
  let positions = [0]
  operand.axes.forEach((axis, i) => {
    const extent = extentIn(operand, i, program, extents)
    const indices = (operand.blocks?.[i] ?? 1) === 1 ? selection.get(axis)! : iota(extent)
    positions = positions.flatMap((base) => Array.from(indices, (index) => base * extent + index))
  })
  return Float64Array.from(positions, (position) => values[position]!)
}
