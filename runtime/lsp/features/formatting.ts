/** Formatting, as `ktl fmt` does it. */
import type { TextEdit } from 'vscode-languageserver'
import { formatProgram } from '../../../grammar/printer.ts'
import type { Analysis } from '../analysis.ts'

/** One edit of what differs; none of a text with syntax errors. */
export function formatting(analysis: Analysis): TextEdit[] {
  const { source } = analysis
  const { text } = formatProgram(source)
  if (text === null || text === source.text) return []
  const longest = Math.min(text.length, source.text.length)
  let start = 0
  while (start < longest && text[start] === source.text[start]) start++
  let tail = 0
  while (tail < longest - start && text.at(-1 - tail) === source.text.at(-1 - tail)) tail++
  const range = analysis.rangeOf({ start, end: source.text.length - tail })
  return [{ range, newText: text.slice(start, text.length - tail) }]
}
