/** What the checker knows of the values of a kernel: their types and axes, by where they stand in its text. */
import { typed } from '../../compiler/check/choices.ts'
import { rootsOf, walkResolved } from '../../compiler/check/resolved.ts'
import type { KernelFamily } from '../../compiler/family.ts'
import type { Span } from '../../grammar/ast.ts'

/** A value, under the choices of types that were looked at. */
export interface Value {
  readonly axes: readonly string[]
  /** `f32`, or `f32 | f64` where choices differ; null: literals. */
  readonly type: string | null
  /** What a contraction sums in. */
  readonly accumulator: string | null
}

/** Families have up to thousands of choices, and a hint has room for a few. */
const CHOICES = 8

const known = new WeakMap<KernelFamily, ReadonlyMap<string, Value>>()

/** By `start:end` in `family.source`. */
export function valuesOf(family: KernelFamily): ReadonlyMap<string, Value> {
  let values = known.get(family)
  if (!values) known.set(family, (values = readValues(family)))
  return values
}

export const keyOf = ({ start, end }: Span): string => `${start}:${end}`

function readValues(family: KernelFamily): ReadonlyMap<string, Value> {
  const bodies = family.typeChoices.slice(0, CHOICES).map((choice) => typed(family, choice))
  const extents = family.axes.flatMap(({ extent }) => extent ?? [])
  const values = new Map<string, Value>()
  for (const e of walkResolved([...rootsOf(family.outputs), ...extents])) {
    // A claim `x: f32 = …` stands where its dtype does.
    if (e.source !== family.source || e.kind === 'typed') continue
    const nodes = bodies.flatMap(({ nodeOf }) => nodeOf(e) ?? [])
    const type = distinct(nodes.map((node) => node.type))
    const accumulator = distinct(nodes.flatMap((node) => (node.kind === 'contract' ? node.accumulator : [])))
    values.set(keyOf(e.span), { axes: e.axes, type, accumulator })
  }
  return values
}

function distinct(types: readonly string[]): string | null {
  return types.length > 0 ? [...new Set(types)].join(' | ') : null
}
