/**
 * Reductions: sums of products that are contractions, statistics that are defined by sums and maxima, and everything else as it is
 * written.
 */
import type { Reduce, Span } from '../../grammar/ast.ts'
import { DERIVED_REDUCTION_NAMES, REDUCTION_NAMES, type ReductionName } from '../../grammar/vocabulary.ts'
import { isSubset, sameAxes, unionAxes, withoutAxes } from './axes.ts'
import { applyOperation, resolveAxis, type BodyContext } from './context.ts'
import { perGroup } from './ragged.ts'
import { opened, walkResolved, type Resolved } from './resolved.ts'
import { reduction, STATISTICS } from './statistics.ts'

const NAMES: readonly string[] = [...REDUCTION_NAMES, ...DERIVED_REDUCTION_NAMES]

export const isReduction = (name: string): boolean => NAMES.includes(name)

export function resolveReduction(e: Reduce, written: Resolved, context: BodyContext): Resolved | null {
  const { report, source, axesUnknown } = context
  const fn = e.fn.text
  if (!isReduction(fn)) {
    report.report('KTL2303', source, e.fn.span, { name: fn, candidates: NAMES })
    return null
  }
  let value = written
  const over: string[] = []
  for (const name of e.axes) {
    const axis = resolveAxis(name, context)
    if (axis === null) return null
    if (over.includes(axis)) report.report('KTL2019', source, name.span, { axis: name.text, name: fn })
    else over.push(axis)
    // Sums over the rows of groups are sums of each group where these are reduced next.
    if (value.kind !== 'error' && !value.axes.includes(axis)) value = perGroup(value, [axis], context)
    if (value.kind === 'error' || axesUnknown || value.axes.includes(axis)) continue
    report.report('KTL2301', source, name.span, { axis: name.text, axes: value.axes })
    return null
  }
  const rows = groupRows(value, over, context)
  if (rows) {
    const name = e.axes.find(({ text }) => (context.axisAliases.get(text) ?? text) === rows.group)!
    report.report('KTL2043', source, name.span, rows)
    return null
  }
  const at = { source, span: e.span }
  if (value.kind === 'error') return { ...value, axes: withoutAxes(value.axes, over) }
  const statistic = STATISTICS.get(fn)
  if (statistic) return statistic(value, over, at, context)
  if (fn === 'sum') return sumOf(value, over, e.span, context)
  return reduction(fn as ReductionName, value, over, at)
}

/** A group axis among `over` whose packed rows `value` has: it has one position for each row. */
function groupRows(
  { axes }: Resolved,
  over: readonly string[],
  { axisTable }: BodyContext,
): { group: string; axis: string } | null {
  const found = axisTable.find(
    ({ name, ragged }) => ragged?.form === 'packed' && axes.includes(name) && over.includes(ragged.group),
  )
  return found ? { group: found.ragged!.group, axis: found.name } : null
}

/** `sum[over](value)`: a contraction where `value` is a product of two sides. */
function sumOf(value: Resolved, over: readonly string[], span: Span, context: BodyContext): Resolved {
  const at = { source: context.source, span }
  const plain = reduction('sum', value, over, at)
  if (context.axesUnknown) return plain
  const product = factored(value, over)
  if (product.factors.length < 2) {
    if (value.kind === 'apply' && value.op === 'mul') explainPlainSum(value, over, span, context)
    return plain
  }
  const sides = sidesOf(product.factors, over, context)
  if (sides === null) {
    if (value.kind === 'apply' && value.op === 'mul') explainPlainSum(value, over, span, context)
    return plain
  }
  const [a, b] = sides
  remarkOnCost(product.factors, sides, span, context)
  const axes = withoutAxes(unionAxes(context.axes, a.axes, b.axes), over)
  const sum: Resolved = { kind: 'contract', a, b, over, accumulator: null, axes, ...at }
  return product.behind.reduce<Resolved>((x, apply) => apply(x, span, context), sum)
}

type Behind = (sum: Resolved, span: Span, context: BodyContext) => Resolved

interface Product {
  /** All vary along an axis that is summed over. */
  readonly factors: readonly Resolved[]
  /** The others, as what is done to the sum: they are the same for all of its elements. */
  readonly behind: readonly Behind[]
}

function factored(value: Resolved, over: readonly string[]): Product {
  const factors: Resolved[] = []
  const behind: Behind[] = []
  const isSummed = (e: Resolved): boolean => e.axes.some((axis) => over.includes(axis))
  const pending = [value]
  for (let next = pending.pop(); next; next = pending.pop()) {
    const e = opened(next)
    if (!isSummed(e)) {
      const factor = e
      behind.push((sum, span, context) => applyOperation('mul', [sum, factor], span, context))
    } else if (e.kind === 'apply' && e.op === 'mul') pending.push(...[...e.args].reverse())
    else if (e.kind === 'apply' && e.op === 'div' && !isSummed(e.args[1]!)) {
      const divisor = e.args[1]!
      behind.push((sum, span, context) => applyOperation('div', [sum, divisor], span, context))
      pending.push(e.args[0]!)
    } else if (e.kind === 'apply' && e.op === 'neg') {
      behind.push((sum, span, context) => applyOperation('neg', [sum], span, context))
      pending.push(e.args[0]!)
    } else factors.push(e)
  }
  return { factors, behind }
}

