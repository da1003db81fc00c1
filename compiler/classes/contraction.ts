/**
 * Contractions as tiles: tensor programs whose sums are matrix products `[l?, m, over…] x [l?, over…, n]` become a tile graph.
 * Products that share their left operand go through one loop; a sum of several products goes through one loop after the other,
 * into one accumulator.
 */
import { withoutAxes } from '../check/axes.ts'
import type { Rejection } from '../instance.ts'
import type { TileGraph, TileStmt, View } from '../ir/graph.ts'
import type { AccumulatorNode, ContractNode, InputNode, Node, TensorOperand, TensorProgram } from '../ir/tensor.ts'
import { impliedGroups } from '../ir/verify_tensor.ts'
import { children, isPlainInput, operandNamed, plainTerms, topological, type PlainTerm } from '../ir/walk.ts'
import { computeOperands, type MmaUnits } from '../passes/computed_operands.ts'
import { epilogueOperands } from '../passes/epilogue_operands.ts'
import { factorScales } from '../passes/factor_scales.ts'
import { nodesOf, rewriteNodes } from '../passes/graph.ts'
import { interleave } from '../passes/interleaved.ts'
import { lookedUpRows } from '../passes/looked_up_rows.ts'
import { inTiles } from '../stored/tiles.ts'
import { markShortForms } from '../passes/short_forms.ts'
import { div, name, type Ix } from '../space/ix.ts'

/** No contraction, and no reduction: every element by itself. */
export interface ElementwiseShape {
  readonly kind: 'elementwise'
}

/** Anything else; the reason is why it has no tile graph. */
export interface GeneralShape extends Rejection {
  readonly kind: 'general'
}

export type Classified = TileGraph | ElementwiseShape | GeneralShape

const known = new WeakMap<TensorProgram, Map<MmaUnits, Classified>>()

/** The tile graph of a program for such MMAs, once for all designs. */
export function classify(program: TensorProgram, units: MmaUnits): Classified {
  const classes = known.get(program) ?? new Map<MmaUnits, Classified>()
  known.set(program, classes)
  const found = classes.get(units) ?? find(program, units)
  classes.set(units, found)
  return found
}

function find(original: TensorProgram, units: MmaUnits): Classified {
  const factored = factorScales(taken(original, units))
  if (!factored) return general('a stored form that decodes before it is multiplied')
  const { scales } = factored
  const program = epilogueOperands(factored.program)
  const behind = program.operands.filter(({ name }) => ![...scales.values()].includes(name))
  if (behind.some(({ order }) => inTiles(order))) return general('scales in tiles that are applied behind the sum')
  const nodes = nodesOf(program)
  const contractions = nodes
    .filter((node) => node.kind === 'contract')
    .sort((x, y) => wayOf(program, x) - wayOf(program, y))
  const [first] = contractions
  if (!first) {
    return nodes.some((n) => n.kind === 'reduce')
      ? general('a reduction without a contraction')
      : { kind: 'elementwise' }
  }
  const products: MatrixProduct[][] = []
  const beyond = beyondTiles(program)
  if (beyond) return general(beyond)
  for (const contraction of contractions) {
    const terms = plainTerms(contraction)
    if (!terms) return general('a contraction of computed operands')
    const views = terms.map((term) => matrixProduct(program, term, contraction.axes))
    const bad = views.find((view) => 'code' in view)
    if (bad && 'code' in bad) return bad
    products.push(views as MatrixProduct[])
  }
  const [{ l, m, n }] = products[0]! as [MatrixProduct]
  const sameTile = products.flat().every((view) => view.l === l && view.m === m && view.n === n)
  if (!sameTile) return general('contractions over different tiles')
  const groups = beyondGroups(program, products[0]!)
  if (groups) return general(groups)
  const loops = products[0]!.map((product, term) => ({ product, rows: products.map((views) => views[term]) }))
  const shared =
    products.every((views) => views.length === loops.length) &&
    loops.every(({ product, rows }) =>
      rows.every((view) => view!.a === product.a && view!.over.join() === product.over.join()),
    )
  if (!shared) return general('contractions that share no operand')

  const view = (operand: string): View => {
    const { axes, blocks } = operandNamed(program, operand)
    return { operand, at: axes.map((axis, i) => div(name(axis), blocks?.[i] ?? 1)) }
  }
  const load = (tile: number, operand: string): TileStmt => {
    const scale = scales.get(operand)
    return { kind: 'load', tile, view: view(operand), scale: scale === undefined ? null : view(scale) }
  }
  const carries = contractions.map((_, i) => i)
  let tiles = 0
  const body = loops.map(({ product, rows }): TileStmt => {
    const a = tiles++
    const columns = rows.map((row) => ({ tile: tiles++, operand: row!.b }))
    return {
      kind: 'loop',
      over: product.over,
      carries,
      body: [
        load(a, product.a),
        ...columns.map(({ tile, operand }) => load(tile, operand)),
        ...columns.map(({ tile }, accumulator): TileStmt => ({ kind: 'mma', accumulator, a, b: tile })),
      ],
    }
  })
  const values = finished(program, contractions)
  let count = 0
  for (const { operand, value, at } of program.outputs) {
    const node = values.get(value)!
    const id = count++
    body.push({ kind: 'map', value: id, node: node.kind === 'reduce' ? node.value : node })
    const stored = node.kind === 'reduce' ? count++ : id
    if (node.kind === 'reduce') body.push({ kind: 'reduce', value: stored, of: id, node })
    body.push({ kind: 'store', value: stored, view: at ? { operand, at: at.map(placeName) } : view(operand) })
  }
  return {
    kind: 'tiles',
    program,
    domain: { rows: m, columns: n, batch: l },
    accumulators: contractions.map(({ accumulator }) => accumulator),
    body,
  }
}

