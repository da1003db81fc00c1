/** Contractions of the reference: which rows and depths meet, group by group; contract.ts has the sums and their bounds. */
import type { SumPrecision } from '../dtypes.ts'
import type { ContractNode, ContractTerm, Node, TensorProgram } from '../ir/tensor.ts'
import { contract } from './contract.ts'
import type { Box, Groups } from './groups.ts'
import { countOf, denseStrides, type Selection } from './inputs.ts'
import { meetingOf, type Meeting } from './mma_type.ts'
import type { ContractionPair, ContractionSide } from './products.ts'
import { baseIn, offsetsIn, type Places, type Stored } from './place.ts'

export interface ContractionContext {
  readonly program: TensorProgram
  readonly groups: Groups
  readonly selection: Selection
  readonly places: Places
  /** null: no bounds are wanted. */
  readonly precision: SumPrecision | null
  /** Values of a factor at all its positions. */
  readonly factor: (node: Node) => Stored
}

/** Each axis once, in the order of the program. */
export const inOrder = (program: TensorProgram, axes: readonly string[]): string[] =>
  program.axes.flatMap(({ name }) => (axes.includes(name) ? [name] : []))

export function contraction(node: ContractNode, context: ContractionContext): Stored {
  const { program, groups, selection, places, precision } = context
  const total = inOrder(program, [...node.axes, ...node.terms.flatMap(({ a, b }) => [...a.axes, ...b.axes])])
  const free = groups.free(node.axes)
  const [first] = node.terms
  const inA = (axis: string): boolean => first.a.axes.includes(axis)
  const inB = (axis: string): boolean => first.b.axes.includes(axis)
  const batch = free.filter((axis) => inA(axis) === inB(axis))
  const [rowsA, rowsB] = [
    free.filter((axis) => inA(axis) && !inB(axis)),
    free.filter((axis) => inB(axis) && !inA(axis)),
  ]
  const order = [...batch, ...rowsA, ...rowsB]
  const sides = node.terms.map((term) => sidesOf(term, node, context))
  const place = (
    { stored, ...meeting }: Side,
    rows: readonly string[],
    over: readonly string[],
    box: Box,
  ): ContractionSide => ({
    data: stored.values,
    errors: stored.errors,
    ...meeting,
    batch: offsetsIn(stored, batch, box, places, baseIn(stored, order, box, places)),
    rows: offsetsIn(stored, rows, box, places),
    depth: offsetsIn(stored, over, box, places),
  })
  const results = resultBoxes(node, free, total, context).map(({ box, inner }) => {
    const pairs = node.terms.flatMap(({ over }, i) =>
      inner.map((summed): ContractionPair => {
        const rest = over.filter((axis) => !summed.groups.has(axis))
        const [a, b] = sides[i]!
        return [place(a, rowsA, rest, summed), place(b, rowsB, rest, summed)]
      }),
    )
    return { box, ...contract(pairs, node.accumulator, precision) }
  })
  const whole = {
    values: results[0]?.values ?? [],
    errors: results[0]?.errors ?? null,
    strides: denseStrides(order, selection),
    selectedOnly: true,
  }
  const count = countOf(order, selection)
  if (results.length === 1 && whole.values.length === count) return whole
  // Nothing is in no group: a sum over nothing.
  const values =
    node.accumulator === 'f64'
      ? new Float64Array(count)
      : node.accumulator === 'i32'
        ? new Int32Array(count)
        : new Float32Array(count)
  let errors: Float32Array | null = null
  for (const result of results)
    offsetsIn(whole, order, result.box, places).forEach((offset, i) => {
      values[offset] = result.values[i]!
      if (result.errors) (errors ??= new Float32Array(count))[offset] = result.errors[i]!
    })
  return { ...whole, values, errors }
}

interface Side extends Meeting {
  readonly stored: Stored
}

function sidesOf(term: ContractTerm, node: ContractNode, context: ContractionContext): readonly [Side, Side] {
  const { program, groups, selection } = context
  const [a, b] = meetingOf(term, node.accumulator, program)
  // What meets nowhere is not computed: it finds nothing.
  const meets = countOf(inOrder(program, [...node.axes, ...term.a.axes, ...term.b.axes]), selection) > 0
  const stored = (factor: Node): Stored =>
    meets
      ? context.factor(factor)
      : { values: [], errors: null, strides: denseStrides(groups.free(factor.axes), selection), selectedOnly: true }
  return [
    { ...a, stored: stored(term.a) },
    { ...b, stored: stored(term.b) },
  ]
}

interface ResultBox {
  readonly box: Box
  /** What is summed: one for each choice of the groups that the result does not keep. */
  readonly inner: readonly Box[]
}

/**
 * Boxes of a result along `free`, of which each has its own sums. Rows of a padded axis whose groups are summed over come one by one,
 * because not every group has each of them.
 */
function resultBoxes(
  node: ContractNode,
  free: readonly string[],
  total: readonly string[],
  context: ContractionContext,
): ResultBox[] {
  const { program, groups, selection } = context
  const implied = new Set(node.axes.map((axis) => groups.impliedBy(axis)))
  const families = groups.families(total)
  const kept = families.filter((family) => node.axes.includes(family) || implied.has(family))
  const single = free.filter((axis) =>
    families.some((family) => !kept.includes(family) && groups.groupOf(axis) === family),
  )
  const boxes = groups.choices(kept, selection).flatMap((fixed) => {
    const [box] = groups.boxes(inOrder(program, [...free, ...fixed.keys()]), selection, fixed)
    let parts: ResultBox[] = [{ box: box!, inner: groups.boxes(total, selection, fixed) }]
    for (const axis of single)
      parts = parts.flatMap((part) =>
        Array.from(part.box.lists.get(axis)!, (row) => ({
          box: withRow(part.box, axis, row),
          inner: part.inner.filter(({ lists }) => lists.get(axis)!.includes(row)).map((box) => withRow(box, axis, row)),
        })),
      )
    return parts
  })
  return boxes.filter(({ inner }) => inner.length > 0)
}

const withRow = (box: Box, axis: string, row: number): Box => ({
  ...box,
  lists: new Map([...box.lists, [axis, Int32Array.of(row)]]),
})
