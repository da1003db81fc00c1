/** Hovers: what a name, a word or an operator's value is, and what the diagnostics at that place mean. */
import type { Hover } from 'vscode-languageserver'
import { explainCode } from '../../../grammar/catalogue/index.ts'
import type { Expr, KernelDecl, Span } from '../../../grammar/ast.ts'
import * as T from '../../../grammar/tokens.ts'
import { DTYPE_NAMES, type DTypeName } from '../../../grammar/vocabulary.ts'
import type { Analysis } from '../analysis.ts'
import { occurrenceAt } from '../bindings.ts'
import { declaredText, dtypeText, functionText, keywordText, ktlBlock, valueText } from '../texts.ts'
import { ENTRY_TEXTS } from '../vocabulary.ts'

export function hover(analysis: Analysis, offset: number): Hover | null {
  const about = named(analysis, offset) ?? word(analysis, offset)
  const codes = new Set(
    analysis.diagnostics.flatMap(({ code, span }) => (span && span.start <= offset && offset <= span.end ? code : [])),
  )
  const explained = [...codes].flatMap((code) => {
    const entry = explainCode(code)
    return entry ? `**${code}**, ${entry.title}: ${entry.explain}` : []
  })
  const parts = [...(about ? [about.text] : []), ...explained]
  if (parts.length === 0) return null
  const value = parts.join('\n\n---\n\n')
  return { contents: { kind: 'markdown', value }, ...(about && { range: analysis.rangeOf(about.span) }) }
}

interface About {
  readonly text: string
  readonly span: Span
}

function named(analysis: Analysis, offset: number): About | null {
  const found = occurrenceAt(analysis.bindings, offset)
  return found ? { text: declaredText(found.of, analysis), span: found.span } : null
}

function word(analysis: Analysis, offset: number): About | null {
  const { tokens } = analysis.tokens
  const at = tokens.findLast(
    (token) => token.startOffset <= offset && offset <= T.tokenEnd(token) && T.isA(token, T.Word),
  )
  if (!at) return null
  const span = T.tokenSpan(at)
  const next = tokens[tokens.indexOf(at) + 1]?.image
  const item = analysis.itemAt(offset)
  const text = (known: string | null | undefined): About | null => (known ? { text: known, span } : null)
  if (item?.kind === 'schedule' && item.entries.some(({ key }) => key.span.start === span.start))
    return text(ENTRY_TEXTS[at.image] && `${ktlBlock(at.image)}\n\n${ENTRY_TEXTS[at.image]}`)
  if (next === '(' || next === '[') {
    const value = item?.kind === 'kernel' ? callText(item, span, analysis) : ''
    const known = functionText(at.image)
    if (known) return text(`${known}${value}`)
  }
  if ((DTYPE_NAMES as readonly string[]).includes(at.image)) return text(dtypeText(at.image as DTypeName))
  return text(keywordText(at.image))
}

/** What the call that begins here gives, in a kernel without errors. */
function callText(kernel: KernelDecl, { start }: Span, analysis: Analysis): string {
  for (const e of expressionsOf(kernel)) {
    if (e.span.start !== start || (e.kind !== 'call' && e.kind !== 'reduce' && e.kind !== 'size')) continue
    const value = analysis.valueAt(kernel, e.span)
    if (!value) return ''
    const sums = value.accumulator ? ` A contraction, summed in ${value.accumulator}.` : ''
    return `\n\n---\n\nHere \`${valueText(value)}\`.${sums}`
  }
  return ''
}

function* expressionsOf({ body }: KernelDecl): Generator<Expr> {
  const pending = body.flatMap((statement) => (statement.kind === 'return' ? statement.values : [statement.value]))
  for (let e = pending.pop(); e; e = pending.pop()) {
    yield e
    if (e.kind === 'unary') pending.push(e.operand)
    else if (e.kind === 'binary') pending.push(e.left, e.right)
    else if (e.kind === 'call') pending.push(...e.args)
    else if (e.kind === 'reduce' || e.kind === 'slot') pending.push(e.value)
    else if (e.kind === 'reference') pending.push(...(e.at ?? []))
  }
}
