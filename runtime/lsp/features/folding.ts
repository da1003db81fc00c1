/** What can be folded: brackets over several lines, and runs of comments. */
import { FoldingRangeKind, type FoldingRange } from 'vscode-languageserver'
import type { Analysis } from '../analysis.ts'

const CLOSER: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' }

export function folding(analysis: Analysis): FoldingRange[] {
  const { tokens, comments } = analysis.tokens
  const lineOf = (offset: number): number => analysis.document.positionAt(offset).line
  const ranges: FoldingRange[] = []
  const open: { readonly line: number; readonly closer: string }[] = []
  for (const { image, startOffset } of tokens) {
    const closer = CLOSER[image]
    if (closer !== undefined) open.push({ line: lineOf(startOffset), closer })
    else if (image === open.at(-1)?.closer) {
      const startLine = open.pop()!.line
      // The line of the closing bracket stays.
      const endLine = lineOf(startOffset) - 1
      if (endLine > startLine) ranges.push({ startLine, endLine })
    }
  }
  let from = -1
  comments.forEach(({ startOffset }, i) => {
    const line = lineOf(startOffset)
    const next = comments[i + 1]
    if (from < 0) from = line
    if (next && lineOf(next.startOffset) === line + 1) return
    if (line > from) ranges.push({ startLine: from, endLine: line, kind: FoldingRangeKind.Comment })
    from = -1
  })
  return ranges.sort((a, b) => a.startLine - b.startLine)
}
