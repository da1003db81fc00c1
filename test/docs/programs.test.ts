/** TypeScript on the pages: the blocks of a page are one program, which type-checks, runs and prints what its comments say. */
import * as fs from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import * as ktl from '../../runtime/index.ts'
import { blocksOf, WRITTEN } from './pages.ts'
import { promisedBy, runCode } from './run_code.ts'
import { entryFrom, typeErrorsOf } from './type_check.ts'

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ktl-programs-'))
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

const IMPORT = /^import \{[^}]*\} from '(ktl|node:fs|node:os|node:path)'\n/gm
const programs = WRITTEN.flatMap((page) => {
  const blocks = blocksOf(page).filter(({ language, directive }) => language === 'ts' && !directive?.startsWith('not run'))
  return blocks.length === 0 ? [] : [{ page, code: blocks.map(({ text }) => text).join('\n') }]
}) // prettier-ignore

test('they type-check', () => {
  const modules = programs.map(({ page, code }) => {
    const imported = [...code.matchAll(IMPORT)].map(([line]) => line.replace("'ktl'", `'${entryFrom(folder)}'`))
    return [page.replaceAll(/\W/g, '_'), `${imported.join('')}export {}\n${code.replaceAll(IMPORT, '')}`] as const
  })
  expect(typeErrorsOf(folder, Object.fromEntries(modules))).toEqual([])
})

/** What pages import. */
const { default: _, ...scope } = { ...path, ...os, ...fs, ...ktl } as Readonly<Record<string, unknown>>

describe('they run', () => {
  test.each(programs)('$page', async ({ code }) => {
    const printed = await runCode(code.replaceAll(IMPORT, ''), { ...scope })
    for (const { line, printed: text } of printed) if (promisedBy(line) !== undefined) expect(text).toBe(promisedBy(line)) // prettier-ignore
  })
})
