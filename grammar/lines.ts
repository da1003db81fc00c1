/** Offsets to lines and columns. */
import type { Source } from './diagnostic.ts'

const tables = new WeakMap<Source, number[]>()

/** Offsets at which the lines of a source begin; `\n`, `\r\n` and `\r` end lines. */
export function lineStarts(source: Source): readonly number[] {
  let starts = tables.get(source)
  if (starts === undefined) {
    starts = [0]
    for (const match of source.text.matchAll(/\r\n|\r|\n/g)) starts.push(match.index + match[0].length)
    tables.set(source, starts)
  }
  return starts
}

/** Line and column of a UTF-16 offset, both from 1. Offsets behind the end give the end. */
export function lineColumn(source: Source, offset: number): { line: number; column: number } {
  const starts = lineStarts(source)
  const at = Math.max(0, Math.min(offset, source.text.length))
  let low = 0
  let high = starts.length
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (starts[middle]! <= at) low = middle
    else high = middle
  }
  return { line: low + 1, column: at - starts[low]! + 1 }
}

/** Text of a line (from 1), without its line break. */
export function lineText(source: Source, line: number): string {
  const starts = lineStarts(source)
  const start = starts[line - 1]
  if (start === undefined) return ''
  return source.text.slice(start, starts[line] ?? source.text.length).replace(/[\r\n]+$/, '')
}