/**
 * The two sides of a matrix product, each along all of `over`; null: there are none. Both have an axis that the other lacks; or both
 * are elements of operands; or what one side lacks belongs to an operand: a vector may be computed, not a matrix.
 */
function sidesOf(
  factors: readonly Resolved[],
  over: readonly string[],
  context: BodyContext,
): readonly [Resolved, Resolved] | null {
  const isComplete = (e: Resolved): boolean => isSubset(over, e.axes)
  const free = (e: Resolved): readonly string[] => withoutAxes(e.axes, over)
  const product = (side: readonly Resolved[]): Resolved =>
    side.reduce((x, y) => applyOperation('mul', [x, y], x.span, context))
  const checked = (a: Resolved, b: Resolved): readonly [Resolved, Resolved] | null =>
    isComplete(a) && isComplete(b) ? [a, b] : null
  const [first, second, more] = factors as [Resolved, Resolved, Resolved?]
  const bothRead = first.kind === 'operand' && second.kind === 'operand' && !more
  if (bothRead && (first.name !== second.name || !sameAxes(free(first), free(second)))) return checked(first, second)
  const seeds = seedsOf(factors, free)
  if (!seeds) {
    const matrix = factors.reduce((x, y) => (y.axes.length > x.axes.length ? y : x))
    const vector = product(factors.toSpliced(factors.indexOf(matrix), 1))
    if (matrix.kind !== 'operand' || isSubset(free(matrix), free(vector))) return null
    return matrix === first ? checked(matrix, vector) : checked(vector, matrix)
  }
  const own = seeds.map((seed, i) => withoutAxes(free(seed), free(seeds[1 - i]!)))
  const sides: [Resolved[], Resolved[]] = [[], []]
  const either: Resolved[] = []
  for (const e of factors) {
    const touches = seeds.map((seed, i) => e === seed || e.axes.some((axis) => own[i]!.includes(axis)))
    if (touches[0] && touches[1]) return null
    if (touches[0]) sides[0].push(e)
    else if (touches[1]) sides[1].push(e)
    else either.push(e)
  }
  // The side that is computed already takes what both have.
  const isOperand = ([e, more]: Resolved[]): boolean => e!.kind === 'operand' && !more
  const taking = isOperand(sides[0]) && !isOperand(sides[1]) ? 1 : 0
  sides[taking].push(...either)
  const [a, b] = sides.map((side) => product(factors.filter((e) => side.includes(e))))
  return checked(a!, b!)
}

/** The first two factors with free axes that the other lacks, those that vary along most axes before others. */
function seedsOf(
  factors: readonly Resolved[],
  free: (e: Resolved) => readonly string[],
): readonly [Resolved, Resolved] | null {
  let best: readonly [Resolved, Resolved] | null = null
  const size = ([a, b]: readonly [Resolved, Resolved]): number => a.axes.length + b.axes.length
  for (const [i, a] of factors.entries())
    for (const b of factors.slice(i + 1))
      if (!isSubset(free(a), free(b)) && !isSubset(free(b), free(a)) && (!best || size([a, b]) > size(best)))
        best = [a, b]
  return best
}

/** Of what a kernel before could have computed: what follows from other sums has no other place. */
function remarkOnCost(
  factors: readonly Resolved[],
  sides: readonly Resolved[],
  span: Span,
  { report, source }: BodyContext,
): void {
  const isSum = ({ kind }: Resolved): boolean => kind === 'contract' || kind === 'reduce'
  const computed = sides.find((side) => side.kind !== 'operand' && ![...walkResolved([side])].some(isSum))
  if (!computed) return
  const within = new Set(walkResolved([computed]))
  const parts = factors.filter((factor) => within.has(factor))
  const operand = parts[0]!.source === source ? parts[0]!.span : null
  report.report('KTL2306', source, span, { factor: parts.map(textOf).join(' * '), operand })
}

/** A sum of a product that is no contraction is legal, but may be a slip, or cost more than one expects: say why it is none. */
function explainPlainSum(
  product: Resolved,
  over: readonly string[],
  span: Span,
  { report, source }: BodyContext,
): void {
  const factors = factorsOf(product)
  // Elementwise products, `sum[n](y * y)`, are no matrix products.
  const isMatrixProduct = factors.some((a) =>
    factors.some((b) => !isSubset(a.axes, b.axes) && !isSubset(b.axes, a.axes)),
  )
  if (factors.length > 2) {
    if (isMatrixProduct) report.report('KTL2305', source, span, { factors: factors.length })
    return
  }
  const [a, b] = factors as [Resolved, Resolved]
  for (const x of [a, b]) {
    if (x.kind === 'contract' || x.kind === 'reduce') return
  }
  for (const x of [a, b]) {
    const axis = over.find((axis) => !x.axes.includes(axis))
    if (axis === undefined) continue
    const lackingSpan = x.source === source ? x.span : null
    return report.report('KTL2302', source, span, { axis, lacking: textOf(x), lackingSpan })
  }
}

function factorsOf(product: Resolved): readonly Resolved[] {
  const factors: Resolved[] = []
  const pending = [product]
  for (let next = pending.pop(); next; next = pending.pop()) {
    const e = opened(next)
    if (e.kind === 'apply' && e.op === 'mul') pending.push(...[...e.args].reverse())
    else factors.push(e)
  }
  return factors
}

const textOf = ({ source, span }: Resolved): string => source.text.slice(span.start, span.end)
