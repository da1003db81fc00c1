/** Every export of the package has a comment, every value an example that runs and prints what it says. */
import { mkdtempSync, rmSync } from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as ktl from '../../runtime/index.ts'
import { part } from '../cases_of.ts'
import { ROOT } from '../root.ts'
import { exampleOf, exportsOf } from './exports.ts'
import { promisedBy, runCode } from './run_code.ts'
import { entryFrom, typeErrorsOf } from './type_check.ts'

const exported = exportsOf(path.join(ROOT, 'runtime/index.ts'))
const examples = exported.flatMap(({ name, doc, isType }) => (isType ? [] : [{ name, code: exampleOf(doc) ?? '' }]))

test('every export has a comment, and every value an example', () => {
  expect(exported.filter(({ doc }) => doc === '').map(({ name }) => name)).toEqual([])
  expect(examples.filter(({ code }) => code === '').map(({ name }) => name)).toEqual([])
})

test('nothing is exported that these tests do not see', () => {
  expect(Object.keys(ktl).sort()).toEqual(examples.map(({ name }) => name).sort())
})

let device: ktl.Device
let folder: string
beforeAll(async () => {
  device = await ktl.openDevice('virtual-sm100')
  folder = mkdtempSync(path.join(os.tmpdir(), 'ktl-docs-'))
})
afterAll(async () => {
  await device.close()
  rmSync(folder, { recursive: true, force: true })
})

/** What a call of `console.log` at each line printed. */
const run = (code: string): ReturnType<typeof runCode> => runCode(code, { ...ktl, device, folder })

test('examples type-check', () => {
  const names = examples.map(({ name }) => name).join(', ')
  const types = exported.filter(({ isType }) => isType).map(({ name }) => name).join(', type ') // prettier-ignore
  const text = [
    `import { ${names}, type ${types} } from '${entryFrom(folder)}'`,
    'declare const device: Device',
    'declare const folder: string',
    ...examples.map(({ name, code }) => `export async function example_${name}() {\n${code}\n}`),
  ]
  expect(typeErrorsOf(folder, { examples: text.join('\n') })).toEqual([])
})

describe('examples', () => {
  // They count every kernel there is.
  test.each(part(examples, ['countKernels', 'KtlProvider', 'compileKernel', 'launchKernel']))(
    '$name',
    async ({ name, code }) => {
      // An example is about what it stands at.
      expect(code).toMatch(new RegExp(`\\b${name === 'CompiledArtifact' ? 'Artifact' : name}\\b`))
      const printed = await run(code)
      expect(printed.length).toBeGreaterThan(0)
      for (const { line, printed: text } of printed) {
        const promised = promisedBy(line)
        if (promised !== undefined) expect(text).toBe(promised)
        expect(text).not.toContain('undefined')
      }
    },
  )
})
