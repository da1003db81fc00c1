/** Kernels, epilogues, schedules and whole files as Prettier documents: the one layout of `.ktl`. */
import type { Doc } from 'prettier'
import { builders } from 'prettier/doc'
import type {
  EpilogueDecl,
  Item,
  KernelDecl,
  Name,
  OperandDecl,
  Program,
  ScheduleDecl,
  ScheduleEntry,
  Span,
} from '../ast.ts'
import { statementDoc } from './expressions.ts'
import { printEpilogueParam, printOperandTail, printScheduleValue, printTensorType, printTypeParam } from './leaves.ts'
import { block, joinLines, linesOf, list } from './sequences.ts'
import { behind, commentText, Trivia } from './trivia.ts'

const { fill, group, hardline, indent, join, line } = builders

/** Longer results take a line for each output. */
const LONG_RESULT = 80

/** `text`: what the tree was parsed from, for blank lines; without it there is one between items. */
export function programDoc(program: Program, text: string | null): Doc {
  const trivia = new Trivia(program.comments, text)
  const lines = linesOf(program.items, Infinity, trivia, (item) => itemDoc(item, trivia))
  return lines.length === 0 ? '' : [joinLines(lines, trivia, text === null), hardline]
}

function itemDoc(item: Item, trivia: Trivia): Doc {
  switch (item.kind) {
    case 'kernel':
      return kernelDoc(item, trivia)
    case 'epilogue':
      return declaredEpilogueDoc(item, trivia)
    case 'schedule':
      return scheduleDoc(item, trivia)
  }
}

/** Where the `{` behind `from` stands. */
function bodyOf(from: number, body: readonly { readonly span: { start: number } }[], end: number, trivia: Trivia) {
  return { open: trivia.find('{', from, body[0]?.span.start ?? end), end }
}

/** Where the list of these elements ends. */
function closing(bracket: string, elements: readonly { readonly span: Span }[], trivia: Trivia): number {
  const end = elements.at(-1)?.span.end ?? 0
  return trivia.find(bracket, end, end)
}

function kernelDoc(kernel: KernelDecl, trivia: Trivia): Doc {
  const { name, typeParams, params, outputs, body, span } = kernel
  trivia.hoistBefore(name.span.end)
  const at = bodyOf(outputs.at(-1)?.span.end ?? name.span.end, body, span.end, trivia)
  const generics =
    typeParams.length === 0
      ? ''
      : list(['<', '>'], typeParams, closing('>', typeParams, trivia), trivia, printTypeParam)
  const inputs = list(['(', ')'], params, closing(')', params, trivia), trivia, operandDoc)
  const result = resultDoc(outputs, at.open, trivia, operandDoc, (output) => operandText(output))
  const accuracy = kernel.accuracy === null ? '' : `${kernel.accuracy} `
  const head = [`${accuracy}kernel ${name.text}`, generics, inputs, ' -> ', result]
  return block(head, body, at, trivia, (statement) => statementDoc(statement, trivia))
}

/**
 * One result, or several in parentheses. They break by themselves only when they are long: a header that is too long
 * breaks its operands first.
 */
function resultDoc<N extends { readonly span: Span }>(
  outputs: readonly N[],
  limit: number,
  trivia: Trivia,
  print: (output: N) => Doc,
  text: (output: N) => string,
): Doc {
  if (outputs.length === 1) {
    trivia.hoistBefore(outputs[0]!.span.end)
    const flat = text(outputs[0]!)
    return flat.length > LONG_RESULT ? print(outputs[0]!) : flat
  }
  const flat = `(${outputs.map(text).join(', ')})`
  const { result, commented } = trivia.commentedIn(() => list(['(', ')'], outputs, limit, trivia, print))
  return commented || flat.length > LONG_RESULT ? result : flat
}

const operandText = (operand: OperandDecl): string =>
  `${operand.name.text}: ${operand.alternatives.map(printTensorType).join(' | ')}${printOperandTail(operand)}`

function operandDoc(operand: OperandDecl): Doc {
  const [logical, ...others] = operand.alternatives.map(printTensorType)
  const orders = others.map((order): Doc => [line, `| ${order}`])
  return group([`${operand.name.text}: ${logical}`, indent(orders), printOperandTail(operand)])
}

function declaredEpilogueDoc(epilogue: EpilogueDecl, trivia: Trivia): Doc {
  const { params, body, span } = epilogue
  const outputs = epilogue.outputs ?? []
  const nameEnd = epilogue.name?.span.end ?? span.start
  trivia.hoistBefore(nameEnd)
  const at = bodyOf(outputs.at(-1)?.span.end ?? nameEnd, body, span.end, trivia)
  const inputs = list(['(', ')'], params, closing(')', params, trivia), trivia, printEpilogueParam)
  const text = (name: Name): string => name.text
  const head = [
    `epilogue ${epilogue.name?.text ?? ''}`,
    inputs,
    ' -> ',
    resultDoc(outputs, at.open, trivia, text, text),
  ]
  return block(head, body, at, trivia, (statement) => statementDoc(statement, trivia))
}

/** Names that are too many for a line have one each. */
function scheduleDoc({ kernels, target, entries, span }: ScheduleDecl, trivia: Trivia): Doc {
  trivia.hoistBefore(target.span.end)
  const at = bodyOf(target.span.end, entries, span.end, trivia)
  const names = kernels.map((name) => name.text)
  const head = group(['schedule ', indent(indent(join([',', line], names))), ` on ${target.text}`])
  return block(head, entries, at, trivia, (entry) => entryDoc(entry, trivia))
}

/** Alternatives fill the lines; those that the source begins a line with begin one here: rows of a table mean something. */
function entryDoc({ key, alternatives, span }: ScheduleEntry, trivia: Trivia): Doc {
  const parts: Doc[] = []
  alternatives.forEach((value, i) => {
    const next = alternatives[i + 1]
    if (i === 0) trivia.hoistBefore(value.span.start)
    const text = (i === 0 ? `${key.text} ` : '| ') + printScheduleValue(value)
    if (next === undefined) return void parts.push(text)
    const comment = behind(trivia.trailing(next.span.start))
    const above = trivia.before(next.span.start).map((own): Doc => [hardline, commentText(own)])
    const row = comment !== '' || above.length > 0 || trivia.lineBreakBetween(value.span.end, next.span.start)
    parts.push([text, comment, above], row ? hardline : line)
  })
  trivia.hoistBefore(span.end)
  return alternatives.length === 0 ? key.text : indent(fill(parts))
}
