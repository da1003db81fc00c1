/** Reads at computed indices, as far as the extents and numbers of a call say where they go. */
import type { ApplyNode, Node, TensorOperand, TensorProgram } from '../../compiler/ir/tensor.ts'
import { children, operandNamed, rootsOf, topological } from '../../compiler/ir/walk.ts'
import { ktlError } from '../errors/fail.ts'
import { refuse, type StatusRefused } from '../errors/status.ts'

/** What a call knows of a program's axes and scalars. */
export interface Known {
  /** Computed ones included. */
  readonly extents: Readonly<Record<string, number>>
  readonly scalars: Readonly<Record<string, number>>
}

/** Points at which an index is tried before it is left to the device. */
const MOST_POINTS = 1 << 18

export type Range = readonly [low: number, high: number]
type Point = ReadonlyMap<string, number>

/** What is known beside extents and scalars. */
interface Given {
  /** Positions along some axes. */
  readonly point?: Point
  /** Values of operands. */
  readonly lookUp?: (operand: string) => Range
}

/**
 * KTL4046 for an index without look-up that leaves its operand, and has no `else`. Gives the Status of a divisor of 0 or less
 * (KTL4047); null: there is none. What is not computed, because an extent is 0, is not looked at.
 */
export function checkIndices(program: TensorProgram, known: Known): StatusRefused | null {
  if (!hasIndices(program)) return null
  const extentOf = (axis: string): number => known.extents[axis] ?? 1
  const computed = computedNodes(program, extentOf)
  for (const { extent } of program.axes) if (extent && computed.size > 0) below(extent, computed)
  for (const node of computed) {
    if (!isDivision(node)) continue
    const divisor = rangeOf(node.args[1]!, known)
    if (divisor && divisor[0] <= 0)
      return refuse('KTL4047', { sign: node.op === 'floordiv' ? '/' : '%', got: String(divisor[0]) })
  }
  for (const node of computed) {
    if (node.kind === 'input' && node.at && node.outside === undefined)
      checkPositions(operandNamed(program, node.operand), node.at, known)
  }
  for (const { operand, value, at } of program.outputs)
    if (at && computed.has(value)) checkPositions(operandNamed(program, operand), at, known)
  return null
}

/** The same extents, but where an index leaves its operand: as many as it needs. What is looked up, or scalars say, is left alone. */
export function wideEnough(program: TensorProgram, extents: Readonly<Record<string, number>>): Record<string, number> {
  const wide = { ...extents }
  for (const node of topological(rootsOf(program))) {
    if (node.kind !== 'input' || !node.at || node.outside !== undefined) continue
    const { axes } = operandNamed(program, node.operand)
    for (const [i, position] of node.at.entries()) {
      const range = rangeOf(position, { extents: wide, scalars: {} })
      const axis = axes[i]!
      if (range && wide[axis] !== undefined) wide[axis] = Math.max(wide[axis], range[1] + 1)
    }
  }
  return wide
}

const withIndices = new WeakMap<TensorProgram, boolean>()

/** Of most programs there is nothing to look at: asked once for each. */
function hasIndices(program: TensorProgram): boolean {
  const known = withIndices.get(program)
  if (known !== undefined) return known
  const has =
    program.axes.some(({ extent }) => extent !== undefined) ||
    topological(rootsOf(program)).some(
      (node) => (node.kind === 'input' && node.at !== undefined) || isDivision(node),
    ) ||
    program.outputs.some(({ at }) => at !== undefined)
  withIndices.set(program, has)
  return has
}

const isDivision = (node: Node): node is ApplyNode =>
  node.kind === 'apply' && (node.op === 'floordiv' || node.op === 'floormod')

/** Everything below a root that has elements, without what has none: no group, or what is summed over nothing. */
function computedNodes({ outputs, operands }: TensorProgram, extentOf: (axis: string) => number): Set<Node> {
  const seen = new Set<Node>()
  const isEmpty = (axes: readonly string[]): boolean => axes.some((axis) => extentOf(axis) === 0)
  const pending: Node[] = []
  for (const { operand, value, at } of outputs) {
    const axes = at ? [value, ...at].flatMap((node) => node.axes) : operandNamed({ operands }, operand).axes
    if (!isEmpty(axes)) pending.push(value, ...(at ?? []))
  }
  for (let node = pending.pop(); node; node = pending.pop()) {
    if (seen.has(node) || isEmpty(node.axes)) continue
    seen.add(node)
    if (node.kind === 'reduce' && isEmpty(node.over)) continue
    if (node.kind === 'contract') {
      for (const { a, b, over } of node.terms) if (!isEmpty(over)) pending.push(a, b)
    } else pending.push(...children(node))
  }
  return seen
}

