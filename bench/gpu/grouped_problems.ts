/** Groups of rows, each with a B of its own: problems against `torch._grouped_mm`. */
import { uniform } from '../../compiler/evaluate/generate.ts'
import type { Fusion, Problem, Shape } from '../../runtime/bench/suite/problem.ts'

/** T rows in so many groups. */
interface Case {
  readonly name: string
  readonly shape: Shape
  readonly groups: number
}

const CASES: readonly Case[] = [
  { name: 'A', shape: { m: 8192, n: 14336, k: 4096 }, groups: 8 },
  { name: 'B', shape: { m: 8192, n: 4096, k: 7168 }, groups: 32 },
  { name: 'C', shape: { m: 8192, n: 7168, k: 2048 }, groups: 32 },
  { name: 'D', shape: { m: 8192, n: 1536, k: 2048 }, groups: 128 },
  { name: 'E', shape: { m: 512, n: 2048, k: 2048 }, groups: 64 },
]

const evenly = (rows: number, groups: number): number[] =>
  Array.from({ length: groups }, (_, i) => Math.floor(((i + 1) * rows) / groups) - Math.floor((i * rows) / groups))

/** Sizes as these weights are, whole numbers that add up to `rows`. */
function inProportion(rows: number, weights: readonly number[]): number[] {
  const total = weights.reduce((a, b) => a + b, 0)
  let [sum, end] = [0, 0]
  return weights.map((weight) => {
    sum += weight
    const next = Math.round((rows * sum) / total)
    const size = next - end
    end = next
    return size
  })
}

/** 1 / rank. */
const zipf = (rows: number, groups: number): number[] =>
  inProportion(
    rows,
    Array.from({ length: groups }, (_, i) => 1 / (i + 1)),
  )

type Rest = Partial<Problem> & Pick<Problem, 'group' | 'name'>

const grouped = ({ shape }: Pick<Case, 'shape'>, groups: readonly number[], rest: Rest): Problem => ({
  shape, groups, a: 'bf16', b: 'bf16', out: 'bf16', orderB: 'nk', fusion: null, rivals: ['plain'], goal: 1, ...rest,
}) // prettier-ignore

const FUSIONS: readonly Fusion[] = [
  { name: 'router', text: 'acc*w', operands: { w: 'm' }, scalars: {}, rivals: ['plain', 'eager'] },
  { name: 'swiglu', text: null, operands: {}, scalars: {}, rivals: ['plain', 'eager'] },
  { name: 'gather', text: null, operands: {}, scalars: {}, rivals: ['plain', 'eager'] },
]

const ROWS: NonNullable<Problem['scales']> = { A: [1, 'all'], B: ['all', 1] }

/** Sizes of everything drawn with this seed: rows, columns, depth, groups, and rows of each group, a quarter of them empty. */
const SEED = 23

function drawn(count: number): Problem[] {
  const next = uniform(SEED)
  const between = (low: number, high: number): number => Math.round(low * (high / low) ** next())
  return Array.from({ length: count }, (_, i) => {
    const groups = between(2, 256)
    const shape = { m: between(256, 32768), n: 8 * between(32, 1024), k: 8 * between(32, 1024) }
    const sizes = inProportion(
      shape.m,
      Array.from({ length: groups }, () => (next() < 0.25 ? 0 : next() ** 3 + 1e-3)),
    )
    const name = `grouped drawn ${i}: ${groups} groups, ${shape.m}x${shape.n}x${shape.k}`
    return grouped({ shape }, sizes, { group: 'grouped drawn', name, orderB: i % 2 ? 'kn' : 'nk' })
  })
}

export const GROUPED: readonly Problem[] = [
  ...CASES.map((c) => grouped(c, evenly(c.shape.m, c.groups), { group: 'grouped uniform', name: `grouped uniform ${c.name}` })),
  ...CASES.map((c) => grouped(c, zipf(c.shape.m, c.groups), { group: 'grouped zipf', name: `grouped zipf ${c.name}` })),
  ...drawn(8),
  ...CASES.map((c) => grouped(c, evenly(c.shape.m, c.groups), { group: 'grouped uniform kn', name: `grouped uniform kn ${c.name}`, orderB: 'kn' })),
  ...FUSIONS.flatMap((fusion) =>
    CASES.filter(({ name }) => 'BD'.includes(name)).map((c) =>
      grouped(c, evenly(c.shape.m, c.groups), { group: `grouped ${fusion.name}`, name: `grouped ${fusion.name} ${c.name}`, fusion, rivals: fusion.rivals }),
    ),
  ),
  ...CASES.map((c) => grouped(c, evenly(c.shape.m, c.groups), { group: 'grouped gradient', name: `grouped gradient ${c.name}`, sums: true, goal: 1.1 })),
  ...(['uniform', 'zipf'] as const).flatMap((sizes) =>
    CASES.map((c) =>
      grouped(c, (sizes === 'zipf' ? zipf : evenly)(c.shape.m, c.groups), {
        group: `grouped fp8 rows ${sizes}`, name: `grouped fp8 rows ${sizes} ${c.name}`, a: 'e4m3', b: 'e4m3', scales: ROWS, fastAccumulation: true,
      }),
    ),
  ),
] // prettier-ignore
