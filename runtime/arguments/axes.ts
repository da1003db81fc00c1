/** Unifies the axes that operands name with the shapes of the tensors passed: one extent per axis. */
import { tileLayout, tilingOf, type TileLayout } from '../../compiler/stored/tiles.ts'
import type { KtlError } from '../../grammar/diagnostics.ts'
import { ktlError } from '../errors/fail.ts'
import { formatShape } from '../tensors/layout.ts'

/** An operand as declared: its axes in logical order, `l?` marked. */
export interface OperandAxes {
  readonly name: string
  readonly role: 'input' | 'output'
  readonly axes: readonly { readonly name: string; readonly optional: boolean }[]
  /** Scales and zero points: the operand they belong to. */
  readonly partOf?: string | undefined
  /** Of those: positions of each axis that one element stands for; absent: 1 each. */
  readonly blocks?: readonly number[] | undefined
  /** Scales that lie in tiles. */
  readonly tiled?: boolean
}

export interface UnifiedAxes {
  /** Axes that no operand carries have extent 1. */
  readonly extents: Readonly<Record<string, number>>
  /** Axes of each tensor passed, in its order: an optional axis may be left out. */
  readonly carried: Readonly<Record<string, readonly string[]>>
  /** Of scales in tiles, whose tensors have one axis of bytes: what lies where. Their `carried` are those of plain ones. */
  readonly tiles: Readonly<Record<string, TileLayout>>
}

type Shapes = Readonly<Record<string, readonly number[]>>

/**
 * Throws KTL4020 when a rank does not fit and KTL4021 when two operands disagree. `show` spells an axis in messages:
 * `K` for the k of GEMM arguments.
 */
export function unifyAxes(
  all: readonly OperandAxes[],
  shapes: Shapes,
  show = (axis: string): string => axis,
  /** Groups of packed ragged axes, each of which has blocks of its own. */
  groups: Readonly<Record<string, string>> = {},
): UnifiedAxes {
  const operands = all.filter(({ partOf }) => partOf === undefined)
  const carried: Record<string, readonly string[]> = {}
  for (const operand of operands) carried[operand.name] = carriedAxes(operand, shapes[operand.name]!, show)

  const extents: Record<string, number> = {}
  const first: Record<string, OperandAxes> = {}
  for (const operand of operands) {
    carried[operand.name]!.forEach((axis, i) => {
      const extent = shapes[operand.name]![i]!
      const before = first[axis]
      if (before === undefined) {
        extents[axis] = extent
        first[axis] = operand
      } else if (extents[axis] !== extent) throw disagreement(axis, before, operand, shapes, carried, show)
    })
  }
  checkOptional(operands, carried, shapes, show)
  const parts = all.filter(({ partOf }) => partOf !== undefined)
  for (const part of parts) carried[part.name] = carriedByPart(part, carried[part.partOf!]!)
  // Groups may be counted by parts alone.
  for (const part of parts)
    if (!part.tiled) for (const [i, axis] of carried[part.name]!.entries()) extents[axis] ??= shapes[part.name]![i]!
  for (const operand of all) for (const { name } of operand.axes) extents[name] ??= 1
  const tiles: Record<string, TileLayout> = {}
  for (const part of parts) {
    const layout = partLayout(part, carried[part.name]!, { extents, groups })
    if (part.tiled) tiles[part.name] = layout.tiles ?? noTiles(part, carried[part.name]!)
    checkPart(part.name, tiles[part.name] ? [tiles[part.name]!.bytes] : layout.shape, shapes[part.name]!)
  }
  return { extents, carried, tiles }
}

/** A part lacks the optional axes that its operand leaves out. */
const carriedByPart = ({ axes }: OperandAxes, data: readonly string[]): readonly string[] =>
  axes.filter(({ name, optional }) => !optional || data.includes(name)).map(({ name }) => name)

interface Counts {
  readonly extents: Readonly<Record<string, number>>
  readonly groups: Readonly<Record<string, string>>
}

