/**
 * Notebooks of the tutorials: the prose of README.md, and main.ts in cells, one for each of its headings. Outputs are those of the cells
 * run in order as one program; functions, which main.ts has at its end, come before what calls them.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const FOLDER = path.join(import.meta.dirname, '../../samples/tutorials')
export const TUTORIALS = readdirSync(FOLDER).sort()

/** Printed behind each cell. */
const MARK = '\u001e'

export interface Cell {
  readonly kind: 'markdown' | 'code'
  readonly text: string
}

const read = (name: string, file: string): string => readFileSync(path.join(FOLDER, name, file), 'utf8')

/** What a module knows and a notebook does not: where it is. Kernels of Jupyter run in the notebook's folder. */
const placed = (text: string): string =>
  text
    .replaceAll(
      /fileURLToPath\(new URL\(('[^']+'), import\.meta\.url\)\)|new URL\(('[^']+'), import\.meta\.url\)/g,
      '$1$2',
    )
    .replace("import { fileURLToPath } from 'node:url'\n", '')

/** A heading in main.ts. */
const HEADING = /^\/\/ --- (.*) ---\n/m
/** With its comment. */
const FUNCTION = /^(?:\/\*\*(?:[^*]|\*(?!\/))*\*\/\n)?(?:async )?function [^]*?^\}.*\n/gm

export function cellsOf(name: string): Cell[] {
  const code = (text: string): Cell[] => (text.trim() === '' ? [] : [{ kind: 'code', text: text.trim() }])
  const markdown = (text: string): Cell => ({ kind: 'markdown', text: text.trim() })
  const program = placed(read(name, 'main.ts'))
    .replace(/^\/\*\*[^]*?\*\/\n/, '')
    .replace(/ *\/\/ prettier-ignore$/gm, '')
  const functions = program.match(FUNCTION) ?? []
  const [first = '', ...sections] = program.replace(FUNCTION, '').split(HEADING)
  // The command of the page runs main.ts.
  const [title = '', ...prose] = read(name, 'README.md').replace(/```sh\n[^]*?```\n/, '').split('\n') // prettier-ignore
  const steps = sections.flatMap((text, i) => (i % 2 === 0 ? [markdown(`## ${text}`)] : code(text)))
  const made = `Made from [main.ts](main.ts) by \`npx tsx docs/make/main.ts --notebooks\`, in TypeScript with \`await\` at the top: a kernel such as Deno's runs it where \`ktl\` is installed.`
  return [markdown(`${title}\n\n${made}\n${prose.join('\n')}`), ...code(first), ...code(functions.join('\n')), ...steps]
}

/** What the cells of code print, in a process of their own, against the package that is built. Throws where they fail. */
export function outputsOf(name: string): string[] {
  const cells = cellsOf(name).filter(({ kind }) => kind === 'code')
  const file = path.join(FOLDER, name, `notebook-${process.pid}.ts`)
  const mark = `\nprocess.stdout.write(${JSON.stringify(MARK)})\n`
  writeFileSync(file, `${cells.map(({ text }) => text).join(mark)}${mark}`)
  try {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', file], {
      cwd: path.dirname(file),
      encoding: 'utf8',
    })
    if (status !== 0 || stderr !== '') throw new Error(`the notebook of ${name} fails: ${stderr}`)
    return stdout.split(MARK).slice(0, -1)
  } finally {
    rmSync(file)
  }
}

export const notebookFile = (name: string): string => path.join(FOLDER, name, 'notebook.ipynb')

/** Those that stand in the notebook that is there: '' for each cell without one. */
export function outputsThere(name: string): string[] {
  if (!existsSync(notebookFile(name))) return []
  const { cells } = JSON.parse(readFileSync(notebookFile(name), 'utf8')) as Notebook
  return cells.filter(({ cell_type }) => cell_type === 'code').map(({ outputs = [] }) => outputs.flatMap(({ text }) => text).join('')) // prettier-ignore
}

interface Notebook {
  readonly cells: readonly {
    readonly cell_type: string
    readonly outputs?: readonly { readonly text: readonly string[] }[]
  }[]
}

/** Lines with their ends, as nbformat has them. */
const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? []

/** nbformat 4.5. `outputs`: of each cell of code. */
export function notebook(name: string, outputs: readonly string[]): string {
  let count = 0
  const cells = cellsOf(name).map(({ kind, text }, i) => {
    const common = { cell_type: kind, id: `${kind}-${i}`, metadata: {}, source: linesOf(text) }
    if (kind === 'markdown') return common
    const output = outputs[count++] ?? ''
    const shown = output === '' ? [] : [{ name: 'stdout', output_type: 'stream', text: linesOf(output) }]
    return { ...common, execution_count: count, outputs: shown }
  })
  const metadata = {
    kernelspec: { display_name: 'Deno', language: 'typescript', name: 'deno' },
    language_info: { file_extension: '.ts', mimetype: 'text/x.typescript', name: 'typescript' },
  }
  return `${JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }, null, 1)}\n`
}
