/**
 * The reference evaluator: the meaning of a tensor program and the oracle of the tests. Decoded values in, decoded values out in
 * logical order, rounded as the stores of the language round.
 *
 * Contractions and reductions are computed whole first, in the order of their dependence (contract.ts, reduce.ts); the elementwise rest
 * runs row by row (tape.ts), and outputs are stored at the end (outputs.ts).
 */
import { roundToDType } from '../codec.ts'
import type { SumPrecision } from '../dtypes.ts'
import { shortForms } from '../passes/short_forms.ts'
import type { InputNode, Node, ReduceNode, TensorProgram } from '../ir/tensor.ts'
import { isPlainInput, operandNamed, rootsOf, topological } from '../ir/walk.ts'
import { contraction, inOrder, type ContractionContext } from './contractions.ts'
import type { Report } from './findings.ts'
import { Groups, type Box } from './groups.ts'
import {
  countOf,
  denseStrides,
  everyIndex,
  extentIn,
  extentOf,
  iota,
  scalarOf,
  stridesOf,
  tensorOf,
  type EvaluationInputs,
  type Selection,
} from './inputs.ts'
import { storeOutput } from './outputs.ts'
import { baseIn, offsetsIn, placesOf, type Places, type Stored } from './place.ts'
import { Reductions } from './reduce.ts'
import type { BoundedValues, OutputValues } from './store.ts'
import { decodedInput } from './stored_values.ts'
import { makeTape, type Gathered, type Row } from './tape.ts'

export type { BoundedValues, OutputValues } from './store.ts'

export interface EvaluationOptions {
  /** Of the tensor core; default: 25 fraction bits. */
  readonly precision?: SumPrecision
  /** Indices to compute per axis; all without. Axes that are summed over, have groups or are groups must not be restricted. */
  readonly selection?: Selection
  /** Is told what the data does that it should not. */
  readonly report?: Report
}

/** Values of every output and of its parts (`D`, `D.scale`). Shapes, names and extents must fit the program (a plain Error otherwise). */
export function evaluate(
  program: TensorProgram,
  tensors: EvaluationInputs['tensors'],
  scalars: EvaluationInputs['scalars'],
  extents: EvaluationInputs['extents'],
  options: Pick<EvaluationOptions, 'report'> = {},
): Record<string, OutputValues> {
  return new Evaluation(program, { tensors, scalars, extents }, null, options).outputs()
}

/**
 * Every output's values and the bound PASS allows: 0 where the language leaves no freedom, otherwise the contraction
 * bound propagated through the epilogue by the operations' error rules, plus one unit in the last place of the
 * stored dtype. `docs/numerics.md` has all of them.
 */
export function evaluateWithBounds(
  program: TensorProgram,
  inputs: EvaluationInputs,
  options: EvaluationOptions = {},
): Record<string, BoundedValues> {
  return new Evaluation(program, inputs, options.precision ?? { fractionBits: 25 }, options).outputs()
}

/** Extents of all axes, those that the program computes included. */
export function allExtents(program: TensorProgram, inputs: EvaluationInputs): EvaluationInputs['extents'] {
  const known = new Map(Object.entries(inputs.extents))
  const extent = (axis: string): number => {
    const computed = program.axes.find(({ name }) => name === axis)?.extent
    if (!known.has(axis) && computed) known.set(axis, valueOf(computed))
    return extentOf(Object.fromEntries(known), axis)
  }
  const number = (node: Node): number | null => numberOf(node, program, inputs, extent)
  const valueOf = (node: Node): number => {
    const context = { row: null, places: new Map(), bounds: false, short: new Set<Node>(), stored: () => null, number }
    const none = (): never => {
      throw new Error('an extent reads an operand')
    }
    return makeTape([node], { ...context, gathered: none, report: none }).run(new Map())[0]!.values[0]!
  }
  for (const { name, extent: computed } of program.axes) if (computed) extent(name)
  return Object.fromEntries(known)
}

