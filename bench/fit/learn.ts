/**
 * Learns what the cost models leave out (`runtime/targets/learned`) from measured times; after a change of kernels or costs once more:
 *
 *   npx tsx bench/fit/learn.ts [--write] [FILE …]
 *
 * For each kind of kernels, log(modelled / measured) less its mean over the kernels of a problem, by products of features. Kernels near the first choice
 * count most: far behind it, order does not matter. Prints what the first choice is worth with the models alone, and where each problem is judged by what
 * problems of other shapes have taught, in six parts. `--write` makes `runtime/targets/learned/h200.ts` of all. About twenty minutes.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { Matrix } from 'ml-matrix'
import * as prettier from 'prettier'
import { geomean } from '../../runtime/bench/statistics.ts'
import { correction, standardized } from '../../runtime/targets/learned/correction.ts'
import type { Learned, LearnedKind, Spread } from '../../runtime/targets/learned/learned.ts'
import { featuresOf, type FeaturedPlan, type Features } from '../../runtime/targets/learned/features.ts'
import { modelsOf } from './cases.ts'
import { readTimes } from './data.ts'
import { forward } from './forward.ts'
import { byProblem, COST_MODELS, rowsOf, type KernelRow } from './models.ts'

/** Of kernels as they are, on an H200. */
const FILES = [
  'all_h200_after', 'all_h200_shallow', 'all_h200_slow', 'all_h200_few', 'all_h200_ragged', 'all_h200_ragged_mid', 'all_h200_random', 'all_h200_more',
  'all_h200_first', 'sm90_h200_outputs', 'sm90_h200_mid', 'sm90_h200_long_k', 'sm80_h200_short', 'sm80_h200_deep', 'suites_h200',
  'sm90_h200_sectors', 'all_h200_sectors', 'all_h200_elements', 'sm80_h200_elements', 'all_h200_turns', 'all_h200_behind',
  'all_h200_held', 'sm90_h200_columns', 'all_h200_residual', 'suites_h200_newer',
] as const // prettier-ignore
const HELD = ['all_h200_held', 'all_h200_residual', 'suites_h200_newer']
const BEHIND = ['all_h200_behind', ...HELD]
const ELEMENTS = ['all_h200_elements', 'sm80_h200_elements', 'all_h200_turns', ...BEHIND]
/**
 * Kernels that have changed, and the files since: times before are not taught. Outputs leave some widths of SM90 in rows of more sectors; SM80 kernels load
 * elements of operands ahead, and those of SM90 have them come through the ring of stages, where cooperative ones leave them.
 */
const CHANGES: readonly { readonly since: readonly string[]; readonly changed: (row: KernelRow) => boolean }[] = [
  { since: ['sm90_h200_sectors', 'all_h200_sectors', ...ELEMENTS], changed: storesOtherwise },
  { since: ELEMENTS, changed: ({ plan }) => plan.kind === 'sm80' && plan.elements.length > 0 },
  { since: BEHIND, changed: ({ plan }) => plan.kind === 'sm90' && plan.behind !== null },
  { since: HELD, changed: ({ plan }) => plan.kind === 'sm90' && plan.behind?.held === 'stages' },
]
const KINDS: readonly LearnedKind[] = ['sm80', 'sm90']
/** Of each kind. Of 16 to 120 the first choices are alike; more of them choose more kernels that nobody has timed. */
const TERMS = 32
/** Of log(modelled / the least modelled of the problem): what counts 1/e. */
const NEAR = 0.15
const PARTS = 6
const DIGITS = 4

interface Lesson {
  readonly problem: string
  readonly shape: string
  readonly kind: LearnedKind | null
  readonly measured: number
  /** By the models alone. */
  readonly modelled: number
  readonly features: Features | null
  /** Of log(modelled / measured), less its mean over the problem. */
  readonly rest: number
  readonly weight: number
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { write: { type: 'boolean', default: false } },
})
const lessons: Lesson[] = []
for (const file of positionals.length > 0 ? positionals : FILES.map((name) => `bench/data/${name}.jsonl`)) {
  const { rows } = await rowsOf(readTimes(file), modelsOf('all'))
  const name = path.basename(file, '.jsonl')
  const own = rows.filter((row) => CHANGES.every(({ since, changed }) => since.includes(name) || !changed(row)))
  lessons.push(...lessonsOf(own, file))
  console.log(`${name}: ${own.length} times`)
}
const shapes = [...new Set(lessons.map(({ shape }) => shape))]
const partOf = new Map(shapes.map((shape, i) => [shape, i % PARTS]))
const judged = Array.from({ length: PARTS }, (_, part) => {
  const learned = learnAll(lessons.filter(({ shape }) => partOf.get(shape) !== part))
  return lessons.filter(({ shape }) => partOf.get(shape) === part).map((lesson) => corrected(lesson, learned))
}).flat()
console.log(`models alone: ${firstOf(lessons)}\nlearned:      ${firstOf(judged)}`)
if (values.write) await write(learnAll(lessons))

