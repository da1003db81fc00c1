/** What a form of the language is for the comparison, and what the cases share. */
import type { LaunchParam, Tensor } from '../../../runtime/index.ts'

export type Extents = Readonly<Record<string, number>>
type Uniform = () => number
export type Extent = (least: number, most: number, multiple?: number) => number
/** Values of an operand in logical order. */
export type Values = (count: number, extents: Extents, next: Uniform) => ArrayLike<number>

export interface PeerLaunch {
  readonly kernel: string
  readonly grid: readonly [number, number, number]
  readonly block: readonly [number, number, number]
  readonly params: readonly LaunchParam[]
}

export interface PeerProblem {
  /** Operands by their names in the tensor program (`A.scale`). */
  readonly tensors: Readonly<Record<string, Tensor>>
  readonly extents: Extents
  readonly tile: number
  /** Memory for values in between, at least so many f32. */
  readonly scratch: (elements: number) => bigint
}

export interface Form {
  readonly name: string
  readonly source: string
  /** For the evaluator, the one that is named in the report, and one by chance. */
  readonly small: Extents
  readonly medium: Extents
  readonly random: (extent: Extent) => Extents
  readonly scalars?: (extents: Extents) => Readonly<Record<string, number>>
  /** What is not normally distributed. */
  readonly values?: Readonly<Record<string, Values>>
  readonly peer: (problem: PeerProblem) => PeerLaunch[]
}

export const up = (a: number, b: number): number => Math.ceil(a / b)

/** A CTA of as many threads as a tile has elements for each row. */
export const rows = (kernel: string, count: number, tile: number, params: readonly LaunchParam[]): PeerLaunch => ({
  kernel,
  grid: [count, 1, 1],
  block: [tile * tile, 1, 1],
  params,
})
/** A CTA for each tile of m x n. */
export const tiles = (
  kernel: string,
  [m, n, batch]: readonly [number, number, number],
  tile: number,
  params: readonly LaunchParam[],
): PeerLaunch => ({ kernel, grid: [up(n, tile), up(m, tile), batch], block: [tile, tile, 1], params })

export const powers: Values = (count, _, next) =>
  Float64Array.from({ length: count }, () => 2 ** Math.floor(next() * 6 - 3))
export const positive: Values = (count, _, next) => Float64Array.from({ length: count }, () => 0.5 + next())
export const below =
  (axis: string): Values =>
  (count, extents, next) =>
    Int32Array.from({ length: count }, () => Math.floor(next() * extents[axis]!))
/** Ends of groups of different lengths, some of them empty. */
export const ends: Values = (count, extents, next) =>
  Int32Array.from({ length: count }, (_, i) =>
    i === count - 1 ? extents['t']! : Math.floor(next() * extents['t']!),
  ).sort()

/** From many short rows to a few long ones. */
export const manyOrLong = (e: Extent): Extents => {
  const c = e(16, 200_000)
  return { m: e(1, Math.max(2, 5e7 / c)), c }
}

export const product = ({ extents: { m, n } }: PeerProblem): readonly [number, number, number] => [m!, n!, 1]
