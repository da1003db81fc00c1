/** Small pieces of Markdown. */

/** Text in a cell of a table: no line ends, and no bars. */
const cell = (text: string): string => text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|').trim()

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

/** A code block; its fence is longer than any in the text. */
export function block(language: string, text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([ticks]) => ticks.length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}${language}\n${text.trimEnd()}\n${fence}`
}

/** `text` as inline code, backticks in it or not. */
export const code = (text: string): string => (text.includes('`') ? `\`\` ${text} \`\`` : `\`${text}\``)

/** Prose as Markdown: what would be markup is text. Code in backticks stays. */
export const prose = (text: string): string =>
  text
    .split(/(`[^`]*`)/)
    .map((part, i) => (i % 2 === 1 ? part : escaped(part)))
    .join('')

const escaped = (text: string): string =>
  text
    .replaceAll(/[*[\]]|(?<!\w)_|_(?!\w)/g, '\\$&')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')

/** What stands at the head of a page that a program writes. */
export const made = 'Made by `npx tsx docs/make/main.ts`; a test compares.'
