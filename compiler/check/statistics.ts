/**
 * Reductions that are defined by others. With m the maximum, taken as 0 where it is -inf (so that no difference is inf - inf):
 *
 *   softmax[n](x)   = exp(x - m) / sum[n](exp(x - m)), 0 where that sum is 0
 *   logsumexp[n](x) = m + log(sum[n](exp(x - m))), so -inf of nothing
 *   var[n](x)       = mean[n]((x - mean[n](x)) * (x - mean[n](x))), NaN of nothing
 *
 * A +inf or NaN among x makes the result NaN.
 */
import type { NumberLiteral, Span } from '../../grammar/ast.ts'
import type { Source } from '../../grammar/diagnostics.ts'
import type { ReductionName } from '../../grammar/vocabulary.ts'
import { applyOperation, type BodyContext } from './context.ts'
import { withoutAxes } from './axes.ts'
import type { Resolved, ResolvedReduction } from './resolved.ts'

interface Place {
  readonly source: Source
  readonly span: Span
}

type Statistic = (x: Resolved, over: readonly string[], at: Place, context: BodyContext) => Resolved

function literal(value: number, { source, span }: Place): Resolved {
  const literal: NumberLiteral = { kind: 'number', text: `${value}`, value, integer: Number.isInteger(value), span }
  return { kind: 'number', value, literal, axes: [], source, span }
}

export const reduction = (
  fn: ReductionName,
  value: Resolved,
  over: readonly string[],
  at: { readonly source: Source; readonly span: Span },
): ResolvedReduction => ({ kind: 'reduce', fn, value, over, axes: withoutAxes(value.axes, over), ...at })

/** m, and exp(x - m). */
function exponentials(
  x: Resolved,
  over: readonly string[],
  at: Place,
  context: BodyContext,
): { m: Resolved; e: Resolved } {
  const apply = (op: string, ...args: Resolved[]): Resolved => applyOperation(op, args, at.span, context)
  const largest = reduction('max', x, over, at)
  const m = apply('select', apply('eq', largest, literal(-Infinity, at)), literal(0, at), largest)
  return { m, e: apply('exp', apply('sub', x, m)) }
}

const softmax: Statistic = (x, over, at, context) => {
  const apply = (op: string, ...args: Resolved[]): Resolved => applyOperation(op, args, at.span, context)
  const { e } = exponentials(x, over, at, context)
  const sum = reduction('sum', e, over, at)
  return apply('select', apply('eq', sum, literal(0, at)), literal(0, at), apply('div', e, sum))
}

const logsumexp: Statistic = (x, over, at, context) => {
  const { m, e } = exponentials(x, over, at, context)
  const log = applyOperation('log', [reduction('sum', e, over, at)], at.span, context)
  return applyOperation('add', [m, log], at.span, context)
}

const variance: Statistic = (x, over, at, context) => {
  const difference = applyOperation('sub', [x, reduction('mean', x, over, at)], at.span, context)
  return reduction('mean', applyOperation('mul', [difference, difference], at.span, context), over, at)
}

export const STATISTICS: ReadonlyMap<string, Statistic> = new Map([
  ['softmax', softmax],
  ['logsumexp', logsumexp],
  ['var', variance],
])
