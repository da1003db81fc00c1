/** What there is to say about the text of an epilogue at the place where it is written. */
import type { IToken } from 'chevrotain'
import { checkEpilogue, type EpilogueSignature } from '../../compiler/epilogue.ts'
import type { Span } from '../../grammar/ast.ts'
import type { Diagnostic } from '../../grammar/diagnostics.ts'
import { epilogueTokens, parseEpilogue } from '../../grammar/parse.ts'
import * as T from '../../grammar/tokens.ts'
import { DTYPE_NAMES, LITERAL_NAMES, type DTypeName } from '../../grammar/vocabulary.ts'
import { wrongBinding } from '../arguments/epilogue_names.ts'
import { FUNCTION_WORDS } from '../lsp/function_words.ts'
import { dtypeText, functionText, keywordText, ktlBlock } from '../lsp/texts.ts'
import type { BoundName, EpilogueCall } from './calls.ts'

export interface Offered {
  readonly label: string
  readonly kind: 'name' | 'function' | 'dtype' | 'word'
  readonly detail: string
  /** Markdown. */
  readonly text: string
}

export class EpilogueText {
  readonly diagnostics: readonly Diagnostic[]
  readonly #signature: EpilogueSignature
  readonly #tokens: readonly IToken[]
  readonly #comments: readonly IToken[]
  readonly #bound: ReadonlyMap<string, BoundName>

  constructor({
    written: { text },
    bound,
    isComplete,
  }: Pick<EpilogueCall, 'bound' | 'isComplete'> & { written: { text: string } }) {
    const source = { name: '<epilogue>', text }
    const { epilogue, diagnostics } = parseEpilogue(source)
    const checked = checkEpilogue(epilogue, source)
    const read = { source, declaration: epilogue, signature: checked.signature }
    const mayBeTensor = new Map([...bound].map(([name, { isNumber }]) => [name, !isNumber] as const))
    // As when the program runs, each step only looks at what passed the one before.
    const found = diagnostics.some(({ severity }) => severity === 'error') ? diagnostics : checked.diagnostics
    const wrong = found.length === 0 && isComplete ? wrongBinding(read, mayBeTensor) : null
    this.diagnostics = wrong ? [wrong] : found
    this.#signature = checked.signature
    const { tokens, comments } = epilogueTokens(text)
    this.#tokens = tokens
    this.#comments = comments
    this.#bound = bound
  }

  /** Of the word at an offset, its end included. */
  hover(offset: number): { readonly text: string; readonly span: Span } | null {
    const at = this.#tokens.findLast(
      (token) => token.startOffset <= offset && offset <= T.tokenEnd(token) && T.isA(token, T.Word),
    )
    if (!at) return null
    const next = this.#tokens[this.#tokens.indexOf(at) + 1]?.image
    const called = next === '(' || next === '[' ? functionText(at.image) : null
    const text = called ?? this.#nameText(at.image) ?? wordText(at.image)
    return text ? { text, span: T.tokenSpan(at) } : null
  }

  /** What may stand at an offset: names that are bound or assigned, functions, dtypes; nothing in comments. */
  completion(offset: number): readonly Offered[] {
    if (this.#comments.some((comment) => comment.startOffset < offset && offset <= T.tokenEnd(comment))) return []
    const { accumulator, inputs, slot, outputs, locals } = this.#signature
    // What is being written is no name yet.
    const written = [...inputs, ...outputs].filter(({ span }) => offset < span.start || span.end < offset)
    const named = [...written.map(({ name }) => name), ...locals, ...(slot === null ? [] : [slot])]
    const names = [...accumulator.slice(0, 1), ...this.#bound.keys(), ...named]
    return [
      ...[...new Set(names)]
        .filter((name) => name !== '')
        .map((label): Offered => ({
          label,
          kind: 'name',
          detail: this.#bound.get(label)?.type ?? 'epilogue',
          text: this.#nameText(label) ?? ktlBlock(label),
        })),
      ...FUNCTION_WORDS.map(({ label, detail, text }): Offered => ({ label, kind: 'function', detail, text })),
      ...DTYPE_NAMES.map((label): Offered => ({ label, kind: 'dtype', detail: 'cast', text: dtypeText(label) })),
      ...['return', ...LITERAL_NAMES].map((label): Offered => ({
        label,
        kind: 'word',
        detail: '',
        text: wordText(label) ?? '',
      })),
    ]
  }

  /** The word that a completion replaces. */
  wordAt(offset: number): Span {
    const at = this.#tokens.findLast((token) => token.startOffset <= offset && offset <= T.tokenEnd(token))
    return at && T.isA(at, T.Word) ? T.tokenSpan(at) : { start: offset, end: offset }
  }

  #nameText(name: string): string | null {
    const role = this.#roleText(name)
    const type = this.#bound.get(name)?.type
    if (role === null && type === undefined) return null
    return [
      ktlBlock(name),
      ...(role === null ? [] : [role]),
      ...(type === undefined ? [] : [`Bound here: \`${type}\``]),
    ].join('\n\n')
  }

  #roleText(name: string): string | null {
    const { accumulator, inputs, slot, outputs, locals } = this.#signature
    if (accumulator.includes(name)) return 'What the kernel has computed, before it is stored.'
    if (name === slot) return 'What goes to `out`.'
    if (outputs.some((output) => output.name === name))
      return 'A further output: its binding is the tensor that it goes to.'
    if (locals.includes(name)) return 'A value of the epilogue.'
    const input = inputs.find((one) => one.name === name)
    if (!input) return null
    if (input.mayBeAxis && !this.#bound.has(name))
      return 'The position along this axis of the output, as nothing is bound to it.'
    if (input.indexed) return 'A tensor that is read at indices.'
    const axes = input.axes ? ` of [${input.axes.join(', ')}]` : ''
    const otherwise = input.defaultValue ? `; ${input.defaultValue.text} where nothing is bound to it` : ''
    return `A tensor${axes}, or a number${otherwise}.`
  }
}

const wordText = (word: string): string | null =>
  (DTYPE_NAMES as readonly string[]).includes(word) ? dtypeText(word as DTypeName) : keywordText(word)
