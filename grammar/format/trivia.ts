/**
 * What the tree does not hold: comments and blank lines. The printer passes over the tree in source order and asks for
 * the comments it meets; one that stands where no line may break is hoisted above its statement or item.
 */
import type { Doc } from 'prettier'
import { builders } from 'prettier/doc'
import type { Comment, Program } from '../ast.ts'

export class Trivia {
  /** Comments inside the node being printed that found no place in it. */
  hoisted: Comment[] = []
  /** Without it there are no blank lines to keep, and blocks take a line for each statement. */
  readonly text: string | null
  private next = 0
  private readonly comments: readonly Comment[]

  constructor(comments: Program['comments'], text: string | null) {
    this.comments = comments
    this.text = text
  }

  /** The comments not yet taken that begin before `offset`. */
  before(offset: number): Comment[] {
    const first = this.next
    while (this.next < this.comments.length && this.comments[this.next]!.span.start < offset) this.next++
    return this.comments.slice(first, this.next)
  }

  /** The next comment before `limit`, if it stands behind something on its line. */
  trailing(limit: number): Comment | null {
    const comment = this.comments[this.next]
    if (comment === undefined || comment.ownLine || comment.span.start >= limit) return null
    this.next++
    return comment
  }

  hoistBefore(offset: number): void {
    for (const comment of this.before(offset)) this.hoisted.push(comment)
  }

  /** What `print` gives, and the comments that it hoisted. */
  collect<T>(print: () => T): { result: T; hoisted: Comment[] } {
    const outer = this.hoisted
    this.hoisted = []
    const result = print()
    const { hoisted } = this
    this.hoisted = outer
    return { result, hoisted }
  }

  /** Whether `print` took comments, besides what it gives. */
  commentedIn<T>(print: () => T): { result: T; commented: boolean } {
    const first = this.next
    const result = print()
    return { result, commented: this.next > first }
  }

  /** Offset of `character` behind `from`, outside comments; `otherwise` when the text is not known. */
  find(character: string, from: number, otherwise: number): number {
    if (this.text === null) return otherwise
    let i = from
    for (let k = this.next; k < this.comments.length; k++) {
      const { span } = this.comments[k]!
      if (span.start < i) continue
      const found = this.text.slice(i, span.start).indexOf(character)
      if (found >= 0) return i + found
      i = span.end
    }
    const found = this.text.indexOf(character, i)
    return found < 0 ? otherwise : found
  }

  lineBreakBetween(start: number, end: number): boolean {
    return this.text?.slice(start, end).includes('\n') ?? false
  }

  blankLineBetween(start: number, end: number): boolean {
    return /\n[^\S\n]*\n/.test(this.text?.slice(start, end) ?? '')
  }
}

export const commentText = ({ doc, text }: Comment): string => `${doc ? '///' : '//'}${text.trimEnd()}`

/** Behind what was printed last on its line; the line ends there. */
export const behind = (comment: Comment | null): Doc =>
  comment === null ? '' : [builders.lineSuffix(` ${commentText(comment)}`), builders.breakParent]
