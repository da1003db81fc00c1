/** Helpers for tables of wrong programs: one line of input, the whole text that is printed. */
import { expect } from 'vitest'
import type { Diagnostic, Source } from '../../grammar/diagnostics.ts'
import { parseEpilogue, parseProgram } from '../../grammar/parse.ts'
import { renderDiagnostics } from '../../grammar/render.ts'

export type Check = (source: Source) => readonly Diagnostic[]

export const programSyntax: Check = (source) => parseProgram(source).diagnostics
export const epilogueSyntax: Check = (source) => parseEpilogue(source).diagnostics

/** What a terminal shows for `text`, diagnostics separated by blank lines. The source is named `a.ktl`. */
export function rendered(text: string, check: Check = programSyntax, name = 'a.ktl'): string {
  return renderDiagnostics(check({ name, text }))
}

/** Asserts the whole rendered text of all diagnostics. Common indentation of `expected` does not count. */
export function expectDiagnostics(text: string, expected: string, check: Check = programSyntax, name = 'a.ktl'): void {
  expect(rendered(text, check, name)).toBe(dedent(expected))
}

/** Asserts that there is nothing to say about `text`. */
export function expectClean(text: string, check: Check = programSyntax): void {
  expect(rendered(text, check)).toBe('')
}

/** Removes the first line break, the last line's blanks, and the indentation that all lines share. */
export function dedent(text: string): string {
  const lines = text
    .replace(/^\n/, '')
    .replace(/\n[ \t]*$/, '')
    .split('\n')
  const indents = lines.filter((line) => line.trim() !== '').map((line) => /^ */.exec(line)![0].length)
  const shared = Math.min(...indents)
  return lines.map((line) => line.slice(shared)).join('\n')
}

export interface Case {
  readonly kind: string
  readonly input: string
  readonly expected: string
}

/** Reads a table of cases: `=== kind`, the input, `---`, the whole rendered text. Text before the first case is prose. */
export function readCases(table: string): Case[] {
  return table
    .split(/^=== /m)
    .slice(1)
    .map((part) => {
      const [, kind, input, expected] = /^(.*)\n([^]*?)\n---\n([^]*)$/.exec(part) ?? []
      if (kind === undefined || input === undefined || expected === undefined) throw new Error(`not a case: ${part}`)
      return { kind, input, expected: expected.trimEnd() }
    })
}