/** Which of the columns side by side a product makes; 0: it is alone. */
const wayOf = (program: TensorProgram, { terms: [{ a, b }] }: ContractNode): number =>
  [a, b].reduce(
    (way, node) => Math.max(way, (isPlainInput(node) && operandNamed(program, node.operand).half?.way) || 0),
    0,
  )

/** With reads at positions as operands that MMAs take, where they do. */
function taken(original: TensorProgram, units: MmaUnits): TensorProgram {
  const read = lookedUpRows(interleave(original))
  const made = computeOperands(read, units)
  if (read === original) return made
  // Halves are no operands that anything else could be computed of.
  const isHalf = (name: string): boolean => operandNamed(read, name).half !== undefined
  const left = factorsOf(made)
  return [...factorsOf(read)].filter(isHalf).every((name) => left.has(name)) ? made : computeOperands(original, units)
}

/** Operands that contractions read as they are. */
const factorsOf = (program: TensorProgram): ReadonlySet<string> => {
  const factors = nodesOf(program).flatMap((node) =>
    node.kind === 'contract' ? node.terms.flatMap(({ a, b }) => [a, b]) : [],
  )
  return new Set(factors.filter(isPlainInput).map(({ operand }) => operand))
}

/** A position of a scatter: an axis, or the operand that holds it. */
const placeName = (place: Node): Ix => name(place.kind === 'axis' ? place.axis : (place as InputNode).operand)

/** The program's values with accumulators in place of contractions, functions in their short forms where these suffice. */
function finished(program: TensorProgram, contractions: readonly ContractNode[]): ReadonlyMap<Node, Node> {
  const index = new Map(contractions.map((node, i) => [node as Node, i]))
  const short = markShortForms(program)
  return rewriteNodes(program, (node, old): Node => {
    if (node.kind === 'contract') {
      const { type, axes, span, accumulator } = node
      return { kind: 'accumulator', index: index.get(old)!, accumulator, type, axes, span } satisfies AccumulatorNode
    }
    return short(node, old)
  })
}

/** What a program has that tiles of its output cannot take yet; null: nothing. */
function beyondTiles(program: TensorProgram): string | null {
  const { axes, outputs } = program
  if (axes.some(({ extent }) => extent)) return 'a computed extent'
  const places = outputs.flatMap(({ at }) => at ?? [])
  if (places.some((place) => place.kind !== 'axis' && !isPlainInput(place))) return 'a scatter to computed sums'
  const nodes = nodesOf(program)
  if (nodes.some((node) => node.kind === 'input' && node.at)) return 'a read with indices'
  if (topological(outputs.map(({ value }) => value)).some(({ kind }) => kind === 'axis'))
    return 'the position along an axis as a value'
  const used = new Set(nodes.flatMap(children))
  if (nodes.some((node) => node.kind === 'reduce' && used.has(node))) return 'a reduction that is used again'
  // What is reduced lives in one tile of the accumulators.
  const tile = new Set(nodes.flatMap((node) => (node.kind === 'contract' ? node.axes : [])))
  const wide = nodes.some((node) => node.kind === 'reduce' && node.value.axes.some((axis) => !tile.has(axis)))
  return wide ? 'a reduction of more than a tile' : null
}

