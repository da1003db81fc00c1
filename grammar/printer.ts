/**
 * AST to canonical text. `parse(print(ast))` gives the same tree, and printing that again the same text. One layout
 * (format/) serves these functions, `ktl fmt` and the Prettier plugin.
 */
import type { Doc } from 'prettier'
import { printer } from 'prettier/doc'
import type { EpilogueDecl, Expr, Program, Statement } from './ast.ts'
import type { Diagnostic, Source } from './diagnostics.ts'
import { expressionDoc, statementDoc } from './format/expressions.ts'
import { programDoc } from './format/items.ts'
import { printEpilogueParam } from './format/leaves.ts'
import { Trivia } from './format/trivia.ts'
import { parseProgram } from './parse.ts'

export { printScheduleValue, printTensorType } from './format/leaves.ts'

/** Columns of a line. */
export const WIDTH = 120
const INDENT = '  '

const textOf = (doc: Doc, printWidth: number): string =>
  printer.printDocToString(doc, { printWidth, tabWidth: INDENT.length, useTabs: false, parentParser: 'ktl' }).formatted
const oneLine = (doc: (trivia: Trivia) => Doc): string => textOf(doc(new Trivia([], null)), Infinity)

/**
 * The canonical form of a `.ktl` text: comments and single blank lines kept, lines of at most 120 columns where the
 * language lets them break. `text` is null for a text with errors, which `diagnostics` then tell.
 */
export function formatProgram(source: Source): { text: string | null; diagnostics: readonly Diagnostic[] } {
  const { diagnostics } = parseProgram(source)
  if (diagnostics.some(({ severity }) => severity === 'error')) return { text: null, diagnostics }
  const text = source.text.replace(/^\uFEFF/, '').replaceAll(/\r\n?/g, '\n')
  return { text: textOf(programDoc(parseProgram({ ...source, text }).program, text), WIDTH), diagnostics }
}

/** A tree as text, with a blank line between items. */
export const printProgram = (program: Program): string => textOf(programDoc(program, null), WIDTH)

/** An epilogue string in its own spelling. */
export function printEpilogue(epilogue: EpilogueDecl): string {
  const statements = epilogue.body.map((statement, i) => {
    const line = printStatement(statement)
    // A line that begins with a sign would carry on the line above.
    return i > 0 && /^[-+]/.test(line) ? `(${line})` : line
  })
  if (epilogue.spelling !== 'def') return statements.join('\n')
  const body = statements.map((line) => `\n${INDENT}${INDENT}${line}`).join('')
  return `def ${epilogue.name?.text ?? ''}(${epilogue.params.map(printEpilogueParam).join(', ')}):${body}`
}

/** Without its doc comment, on one line. */
export const printStatement = (statement: Statement): string => oneLine((trivia) => statementDoc(statement, trivia))

/** On one line, with the parentheses that precedence needs and no others. */
export const printExpr = (expr: Expr): string => oneLine((trivia) => expressionDoc(expr, trivia))
