/**
 * Diagnostics as text:
 *
 *     kernels/a.ktl:3:11: error KTL2001: unknown name `C`
 *       3 |   D = acc + C
 *         |             ^ not declared
 *       help: did you mean `B`?
 *
 * The first line is what editors and terminals make clickable. Lines with secondary labels are shown in source order.
 */
import type { Span } from './ast.ts'
import type { Diagnostic, Severity, Source } from './diagnostic.ts'
import { lineColumn, lineText } from './lines.ts'

/** How diagnostics look. */
export interface RenderOptions {
  /** ANSI colours; off by default. */
  readonly color?: boolean
}

const SGR = { bold: '1', red: '31;1', yellow: '33;1', blue: '34;1', cyan: '36;1', green: '32;1' } as const
type Style = keyof typeof SGR
const SEVERITY_STYLE: Readonly<Record<Severity, Style>> = { error: 'red', warning: 'yellow', note: 'cyan' }

/** Widest excerpt of a source line, in columns; longer lines are cut around the label. */
const MAX_WIDTH = 100
const TAB = '  '

/**
 * One diagnostic with its place, a code frame, help and fix.
 *
 * @example
 * try {
 *   new EpilogueArguments('relu(acc')
 * } catch (error) {
 *   console.log(renderDiagnostic((error as KtlError).diagnostics[0]!))
 * }
 */
export function renderDiagnostic(diagnostic: Diagnostic, options: RenderOptions = {}): string {
  const { code, severity, source, span } = diagnostic
  const paint = (style: Style, text: string): string => (options.color ? `\x1b[${SGR[style]}m${text}\x1b[0m` : text)
  const place = source === null ? '' : `${printable(source.name)}${span === null ? '' : position(source, span)}: `
  const head = `${place}${paint(SEVERITY_STYLE[severity], `${severity} ${code}`)}: ${printable(diagnostic.message)}`
  const lines = [paint('bold', head)]
  if (source !== null && span !== null && source.text.length > 0) lines.push(...frame(diagnostic, source, span, paint))
  for (const note of diagnostic.notes ?? []) lines.push(...indented('note', note, paint))
  if (diagnostic.help !== undefined) lines.push(...indented('help', diagnostic.help, paint))
  const { fix } = diagnostic
  if (fix !== undefined && source !== null) {
    lines.push(
      `  ${paint('green', 'fix')}: ${printable(fix.description)}`,
      ...fixed(source, fix.span, fix.replacement, paint),
    )
  }
  return lines.join('\n')
}

/**
 * All diagnostics, a blank line between.
 *
 * @example
 * try {
 *   new EpilogueArguments('relu(acc')
 * } catch (error) {
 *   console.log(renderDiagnostics((error as KtlError).diagnostics, { color: false }))
 * }
 */
export function renderDiagnostics(diagnostics: readonly Diagnostic[], options: RenderOptions = {}): string {
  return diagnostics.map((d) => renderDiagnostic(d, options)).join('\n\n')
}

/** The text with the fixes of all diagnostics applied; overlapping fixes: the first. */
export function applyFixes(source: Source, diagnostics: readonly Diagnostic[]): string {
  const fixes = diagnostics.flatMap((d) => (d.fix === undefined ? [] : [d.fix]))
  let text = ''
  let at = 0
  for (const { span, replacement } of fixes.sort((a, b) => a.span.start - b.span.start)) {
    if (span.start < at) continue
    text += source.text.slice(at, span.start) + replacement
    at = span.end
  }
  return text + source.text.slice(at)
}

type Paint = (style: Style, text: string) => string

function position(source: Source, span: Span): string {
  const { line, column } = lineColumn(source, span.start)
  return `:${line}:${column}`
}

function indented(title: string, text: string, paint: Paint): string[] {
  const [first = '', ...rest] = text.split('\n').map(printable)
  return [`  ${paint('cyan', title)}: ${first}`, ...rest.map((line) => ' '.repeat(title.length + 4) + line)]
}