/** What ragged axes say that tiles which begin and end with groups of rows cannot take yet; null: nothing. */
function beyondGroups(program: TensorProgram, products: readonly MatrixProduct[]): string | null {
  const [{ l, m, over }, ...others] = products as [MatrixProduct, ...MatrixProduct[]]
  const ragged = program.axes.filter((axis) => axis.ragged)
  if (ragged.length === 0) return null
  const nodes = nodesOf(program)
  if (nodes.some(({ kind }) => kind === 'start' || kind === 'length')) return 'the start or the length of a group'
  if (nodes.some(({ kind }) => kind === 'reduce')) return 'a reduction beside a ragged axis'
  const isSummed = (axis: string): boolean => others.length === 0 && over.join() === axis
  const other = ragged.find(({ name, ragged }) => (name !== m && !isSummed(name)) || ragged!.group !== l)
  if (other ?? ragged[1]) return `the ragged axis \`${(other ?? ragged[1]!).name}\` beside such tiles`
  // Blocks begin with the group of the tile, which others are not read of.
  const isBlocked = ({ axes, blocks }: TensorOperand): boolean => (blocks?.[axes.indexOf(ragged[0]!.name)] ?? 1) > 1
  const read = topological(program.operands.flatMap(({ computed }) => computed ?? []))
  const elsewhere = read.some(
    (node) => node.kind === 'input' && node.at !== undefined && isBlocked(operandNamed(program, node.operand)),
  )
  return elsewhere ? `positions of blocks along the ragged axis \`${ragged[0]!.name}\`` : null
}

interface MatrixProduct {
  readonly l: string | null
  readonly m: string
  readonly n: string
  readonly over: readonly string[]
  /** The operand that carries m, and the one that carries n. */
  readonly a: string
  readonly b: string
}

/** `kept`: axes of the sum. */
function matrixProduct(
  program: TensorProgram,
  { a: left, b: right, over }: PlainTerm,
  kept: readonly string[],
): MatrixProduct | GeneralShape {
  const axes = program.axes
    .map((axis) => axis.name)
    .filter((axis) => !over.includes(axis) && (left.axes.includes(axis) || right.axes.includes(axis)))
  // A row says its group, and a sum of each group has one.
  const isGroup = (axis: string): boolean => program.axes.some(({ ragged }) => ragged?.group === axis)
  const own = kept.filter((axis) => isGroup(axis) && !left.axes.includes(axis) && !right.axes.includes(axis))
  const implied = [...impliedGroups(program, axes), ...own]
  let batch = axes.filter((axis) => implied.includes(axis) || (left.axes.includes(axis) && right.axes.includes(axis)))
  let rows = withoutAxes(left.axes, [...batch, ...over])
  let columns = withoutAxes(right.axes, [...batch, ...over])
  const stores = program.outputs.map(({ operand, at }) =>
    at ? at.flatMap((place) => place.axes) : operandNamed(program, operand).axes,
  )
  if (batch.length === 0 && rows.length + columns.length === 3) {
    // One operand has a batch, the other is the same for all of it. The batch is what the output has first.
    const order = stores.find((stored) => axes.every((axis) => stored.includes(axis))) ?? axes
    const wide = rows.length === 2 ? rows : columns
    batch = [[...wide].sort((x, y) => order.indexOf(x) - order.indexOf(y))[0]!]
    rows = withoutAxes(rows, batch)
    columns = withoutAxes(columns, batch)
  }
  if (batch.length > 1) return general('a contraction with several batch axes')
  if (rows.length !== 1 || columns.length !== 1) return general('a contraction that is no matrix product')
  // The output's logical order says which free axis is m: the one that comes first.
  const [x, y] = [rows[0]!, columns[0]!]
  const output = stores.find((stored) => stored.includes(x) && stored.includes(y))
  const swapped = output !== undefined && output.indexOf(x) > output.indexOf(y)
  const [m, n] = swapped ? [y, x] : [x, y]
  const [a, b] = swapped ? [right.operand, left.operand] : [left.operand, right.operand]
  return { l: batch[0] ?? implied[0] ?? null, m, n, over, a, b }
}

function general(what: string): GeneralShape {
  return { kind: 'general', code: 'KTL2904', reason: `${what} is not lowered to tensor cores yet` }
}
