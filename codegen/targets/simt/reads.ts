/** Elements of operands: loads, decoding of stored forms, reads at computed positions, and where parts of stored forms lie. */
import { DTYPES } from '../../../compiler/dtypes.ts'
import { packedOf } from '../../../compiler/targets/simt/domain.ts'
import type { InputNode, Node, ScalarOperand, TensorOperand } from '../../../compiler/ir/tensor.ts'
import { looksUp, operandNamed } from '../../../compiler/ir/walk.ts'
import { inTiles, tilingOf } from '../../../compiler/stored/tiles.ts'
import { convertCompute, hasZero, literal, loadConversion, loadInside } from '../../cuda/expression.ts'
import { call, offset, type SimtContext } from './context.ts'
import { blockOf, groupOf, tileRowOf } from './domain.ts'

/** Positions of an operand's axes: names, or literals; an axis itself is null. */
export type Positions = readonly (string | null)[]

const ownPositions = ({ axes }: TensorOperand): Positions => axes.map(() => null)

const texts = ({ names }: SimtContext, { axes }: TensorOperand, at: Positions): string[] =>
  axes.map((axis, i) => at[i] ?? names.index(axis))

/** An element, at its linear index, as its compute type. */
function load(context: SimtContext, { dtype, name }: TensorOperand, index: string): string {
  const pointer = context.names.operand(name)
  const { bits } = DTYPES[dtype]
  const code = bits < 8 ? call(context, `ktl_load_${bits}`, pointer, index) : `${pointer}[${index}]`
  return loadConversion(dtype, code, context.functions)
}

/** The linear index of the part of a stored form that belongs to an element. `at`: positions of the axes of `data`. */
export function partIndex(context: SimtContext, data: TensorOperand, part: TensorOperand, at: Positions): string {
  const positions = partPositions(context, data, part, at)
  if (!inTiles(part.order)) return offset(context, part.name, positions)
  const { outer, inner } = tilingOf(part)!
  const tile = { outer: '', inner: '' }
  const others = part.axes.map((axis, i) => {
    if (axis === inner) tile.inner = positions[i]!
    else if (axis === outer) tile.outer = rowInTiles(context, data, axis, at)
    else return positions[i]!
    return '0'
  })
  const strides = [outer, inner].map((axis) => context.names.stride(part.name, axis))
  const inTile = call(context, 'ktl_in_tiles', tile.outer, tile.inner, ...strides)
  return part.axes.length === 2 ? inTile : `${offset(context, part.name, others)} + ${inTile}`
}

/** The row of a position in rows of tiles: each group of a packed axis begins one. */
function rowInTiles(context: SimtContext, data: TensorOperand, axis: string, at: Positions): string {
  const i = data.axes.indexOf(axis)
  const packed = packedOf(context.program, axis)
  const row = i < 0 ? groupPosition(context, data, axis, at) : texts(context, data, at)[i]!
  return packed && i >= 0 ? tileRowOf(context, axis, packed, row, at[i] === null) : row
}

/** Blocks along a packed axis begin with its groups. */
function partPositions(context: SimtContext, data: TensorOperand, part: TensorOperand, at: Positions): string[] {
  const { names, program } = context
  const positions = texts(context, data, at)
  return part.axes.map((axis, j) => {
    const i = data.axes.indexOf(axis)
    const per = part.blocks?.[j] ?? 1
    if (i < 0) return groupPosition(context, data, axis, at)
    if (per === 1) return positions[i]!
    const packed = packedOf(program, axis)
    if (packed)
      return blockOf(context, axis, packed, per, positions[i]!, at[i] === null && names.index(axis) === positions[i])
    return `(${positions[i]!} / ${per})`
  })
}

/** A part along groups: that of the row. */
function groupPosition(context: SimtContext, data: TensorOperand, group: string, at: Positions): string {
  for (const [i, axis] of data.axes.entries()) {
    const packed = packedOf(context.program, axis)
    if (packed?.group === group && at[i] !== null) return groupOf(context, axis, packed, at[i]!)
  }
  return context.names.index(group)
}

export function scalarText({ names, functions }: SimtContext, scalar: ScalarOperand): string {
  if (scalar.pointer) return loadConversion(scalar.dtype, `${names.operand(scalar.name)}[0]`, functions)
  const name = names.scalar(scalar.name)
  return DTYPES[scalar.dtype].compute === 'bool' ? `(${name} != 0)` : name
}

/** A part of a stored form in f32; null: there is none. */
export function partValue(
  context: SimtContext,
  data: TensorOperand,
  name: string | null,
  at: Positions,
): string | null {
  if (name === null) return null
  const { program, functions } = context
  const scalar = program.scalars.find((s) => s.name === name)
  if (scalar) return convertCompute(DTYPES[scalar.dtype].compute, 'f32', scalarText(context, scalar), functions)
  const part = operandNamed(program, name)
  return convertCompute(
    DTYPES[part.dtype].compute,
    'f32',
    load(context, part, partIndex(context, data, part, at)),
    functions,
  )
}

/** The value of an element: (data - zero) * scale * global in stored forms. */
function value(context: SimtContext, operand: TensorOperand, at: Positions): string {
  const data = load(context, operand, offset(context, operand.name, texts(context, operand, at)))
  const { stored, dtype } = operand
  if (!stored) return data
  const part = (name: string | null): string | null => partValue(context, operand, name, at)
  let text = convertCompute(DTYPES[dtype].compute, 'f32', data, context.functions)
  const zero = part(stored.zero)
  if (zero !== null) text = `(${text} - ${zero})`
  for (const factor of [part(stored.scale), part(stored.global)]) if (factor !== null) text = `(${text} * ${factor})`
  return text
}

/** An operand at the positions of its axes. */
export const ownElement = (context: SimtContext, { operand: name }: InputNode): string => {
  const operand = operandNamed(context.program, name)
  return value(context, operand, ownPositions(operand))
}

/** Conditions under which positions that may be outside are inside: looked-up ones, whose being outside is a finding, or (`all`) any. */
export function insideConditions(
  context: SimtContext,
  operand: TensorOperand,
  nodes: readonly Node[],
  at: readonly string[],
  all: boolean,
): string[] {
  return operand.axes.flatMap((axis, i) => {
    const extent = context.names.extent(axis)
    const node = nodes[i]!
    if (node.kind === 'axis' && node.axis === axis) return []
    if (!all && looksUp(node)) return [call(context, 'ktl_inside', at[i]!, extent)]
    return all ? [`(unsigned int)${at[i]!} < (unsigned int)${extent}`] : []
  })
}

/** An operand at computed positions; outside: what the read says, or 0. */
export function readElement(context: SimtContext, node: InputNode, at: readonly string[]): string {
  const operand = operandNamed(context.program, node.operand)
  const own = (i: number): boolean => {
    const position = node.at![i]!
    return position.kind === 'axis' && position.axis === operand.axes[i]
  }
  const places = at.map((text, i) => (own(i) ? null : text))
  const conditions = insideConditions(context, operand, node.at!, at, node.outside !== undefined)
  if (conditions.length === 0) return value(context, operand, places)
  // Each position is judged by itself: no condition hides the finding of another.
  const inside = context.insides.get(node) ?? conditions.join(' & ')
  const { stored, dtype, name } = operand
  if (node.outside || stored || !hasZero(dtype))
    return `(${inside} ? ${value(context, operand, places)} : ${literal(node.type, node.outside ?? 0).text})`
  const from = `${context.names.operand(name)} + (${offset(context, name, texts(context, operand, places))})`
  return loadInside(dtype, from, inside, context.functions)
}
