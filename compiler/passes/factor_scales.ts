/**
 * Scales of stored operands as tensor cores take them. A scale that does not vary along the sum goes behind it, as an operand of the
 * epilogue; one in blocks of the summed axis stays with its operand, whose partial sums it multiplies. Operands then stand for their
 * data alone. The value differs by roundings that the bound of contractions allows (docs/numerics.md).
 */
import { unionAxes } from '../check/axes.ts'
import { DTYPES, isMultiplied } from '../dtypes.ts'
import type { ContractNode, InputNode, Node, StoredForm, TensorOperand, TensorProgram } from '../ir/tensor.ts'
import { children, operandNamed, plainTerms, rootsOf } from '../ir/walk.ts'
import { formFma } from './fma.ts'
import { nodesOf, rewrite } from './graph.ts'

/** Operands whose scales multiply partial sums, each with the operand that holds them. */
export type PartialScales = ReadonlyMap<string, string>

export interface Factored {
  readonly program: TensorProgram
  readonly scales: PartialScales
}

/** Null: a stored operand is read otherwise than by one contraction of two operands that tensor cores multiply as they are. */
export function factorScales(program: TensorProgram): Factored | null {
  const inputs = program.operands.filter(({ stored, role }) => stored && role === 'input')
  if (inputs.length === 0) return { program, scales: new Map() }
  const sides = new Map<string, { readonly over: readonly string[] }>()
  for (const node of nodesOf(program)) {
    if (node.kind !== 'contract') continue
    const terms = plainTerms(node)
    const operands = terms?.flatMap(({ a, b }) => [a.operand, b.operand]) ?? []
    if (!operands.some((name) => operandNamed(program, name).stored)) continue
    const [a, b] = operands.map((name) => operandNamed(program, name).dtype)
    if (terms!.length > 1 || !isMultiplied(a!, b!)) return null
    for (const name of operands) sides.set(name, { over: terms![0].over })
  }
  const scales = new Map<string, string>()
  for (const { name, stored } of inputs) {
    const side = sides.get(name)
    if (!side || stored!.zero !== null) return null
    if (stored!.scale && operandNamed(program, stored!.scale).axes.some((axis) => side.over.includes(axis)))
      scales.set(name, stored!.scale)
  }
  // Nothing else reads them.
  const isStored = (node: Node): boolean =>
    node.kind === 'input' && operandNamed(program, node.operand).stored !== undefined
  const users = nodesOf(program).filter((node) => node.kind !== 'contract')
  if (rootsOf(program).some(isStored) || users.some((node) => children(node).some(isStored))) return null
  const data = new Map(inputs.map((operand) => [operand.name, operand]))
  const axes = program.axes.map(({ name }) => name)
  const { outputs, ...rest } = rewrite(program, (node, old) => {
    if (node.kind === 'input' && data.has(node.operand))
      return { ...node, type: DTYPES[operandNamed(program, node.operand).dtype].compute }
    if (node.kind !== 'contract' || old.kind !== 'contract') return node
    const forms = plainTerms(old)!.flatMap(({ a, b }) => [a.operand, b.operand])
    const inParts = forms.some((name) => scales.has(name))
    return behind(
      node,
      inParts,
      forms.flatMap((name) => factorsOf(program, data.get(name), scales)),
      axes,
    )
  })
  const operands = program.operands.map((operand) => bare(operand, program.operands))
  // What is added to the product with the last scale is one fma.
  return { program: formFma({ ...rest, operands, outputs }), scales }
}

/** By operand: the programs of a family share them, and what planning works out of each. */
const known = new WeakMap<TensorOperand, TensorOperand>()

/** An input by its data alone, and its scale by itself; outputs are quantised by their stores. */
export function bare(operand: TensorOperand, all: readonly TensorOperand[]): TensorOperand {
  const whole = operand.partOf === undefined ? operand : all.find(({ name }) => name === operand.partOf)!
  if (whole.role === 'output' || (!operand.stored && operand.partOf === undefined)) return operand
  const { stored: _stored, partOf: _partOf, ...rest } = operand
  const made = known.get(operand) ?? rest
  known.set(operand, made)
  return made
}

/** Nodes of what multiplies the sum. */
function factorsOf(program: TensorProgram, operand: TensorOperand | undefined, scales: PartialScales): Node[] {
  if (!operand) return []
  const { scale, global } = operand.stored as StoredForm
  const names = [scales.has(operand.name) ? null : scale, global].filter((name) => name !== null)
  return names.map((name) => partNode(program, name))
}

/** A part of a stored form, in its compute type. */
export function partNode(program: TensorProgram, name: string): Node {
  const part = program.operands.find((operand) => operand.name === name)
  if (!part) return { kind: 'scalar', operand: name, type: 'f32', axes: [], span: null }
  const type = DTYPES[part.dtype].compute
  const axes = unionAxes(
    program.axes.map((axis) => axis.name),
    part.axes,
  )
  return { kind: 'input', operand: name, type, axes, span: null } satisfies InputNode
}

/** The sum of the data, times `factors` in f32. Sums of integers are exact, but where scales have already multiplied parts of them. */
function behind(sum: ContractNode, inParts: boolean, factors: readonly Node[], axes: readonly string[]): Node {
  const {
    span,
    terms: [{ a, b }],
  } = sum
  const exact = !inParts && a.type === 'i32' && b.type === 'i32'
  const data: ContractNode = exact ? { ...sum, accumulator: 'i32', type: 'i32' } : sum
  const value: Node = exact ? { kind: 'cast', to: 'f32', value: data, type: 'f32', axes: sum.axes, span } : data
  return timesAll(value, factors, axes)
}

/** The product with each of the factors in turn, in f32. */
export const timesAll = (value: Node, factors: readonly Node[], axes: readonly string[]): Node =>
  factors.reduce(
    (product, factor): Node => ({
      kind: 'apply',
      op: 'mul',
      args: [product, factor],
      type: 'f32',
      axes: unionAxes(axes, product.axes, factor.axes),
      span: value.span,
    }),
    value,
  )
