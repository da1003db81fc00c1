/** Notebooks of the tutorials are what nbformat 4.5 says, and their cells are programs. Their outputs: test/samples/tutorials.test.ts. */
import { transform } from 'esbuild'
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { cellsOf, notebookFile, TUTORIALS } from '../../docs/make/notebooks.ts'
import { integer, list, oneOf, record, text, type Shape } from '../../runtime/files/json_shape.ts'

const matching =
  (pattern: RegExp): Shape =>
  (value, path) => {
    text(value, path)
    expect(value, path).toMatch(pattern)
  }
const ID = matching(/^[a-zA-Z0-9-_]{1,64}$/)
const anObject = record({})
const common = { id: ID, metadata: anObject, source: list(text) }
const stream = record({ output_type: oneOf(['stream']), name: oneOf(['stdout']), text: list(text) })
const CELLS: Readonly<Record<string, Shape>> = {
  markdown: record(common),
  code: record({ ...common, execution_count: integer(1, 1000), outputs: list(stream) }),
}
const cell: Shape = (value, path) => {
  record({ cell_type: oneOf(Object.keys(CELLS)) })(value, path)
  CELLS[(value as { cell_type: string }).cell_type]!(value, path)
}
/** As far as these use it: nbformat.v4.5.schema.json allows no other fields. */
const NOTEBOOK = record({
  nbformat: integer(4, 4),
  nbformat_minor: integer(5, 5),
  metadata: record({ kernelspec: record({ name: text, display_name: text }), language_info: record({ name: text }) }),
  cells: list(cell),
})
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  markdown: ['cell_type', 'id', 'metadata', 'source'],
  code: ['cell_type', 'execution_count', 'id', 'metadata', 'outputs', 'source'],
}

interface Written {
  readonly cells: readonly { readonly id: string; readonly cell_type: string; readonly source: readonly string[] }[]
}

describe.each(TUTORIALS)('%s', (name) => {
  const written = JSON.parse(readFileSync(notebookFile(name), 'utf8')) as Written

  test('is a notebook of nbformat 4.5', () => {
    NOTEBOOK(written, 'notebook')
    for (const one of written.cells) expect(Object.keys(one).sort()).toEqual(FIELDS[one.cell_type])
    expect(new Set(written.cells.map(({ id }) => id)).size).toBe(written.cells.length)
    // Each line but the last ends with its newline.
    for (const { source } of written.cells) expect(source.every((line, i) => line.endsWith('\n') === (i < source.length - 1))).toBe(true) // prettier-ignore
  })

  test('each cell of code is a program by itself that knows nothing of a file', async () => {
    for (const { kind, text } of cellsOf(name)) {
      if (kind === 'markdown') continue
      expect(text).not.toContain('import.meta')
      await transform(text, { loader: 'ts', format: 'esm' })
    }
  })

  test('nothing of main.ts is lost: as many statements that print, wait or import', () => {
    const main = readFileSync(notebookFile(name).replace('notebook.ipynb', 'main.ts'), 'utf8')
    const cells = cellsOf(name).filter(({ kind }) => kind === 'code').map(({ text }) => text).join('\n') // prettier-ignore
    for (const word of [/console\.log/g, /\bawait\b/g, /from 'ktl'/g, /^(?:async )?function/gm])
      expect(cells.match(word)?.length).toBe(main.match(word)?.length)
  })
})
