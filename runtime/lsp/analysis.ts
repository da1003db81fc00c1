/** What is known of one version of a document. The front end runs once; the rest is worked out when a feature asks. */
import type { IToken } from 'chevrotain'
import type { TextDocument } from 'vscode-languageserver-textdocument'
import type { Range } from 'vscode-languageserver'
import type { KernelFamily } from '../../compiler/family.ts'
import type { EpilogueDecl, Item, KernelDecl, Program, Span } from '../../grammar/ast.ts'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import { LIMITS } from '../../grammar/limits.ts'
import { programLexer } from '../../grammar/tokens.ts'
import { checkSource, KeptText } from '../programs/check_source.ts'
import { bind, type Bindings } from './bindings.ts'
import { keyOf, valuesOf, type Value } from './values.ts'

export class Analysis {
  readonly document: TextDocument
  readonly version: number
  readonly source: Source
  readonly program: Program
  readonly epilogues: ReadonlyMap<string, EpilogueDecl>
  /** As `ktl check` prints them. */
  readonly diagnostics: readonly Diagnostic[]
  readonly #families: ReadonlyMap<string, KernelFamily>
  #bindings: Bindings | undefined
  #tokens: { readonly tokens: readonly IToken[]; readonly comments: readonly IToken[] } | undefined

  constructor(document: TextDocument, kept: KeptText) {
    this.document = document
    this.version = document.version
    this.source = { name: document.uri, text: document.getText() }
    const { program, diagnostics } = checkSource(this.source, kept)
    this.program = program.program
    this.epilogues = program.epilogues
    this.diagnostics = diagnostics
    this.#families = new Map(program.kernels.map((family) => [family.name, family]))
  }

  get bindings(): Bindings {
    return (this.#bindings ??= bind(this.program))
  }

  /** Of the lexer, with newlines; none of a text that is longer than the language allows. */
  get tokens(): { readonly tokens: readonly IToken[]; readonly comments: readonly IToken[] } {
    if (this.#tokens) return this.#tokens
    const { text } = this.source
    const { tokens, groups } = programLexer.tokenize(text.length > LIMITS.sourceLength ? '' : text)
    return (this.#tokens = { tokens, comments: groups['comments'] ?? [] })
  }

  itemAt(offset: number): Item | undefined {
    return this.program.items.find(({ span }) => span.start <= offset && offset <= span.end)
  }

  kernelNamed(name: string): KernelDecl | undefined {
    return this.program.items.find((item) => item.kind === 'kernel' && item.name.text === name) as KernelDecl
  }

  /** Of a kernel without errors. */
  familyOf(kernel: KernelDecl): KernelFamily | undefined {
    return this.#families.get(kernel.name.text)
  }

  /** What the checker made of an expression; undefined in kernels with errors, and where nothing reads it. */
  valueAt(kernel: KernelDecl, { start, end }: Span): Value | undefined {
    const family = this.familyOf(kernel)
    if (!family) return undefined
    // The family may have been checked before an edit above it.
    const by = family.declaration.span.start - kernel.span.start
    return valuesOf(family).get(keyOf({ start: start + by, end: end + by }))
  }

  textOf({ start, end }: Span): string {
    return this.source.text.slice(start, end)
  }

  rangeOf({ start, end }: Span): Range {
    return { start: this.document.positionAt(start), end: this.document.positionAt(end) }
  }
}

/** Analyses of the open documents: one for each version. */
export class Analyses {
  readonly #known = new Map<string, { readonly kept: KeptText; analysis: Analysis | null }>()

  of(document: TextDocument): Analysis {
    const known = this.#known.get(document.uri) ?? { kept: new KeptText(), analysis: null }
    this.#known.set(document.uri, known)
    if (known.analysis?.version !== document.version) known.analysis = new Analysis(document, known.kept)
    return known.analysis
  }

  close(uri: string): void {
    this.#known.delete(uri)
  }
}
