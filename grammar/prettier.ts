/**
 * The Prettier plugin, `ktl/prettier`: `plugins: ['ktl/prettier']` formats `.ktl` files, and ktl code blocks in
 * Markdown. The layout is that of `ktl fmt`; only the width of lines follows Prettier's options (default 120).
 */
import type { AstPath, Doc, ParserOptions, Parser, Printer, SupportLanguage } from 'prettier'
import type { Program, Span } from './ast.ts'
import type { Diagnostic, Source } from './diagnostics.ts'
import { programDoc } from './format/items.ts'
import { lineColumn } from './lines.ts'
import { parseProgram } from './parse.ts'
import { WIDTH } from './printer.ts'

/** The whole file: the layout places the comments, so Prettier must not. */
interface File {
  readonly kind: 'file'
  readonly program: Program
  readonly text: string
  readonly span: Span
}

export const languages: SupportLanguage[] = [
  { name: 'KTL', parsers: ['ktl'], extensions: ['.ktl'], vscodeLanguageIds: ['ktl'] },
]

const parser: Parser<File> = {
  astFormat: 'ktl',
  locStart: ({ span }) => span.start,
  locEnd: ({ span }) => span.end,
  /** A text with errors is refused with the first of them, and stays as it is. */
  parse(text: string, options?: ParserOptions): File {
    const source = { name: options?.filepath ?? '<ktl>', text }
    const { program, diagnostics } = parseProgram(source)
    const error = diagnostics.find(({ severity }) => severity === 'error')
    if (error) throw syntaxError(error, source)
    return { kind: 'file', program, text, span: program.span }
  },
}

const printer: Printer<File> = {
  print: ({ node }: AstPath<File>): Doc => programDoc(node.program, node.text),
}

export const parsers: Record<'ktl', Parser<File>> = { ktl: parser }
export const printers: Record<'ktl', Printer<File>> = { ktl: printer }
export const defaultOptions: { readonly printWidth: number; readonly tabWidth: number } = {
  printWidth: WIDTH,
  tabWidth: 2,
}

/** As Prettier expects it: with `loc` it shows the lines around. */
function syntaxError({ code, message, help, span }: Diagnostic, source: Source): SyntaxError {
  const at = span ?? { start: 0, end: 0 }
  const text = `${code}: ${message}${help === undefined ? '' : `\n${help}`}`
  const loc = { start: lineColumn(source, at.start), end: lineColumn(source, Math.max(at.end, at.start + 1)) }
  return Object.assign(new SyntaxError(text), { loc, code })
}
