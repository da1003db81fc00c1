/**
 * A tile graph read as matrix products: what designs that load tiles of A and B and multiply them plan from. A *segment* is a serial
 * loop; its tiles of A and B go through the same ring of stages as those of the segments before it.
 */
import type { Accumulator } from '../dtypes.ts'
import type { Rejection } from '../instance.ts'
import { loadedOf, type TileGraph } from '../ir/graph.ts'
import type { InputNode, Node, RaggedAxis, ReduceNode, TensorOperand } from '../ir/tensor.ts'
import { operandNamed } from '../ir/walk.ts'
import type { Groups } from '../space/domain.ts'
import { WAYS } from '../passes/interleaved.ts'
import { rejection } from '../rejection.ts'

export interface Segment {
  /** The operand with rows m, and for each accumulator the one with columns n. */
  readonly a: string
  readonly b: readonly string[]
  /** Operands whose elements multiply partial sums of these, in blocks of k. */
  readonly scales: { readonly a: string | null; readonly b: readonly (string | null)[] }
  /** The axis that is walked in steps, and those that are walked one by one around it, outermost first. */
  readonly k: string
  readonly outer: readonly string[]
}

export interface StoredValue {
  readonly operand: TensorOperand
  /** Elementwise over the tile; what is reduced, where `reduction` is set. */
  readonly value: Node
  readonly reduction: ReduceNode | null
  /** Scatter: for each axis of the operand the axis of the tile, or the operand, that says where; null: its own axes. */
  readonly places: readonly string[] | null
}

export interface Matmul {
  readonly graph: TileGraph
  /** Batch axis; null: none. */
  readonly l: string | null
  readonly m: string
  readonly n: string
  /** Groups of rows, or columns, which `l` counts; null: there are none. */
  readonly groups: Groups | null
  /** Groups of what is summed over, which `l` counts; null: there are none. */
  readonly sums: RaggedAxis | null
  /**
   * Axis of the operand with columns, of which 2n and 2n + 1 belong to column n of the output, one for each accumulator; null: each
   * accumulator has an operand of its own.
   */
  readonly interleaved: string | null
  readonly segments: readonly [Segment, ...Segment[]]
  readonly accumulators: readonly Accumulator[]
  readonly stores: readonly StoredValue[]
}

const known = new WeakMap<TileGraph, Map<string, Matmul | Rejection>>()

/** The products of a graph as a design computes them: `ba` as their transpose, rows for columns and A for B. KTL4518. */
export function matmulOf(graph: TileGraph, operands: 'ab' | 'ba'): Matmul | Rejection {
  const kept = known.get(graph) ?? new Map<string, Matmul | Rejection>()
  known.set(graph, kept)
  const found = kept.get(operands) ?? (operands === 'ab' ? read(graph) : transposed(read(graph)))
  kept.set(operands, found)
  return found
}

function read(graph: TileGraph): Matmul {
  const { program, domain, accumulators, body } = graph
  const loaded = loadedOf(graph)
  const segments = body.flatMap((stmt): Segment[] => {
    if (stmt.kind !== 'loop') return []
    const loads = new Map(stmt.body.flatMap((inner) => (inner.kind === 'load' ? [[inner.tile, inner] as const] : [])))
    const operandOf = (tile: number): string => loads.get(tile)!.view.operand
    const scaleOf = (tile: number): string | null => loads.get(tile)!.scale?.operand ?? null
    const mmas = stmt.body.flatMap((inner) => (inner.kind === 'mma' ? [inner] : []))
    // Both halves of an operand are the whole, and so are both halves of its scales.
    const factors = mmas.map((mma) => ({ operand: operandOf(mma.b), scale: scaleOf(mma.b) }))
    const { half } = operandNamed(program, factors[0]!.operand)
    const whole = (scale: string | null): string | null =>
      scale === null ? null : (operandNamed(program, scale).computed as InputNode).operand
    const columns = half ? [{ operand: half.of, scale: whole(factors[0]!.scale) }] : factors
    const [a, b] = [operandOf(mmas[0]!.a), columns.map(({ operand }) => operand)]
    const scales = { a: scaleOf(mmas[0]!.a), b: columns.map(({ scale }) => scale) }
    const k = steppedAxis(
      [a, ...b].map((operand) => operandNamed(program, operand)),
      stmt.over,
    )
    return [{ a, b, scales, k, outer: stmt.over.filter((axis) => axis !== k) }]
  })
  const maps = new Map(body.flatMap((stmt) => (stmt.kind === 'map' ? [[stmt.value, stmt.node] as const] : [])))
  const reductions = new Map(body.flatMap((stmt) => (stmt.kind === 'reduce' ? [[stmt.value, stmt] as const] : [])))
  const stores = body.flatMap((stmt): StoredValue[] => {
    if (stmt.kind !== 'store') return []
    const reduction = reductions.get(stmt.value)
    const value = maps.get(reduction ? reduction.of : stmt.value)!
    const { at } = program.outputs.find(({ operand }) => operand === stmt.view.operand)!
    const places = at?.map((place) => (place.kind === 'axis' ? place.axis : (place as InputNode).operand)) ?? null
    return [{ operand: operandNamed(program, stmt.view.operand), value, reduction: reduction?.node ?? null, places }]
  })
  const [first, ...others] = segments
  const halves = program.operands.flatMap(({ name, half }) => (half && loaded.includes(name) ? [half] : []))
  const raggedOf = (axis: string): RaggedAxis | null => program.axes.find(({ name }) => name === axis)!.ragged ?? null
  const grouped = raggedOf(domain.rows)
  return {
    graph,
    l: domain.batch,
    m: domain.rows,
    n: domain.columns,
    groups: grouped && { ...grouped, along: 'm' },
    sums: raggedOf(first!.k),
    interleaved: halves[0]?.along ?? null,
    segments: [first!, ...others],
    accumulators,
    stores,
  }
}

