/** Hints between the lines: types and axes that the checker found, what contractions sum in, what targets make of a kernel. */
import { InlayHintKind, type InlayHint, type MarkupContent } from 'vscode-languageserver'
import type { Equation, Expr, KernelDecl, Span } from '../../../grammar/ast.ts'
import type { Analysis } from '../analysis.ts'
import { EXTENT, type TargetFacts } from '../facts.ts'
import type { KnownFacts } from '../known_facts.ts'
import { valueText } from '../texts.ts'

/** Those that begin in `span`. */
export function inlayHints(analysis: Analysis, span: Span, known: KnownFacts): InlayHint[] {
  const inside = (at: number): boolean => span.start <= at && at <= span.end
  return analysis.program.items
    .filter((item) => item.span.start <= span.end && span.start <= item.span.end)
    .flatMap((item) => (item.kind === 'kernel' ? kernelHints(item, analysis, known) : []))
    .filter(({ offset }) => inside(offset))
    .map(({ offset, hint }) => ({ ...hint, position: analysis.document.positionAt(offset) }))
}

interface Placed {
  readonly offset: number
  readonly hint: Omit<InlayHint, 'position'>
}

function kernelHints(kernel: KernelDecl, analysis: Analysis, known: KnownFacts): Placed[] {
  const equations = kernel.body.filter((statement) => statement.kind === 'equation')
  const facts = known.of(analysis, kernel)
  return [
    ...(facts ? [factsHint(kernel, facts)] : []),
    ...equations.flatMap((equation) => equationHints(equation, kernel, analysis)),
  ]
}

/** `acc: f32[m, n] = …`, and behind contractions within an equation what they sum in. */
function equationHints(equation: Equation, kernel: KernelDecl, analysis: Analysis): Placed[] {
  const outputs = kernel.outputs.map(({ name }) => name.text)
  const [target] = equation.targets
  const hints: Placed[] = []
  const value = analysis.valueAt(kernel, equation.value.span)
  if (target && equation.targets.length === 1 && !outputs.includes(target.name.text) && value?.type) {
    const axes = target.at === null ? value.axes : []
    const text = target.dtype ? (axes.length > 0 ? `[${axes.join(', ')}]` : '') : `: ${valueText(value)}`
    const label = target.at && !target.dtype ? `: ${value.type}` : text
    const offset = (target.dtype ?? target.at?.at(-1) ?? target.name).span.end + (target.dtype || !target.at ? 0 : 1)
    if (label !== '') hints.push({ offset, hint: { label, kind: InlayHintKind.Type } })
  }
  const isNamed = target?.dtype !== null
  for (const e of contractionsIn(equation.value)) {
    const sum = analysis.valueAt(kernel, e.span)
    if (!sum?.accumulator || (e === equation.value && isNamed)) continue
    const label = `in ${sum.accumulator}`
    hints.push({ offset: e.span.end, hint: { label, paddingLeft: true, tooltip: 'What the contraction sums in' } })
  }
  return hints
}

function contractionsIn(root: Expr): readonly Expr[] {
  const found: Expr[] = []
  const pending: Expr[] = [root]
  for (let e = pending.pop(); e; e = pending.pop()) {
    if (e.kind === 'reduce') {
      found.push(e)
      pending.push(e.value)
    } else if (e.kind === 'unary') pending.push(e.operand)
    else if (e.kind === 'binary') pending.push(e.left, e.right)
    else if (e.kind === 'call') pending.push(...e.args)
    else if (e.kind === 'slot') pending.push(e.value)
  }
  return found
}

/** Behind the name of the kernel, a part for each target. */
function factsHint(kernel: KernelDecl, facts: readonly TargetFacts[]): Placed {
  const label = facts.flatMap((one, i) => [
    ...(i > 0 ? [{ value: ' · ' }] : []),
    { value: targetLabel(one), tooltip: targetTooltip(one) },
  ])
  return { offset: kernel.name.span.end, hint: { label, paddingLeft: true, paddingRight: true } }
}

function targetLabel({ target, instances, chosen }: TargetFacts): string {
  return `${target} ${instances}${chosen ? `: ${chosen.takes.join(', ')}` : ''}`
}

function targetTooltip({ target, instances, chosen, reason }: TargetFacts): MarkupContent {
  const lines = [
    `**${target}**: ${instances === 1 ? '1 instance' : `${instances} instances`}`,
    ...(reason ? [reason] : []),
    ...(chosen
      ? [
          `The first types and orders, aligned, extents of ${EXTENT}: \`${chosen.name}\``,
          ['```text', ...chosen.lines, '```'].join('\n'),
          `Modelled, not measured: ${chosen.estimate}`,
        ]
      : []),
  ]
  return { kind: 'markdown', value: lines.join('\n\n') }
}
