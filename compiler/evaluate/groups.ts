/**
 * Ragged axes in the evaluator. What varies along one is computed group by group: a *box* is a list of indices for each axis, and
 * fixes the group of every ragged axis in it. Programs without ragged axes have a single box.
 */
import type { RaggedAxis, TensorProgram } from '../ir/tensor.ts'
import type { Report } from './findings.ts'
import { extentOf, tensorOf, type EvaluationInputs, type Selection } from './inputs.ts'

export interface Box {
  /** Indices along each axis that was asked for; a fixed group has one. */
  readonly lists: ReadonlyMap<string, Int32Array>
  /** Groups that the box is about, also of group axes that were not asked for. */
  readonly groups: ReadonlyMap<string, number>
}

const NONE: ReadonlyMap<string, number> = new Map()

export class Groups {
  readonly #ragged: ReadonlyMap<string, RaggedAxis>
  readonly #starts = new Map<string, Int32Array>()
  readonly #ends = new Map<string, Int32Array>()
  readonly #extents: EvaluationInputs['extents']

  constructor(program: TensorProgram, inputs: EvaluationInputs, report: Report) {
    this.#extents = inputs.extents
    this.#ragged = new Map(program.axes.flatMap(({ name, ragged }) => (ragged ? [[name, ragged]] : [])))
    for (const [axis, ragged] of this.#ragged) this.#read(axis, ragged, inputs, report)
  }

  /** Offsets are taken at the nearest place that neither decreases nor leaves the axis. */
  #read(axis: string, { by, form }: RaggedAxis, inputs: EvaluationInputs, report: Report): void {
    const { data } = tensorOf(by, inputs)
    const extent = extentOf(inputs.extents, axis)
    const [starts, ends] = [new Int32Array(data.length), new Int32Array(data.length)]
    for (let group = 0; group < data.length; group++) {
      const least = form === 'packed' && group > 0 ? ends[group - 1]! : 0
      const value = data[group]!
      starts[group] = form === 'packed' ? least : 0
      ends[group] = Math.max(least, Math.min(value, extent))
      if (ends[group] !== value) report({ kind: 'groups', operand: by, group, value })
    }
    this.#starts.set(axis, starts)
    this.#ends.set(axis, ends)
  }

  /** First row of each group; padded: 0. */
  starts(axis: string): Int32Array {
    return this.#starts.get(axis)!
  }

  lengths(axis: string): Int32Array {
    const starts = this.starts(axis)
    return this.#ends.get(axis)!.map((end, group) => end - starts[group]!)
  }

  /** The group of each row of a packed axis; -1 behind the last. */
  groupOfRow(axis: string): Int32Array {
    const groups = new Int32Array(extentOf(this.#extents, axis)).fill(-1)
    const starts = this.starts(axis)
    this.#ends.get(axis)!.forEach((end, group) => groups.fill(group, starts[group]!, end))
    return groups
  }

  /** The group axis of a packed ragged axis. */
  impliedBy(axis: string): string | null {
    const ragged = this.#ragged.get(axis)
    return ragged?.form === 'packed' ? ragged.group : null
  }

  /** The group axis of a ragged axis; null: it has no groups. */
  groupOf(axis: string): string | null {
    return this.#ragged.get(axis)?.group ?? null
  }

  /** Axes without the groups that packed ragged axes among them determine: what values are kept along. */
  free(axes: readonly string[]): string[] {
    const implied = new Set(axes.map((axis) => this.impliedBy(axis)))
    return axes.filter((axis) => !implied.has(axis))
  }

  /** Group axes that decide which rows of ragged axes among `axes` there are. */
  families(axes: readonly string[]): string[] {
    const families = axes.flatMap((axis) => {
      const ragged = this.#ragged.get(axis)
      return ragged && (ragged.form === 'packed' || axes.includes(ragged.group)) ? [ragged.group] : []
    })
    return [...new Set(families)]
  }

  /** Every choice of one group for each of `families`. */
  choices(families: readonly string[], selection: Selection): ReadonlyMap<string, number>[] {
    let choices: ReadonlyMap<string, number>[] = [NONE]
    for (const family of families)
      choices = choices.flatMap((chosen) =>
        Array.from(selection.get(family)!, (i) => new Map([...chosen, [family, i]])),
      )
    return choices
  }

  /** Disjoint boxes that cover the positions of `axes`, within the groups that are fixed already. */
  boxes(axes: readonly string[], selection: Selection, fixed: ReadonlyMap<string, number> = NONE): Box[] {
    const open = this.families([...axes, ...fixed.keys()]).filter((family) => !fixed.has(family))
    return this.choices(open, selection).map((chosen) => {
      const groups = new Map([...fixed, ...chosen])
      const lists = axes.map((axis) => [axis, this.#indices(axis, groups, selection)] as const)
      return { lists: new Map(lists), groups }
    })
  }

  #indices(axis: string, groups: ReadonlyMap<string, number>, selection: Selection): Int32Array {
    const own = groups.get(axis)
    if (own !== undefined) return Int32Array.of(own)
    const indices = selection.get(axis)!
    const group = groups.get(this.#ragged.get(axis)?.group ?? '')
    if (group === undefined) return indices
    const from = lowerBound(indices, this.starts(axis)[group]!)
    return indices.subarray(from, lowerBound(indices, this.#ends.get(axis)![group]!))
  }
}

/** How many of the ascending `indices` are below `limit`. */
function lowerBound(indices: Int32Array, limit: number): number {
  let [low, high] = [0, indices.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (indices[middle]! < limit) low = middle + 1
    else high = middle
  }
  return low
}