function numberOf(
  node: Node,
  program: TensorProgram,
  inputs: EvaluationInputs,
  extent: (axis: string) => number,
): number | null {
  if (node.kind === 'const') return node.value
  if (node.kind === 'size') return extent(node.axis)
  if (node.kind !== 'scalar') return null
  const { dtype } = program.scalars.find((scalar) => scalar.name === node.operand)!
  return roundToDType(dtype, scalarOf(program, node.operand, inputs))
}

class Evaluation {
  readonly #program: TensorProgram
  readonly #inputs: EvaluationInputs
  /** null: no bounds. */
  readonly #precision: SumPrecision | null
  readonly #selection: Selection
  readonly #places: Places
  readonly #groups: Groups
  readonly #report: Report
  /** Finished contractions, reductions and factors, and other leaves. */
  readonly #stored = new Map<Node, Stored>()
  readonly #read = new Map<string, Stored>()

  constructor(
    program: TensorProgram,
    given: EvaluationInputs,
    precision: SumPrecision | null,
    options: EvaluationOptions,
  ) {
    const inputs = { ...given, extents: allExtents(program, given) }
    this.#program = program
    this.#inputs = inputs
    this.#precision = precision
    this.#report = options.report ?? (() => {})
    this.#selection = new Map([...everyIndex(program, inputs.extents), ...(options.selection ?? [])])
    this.#places = placesOf(this.#selection, (axis) => extentOf(inputs.extents, axis))
    this.#groups = new Groups(program, inputs, this.#report)
  }

