/**
 * The reference evaluator: the meaning of a tensor program and the oracle of the tests. Decoded values in, decoded values out in
 * logical order, rounded as the stores of the language round.
 *
 * Contractions and reductions are computed whole first (contract.ts, reduce.ts); the elementwise rest runs row by row (tape.ts).
 */
import { decode, encode, roundToDType, type DecodedArray } from '../codec.ts'
import { DTYPES } from '../dtypes.ts'
import type { DTypeName } from '../../grammar/vocabulary.ts'
import { plainTerms, topological } from '../ir/walk.ts'
import { ulp } from '../ops.ts'
import type { ContractNode, Node, ReduceNode, TensorProgram } from '../ir/tensor.ts'
import { contract, type ContractionPair, type ContractionSide } from './contract.ts'
import {
  countOf,
  denseStrides,
  everyIndex,
  extentOf,
  offsetsOf,
  scalarOf,
  stridesOf,
  tensorOf,
  type EvaluationInputs,
  type Selection,
} from './inputs.ts'
import { reduceRow, startReduction } from './reduce.ts'
import { shortForms } from '../passes/short_forms.ts'
import { makeTape, storeBound, type Row, type Stored } from './tape.ts'

export interface OutputValues {
  readonly dtype: DTypeName
  readonly shape: readonly number[]
  /** Decoded values, dense, in logical order. */
  readonly data: DecodedArray
}

export interface BoundedValues extends OutputValues {
  /** How far a correct result may be from each value; null: all are exact. */
  readonly bounds: Float64Array | null
}

export interface EvaluationOptions {
  /** Fraction bits a tensor core keeps when it adds products up: 25, or 13 for Hopper's fp8 (contract.ts). */
  readonly fractionBits?: number
  /** Indices to compute per axis; all without. Axes that are summed over must not be restricted. */
  readonly selection?: Selection
}

/** Every output's values. Shapes, names and extents must fit the program (a plain Error otherwise). */
export function evaluate(
  program: TensorProgram,
  tensors: EvaluationInputs['tensors'],
  scalars: EvaluationInputs['scalars'],
  extents: EvaluationInputs['extents'],
): Record<string, OutputValues> {
  return new Evaluation(program, { tensors, scalars, extents }, null, {}).outputs()
}

/**
 * Every output's values and the bound PASS allows: 0 where the language leaves no freedom, otherwise the contraction
 * bound propagated through the epilogue by the operations' error rules, plus one unit in the last place of the
 * stored dtype.
 */
export function evaluateWithBounds(
  program: TensorProgram,
  inputs: EvaluationInputs,
  options: EvaluationOptions = {},
): Record<string, BoundedValues> {
  return new Evaluation(program, inputs, options.fractionBits ?? 25, options).outputs()
}

class Evaluation {
  private readonly program: TensorProgram
  private readonly inputs: EvaluationInputs
  /** null: no bounds. */
  private readonly fractionBits: number | null
  private readonly selection: Selection
  private readonly stored = new Map<Node, Stored>()
  private readonly operands: ReadonlyMap<string, TensorProgram['operands'][number]>

  constructor(
    program: TensorProgram,
    inputs: EvaluationInputs,
    fractionBits: number | null,
    options: EvaluationOptions,
  ) {
    this.program = program
    this.inputs = inputs
    this.fractionBits = fractionBits
    this.selection = new Map([...everyIndex(program, inputs.extents), ...(options.selection ?? [])])
    this.operands = new Map(program.operands.map((operand) => [operand.name, operand]))
  }

  outputs(): Record<string, BoundedValues> {
    for (const node of topological(this.program.outputs.map((output) => output.value))) {
      if (node.kind === 'contract') this.stored.set(node, this.contraction(node))
      if (node.kind === 'reduce') this.stored.set(node, this.reduction(node))
    }
    return Object.fromEntries(this.program.outputs.map(({ operand, value }) => [operand, this.output(operand, value)]))
  }

  private output(name: string, value: Node): BoundedValues {
    const { axes, dtype } = this.operands.get(name)!
    const count = countOf(axes, this.selection)
    const exactTypes = dtype === 'f64' || value.type === 'i32' || value.type === 'u32'
    const values = exactTypes ? new Float64Array(count) : new Float32Array(count)
    const wide = value.type === 'f64' ? new Float64Array(count) : values
    let bounds: Float64Array | null = null
    this.forEachRow(value, axes, (row, at) => {
      wide.set(row.values, at)
      if (this.fractionBits === null) return
      for (let j = 0; j < row.values.length; j++) {
        const bound = storedBound(dtype, row.values[j]!, row.errors[j]!)
        if (bound !== 0) (bounds ??= new Float64Array(count))[at + j] = bound
      }
    })
    return {
      dtype,
      shape: axes.map((axis) => this.selection.get(axis)!.length),
      data: decode(dtype, encode(dtype, wide)),
      bounds,
    }
  }

