/** Texts that a program of TypeScript writes as literals, and where each of their characters stands. */
import type ts from '@typescript/typescript6'

type TypeScript = typeof ts

export interface WrittenText {
  readonly text: string
  /** Position in the file of each UTF-16 unit of `text`, and of its end. */
  readonly positions: readonly number[]
  /** Between the quotes; several where literals are added up. */
  readonly pieces: readonly ts.TextRange[]
}

/** The offset in the text of a position in the file; null: it is not between the quotes. */
export function offsetIn({ text, positions, pieces }: WrittenText, position: number): number | null {
  if (!pieces.some(({ pos, end }) => pos <= position && position <= end)) return null
  const offset = positions.findIndex((at) => at >= position)
  return offset < 0 ? text.length : offset
}

/** The place in the file of a span of the text. */
export function rangeOf({ positions }: WrittenText, { start, end }: { start: number; end: number }): ts.TextSpan {
  const first = positions[Math.min(start, positions.length - 1)]!
  const last = end > start ? positions[Math.min(end, positions.length - 1)]! : first
  return { start: first, length: last - first }
}

/**
 * Of a string, a template without substitutions, a sum of these, or a `const` of the same file that is one. Null for everything that
 * is only known when the program runs.
 */
export function writtenText(ts: TypeScript, expression: ts.Expression, checker: ts.TypeChecker): WrittenText | null {
  if (ts.isParenthesizedExpression(expression)) return writtenText(ts, expression.expression, checker)
  if (ts.isStringLiteralLike(expression)) return ofLiteral(expression)
  if (ts.isBinaryExpression(expression) && expression.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    const left = writtenText(ts, expression.left, checker)
    const right = left && writtenText(ts, expression.right, checker)
    if (!right) return null
    return {
      text: left.text + right.text,
      positions: [...left.positions.slice(0, -1), ...right.positions],
      pieces: [...left.pieces, ...right.pieces],
    }
  }
  if (!ts.isIdentifier(expression)) return null
  const declared = checker.getSymbolAtLocation(expression)?.valueDeclaration
  if (!declared || !ts.isVariableDeclaration(declared) || !declared.initializer) return null
  const isConst = (ts.getCombinedNodeFlags(declared) & ts.NodeFlags.Const) !== 0
  // A constant that is made of another may be made of itself.
  if (!isConst || declared.getSourceFile() !== expression.getSourceFile() || ts.isIdentifier(declared.initializer))
    return null
  return ts.isStringLiteralLike(declared.initializer) ? ofLiteral(declared.initializer) : null
}

/** An escape, a line's end, or a character. */
const UNIT = /\\(?:u\{([0-9a-fA-F]+)\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|(\r\n|[\n\r\u2028\u2029])|[^])|\r\n|[^]/g

function ofLiteral(literal: ts.StringLiteralLike): WrittenText | null {
  const [pos, end] = [literal.getStart() + 1, literal.getEnd() - 1]
  const positions: number[] = []
  for (const match of literal.getSourceFile().text.slice(pos, end).matchAll(UNIT)) {
    const [, codePoint, continuation] = match
    // A continued line adds nothing; a code point beyond U+FFFF is two units.
    const units = continuation !== undefined ? 0 : codePoint && parseInt(codePoint, 16) > 0xffff ? 2 : 1
    for (let i = 0; i < units; i++) positions.push(pos + match.index)
  }
  // A literal that is not closed yet, or has escapes that are no longer allowed.
  if (positions.length !== literal.text.length) return null
  return { text: literal.text, positions: [...positions, end], pieces: [{ pos, end }] }
}
