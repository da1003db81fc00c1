/**
 * Seeded values of inputs that mean something to their kernel: ends of groups, indices of other operands, limits of axes, scales. What
 * is made here is legal; all else is random (values.ts).
 */
import { DTYPES } from '../../compiler/dtypes.ts'
import { uniform } from '../../compiler/evaluate/generate.ts'
import type { Node, TensorOperand, TensorProgram } from '../../compiler/ir/tensor.ts'
import { operandNamed, rootsOf, topological } from '../../compiler/ir/walk.ts'
import { rangeOf, type Known, type Range } from '../arguments/indices.ts'

/** Values of an input in logical order; null: any will do. */
export function meaningfulValues(
  program: TensorProgram,
  name: string,
  count: number,
  seed: number,
  known: Known,
): Float32Array | null {
  const operand = operandNamed(program, name)
  const next = uniform(seed)
  const { partOf, dtype } = operand
  if (partOf !== undefined) return scales(operand, program, count, next)
  const grouped = program.axes.find(({ ragged }) => ragged?.by === name)
  if (grouped)
    return grouped.ragged!.form === 'packed'
      ? ends(count, known.extents[grouped.name]!, next)
      : lengths(count, known.extents[grouped.name]!, next)
  if (DTYPES[dtype].class !== 'int') return null
  const scattered = scatteredBy(program, name)
  if (scattered !== null) return permutation(count, known.extents[scattered]!, next)
  const range = legalIndices(program, name, known) ?? limits(program, name, known)
  return range && Float32Array.from({ length: count }, () => range[0] + Math.floor(next() * (range[1] - range[0] + 1)))
}

/** Rising ends of groups, some of them empty, the last of them now and then before the end of the axis. */
function ends(groups: number, rows: number, next: () => number): Float32Array {
  const cuts = Array.from({ length: groups }, () => (next() < 0.25 ? -1 : Math.floor(next() * (rows + 1)))).sort(
    (a, b) => a - b,
  )
  let last = 0
  const rising = cuts.map((cut, i) => (last = i === groups - 1 && next() < 0.75 ? rows : Math.max(last, cut)))
  return Float32Array.from(rising)
}

const lengths = (groups: number, rows: number, next: () => number): Float32Array =>
  Float32Array.from({ length: groups }, () => (next() < 0.2 ? 0 : Math.floor(next() * (rows + 1))))

/** Each place once; what finds none is not written. */
function permutation(count: number, places: number, next: () => number): Float32Array {
  const all = Array.from({ length: Math.max(count, places) }, (_, i) => (i < places ? i : -1))
  for (let i = all.length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1))
    ;[all[i], all[j]] = [all[j]!, all[i]!]
  }
  return Float32Array.from(all.slice(0, count))
}

/** Positive, near 1; zero points as the elements of their format. */
function scales(
  { name, dtype }: TensorOperand,
  program: TensorProgram,
  count: number,
  next: () => number,
): Float32Array {
  const isZero = program.operands.some(({ stored }) => stored?.zero === name)
  const { class: kind, signed, maxFinite } = DTYPES[dtype]
  if (isZero) {
    const most = kind === 'int' ? Math.min(8, maxFinite) : 4
    return Float32Array.from(
      { length: count },
      () => Math.floor(next() * (most + 1)) - (signed ? Math.floor(most / 2) : 0),
    )
  }
  return Float32Array.from(
    { length: count },
    () => 2 ** (Math.floor(next() * 5) - 2) * (kind === 'scale' ? 1 : 1 + Math.floor(next() * 4) / 4),
  )
}

/** The axis of an output that an operand alone says the places along; null: there is none. */
function scatteredBy(program: TensorProgram, name: string): string | null {
  for (const { operand, at } of program.outputs) {
    const i = at?.findIndex((position) => position.kind === 'input' && position.operand === name) ?? -1
    if (i >= 0) return operandNamed(program, operand).axes[i]!
  }
  return null
}

/** The largest range of values from 0 on that keeps every index they take part in inside; null: they take part in none. */
function legalIndices(program: TensorProgram, name: string, known: Known): Range | null {
  const uses: { position: Node; extent: number }[] = []
  const collect = (operand: string, at: readonly Node[]): void =>
    at.forEach((position, i) => {
      const takesPart = topological([position], lookups(position)).some(
        (node) => node.kind === 'input' && node.operand === name,
      )
      if (takesPart) uses.push({ position, extent: known.extents[operandNamed(program, operand).axes[i]!] ?? 1 })
    })
  for (const node of topological(rootsOf(program))) if (node.kind === 'input' && node.at) collect(node.operand, node.at)
  for (const { operand, at } of program.outputs) if (at) collect(operand, at)
  if (uses.length === 0) return null
  const inside = (most: number): boolean =>
    uses.every(({ position, extent }) => {
      const range = rangeOf(position, known, { lookUp: (operand) => (operand === name ? [0, most] : [0, 0]) })
      return range === null || (range[0] >= 0 && range[1] < extent)
    })
  let [low, high] = [0, Math.max(...uses.map(({ extent }) => extent - 1), 0)]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (inside(middle)) low = middle
    else high = middle - 1
  }
  return [0, low]
}

/** What is looked up to find an index has indices of its own. */
const lookups = (position: Node): ReadonlySet<Node> =>
  new Set(topological([position]).filter(({ kind }) => kind === 'input'))

const COMPARISONS: readonly string[] = ['lt', 'le', 'gt', 'ge']

/** Of integers that positions along an axis are compared with: 1 to its extent. */
function limits(program: TensorProgram, name: string, known: Known): Range | null {
  for (const node of topological(rootsOf(program))) {
    if (node.kind !== 'apply' || !COMPARISONS.includes(node.op)) continue
    const below = topological(node.args)
    const axis = below.find(({ kind }) => kind === 'axis')
    if (axis?.kind === 'axis' && below.some((other) => other.kind === 'input' && other.operand === name))
      return [Math.min(1, known.extents[axis.axis]!), known.extents[axis.axis]!]
  }
  return null
}
