/**
 * Parsing again after an edit. A text is cut into pieces where lines begin like items, each with the comments above it; a piece that
 * was parsed before is not parsed again.
 *
 * The whole parser stands between two items at the end of a piece without mistakes, whatever comes behind. What it makes of a piece
 * with mistakes depends on what follows: so that is parsed together with the next piece without mistakes. Where this one comes out as
 * it does alone, the parser has found its way, and all behind is as if it stood alone, too. Else the rest of the text is one piece.
 */
import type { Program } from './ast.ts'
import type { Diagnostic, Source } from './diagnostic.ts'
import { LIMITS } from './limits.ts'
import { moved, movedDiagnostic } from './moved.ts'
import { parseProgram } from './parse.ts'
import { Recent } from './recent.ts'

interface Parsed {
  readonly program: Program
  readonly diagnostics: readonly Diagnostic[]
}

/** How many texts before the latest are remembered. */
const TEXTS = 4

/** `kernel`, `approx kernel`, `epilogue`, `schedule` at the beginning of a line; the slot is no item. */
const ITEM_LINE = /(?<=^|\n)(?:(?:approx|precise)[ \t]+kernel|kernel|schedule|epilogue(?![ \t]*\())\b/g
/** Brackets that are open above such a line end there: layout.ts. */
const CLEAR_START =
  /^(?:(?:approx|precise)[ \t]+)?(?:kernel[ \t]+\w+[ \t]*[(<]|epilogue[ \t]+\w+[ \t]*\(|schedule[ \t]+\w+[ \t]+on\b)/
/** Comments and blanks alone. */
const isTrivia = (text: string): boolean => text.replace(/\/\/[^\n\r]*/g, '').trim() === ''

/** Where pieces begin, 0 first. */
function cuts(text: string): number[] {
  const found = [0]
  for (const { index } of text.matchAll(ITEM_LINE)) {
    let start = index
    while (start > found.at(-1)!) {
      // The character before `start` ends the line above.
      const above = text.slice(0, start - 1).lastIndexOf('\n') + 1
      if (!isTrivia(text.slice(above, start))) break
      start = above
    }
    if (start > found.at(-1)!) found.push(start)
  }
  return found
}

/** With one of these nothing else is said of a text, or not everything. */
const REFUSALS = new Set(['KTL1018', 'KTL1020', 'KTL1021'])

export class KeptPieces {
  /** By text, as if it were all. */
  readonly #alone = new Recent<Parsed>()
  /** By text and place: before an edit nothing moves. */
  readonly #placed = new Recent<Parsed>()

  /** What `parseProgram` makes of it. Trees of pieces that have not moved are those of the text before. */
  parse(source: Source): { program: Program; diagnostics: readonly Diagnostic[] } {
    const { text } = source
    if (text.length > LIMITS.sourceLength) return parseProgram(source)
    this.#alone.begin(TEXTS)
    this.#placed.begin(TEXTS)
    const pieces = this.#pieces(text)
    const diagnostics = pieces.flatMap(({ start, text }) =>
      this.#parsed(text).diagnostics.map((diagnostic) => movedDiagnostic(diagnostic, source, start)),
    )
    if (diagnostics.length >= LIMITS.diagnostics || diagnostics.some(({ code }) => REFUSALS.has(code)))
      return parseProgram(source)
    const programs = pieces.map(({ start, text }) => this.#at(start, text).program)
    const items = programs.flatMap((program) => program.items)
    const comments = programs.flatMap((program) => program.comments)
    return { program: { kind: 'program', items, comments, span: { start: 0, end: text.length } }, diagnostics }
  }

  #parsed(text: string): Parsed {
    const known = this.#alone.find(text)
    if (known) return known
    const parsed = parseProgram({ name: '', text })
    this.#alone.set(text, parsed)
    return parsed
  }

  #at(start: number, text: string): Parsed {
    const key = `${start}\0${text}`
    const known = this.#placed.find(key)
    if (known) return known
    const { program, diagnostics } = this.#parsed(text)
    const placed = { program: moved(program, start), diagnostics }
    this.#placed.set(key, placed)
    return placed
  }

  /** What to parse together. */
  #pieces(text: string): { readonly start: number; readonly text: string }[] {
    const starts = cuts(text)
    const between = (from: number, to: number): string => text.slice(starts[from], starts[to])
    const isClean = (i: number): boolean => this.#isClean(between(i, i + 1))
    const found: { readonly start: number; readonly text: string }[] = []
    for (let from = 0, to = 0; from < starts.length; from = to) {
      to = from + 1
      if (!isClean(from)) {
        while (to < starts.length && !(isClean(to) && this.#isClear(between(to, to + 1)))) to++
        to = to < starts.length && this.#recovers(between(from, to + 1), between(to, to + 1)) ? to + 1 : starts.length
      }
      found.push({ start: starts[from]!, text: between(from, to) })
    }
    return found
  }

  /** No mistakes, and nothing behind the last item: at the end of a text a `;` would pass. */
  #isClean(text: string): boolean {
    const { program, diagnostics } = this.#parsed(text)
    return diagnostics.length === 0 && isTrivia(text.slice(program.items.at(-1)?.span.end ?? 0))
  }

  /** Of a text without mistakes: no bracket above it is open in it. */
  #isClear(text: string): boolean {
    const [first] = this.#parsed(text).program.items
    return first !== undefined && CLEAR_START.test(text.slice(first.span.start))
  }

  /** Whether `text`, which ends with `last`, ends with the items of `last`, too; a mistake above may be noticed at the first word. */
  #recovers(text: string, last: string): boolean {
    const by = text.length - last.length
    const items = this.#parsed(last).program.items
    const { program, diagnostics } = this.#parsed(text)
    const first = items[0]!.span.start + by
    if (diagnostics.some(({ span }) => span === null || span.start > first)) return false
    return JSON.stringify(program.items.slice(-items.length)) === JSON.stringify(moved(items, by))
  }
}