/** The shape of a part, an element for each block, and how it lies in tiles; null: it has none. */
function partLayout(
  { axes, blocks }: OperandAxes,
  carried: readonly string[],
  { extents, groups }: Counts,
): { readonly shape: readonly number[]; readonly tiles: TileLayout | null } {
  const groupsOf = (axis: string): number => (groups[axis] === undefined ? 0 : extents[groups[axis]]!)
  const shape = carried.map((axis) => {
    const block = blocks?.[axes.findIndex((own) => own.name === axis)] ?? 1
    return block === 1 ? extents[axis]! : Math.ceil(extents[axis]! / block) + groupsOf(axis)
  })
  const tiling = tilingOf({ axes: axes.map(({ name }) => name), blocks })
  const [outer, inner] = [tiling?.outer, tiling?.inner].map((axis) => carried.indexOf(axis!)) as [number, number]
  const tiles = outer < 0 || inner < 0 ? null : tileLayout(shape, { outer, inner }, groupsOf(tiling!.outer))
  return { shape, tiles }
}

/** Scales whose outer axis is left out. */
function noTiles({ name }: OperandAxes, carried: readonly string[]): never {
  const expected = 'one axis in blocks and another one'
  throw ktlError('KTL4045', { operand: name, expected, got: `[${carried.join(', ')}]` })
}

/** KTL4020 for a part of another shape. */
function checkPart(name: string, expected: readonly number[], shape: readonly number[]): void {
  if (expected.join() === shape.join()) return
  throw ktlError('KTL4020', {
    operand: name,
    expected: `a tensor of shape ${formatShape(expected)}`,
    got: formatShape(shape),
  })
}

/** A lower rank leaves out optional axes, outermost first. */
function carriedAxes(
  operand: OperandAxes,
  shape: readonly number[],
  show: (axis: string) => string,
): readonly string[] {
  // One element, with any number of dimensions.
  if (operand.axes.length === 0 && shape.every((extent) => extent === 1)) return []
  const optional = operand.axes.filter((axis) => axis.optional).length
  let missing = operand.axes.length - shape.length
  if (missing < 0 || missing > optional) {
    const full = operand.axes.length
    const ranks = Array.from({ length: optional + 1 }, (_, i) => full - optional + i)
    const pattern = operand.axes.map((axis) => show(axis.name) + (axis.optional ? '?' : '')).join(', ')
    throw ktlError('KTL4020', {
      operand: operand.name,
      expected: `a tensor of rank ${ranks.join(' or ')} ([${pattern}])`,
      got: formatShape(shape),
    })
  }
  return operand.axes.filter((axis) => !(axis.optional && missing > 0 && missing-- > 0)).map((axis) => axis.name)
}

/** An optional axis is left out by all operands that declare it, or by one input, which broadcasts. */
function checkOptional(
  operands: readonly OperandAxes[],
  carried: UnifiedAxes['carried'],
  shapes: Shapes,
  show: (axis: string) => string,
): void {
  const optional = new Set(
    operands.flatMap((operand) => operand.axes.filter((axis) => axis.optional).map((axis) => axis.name)),
  )
  for (const axis of optional) {
    const declaring = operands.filter((operand) => operand.axes.some(({ name }) => name === axis))
    const having = declaring.find((operand) => carried[operand.name]!.includes(axis))
    if (!having) continue
    const lacking = declaring.filter((operand) => !carried[operand.name]!.includes(axis))
    const output = lacking.find((operand) => operand.role === 'output')
    const culprit = output ?? (lacking.length > 1 ? lacking[1] : undefined)
    if (!culprit) continue
    const reason = output ? `${having.name} has it` : 'only one input may leave it out'
    throw ktlError('KTL4020', {
      operand: culprit.name,
      expected: `a tensor with axis ${show(axis)} (${reason})`,
      got: formatShape(shapes[culprit.name]!),
    })
  }
}

function disagreement(
  axis: string,
  a: OperandAxes,
  b: OperandAxes,
  shapes: Shapes,
  carried: UnifiedAxes['carried'],
  show: (axis: string) => string,
): KtlError {
  const extent = ({ name }: OperandAxes): number => shapes[name]![carried[name]!.indexOf(axis)]!
  const side = (operand: OperandAxes): string => `${operand.name} (${extent(operand)})`
  // An output is held against its inputs, two inputs in the order they are declared.
  const [left, right] = b.role === 'output' ? [b, a] : [a, b]
  const shape = (operand: OperandAxes): string =>
    `${operand.name} [${carried[operand.name]!.map(show).join(', ')}] is ${formatShape(shapes[operand.name]!)}`
  return ktlError('KTL4021', {
    operand: b.name,
    axis: show(axis),
    expected: String(extent(a)),
    got: String(extent(b)),
    left: side(left),
    right: side(right),
    shapes: `${shape(left)}, ${shape(right)}`,
  })
}
