/** Trees and diagnostics of a text that now stands elsewhere, `by` UTF-16 units further on. The old ones stay as they are. */
import type { Span } from './ast.ts'
import type { Diagnostic, Source } from './diagnostic.ts'

const spanMoved = ({ start, end }: Span, by: number): Span => ({ start: start + by, end: end + by })

/** A copy of plain data with every `span` in it moved. Chains of operators are deeper than the stack. */
export function moved<T extends object>(tree: T, by: number): T {
  if (by === 0) return tree
  const copied = (value: object): object => (Array.isArray(value) ? value.slice() : { ...value })
  const root = copied(tree)
  const pending = [root as Record<string, unknown>]
  for (let node = pending.pop(); node; node = pending.pop()) {
    for (const key in node) {
      const value = node[key]
      if (typeof value !== 'object' || value === null) continue
      if (key === 'span') node[key] = spanMoved(value as Span, by)
      else pending.push((node[key] = copied(value)) as Record<string, unknown>)
    }
  }
  return root as T
}

/** In `source`, `by` units behind where it was found. */
export function movedDiagnostic(diagnostic: Diagnostic, source: Source, by: number): Diagnostic {
  const { span, labels, fix } = diagnostic
  return {
    ...diagnostic,
    source,
    span: span && spanMoved(span, by),
    ...(labels && { labels: labels.map((label) => ({ ...label, span: spanMoved(label.span, by) })) }),
    ...(fix && { fix: { ...fix, span: spanMoved(fix.span, by) } }),
  }
}
