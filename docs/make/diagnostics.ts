/** The catalogue of diagnostics as pages: one for each range of codes, and a list of all. What `ktl explain` says. */
import { catalogue, RANGES, RETIRED, type Entry } from '../../grammar/catalogue/index.ts'
import { exampleText, reportOf } from '../../runtime/cli/commands/explain.ts'
import { block, made, prose, table } from './markdown.ts'

const entries = Object.entries<Entry<any>>(catalogue)
const ranges = RANGES.map(({ from, title, entries: own }) => ({
  title,
  digits: String(from).slice(0, 2),
  file: `diagnostics-${title.toLowerCase().replaceAll(/[^a-z]+/g, '-')}`,
  codes: entries.filter(([code]) => Object.hasOwn(own, code)),
}))

function entryText(code: string, entry: Entry<any>): string {
  const { title, explain, severity = 'error', wrong, right } = entry
  const language = (example: object): string => ('ktl' in example || 'epilogue' in example ? 'ktl' : 'command' in example ? 'sh' : 'cuda' in example ? 'cpp' : 'ptx' in example ? 'txt' : 'ts') // prettier-ignore
  const parts = [`## ${code}`, `**${prose(title)}** (${severity}). ${prose(explain)}`]
  if (wrong) parts.push('Wrong:', block(language(wrong), exampleText(wrong)))
  const report = wrong && reportOf(wrong, code)
  if (report) parts.push(block('txt', report))
  if (right) parts.push('Right:', block(language(right), exampleText(right)))
  return parts.join('\n\n')
}

/** Pages by their names. */
export function diagnostics(): Readonly<Record<string, string>> {
  const pages = ranges.map(({ title, file, codes }) => {
    const list = [...codes].sort(([a], [b]) => a.localeCompare(b)).map(([code, entry]) => entryText(code, entry))
    const head = `# Diagnostics: ${title}\n\n[All codes](diagnostics.md). ${made}`
    return [file, `${[head, ...list].join('\n\n')}\n`] as const
  })
  const lists = ranges.map(({ title, file, codes }) => {
    const rows = [...codes].sort(([a], [b]) => a.localeCompare(b)).map(([code, { title, severity = 'error' }]) => [`[${code}](${file}.md#${code.toLowerCase()})`, prose(title), severity]) // prettier-ignore
    return `## ${title[0]!.toUpperCase()}${title.slice(1)}\n\n${table(['code', 'what', ''], rows)}`
  })
  const index = `# Diagnostics

Every mistake that ktl finds has a code, and says where it is, what was expected and often how to mend it. \`npx ktl explain CODE\` shows the same
as these pages. Tests run the examples: each wrong one gives its code, no right one does. ${made}

${lists.join('\n\n')}

Out of use, because what they refused is part of the language now: ${RETIRED.join(', ')}.
`
  return { ...Object.fromEntries(pages), diagnostics: index }
}
