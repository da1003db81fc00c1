/** Where reductions may stand: what one kernel can compute, one tile at a time. */
import type { Definition } from './body.ts'
import { sameAxes } from './axes.ts'
import type { BodyContext } from './expressions.ts'
import {
  children,
  opened,
  walkResolved,
  type Resolved,
  type ResolvedContraction,
  type ResolvedOutput,
  type ResolvedReduction,
} from './resolved.ts'

/** As if the kernel around an epilogue and the epilogue were one text. */
const operandsOf = (e: Resolved): readonly Resolved[] => children(e).map(opened)
const walk = (roots: readonly Resolved[]): Iterable<Resolved> => walkResolved(roots.map(opened), operandsOf)

export function checkReductions(
  outputs: readonly ResolvedOutput[],
  definitions: readonly Definition[],
  context: BodyContext,
): void {
  const all = [...walk(outputs.map((output) => output.value))]
  const contractions = all.filter((e) => e.kind === 'contract')
  checkContractions(contractions, context)
  const reductions = all.filter((e) => e.kind === 'reduce')
  const over = new Map(reductions.map((reduction) => [reduction, [...walk([reduction.value])]]))
  for (const [reduction, below] of over) checkNesting(reduction, below, context)
  // A reduction of a contraction is complete only when all tiles are: an output of its own, never an operand.
  for (const e of all) {
    for (const child of operandsOf(e)) {
      if (child.kind !== 'reduce' || e.kind === 'reduce' || e.kind === 'typed') continue
      if (!over.get(child)!.some((x) => x.kind === 'contract')) continue
      const name = definitions.find((definition) => opened(definition.value) === child)?.target.name.text ?? null
      const reduced = child.source === e.source ? child.span : null
      context.report.report('KTL2304', e.source, e.span, { name, reduced })
    }
  }
}

/** Accumulators of one kernel live in tiles of one shape; what each sums over is its own. */
function checkContractions(contractions: readonly ResolvedContraction[], { report }: BodyContext): void {
  const [first, ...rest] = contractions
  for (const e of rest) {
    if (sameAxes(e.axes, first!.axes)) continue
    const reason = `one has axes [${first!.axes.join(', ')}], another [${e.axes.join(', ')}]`
    return report.report('KTL2307', e.source, e.span, { contractions: contractions.length, reason })
  }
}

function checkNesting(outer: ResolvedReduction, below: readonly Resolved[], { report }: BodyContext): void {
  const inner = below.find(
    (e) => e.kind === 'reduce' || (e.kind === 'contract' && outer.value.axes.some((axis) => !e.axes.includes(axis))),
  )
  if (!inner) return
  const text = outer.fn
  report.report('KTL2308', outer.source, outer.span, {
    outer: text,
    inner: inner.source === outer.source ? inner.span : null,
  })
}

/** Reductions whose value, directly or through others, is used for elements along further axes: row statistics. */
export function rowStatistics(outputs: readonly ResolvedOutput[]): readonly ResolvedReduction[] {
  const found = new Set<ResolvedReduction>()
  /** What each value is computed from without reducing it again. */
  const sources = new Map<Resolved, ReadonlySet<ResolvedReduction>>()
  for (const e of walk(outputs.map((output) => output.value))) {
    const below = e.kind === 'reduce' ? [e] : operandsOf(e).flatMap((child) => [...sources.get(child)!])
    sources.set(e, new Set(below))
    for (const reduction of below) if (!sameAxes(reduction.axes, e.axes)) found.add(reduction)
  }
  return [...found]
}
