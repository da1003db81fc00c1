/** Layouts that several constructs share: lists in brackets, chains of operators, blocks of lines. */
import type { Doc } from 'prettier'
import { builders } from 'prettier/doc'
import type { Comment, Span } from '../ast.ts'
import { behind, commentText, type Trivia } from './trivia.ts'

const { group, hardline, indent, join, line, literalline, softline } = builders

interface Spanned {
  readonly span: Span
}

/**
 * `open a, b close`: on one line, or a line for each element with its comments. `limit`: comments before it belong to
 * the list.
 */
export function list<N extends Spanned>(
  [open, close]: readonly [Doc, string],
  elements: readonly N[],
  limit: number,
  trivia: Trivia,
  print: (element: N) => Doc,
): Doc {
  if (elements.length === 0) return [open, close]
  const rows = elements.map((element, i): Doc => {
    const above = trivia.before(element.span.start)
    const { result, hoisted } = trivia.collect(() => {
      const printed = print(element)
      trivia.hoistBefore(element.span.end)
      return printed
    })
    const next = elements[i + 1]
    const comments = [...above, ...hoisted].flatMap((comment): Doc[] => [commentText(comment), hardline])
    return [comments, result, next ? ',' : '', behind(trivia.trailing(next?.span.start ?? limit))]
  })
  const rest = trivia.before(limit).map((comment): Doc => [hardline, commentText(comment)])
  return group([open, indent([softline, join(line, rows), rest]), softline, close])
}

/**
 * `a`, `op b`, `op c`: on one line, or each on its own, the operators in front. Comments between two parts go before
 * the operator: a line of its own that begins with an operator carries the statement on.
 */
export function chain<N extends Spanned>(
  parts: readonly { readonly node: N; readonly op: string }[],
  trivia: Trivia,
  print: (node: N) => Doc,
): Doc[] {
  return parts.map(({ node, op }, i): Doc => {
    if (i === 0) return print(node)
    const { start } = node.span
    const first = behind(trivia.trailing(start))
    const above = trivia.before(start).map((comment): Doc => [hardline, commentText(comment)])
    return [first, above, line, op, ' ', print(node)]
  })
}

/** Lines of a block or file. */
export interface Line {
  readonly doc: Doc
  readonly start: number
  readonly end: number
  /** A `///` that no node took: a blank line keeps it from the node below. */
  readonly looseDoc?: boolean
  readonly takesDoc?: boolean
}

/** Nodes of a block with their comments, in order. `limit`: the end of the block. Comments may be too many to spread. */
export function linesOf<N extends Spanned & { readonly doc?: string | null }>(
  nodes: readonly N[],
  limit: number,
  trivia: Trivia,
  print: (node: N) => Doc,
): Line[] {
  const lines: Line[] = []
  nodes.forEach((node, i) => {
    const start = docStart(node, trivia.text)
    const above = trivia.before(start)
    for (const comment of above) lines.push(commentLine(comment))
    const ignored = trivia.text !== null && above.at(-1)?.text.trim() === 'prettier-ignore'
    const { result, hoisted } = ignored
      ? { result: verbatim(trivia.text, start, node.span.end, trivia), hoisted: [] }
      : trivia.collect(() => [docLines(node.doc ?? null), print(node)])
    // Hoisted comments stand where the node does.
    const at = { start, end: start }
    for (const comment of hoisted) lines.push({ ...commentLine(comment), ...at })
    const trailing = trivia.trailing(nodes[i + 1]?.span.start ?? limit)
    const end = trailing?.span.end ?? node.span.end
    lines.push({ doc: [result, behind(trailing)], start, end, takesDoc: node.doc !== undefined })
  })
  for (const comment of trivia.before(limit)) lines.push(commentLine(comment))
  return lines
}

const commentLine = (comment: Comment): Line => ({
  doc: commentText(comment),
  start: comment.span.start,
  end: comment.span.end,
  looseDoc: comment.doc,
})

function verbatim(text: string, start: number, end: number, trivia: Trivia): Doc {
  trivia.before(end)
  return join(literalline, text.slice(start, end).split('\n'))
}

/** A hardline between two lines, two where the source has a blank line or more, or below nodes that stand `apart`. */
export function joinLines(lines: readonly Line[], trivia: Trivia, apart = false): Doc {
  return lines.map(({ doc, start, takesDoc }, i): Doc => {
    const above = lines[i - 1]
    if (above === undefined) return doc
    const blank =
      trivia.blankLineBetween(above.end, start) || (takesDoc ? above.looseDoc : false) || (apart && above.takesDoc)
    return [hardline, blank ? hardline : '', doc]
  })
}

/** `head { … }`: on one line where the source begins it there and it fits, else a line for each node. */
export function block<N extends Spanned & { readonly doc?: string | null }>(
  head: Doc,
  nodes: readonly N[],
  { open, end }: { readonly open: number; readonly end: number },
  trivia: Trivia,
  print: (node: N) => Doc,
): Doc {
  const first = nodes[0]
  const opening = behind(trivia.trailing(first?.span.start ?? end))
  const lines = linesOf(nodes, end, trivia, print)
  if (lines.length === 0) return [head, ' {', opening, opening === '' ? '' : hardline, '}']
  const oneLine =
    nodes.length === 1 && trivia.text !== null && !trivia.lineBreakBetween(open, docStart(first!, trivia.text))
  const body = [line, joinLines(lines, trivia)]
  return group([head, ' {', opening, indent(body), line, '}'], { shouldBreak: !oneLine })
}

function docLines(doc: string | null): Doc {
  if (doc === null) return ''
  return doc.split('\n').map((row): Doc => [row === '' ? '///' : `/// ${row}`, hardline])
}

/** Where the doc comment of a node begins: as many lines above it as the doc has. */
function docStart({ span, doc }: Spanned & { readonly doc?: string | null }, text: string | null): number {
  if (text === null || doc === null || doc === undefined) return span.start
  let start = span.start
  for (let row = doc.split('\n').length; row > 0; row--) start = text.lastIndexOf('\n', start - 1)
  return text.lastIndexOf('\n', start - 1) + 1
}
