/** Highlighted lines of a text, and which lines of two texts belong together. */
import { StateEffect, StateField, type Extension } from '@codemirror/state'
import { Decoration, EditorView, type DecorationSet } from '@codemirror/view'
import type { Span } from '../grammar/ast.ts'

const setLines = StateEffect.define<readonly number[]>()
const line = Decoration.line({ class: 'linked' })

export const linkedLines: Extension = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(before, { effects, changes, state }) {
    const set = effects.findLast((effect) => effect.is(setLines))
    if (!set) return before.map(changes)
    return Decoration.set((set.value as readonly number[]).map((number) => line.range(state.doc.line(number).from)))
  },
  provide: (field) => EditorView.decorations.from(field),
})

/** Ascending, from 1. The first of them comes into sight. */
export function highlight(view: EditorView, lines: readonly number[]): void {
  const { doc } = view.state
  const known = lines.filter((number) => number <= doc.lines)
  const sight = known[0] === undefined ? [] : [EditorView.scrollIntoView(doc.line(known[0]).from, { y: 'nearest', yMargin: 60 })] // prettier-ignore
  view.dispatch({ effects: [setLines.of(known), ...sight] })
}

/** Lines of CUDA that come from any place in a range of the program. */
export const madeFrom = (origins: readonly (Span | null)[], from: number, to: number): number[] =>
  origins.flatMap((span, i) => (span !== null && span.start <= to && span.end >= from ? [i + 1] : []))

/** Lines of the program that a line of CUDA comes from. */
export function originOf(view: EditorView, span: Span | null | undefined): number[] {
  const { doc } = view.state
  if (!span || span.end > doc.length) return []
  const [first, last] = [doc.lineAt(span.start).number, doc.lineAt(span.end).number]
  return Array.from({ length: last - first + 1 }, (_, i) => first + i)
}