  get #contractionContext(): ContractionContext {
    return {
      program: this.#program,
      groups: this.#groups,
      selection: this.#selection,
      places: this.#places,
      precision: this.#precision,
      factor: (node) => this.#factor(node),
    }
  }

  outputs(): Record<string, BoundedValues> {
    for (const node of topological(rootsOf(this.#program))) {
      if (node.kind === 'contract') this.#stored.set(node, contraction(node, this.#contractionContext))
      if (node.kind === 'reduce') this.#stored.set(node, this.#reduction(node))
    }
    const context = {
      program: this.#program,
      inputs: this.#inputs,
      selection: this.#selection,
      places: this.#places,
      groups: this.#groups,
      bounds: this.#precision !== null,
      report: this.#report,
      forEachRow: this.#forEachRow.bind(this),
    }
    return Object.assign({}, ...this.#program.outputs.map((output) => storeOutput(output, context)))
  }

  /**
   * Evaluates `roots` at every position of `axes` in a box, the last of them along rows; `index` counts rows, `outer` has the
   * index along the other axes.
   */
  #forEachRow(
    roots: readonly Node[],
    axes: readonly string[],
    box: Box,
    visit: (rows: readonly Row[], index: number) => void,
  ): void {
    if (countOf(axes, box.lists) === 0) return
    const inner = axes.at(-1)
    const tape = makeTape(roots, {
      row: inner === undefined ? null : { axis: inner, indices: box.lists.get(inner)! },
      places: this.#places,
      bounds: this.#precision !== null,
      short: shortForms(this.#program),
      stored: (node) => this.#leaf(node),
      number: (node) => this.#number(node),
      gathered: (node) => this.#gathered(node),
      report: this.#report,
    })
    const outer = axes.slice(0, -1).map((axis) => ({ axis, list: box.lists.get(axis)!, at: 0 }))
    const position = new Map([...box.groups, ...outer.map(({ axis, list }) => [axis, list[0]!] as const)])
    for (let index = 0; ; index++) {
      visit(tape.run(position), index)
      let i = outer.length - 1
      for (; i >= 0; i--) {
        const axis = outer[i]!
        axis.at = axis.at + 1 < axis.list.length ? axis.at + 1 : 0
        position.set(axis.axis, axis.list[axis.at]!)
        if (axis.at !== 0) break
      }
      if (i < 0) return
    }
  }

  #number(node: Node): number | null {
    return numberOf(node, this.#program, this.#inputs, (axis) => extentOf(this.#inputs.extents, axis))
  }

  /** Where the values of a node lie that is not computed elementwise; null: it is. */
  #leaf(node: Node): Stored | null {
    const known = this.#stored.get(node)
    if (known) return known
    const leaf = isPlainInput(node) ? this.#input(node.operand) : this.#positions(node)
    if (leaf) this.#stored.set(node, leaf)
    return leaf
  }

  /** Positions along an axis, and starts and lengths of groups. */
  #positions(node: Node): Stored | null {
    if (node.kind !== 'axis' && node.kind !== 'start' && node.kind !== 'length') return null
    const values =
      node.kind === 'axis'
        ? iota(extentOf(this.#inputs.extents, node.axis))
        : node.kind === 'start'
          ? this.#groups.starts(node.axis)
          : this.#groups.lengths(node.axis)
    return { values, errors: null, strides: new Map([[node.axes[0]!, 1]]), selectedOnly: false }
  }

  #input(name: string): Stored {
    const known = this.#read.get(name)
    if (known) return known
    const operand = operandNamed(this.#program, name)
    const strides = stridesOf(operand, this.#program, this.#inputs)
    const values = operand.stored
      ? decodedInput(operand, this.#program, this.#inputs, this.#groups)
      : tensorOf(name, this.#inputs).data
    const stored = { values, errors: null, strides, selectedOnly: false }
    this.#read.set(name, stored)
    return stored
  }

  #gathered({ operand: name, at }: InputNode): Gathered {
    const operand = operandNamed(this.#program, name)
    return {
      stored: this.#input(name),
      axes: operand.axes,
      extents: operand.axes.map((_, i) => extentIn(operand, i, this.#program, this.#inputs.extents)),
      lookedUp: at!.map((position) => topological([position]).some(({ kind }) => kind === 'input')),
    }
  }

  /** Computes a factor of a contraction at all its positions. */
  #factor(node: Node): Stored {
    const leaf = this.#leaf(node)
    if (leaf) return leaf
    const axes = this.#groups.free(node.axes)
    const strides = denseStrides(axes, this.#selection)
    const count = countOf(axes, this.#selection)
    const values = node.type === 'f32' ? new Float32Array(count) : new Float64Array(count)
    let errors: Float32Array | null = null
    const stored: Stored = { values, errors: null, strides, selectedOnly: true }
    for (const box of this.#groups.boxes(node.axes, this.#selection)) {
      const offsets = offsetsIn(stored, axes, box, this.#places)
      this.#forEachRow([node], axes, box, ([row], index) => {
        const at = index * row!.values.length
        for (let j = 0; j < row!.values.length; j++) {
          values[offsets[at + j]!] = row!.values[j]!
          const error = row!.errors[j]!
          if (error !== 0) (errors ??= new Float32Array(count))[offsets[at + j]!] = error * (1 + 2 ** -20)
        }
      })
    }
    const made = { ...stored, errors }
    this.#stored.set(node, made)
    return made
  }

  #reduction(node: ReduceNode): Stored {
    const groups = this.#groups
    const axes = groups.free(node.axes)
    const strides = denseStrides(axes, this.#selection)
    const stored = { values: [], errors: null, strides, selectedOnly: true }
    const reductions = new Reductions(node, countOf(axes, this.#selection))
    const total = inOrder(this.#program, [...node.axes, ...node.over, ...node.value.axes])
    const loop = groups.free(total)
    const kept = loop.filter((axis) => axes.includes(axis))
    // The last axis that is reduced runs along rows; without one, a row is a single element.
    const over = loop.filter((axis) => !axes.includes(axis))
    for (const box of groups.boxes(total, this.#selection)) {
      const base = baseIn(stored, kept, box, this.#places)
      const results = offsetsIn(stored, kept, box, this.#places, base)
      if (over.length === 0) {
        this.#forEachRow([node.value], kept, box, ([row], index) => {
          const at = index * row!.values.length
          for (let j = 0; j < row!.values.length; j++)
            reductions.add(results[at + j]!, row!.values[j]!, row!.errors[j]!)
        })
        continue
      }
      const rowsEach = countOf(over.slice(0, -1), box.lists)
      this.#forEachRow([node.value], [...kept, ...over], box, ([row], index) => {
        const at = results[Math.floor(index / rowsEach)]!
        for (let j = 0; j < row!.values.length; j++) reductions.add(at, row!.values[j]!, row!.errors[j]!)
      })
    }
    return { ...stored, ...reductions.finish() }
  }
}
