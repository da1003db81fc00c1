/** Builds CUDA text line by line, with indentation, remembering where each line came from. */
import type { Span } from '../../grammar/ast.ts'
import type { SourceMapEntry } from './generated.ts'

/** What a line is for; absent fields are null in the source map. */
export interface LineOrigin {
  readonly ktl?: Span | null
  readonly role?: string | null
  readonly note?: string | null
}

const INDENT = '  '

export class SourceBuilder {
  readonly #lines: string[] = []
  readonly #map: SourceMapEntry[] = []
  #depth = 0

  /** Appends one line, or several when `text` has newlines; blank lines are not indented. */
  line(text = '', origin?: LineOrigin): this {
    const indent = INDENT.repeat(this.#depth)
    for (const line of text.split('\n')) {
      this.#lines.push(line === '' ? '' : indent + line)
      if (origin) this.#map.push(entry(this.#lines.length, origin))
    }
    return this
  }

  lines(texts: Iterable<string>, origin?: LineOrigin): this {
    for (const text of texts) this.line(text, origin)
    return this
  }

  /** `header {` (or `{` alone), the body indented, `}` (or another closing line). */
  block(header: string, body: () => void, origin?: LineOrigin, close = '}'): this {
    this.line(header === '' ? '{' : `${header} {`, origin)
    this.indented(body)
    return this.line(close)
  }

  indented(body: () => void): this {
    this.#depth++
    body()
    this.#depth--
    return this
  }

  get sourceMap(): readonly SourceMapEntry[] {
    return this.#map
  }

  toString(): string {
    return this.#lines.join('\n') + '\n'
  }
}

function entry(cudaLine: number, { ktl = null, role = null, note = null }: LineOrigin): SourceMapEntry {
  return { cudaLine, ktl, role, note }
}

/**
 * Text that may stand in a CUDA comment: no end of comment, no line continuation (a trailing backslash or a trigraph
 * for it), ASCII only, one line.
 */
export function commentText(text: string): string {
  return text
    .replace(/[^\x20-\x7e]+/g, ' ')
    .replace(/\\/g, '/')
    .replace(/\?\?/g, '? ?')
    .replace(/\*\//g, '* /')
    .replace(/\/\*/g, '/ *')
    .trim()
}