function storesOtherwise({ plan }: KernelRow): boolean {
  return plan.kind === 'sm90' && plan.epilogue.subtileColumns >= 48 && plan.epilogue.subtileColumns % 32 === 16
}

/** Kernels of problems of which several were timed. */
function lessonsOf(rows: readonly KernelRow[], file: string): Lesson[] {
  return [...byProblem(rows)].flatMap(([problem, own]) => {
    const modelled = own.map(({ plan, modelled }) => modelled(COST_MODELS[plan.kind].constants))
    const least = Math.min(...modelled)
    const weights = modelled.map((time) => (least / time) ** (1 / NEAR))
    const logs = own.map(({ measured }, i) => Math.log(modelled[i]! / measured))
    const sum = (of: readonly number[]): number => of.reduce((total, one) => total + one, 0)
    const mean = sum(logs.map((log, i) => log * weights[i]!)) / sum(weights)
    return own.map(({ shape, measured, plan, extents, machine }, i): Lesson => {
      const kind = plan.kind === 'sm80' || plan.kind === 'sm90' ? plan.kind : null
      const features = kind && featuresOf(plan as FeaturedPlan, extents, machine)
      const common = { problem: `${file} ${problem}`, shape: JSON.stringify(shape), kind, features }
      return { ...common, measured, modelled: modelled[i]!, rest: logs[i]! - mean, weight: weights[i]! }
    })
  })
}

type Taught = Readonly<Record<LearnedKind, Learned>>

function learnAll(from: readonly Lesson[]): Taught {
  const [sm80, sm90] = KINDS.map((kind) => learn(from.filter((lesson) => lesson.kind === kind && lesson.features !== null)))
  return { sm80: sm80!, sm90: sm90! }
} // prettier-ignore

function learn(from: readonly Lesson[]): Learned {
  const spreads = spreadsOf(from.map(({ features }) => features!))
  const names = Object.keys(spreads)
  const columns: readonly (readonly [first: string, second?: string])[] = [
    ...names.map((name) => [name] as const),
    ...names.flatMap((first, i) => names.slice(i).map((second) => [first, second] as const)),
  ]
  const x = new Matrix(
    from.map(({ features }) => {
      const values = Object.fromEntries(names.map((name) => [name, standardized(spreads[name]!, features![name]!)]))
      return columns.map(([first, second]) => values[first]! * (second === undefined ? 1 : values[second]!))
    }),
  )
  const { constant, terms } = forward(x, from.map(({ rest }) => rest), from.map(({ weight }) => weight), TERMS)
  const used = new Set(terms.flatMap(({ column }) => columns[column]!))
  return {
    features: Object.fromEntries(Object.entries(spreads).filter(([name]) => used.has(name))),
    constant,
    terms: terms.map(({ column, weight }) => [weight, ...columns[column]!] as const),
  }
} // prettier-ignore

/** Of features that differ at all. */
function spreadsOf(all: readonly Features[]): Readonly<Record<string, Spread>> {
  const entries = Object.keys(all[0]!).map((name) => {
    const own = all.map((features) => features[name]!)
    const mean = own.reduce((sum, value) => sum + value, 0) / own.length
    const deviation = Math.sqrt(own.reduce((sum, value) => sum + (value - mean) ** 2, 0) / own.length)
    const [least, greatest] = [own.reduce((a, b) => Math.min(a, b)), own.reduce((a, b) => Math.max(a, b))]
    return [name, [least, greatest, mean, deviation]] as const
  })
  return Object.fromEntries(entries.filter(([, [least, greatest]]) => least < greatest))
}

function corrected(lesson: Lesson, learned: Taught): Lesson {
  const { kind, features, modelled } = lesson
  return kind === null ? lesson : { ...lesson, modelled: modelled * correction(kind, features, learned[kind]) }
}

function firstOf(of: readonly Lesson[]): string {
  const problems = [...byProblem(of).values()].filter((own) => own.length > 1)
  const ratios = problems.map((own) => {
    const first = own.reduce((a, b) => (b.modelled < a.modelled ? b : a))
    return first.measured / Math.min(...own.map(({ measured }) => measured))
  })
  return `the first choice of ${ratios.length} problems takes ${((geomean(ratios) - 1) * 100).toFixed(2)} % more than the fastest`
}

async function write({ sm80, sm90 }: Taught): Promise<void> {
  const file = 'runtime/targets/learned/h200.ts'
  const short = (_: string, value: unknown): unknown => (typeof value === 'number' ? Number(value.toPrecision(DIGITS)) : value)
  const text = `/** Of times on an H200. Made by \`npx tsx bench/fit/learn.ts --write\`. */
import type { Learned, LearnedKind } from './learned.ts'

export const H200: Readonly<Record<LearnedKind, Learned>> = ${JSON.stringify({ sm80, sm90 }, short)}
`
  const options = await prettier.resolveConfig(file)
  writeFileSync(file, await prettier.format(text, { ...options, parser: 'typescript' }))
  console.log(`${file} is made of ${lessons.length} times`)
} // prettier-ignore