  /** Evaluates `value` for every selected index of `axes`; `at` is the row's place in a dense array over them. */
  private forEachRow(value: Node, axes: readonly string[], visit: (row: Row, at: number) => void): void {
    if (countOf(axes, this.selection) === 0) return
    const inner = axes.at(-1) ?? null
    const tape = makeTape(this.nodesBelow(value), {
      row: inner,
      selection: this.selection,
      bounds: this.fractionBits !== null,
      short: shortForms(this.program),
      stored: (node) => this.stored.get(node) ?? (node.kind === 'input' ? this.input(node.operand) : null),
      number: (node) => this.number(node),
    })
    const outer = axes.slice(0, -1)
    const position = new Map(outer.map((axis) => [axis, 0]))
    const length = inner === null ? 1 : this.selection.get(inner)!.length
    for (let at = 0; ; at += length) {
      visit(tape.run(position), at)
      let i = outer.length - 1
      for (; i >= 0; i--) {
        const axis = outer[i]!
        const next = position.get(axis)! + 1
        position.set(axis, next < this.selection.get(axis)!.length ? next : 0)
        if (position.get(axis) !== 0) break
      }
      if (i < 0) return
    }
  }

  /** What has to be computed for `value`: nothing below contractions and reductions that are finished. */
  private nodesBelow(value: Node): readonly Node[] {
    const needed = new Set<Node>()
    const pending = [value]
    for (let node = pending.pop(); node; node = pending.pop()) {
      if (needed.has(node)) continue
      needed.add(node)
      if (node.kind === 'apply') pending.push(...node.args)
      else if (node.kind === 'cast') pending.push(node.value)
      else if (node.kind === 'skip0') pending.push(node.scale, node.value)
    }
    return topological([value]).filter((node) => needed.has(node))
  }

  private number(node: Node): number | null {
    if (node.kind === 'const') return node.value
    if (node.kind === 'size') return extentOf(this.inputs.extents, node.axis)
    if (node.kind !== 'scalar') return null
    const dtype = this.program.scalars.find((scalar) => scalar.name === node.operand)!.dtype
    return roundToDType(dtype, scalarOf(this.program, node.operand, this.inputs))
  }

  private input(name: string): Stored {
    const strides = stridesOf(this.operands.get(name)!, this.program, this.inputs)
    return { values: tensorOf(name, this.inputs).data, errors: null, strides, selectedOnly: false }
  }

  private contraction(node: ContractNode): Stored {
    const terms = plainTerms(node)!
    const [first] = terms
    const [axesA, axesB] = [first.a.axes, first.b.axes]
    const batch = node.axes.filter((axis) => axesA.includes(axis) && axesB.includes(axis))
    const rowsA = node.axes.filter((axis) => !axesB.includes(axis))
    const rowsB = node.axes.filter((axis) => !axesA.includes(axis))
    const side = (name: string, rows: readonly string[], over: readonly string[]): ContractionSide => {
      const strides = stridesOf(this.operands.get(name)!, this.program, this.inputs)
      const offsets = (axes: readonly string[]): Int32Array => offsetsOf(axes, strides, this.selection)
      return {
        data: tensorOf(name, this.inputs).data,
        batch: offsets(batch),
        rows: offsets(rows),
        depth: offsets(over),
      }
    }
    const pairs = terms.map(({ a, b, over }): ContractionPair => [
      side(a.operand, rowsA, over),
      side(b.operand, rowsB, over),
    ])
    const strides = denseStrides([...batch, ...rowsA, ...rowsB], this.selection)
    return { ...contract(pairs, node.accumulator, this.fractionBits), strides, selectedOnly: true }
  }

  private reduction(node: ReduceNode): Stored {
    const count = countOf(node.axes, this.selection)
    const over = countOf(node.over, this.selection)
    const values = new Float64Array(count)
    const errors = new Float64Array(count)
    const reduction = startReduction(node, over)
    if (over === 0) values.fill(reduction.finish().value)
    else {
      // `over` innermost: each result is complete after as many rows as its other axes have.
      const rowsEach = over / this.selection.get(node.over.at(-1)!)!.length
      let rows = 0
      let at = 0
      this.forEachRow(node.value, [...node.axes, ...node.over], (row) => {
        reduceRow(reduction, row)
        if (++rows % rowsEach !== 0) return
        const { value, error } = reduction.finish()
        values[at] = value
        errors[at++] = this.fractionBits === null ? 0 : error
      })
    }
    return { values, errors, strides: denseStrides(node.axes, this.selection), selectedOnly: true }
  }
}

/** Bound of a stored element: what the error moves the rounding by, plus a unit in the last place. */
function storedBound(dtype: DTypeName, value: number, error: number): number {
  if (error === 0) return 0
  return storeBound(dtype, value, error) + unit(dtype, Math.abs(value) + error)
}

/** Distance between neighbouring values of the dtype at x: one unit in the last place; 1 for integers. */
export function unit(dtype: DTypeName, x: number): number {
  const { class: kind, mantissaBits, bias, maxFinite } = DTYPES[dtype]
  if (kind === 'int' || kind === 'bool') return 1
  if (dtype === 'f64') return ulp('f64', x)
  const exponent = Math.floor(Math.log2(Math.min(x, maxFinite) || 2 ** -1074))
  return 2 ** (Math.max(exponent, 1 - bias) - mantissaBits)
}
