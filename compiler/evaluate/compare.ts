/** PASS or FAIL: outputs of a device against the reference. */
import type { TensorProgram } from '../ir/tensor.ts'
import { contracted } from '../ir/walk.ts'
import { rowChecksums, type Checksum } from './checksum.ts'
import { evaluateWithBounds, type BoundedValues, type EvaluationOptions } from './evaluate.ts'
import { uniform } from './generate.ts'
import { everyIndex, type EvaluationInputs } from './inputs.ts'
import { operandNamed } from '../ir/walk.ts'

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

/** Compares decoded values in logical order. A NaN equals a NaN, and 0 equals -0. */
export function compare(
  expected: Readonly<Record<string, BoundedValues>>,
  actual: Readonly<Record<string, ArrayLike<number>>>,
): Comparison {
  let [compared, failures, maxError, excess] = [0, 0, 0, -Infinity]
  let exact = true
  let worst: WorstElement | null = null
  for (const [output, { data, bounds, shape }] of Object.entries(expected)) {
    const values = actual[output]
    if (!values || values.length !== data.length)
      throw new Error(`${output}: expected ${data.length} values, got ${values?.length}`)
    compared += data.length
    for (let i = 0; i < data.length; i++) {
      const bound = bounds?.[i] ?? 0
      if (bound !== 0) exact = false
      const error = difference(data[i]!, values[i]!)
      if (error > maxError) maxError = error
      if (error > bound) failures++
      if (error === 0 && worst !== null) continue
      // Out of bounds comes first, by how far; within bounds, the largest error.
      const rank = error > bound ? error : -1 / (1 + error)
      if (rank <= excess && worst !== null) continue
      excess = rank
      worst = { output, index: indexOf(i, shape), expected: data[i]!, actual: values[i]!, bound }
    }
  }
  return { pass: failures === 0, exact, compared, failures, maxError, worst }
}

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

export interface CheckOptions extends Pick<EvaluationOptions, 'fractionBits'> {
  /** Above this many multiply-adds a sample is checked instead; default 2^32. */
  readonly fullBelow?: number
  readonly seed?: number
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

/** Indices sampled along each axis. */
const SAMPLE = 48

/** Checks a device's outputs: all elements, or a sample where the reference would take longer than seconds. */
export function checkOutputs(
  program: TensorProgram,
  inputs: EvaluationInputs,
  actual: Readonly<Record<string, ArrayLike<number>>>,
  options: CheckOptions = {},
): CheckResult {
  const macs = multiplyAdds(program, inputs.extents)
  if (macs <= (options.fullBelow ?? 2 ** 32)) {
    const result = compare(evaluateWithBounds(program, inputs, options), actual)
    return { ...result, macs, method: 'full', checksums: [], description: `all ${result.compared} elements` }
  }
  const selection = sample(program, inputs.extents, options.seed ?? 1)
  const expected = evaluateWithBounds(program, inputs, { ...options, selection })
  const picked: Record<string, Float64Array> = {}
  for (const name of Object.keys(expected)) picked[name] = pick(program, inputs.extents, name, actual[name]!, selection)
  const result = compare(expected, picked)
  const checksums = rowChecksums(program, inputs, actual, options)
  const pass = result.pass && checksums.every((checksum) => checksum.pass)
  const sums = checksums.length > 0 ? ', and row and column checksums' : ' (the epilogue allows no checksum)'
  const description = `a seeded sample of ${result.compared} elements${sums}`
  return { ...result, pass, macs, method: 'sample', checksums, description }
}

/** Multiply-adds of all contractions. */
export function multiplyAdds(program: TensorProgram, extents: EvaluationInputs['extents']): number {
  let total = 0
  const seen = new Set<unknown>()
  const pending = program.outputs.map((output) => output.value)
  for (let node = pending.pop(); node; node = pending.pop()) {
    if (seen.has(node)) continue
    seen.add(node)
    if (node.kind === 'contract') {
      for (const { a, b } of node.terms) {
        const axes = new Set([...a.axes, ...b.axes])
        total += [...axes].reduce((product, axis) => product * (extents[axis] ?? 1), 1)
        pending.push(a, b)
      }
    } else if (node.kind === 'apply') pending.push(...node.args)
    else if (node.kind === 'cast' || node.kind === 'reduce') pending.push(node.value)
    else if (node.kind === 'skip0') pending.push(node.scale, node.value)
  }
  return total
}

/** A few indices of every output axis that nothing is summed over; first and last always, for the edges of tiles. */
function sample(program: TensorProgram, extents: EvaluationInputs['extents'], seed: number): Map<string, Int32Array> {
  const selection = everyIndex(program, extents)
  const summed = new Set<string>()
  const pending = program.outputs.map((output) => output.value)
  for (let node = pending.pop(); node; node = pending.pop()) {
    if (node.kind === 'contract') contracted(node).forEach((axis) => summed.add(axis))
    if (node.kind === 'reduce') node.over.forEach((axis) => summed.add(axis))
    if (node.kind === 'apply') pending.push(...node.args)
    else if (node.kind === 'cast' || node.kind === 'reduce') pending.push(node.value)
    else if (node.kind === 'skip0') pending.push(node.scale, node.value)
  }
  const next = uniform(seed)
  for (const [axis, indices] of selection) {
    if (summed.has(axis) || indices.length <= SAMPLE) continue
    const chosen = new Set([0, indices.length - 1])
    while (chosen.size < SAMPLE) chosen.add(Math.floor(next() * indices.length))
    selection.set(axis, Int32Array.from([...chosen].sort((a, b) => a - b)))
  }
  return selection
}

function pick(
  program: TensorProgram,
  extents: EvaluationInputs['extents'],
  name: string,
  values: ArrayLike<number>,
  selection: ReadonlyMap<string, Int32Array>,
): Float64Array {
  const { axes } = operandNamed(program, name)
  let positions = [0]
  for (const axis of axes) {
    positions = positions.flatMap((base) => Array.from(selection.get(axis)!, (i) => base * extents[axis]! + i))
  }
  return Float64Array.from(positions, (position) => values[position]!)
}