function below(root: Node, into: Set<Node>): void {
  into.add(root)
  for (const child of children(root)) below(child, into)
}

function checkPositions(operand: TensorOperand, at: readonly Node[], known: Known): void {
  for (const [i, position] of at.entries()) {
    const axis = operand.axes[i]!
    const extent = known.extents[axis] ?? 1
    const range = rangeOf(position, known)
    if (range === null || (range[0] >= 0 && range[1] < extent)) continue
    const found = pointOutside(position, extent, known)
    if (found === null) continue
    const { point, index } = found
    const places = [...point].map(([name, value]) => `${name} = ${value}`).join(', ')
    throw ktlError('KTL4046', {
      operand: operand.name,
      axis,
      expected: extent === 0 ? 'no index at all' : `an index of 0 to ${extent - 1}`,
      got: `${index}${places === '' ? '' : ` at ${places}`}`,
    })
  }
}

/** The values that an index can have at most; null: it is looked up on the device. */
export function rangeOf(node: Node, known: Known, given: Given = {}): Range | null {
  const { extents, scalars } = known
  const just = (x: number): Range => [x, x]
  switch (node.kind) {
    case 'const':
      return just(node.value)
    case 'scalar':
      return Object.hasOwn(scalars, node.operand) ? just(Math.trunc(scalars[node.operand]!)) : null
    case 'size':
      return just(extents[node.axis] ?? 1)
    case 'axis': {
      const at = given.point?.get(node.axis)
      return at === undefined ? [0, Math.max(0, (extents[node.axis] ?? 1) - 1)] : just(at)
    }
    case 'input':
      return given.lookUp?.(node.operand) ?? null
    case 'cast':
      return node.to === 'i32' ? rangeOf(node.value, known, given) : null
    case 'apply': {
      const args = node.args.map((arg) => rangeOf(arg, known, given))
      return args.includes(null) ? null : applied(node.op, args as Range[])
    }
    default:
      return null
  }
}

function applied(op: string, [a, b, c]: readonly Range[]): Range | null {
  const hull = (...values: number[]): Range => [Math.min(...values), Math.max(...values)]
  switch (op) {
    case 'add':
      return [a![0] + b![0], a![1] + b![1]]
    case 'sub':
      return [a![0] - b![1], a![1] - b![0]]
    case 'neg':
      return [-a![1], -a![0]]
    case 'mul':
      return hull(a![0] * b![0], a![0] * b![1], a![1] * b![0], a![1] * b![1])
    case 'min':
      return [Math.min(a![0], b![0]), Math.min(a![1], b![1])]
    case 'max':
      return [Math.max(a![0], b![0]), Math.max(a![1], b![1])]
    case 'select':
      return b && c ? hull(...b, ...c) : null
    case 'floordiv':
      return b![0] === b![1] && b![0] > 0 ? [Math.floor(a![0] / b![0]), Math.floor(a![1] / b![0])] : null
    case 'floormod': {
      const d = b![0]
      if (d !== b![1] || d <= 0) return null
      const turn = Math.floor(a![0] / d)
      return turn === Math.floor(a![1] / d) ? [a![0] - turn * d, a![1] - turn * d] : [0, d - 1]
    }
    default:
      return null
  }
}

/** A point where the index is outside, as far as one is found: sums have their extremes at corners, others are tried everywhere. */
function pointOutside(position: Node, extent: number, known: Known): { point: Point; index: number } | null {
  const axes = [...new Set(axesIn(position))]
  const last = axes.map((axis) => Math.max(0, (known.extents[axis] ?? 1) - 1))
  const all = last.reduce((count, end) => count * (end + 1), 1)
  const lists = last.map((end) => (all <= MOST_POINTS ? Array.from({ length: end + 1 }, (_, i) => i) : [0, end]))
  for (const indices of product(lists)) {
    const point = new Map(axes.map((axis, i) => [axis, indices[i]!]))
    const range = rangeOf(position, known, { point })
    if (range && range[0] === range[1] && (range[0] < 0 || range[0] >= extent)) return { point, index: range[0] }
  }
  return null
}

function axesIn(node: Node): string[] {
  return node.kind === 'axis' ? [node.axis] : children(node).flatMap(axesIn)
}

function* product(lists: readonly (readonly number[])[]): Generator<readonly number[]> {
  const [first, ...rest] = lists
  if (!first) return yield []
  for (const x of first) for (const others of product(rest)) yield [x, ...others]
}