/** The axis that an operand of MMAs has along m, or n. */
export const freeAxis = ({ m, n, interleaved }: Matmul, free: 'm' | 'n'): string =>
  free === 'm' ? m : (interleaved ?? n)

/** Columns of MMAs for each column of the output. */
export const waysOf = ({ interleaved }: Pick<Matmul, 'interleaved'>): number => (interleaved === null ? 1 : WAYS)

/** Along which tiles have their span: what an operand has contiguous, else the last axis. */
const steppedAxis = (operands: readonly TensorOperand[], over: readonly string[]): string =>
  operands.map(({ order }) => order.at(-1)!).find((axis) => over.includes(axis)) ?? over.at(-1)!

/** Do scales multiply partial sums? */
export const inParts = ({ segments }: Matmul): boolean =>
  segments.some(({ scales }) => [scales.a, ...scales.b].some((scale) => scale !== null))

/** Elements of k that a tile multiplies, each loop in whole steps of `step`. */
export function depthOf(
  { segments, sums, l }: Matmul,
  extents: Readonly<Record<string, number>>,
  step: number,
): number {
  const [{ k, outer }, more] = segments
  // That of a group, in the mean.
  if (sums?.form === 'packed') return Math.ceil(extents[k]! / Math.max(1, extents[l!]!))
  if (!more && outer.length === 0) return extents[k]!
  const steps = segments.map((s) =>
    s.outer.reduce((count, axis) => count * extents[axis]!, Math.ceil(extents[s.k]! / step)),
  )
  return step * steps.reduce((a, b) => a + b, 0)
}

/**
 * Tiles of so many rows and columns, in all batches. Packed groups end anywhere: each has half a tile more than its rows fill, in the
 * mean of many lengths.
 */
export function tilesOf(
  { m, n, l, groups }: Matmul,
  extents: Readonly<Record<string, number>>,
  [rows, columns]: readonly [number, number],
): number {
  const batches = l === null ? 1 : extents[l]!
  const isPacked = groups?.form === 'packed'
  const along = (free: 'm' | 'n', axis: string, size: number): number =>
    Math.ceil(extents[axis]! / size + (isPacked && groups.along === free ? batches / 2 : 0))
  return along('m', m, rows) * along('n', n, columns) * (isPacked ? 1 : batches)
}

/** `k`, `r * s * c`, `k + r`: what is summed over. */
export const depthText = ({ segments }: Matmul): string =>
  segments.map(({ k, outer }) => [...outer, k].join(' * ')).join(' + ')

function transposed(matmul: Matmul): Matmul | Rejection {
  const { m, n, groups, segments, accumulators } = matmul
  if (accumulators.length > 1) return rejection('KTL4518', { products: accumulators.length })
  const [first, ...others] = segments.map(({ a, b, scales, ...segment }) => ({
    ...segment,
    a: b[0]!,
    b: [a],
    scales: { a: scales.b[0]!, b: [scales.a] },
  }))
  return { ...matmul, m: n, n: m, ...(groups && { groups: { ...groups, along: 'n' } }), segments: [first!, ...others] }
}
