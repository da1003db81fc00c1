/**
 * Pages and pictures that are made, not written: `npx tsx docs/make/main.ts` writes them; with `--check` it names those that differ from
 * what it would write, and ends with status 1. Timelines and the outputs of notebooks come from runs, with nvcc: `--timelines` and
 * `--notebooks` make them too.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { textMateGrammar } from '../../grammar/textmate.ts'
import { GALLERY, gallery } from '../gallery.ts'
import { classes } from './classes.ts'
import { commandLine } from './command_line.ts'
import { diagnostics } from './diagnostics.ts'
import { functions } from './functions.ts'
import { measurements } from './measurements.ts'
import { notebook, notebookFile, outputsOf, outputsThere, TUTORIALS } from './notebooks.ts'
import { pictures } from './pictures/index.ts'

const DOCS = path.join(import.meta.dirname, '..')
type Files = Readonly<Record<string, string>>

/** Texts of all files that are made, by their paths below docs/. */
/** `notebooks`: run them; else their outputs are those that are there. */
export async function madeFiles(timelines: boolean, notebooks: boolean): Promise<Files> {
  const pages = { 'command-line': commandLine(), functions: functions(), 'kernel-classes': classes(), measurements: measurements(), ...diagnostics() }
  return {
    ...Object.fromEntries(Object.entries(pages).map(([name, text]) => [`reference/${name}.md`, text])),
    ...Object.fromEntries(Object.entries(await pictures(timelines)).map(([name, text]) => [`pictures/${name}.svg`, text])),
    [path.relative(DOCS, GALLERY)]: gallery(),
    ...Object.fromEntries(TUTORIALS.map((name) => [path.relative(DOCS, notebookFile(name)), notebook(name, notebooks ? outputsOf(name) : outputsThere(name))])),
    '../editors/vscode/syntaxes/ktl.tmLanguage.json': `${JSON.stringify(textMateGrammar, null, 2)}\n`,
  }
} // prettier-ignore

/** Those that are not there, or differ. */
export function stale(files: Files): string[] {
  const isCurrent = (name: string): boolean => {
    const file = path.join(DOCS, name)
    return existsSync(file) && readFileSync(file, 'utf8') === files[name]
  }
  return Object.keys(files).filter((name) => !isCurrent(name))
}

async function main(): Promise<void> {
  const files = await madeFiles(process.argv.includes('--timelines'), process.argv.includes('--notebooks'))
  const names = stale(files)
  if (process.argv.includes('--check')) {
    for (const name of names) console.log(`docs/${name} is not what \`npx tsx docs/make/main.ts\` writes`)
    process.exitCode = names.length > 0 ? 1 : 0
    return
  }
  for (const name of names) {
    mkdirSync(path.dirname(path.join(DOCS, name)), { recursive: true })
    writeFileSync(path.join(DOCS, name), files[name]!)
    console.log(`docs/${name}`)
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
