/** Every export of the package has a comment, every value an example that runs and prints what it says. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import * as os from 'node:os'
import path from 'node:path'
import { inspect } from 'node:util'
import { transformSync } from 'esbuild'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as ktl from '../../runtime/index.ts'
import { ROOT } from '../runtime/cli.ts'
import { exampleOf, exportsOf } from './exports.ts'

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

const AsyncFunction = (async () => {}).constructor as new (
  ...source: string[]
) => (...values: unknown[]) => Promise<void>

/** What a call of `console.log` at each line printed. */
async function run(code: string): Promise<{ readonly line: string; readonly printed: string }[]> {
  const lines = code.split('\n')
  const numbered = lines.map((line, i) => line.replace('console.log(', `print(${i}, `)).join('\n')
  const body = transformSync(`async function example() {\n${numbered}\n}`, { loader: 'ts', target: 'node20' }).code
  const found: { line: string; printed: string }[] = []
  const print = (line: number, ...values: unknown[]): void => {
    const printed = values.map((value) => (typeof value === 'string' ? value : inspect(value))).join(' ')
    found.push({ line: lines[line]!, printed })
  }
  const scope: Record<string, unknown> = { ...ktl, device, folder, print }
  await new AsyncFunction(...Object.keys(scope), `${body}\nawait example()`)(...Object.values(scope))
  return found
}

test('examples type-check', () => {
  const place = path.relative(folder, ROOT)
  const names = examples.map(({ name }) => name).join(', ')
  const types = exported.filter(({ isType }) => isType).map(({ name }) => name).join(', type ') // prettier-ignore
  const text = [
    `import { ${names}, type ${types} } from '${place}/runtime/index.ts'`,
    'declare const device: Device',
    'declare const folder: string',
    ...examples.map(({ name, code }) => `export async function example_${name}() {\n${code}\n}`),
  ]
  writeFileSync(path.join(folder, 'examples.mts'), text.join('\n'))
  const compilerOptions = {
    noEmit: true,
    noUnusedLocals: false,
    rootDir: '/',
    typeRoots: [path.join(ROOT, 'node_modules/@types')],
  }
  const config = { extends: path.join(ROOT, 'tsconfig.json'), compilerOptions, include: [], files: ['examples.mts'] }
  writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify(config))
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc')
  const { stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' })
  expect(stdout.split('\n').filter((line) => line.includes('examples.mts'))).toEqual([])
  expect(stdout).not.toContain('error TS5')
})

describe('examples', () => {
  test.each(examples)('$name', async ({ name, code }) => {
    // An example is about what it stands at.
    expect(code).toMatch(new RegExp(`\\b${name === 'CompiledArtifact' ? 'Artifact' : name}\\b`))
    const printed = await run(code)
    expect(printed.length).toBeGreaterThan(0)
    for (const { line, printed: text } of printed) {
      const [, promised] = /\) \/\/ (.*)$/.exec(line) ?? []
      if (promised !== undefined) expect(text).toBe(promised)
      expect(text).not.toContain('undefined')
    }
  })
})