interface Mark {
  readonly line: number
  /** UTF-16 columns from 0 within the line, half open. */
  readonly from: number
  readonly to: number
  readonly text: string
  readonly primary: boolean
}

function frame(diagnostic: Diagnostic, source: Source, span: Span, paint: Paint): string[] {
  const marks = [
    toMark(source, span, diagnostic.label ?? '', true),
    ...(diagnostic.labels ?? []).map((label) => toMark(source, label.span, label.text, false)),
  ].sort((a, b) => a.line - b.line || b.from - a.from)
  const gutter = String(Math.max(...marks.map((m) => m.line))).length
  const side = (label: string): string => paint('blue', `  ${label.padStart(gutter)} |`)
  const style = SEVERITY_STYLE[diagnostic.severity]

  const lines: string[] = []
  let shown = 0
  for (const mark of marks) {
    const excerpt = cut(lineText(source, mark.line), mark.from, mark.to)
    if (mark.line !== shown) {
      if (shown > 0 && mark.line > shown + 1) lines.push(paint('blue', `  ${'.'.repeat(gutter)}`))
      lines.push(`${side(String(mark.line))} ${excerpt.text}`.trimEnd())
      shown = mark.line
    }
    const underline = (mark.primary ? '^' : '-').repeat(excerpt.length)
    const label = mark.text === '' ? '' : ` ${printable(mark.text)}`
    lines.push(`${side('')} ${' '.repeat(excerpt.offset)}${paint(mark.primary ? style : 'blue', underline + label)}`)
  }
  return lines
}

/** A mark covers one line: spans over several are marked to the end of their first. */
function toMark(source: Source, span: Span, text: string, primary: boolean): Mark {
  const { line, column } = lineColumn(source, span.start)
  const length = lineText(source, line).length
  const from = Math.min(column - 1, length)
  return { line, from, to: Math.max(from, Math.min(from + span.end - span.start, length)), text, primary }
}

/** The part of a line around a mark, fit to print, and where the mark is in it. */
function cut(line: string, from: number, to: number): { text: string; offset: number; length: number } {
  let start = 0
  let end = line.length
  if (line.length > MAX_WIDTH) {
    start = Math.max(0, Math.min(from - 20, line.length - MAX_WIDTH))
    end = Math.min(line.length, start + MAX_WIDTH)
  }
  const before = (start > 0 ? '…' : '') + printable(line.slice(start, from))
  const marked = printable(line.slice(from, Math.min(to, end)))
  const after = printable(line.slice(Math.min(to, end), end)) + (end < line.length ? '…' : '')
  return { text: before + marked + after, offset: width(before), length: Math.max(1, width(marked)) }
}

/** The line as the fix makes it, if the fix stays within one line. */
function fixed(source: Source, span: Span, replacement: string, paint: Paint): string[] {
  const { line, column } = lineColumn(source, span.start)
  const text = lineText(source, line)
  const end = column - 1 + span.end - span.start
  if (end > text.length || text.length > MAX_WIDTH || replacement.includes('\n')) return []
  const after = text.slice(0, column - 1) + replacement + text.slice(end)
  if (after.trim() === '') return []
  return [`${paint('blue', `  ${line} |`)} ${paint('green', printable(after.trimEnd()))}`]
}

/** Tabs as blanks; control and direction characters as a box, so that no source text can act on the terminal. */
function printable(text: string): string {
  return text
    .replaceAll('\t', TAB)
    .replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, '\u25a1')
}

/** Columns on a terminal: code points, East Asian wide ones twice, combining marks not at all. */
function width(text: string): number {
  let columns = 0
  for (const char of text) {
    if (/\p{M}/u.test(char)) continue
    columns +=
      /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u.test(
        char,
      )
        ? 2
        : 1
  }
  return columns
}
