/**
 * Kernels checked before, for a text that is checked again after every edit: a kernel whose own text, and whatever else it can see, is
 * the same fares the same, wherever it has moved to.
 */
import type { KernelDecl, Span } from '../../grammar/ast.ts'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import type { FileContext } from './context.ts'
import { checkKernel } from './kernel.ts'
import { Reporter } from './report.ts'

type Checked = ReturnType<typeof checkKernel>

interface Kept {
  /** With spans in the text that it was first met in: that is its `source`. */
  readonly family: Checked
  readonly diagnostics: readonly Diagnostic[]
  readonly start: number
}

/** Of one text and what becomes of it. What the latest text has not is dropped. */
export class KeptKernels {
  #before: ReadonlyMap<string, Kept> = new Map()
  #now = new Map<string, Kept>()
  #file: FileContext | null = null
  #surroundings = ''

  /** `checkKernel`, unless it is known. Its diagnostics are about `file.source` in any case. */
  check(declaration: KernelDecl, file: FileContext): Checked {
    if (file !== this.#file) this.#begin(file)
    const { source, report } = file
    const { start, end } = declaration.span
    const key = `${declaration.doc}\0${source.text.slice(start, end)}`
    const known = this.#now.get(key) ?? this.#before.get(key)
    if (known) {
      this.#now.set(key, known)
      for (const diagnostic of known.diagnostics) report.add(moved(diagnostic, source, start - known.start))
      return known.family
    }
    const own = new Reporter()
    const family = checkKernel(declaration, { ...file, report: own })
    for (const diagnostic of own.diagnostics) report.add(diagnostic)
    // What points elsewhere does not move with the kernel.
    const inside = (span: Span): boolean => span.start >= start && span.end <= end
    if (own.diagnostics.every((diagnostic) => spansOf(diagnostic).every(inside)))
      this.#now.set(key, { family, diagnostics: own.diagnostics, start })
    return family
  }

  /** A text: where all that kernels see of each other is the same, they are still what they were. */
  #begin(file: FileContext): void {
    const { source, epilogues, kernels } = file
    const texts = Array.from(epilogues.values(), ({ span }) => source.text.slice(span.start, span.end))
    const surroundings = [...kernels, ...texts].join('\0')
    this.#before = surroundings === this.#surroundings ? this.#now : new Map()
    this.#now = new Map()
    this.#file = file
    this.#surroundings = surroundings
  }
}

const spansOf = ({ span, labels, fix }: Diagnostic): readonly Span[] => [
  ...(span ? [span] : []),
  ...(labels ?? []).map((label) => label.span),
  ...(fix ? [fix.span] : []),
]

function moved(diagnostic: Diagnostic, source: Source, by: number): Diagnostic {
  const shift = ({ start, end }: Span): Span => ({ start: start + by, end: end + by })
  const { span, labels, fix } = diagnostic
  return {
    ...diagnostic,
    source,
    span: span && shift(span),
    ...(labels && { labels: labels.map((label) => ({ ...label, span: shift(label.span) })) }),
    ...(fix && { fix: { ...fix, span: shift(fix.span) } }),
  }
}
