/**
 * Kernels checked before, for a text that is checked again after every edit: a kernel whose own text, and whatever else it can see, is
 * the same fares the same, wherever it has moved to.
 */
import type { KernelDecl, Span } from '../../grammar/ast.ts'
import type { Diagnostic } from '../../grammar/diagnostics.ts'
import { movedDiagnostic } from '../../grammar/moved.ts'
import { Recent } from '../../grammar/recent.ts'
import type { FileContext } from './context.ts'
import { checkKernel } from './kernel.ts'
import { Reporter } from './report.ts'

/** How many texts before the latest are remembered. */
const TEXTS = 4

type Checked = ReturnType<typeof checkKernel>

interface Kept {
  /** With spans in the text that it was first met in: that is its `source`. */
  readonly family: Checked
  readonly diagnostics: readonly Diagnostic[]
  readonly start: number
}

/**
 * Of one text and what becomes of it. Half a word may hide kernels, which come back when it is whole: what the latest texts had is
 * still there, what is older is dropped.
 */
export class KeptKernels {
  /** Of schedules, by target and values. */
  readonly designs = new Recent<ReadonlySet<string>>()
  readonly #kernels = new Recent<Kept>()
  /** The texts of all epilogues, which may call each other. */
  #epilogues = ''

  /** Before anything of a text is checked. */
  begin({ source, epilogues }: FileContext): void {
    this.#kernels.begin(TEXTS)
    this.designs.begin(TEXTS)
    this.#epilogues = Array.from(epilogues.values(), ({ span }) => source.text.slice(span.start, span.end)).join('\0')
  }

  /** `checkKernel`, unless it is known. Its diagnostics are about `file.source` in any case. */
  check(declaration: KernelDecl, file: FileContext): Checked {
    const { source, report, epilogues, kernels } = file
    const { start, end } = declaration.span
    const text = source.text.slice(start, end)
    const words = [...new Set(text.match(/\w+/g))]
    // Of other kernels it sees which names they have.
    const alone = [declaration.doc, text, ...words.filter((word) => kernels.has(word))].join('\0')
    const amongEpilogues = `${alone}\0${this.#epilogues}`
    const calls = words.some((word) => epilogues.has(word))
    const known = this.#kernels.find(amongEpilogues) ?? (calls ? undefined : this.#kernels.find(alone))
    if (known) {
      for (const diagnostic of known.diagnostics) report.add(movedDiagnostic(diagnostic, source, start - known.start))
      return known.family
    }
    const own = new Reporter()
    const family = checkKernel(declaration, { ...file, report: own })
    for (const diagnostic of own.diagnostics) report.add(diagnostic)
    // What points elsewhere does not move with the kernel.
    const inside = (span: Span): boolean => span.start >= start && span.end <= end
    const isMovable = own.diagnostics.every((diagnostic) => spansOf(diagnostic).every(inside))
    // Diagnostics may suggest names of epilogues.
    const key = calls || own.diagnostics.length > 0 ? amongEpilogues : alone
    if (isMovable) this.#kernels.set(key, { family, diagnostics: own.diagnostics, start })
    return family
  }
}

const spansOf = ({ span, labels, fix }: Diagnostic): readonly Span[] => [
  ...(span ? [span] : []),
  ...(labels ?? []).map((label) => label.span),
  ...(fix ? [fix.span] : []),
]
